// SPDX-License-Identifier: MIT
// Worker threads for kernels: static splits, one barrier per operation.
//
// pool_run calls `task` once on each of `n_threads` threads (the caller is thread 0) and returns when all are done.
// A short spin bridges the gap between two operations of one forward pass; then workers park on a condition
// variable, so an idle pool costs no CPU. One caller at a time.
#ifndef MASKSTORE_BASE_POOL_H
#define MASKSTORE_BASE_POOL_H

#include "base/err.h"

struct pool;

// Work for one thread: `i_thread` in [0, n_threads). Must split by static arithmetic on these two numbers.
typedef void pool_task(void *arg, int i_thread, int n_threads);

// Starts n_threads - 1 threads (1 ≤ n_threads ≤ POOL_MAX_THREADS). Signals are blocked in them.
enum err pool_create(int n_threads, struct pool **out) ERR_MUST_CHECK;
// Joins the threads. Accepts null.
void pool_destroy(struct pool *p);
// Number of threads, the caller included.
int pool_size(const struct pool *p);
// Runs `task(arg, i, n)` for all i and waits. Writes of all threads are visible to the caller afterwards.
void pool_run(struct pool *p, pool_task *task, void *arg);

#define POOL_MAX_THREADS 64

// The half-open part [*begin, *end) of `n` items for thread i of n_threads, in units of `unit` items (the last part
// takes the remainder): contiguous, ascending, covering.
void pool_split(int n, int unit, int i_thread, int n_threads, int *begin, int *end);

#endif
