// SPDX-License-Identifier: MIT
// Two pieces of advice in turn: read the file ahead, then map what is there, slice by slice. A first touch of each 64 KB costs a fault; in one call
// they cost a third of that (docs/speed.md, Loading). Then, at low priority, the mapping is replaced by copies on large pages, slice by slice: a file's
// pages are small, and products of one token miss the TLB for each of them, which costs more than the bytes do (docs/speed.md, Kernels).
//
// A file that takes more than half of the memory is only read ahead: mapping all of it would push out what it mapped first. One that takes more than an
// eighth is not copied, since a copy can't be dropped and read again.
// Threads: one thread of its own; `stop` is the only thing it shares.
#include "model/prefetch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/pages.h"
#include "base/thread.h"

#define SLICE_BYTES ((size_t)4 << 20) // 0.2 ms: the system holds the lock of all mappings meanwhile, and prefetch_stop waits as long
#define COPY_NICE 10

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

// The aligned slices of the range on large pages.
static void enlarge_pages(struct prefetch *p) {
	(void)setpriority(PRIO_PROCESS, 0, COPY_NICE); // Linux: of this thread; a refusal changes nothing that matters
	uint8_t *end = p->begin + p->n_bytes, *at = p->begin + (PAGES_LARGE_BYTES - (uintptr_t)p->begin % PAGES_LARGE_BYTES) % PAGES_LARGE_BYTES;
	while (!stopped(p) && at < end && (size_t)(end - at) >= SLICE_BYTES && pages_replace(at, SLICE_BYTES))
		at += SLICE_BYTES;
}

static void *run(void *arg) {
	struct prefetch *p = arg;
	(void)madvise(p->begin, p->n_bytes, MADV_WILLNEED); // a refusal changes nothing but speed, here and below
#ifdef MADV_POPULATE_READ
	long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
	if (pages < 1 || page_bytes < 1 || p->n_bytes / (size_t)page_bytes > (size_t)pages / 2)
		return NULL;
	for (size_t at = 0, n; at < p->n_bytes && !stopped(p); at += n) {
		n = p->n_bytes - at < SLICE_BYTES ? p->n_bytes - at : SLICE_BYTES;
		if (madvise(p->begin + at, n, MADV_POPULATE_READ))
			break;
	}
	if (p->n_bytes / (size_t)page_bytes <= (size_t)pages / 8 && pages_large_on())
		enlarge_pages(p);
#endif
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
