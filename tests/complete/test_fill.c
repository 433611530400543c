// SPDX-License-Identifier: MIT
// Work in the background on tiny models: what it prepares is not evaluated again, it never stands in a request's way, and no answer depends on it.
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "../model/lab.h"
#include "base/clock.h"
#include "typist.h"

struct bench {
	const char *model;
	struct parser_worker *parser;
	struct engine *engine;
	_Atomic int loaded;
};

static void take_loaded(void *user, enum err err, const struct err_msg *msg, const struct model_info *info) {
	struct bench *b = user;
	(void)msg, (void)info;
	assert_int_equal(err, ERR_OK);
	atomic_store(&b->loaded, 1);
}

static void sleep_ms(long ms) {
	nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

static void bench_open(struct bench *b, const char *model, const struct engine_options *o) {
	*b = (struct bench){.model = model};
	assert_int_equal(parser_worker_create(&b->parser), ERR_OK);
	assert_int_equal(engine_create(o, b->parser, take_loaded, b, &b->engine), ERR_OK);
	while (!atomic_load(&b->loaded))
		sleep_ms(1);
}

static void bench_close(struct bench *b) {
	engine_destroy(b->engine);
	parser_worker_destroy(b->parser);
	unlink(b->model);
}

static void wait_quiet(struct bench *b) {
	for (int i = 0; i < 600000 && !engine_is_quiet(b->engine); i++)
		sleep_ms(1);
	assert_true(engine_is_quiet(b->engine));
}

struct answer {
	_Atomic int n_answers;
	struct complete_result result; // without the suggestion's text
	char text[1024];
};

static void take_answer(void *user, const struct complete_result *r) {
	struct answer *a = user;
	a->result = *r;
	snprintf(a->text, sizeof a->text, "%.*s", (int)r->suggestion.text_bytes, r->suggestion.text ? r->suggestion.text : "");
	atomic_fetch_add(&a->n_answers, 1);
}

static void submit(struct bench *b, const char *text, size_t offset, uint64_t document, struct answer *a) {
	struct snapshot *s = snapshot_create(text, strlen(text), true);
	struct complete_request r = {.snapshot = s, .offset = offset, .trigger = TRIGGER_INVOKED, .document = document, .received_us = clock_us()};
	*a = (struct answer){0};
	assert_true(engine_submit(b->engine, &r, document * 2, take_answer, a) > 0);
	snapshot_unref(s);
}

static const struct complete_result *wait_answer(struct answer *a) {
	for (int i = 0; i < 600000 && atomic_load(&a->n_answers) == 0; i++)
		sleep_ms(1);
	assert_int_equal(atomic_load(&a->n_answers), 1);
	return &a->result;
}

static const struct complete_result *ask(struct bench *b, const char *text, size_t offset, uint64_t document, struct answer *a) {
	submit(b, text, offset, document, a);
	return wait_answer(a);
}

static void fill(struct bench *b, const char *text, size_t offset, uint64_t document, bool opened) {
	struct snapshot *s = snapshot_create(text, strlen(text), true);
	engine_fill(b->engine, s, offset, document, opened, false);
	snapshot_unref(s);
}

// n lines of 14 bytes, and so 14 tokens.
static char *lines(int n) {
	char *text = calloc(1, (size_t)n * 14 + 200);
	assert_non_null(text);
	for (int i = 0; i < n; i++)
		sprintf(text + strlen(text), "abc_%03d = %03d\n", i % 1000, (i * 7) % 1000);
	return text;
}

static struct engine_options options(const char *model, int context) {
	struct engine_options o = typist_options(model);
	o.max_context_tokens = context;
	o.chunk_tokens = 64;
	return o;
}

#define LINE(text, n) ((size_t)(n) * 14)

// After an opened file has been filled, a request anywhere evaluates only its suffix, the lines since the anchor, and a seam.
static void a_filled_file_is_a_prefix(void **state) {
	(void)state;
	struct bench b;
	struct answer a;
	const char *model = typist_model(1);
	struct engine_options o = options(model, 4000);
	bench_open(&b, model, &o);
	char *text = lines(200);
	fill(&b, text, 0, 1, true);
	wait_quiet(&b);
	for (int line = 17; line < 200; line += 41) {
		const struct complete_result *r = ask(&b, text, LINE(text, line) + 9, 1, &a);
		assert_true(r->new_tokens <= 16 * 14 + 14 + 16 * 14 + 40);
		assert_true(r->hit_tokens >= line / 16 * 16 * 14 - 2);
		assert_true(line > 17 ? r->background_tokens <= 1000 : r->background_tokens >= 200 * 14 - 40);
		wait_quiet(&b);
		assert_int_equal(r->window, false);
	}
	free(text);
	bench_close(&b);
}

// Files that come one after another are all there.
static void ten_files_stay(void **state) {
	(void)state;
	struct bench b;
	struct answer a;
	const char *model = typist_model(2);
	struct engine_options o = options(model, 1200);
	o.kv_budget_bytes = (size_t)64 << 20;
	bench_open(&b, model, &o);
	char *text = lines(60);
	for (int i = 0; i < 10; i++) {
		text[0] = (char)('a' + i);
		fill(&b, text, 0, (uint64_t)i + 1, true);
	}
	wait_quiet(&b);
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < 10; i++) {
			text[0] = (char)('a' + i);
			const struct complete_result *r = ask(&b, text, LINE(text, 50) + 9, (uint64_t)i + 1, &a);
			assert_true(r->new_tokens <= (round ? 0 : 16 * 14 * 2 + 60));
			assert_int_equal(r->origin, round ? ORIGIN_MEMO : ORIGIN_DECODER);
		}
	free(text);
	bench_close(&b);
}

// What somebody sees first comes from a short window, the next key from the whole prompt, which costs itself only.
static void a_window_answers_first(void **state) {
	(void)state;
	struct bench b;
	struct answer a;
	const char *model = typist_slow_model(3);
	struct engine_options o = options(model, 2500);
	o.cpu_flags = typist_slow_flags();
	o.deadline_ms = 300000;
	bench_open(&b, model, &o);
	char *text = lines(140);
	const struct complete_result *r = ask(&b, text, LINE(text, 120) + 9, 1, &a);
	assert_int_equal(r->window, true);
	assert_true(r->prompt_tokens <= 512);
	wait_quiet(&b);
	char *typed = malloc(strlen(text) + 2);
	assert_non_null(typed);
	sprintf(typed, "%.*sa%s", (int)(LINE(text, 120) + 9), text, text + LINE(text, 120) + 9);
	r = ask(&b, typed, LINE(typed, 120) + 10, 1, &a);
	assert_int_equal(r->window, false);
	assert_true(r->background_tokens > 1000);
	assert_true(r->hit_tokens >= 112 * 14 - 2);
	assert_true(r->new_tokens < 16);
	free(typed);
	free(text);
	bench_close(&b);
}

static void without_a_deadline_the_whole_prompt_answers(void **state) {
	(void)state;
	struct bench b;
	struct answer a;
	const char *model = typist_slow_model(3);
	struct engine_options o = options(model, 1500);
	o.cpu_flags = typist_slow_flags();
	bench_open(&b, model, &o);
	char *text = lines(60);
	const struct complete_result *r = ask(&b, text, LINE(text, 50) + 9, 0, &a);
	assert_int_equal(r->window, false);
	assert_true(r->new_tokens > 700);
	free(text);
	bench_close(&b);
}

// After an answer was shown, the state behind it is there: the prompt then is evaluated already but for a token or two.
static void the_state_behind_a_suggestion_is_prepared(void **state) {
	(void)state;
	int n_shown = 0;
	for (uint64_t seed = 1; seed <= 6; seed++) {
		struct bench b;
		struct answer a, next;
		const char *model = typist_model(seed);
		struct engine_options o = options(model, 1000);
		bench_open(&b, model, &o);
		const char *text = "def ab(c):\n    return c\n\n\ndef fa(abc):\n    ";
		const struct complete_result *r = ask(&b, text, strlen(text), 1, &a);
		wait_quiet(&b);
		if (r->outcome == OUTCOME_SHOWN) {
			char accepted[2048];
			snprintf(accepted, sizeof accepted, "%s%s", text, a.text);
			r = ask(&b, accepted, strlen(accepted), 1, &next);
			assert_true(r->new_tokens <= 1); // the last token again, for its logits
			n_shown++;
		}
		bench_close(&b);
	}
	assert_true(n_shown > 1);
}

// Requests come first, whatever is going on in the background, and get the answers that they get without it.
static void requests_come_first(void **state) {
	(void)state;
	struct bench b, plain;
	struct answer a, want;
	const char *model = typist_slow_model(4), *other = typist_slow_model(4);
	struct engine_options o = options(model, 4000), p = options(other, 4000);
	bench_open(&b, model, &o);
	bench_open(&plain, other, &p);
	char *text = lines(250);
	for (int i = 0; i < 12; i++) {
		char small[64];
		snprintf(small, sizeof small, "def ab_%d(c):\n    return ", i);
		text[0] = (char)('a' + i);
		fill(&b, text, LINE(text, 100), 1 + (uint64_t)(i % 3), true);
		sleep_ms(i);
		const struct complete_result *r = ask(&b, small, strlen(small), 100, &a);
		assert_true(r->background_tokens < 3000); // it did not wait for a file
		ask(&plain, small, strlen(small), 0, &want);
		assert_string_equal(a.text, want.text);
		if (i % 4 == 3)
			engine_fill_end(b.engine, 1 + (uint64_t)(i % 3));
	}
	free(text);
	bench_close(&b); // in the middle of it
	bench_close(&plain);
}

static void a_closed_document_is_left_alone(void **state) {
	(void)state;
	struct bench b;
	struct answer a;
	const char *model = typist_slow_model(5);
	struct engine_options o = options(model, 4000);
	o.cpu_flags = typist_slow_flags();
	bench_open(&b, model, &o);
	char *text = lines(250);
	fill(&b, text, 0, 1, true);
	sleep_ms(20);
	engine_fill_end(b.engine, 1);
	wait_quiet(&b); // seconds of work otherwise
	const struct complete_result *r = ask(&b, "ab = ", 5, 0, &a);
	assert_true(r->background_tokens < 2000);
	submit(&b, "ab = c", 6, 2, &a);
	engine_fill_end(b.engine, 2);
	wait_answer(&a);
	wait_quiet(&b);
	free(text);
	bench_close(&b);
}

// Keys at random with work in the background between them: each answer is that of a fresh process.
static void answers_are_those_of_a_fresh_process(void **state) {
	(void)state;
	static struct typist t;
	struct bench b;
	struct answer a = {0};
	const char *model = typist_model(7);
	struct engine_options o = typist_options(model);
	struct err_msg msg;
	bench_open(&b, model, &o);
	typist_init(&t, "def ab(c):\n    return c\n\n\nclass Ed:\n    def fa(self):\n        self.a = 0\n        ", 900, 9);
	for (int i = 0; i < 600 / lab_fewer(); i++) {
		struct completer *fresh;
		struct complete_result want;
		typist_act(&t, a.result.suggestion.replace_bytes ? "" : a.text);
		t.now.text[t.now.n] = 0;
		if (i % 3 == 0)
			fill(&b, t.now.text, t.now.cursor, 1 + (uint64_t)(i % 2), i % 9 == 0);
		const struct complete_result *r = ask(&b, t.now.text, t.now.cursor, 1, &a);
		assert_int_equal(completer_create(&o, b.parser, &fresh, &msg), ERR_OK);
		struct snapshot *s = snapshot_create(t.now.text, t.now.n, true);
		complete_run(fresh, &(struct complete_request){.snapshot = s, .offset = t.now.cursor, .trigger = TRIGGER_INVOKED, .received_us = clock_us()}, &want);
		snapshot_unref(s);
		completer_destroy(fresh);
		assert_int_equal(r->outcome, want.outcome);
		assert_int_equal(r->stop, want.stop);
		assert_string_equal(a.text, want.suggestion.text_bytes ? want.suggestion.text : "");
		complete_result_finish(&want);
	}
	bench_close(&b);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_filled_file_is_a_prefix),
		cmocka_unit_test(ten_files_stay),
		cmocka_unit_test(a_window_answers_first),
		cmocka_unit_test(without_a_deadline_the_whole_prompt_answers),
		cmocka_unit_test(the_state_behind_a_suggestion_is_prepared),
		cmocka_unit_test(requests_come_first),
		cmocka_unit_test(answers_are_those_of_a_fresh_process),
		cmocka_unit_test(a_closed_document_is_left_alone),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
