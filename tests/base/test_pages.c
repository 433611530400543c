// SPDX-License-Identifier: MIT
// Pages from the system: aligned, zeroed, usable to their last byte, and really given back.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "base/pages.h"

static void test_aligned_zeroed_writable(void **state) {
	(void)state;
	static const size_t sizes[] = {1, 4096, PAGES_LARGE_BYTES - 1, PAGES_LARGE_BYTES, PAGES_LARGE_BYTES + 1, 5 * PAGES_LARGE_BYTES - 3};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		size_t n = sizes[i];
		uint8_t *p = pages_alloc(n);
		assert_non_null(p);
		assert_int_equal((uintptr_t)p % PAGES_LARGE_BYTES, 0);
		for (size_t at = 0; at < n; at += 511)
			assert_int_equal(p[at], 0);
		p[0] = p[n - 1] = 7;
		pages_free(p, n);
	}
	pages_free(NULL, 1);
}

static size_t mapped_pages(void) {
	size_t n = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	if (!f || fscanf(f, "%zu", &n) != 1)
		n = 0;
	if (f)
		(void)fclose(f);
	return n;
}

static void test_nothing_stays_mapped(void **state) {
	(void)state;
	size_t before = mapped_pages();
	if (!before)
		skip(); // no /proc
	for (int i = 0; i < 100; i++) {
		uint8_t *p = pages_alloc(3 * PAGES_LARGE_BYTES + 1);
		assert_non_null(p);
		pages_free(p, 3 * PAGES_LARGE_BYTES + 1);
	}
	assert_true(mapped_pages() < before + PAGES_LARGE_BYTES / 4096);
}

static void test_absurd_sizes(void **state) {
	(void)state;
	assert_null(pages_alloc(SIZE_MAX));
	assert_null(pages_alloc(SIZE_MAX - PAGES_LARGE_BYTES));
	assert_null(pages_alloc((size_t)1 << 62));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_aligned_zeroed_writable), cmocka_unit_test(test_nothing_stays_mapped), cmocka_unit_test(test_absurd_sizes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
