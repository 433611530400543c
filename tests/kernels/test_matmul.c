// SPDX-License-Identifier: MIT
// Products with quantised and float activations: the scalar set against double precision, every other set against the
// scalar set bit for bit, whatever the token count, the row split and the extremes of codes.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/kernels/gen.h"

// Truth: Σ value(weight)·q·d in double. The chain rounds once per block at its running size, so its error is below
// n_blocks·2^-24 of Σ|terms|, with some room for the rounded products of scales.
static double true_dot(const float *w, const struct act_block *act, int k, double *magnitude) {
	double sum = 0;
	*magnitude = 0;
	for (int i = 0; i < k; i++) {
		double term = (double)w[i] * act[i / 32].q[i % 32] * (double)act[i / 32].d;
		sum += term;
		*magnitude += fabs(term);
	}
	return sum;
}

static void check_against_truth(struct rng *g, enum dtype type, int k, enum fill fill) {
	const struct kernels *set = scalar_set();
	const int n_rows = 5, n_tokens = 2;
	struct weight w = make_weight(g, type, n_rows, k, fill);
	struct act_block *act = make_act(g, set, n_tokens, k, fill != FILL_RANDOM);
	void *scratch = alloc_bytes(kernels_matmul_scratch_bytes(k));
	float *row = alloc_bytes(sizeof(float) * (size_t)k), y[10];
	set->matmul(&w, 0, n_rows, act, n_tokens, y, 5, scratch, NULL);
	for (int r = 0; r < n_rows; r++) {
		set->dequantize_row(&w, r, row);
		for (int t = 0; t < n_tokens; t++) {
			double magnitude, truth = true_dot(row, act + t * (k / 32), k, &magnitude);
			double bound = magnitude * (k / 32 * 2 + 8) * 0x1p-24 + 1e-30;
			// Types with mins cancel d·Σcode·q against m·Σq: each part may exceed the terms by 16 times.
			if (fabs((double)y[t * 5 + r] - truth) > bound * 16)
				fail_msg("%s row %d token %d: %.9g, truth %.9g, bound %.3g", dtype_info(type).name, r, t,
				         (double)y[t * 5 + r], truth, bound * 16);
		}
	}
	free((void *)w.data);
	free(act);
	free(scratch);
	free(row);
}

static void test_scalar_truth(void **state) {
	(void)state;
	struct rng g = {1};
	for (int i = N_FLOAT_TYPES; i < N_TYPES; i++)
		for (enum fill fill = FILL_RANDOM; fill <= FILL_EXTREMES; fill++)
			check_against_truth(&g, all_types[i], 768, fill);
}

// Differing outputs of two sets over rows [begin, end); rows outside must keep their marker.
static void check_equal(struct rng *g, enum dtype type, int n_rows, int begin, int end, int n_tokens, int k, enum fill fill) {
	const struct kernels *a = scalar_set(), *b = fast_set();
	bool floats = !dtype_info(type).quantised;
	struct weight w = make_weight(g, type, n_rows, k, fill);
	struct act_block *act = floats ? NULL : make_act(g, a, n_tokens, k, fill != FILL_RANDOM);
	size_t n_x = (size_t)n_tokens * (size_t)k;
	float *x = alloc_bytes(sizeof *x * n_x);
	for (size_t i = 0; i < n_x; i++)
		x[i] = rng_float(g);
	void *scratch = alloc_bytes(kernels_matmul_scratch_bytes(k));
	size_t stride = (size_t)n_rows + 3, y_bytes = sizeof(float) * stride * (size_t)n_tokens;
	float *ya = alloc_bytes(y_bytes), *yb = alloc_bytes(y_bytes);
	for (int mode = floats ? 1 : 0; mode < 2; mode++) {
		memset(ya, 0x5a, y_bytes);
		memset(yb, 0x5a, y_bytes);
		if (mode) {
			a->matmul_f32(&w, begin, end, x, n_tokens, ya, stride, scratch, NULL);
			b->matmul_f32(&w, begin, end, x, n_tokens, yb, stride, scratch, NULL);
		} else {
			a->matmul(&w, begin, end, act, n_tokens, ya, stride, scratch, NULL);
			b->matmul(&w, begin, end, act, n_tokens, yb, stride, scratch, NULL);
		}
		for (size_t i = 0; i < stride * (size_t)n_tokens; i++)
			if (memcmp(ya + i, yb + i, sizeof *ya))
				fail_msg("%s, %s activations, rows %d..%d, %d tokens, k %d, fill %d: token %d row %d: %a, expected %a",
				         dtype_info(type).name, mode ? "float" : "int8", begin, end, n_tokens, k, (int)fill,
				         (int)(i / stride), (int)(i % stride), (double)yb[i], (double)ya[i]);
	}
	free((void *)w.data);
	free(act);
	free(x);
	free(scratch);
	free(ya);
	free(yb);
}

static void test_equal_shapes(void **state) {
	(void)state;
	struct rng g = {2};
	static const int rows[][3] = {{1, 0, 1}, {8, 0, 8}, {7, 2, 7}, {16, 0, 16}, {24, 0, 24}, {37, 3, 36}, {45, 0, 45}};
	for (int i = 0; i < N_TYPES; i++)
		for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++)
			for (int n_tokens = 1; n_tokens <= 9; n_tokens++)
				check_equal(&g, all_types[i], rows[r][0], rows[r][1], rows[r][2], n_tokens, 512, FILL_RANDOM);
}

// More k than one chunk, more tokens than one token block, and k that is no multiple of the chunk or of 256.
static void test_equal_long(void **state) {
	(void)state;
	struct rng g = {3};
	for (int i = 0; i < N_TYPES; i++) {
		int step = dtype_info(all_types[i]).block_elems == 256 ? 256 : 32;
		check_equal(&g, all_types[i], 19, 0, 19, 2, 4864 / step * step, FILL_RANDOM);
		check_equal(&g, all_types[i], 19, 0, 19, 6, 1280 + step, FILL_RANDOM);
		check_equal(&g, all_types[i], 16, 0, 16, 1, step, FILL_RANDOM);
		check_equal(&g, all_types[i], 16, 0, 16, 5, 896 / step * step, FILL_RANDOM);
		check_equal(&g, all_types[i], 17, 0, 17, 131, 256, FILL_RANDOM);
	}
}

// Numbers of tokens about the 16 of an AMX tile, for one and two panels of 16 rows and for more k than one chunk.
static void test_equal_many(void **state) {
	(void)state;
	struct rng g = {8};
	static const int tokens[] = {12, 13, 16, 17, 24, 31, 33, 48, 144};
	for (int i = N_FLOAT_TYPES; i < N_TYPES; i++)
		for (size_t t = 0; t < sizeof tokens / sizeof tokens[0]; t++) {
			check_equal(&g, all_types[i], 52, 1, 50, tokens[t], 256, FILL_RANDOM);
			check_equal(&g, all_types[i], 16, 0, 16, tokens[t], 1536, FILL_EXTREMES);
		}
}

static void test_equal_extremes(void **state) {
	(void)state;
	struct rng g = {4};
	for (int i = N_FLOAT_TYPES; i < N_TYPES; i++)
		for (enum fill fill = FILL_ONES; fill <= FILL_EXTREMES; fill++)
			for (int n_tokens = 1; n_tokens <= 5; n_tokens++)
				check_equal(&g, all_types[i], 16, 0, 16, n_tokens, 512, fill);
}

// A float k that is no multiple of 8.
static void test_equal_float_tail(void **state) {
	(void)state;
	struct rng g = {5};
	for (int k = 1; k < 40; k++)
		for (int i = 0; i < N_FLOAT_TYPES; i++)
			check_equal(&g, all_types[i], 6, 0, 6, 1 + k % 5, k, FILL_RANDOM);
}

// Splitting rows and tokens anywhere gives the same bits as one call.
static void test_split_free(void **state) {
	(void)state;
	struct rng g = {6};
	const struct kernels *set = fast_set() ? fast_set() : scalar_set();
	enum { ROWS = 40, TOKENS = 11, K = 512 };
	void *scratch = alloc_bytes(kernels_matmul_scratch_bytes(K));
	static float whole[TOKENS * ROWS], parts[TOKENS * ROWS];
	for (int i = N_FLOAT_TYPES; i < N_TYPES; i++) {
		struct weight w = make_weight(&g, all_types[i], ROWS, K, FILL_RANDOM);
		struct act_block *act = make_act(&g, set, TOKENS, K, false);
		set->matmul(&w, 0, ROWS, act, TOKENS, whole, ROWS, scratch, NULL);
		for (int t = 0, n; t < TOKENS; t += n) {
			n = 1 + rng_below(&g, TOKENS - t);
			for (int r = 0, m; r < ROWS; r += m) {
				m = 1 + rng_below(&g, ROWS - r);
				set->matmul(&w, r, r + m, act + t * (K / 32), n, parts + t * ROWS, ROWS, scratch, NULL);
			}
		}
		assert_memory_equal(whole, parts, sizeof whole);
		free((void *)w.data);
		free(act);
	}
	free(scratch);
}

// A set flag ends the call before it writes anything.
static void test_cancel(void **state) {
	(void)state;
	struct rng g = {7};
	const struct kernels *set = fast_set() ? fast_set() : scalar_set();
	struct weight w = make_weight(&g, DTYPE_Q5_0, 32, 256, FILL_RANDOM);
	struct act_block *act = make_act(&g, set, 5, 256, false);
	void *scratch = alloc_bytes(kernels_matmul_scratch_bytes(256));
	_Atomic int cancel = 1;
	for (int n_tokens = 1; n_tokens <= 5; n_tokens += 4) {
		float y[5 * 32], untouched[5 * 32];
		memset(y, 0x5a, sizeof y);
		memset(untouched, 0x5a, sizeof untouched);
		set->matmul(&w, 0, 32, act, n_tokens, y, 32, scratch, &cancel);
		assert_memory_equal(y, untouched, sizeof y);
	}
	free((void *)w.data);
	free(act);
	free(scratch);
}

int main(void) {
	const struct CMUnitTest scalar[] = {cmocka_unit_test(test_scalar_truth), cmocka_unit_test(test_split_free),
	                                    cmocka_unit_test(test_cancel)};
	const struct CMUnitTest equal[] = {
		cmocka_unit_test(test_equal_shapes), cmocka_unit_test(test_equal_long), cmocka_unit_test(test_equal_many), cmocka_unit_test(test_equal_extremes),
		cmocka_unit_test(test_equal_float_tail)};
	int failed = cmocka_run_group_tests_name("scalar", scalar, NULL, NULL);
	if (fast_set())
		return failed + cmocka_run_group_tests_name("equal", equal, NULL, NULL);
	printf("skipped: this CPU or build has only the scalar set, nothing to compare\n");
	return failed ? failed : EXIT_SKIP;
}
