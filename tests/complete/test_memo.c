// SPDX-License-Identifier: MIT
// The memo: what it knows is what the decoder would pick, under any bytes to heal; its structure survives being filled up; and whole answers are those of a
// fresh process, with and without what was remembered.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../model/lab.h"
#include "base/clock.h"
#include "complete/memo.h"
#include "model/sampler.h"
#include "typist.h"

// --- the memo alone, against an oracle that picks by random logits which depend on the path only

static struct model *tiny; // for its tokenizer

static int open_tiny(void **state) {
	(void)state;
	tiny = typist_open_model(1);
	return 0;
}

static int close_tiny(void **state) {
	(void)state;
	model_close(tiny);
	return 0;
}

// Logits with few values, so that ties are common.
static token_id oracle(const token_id *path, size_t n, const char *must, size_t must_bytes) {
	float logits[TINY_VOCAB];
	uint64_t seed = 0x9E3779B97F4A7C15u + n;
	for (size_t i = 0; i < n; i++)
		seed = (seed ^ (uint64_t)path[i]) * 0x2545F4914F6CDD1Du + 1;
	for (int i = 0; i < TINY_VOCAB; i++)
		logits[i] = (float)tiny_draw(&seed, 40);
	if (must_bytes)
		return sampler_pick_healed(model_tokenizer(tiny), logits, must, must_bytes);
	return model_kernels(tiny)->argmax(logits, TINY_VOCAB);
}

static size_t random_must(uint64_t *seed, char *must) {
	size_t n = tiny_draw(seed, 3) ? 0 : tiny_draw(seed, 4);
	if (tiny_draw(seed, 200) == 0)
		n = 70; // more than is remembered
	for (size_t i = 0; i < n; i++)
		must[i] = "iinab"[tiny_draw(seed, 5)]; // "in" is a token
	return n;
}

// Walks from a random start as `generate` does, now and then off the picked path; returns how many picks were known.
static int random_walk(struct memo *m, uint64_t *seed, token_id *path, size_t n, size_t capacity) {
	int n_known = 0;
	memo_go(m, path, n);
	for (int steps = 1 + (int)tiny_draw(seed, 12); steps-- && n < capacity;) {
		char must[80];
		size_t must_bytes = random_must(seed, must);
		token_id want = oracle(path, n, must, must_bytes), got = 12345;
		if (memo_pick(m, must, must_bytes, &got)) {
			assert_int_equal(got, want);
			n_known++;
		} else {
			memo_learn(m, must, must_bytes, want);
		}
		if (want == TOKEN_NONE || tokenizer_is_end(model_tokenizer(tiny), want))
			break;
		path[n] = tiny_draw(seed, 8) ? want : (token_id)('a' + tiny_draw(seed, 3));
		memo_step(m, path[n++]);
	}
	return n_known;
}

static void knows_what_the_decoder_picks(void **state) {
	(void)state;
	enum { CAPACITY = 200 };
	struct memo *m;
	token_id path[CAPACITY + 64];
	assert_int_equal(memo_create(model_tokenizer(tiny), CAPACITY, &m), ERR_OK);
	uint64_t seed = 7;
	int n_known = 0, n_walks = 60000 / lab_fewer();
	for (int i = 0; i < n_walks; i++) {
		uint64_t place = 1 + (tiny_draw(&seed, 4) ? tiny_draw(&seed, 20) : tiny_draw(&seed, 90)); // more places than origins
		size_t n = 1 + (place * 7) % 150;
		for (size_t k = 0; k < n; k++)
			path[k] = (token_id)tiny_draw(&place, 256);
		for (int typed = (int)tiny_draw(&seed, 4); typed--;)
			path[n++] = (token_id)('a' + tiny_draw(&seed, 2));
		n_known += random_walk(m, &seed, path, n, CAPACITY);
		if (i % 1000 == 0)
			assert_int_equal(memo_check(m), ERR_OK);
	}
	print_message("%d picks known in %d walks\n", n_known, n_walks);
	assert_true(n_known > n_walks / 4);
	assert_int_equal(memo_check(m), ERR_OK);
	memo_destroy(m);
	memo_destroy(NULL);
}

// One place, ever new text behind it: the pools run out again and again.
static void survives_a_full_tree(void **state) {
	(void)state;
	enum { CAPACITY = 64 };
	struct memo *m;
	token_id path[CAPACITY] = {1, 2, 3};
	assert_int_equal(memo_create(model_tokenizer(tiny), CAPACITY, &m), ERR_OK);
	uint64_t seed = 3;
	for (int i = 0; i < 20000; i++) {
		size_t n = 3;
		memo_go(m, path, n);
		while (n < CAPACITY - 2) {
			token_id got, want;
			path[n] = (token_id)tiny_draw(&seed, 256);
			memo_step(m, path[n++]);
			char must = (char)('a' + tiny_draw(&seed, 20));
			size_t must_bytes = tiny_draw(&seed, 2);
			want = oracle(path, n, &must, must_bytes);
			if (memo_pick(m, &must, must_bytes, &got))
				assert_int_equal(got, want);
			memo_learn(m, &must, must_bytes, want);
			assert_true(memo_pick(m, &must, must_bytes, &got));
			assert_int_equal(got, want);
			if (tiny_draw(&seed, 8) == 0)
				break;
		}
		if (i % 1000 == 0)
			assert_int_equal(memo_check(m), ERR_OK);
	}
	memo_destroy(m);
}

// --- whole answers

struct desk {
	struct parser_worker *parser;
	struct engine_options options;
	struct completer *completer;
	struct complete_result last;
};

static void desk_open(struct desk *d, const struct engine_options *o) {
	struct err_msg msg;
	*d = (struct desk){.options = *o};
	assert_int_equal(parser_worker_create(&d->parser), ERR_OK);
	if (completer_create(o, d->parser, &d->completer, &msg) != ERR_OK)
		fail_msg("%s", msg.text);
}

static void desk_close(struct desk *d) {
	complete_result_finish(&d->last);
	completer_destroy(d->completer);
	parser_worker_destroy(d->parser);
}

static void ask(struct desk *d, struct completer *c, const struct typist_state *s, struct complete_result *out) {
	struct snapshot *snap = snapshot_create(s->text, s->n, true);
	assert_non_null(snap);
	struct complete_request r = {.snapshot = snap, .offset = s->cursor, .trigger = TRIGGER_AUTOMATIC, .received_us = clock_us()};
	complete_run(c, &r, out);
	snapshot_unref(snap);
	assert_true(out->outcome == OUTCOME_SHOWN || out->outcome == OUTCOME_EMPTY);
	assert_int_equal(out->hit_tokens + out->new_tokens, out->prompt_tokens);
	(void)d;
}

static const char *shown(const struct complete_result *r) {
	return r->suggestion.text_bytes && !r->suggestion.replace_bytes ? r->suggestion.text : "";
}

// Asks the desk's completer, and a fresh one.
static void ask_both(struct desk *d, const struct typist_state *s) {
	struct completer *fresh;
	struct complete_result want;
	struct err_msg msg;
	complete_result_finish(&d->last);
	ask(d, d->completer, s, &d->last);
	assert_int_equal(completer_create(&d->options, d->parser, &fresh, &msg), ERR_OK);
	ask(d, fresh, s, &want);
	assert_int_equal(want.origin, ORIGIN_DECODER);
	assert_int_equal(d->last.stop, want.stop);
	assert_int_equal(d->last.generated_tokens, want.generated_tokens);
	assert_int_equal(d->last.suggestion.text_bytes, want.suggestion.text_bytes);
	assert_int_equal(d->last.suggestion.replace_bytes, want.suggestion.replace_bytes);
	if (want.suggestion.text_bytes)
		assert_memory_equal(d->last.suggestion.text, want.suggestion.text, want.suggestion.text_bytes);
	complete_result_finish(&want);
	completer_destroy(fresh);
}

static void type_at_random(const struct engine_options *o, const char *text, int n_keys, uint64_t seed) {
	struct desk d;
	struct typist t;
	int n_shown = 0, n_acts[ACT_N] = {0}, n_memo[ACT_N] = {0};
	desk_open(&d, o);
	typist_init(&t, text, 800, seed);
	ask_both(&d, &t.now);
	for (int i = 0; i < n_keys; i++) {
		enum act a = typist_act(&t, shown(&d.last));
		ask_both(&d, &t.now);
		n_shown += d.last.outcome == OUTCOME_SHOWN;
		n_acts[a]++;
		n_memo[a] += d.last.origin == ORIGIN_MEMO;
		assert_true(d.last.origin != ORIGIN_MEMO || d.last.evaluated_tokens == 0);
	}
	for (int a = 0; a < ACT_N; a++)
		print_message("%s: %d of %d from the memo\n", act_name((enum act)a), n_memo[a], n_acts[a]);
	print_message("%d of %d shown\n", n_shown, n_keys);
	assert_true(n_shown > n_keys / 4);
	assert_int_equal(n_memo[ACT_AGAIN], n_acts[ACT_AGAIN]);
	assert_true(n_memo[ACT_TYPE_SUGGESTED] * 10 >= n_acts[ACT_TYPE_SUGGESTED] * 7); // the last letter of a suggestion asks for more
	assert_true(n_memo[ACT_UNDO] * 10 >= n_acts[ACT_UNDO] * 9);
	desk_close(&d);
}

static const char program[] = "def ab(c):\n    return c\n\n\nclass Ed:\n    def fa(self):\n        self.a = 0\n        ";

static void answers_are_those_of_a_fresh_process(void **state) {
	(void)state;
	for (uint64_t seed = 1; seed <= 4; seed++) {
		const char *path = typist_model(seed);
		struct engine_options o = typist_options(path);
		type_at_random(&o, program, 1250 / lab_fewer(), seed);
		unlink(path);
	}
}

static const char *real_model(void) {
	static char path[4096];
	const char *given = getenv("MASKSTORE_TEST_MODEL"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	if (given)
		snprintf(path, sizeof path, "%s", given);
	else
		snprintf(path, sizeof path, "%s%s/maskstore/models/SmolLM2-135M-Instruct.Q4_1.gguf", xdg ? xdg : home ? home : "", xdg ? "" : "/.cache");
	return access(path, R_OK) == 0 && lab_fewer() == 1 ? path : NULL;
}

static struct engine_options real_options(void) {
	struct engine_options o = typist_options(real_model());
	o.n_threads = 2;
	o.max_context_tokens = 1024;
	return o;
}

static void answers_of_a_real_model(void **state) {
	(void)state;
	if (!real_model())
		skip();
	struct engine_options o = real_options();
	type_at_random(&o, "import os\n\n\ndef size_of(path):\n    \"\"\"Size of a file in bytes.\"\"\"\n    return os.path.", 200, 5);
}

// Typing a whole suggestion out costs nothing, key for key.
static void typed_as_suggested_costs_nothing(void **state) {
	(void)state;
	if (!real_model())
		skip();
	struct engine_options o = real_options();
	struct desk d;
	struct typist t;
	desk_open(&d, &o);
	typist_init(&t, "import os\n\n\ndef size_of(path):\n    \"\"\"Size of a file in bytes.\"\"\"\n    return os.path.", 800, 1);
	ask(&d, d.completer, &t.now, &d.last);
	assert_int_equal(d.last.origin, ORIGIN_DECODER);
	assert_true(d.last.suggestion.text_bytes > 4);
	int n_keys = 0;
	while (d.last.suggestion.text_bytes && n_keys < 60) {
		assert_true(typist_do(&t, ACT_TYPE_SUGGESTED, d.last.suggestion.text));
		struct complete_result next;
		ask(&d, d.completer, &t.now, &next);
		if (next.suggestion.text_bytes) { // the last key leaves nothing to suggest, and so may ask for more
			assert_int_equal(next.origin, ORIGIN_MEMO);
			assert_int_equal(next.evaluated_tokens, 0);
			assert_int_equal(next.new_tokens, 0);
			assert_string_equal(next.suggestion.text, d.last.suggestion.text + 1);
		}
		complete_result_finish(&d.last);
		d.last = next;
		n_keys++;
	}
	assert_true(n_keys > 4);
	desk_close(&d);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(knows_what_the_decoder_picks),
		cmocka_unit_test(survives_a_full_tree),
		cmocka_unit_test(answers_are_those_of_a_fresh_process),
		cmocka_unit_test(answers_of_a_real_model),
		cmocka_unit_test(typed_as_suggested_costs_nothing),
	};
	return cmocka_run_group_tests(tests, open_tiny, close_tiny);
}
