// SPDX-License-Identifier: MIT
// Deadlines and superseding on tiny models: what is shown in time is whole lines of the full answer, and keys that come faster than a prefill neither stop
// it nor make it begin again.
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

static const char block[] = "def ab(c):\n    return c\n\n\ndef fa(abc):\n    ";

struct desk {
	struct parser_worker *parser;
	struct completer *completer;
};

static void desk_open(struct desk *d, const struct engine_options *o) {
	struct err_msg msg;
	assert_int_equal(parser_worker_create(&d->parser), ERR_OK);
	if (completer_create(o, d->parser, &d->completer, &msg) != ERR_OK)
		fail_msg("%s", msg.text);
}

static void desk_close(struct desk *d) {
	completer_destroy(d->completer);
	parser_worker_destroy(d->parser);
}

static void ask(struct desk *d, const char *text, enum complete_trigger trigger, int64_t age_us, struct complete_result *out) {
	struct snapshot *snap = snapshot_create(text, strlen(text), true);
	struct complete_request r = {.snapshot = snap, .offset = strlen(text), .trigger = trigger, .received_us = clock_us() - age_us};
	complete_run(d->completer, &r, out);
	snapshot_unref(snap);
}

// A model whose answer to `block` has at least three lines.
static const char *talkative_model(struct engine_options *o, struct complete_result *full, const char *(*write)(uint64_t)) {
	for (uint64_t seed = 1; seed < 60; seed++) {
		const char *path = write(seed);
		struct desk d;
		*o = typist_options(path);
		desk_open(&d, o);
		ask(&d, block, TRIGGER_INVOKED, 0, full);
		desk_close(&d);
		int n_lines = 0;
		for (size_t i = 0; i < full->suggestion.text_bytes; i++)
			n_lines += full->suggestion.text[i] == '\n';
		if (n_lines >= 2)
			return path;
		complete_result_finish(full);
		unlink(path);
	}
	fail_msg("no seed gives a long answer");
	return NULL;
}

static bool whole_lines_of(const struct suggestion *part, const struct suggestion *full) {
	return part->text_bytes <= full->text_bytes && !memcmp(part->text, full->text, part->text_bytes) &&
	       (part->text_bytes == 0 || part->text_bytes == full->text_bytes || full->text[part->text_bytes] == '\n');
}

static void each_kind_has_its_deadline(void **state) {
	(void)state;
	struct engine_options o;
	struct complete_result full, r;
	const char *path = talkative_model(&o, &full, typist_model);
	const struct {
		int deadline_ms, age_ms;
		enum complete_trigger trigger;
		bool late;
	} cases[] = {
		{DEADLINE_BY_TRIGGER, 3000, TRIGGER_AUTOMATIC, true}, {DEADLINE_BY_TRIGGER, 3000, TRIGGER_INVOKED, false},
		{DEADLINE_BY_TRIGGER, 10500, TRIGGER_INVOKED, true},  {5000, 3000, TRIGGER_INVOKED, false},
		{5000, 5500, TRIGGER_AUTOMATIC, true},                {5000, 5500, TRIGGER_INVOKED, true},
		{0, 3600000, TRIGGER_AUTOMATIC, false},               {0, 3600000, TRIGGER_INVOKED, false},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct desk d;
		o.deadline_ms = cases[i].deadline_ms;
		desk_open(&d, &o);
		ask(&d, block, cases[i].trigger, (int64_t)cases[i].age_ms * 1000, &r);
		assert_int_equal(r.outcome, cases[i].late ? OUTCOME_EMPTY : OUTCOME_SHOWN);
		assert_int_equal(r.stop, cases[i].late ? STOP_DEADLINE : full.stop);
		complete_result_finish(&r);
		desk_close(&d);
	}
	complete_result_finish(&full);
	unlink(path);
}

static void half_of_it_ends_a_block_with_its_line(void **state) {
	(void)state;
	struct engine_options o;
	struct complete_result full, r;
	struct desk d;
	const char *path = talkative_model(&o, &full, typist_model);
	o.deadline_ms = 600000;
	desk_open(&d, &o);
	ask(&d, block, TRIGGER_AUTOMATIC, 301000000, &r);
	assert_int_equal(r.stop, STOP_SOFT_DEADLINE);
	assert_int_equal(r.outcome, OUTCOME_SHOWN);
	assert_null(memchr(r.suggestion.text, '\n', r.suggestion.text_bytes));
	assert_true(whole_lines_of(&r.suggestion, &full.suggestion));
	complete_result_finish(&r);
	ask(&d, block, TRIGGER_INVOKED, 301000000, &r); // only for those that nobody asked for
	assert_int_equal(r.stop, full.stop);
	assert_int_equal(r.suggestion.text_bytes, full.suggestion.text_bytes);
	complete_result_finish(&r);
	desk_close(&d);
	complete_result_finish(&full);
	unlink(path);
}

// Deadlines that fall anywhere into prefill and decoding.
static void what_is_ready_is_whole_lines(void **state) {
	(void)state;
	struct engine_options o;
	struct complete_result full, r;
	const char *path = talkative_model(&o, &full, typist_slow_model);
	o.cpu_flags = typist_slow_flags();
	for (int ms = 10, n_cut = 0; n_cut == 0 || ms < 1000; ms += ms / 4) {
		struct desk d;
		o.deadline_ms = ms;
		desk_open(&d, &o);
		ask(&d, block, TRIGGER_INVOKED, 0, &r);
		assert_true(r.stop == STOP_DEADLINE || r.stop == full.stop);
		assert_true(whole_lines_of(&r.suggestion, &full.suggestion));
		n_cut += r.stop == STOP_DEADLINE;
		bool done = r.stop == full.stop;
		complete_result_finish(&r);
		desk_close(&d);
		if (done)
			break;
	}
	complete_result_finish(&full);
	unlink(path);
}

// --- superseding

struct answer {
	_Atomic int n_answers;
	struct complete_result result; // without the text
};

static void take_answer(void *user, const struct complete_result *r) {
	struct answer *a = user;
	a->result = *r;
	atomic_fetch_add(&a->n_answers, 1);
}

static void take_loaded(void *user, enum err err, const struct err_msg *msg, const struct model_info *info) {
	(void)msg, (void)info;
	assert_int_equal(err, ERR_OK);
	atomic_store((_Atomic int *)user, 1);
}

static void sleep_ms(long ms) {
	nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

static void wait_answer(struct answer *a) {
	for (int i = 0; i < 600000 && atomic_load(&a->n_answers) == 0; i++)
		sleep_ms(1);
	assert_int_equal(atomic_load(&a->n_answers), 1);
}

// An engine that is slow enough to be overtaken, and a text for it.
struct slow {
	const char *path;
	struct parser_worker *parser;
	struct engine *engine;
	char text[512];
};

static void slow_open(struct slow *w, uint64_t seed, int chunk_tokens) {
	*w = (struct slow){.path = typist_slower_model(seed)};
	struct engine_options o = typist_options(w->path);
	_Atomic int loaded = 0;
	o.cpu_flags = typist_slow_flags();
	o.chunk_tokens = chunk_tokens;
	for (int i = 0; i < 10; i++)
		snprintf(w->text + strlen(w->text), sizeof w->text - strlen(w->text), "def f_%d(value):\n    return %d\n", i, i);
	assert_int_equal(parser_worker_create(&w->parser), ERR_OK);
	assert_int_equal(engine_create(&o, w->parser, take_loaded, &loaded, &w->engine), ERR_OK);
	while (!atomic_load(&loaded))
		sleep_ms(1);
}

static void slow_close(struct slow *w) {
	engine_destroy(w->engine);
	parser_worker_destroy(w->parser);
	unlink(w->path);
}

// A key every 80 ms while the prefill takes seconds. Nothing is evaluated twice, so the keys did not set it back.
static void keys_do_not_stop_a_prefill(void **state) {
	(void)state;
	enum { N_KEYS = 24, CHUNK_TOKENS = 64 };
	struct slow w;
	struct answer answers[N_KEYS] = {0};
	slow_open(&w, 1, CHUNK_TOKENS);
	struct engine *engine = w.engine;
	char *text = w.text;
	strcat(text, "abc = ");
	for (int i = 0; i < N_KEYS; i++) {
		strcat(text, i % 6 == 5 ? " " : "a");
		struct snapshot *s = snapshot_create(text, strlen(text), true);
		struct complete_request r = {.snapshot = s, .offset = strlen(text), .trigger = TRIGGER_AUTOMATIC, .received_us = clock_us()};
		assert_true(engine_submit(engine, &r, 1, take_answer, &answers[i]) > 0);
		snapshot_unref(s);
		sleep_ms(80);
	}
	wait_answer(&answers[N_KEYS - 1]);
	int n_new = 0, n_superseded = 0, n_kept = 0;
	for (int i = 0; i < N_KEYS; i++) {
		wait_answer(&answers[i]);
		n_superseded += answers[i].result.outcome == OUTCOME_SUPERSEDED;
		n_new += answers[i].result.new_tokens;
		n_kept += i < N_KEYS - 1 ? answers[i].result.new_tokens : 0;
	}
	const struct complete_result *last = &answers[N_KEYS - 1].result;
	print_message("%d of %d superseded, %d tokens evaluated for prompts of %d\n", n_superseded, N_KEYS, n_new, last->prompt_tokens);
	assert_true(last->outcome == OUTCOME_SHOWN || last->outcome == OUTCOME_EMPTY);
	assert_true(n_superseded > 0);
	assert_true(n_kept >= CHUNK_TOKENS);
	assert_true(n_new <= last->prompt_tokens + 2 * N_KEYS); // a token typed is a token; healed ones are evaluated as generated
	slow_close(&w);
}

// Editors cancel before they ask again: every prefill is cut hard, and what is kept of it must grow until it gets on.
static void cancels_do_not_stop_a_prefill(void **state) {
	(void)state;
	enum { N_KEYS = 40 };
	struct slow w;
	struct answer answers[N_KEYS] = {0};
	slow_open(&w, 2, 128);
	struct engine *engine = w.engine;
	char *text = w.text;
	int n_kept = 0;
	for (int i = 0; i < N_KEYS; i++) {
		strcat(text, "a");
		struct snapshot *s = snapshot_create(text, strlen(text), true);
		struct complete_request r = {.snapshot = s, .offset = strlen(text), .trigger = TRIGGER_AUTOMATIC, .received_us = clock_us()};
		uint64_t ticket = engine_submit(engine, &r, 1, take_answer, &answers[i]);
		snapshot_unref(s);
		sleep_ms((60 + 5 * i) * lab_fewer()); // ever slower keys: also a busy machine keeps something in the end
		if (i < N_KEYS - 1)
			engine_cancel(engine, ticket);
		wait_answer(&answers[i]);
		n_kept += i < N_KEYS - 1 ? answers[i].result.new_tokens : 0;
	}
	const struct complete_result *last = &answers[N_KEYS - 1].result;
	print_message("%d tokens of %d were kept of cancelled prefills\n", n_kept, last->prompt_tokens);
	assert_true(n_kept > 0);
	assert_true(n_kept + last->new_tokens <= last->prompt_tokens + 2 * N_KEYS);
	slow_close(&w);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_kind_has_its_deadline),
		cmocka_unit_test(half_of_it_ends_a_block_with_its_line),
		cmocka_unit_test(what_is_ready_is_whole_lines),
		cmocka_unit_test(keys_do_not_stop_a_prefill),
		cmocka_unit_test(cancels_do_not_stop_a_prefill),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
