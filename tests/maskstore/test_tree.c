// SPDX-License-Identifier: MIT
// The tree of prefixes against a plain model: timelines that grow, leave and come back; every slot of a block says which tokens led to it, so a
// wrong match, a write into a shared slot or a block that was freed too early shows as a wrong stamp.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "maskstore/maskstore.h"

#define N_TIMELINES 3
#define MAX_TOKENS 300
#define MAX_BLOCKS ((MAX_TOKENS + 31) / 32)

static const struct maskstore_geometry SMALL = {.n_layer = 1, .n_head_kv = 1, .head_dim = 32, .kv_type = KV_F32};

static uint32_t draw(uint64_t *state, uint32_t n) {
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return (uint32_t)((*state * 0x2545F4914F6CDD1DULL) >> 33) % n;
}

struct timeline {
	int32_t ids[MAX_TOKENS];
	int n;
	block_id blocks[MAX_BLOCKS];
	int n_blocks;
};

static void check(struct maskstore *ms) {
	struct err_msg msg = {""};
	if (maskstore_check(ms, &msg) != ERR_OK)
		fail_msg("%s", msg.text);
}

static struct maskstore *create(size_t n_blocks) {
	struct maskstore *ms = NULL;
	assert_int_equal(maskstore_create(&SMALL, n_blocks * maskstore_block_bytes(&SMALL), &ms, NULL), ERR_OK);
	return ms;
}

// What slot `i` of a timeline must hold: a hash of the tokens up to it.
static uint32_t stamp(const int32_t *ids, int i) {
	uint32_t h = 2166136261u;
	for (int k = 0; k <= i; k++)
		h = (h ^ (uint32_t)ids[k]) * 16777619u;
	return h;
}

static uint32_t *slot(struct maskstore *ms, const struct timeline *t, int i) {
	return (uint32_t *)maskstore_v(ms, t->blocks[i / 32], 0, 0) + (i % 32) * 32;
}

static void verify(struct maskstore *ms, const struct timeline *t) {
	for (int i = 0; i < t->n; i++)
		assert_int_equal(*slot(ms, t, i), stamp(t->ids, i));
}

// Leaves all blocks past the first n tokens.
static void rewind_to(struct maskstore *ms, struct timeline *t, int n) {
	t->n = n;
	while (t->n_blocks > (n + 31) / 32)
		maskstore_drop(ms, t->blocks[--t->n_blocks]);
}

// Appends one token as a session does. False if the budget is used up.
static bool append(struct maskstore *ms, struct timeline *t, int32_t id) {
	int s = t->n % 32, b = t->n / 32;
	block_id copy;
	if (s == 0) {
		if (maskstore_alloc(ms, &t->blocks[b]) != ERR_OK)
			return false;
		t->n_blocks++;
	} else if (!maskstore_is_writable(ms, t->blocks[b], s)) {
		if (maskstore_copy(ms, t->blocks[b], &copy) != ERR_OK)
			return false;
		maskstore_drop(ms, t->blocks[b]);
		t->blocks[b] = copy;
	}
	t->ids[t->n] = id;
	*slot(ms, t, t->n) = stamp(t->ids, t->n);
	t->n++;
	maskstore_publish(ms, &t->blocks[b], b ? t->blocks[b - 1] : BLOCK_NONE, t->ids + b * 32, s + 1);
	return true;
}

// Goes to ids[n] the way a session does; returns what was found in the tree or kept.
static int go_to(struct maskstore *ms, struct timeline *t, const int32_t *ids, int n) {
	int hit = 0;
	while (hit < n && hit < t->n && ids[hit] == t->ids[hit])
		hit++;
	rewind_to(ms, t, hit / 32 * 32);
	int begin = t->n, b = begin / 32;
	int expected = maskstore_probe(ms, b ? t->blocks[b - 1] : BLOCK_NONE, ids + begin, n - begin);
	int found = maskstore_find(ms, b ? t->blocks[b - 1] : BLOCK_NONE, ids + begin, n - begin, t->blocks + b);
	assert_int_equal(found, expected);
	memcpy(t->ids + begin, ids + begin, (size_t)found * sizeof *ids);
	t->n = begin + found;
	t->n_blocks = (t->n + 31) / 32;
	return t->n;
}

static void test_branches_share(void **state) {
	(void)state;
	struct maskstore *ms = create(64);
	struct timeline a = {.n = 0}, b = {.n = 0};
	int32_t ids[MAX_TOKENS];
	for (int i = 0; i < 100; i++) {
		ids[i] = i;
		assert_true(append(ms, &a, i));
	}
	assert_int_equal(go_to(ms, &b, ids, 100), 100); // shared whole, the tail of 4 tokens too
	struct maskstore_stats s;
	maskstore_stats(ms, &s);
	assert_int_equal(s.n_hot, 4);
	rewind_to(ms, &b, 70);
	assert_false(maskstore_is_writable(ms, b.blocks[2], 6));
	assert_true(append(ms, &b, 555)); // in the middle of a block that `a` has: a copy
	verify(ms, &a);
	verify(ms, &b);
	maskstore_stats(ms, &s);
	assert_int_equal(s.n_hot, 5);
	assert_int_equal(s.n_copied, 1);
	rewind_to(ms, &a, 0);
	rewind_to(ms, &b, 0);
	check(ms);
	assert_int_equal(go_to(ms, &a, ids, 100), 100); // nobody had it pinned, it is still there
	verify(ms, &a);
	ids[70] = 555;
	assert_int_equal(go_to(ms, &b, ids, 71), 71);
	verify(ms, &b);
	rewind_to(ms, &a, 0);
	rewind_to(ms, &b, 0);
	maskstore_clear(ms);
	maskstore_stats(ms, &s);
	assert_int_equal(s.n_hot, 0);
	maskstore_destroy(ms);
}

// Two timelines that compute the same tokens end on the same block.
static void test_twins_become_one(void **state) {
	(void)state;
	struct maskstore *ms = create(16);
	struct timeline a = {.n = 0}, b = {.n = 0};
	for (int i = 0; i < 40; i++) {
		assert_true(append(ms, &a, i));
		assert_true(append(ms, &b, i));
	}
	assert_int_equal(a.blocks[0], b.blocks[0]);
	assert_int_not_equal(a.blocks[1], b.blocks[1]); // tails differ until they are full
	check(ms);
	rewind_to(ms, &a, 0);
	rewind_to(ms, &b, 0);
	maskstore_destroy(ms);
}

static void test_tails_are_limited(void **state) {
	(void)state;
	struct maskstore *ms = create(2 * MASKSTORE_TAILS_MAX);
	struct timeline t = {.n = 0};
	for (int i = 0; i < 40; i++)
		assert_true(append(ms, &t, i));
	for (int i = 0; i < MASKSTORE_TAILS_MAX + 20; i++) {
		rewind_to(ms, &t, 36);
		assert_true(append(ms, &t, 1000 + i));
	}
	rewind_to(ms, &t, 0);
	check(ms);
	struct maskstore_stats s;
	maskstore_stats(ms, &s);
	assert_int_equal(s.n_cached, MASKSTORE_TAILS_MAX + 1); // and the full first block
	int32_t ids[37];
	for (int i = 0; i < 36; i++)
		ids[i] = i;
	ids[36] = 1000 + MASKSTORE_TAILS_MAX + 19;
	assert_int_equal(go_to(ms, &t, ids, 37), 37); // the newest is there
	ids[36] = 1000;
	assert_int_equal(go_to(ms, &t, ids, 37), 36); // the oldest gave way
	rewind_to(ms, &t, 0);
	maskstore_destroy(ms);
}

// What was found again outlives what was not; parents outlive children; pinned blocks stay.
static void test_eviction_order(void **state) {
	(void)state;
	struct maskstore *ms = create(8);
	struct timeline t = {.n = 0}, pinned = {.n = 0};
	int32_t file[96], other[96];
	for (int i = 0; i < 96; i++) {
		file[i] = i;
		other[i] = 500 + i;
	}
	for (int i = 0; i < 32; i++)
		assert_true(append(ms, &pinned, 900 + i));
	for (int i = 0; i < 96; i++)
		assert_true(append(ms, &t, file[i]));
	rewind_to(ms, &t, 0);
	assert_int_equal(go_to(ms, &t, file, 96), 96); // a hit
	rewind_to(ms, &t, 0);
	for (int i = 0; i < 96; i++)
		assert_true(append(ms, &t, other[i]));
	rewind_to(ms, &t, 0);
	for (int i = 0; i < 64; i++) // needs 2 of 8 blocks; 7 are in use
		assert_true(append(ms, &t, 2000 + i));
	check(ms);
	rewind_to(ms, &t, 0);
	assert_int_equal(maskstore_probe(ms, BLOCK_NONE, file, 96), 96);
	assert_int_equal(maskstore_probe(ms, BLOCK_NONE, other, 96), 64); // its last block went first
	verify(ms, &pinned);
	struct maskstore_stats s;
	maskstore_stats(ms, &s);
	assert_int_equal(s.n_evicted, 1);
	rewind_to(ms, &pinned, 0);
	maskstore_destroy(ms);
}

static void test_all_pinned_is_refused(void **state) {
	(void)state;
	struct maskstore *ms = create(2);
	struct timeline t = {.n = 0};
	for (int i = 0; i < 64; i++)
		assert_true(append(ms, &t, i));
	block_id id = 77;
	assert_int_equal(maskstore_alloc(ms, &id), ERR_NOMEM);
	assert_int_equal(id, 77);
	rewind_to(ms, &t, 60);
	assert_false(append(ms, &t, 7)); // the tail cannot be copied
	verify(ms, &t);
	check(ms);
	rewind_to(ms, &t, 0);
	maskstore_destroy(ms);
}

// Random timelines over an alphabet of 2 ids, so that they meet often; the walk after each operation.
static void test_random_operations(void **state) {
	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		uint64_t s = seed * 7919;
		struct maskstore *ms = create(N_TIMELINES * MAX_BLOCKS + draw(&s, 40) - (seed % 4 ? 0 : 12));
		struct timeline t[N_TIMELINES] = {{.n = 0}};
		static int32_t texts[6][MAX_TOKENS];
		for (int i = 0; i < 6; i++)
			for (int k = 0; k < MAX_TOKENS; k++)
				texts[i][k] = i && k < 40 * i ? texts[i - 1][k] : (int32_t)draw(&s, 2);
		for (int op = 0; op < 600; op++) {
			struct timeline *x = &t[draw(&s, N_TIMELINES)];
			uint32_t kind = draw(&s, 10);
			if (kind < 3) {
				rewind_to(ms, x, x->n ? (int)draw(&s, (uint32_t)x->n) : 0);
			} else if (kind < 6) {
				for (int k = (int)draw(&s, 50); k >= 0 && x->n < MAX_TOKENS && append(ms, x, (int32_t)draw(&s, 2)); k--)
					;
			} else {
				const int32_t *text = texts[draw(&s, 6)];
				int n = 1 + (int)draw(&s, MAX_TOKENS - 1);
				go_to(ms, x, text, n);
				while (x->n < n && append(ms, x, text[x->n]))
					;
			}
			check(ms);
			verify(ms, x);
		}
		for (int i = 0; i < N_TIMELINES; i++) {
			verify(ms, &t[i]);
			rewind_to(ms, &t[i], 0);
		}
		check(ms);
		maskstore_destroy(ms);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_branches_share), cmocka_unit_test(test_twins_become_one), cmocka_unit_test(test_tails_are_limited),
		cmocka_unit_test(test_eviction_order), cmocka_unit_test(test_all_pinned_is_refused), cmocka_unit_test(test_random_operations),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
