// SPDX-License-Identifier: MIT
// Pages from the system: aligned, zeroed, usable to their last byte, and really given back.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>

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

#define N_SLICES 6

struct reader {
	const uint8_t *data; // [N_SLICES · PAGES_LARGE_BYTES]
	_Atomic int stop;
	_Atomic long wrong, rounds;
};

static uint8_t byte_at(size_t i) {
	return (uint8_t)(i * 131 + i / 4096 * 7);
}

static void *read_on(void *arg) {
	struct reader *r = arg;
	while (!r->stop) {
		for (size_t i = 0; i < N_SLICES * PAGES_LARGE_BYTES; i += 509)
			r->wrong += r->data[i] != byte_at(i);
		r->rounds++;
	}
	return NULL;
}

// A mapped file is replaced slice by slice under a thread that reads it: it sees the same bytes all the time, and the file stays as it is.
static void test_replaced_under_a_reader(void **state) {
	(void)state;
	if (!pages_large_on())
		skip();
	FILE *f = tmpfile();
	assert_non_null(f);
	for (size_t i = 0; i < N_SLICES * PAGES_LARGE_BYTES; i++)
		assert_int_not_equal(putc(byte_at(i), f), EOF);
	assert_int_equal(fflush(f), 0);
	uint8_t *p = pages_alloc(N_SLICES * PAGES_LARGE_BYTES); // an aligned place for the same file
	assert_non_null(p);
	assert_true(mmap(p, N_SLICES * PAGES_LARGE_BYTES, PROT_READ, MAP_PRIVATE | MAP_FIXED, fileno(f), 0) == (void *)p);
	struct reader r = {.data = p};
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, read_on, &r), 0);
	while (!r.rounds)
		sched_yield();
	for (size_t i = 0; i < N_SLICES; i++)
		assert_true(pages_replace(p + i * PAGES_LARGE_BYTES, PAGES_LARGE_BYTES));
	for (long seen = r.rounds; r.rounds < seen + 2;)
		sched_yield();
	r.stop = 1;
	pthread_join(thread, NULL);
	assert_int_equal(r.wrong, 0);
	for (size_t i = 0; i < N_SLICES * PAGES_LARGE_BYTES; i++)
		if (p[i] != byte_at(i))
			fail_msg("byte %zu", i);
	pages_free(p, N_SLICES * PAGES_LARGE_BYTES);
	(void)fclose(f);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_aligned_zeroed_writable), cmocka_unit_test(test_nothing_stays_mapped), cmocka_unit_test(test_absurd_sizes),
		cmocka_unit_test(test_replaced_under_a_reader),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
