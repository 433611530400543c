// SPDX-License-Identifier: MIT
// Pages from the system: aligned, zeroed, usable to their last byte, and really given back.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
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

static uint8_t byte_at(size_t i) {
	return (uint8_t)(i * 131 + i / 4096 * 7);
}

// Files of odd sizes, read to their last byte after they were closed.
static void test_files_are_mapped(void **state) {
	(void)state;
	static const size_t sizes[] = {1, 4095, 4096, 4097, PAGES_LARGE_BYTES - 1, PAGES_LARGE_BYTES, 3 * PAGES_LARGE_BYTES + 5};
	size_t before = mapped_pages();
	for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
		FILE *f = tmpfile();
		assert_non_null(f);
		for (size_t i = 0; i < sizes[k]; i++)
			assert_int_not_equal(putc(byte_at(i), f), EOF);
		assert_int_equal(fflush(f), 0);
		const uint8_t *p = pages_map_file(fileno(f), sizes[k]);
		(void)fclose(f);
		assert_non_null(p);
		assert_int_equal((uintptr_t)p % PAGES_LARGE_BYTES, 0);
		for (size_t i = 0; i < sizes[k]; i++)
			if (p[i] != byte_at(i))
				fail_msg("size %zu, byte %zu", sizes[k], i);
		pages_unmap_file(p, sizes[k]);
	}
	assert_true(mapped_pages() < before + PAGES_LARGE_BYTES / 4096); // the reservations are gone too
}

static void test_what_cannot_be_mapped(void **state) {
	(void)state;
	errno = 0;
	assert_null(pages_map_file(-1, 4096));
	assert_int_equal(errno, EBADF);
	assert_null(pages_map_file(-1, SIZE_MAX));
	pages_unmap_file(NULL, 1);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_aligned_zeroed_writable), cmocka_unit_test(test_nothing_stays_mapped), cmocka_unit_test(test_absurd_sizes),
		cmocka_unit_test(test_files_are_mapped), cmocka_unit_test(test_what_cannot_be_mapped),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
