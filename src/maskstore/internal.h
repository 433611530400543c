// SPDX-License-Identifier: MIT
// What the files of the store share. Private to the room; every function here wants the lock to be held.
#ifndef MASKSTORE_INTERNAL_H
#define MASKSTORE_INTERNAL_H

#include <pthread.h>

#include "maskstore/key.h"
#include "maskstore/maskstore.h"

enum block_state { BLOCK_FREE = 0, BLOCK_HOT = 1 };
enum archive_state { ARCHIVE_NOT = 0, ARCHIVE_QUEUED, ARCHIVE_DONE };

struct block {
	uint32_t pins;
	block_id next;  // in the stack of freed blocks; BLOCK_NONE ends it
	uint8_t state;  // enum block_state
	// Published blocks (n_ids > 0):
	uint8_t n_ids;
	uint8_t archived; // enum archive_state
	bool has_key;     // key is filled
	bool condemned;   // unlinked while others had it pinned: never published again
	uint32_t hits;    // times found by a timeline that did not hold it
	uint64_t used;    // the store's clock when it was last unpinned or found
	int64_t told_us;  // ARCHIVE_DONE: when the archive last heard of it
	block_id parent, first_child, next_sibling;
	int32_t ids[KV_BLOCK_TOKENS];
	struct kv_key key; // of a full block, once it was needed (restore.c)
};

struct maskstore {
	struct maskstore_geometry geometry;
	uint8_t *base; // reserved range, page-aligned
	size_t block_bytes;
	size_t head_bytes; // K or V of one layer and head
	size_t budget_bytes;
	uint32_t n_blocks_max;

	pthread_mutex_t lock;
	struct block *blocks; // [n_blocks_max]
	uint32_t n_fresh;
	block_id free_head;
	uint32_t n_hot, n_pinned, n_cached, n_tails; // n_tails: cached and not full
	block_id first_root;  // published blocks without a parent, a list of siblings
	uint64_t clock;       // counts uses
	struct archive *archive; // borrowed; null: none
	struct kv_key root;      // of the archive's names
	uint64_t n_alloc, n_free, n_evicted, n_copied, hit_tokens, restored_tokens;
};

// store.c
void store_pin(struct maskstore *ms, struct block *b);
void store_unpin(struct maskstore *ms, struct block *b);
void store_give_back(struct maskstore *ms, block_id id); // unpinned and unlinked → FREE

// tree.c
void tree_unlink(struct maskstore *ms, block_id id);    // a published block without children leaves the tree
void tree_evict(struct maskstore *ms);                  // frees the cached leaf that is worth least, if there is one
void tree_limit_tails(struct maskstore *ms);            // invariant 6
int tree_find_broken(const struct maskstore *ms);       // number of the first broken invariant of the tree, or 0

// restore.c
struct kv_key restore_key(struct maskstore *ms, block_id id); // key of a full published block, or the root's for BLOCK_NONE
// Tokens of ids[n] after the block `parent` is the key of that the archive seems to have. Takes no lock of the store: the lock must NOT be held.
int restore_probe(struct archive *a, struct kv_key parent, const int32_t *ids, int n);

#endif
