// SPDX-License-Identifier: MIT
// Sessions that share a store's tree: the same bits as a cold run whatever came from where, and nothing evaluated that was there.
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "lab.h"

#define CAPACITY 400
#define LOGITS_BYTES (TINY_VOCAB * sizeof(float))
#define N_FILES 10

static struct lab lab;

static int set_up(void **state) {
	(void)state;
	lab_open_tiny(&lab, &LAB_MODELS[1]);
	return 0;
}

static int tear_down(void **state) {
	(void)state;
	lab_close(&lab);
	return 0;
}

static struct session_sync_result sync_ok(struct session *s, const token_id *tokens, int n) {
	struct err_msg msg = {""};
	struct session_sync_result r = {0};
	size_t probed = session_probe(s, tokens, (size_t)n);
	if (session_sync(s, tokens, (size_t)n, NULL, &r, &msg) != ERR_OK)
		fail_msg("%s", msg.text);
	assert_int_equal(r.hit_tokens + r.new_tokens, n);
	assert_true((size_t)r.hit_tokens == probed || (size_t)r.hit_tokens == probed - 1); // the last one for its logits
	return r;
}

static void assert_cold_logits(struct session *s, const token_id *tokens, int n) {
	struct rig rig;
	rig_open(&rig, &lab, &(struct rig_options){.n_threads = 1, .chunk_tokens = 256, .capacity_tokens = n});
	struct err_msg msg = {""};
	assert_int_equal(session_sync(rig.session, tokens, (size_t)n, NULL, NULL, &msg), ERR_OK);
	assert_memory_equal(session_logits(s), session_logits(rig.session), LOGITS_BYTES);
	rig_close(&rig);
}

static void draw_tokens(token_id *tokens, int n, uint64_t *seed) {
	for (int i = 0; i < n; i++)
		tokens[i] = (token_id)tiny_draw(seed, TINY_VOCAB);
}

static void test_switching_files_evaluates_one_token(void **state) {
	(void)state;
	struct rig rig;
	static token_id files[N_FILES][300];
	uint64_t seed = 5;
	rig_open(&rig, &lab, &(struct rig_options){.n_threads = 2, .chunk_tokens = 64, .capacity_tokens = CAPACITY, .n_blocks = 110, .share = true});
	for (int i = 0; i < N_FILES; i++) {
		draw_tokens(files[i], 300, &seed);
		assert_int_equal(sync_ok(rig.session, files[i], 250 + 5 * i).new_tokens, 250 + 5 * i);
	}
	for (int i = 0; i < 3 * N_FILES; i++) {
		int f = (int)tiny_draw(&seed, N_FILES);
		assert_true(sync_ok(rig.session, files[f], 250 + 5 * f).new_tokens <= 1);
		assert_cold_logits(rig.session, files[f], 250 + 5 * f);
	}
	rig_close(&rig);
}

// Typing, deleting and typing again, as undo and redo do it: states of before are there to the last token.
static void test_undo_and_redo(void **state) {
	(void)state;
	struct rig rig;
	token_id text[CAPACITY], states[16][4];
	uint64_t seed = 6;
	draw_tokens(text, CAPACITY, &seed);
	rig_open(&rig, &lab, &(struct rig_options){.n_threads = 1, .chunk_tokens = 64, .capacity_tokens = CAPACITY, .n_blocks = 60, .share = true});
	sync_ok(rig.session, text, 200);
	for (int i = 0; i < 16; i++) { // sixteen ways to go on, of 4 tokens each
		draw_tokens(states[i], 4, &seed);
		memcpy(text + 200, states[i], sizeof states[i]);
		assert_true(sync_ok(rig.session, text, 204).new_tokens <= 4);
	}
	for (int i = 15; i >= 0; i--) {
		memcpy(text + 200, states[i], sizeof states[i]);
		assert_true(sync_ok(rig.session, text, 204).new_tokens <= 1);
		assert_cold_logits(rig.session, text, 204);
	}
	rig_close(&rig);
}

// Two sessions on one store, texts that share beginnings, steps, rewinds, cancelling, and a budget that evicts all the time.
static void test_random_branches(void **state) {
	(void)state;
	for (uint64_t round = 1; round <= 6; round++) {
		struct rig rig;
		uint64_t seed = round * 31;
		static token_id texts[8][CAPACITY];
		rig_open(&rig, &lab, &(struct rig_options){.n_threads = 2, .chunk_tokens = (int)(round * 13), .capacity_tokens = CAPACITY,
		                                          .n_blocks = 28 + (int)round * 3, .share = true});
		struct session_options o = {.capacity_tokens = CAPACITY, .chunk_tokens = 32, .store = rig.store, .pool = lab.pools[1], .share = true};
		struct session *s[2] = {rig.session, NULL};
		assert_int_equal(session_create(lab.models[1], &o, &s[1], NULL), ERR_OK);
		for (int i = 0; i < 8; i++) {
			draw_tokens(texts[i], CAPACITY, &seed);
			if (i)
				memcpy(texts[i], texts[i - 1], tiny_draw(&seed, 300) * sizeof(token_id));
		}
		for (int op = 0; op < 120 / lab_fewer(); op++) {
			struct session *x = s[tiny_draw(&seed, 2)];
			token_id *text = texts[tiny_draw(&seed, 8)];
			int n = 1 + (int)tiny_draw(&seed, CAPACITY - 8);
			size_t have = 0;
			_Atomic int cancel = 1;
			struct err_msg msg;
			session_tokens(x, &have);
			if (tiny_draw(&seed, 6) == 0)
				session_rewind(x, have ? tiny_draw(&seed, (uint32_t)have) : 0);
			if (tiny_draw(&seed, 6) == 0) {
				enum err e = session_sync(x, text, (size_t)n, &cancel, NULL, &msg);
				assert_true(e == ERR_CANCELLED || e == ERR_OK);
			}
			sync_ok(x, text, n);
			for (int k = (int)tiny_draw(&seed, 6); k > 0; k--, n++) {
				token_id next = (token_id)tiny_draw(&seed, TINY_VOCAB);
				assert_int_equal(session_step(x, next, NULL, &msg), ERR_OK);
				text[n] = next;
			}
			token_id guess[SESSION_MAX_GUESS];
			int n_guess = (int)tiny_draw(&seed, SESSION_MAX_GUESS + 1), n_right = n_guess ? 1 + (int)tiny_draw(&seed, (uint32_t)n_guess) : 0;
			if (n_guess && n + n_guess <= CAPACITY) { // what was wrong is rewound, or dropped or taken by the next call
				draw_tokens(guess, n_guess, &seed);
				memcpy(guess, text + n, (size_t)n_right * sizeof *guess);
				assert_int_equal(session_guess(x, guess, (size_t)n_guess, NULL, &msg), ERR_OK);
				n += n_right;
				if (tiny_draw(&seed, 2))
					session_rewind(x, (size_t)n);
				else
					sync_ok(x, text, n);
			}
			if (op % 4 == 0)
				assert_cold_logits(x, text, n);
			if (maskstore_check(rig.store, &msg) != ERR_OK)
				fail_msg("%s", msg.text);
		}
		struct maskstore_stats st;
		maskstore_stats(rig.store, &st);
		assert_true(st.n_evicted > 0 || lab_fewer() > 1);
		session_destroy(s[1]);
		rig_close(&rig);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_switching_files_evaluates_one_token), cmocka_unit_test(test_undo_and_redo),
		cmocka_unit_test(test_random_branches),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
