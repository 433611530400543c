// SPDX-License-Identifier: MIT
// The engine on the small real model: every request is answered exactly once, cancel and supersede reach queued and running ones, and
// reuse changes no answer. Skipped where the model is missing.
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

#include "base/clock.h"
#include "base/cpu.h"
#include "complete/complete.h"

static char model_path[4096];

static void find_model(void) {
	const char *given = getenv("MASKSTORE_TEST_MODEL"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	if (given)
		snprintf(model_path, sizeof model_path, "%s", given);
	else
		snprintf(model_path, sizeof model_path, "%s%s/maskstore/models/SmolLM2-135M-Instruct.Q4_1.gguf", xdg ? xdg : home ? home : "", xdg ? "" : "/.cache");
}

static struct engine_options options(void) {
	return (struct engine_options){
		.model_path = model_path, .n_threads = 2, .max_context_tokens = 2048, .max_new_tokens_line = 24, .max_new_tokens_block = 48,
		.activation = ACTIVATION_Q8, .kv_type = KV_F16, .cpu_flags = cpu_flags(), .strategy = "conservative",
	};
}

// What a request's answer was.
struct answer {
	_Atomic int n_answers;
	enum outcome outcome;
	enum err err;
	int hit_tokens;
	char text[4096];
};

static void take_answer(void *user, const struct complete_result *r) {
	struct answer *a = user;
	a->outcome = r->outcome;
	a->err = r->err;
	a->hit_tokens = r->hit_tokens;
	snprintf(a->text, sizeof a->text, "%.*s", (int)r->suggestion.text_bytes, r->suggestion.text ? r->suggestion.text : "");
	atomic_fetch_add(&a->n_answers, 1);
}

static _Atomic int n_loaded;
static enum err load_result;

static void take_loaded(void *user, enum err err, const struct err_msg *msg, const struct model_info *info) {
	(void)user, (void)msg, (void)info;
	load_result = err;
	atomic_fetch_add(&n_loaded, 1);
}

struct bench {
	struct parser_worker *parser;
	struct engine *engine;
};

static int open_bench(void **state) {
	find_model();
	struct bench *b = calloc(1, sizeof *b);
	struct engine_options o = options();
	assert_int_equal(parser_worker_create(&b->parser), ERR_OK);
	assert_int_equal(engine_create(&o, b->parser, take_loaded, NULL, &b->engine), ERR_OK);
	*state = b;
	return 0;
}

static int close_bench(void **state) {
	struct bench *b = *state;
	engine_destroy(b->engine);
	parser_worker_destroy(b->parser);
	free(b);
	return 0;
}

// Also false where only the scalar kernels are built: a real model takes too long with them.
static bool have_model(void) {
	return access(model_path, R_OK) == 0 && kernels_get(cpu_flags()) != kernels_get(0);
}

static uint64_t submit(struct bench *b, const char *text, uint64_t doc, enum complete_trigger trigger, struct answer *a) {
	struct snapshot *s = snapshot_create(text, strlen(text), true);
	assert_non_null(s);
	struct complete_request r = {.snapshot = s, .offset = strlen(text), .trigger = trigger, .received_us = clock_us()};
	uint64_t ticket = engine_submit(b->engine, &r, doc, take_answer, a);
	snapshot_unref(s);
	assert_true(ticket > 0);
	return ticket;
}

static void wait_answer(struct answer *a) {
	for (int i = 0; i < 400000 && atomic_load(&a->n_answers) == 0; i++)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	assert_int_equal(atomic_load(&a->n_answers), 1);
}

// A text of n functions, long enough that a prefill is still running when the next call comes.
static char *long_text(int n, const char *end) {
	size_t cap = (size_t)n * 100 + strlen(end) + 1, at = 0;
	char *text = malloc(cap);
	assert_non_null(text);
	for (int i = 0; i < n; i++)
		at += (size_t)snprintf(text + at, cap - at, "def step_%d(value):\n    total = value + %d\n    return total * %d\n\n\n", i, i, i);
	snprintf(text + at, cap - at, "%s", end);
	return text;
}

static const char add[] = "def add(a, b):\n    return a + b\n\n\ndef subtract(a, b):\n    return ";

static void answers_once(void **state) {
	if (!have_model())
		skip();
	struct answer a = {0};
	submit(*state, add, 1, TRIGGER_INVOKED, &a);
	wait_answer(&a);
	assert_int_equal(a.outcome, OUTCOME_SHOWN);
	assert_string_equal(a.text, "a - b");
	assert_int_equal(atomic_load(&n_loaded), 1);
	assert_int_equal(load_result, ERR_OK);
}

static void reuse_changes_nothing(void **state) {
	if (!have_model())
		skip();
	const char *text = "def power(a, b):\n    return a ** b\n\n\ndef divide(a, b):\n    return ";
	struct answer cold = {0}, other = {0}, warm = {0}, again = {0};
	submit(*state, text, 1, TRIGGER_INVOKED, &cold);
	wait_answer(&cold);
	submit(*state, "import os\n\n\ndef size(path):\n    return os.", 2, TRIGGER_INVOKED, &other);
	wait_answer(&other);
	submit(*state, text, 1, TRIGGER_INVOKED, &warm);
	wait_answer(&warm);
	submit(*state, text, 1, TRIGGER_INVOKED, &again);
	wait_answer(&again);
	assert_string_equal(cold.text, warm.text);
	assert_string_equal(cold.text, again.text);
	assert_true(warm.hit_tokens > cold.hit_tokens && again.hit_tokens == warm.hit_tokens); // both remembered
}

static void cancels_running_and_queued(void **state) {
	if (!have_model())
		skip();
	struct bench *b = *state;
	char *text = long_text(40, "def last(value):\n    return ");
	for (int i = 0; i < 10; i++) {
		struct answer running = {0}, queued = {0};
		text[5 + i % 4] = (char)('a' + i); // another first line, so that nothing is reused
		uint64_t first = submit(b, text, 1, TRIGGER_INVOKED, &running), second = submit(b, text, 2, TRIGGER_INVOKED, &queued);
		nanosleep(&(struct timespec){.tv_nsec = 3000000L * i}, NULL);
		assert_true(engine_cancel(b->engine, second));
		assert_int_equal(atomic_load(&queued.n_answers), 1); // before engine_cancel returned
		assert_int_equal(queued.outcome, OUTCOME_CANCELLED);
		engine_cancel(b->engine, first);
		wait_answer(&running);
		assert_int_equal(running.outcome, OUTCOME_CANCELLED);
		assert_false(engine_cancel(b->engine, second));
	}
	assert_false(engine_cancel(b->engine, 987654));
	struct answer after = {0};
	submit(b, add, 1, TRIGGER_INVOKED, &after);
	wait_answer(&after);
	assert_string_equal(after.text, "a - b");
	free(text);
}

static void supersedes_automatic_of_one_document(void **state) {
	if (!have_model())
		skip();
	struct bench *b = *state;
	char *text = long_text(12, "def last(value):\n    return ");
	struct answer a[6] = {0};
	submit(b, text, 9, TRIGGER_INVOKED, &a[0]);    // occupies the decode thread; never superseded
	submit(b, text, 1, TRIGGER_AUTOMATIC, &a[1]);  // superseded by a[4]
	submit(b, text, 2, TRIGGER_AUTOMATIC, &a[2]);  // another document: stays
	submit(b, text, 1, TRIGGER_INVOKED, &a[3]);    // invoked: stays
	submit(b, text, 1, TRIGGER_AUTOMATIC, &a[4]);
	assert_int_equal(atomic_load(&a[1].n_answers), 1);
	assert_int_equal(a[1].outcome, OUTCOME_SUPERSEDED);
	wait_answer(&a[4]);
	for (int i = 0; i < 5; i++)
		assert_int_equal(atomic_load(&a[i].n_answers), 1);
	assert_int_not_equal(a[0].outcome, OUTCOME_SUPERSEDED);
	assert_string_equal(a[2].text, a[3].text);
	assert_string_equal(a[3].text, a[4].text);
	free(text);
}

static void destroy_answers_everything(void **state) {
	(void)state;
	find_model();
	if (!have_model())
		skip();
	char *text = long_text(40, "x = ");
	struct answer a[5] = {0};
	void *bench;
	open_bench(&bench);
	for (int i = 0; i < 5; i++)
		submit(bench, text, (uint64_t)i, TRIGGER_INVOKED, &a[i]);
	close_bench(&bench);
	for (int i = 0; i < 5; i++)
		assert_int_equal(atomic_load(&a[i].n_answers), 1);
	free(text);
}

static void missing_model_fails_each_request(void **state) {
	(void)state;
	struct parser_worker *parser;
	struct engine *engine;
	struct engine_options o = options();
	o.model_path = "/nonexistent/model.gguf";
	assert_int_equal(parser_worker_create(&parser), ERR_OK);
	assert_int_equal(engine_create(&o, parser, take_loaded, NULL, &engine), ERR_OK);
	struct bench b = {parser, engine};
	struct answer a = {0};
	submit(&b, add, 1, TRIGGER_AUTOMATIC, &a);
	wait_answer(&a);
	assert_int_equal(a.outcome, OUTCOME_FAILED);
	assert_int_equal(a.err, ERR_IO);
	engine_destroy(engine);
	parser_worker_destroy(parser);
}

int main(void) {
	const struct CMUnitTest shared[] = {
		cmocka_unit_test(answers_once),
		cmocka_unit_test(reuse_changes_nothing),
		cmocka_unit_test(cancels_running_and_queued),
		cmocka_unit_test(supersedes_automatic_of_one_document),
	};
	const struct CMUnitTest own[] = {
		cmocka_unit_test(destroy_answers_everything),
		cmocka_unit_test(missing_model_fails_each_request),
	};
	int failed = cmocka_run_group_tests(shared, open_bench, close_bench);
	return failed + cmocka_run_group_tests(own, NULL, NULL);
}
