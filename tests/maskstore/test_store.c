// SPDX-License-Identifier: MIT
// The block pool: geometry, budget, random operations against a plain model with the sanity walk after each, threads.
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "maskstore/maskstore.h"

static const struct maskstore_geometry SMALL = {.n_layer = 2, .n_head_kv = 3, .head_dim = 32, .kv_type = KV_F16};

static struct maskstore *create(const struct maskstore_geometry *g, size_t n_blocks) {
	struct maskstore *ms = NULL;
	struct err_msg msg;
	assert_int_equal(maskstore_create(g, n_blocks * maskstore_block_bytes(g) + 7, &ms, &msg), ERR_OK);
	return ms;
}

static void check(struct maskstore *ms) {
	struct err_msg msg = {""};
	if (maskstore_check(ms, &msg) != ERR_OK)
		fail_msg("%s", msg.text);
}

// xorshift64*: seeded, so that a failure repeats.
static uint32_t draw(uint64_t *state, uint32_t n) {
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return (uint32_t)((*state * 0x2545F4914F6CDD1DULL) >> 33) % n;
}

static void test_block_bytes(void **state) {
	(void)state;
	// The default model: 12,288 bytes of f16 KV per token (design.md §1).
	struct maskstore_geometry g = {.n_layer = 24, .n_head_kv = 2, .head_dim = 64, .kv_type = KV_F16};
	assert_int_equal(maskstore_block_bytes(&g), 12288 * 32);
	g.kv_type = KV_F32;
	assert_int_equal(maskstore_block_bytes(&g), 2 * 12288 * 32);
	static const struct maskstore_geometry absurd[] = {
		{0, 2, 64, KV_F16},  {24, 0, 64, KV_F16}, {24, 2, 0, KV_F16}, {-1, 2, 64, KV_F16},
		{24, -2, 64, KV_F16}, {INT32_MAX, INT32_MAX, INT32_MAX, KV_F32}, {1 << 30, 1 << 30, 8, KV_F16},
	};
	for (size_t i = 0; i < sizeof absurd / sizeof absurd[0]; i++)
		assert_int_equal(maskstore_block_bytes(&absurd[i]), 0);
}

static void test_create_errors(void **state) {
	(void)state;
	struct maskstore *ms = (struct maskstore *)&SMALL;
	struct err_msg msg;
	struct maskstore_geometry absurd = SMALL;
	absurd.n_layer = 0;
	assert_int_equal(maskstore_create(&absurd, 1 << 20, &ms, &msg), ERR_ARG);
	assert_int_equal(maskstore_create(&SMALL, maskstore_block_bytes(&SMALL) - 1, &ms, &msg), ERR_ARG);
	assert_non_null(strstr(msg.text, "below one block"));
	struct maskstore_geometry huge = {.n_layer = 1 << 20, .n_head_kv = 1 << 10, .head_dim = 1 << 10, .kv_type = KV_F32};
	assert_int_equal(maskstore_create(&huge, SIZE_MAX, &ms, &msg), ERR_NOMEM);
	assert_ptr_equal(ms, &SMALL); // untouched by every failure
	maskstore_destroy(NULL);
}

static void test_exhaustion(void **state) {
	(void)state;
	struct maskstore *ms = create(&SMALL, 3);
	block_id id[4];
	for (int i = 0; i < 3; i++) {
		assert_int_equal(maskstore_alloc(ms, &id[i]), ERR_OK);
		check(ms);
	}
	id[3] = 12345;
	assert_int_equal(maskstore_alloc(ms, &id[3]), ERR_NOMEM);
	assert_int_equal(id[3], 12345);
	struct maskstore_stats s;
	maskstore_stats(ms, &s);
	assert_int_equal(s.n_blocks_max, 3);
	assert_int_equal(s.n_hot, 3);
	assert_int_equal(s.n_pinned, 3);
	assert_int_equal(s.n_alloc, 3);
	maskstore_release(ms, id[1]);
	maskstore_free(ms, id[1]);
	assert_int_equal(maskstore_alloc(ms, &id[3]), ERR_OK);
	assert_int_equal(id[3], id[1]);
	for (int i = 0; i < 3; i++) {
		maskstore_release(ms, id[i]);
		maskstore_free(ms, id[i]);
		check(ms);
	}
	maskstore_destroy(ms);
}

// K and V of all layers and heads tile the block without gaps or overlaps, 64-byte aligned; new blocks are zero.
static void test_layout(void **state) {
	(void)state;
	struct maskstore *ms = create(&SMALL, 2);
	block_id id[2];
	assert_int_equal(maskstore_alloc(ms, &id[0]), ERR_OK);
	assert_int_equal(maskstore_alloc(ms, &id[1]), ERR_OK);
	size_t head_bytes = 32 * 32 * 2;
	uint8_t *expected = maskstore_k(ms, id[0], 0, 0);
	for (int b = 0; b < 2; b++)
		for (int l = 0; l < SMALL.n_layer; l++)
			for (int h = 0; h < SMALL.n_head_kv; h++) {
				assert_ptr_equal(maskstore_k(ms, id[b], l, h), expected);
				assert_ptr_equal(maskstore_v(ms, id[b], l, h), expected + head_bytes);
				assert_int_equal((uintptr_t)expected % 64, 0);
				for (size_t i = 0; i < 2 * head_bytes; i++)
					assert_int_equal(expected[i], 0);
				expected += 2 * head_bytes;
			}
	assert_memory_equal(maskstore_geometry(ms), &SMALL, sizeof SMALL);
	for (int b = 0; b < 2; b++) {
		maskstore_release(ms, id[b]);
		maskstore_free(ms, id[b]);
	}
	maskstore_destroy(ms);
}

#define N_BLOCKS 17

// What the test believes about the store.
struct plain {
	uint32_t pins[N_BLOCKS];
	bool hot[N_BLOCKS];
	uint32_t n_hot, n_pinned;
};

static uint32_t *payload(struct maskstore *ms, block_id id) {
	return maskstore_v(ms, id, SMALL.n_layer - 1, SMALL.n_head_kv - 1);
}

static void random_operation(struct maskstore *ms, struct plain *p, uint64_t *seed) {
	block_id id = draw(seed, N_BLOCKS);
	switch (draw(seed, 4)) {
	case 0:
		id = BLOCK_NONE;
		if (maskstore_alloc(ms, &id) == ERR_NOMEM) {
			assert_int_equal(p->n_hot, N_BLOCKS);
			return;
		}
		assert_in_range(id, 0, N_BLOCKS - 1);
		assert_false(p->hot[id]);
		p->hot[id] = true;
		p->pins[id] = 1;
		p->n_hot++;
		p->n_pinned++;
		*payload(ms, id) = id ^ 0xABCD1234u;
		return;
	case 1:
		if (!p->hot[id])
			return;
		maskstore_pin(ms, id);
		p->n_pinned += p->pins[id]++ == 0;
		return;
	case 2:
		if (!p->pins[id])
			return;
		maskstore_release(ms, id);
		p->n_pinned -= --p->pins[id] == 0;
		return;
	default:
		if (!p->hot[id] || p->pins[id])
			return;
		assert_int_equal(*payload(ms, id), id ^ 0xABCD1234u);
		maskstore_free(ms, id);
		p->hot[id] = false;
		p->n_hot--;
	}
}

static void test_random_operations(void **state) {
	(void)state;
	for (uint64_t run = 1; run <= 20; run++) {
		struct maskstore *ms = create(&SMALL, N_BLOCKS);
		struct plain p = {0};
		uint64_t seed = run * 0x9E3779B97F4A7C15ULL;
		for (int i = 0; i < 5000; i++) {
			random_operation(ms, &p, &seed);
			check(ms);
			struct maskstore_stats s;
			maskstore_stats(ms, &s);
			assert_int_equal(s.n_hot, p.n_hot);
			assert_int_equal(s.n_pinned, p.n_pinned);
			assert_int_equal(s.n_alloc - s.n_free, p.n_hot);
		}
		for (block_id id = 0; id < N_BLOCKS; id++) {
			for (; p.pins[id]; p.pins[id]--)
				maskstore_release(ms, id);
			if (p.hot[id])
				maskstore_free(ms, id);
		}
		check(ms);
		maskstore_destroy(ms);
	}
}

#define N_THREADS 4
#define N_OWN 8 // blocks that one thread holds at most

struct user {
	struct maskstore *ms;
	uint64_t seed;
	int wrong; // blocks whose payload another thread had changed
};

// Holds up to N_OWN blocks, writes its mark into each while pinned and looks at it before freeing.
static void *use_blocks(void *arg) {
	struct user *u = arg;
	block_id own[N_OWN];
	int n = 0;
	for (int i = 0; i < 20000; i++) {
		if (n < N_OWN && draw(&u->seed, 2) && maskstore_alloc(u->ms, &own[n]) == ERR_OK) {
			*payload(u->ms, own[n]) = (uint32_t)(uintptr_t)u;
			maskstore_pin(u->ms, own[n]);
			maskstore_release(u->ms, own[n]);
			n++;
		} else if (n) {
			n--;
			u->wrong += *payload(u->ms, own[n]) != (uint32_t)(uintptr_t)u;
			maskstore_release(u->ms, own[n]);
			maskstore_free(u->ms, own[n]);
		}
	}
	while (n--) {
		maskstore_release(u->ms, own[n]);
		maskstore_free(u->ms, own[n]);
	}
	return NULL;
}

static void test_threads(void **state) {
	(void)state;
	struct maskstore *ms = create(&SMALL, N_THREADS * N_OWN - 5); // so that it also runs out
	pthread_t threads[N_THREADS];
	struct user users[N_THREADS];
	for (int i = 0; i < N_THREADS; i++) {
		users[i] = (struct user){.ms = ms, .seed = (uint64_t)i + 1};
		assert_int_equal(pthread_create(&threads[i], NULL, use_blocks, &users[i]), 0);
	}
	for (int i = 0; i < 50; i++)
		check(ms);
	for (int i = 0; i < N_THREADS; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(users[i].wrong, 0);
	}
	check(ms);
	struct maskstore_stats s;
	maskstore_stats(ms, &s);
	assert_int_equal(s.n_hot, 0);
	assert_int_equal(s.n_alloc, s.n_free);
	assert_true(s.n_alloc > 1000);
	maskstore_destroy(ms);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_block_bytes), cmocka_unit_test(test_create_errors), cmocka_unit_test(test_exhaustion), cmocka_unit_test(test_layout),
		cmocka_unit_test(test_random_operations), cmocka_unit_test(test_threads),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
