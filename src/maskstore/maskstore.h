// SPDX-License-Identifier: MIT
// The mask store: KV blocks in tiers. This part of it is the exact tier: a pool of fixed blocks, pin and release.
//
// The store knows geometry and bytes, never models, tokenizers or LSP; it is usable as a library of its own.
//
// A block holds the keys and values of KV_BLOCK_TOKENS (32) consecutive positions for every layer and KV head, laid out as
//   [n_layer][n_head_kv] { K [head_dim][32], V [32][head_dim] }
// in the element type of the geometry. One block is one allocation unit, 64-byte aligned, zeroed when first handed
// out, finite always (attention may read slots past the last token).
//
// States (function on each arrow):
//
//   FREE ──maskstore_alloc──► HOT (pinned) ──maskstore_release──► HOT (unpinned, owned by its timeline)
//     ▲                          ▲  └────────────maskstore_pin────────────┘
//     └────────maskstore_free────┘   (only unpinned)
//
// Invariants (numbered; maskstore_check walks them):
//  1. A block is in exactly one state; the free list holds exactly the FREE blocks.
//  2. A pinned block is never freed, moved or demoted; pins ≥ 0.
//  3. Bytes in use = HOT blocks × block_bytes ≤ budget_bytes.
//  4. The address of a block's payload never changes while it is not FREE.
// Threads: all functions may be called from any thread (one internal lock, held for O(1), except maskstore_check);
// payload bytes are written only by the holder of the block while it is pinned.
#ifndef MASKSTORE_MASKSTORE_H
#define MASKSTORE_MASKSTORE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "kernels/kernels.h"

struct maskstore;

// Index of a block in its store.
typedef uint32_t block_id;
#define BLOCK_NONE UINT32_MAX

// Head sizes must be a multiple of this for the tiers (spec §2); others get exact attention only, and the model says so once.
#define MASKSTORE_GRANULARITY 32

struct maskstore_geometry {
	int n_layer;
	int n_head_kv;
	int head_dim;
	enum kv_type kv_type;
};

// Bytes of one block. Pure; 0 if the geometry is absurd (a size is < 1 or the product overflows).
size_t maskstore_block_bytes(const struct maskstore_geometry *g);

struct maskstore_stats {
	size_t block_bytes;
	size_t budget_bytes;
	uint32_t n_blocks_max;  // that the budget allows
	uint32_t n_hot;         // in use
	uint32_t n_pinned;      // of these pinned at least once
	uint64_t n_alloc;       // calls since creation
	uint64_t n_free;
};

// Reserves address space for budget_bytes (rounded down to whole blocks, at least one) without touching it: memory
// becomes resident block by block. ERR_ARG for an absurd geometry or a budget below one block; ERR_NOMEM.
enum err maskstore_create(const struct maskstore_geometry *g, size_t budget_bytes, struct maskstore **out,
                          struct err_msg *msg) ERR_MUST_CHECK;
// Frees everything. All blocks must be unpinned (asserted). Accepts null.
void maskstore_destroy(struct maskstore *ms);
// Geometry and block size given at creation.
const struct maskstore_geometry *maskstore_geometry(const struct maskstore *ms);

// Takes a free block, HOT and pinned once. ERR_NOMEM when the budget is used up (nothing changes).
enum err maskstore_alloc(struct maskstore *ms, block_id *out) ERR_MUST_CHECK;
// Pins a HOT block once more.
void maskstore_pin(struct maskstore *ms, block_id id);
// Undoes one alloc's or pin's pin.
void maskstore_release(struct maskstore *ms, block_id id);
// Gives an unpinned HOT block back; its contents may be overwritten at once. Its pages may be returned to the system.
void maskstore_free(struct maskstore *ms, block_id id);

// K or V of one layer and head inside a block that is not FREE: pointer valid until the block is freed.
void *maskstore_k(const struct maskstore *ms, block_id id, int layer, int head);
void *maskstore_v(const struct maskstore *ms, block_id id, int layer, int head);

// A consistent snapshot.
void maskstore_stats(struct maskstore *ms, struct maskstore_stats *out);
// Walks the invariants; ERR_STATE with the number of the broken one. O(blocks). For tests, fuzzers and debug asserts.
enum err maskstore_check(struct maskstore *ms, struct err_msg *msg) ERR_MUST_CHECK;

#endif
