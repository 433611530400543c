// SPDX-License-Identifier: MIT
// The thread pool: each part runs once, writes are seen, parked workers wake. Meant to run under TSan too: shared data
// are plain on purpose, so that a missing order shows as a race.
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <pthread.h>

#include <cmocka.h>

#include "base/pool.h"

#define MAX_THREADS 8

struct work {
	int n_calls[MAX_THREADS];
	int n_threads_seen[MAX_THREADS];
	int input; // written by the caller before, read by all
	int64_t parts[MAX_THREADS];
};

static void count(void *arg, int i, int n) {
	struct work *w = arg;
	w->n_calls[i]++;
	w->n_threads_seen[i] = n;
	w->parts[i] = (int64_t)w->input * (i + 1);
}

// Many short operations in a row, some after a pause long enough for the workers to park.
static void test_runs_once_each(void **state) {
	(void)state;
	for (int n = 1; n <= MAX_THREADS; n++) {
		struct pool *p;
		struct work w = {0};
		assert_int_equal(pool_create(n, &p), ERR_OK);
		assert_int_equal(pool_size(p), n);
		for (int round = 1; round <= 400; round++) {
			w.input = round;
			pool_run(p, count, &w);
			for (int i = 0; i < n; i++) {
				assert_int_equal(w.n_calls[i], round);
				assert_int_equal(w.n_threads_seen[i], n);
				assert_int_equal(w.parts[i], (int64_t)round * (i + 1));
			}
			if (round % 100 == 0)
				nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
		}
		pool_destroy(p);
	}
}

static void sleep_one(void *arg, int i, int n) {
	count(arg, i, n);
	if (i == n - 1)
		nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

// A slow worker: the caller parks and is woken.
static void test_waits_for_slow_part(void **state) {
	(void)state;
	struct pool *p;
	struct work w = {0};
	assert_int_equal(pool_create(3, &p), ERR_OK);
	for (int round = 1; round <= 5; round++) {
		w.input = round;
		pool_run(p, sleep_one, &w);
		assert_int_equal(w.parts[2], 3 * round);
	}
	pool_destroy(p);
}

static void test_create_destroy(void **state) {
	(void)state;
	struct pool *p = NULL;
	assert_int_equal(pool_create(0, &p), ERR_ARG);
	assert_int_equal(pool_create(POOL_MAX_THREADS + 1, &p), ERR_ARG);
	assert_null(p);
	pool_destroy(NULL);
	for (int i = 0; i < 50; i++) { // never used, or used once
		assert_int_equal(pool_create(1 + i % 4, &p), ERR_OK);
		struct work w = {0};
		if (i % 2)
			pool_run(p, count, &w);
		pool_destroy(p);
	}
}

static void read_mask(void *arg, int i, int n) {
	(void)n;
	sigset_t mask;
	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	((int *)arg)[i] = sigismember(&mask, SIGTERM) && sigismember(&mask, SIGINT);
}

// Workers block signals; the caller's mask is as before.
static void test_signals(void **state) {
	(void)state;
	struct pool *p;
	int blocked[3] = {-1, -1, -1};
	assert_int_equal(pool_create(3, &p), ERR_OK);
	pool_run(p, read_mask, blocked);
	pool_destroy(p);
	assert_int_equal(blocked[0], 0);
	assert_int_equal(blocked[1], 1);
	assert_int_equal(blocked[2], 1);
}

// Parts cover 0..n, ascending, without gap, in whole units but for the end.
static void test_split(void **state) {
	(void)state;
	for (int n = 0; n < 200; n += 7)
		for (int unit = 1; unit <= 32; unit *= 4)
			for (int n_threads = 1; n_threads <= 9; n_threads++) {
				int at = 0, most = 0, least = n + unit;
				for (int i = 0; i < n_threads; i++) {
					int begin, end;
					pool_split(n, unit, i, n_threads, &begin, &end);
					assert_int_equal(begin, at);
					assert_true(end >= begin && (end % unit == 0 || end == n));
					most = end - begin > most ? end - begin : most;
					least = end - begin < least ? end - begin : least;
					at = end;
				}
				assert_int_equal(at, n);
				assert_true(most - least <= 2 * unit);
			}
	int begin, end;
	pool_split(INT32_MAX / 2, 16, 63, 64, &begin, &end); // no overflow
	assert_int_equal(end, INT32_MAX / 2);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_runs_once_each), cmocka_unit_test(test_waits_for_slow_part),
		cmocka_unit_test(test_create_destroy), cmocka_unit_test(test_signals), cmocka_unit_test(test_split)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
