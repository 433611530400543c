// SPDX-License-Identifier: MIT
// A mapping one large page longer than asked for, cut down to its aligned part.
//
// Without reservation: who asks for a cache's whole budget uses little of it at first. Large pages are asked for by madvise, which is
// what most systems wait for; a refusal changes nothing but speed.
#include "base/pages.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

void *pages_alloc(size_t n_bytes) {
	size_t n = 0;
	if (__builtin_add_overflow(n_bytes, 2 * PAGES_LARGE_BYTES - 1, &n))
		return NULL;
	n_bytes = (n - PAGES_LARGE_BYTES) & ~(PAGES_LARGE_BYTES - 1);
	n = n_bytes + PAGES_LARGE_BYTES;
	uint8_t *all = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (all == MAP_FAILED)
		return NULL;
	size_t before = (PAGES_LARGE_BYTES - (uintptr_t)all % PAGES_LARGE_BYTES) % PAGES_LARGE_BYTES;
	if (before)
		(void)munmap(all, before);
	(void)munmap(all + before + n_bytes, PAGES_LARGE_BYTES - before);
#ifdef MADV_HUGEPAGE
	(void)madvise(all + before, n_bytes, MADV_HUGEPAGE);
#endif
	return all + before;
}

void pages_free(void *p, size_t n_bytes) {
	if (p)
		(void)munmap(p, (n_bytes + PAGES_LARGE_BYTES - 1) & ~(PAGES_LARGE_BYTES - 1));
}

const void *pages_map_file(int fd, size_t n_bytes) {
	size_t n = 0;
	if (!n_bytes || __builtin_add_overflow(n_bytes, PAGES_LARGE_BYTES, &n))
		return NULL;
	uint8_t *all = mmap(NULL, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (all == MAP_FAILED)
		return NULL;
	size_t before = (PAGES_LARGE_BYTES - (uintptr_t)all % PAGES_LARGE_BYTES) % PAGES_LARGE_BYTES, page = (size_t)sysconf(_SC_PAGESIZE);
	size_t end = before + (n_bytes + page - 1) / page * page; // up to here the file lies over the reservation
	uint8_t *at = mmap(all + before, n_bytes, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0);
	int error = errno;
	if (at == MAP_FAILED) {
		(void)munmap(all, n);
		errno = error;
		return NULL;
	}
	if (before)
		(void)munmap(all, before);
	if (end < n)
		(void)munmap(all + end, n - end);
#ifdef MADV_HUGEPAGE
	(void)madvise(at, n_bytes, MADV_HUGEPAGE);
#endif
	return at;
}

void pages_unmap_file(const void *p, size_t n_bytes) {
	if (p)
		(void)munmap((void *)(uintptr_t)p, n_bytes);
}
