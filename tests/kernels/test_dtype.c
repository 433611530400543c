// SPDX-License-Identifier: MIT
// Tensor types: sizes, and values of every type against the gguf Python package (dtype_fixture.bin, made by
// make_dtype_fixture.py). Usage: test_dtype FIXTURE.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/kernels/gen.h"

static const char *fixture_path;

static uint32_t read_u32(FILE *f) {
	uint32_t u;
	assert_int_equal(fread(&u, sizeof u, 1, f), 1);
	return u;
}

static void check_values(const struct kernels *set, const struct weight *w, const float *expected) {
	float *row = alloc_bytes(sizeof *row * (size_t)w->k);
	for (int r = 0; r < w->n_rows; r++) {
		set->dequantize_row(w, r, row);
		for (int i = 0; i < w->k; i++)
			if (row[i] != expected[r * w->k + i])
				fail_msg("%s value %d of row %d: %a, expected %a", dtype_info(w->type).name, i, r, (double)row[i],
				         (double)expected[r * w->k + i]);
	}
	free(row);
}

static void test_values(void **state) {
	(void)state;
	FILE *f = fopen(fixture_path, "rb");
	assert_non_null(f);
	uint32_t type;
	int n_types = 0;
	while (fread(&type, sizeof type, 1, f) == 1) {
		uint32_t n_bytes = read_u32(f), n_values = read_u32(f);
		struct dtype_info info = dtype_info(type);
		assert_non_null(info.name);
		assert_int_equal(n_values / (uint32_t)info.block_elems * (uint32_t)info.block_bytes, n_bytes);
		uint8_t *data = alloc_bytes(n_bytes + 4);
		float *values = alloc_bytes(sizeof *values * n_values);
		assert_int_equal(fread(data, 1, (n_bytes + 3) / 4 * 4, f), (n_bytes + 3) / 4 * 4);
		assert_int_equal(fread(values, sizeof *values, n_values, f), n_values);
		struct weight w = {data, type, 2, (int)n_values / 2};
		check_values(scalar_set(), &w, values);
		check_values(kernels_get(cpu_flags()), &w, values);
		free(data);
		free(values);
		n_types++;
	}
	fclose(f);
	assert_int_equal(n_types, N_TYPES);
}

static void test_sizes(void **state) {
	(void)state;
	for (uint32_t type = 0; type < 64; type++) {
		bool listed = false;
		for (int i = 0; i < N_TYPES; i++)
			listed |= all_types[i] == type;
		assert_true(listed == (dtype_info(type).name != NULL));
	}
	assert_null(dtype_info(UINT32_MAX).name);
	assert_int_equal(dtype_row_bytes(DTYPE_Q5_0, 896), 616);
	assert_int_equal(dtype_row_bytes(DTYPE_Q6_K, 4864), 3990);
	assert_int_equal(dtype_row_bytes(DTYPE_F32, 7), 28);
	assert_int_equal(kv_type_bytes(KV_F16), 2);
	assert_int_equal(kv_type_bytes(KV_F32), 4);
	assert_int_equal(kv_type_bytes(KV_BF16), 2);
}

int main(int argc, char **argv) {
	if (argc != 2) {
		fprintf(stderr, "usage: test_dtype FIXTURE\n");
		return 2;
	}
	fixture_path = argv[1];
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_sizes), cmocka_unit_test(test_values)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
