// SPDX-License-Identifier: MIT
// Bump allocation: alignment, zeroing, the end of the block.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"

static void test_alignment_and_end(void **state) {
	(void)state;
	struct arena a;
	assert_int_equal(arena_init(&a, arena_size(1) + arena_size(65) + arena_size(64)), ERR_OK);
	uint8_t *x = arena_alloc(&a, 1), *y = arena_alloc(&a, 65), *z = arena_alloc(&a, 64);
	assert_non_null(x);
	assert_non_null(y);
	assert_non_null(z);
	assert_int_equal((uintptr_t)x % ARENA_ALIGN_BYTES, 0);
	assert_int_equal(y - x, 64);
	assert_int_equal(z - y, 128);
	assert_null(arena_alloc(&a, 1));
	assert_null(arena_alloc(&a, SIZE_MAX));
	assert_null(arena_alloc(&a, SIZE_MAX - 62)); // would wrap when rounded up
	arena_reset(&a);
	assert_ptr_equal(arena_alloc(&a, 1), x);
	arena_finish(&a);
	arena_finish(&a);
}

static void test_zeroed(void **state) {
	(void)state;
	struct arena a;
	assert_int_equal(arena_init(&a, 1000), ERR_OK);
	uint8_t *p = arena_alloc(&a, 1000);
	assert_non_null(p);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(p[i], 0);
	arena_finish(&a);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_alignment_and_end), cmocka_unit_test(test_zeroed)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
