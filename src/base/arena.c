// SPDX-License-Identifier: MIT
// Bump allocator over one aligned, zeroed block.
#include "base/arena.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/pages.h"

size_t arena_size(size_t n_bytes) {
	return (n_bytes + ARENA_ALIGN_BYTES - 1) / ARENA_ALIGN_BYTES * ARENA_ALIGN_BYTES;
}

static bool is_large(size_t cap_bytes) {
	return cap_bytes >= PAGES_LARGE_BYTES;
}

enum err arena_init(struct arena *a, size_t cap_bytes) {
	cap_bytes = arena_size(cap_bytes ? cap_bytes : 1);
	bool large = is_large(cap_bytes);
	uint8_t *base = large ? pages_alloc(cap_bytes) : aligned_alloc(ARENA_ALIGN_BYTES, cap_bytes);
	if (!base)
		return ERR_NOMEM;
	if (!large)
		memset(base, 0, cap_bytes);
	*a = (struct arena){.base = base, .cap_bytes = cap_bytes};
	return ERR_OK;
}

void arena_finish(struct arena *a) {
	if (is_large(a->cap_bytes))
		pages_free(a->base, a->cap_bytes);
	else
		free(a->base);
	*a = (struct arena){0};
}

void *arena_alloc(struct arena *a, size_t n_bytes) {
	if (n_bytes > a->cap_bytes)
		return NULL;
	size_t n = arena_size(n_bytes);
	if (n > a->cap_bytes - a->used_bytes)
		return NULL;
	void *p = a->base + a->used_bytes;
	a->used_bytes += n;
	return p;
}

void arena_reset(struct arena *a) {
	a->used_bytes = 0;
}
