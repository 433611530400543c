// SPDX-License-Identifier: MIT
// The mask store: KV blocks in tiers. This part of it is the exact tier: a pool of fixed blocks, pin and release, and a tree of
// prefixes by which timelines share blocks.
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
//   FREE ──maskstore_alloc──► HOT, pinned ──maskstore_release──► HOT, unpinned ──maskstore_pin, maskstore_find──► HOT, pinned
//     ▲                                                            │
//     └── maskstore_free, maskstore_drop (unpublished), eviction ──┘
//
// A block whose slots hold evaluated tokens is published: it then stands in the tree below the block of the 32 tokens before it, keeps the ids
// of its own 1 to 32 tokens, and stays there, unpinned, until the budget needs it. The same tokens after the same parents have the same bits
// (the caller's promise), so whoever needs a published prefix pins it instead of computing it. Published slots never change: a
// timeline that leaves them in the middle of a block goes on in a copy.
//
// Invariants (numbered; maskstore_check walks them):
//  1. A block is in exactly one state; the free list holds exactly the FREE blocks.
//  2. A pinned block is never freed, moved or demoted; pins ≥ 0.
//  3. Bytes in use = HOT blocks × block_bytes ≤ budget_bytes.
//  4. The address of a block's payload never changes while it is not FREE.
//  5. The parent of a published block is published and full; a block with children is full; children know their parent; no cycle.
//  6. At most MASKSTORE_TAILS_MAX published blocks are unpinned and not full.
// Threads: all functions may be called from any thread (one internal lock, held for O(1), except maskstore_check);
// payload bytes are written only by the holder of the block while it is pinned.
#ifndef MASKSTORE_MASKSTORE_H
#define MASKSTORE_MASKSTORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "kernels/kernels.h"

struct maskstore;
struct archive;
struct kv_key;

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
	uint32_t n_cached;      // of these published and unpinned: what eviction may take
	uint64_t n_alloc;       // calls since creation
	uint64_t n_free;
	uint64_t n_evicted;     // published blocks that the budget took
	uint64_t n_copied;      // copies on write
	uint64_t hit_tokens;    // found by maskstore_find
	uint64_t restored_tokens; // found by maskstore_restore
};

// Unpinned blocks of less than 32 tokens that are kept: ends of branches that someone may come back to (undo, backspace).
#define MASKSTORE_TAILS_MAX 64

// Reserves address space for budget_bytes (rounded down to whole blocks, at least one) without touching it: memory
// becomes resident block by block. ERR_ARG for an absurd geometry or a budget below one block; ERR_NOMEM.
enum err maskstore_create(const struct maskstore_geometry *g, size_t budget_bytes, struct maskstore **out,
                          struct err_msg *msg) ERR_MUST_CHECK;
// Frees everything. All blocks must be unpinned (asserted). Accepts null.
void maskstore_destroy(struct maskstore *ms);
// Geometry and block size given at creation.
const struct maskstore_geometry *maskstore_geometry(const struct maskstore *ms);

// Takes a free block, HOT and pinned once; where there is none, the published, unpinned leaf of the tree that is worth least (the longest unused,
// with a bonus for blocks that were found again). ERR_NOMEM when everything is pinned (nothing changes).
enum err maskstore_alloc(struct maskstore *ms, block_id *out) ERR_MUST_CHECK;
// Pins a HOT block once more.
void maskstore_pin(struct maskstore *ms, block_id id);
// Undoes one alloc's or pin's pin.
void maskstore_release(struct maskstore *ms, block_id id);
// Gives an unpinned HOT block without children back; its contents may be overwritten at once.
void maskstore_free(struct maskstore *ms, block_id id);

// K or V of one layer and head inside a block that is not FREE: pointer valid until the block is freed.
void *maskstore_k(const struct maskstore *ms, block_id id, int layer, int head);
void *maskstore_v(const struct maskstore *ms, block_id id, int layer, int head);

// --- tree of prefixes

// Undoes one pin of a block that a timeline leaves: unpublished, it is freed; published, it stays in the tree.
void maskstore_drop(struct maskstore *ms, block_id id);
// Says which tokens the first n slots (1..32) of *id hold, after the full block `parent` (BLOCK_NONE: they are the first of all). The
// caller has pinned both. Publishing again with more tokens of the same beginning is how a block fills up. Where the tree already has such a full block, the
// caller's pin moves to that one and *id is replaced by it (its own block is freed). No effect on condemned blocks and after them.
void maskstore_publish(struct maskstore *ms, block_id *id, block_id parent, const int32_t *ids /*[n]*/, int n);
// Longest published prefix of ids[n] after `parent`, which the caller has pinned (or BLOCK_NONE). Pins its blocks once each, writes them to
// path[ceil(n/32)] and returns its length in tokens. Only the last block may match in part.
int maskstore_find(struct maskstore *ms, block_id parent, const int32_t *ids, int n, block_id *path);
// The length that maskstore_find and then maskstore_restore would give, without pinning; nothing changes. The archive may still disappoint.
int maskstore_probe(struct maskstore *ms, block_id parent, const int32_t *ids, int n);
// Whether a pinned block may be written from `slot` on: nobody else has pinned it and no published slot is there.
bool maskstore_is_writable(struct maskstore *ms, block_id id, int slot);
// A new block, pinned once, whose payload is a copy of `id`'s (pinned). ERR_NOMEM as maskstore_alloc.
enum err maskstore_copy(struct maskstore *ms, block_id id, block_id *out) ERR_MUST_CHECK;
// Whether two blocks in use hold the same bytes.
bool maskstore_is_equal(const struct maskstore *ms, block_id a, block_id b);
// Forgets a block that the caller has pinned once, whose bytes are wrong, and all that follow it: they are found no more and freed (pinned ones, by
// whoever drops them last). The caller's pin stays.
void maskstore_condemn(struct maskstore *ms, block_id id);
// Frees all published blocks that nobody has pinned (a changed setting, tests).
void maskstore_clear(struct maskstore *ms);

// --- archive (archive.h): blocks at rest

// From now on blocks may be archived under names that begin at `root` and are found there. `a` is borrowed; it must be closed (all payloads given back)
// before the store is destroyed. Null: no archive (the beginning).
void maskstore_set_archive(struct maskstore *ms, struct archive *a, const struct kv_key *root);
// Full blocks of ids[n] after `parent` (pinned, or BLOCK_NONE) that the archive has and the tree has not: restored, published, pinned once each and written to
// path[n/32]. Returns how many tokens that is. Waits for the archive; *cancel (may be null) ends it early. Never fails: what cannot be restored is a miss.
int maskstore_restore(struct maskstore *ms, block_id parent, const int32_t *ids, int n, block_id *path, const _Atomic int *cancel);
// Queues a pinned block for the archive if it is full and not there yet; of one that is there the archive hears once an hour that it is in use. False where the archive could not take it now. Returns at once.
bool maskstore_archive(struct maskstore *ms, block_id id, bool to_disk);

// A consistent snapshot.
void maskstore_stats(struct maskstore *ms, struct maskstore_stats *out);
// Walks the invariants; ERR_STATE with the number of the broken one. O(blocks). For tests, fuzzers and debug asserts.
enum err maskstore_check(struct maskstore *ms, struct err_msg *msg) ERR_MUST_CHECK;

#endif
