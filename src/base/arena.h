// SPDX-License-Identifier: MIT
// Bump allocation out of one block of fixed size: load-time tables and session scratch. Not thread-safe.
#ifndef MASKSTORE_BASE_ARENA_H
#define MASKSTORE_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define ARENA_ALIGN_BYTES 64 // a cache line, and enough for any vector load

struct arena {
	uint8_t *base;      // owned, ARENA_ALIGN_BYTES aligned
	size_t cap_bytes;
	size_t used_bytes;
};

// Allocates `cap_bytes` at once (zeroed; large ones become resident as they are written, see pages.h). ERR_NOMEM if there is none.
enum err arena_init(struct arena *a, size_t cap_bytes) ERR_MUST_CHECK;
// Frees the block; all pointers into it die. Accepts a zeroed arena.
void arena_finish(struct arena *a);
// `n_bytes` aligned to ARENA_ALIGN_BYTES, or null when the arena is full. Valid until arena_reset or arena_finish.
void *arena_alloc(struct arena *a, size_t n_bytes);
// Bytes that arena_alloc really takes for a request: add these up to size an arena.
size_t arena_size(size_t n_bytes);
// Forgets all allocations.
void arena_reset(struct arena *a);

#endif
