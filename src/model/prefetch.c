// SPDX-License-Identifier: MIT
// Maps a file slice by slice, which reads what is not in the system's cache yet, on large pages where it can (base/pages.h). A first touch of each 64 KB costs a
// fault; in one call they cost a third of that (docs/speed.md, Loading).
//
// A file that takes more than half of the memory is only read ahead: mapping all of it would push out what it mapped first. So is any where the system has no call to map
// ahead.
// Threads: one thread of its own; `stop` is the only thing it shares.
#include "model/prefetch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/thread.h"

#define SLICE_BYTES ((size_t)4 << 20) // 0.2 ms: the system holds the lock of all mappings meanwhile, and prefetch_stop waits as long

#if defined(__linux__) && !defined(MADV_POPULATE_READ)
#define MADV_POPULATE_READ 22 // Linux 5.14; older C libraries don't name it
#endif

struct prefetch {
	uint8_t *begin;
	size_t n_bytes;
	_Atomic int stop;
	pthread_t thread;
};

static bool stopped(struct prefetch *p) {
	return atomic_load_explicit(&p->stop, memory_order_relaxed);
}

static bool fits_memory(const struct prefetch *p) {
	long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
	return pages > 0 && page_bytes > 0 && p->n_bytes / (size_t)page_bytes <= (size_t)pages / 2;
}

// Refusals change nothing but speed.
static void *run(void *arg) {
	struct prefetch *p = arg;
	size_t at = 0;
#ifdef MADV_POPULATE_READ
	for (size_t n; fits_memory(p) && at < p->n_bytes && !stopped(p); at += n) {
		n = p->n_bytes - at < SLICE_BYTES ? p->n_bytes - at : SLICE_BYTES;
		if (madvise(p->begin + at, n, MADV_POPULATE_READ))
			break;
	}
#endif
	if (at < p->n_bytes && !stopped(p))
		(void)madvise(p->begin + at, p->n_bytes - at, MADV_WILLNEED);
	return NULL;
}

struct prefetch *prefetch_start(const void *data, size_t n_bytes) {
	struct prefetch *p = calloc(1, sizeof *p);
	if (!p)
		return NULL;
	size_t before = (uintptr_t)data % (uintptr_t)sysconf(_SC_PAGESIZE);
	p->begin = (uint8_t *)(uintptr_t)data - before;
	p->n_bytes = n_bytes + before;
	if (thread_start(&p->thread, run, p) == ERR_OK)
		return p;
	free(p);
	return NULL;
}

void prefetch_stop(struct prefetch *p) {
	if (!p)
		return;
	atomic_store_explicit(&p->stop, 1, memory_order_relaxed);
	pthread_join(p->thread, NULL);
	free(p);
}
