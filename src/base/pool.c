// SPDX-License-Identifier: MIT
// Thread pool: one operation at a time, announced by a generation number.
//
// Invariants: `generation` grows by one per pool_run; `n_left` counts the workers that have not finished the current
// one; `task` and `arg` are written only while n_left is 0, before the generation is published (release), so a worker
// that sees the new number (acquire) sees them. `n_parked` is guarded by the lock.
// Waiting: a spin of SPIN_TURNS turns (about 20–60 us), long enough for the gap between two operations of a forward
// pass, then a condition variable, so that idle workers cost no CPU.
#include "base/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/thread.h"

#define SPIN_TURNS 2000

struct worker {
	struct pool *pool;
	int i_thread;
	pthread_t thread;
};

struct pool {
	int n_threads;
	pool_task *task;
	void *arg;
	_Atomic unsigned generation;
	_Atomic int n_left;
	_Atomic bool stop;
	pthread_mutex_t lock;
	pthread_cond_t wake;   // workers wait for a new generation
	pthread_cond_t done;   // the caller waits for n_left == 0
	int n_parked;
	bool caller_parked;
	struct worker workers[];
};

static void pause_cpu(void) {
#if defined(__x86_64__)
	__builtin_ia32_pause();
#else
	atomic_signal_fence(memory_order_seq_cst);
#endif
}

// Waits until the generation differs from `seen`; returns the new one.
static unsigned wait_generation(struct pool *p, unsigned seen) {
	for (int i = 0; i < SPIN_TURNS; i++) {
		unsigned g = atomic_load_explicit(&p->generation, memory_order_acquire);
		if (g != seen)
			return g;
		pause_cpu();
	}
	pthread_mutex_lock(&p->lock);
	p->n_parked++;
	unsigned g;
	while ((g = atomic_load_explicit(&p->generation, memory_order_acquire)) == seen)
		pthread_cond_wait(&p->wake, &p->lock);
	p->n_parked--;
	pthread_mutex_unlock(&p->lock);
	return g;
}

static void finish_part(struct pool *p) {
	if (atomic_fetch_sub_explicit(&p->n_left, 1, memory_order_acq_rel) != 1)
		return;
	pthread_mutex_lock(&p->lock);
	if (p->caller_parked)
		pthread_cond_signal(&p->done);
	pthread_mutex_unlock(&p->lock);
}

static void *work(void *arg) {
	struct worker *w = arg;
	struct pool *p = w->pool;
	unsigned seen = 0;
	for (;;) {
		seen = wait_generation(p, seen);
		if (atomic_load_explicit(&p->stop, memory_order_relaxed))
			return NULL;
		p->task(p->arg, w->i_thread, p->n_threads);
		finish_part(p);
	}
}

static void publish(struct pool *p) {
	pthread_mutex_lock(&p->lock);
	atomic_fetch_add_explicit(&p->generation, 1, memory_order_release);
	if (p->n_parked)
		pthread_cond_broadcast(&p->wake);
	pthread_mutex_unlock(&p->lock);
}

static void join_first(struct pool *p, int n_workers) {
	atomic_store_explicit(&p->stop, true, memory_order_relaxed);
	publish(p);
	for (int i = 0; i < n_workers; i++)
		pthread_join(p->workers[i].thread, NULL);
	pthread_cond_destroy(&p->done);
	pthread_cond_destroy(&p->wake);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

static enum err start_workers(struct pool *p) {
	for (int i = 0; i < p->n_threads - 1; i++) {
		p->workers[i] = (struct worker){.pool = p, .i_thread = i + 1};
		enum err e = thread_start(&p->workers[i].thread, work, &p->workers[i]);
		if (e != ERR_OK) {
			join_first(p, i);
			return e;
		}
	}
	return ERR_OK;
}

enum err pool_create(int n_threads, struct pool **out) {
	if (n_threads < 1 || n_threads > POOL_MAX_THREADS)
		return ERR_ARG;
	struct pool *p = calloc(1, sizeof *p + (size_t)(n_threads - 1) * sizeof p->workers[0]);
	if (!p)
		return ERR_NOMEM;
	p->n_threads = n_threads;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->wake, NULL);
	pthread_cond_init(&p->done, NULL);
	enum err e = start_workers(p);
	if (e == ERR_OK)
		*out = p;
	return e;
}

void pool_destroy(struct pool *p) {
	if (p)
		join_first(p, p->n_threads - 1);
}

int pool_size(const struct pool *p) {
	return p->n_threads;
}

static void wait_done(struct pool *p) {
	for (int i = 0; i < SPIN_TURNS; i++) {
		if (atomic_load_explicit(&p->n_left, memory_order_acquire) == 0)
			return;
		pause_cpu();
	}
	pthread_mutex_lock(&p->lock);
	p->caller_parked = true;
	while (atomic_load_explicit(&p->n_left, memory_order_acquire) != 0)
		pthread_cond_wait(&p->done, &p->lock);
	p->caller_parked = false;
	pthread_mutex_unlock(&p->lock);
}

void pool_run(struct pool *p, pool_task *task, void *arg) {
	if (p->n_threads == 1) {
		task(arg, 0, 1);
		return;
	}
	p->task = task;
	p->arg = arg;
	atomic_store_explicit(&p->n_left, p->n_threads - 1, memory_order_relaxed);
	publish(p);
	task(arg, 0, p->n_threads);
	wait_done(p);
}

void pool_split(int n, int unit, int i_thread, int n_threads, int *begin, int *end) {
	int n_units = (n + unit - 1) / unit;
	int first = (int)((long long)n_units * i_thread / n_threads);
	int last = (int)((long long)n_units * (i_thread + 1) / n_threads);
	*begin = first * unit < n ? first * unit : n;
	*end = last * unit < n ? last * unit : n;
}
