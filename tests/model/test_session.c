// SPDX-License-Identifier: MIT
// Sessions: reuse equals recompute, cancellation, budgets, steps, rewinds, bad arguments.
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "lab.h"

#define CAPACITY 560 // more than two KV units
#define LOGITS_BYTES (TINY_VOCAB * sizeof(float))

struct labs {
	struct lab lab[4];
};

static int set_up(void **state) {
	struct labs *labs = calloc(1, sizeof *labs);
	for (int i = 0; i < LAB_N_MODELS; i++)
		lab_open_tiny(&labs->lab[i], &LAB_MODELS[i]);
	*state = labs;
	return 0;
}

static int tear_down(void **state) {
	struct labs *labs = *state;
	for (int i = 0; i < LAB_N_MODELS; i++)
		lab_close(&labs->lab[i]);
	free(labs);
	return 0;
}

static void sync_ok(struct session *s, const token_id *tokens, int n, struct session_sync_result *result) {
	struct err_msg msg = {""};
	if (session_sync(s, tokens, (size_t)n, NULL, result, &msg) != ERR_OK)
		fail_msg("%s", msg.text);
	size_t n_now = 0;
	const token_id *now = session_tokens(s, &n_now);
	assert_int_equal(n_now, n);
	assert_memory_equal(now, tokens, (size_t)n * sizeof *tokens);
	assert_non_null(session_logits(s));
}

// The same tokens by a fresh session: one thread, whole chunks, best kernels.
static void cold_logits(const struct lab *lab, enum activation activation, enum kv_type kv_type, const token_id *tokens, int n, float *logits) {
	struct rig rig;
	rig_open(&rig, lab, &(struct rig_options){.n_threads = 1, .chunk_tokens = 256, .capacity_tokens = n, .activation = activation, .kv_type = kv_type});
	sync_ok(rig.session, tokens, n, NULL);
	memcpy(logits, session_logits(rig.session), LOGITS_BYTES);
	rig_close(&rig);
}

static void draw_tokens(token_id *tokens, int n, uint64_t *seed) {
	for (int i = 0; i < n; i++)
		tokens[i] = (token_id)tiny_draw(seed, TINY_VOCAB);
}

// ---- random edits ----

struct text {
	token_id tokens[CAPACITY];
	int n;
};

// Replaces n_old tokens at `at` by n_new random ones, as far as there is room.
static void replace(struct text *t, int at, int n_old, int n_new, uint64_t *seed) {
	n_old = n_old < t->n - at ? n_old : t->n - at;
	n_new = n_new < CAPACITY - t->n ? n_new : CAPACITY - t->n;
	memmove(t->tokens + at + n_new, t->tokens + at + n_old, (size_t)(t->n - at - n_old) * sizeof t->tokens[0]);
	draw_tokens(t->tokens + at, n_new, seed);
	t->n += n_new - n_old;
	if (t->n == 0)
		t->tokens[t->n++] = 0;
}

static void edit(struct text *t, uint64_t *seed) {
	int at = (int)tiny_draw(seed, (uint32_t)t->n);
	switch (tiny_draw(seed, 7)) {
	case 0: replace(t, t->n, 0, 1 + (int)tiny_draw(seed, 4), seed); break;            // typing at the end
	case 1: replace(t, at, 0, 1 + (int)tiny_draw(seed, 40), seed); break;             // pasting
	case 2: replace(t, at, 1 + (int)tiny_draw(seed, 40), 0, seed); break;             // deleting
	case 3: replace(t, at, 1 + (int)tiny_draw(seed, 8), 1 + (int)tiny_draw(seed, 8), seed); break;
	case 4: replace(t, at, t->n, 0, seed); break;                                     // cutting the rest off
	case 5: replace(t, t->n, 0, (int)tiny_draw(seed, 3) * 32 + (32 - t->n % 32), seed); break; // to the end of a block
	default: break;                                                                   // asking again
	}
}

static int common(const token_id *a, int n_a, const token_id *b, int n_b) {
	int i = 0;
	while (i < n_a && i < n_b && a[i] == b[i])
		i++;
	return i;
}

#define N_SEQUENCES (1000 / lab_fewer())

static void test_reuse_equals_recompute(void **state) {
	struct labs *labs = *state;
	static const int chunks[] = {1, 7, 32, 256};
	uint64_t seed = 2026;
	long hit = 0, all = 0;
	for (int i = 0; i < N_SEQUENCES; i++) {
		const struct lab *lab = &labs->lab[i * 5 / 64 % LAB_N_MODELS];
		struct rig_options o = {.scalar = i % 20 == 0, .n_threads = 1 + (i >> 1 & 1), .chunk_tokens = chunks[i >> 2 & 3], .capacity_tokens = CAPACITY,
		                        .activation = i >> 4 & 1 ? ACTIVATION_F32 : ACTIVATION_Q8, .kv_type = (enum kv_type)(i / 32 % 3)};
		struct rig rig;
		struct text text = {.n = 1 + (int)tiny_draw(&seed, i % 16 ? 60 : 400)}, old = {.n = 0};
		draw_tokens(text.tokens, text.n, &seed);
		rig_open(&rig, lab, &o);
		for (int n_edits = 1 + (int)tiny_draw(&seed, 5); n_edits >= 0; n_edits--) {
			struct session_sync_result r = {0};
			sync_ok(rig.session, text.tokens, text.n, &r);
			int same = common(old.tokens, old.n, text.tokens, text.n);
			bool nothing = same == text.n && same == old.n;
			assert_int_equal(r.hit_tokens, same == text.n && !nothing ? same - 1 : same);
			assert_int_equal(r.new_tokens, text.n - r.hit_tokens);
			hit += r.hit_tokens;
			all += text.n;
			old = text;
			if (n_edits)
				edit(&text, &seed);
		}
		float cold[TINY_VOCAB];
		cold_logits(lab, o.activation, o.kv_type, text.tokens, text.n, cold);
		assert_memory_equal(session_logits(rig.session), cold, LOGITS_BYTES);
		rig_close(&rig);
	}
	print_message("%ld of %ld tokens were reused\n", hit, all);
}

// Guesses of any length, right and wrong, beside a session that steps: the same logits behind every token, also behind those that a rewind keeps, and
// nothing evaluated for that.
static void guess_and_step(const struct lab *lab, const struct rig_options *o, uint64_t *seed) {
	struct rig a, b;
	struct text t = {.n = 250 + (int)tiny_draw(seed, 20)}; // over the end of the first KV unit
	draw_tokens(t.tokens, t.n, seed);
	rig_open(&a, lab, o);
	rig_open(&b, lab, &(struct rig_options){.n_threads = 1, .capacity_tokens = o->capacity_tokens, .activation = o->activation, .kv_type = o->kv_type});
	sync_ok(a.session, t.tokens, t.n, NULL);
	sync_ok(b.session, t.tokens, t.n, NULL);
	for (int round = 0; round < 12; round++) {
		token_id guess[SESSION_MAX_GUESS];
		int n = 1 + (int)tiny_draw(seed, SESSION_MAX_GUESS), keep = (int)tiny_draw(seed, (uint32_t)n + 1);
		draw_tokens(guess, n, seed);
		assert_int_equal(session_guess(a.session, guess, (size_t)n, NULL, NULL), ERR_OK);
		assert_ptr_equal(session_logits(a.session), session_logits_after(a.session, (size_t)(t.n + n)));
		assert_null(session_logits_after(a.session, (size_t)t.n));
		assert_null(session_logits_after(a.session, (size_t)(t.n + n + 1)));
		for (int i = 0; i < keep; i++) {
			assert_int_equal(session_step(b.session, guess[i], NULL, NULL), ERR_OK);
			assert_memory_equal(session_logits_after(a.session, (size_t)(t.n + i + 1)), session_logits(b.session), LOGITS_BYTES);
			t.tokens[t.n + i] = guess[i];
		}
		session_rewind(a.session, (size_t)(t.n + keep));
		if (keep)
			assert_memory_equal(session_logits(a.session), session_logits(b.session), LOGITS_BYTES);
		else
			assert_null(session_logits(a.session));
		t.n += keep;
		if (tiny_draw(seed, 3) == 0) {
			assert_int_equal(session_step(a.session, 5, NULL, NULL), ERR_OK);
			assert_int_equal(session_step(b.session, 5, NULL, NULL), ERR_OK);
			assert_memory_equal(session_logits(a.session), session_logits(b.session), LOGITS_BYTES);
			t.tokens[t.n++] = 5;
		}
	}
	rig_close(&a);
	rig_close(&b);
}

static void test_guesses_equal_steps(void **state) {
	struct labs *labs = *state;
	uint64_t seed = 77;
	for (int i = 0; i < 96 / lab_fewer(); i++)
		guess_and_step(&labs->lab[i % LAB_N_MODELS], &(struct rig_options){.scalar = i % 5 == 0, .n_threads = 1 + i / 4 % 3, .chunk_tokens = i % 7 ? 0 : 1 + i % 3,
			.capacity_tokens = 400, .activation = i / 4 % 2 ? ACTIVATION_F32 : ACTIVATION_Q8, .kv_type = (enum kv_type)(i / 8 % 3), .share = i % 2}, &seed);
}

static void test_guesses_that_do_not_fit(void **state) {
	struct labs *labs = *state;
	struct rig rig;
	token_id tokens[40] = {0}, bad[2] = {1, TINY_VOCAB};
	_Atomic int cancel = 1;
	rig_open(&rig, &labs->lab[0], &(struct rig_options){.n_threads = 1, .capacity_tokens = 40, .share = true, .n_blocks = 1});
	sync_ok(rig.session, tokens, 30, NULL);
	assert_int_equal(session_guess(rig.session, tokens, 0, NULL, NULL), ERR_ARG);
	assert_int_equal(session_guess(rig.session, tokens, SESSION_MAX_GUESS + 1, NULL, NULL), ERR_ARG);
	assert_int_equal(session_guess(rig.session, bad, 2, NULL, NULL), ERR_ARG);
	assert_non_null(session_logits(rig.session)); // nothing changed
	assert_int_equal(session_guess(rig.session, tokens, 3, NULL, NULL), ERR_NOMEM); // a second block
	assert_int_equal(session_guess(rig.session, tokens, 2, &cancel, NULL), ERR_CANCELLED);
	assert_int_equal(session_guess(rig.session, tokens, 2, NULL, NULL), ERR_OK);
	size_t n;
	session_tokens(rig.session, &n);
	assert_int_equal(n, 32);
	rig_close(&rig);
	rig_open(&rig, &labs->lab[0], &(struct rig_options){.n_threads = 1, .capacity_tokens = 5});
	sync_ok(rig.session, tokens, 3, NULL);
	assert_int_equal(session_guess(rig.session, tokens, 3, NULL, NULL), ERR_ARG);
	assert_int_equal(session_guess(rig.session, tokens, 2, NULL, NULL), ERR_OK);
	rig_close(&rig);
}

static void test_steps_equal_sync(void **state) {
	struct labs *labs = *state;
	for (int i = 0; i < LAB_N_MODELS; i++) {
		struct rig rig;
		struct text t = {.n = 300};
		uint64_t seed = (uint64_t)i + 1;
		draw_tokens(t.tokens, t.n, &seed);
		rig_open(&rig, &labs->lab[i], &(struct rig_options){.n_threads = 2, .capacity_tokens = 300});
		sync_ok(rig.session, t.tokens, 200, NULL);
		for (int n = 200; n < 300; n++)
			assert_int_equal(session_step(rig.session, t.tokens[n], NULL, NULL), ERR_OK);
		float cold[TINY_VOCAB];
		cold_logits(&labs->lab[i], ACTIVATION_Q8, KV_F16, t.tokens, 300, cold);
		assert_memory_equal(session_logits(rig.session), cold, LOGITS_BYTES);
		struct err_msg msg = {""};
		assert_int_equal(session_step(rig.session, 0, NULL, &msg), ERR_ARG);
		assert_non_null(strstr(msg.text, "300 tokens is full"));
		rig_close(&rig);
	}
}

static void test_rewind(void **state) {
	struct labs *labs = *state;
	struct rig rig;
	struct text t = {.n = 100};
	uint64_t seed = 7;
	draw_tokens(t.tokens, t.n, &seed);
	rig_open(&rig, &labs->lab[0], &(struct rig_options){.n_threads = 1, .capacity_tokens = 128});
	sync_ok(rig.session, t.tokens, 100, NULL);
	session_rewind(rig.session, 100);
	assert_non_null(session_logits(rig.session));
	session_rewind(rig.session, 33);
	assert_null(session_logits(rig.session));
	struct maskstore_stats s;
	maskstore_stats(rig.store, &s);
	assert_int_equal(s.n_hot, 2);
	struct session_sync_result r;
	sync_ok(rig.session, t.tokens, 40, &r);
	assert_int_equal(r.hit_tokens, 33);
	session_rewind(rig.session, 0);
	maskstore_stats(rig.store, &s);
	assert_int_equal(s.n_hot, 0);
	size_t n = 1;
	session_tokens(rig.session, &n);
	assert_int_equal(n, 0);
	rig_close(&rig);
}

static void test_bad_arguments_change_nothing(void **state) {
	struct labs *labs = *state;
	struct rig rig;
	struct text t = {.n = 50};
	uint64_t seed = 8;
	struct err_msg msg = {""};
	draw_tokens(t.tokens, t.n, &seed);
	rig_open(&rig, &labs->lab[0], &(struct rig_options){.n_threads = 1, .capacity_tokens = 64});
	sync_ok(rig.session, t.tokens, 50, NULL);
	token_id bad[3] = {1, TINY_VOCAB, 2};
	assert_int_equal(session_sync(rig.session, bad, 3, NULL, NULL, &msg), ERR_ARG);
	assert_non_null(strstr(msg.text, "outside the vocabulary"));
	bad[1] = -1;
	assert_int_equal(session_sync(rig.session, bad, 3, NULL, NULL, &msg), ERR_ARG);
	assert_int_equal(session_sync(rig.session, t.tokens, 0, NULL, NULL, &msg), ERR_ARG);
	assert_int_equal(session_sync(rig.session, t.tokens, 65, NULL, NULL, &msg), ERR_ARG);
	assert_int_equal(session_step(rig.session, TINY_VOCAB, NULL, &msg), ERR_ARG);
	struct session_sync_result r;
	sync_ok(rig.session, t.tokens, 50, &r);
	assert_int_equal(r.hit_tokens, 50);
	assert_int_equal(r.new_tokens, 0);
	struct session *s = NULL;
	struct session_options o = {.capacity_tokens = 0, .store = rig.store, .pool = labs->lab[0].pools[1]};
	assert_int_equal(session_create(labs->lab[0].models[0], &o, &s, &msg), ERR_ARG);
	o.capacity_tokens = SESSION_MAX_TOKENS + 1;
	assert_int_equal(session_create(labs->lab[0].models[0], &o, &s, &msg), ERR_ARG);
	o.capacity_tokens = 10;
	o.chunk_tokens = SESSION_MAX_CHUNK + 1;
	assert_int_equal(session_create(labs->lab[0].models[0], &o, &s, &msg), ERR_ARG);
	o.chunk_tokens = 0;
	assert_int_equal(session_create(labs->lab[1].models[0], &o, &s, &msg), ERR_ARG); // another model's store
	assert_null(s);
	session_destroy(NULL);
	rig_close(&rig);
}

static const uint32_t *hide_all(void *user, size_t position) {
	(void)position;
	return user;
}

static void test_mask_that_hides_everything(void **state) {
	struct labs *labs = *state;
	struct rig rig;
	static uint32_t zeros[4];
	token_id tokens[3] = {1, 2, 3};
	struct err_msg msg = {""};
	rig_open(&rig, &labs->lab[0], &(struct rig_options){.n_threads = 1, .capacity_tokens = 64});
	session_set_mask(rig.session, hide_all, zeros);
	assert_int_equal(session_sync(rig.session, tokens, 3, NULL, NULL, &msg), ERR_ARG);
	assert_non_null(strstr(msg.text, "hides position 0"));
	session_set_mask(rig.session, NULL, NULL);
	sync_ok(rig.session, tokens, 3, NULL);
	rig_close(&rig);
}

// ---- budget ----

static void test_budget_exhaustion(void **state) {
	struct labs *labs = *state;
	static const int chunks[] = {1, 7, 32, 50, 256};
	for (int c = 0; c < 5; c++) {
		struct rig rig;
		struct text t = {.n = 200};
		uint64_t seed = (uint64_t)c + 1;
		struct err_msg msg = {""};
		struct session_sync_result r = {0};
		draw_tokens(t.tokens, t.n, &seed);
		rig_open(&rig, &labs->lab[c % LAB_N_MODELS], &(struct rig_options){.n_threads = 2, .chunk_tokens = chunks[c], .capacity_tokens = CAPACITY, .n_blocks = 3});
		assert_int_equal(session_sync(rig.session, t.tokens, 200, NULL, &r, &msg), ERR_NOMEM);
		assert_non_null(strstr(msg.text, "budget"));
		assert_null(session_logits(rig.session));
		size_t n = 0;
		assert_memory_equal(session_tokens(rig.session, &n), t.tokens, n * sizeof t.tokens[0]);
		assert_int_equal(n, 96 / chunks[c] * chunks[c]); // whole chunks that fit three blocks
		struct maskstore_stats s;
		maskstore_stats(rig.store, &s);
		assert_int_equal(s.n_hot, (n + 31) / 32);
		float cold[TINY_VOCAB];
		sync_ok(rig.session, t.tokens, 96, &r);
		assert_int_equal(r.hit_tokens, n == 96 ? 95 : n);
		cold_logits(&labs->lab[c % LAB_N_MODELS], ACTIVATION_Q8, KV_F16, t.tokens, 96, cold);
		assert_memory_equal(session_logits(rig.session), cold, LOGITS_BYTES);
		assert_int_equal(session_step(rig.session, 5, NULL, &msg), ERR_NOMEM);
		session_tokens(rig.session, &n);
		assert_int_equal(n, 96);
		assert_memory_equal(session_logits(rig.session), cold, LOGITS_BYTES); // nothing changed
		rig_close(&rig);
	}
}

// ---- cancellation ----

struct canceller {
	_Atomic int *cancel;
	long delay_ns;
};

static void *cancel_later(void *arg) {
	struct canceller *c = arg;
	nanosleep(&(struct timespec){.tv_nsec = c->delay_ns}, NULL);
	atomic_store(c->cancel, 1);
	return NULL;
}

static long elapsed_ns(const struct timespec *since) {
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (now.tv_sec - since->tv_sec) * 1000000000L + now.tv_nsec - since->tv_nsec;
}

#define N_CANCELS (200 / lab_fewer())

// Whatever a cancelled call left is a prefix of what was asked for, and going on from it gives the bits of a cold run.
static void test_cancel_at_random_moments(void **state) {
	struct labs *labs = *state;
	uint64_t seed = 99;
	int n_cancelled = 0;
	static const int chunks[] = {1, 7, 32, 256};
	for (int i = 0; i < N_CANCELS; i++) {
		const struct lab *lab = &labs->lab[i % LAB_N_MODELS];
		struct rig rig;
		struct text t = {.n = 200 + (int)tiny_draw(&seed, 200)};
		draw_tokens(t.tokens, t.n, &seed);
		struct rig_options o = {.n_threads = 1 + i / 4 % 3, .chunk_tokens = chunks[i / 12 % 4], .capacity_tokens = CAPACITY,
		                        .activation = i % 5 ? ACTIVATION_Q8 : ACTIVATION_F32};
		rig_open(&rig, lab, &o);
		struct timespec start;
		clock_gettime(CLOCK_MONOTONIC, &start);
		sync_ok(rig.session, t.tokens, t.n / 2, NULL); // tells how long such a call takes
		long took_ns = elapsed_ns(&start);
		_Atomic int cancel = 0;
		struct canceller c = {&cancel, (long)((double)took_ns * tiny_draw(&seed, 1000) / 1000)};
		pthread_t thread;
		assert_int_equal(pthread_create(&thread, NULL, cancel_later, &c), 0);
		replace(&t, t.n / 4, 3, 3, &seed);
		struct session_sync_result r = {0};
		struct err_msg msg = {""};
		enum err e = session_sync(rig.session, t.tokens, (size_t)t.n, &cancel, &r, &msg);
		pthread_join(thread, NULL);
		assert_true(e == ERR_OK || e == ERR_CANCELLED);
		size_t n = 0;
		assert_memory_equal(session_tokens(rig.session, &n), t.tokens, n * sizeof t.tokens[0]);
		assert_int_equal(n, r.hit_tokens + r.new_tokens);
		if (e == ERR_CANCELLED) {
			n_cancelled++;
			assert_true(n < (size_t)t.n);
			assert_null(session_logits(rig.session));
		}
		sync_ok(rig.session, t.tokens, t.n, &r);
		float cold[TINY_VOCAB];
		cold_logits(lab, o.activation, KV_F16, t.tokens, t.n, cold);
		assert_memory_equal(session_logits(rig.session), cold, LOGITS_BYTES);
		rig_close(&rig);
	}
	print_message("%d of %d calls were cancelled\n", n_cancelled, N_CANCELS);
	assert_true(n_cancelled >= N_CANCELS / 10);
}

struct counted_cancel {
	_Atomic int cancel;
	size_t at;
};

static const uint32_t *cancel_at(void *user, size_t position) {
	struct counted_cancel *c = user;
	if (position == c->at)
		atomic_store(&c->cancel, 1);
	return NULL; // plain causal
}

// The flag raised exactly before a chosen chunk (masks are asked for before each): the chunks before it stay.
static void test_cancel_keeps_whole_chunks(void **state) {
	struct labs *labs = *state;
	struct text t = {.n = 100};
	uint64_t seed = 11;
	draw_tokens(t.tokens, t.n, &seed);
	for (int at = 0; at < 100; at += 9) {
		struct rig rig;
		struct counted_cancel c = {.at = (size_t)at};
		struct session_sync_result r = {0};
		rig_open(&rig, &labs->lab[1], &(struct rig_options){.n_threads = 2, .chunk_tokens = 16, .capacity_tokens = 128});
		session_set_mask(rig.session, cancel_at, &c);
		assert_int_equal(session_sync(rig.session, t.tokens, 100, &c.cancel, &r, NULL), ERR_CANCELLED);
		assert_int_equal(r.new_tokens, at / 16 * 16);
		assert_int_equal(r.hit_tokens, 0);
		session_set_mask(rig.session, NULL, NULL);
		float cold[TINY_VOCAB];
		sync_ok(rig.session, t.tokens, 100, &r);
		assert_int_equal(r.hit_tokens, at / 16 * 16);
		cold_logits(&labs->lab[1], ACTIVATION_Q8, KV_F16, t.tokens, 100, cold);
		assert_memory_equal(session_logits(rig.session), cold, LOGITS_BYTES);
		rig_close(&rig);
	}
}

// Two sessions in turn on one store and one pool do not disturb each other; the scratch size is what was announced.
static void test_two_sessions_share_a_store(void **state) {
	struct labs *labs = *state;
	const struct model *m = labs->lab[0].models[1];
	struct maskstore_geometry g = session_geometry(m, KV_F16);
	struct maskstore *store = NULL;
	assert_int_equal(maskstore_create(&g, 12 * maskstore_block_bytes(&g), &store, NULL), ERR_OK);
	struct session_options o = {.capacity_tokens = 190, .chunk_tokens = 10, .store = store, .pool = labs->lab[0].pools[2]};
	struct session *s[2];
	struct text t[2] = {{.n = 150}, {.n = 170}};
	uint64_t seed = 3;
	assert_true(session_scratch_bytes(m, &o) > LOGITS_BYTES);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(session_create(m, &o, &s[i], NULL), ERR_OK);
		draw_tokens(t[i].tokens, t[i].n, &seed);
	}
	for (int n = 30; n <= 150; n += 30)
		for (int i = 0; i < 2; i++)
			sync_ok(s[i], t[i].tokens, n + 20 * i, NULL);
	for (int i = 0; i < 2; i++) {
		float cold[TINY_VOCAB];
		cold_logits(&labs->lab[0], ACTIVATION_Q8, KV_F16, t[i].tokens, t[i].n, cold);
		assert_memory_equal(session_logits(s[i]), cold, LOGITS_BYTES);
		session_destroy(s[i]);
	}
	struct maskstore_stats stats;
	maskstore_stats(store, &stats);
	assert_int_equal(stats.n_hot, 0);
	maskstore_destroy(store);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reuse_equals_recompute), cmocka_unit_test(test_guesses_equal_steps), cmocka_unit_test(test_guesses_that_do_not_fit), cmocka_unit_test(test_steps_equal_sync), cmocka_unit_test(test_rewind),
		cmocka_unit_test(test_bad_arguments_change_nothing), cmocka_unit_test(test_mask_that_hides_everything),
		cmocka_unit_test(test_budget_exhaustion), cmocka_unit_test(test_cancel_at_random_moments),
		cmocka_unit_test(test_cancel_keeps_whole_chunks), cmocka_unit_test(test_two_sessions_share_a_store),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
