// SPDX-License-Identifier: MIT
// A mapping one large page longer than asked for, cut down to its aligned part.
//
// Without reservation: who asks for a cache's whole budget uses little of it at first. Large pages are asked for by madvise, which is
// what most systems wait for; a refusal changes nothing but speed.
#define _GNU_SOURCE // mremap
#include "base/pages.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

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

bool pages_large_on(void) {
#ifdef MREMAP_FIXED
	char modes[64] = "";
	FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
	if (!f)
		return false;
	size_t n = fread(modes, 1, sizeof modes - 1, f);
	(void)fclose(f);
	return n > 0 && !strstr(modes, "[never]");
#else
	return false;
#endif
}

bool pages_replace(void *at, size_t n_bytes) {
#ifdef MREMAP_FIXED
	uint8_t *copy = pages_alloc(n_bytes);
	if (!copy)
		return false;
	memcpy(copy, at, n_bytes);
	// One call takes the old mapping away and puts the new one there: the system lets no other thread see the gap.
	if (!mprotect(copy, n_bytes, PROT_READ) && mremap(copy, n_bytes, n_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at) == at)
		return true;
	pages_free(copy, n_bytes);
#else
	(void)at, (void)n_bytes;
#endif
	return false;
}
