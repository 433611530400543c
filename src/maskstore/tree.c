// SPDX-License-Identifier: MIT
// The tree of prefixes: which published block follows which, so that timelines share what they have in common and old branches can be found again.
//
// A node is a block with the ids of its 1 to 32 tokens; siblings may begin alike (a branch that left a block in its middle), so a search takes
// the sibling with the longest match at each level and goes on below it only where all 32 tokens match. Lists of siblings are short
// (branches of one place), so they are searched one by one; the first id tells most apart.
//
// Invariants: 5 and 6 of maskstore.h. A block with n_ids > 0 is on exactly one list: its parent's children or the roots.
// Threads: public functions take the lock; static ones want it held.
#include <assert.h>
#include <string.h>

#include "maskstore/internal.h"

// A block that was found again n times counts as used this many steps of the clock later, for each doubling of n: files that are
// returned to outlive the branches of one afternoon. A step is one block left or found.
#define HIT_BONUS 2048

static block_id *list_of(struct maskstore *ms, block_id parent) {
	return parent == BLOCK_NONE ? &ms->first_root : &ms->blocks[parent].first_child;
}

static int common_ids(const struct block *b, const int32_t *ids, int n) {
	int max = b->n_ids < n ? b->n_ids : n, i = 0;
	while (i < max && b->ids[i] == ids[i])
		i++;
	return i;
}

// The child of `parent` that has most of ids[n] in common (*n_common of them, at least 1), or BLOCK_NONE.
static block_id best_child(struct maskstore *ms, block_id parent, const int32_t *ids, int n, int *n_common) {
	block_id best = BLOCK_NONE;
	*n_common = 0;
	for (block_id id = *list_of(ms, parent); id != BLOCK_NONE; id = ms->blocks[id].next_sibling) {
		int common = common_ids(&ms->blocks[id], ids, n);
		if (common > *n_common) {
			*n_common = common;
			best = id;
		}
	}
	return best;
}

void tree_unlink(struct maskstore *ms, block_id id) {
	struct block *b = &ms->blocks[id];
	assert(b->n_ids && b->first_child == BLOCK_NONE);
	block_id *link = list_of(ms, b->parent);
	while (*link != id)
		link = &ms->blocks[*link].next_sibling;
	*link = b->next_sibling;
	if (!b->pins) {
		ms->n_cached--;
		ms->n_tails -= b->n_ids < KV_BLOCK_TOKENS;
	}
	b->n_ids = 0;
	b->has_key = false;
	b->parent = b->next_sibling = BLOCK_NONE;
}

// --- eviction

static uint64_t worth(const struct block *b) {
	int doublings = 0;
	for (uint32_t hits = b->hits; hits; hits >>= 1)
		doublings++;
	return b->used + (uint64_t)doublings * HIT_BONUS;
}

// The cached leaf that is worth least, or BLOCK_NONE; of `tails` only those that are not full. A queued one is pinned by the archive.
static block_id find_victim(const struct maskstore *ms, bool tails) {
	block_id victim = BLOCK_NONE;
	for (block_id id = 0; id < ms->n_fresh; id++) {
		const struct block *b = &ms->blocks[id];
		if (b->pins || !b->n_ids || b->first_child != BLOCK_NONE || (tails && b->n_ids == KV_BLOCK_TOKENS))
			continue;
		if (victim == BLOCK_NONE || worth(b) < worth(&ms->blocks[victim]))
			victim = id;
	}
	return victim;
}

static void free_block(struct maskstore *ms, block_id id) {
	tree_unlink(ms, id);
	store_give_back(ms, id);
	ms->n_evicted++;
}

void tree_evict(struct maskstore *ms) {
	block_id victim = ms->n_cached ? find_victim(ms, false) : BLOCK_NONE;
	if (victim != BLOCK_NONE)
		free_block(ms, victim);
}

void tree_limit_tails(struct maskstore *ms) {
	while (ms->n_tails > MASKSTORE_TAILS_MAX)
		free_block(ms, find_victim(ms, true));
}

void maskstore_clear(struct maskstore *ms) {
	pthread_mutex_lock(&ms->lock);
	for (block_id victim; ms->n_cached && (victim = find_victim(ms, false)) != BLOCK_NONE;)
		free_block(ms, victim);
	pthread_mutex_unlock(&ms->lock);
}

// --- timelines

void maskstore_drop(struct maskstore *ms, block_id id) {
	assert(id < ms->n_blocks_max);
	pthread_mutex_lock(&ms->lock);
	struct block *b = &ms->blocks[id];
	store_unpin(ms, b);
	if (b->state == BLOCK_HOT && !b->pins && !b->n_ids)
		store_give_back(ms, id);
	pthread_mutex_unlock(&ms->lock);
}

// A full block with the same tokens at the same place, other than `own`, or BLOCK_NONE.
static block_id find_twin(struct maskstore *ms, block_id own, block_id parent, const int32_t *ids) {
	for (block_id id = *list_of(ms, parent); id != BLOCK_NONE; id = ms->blocks[id].next_sibling)
		if (id != own && common_ids(&ms->blocks[id], ids, KV_BLOCK_TOKENS) == KV_BLOCK_TOKENS)
			return id;
	return BLOCK_NONE;
}

// Frees a block that only the caller has pinned.
static void discard(struct maskstore *ms, block_id id) {
	if (ms->blocks[id].n_ids)
		tree_unlink(ms, id);
	store_unpin(ms, &ms->blocks[id]);
	store_give_back(ms, id);
}

void maskstore_publish(struct maskstore *ms, block_id *id, block_id parent, const int32_t *ids, int n) {
	assert(*id < ms->n_blocks_max && n >= 1 && n <= KV_BLOCK_TOKENS);
	pthread_mutex_lock(&ms->lock);
	struct block *b = &ms->blocks[*id];
	if (b->condemned || (parent != BLOCK_NONE && ms->blocks[parent].condemned)) {
		pthread_mutex_unlock(&ms->lock);
		return;
	}
	assert(b->pins && common_ids(b, ids, n) == b->n_ids && (!b->n_ids || b->parent == parent));
	assert(parent == BLOCK_NONE || (ms->blocks[parent].pins && ms->blocks[parent].n_ids == KV_BLOCK_TOKENS));
	block_id twin = n == KV_BLOCK_TOKENS && b->n_ids < n && b->pins == 1 ? find_twin(ms, *id, parent, ids) : BLOCK_NONE;
	if (twin != BLOCK_NONE) {
		discard(ms, *id);
		store_pin(ms, &ms->blocks[twin]);
		*id = twin;
	} else if (n > b->n_ids) {
		if (!b->n_ids) {
			b->parent = parent;
			b->next_sibling = *list_of(ms, parent);
			*list_of(ms, parent) = *id;
		}
		memcpy(b->ids, ids, (size_t)n * sizeof *ids);
		b->n_ids = (uint8_t)n;
	}
	pthread_mutex_unlock(&ms->lock);
}

int maskstore_find(struct maskstore *ms, block_id parent, const int32_t *ids, int n, block_id *path) {
	int found = 0, common = KV_BLOCK_TOKENS;
	pthread_mutex_lock(&ms->lock);
	for (int i = 0; found < n && common == KV_BLOCK_TOKENS; i++) {
		block_id id = best_child(ms, parent, ids + found, n - found, &common);
		if (id == BLOCK_NONE)
			break;
		struct block *b = &ms->blocks[id];
		b->hits += b->hits < UINT32_MAX;
		b->used = ++ms->clock;
		store_pin(ms, b);
		path[i] = parent = id;
		found += common;
	}
	ms->hit_tokens += (uint64_t)found;
	pthread_mutex_unlock(&ms->lock);
	return found;
}

int maskstore_probe(struct maskstore *ms, block_id parent, const int32_t *ids, int n) {
	int found = 0, common = KV_BLOCK_TOKENS;
	struct kv_key key;
	pthread_mutex_lock(&ms->lock);
	while (found < n && common == KV_BLOCK_TOKENS) {
		block_id id = best_child(ms, parent, ids + found, n - found, &common);
		found += common;
		if (common == KV_BLOCK_TOKENS)
			parent = id;
	}
	struct archive *a = ms->archive;
	int full = found / KV_BLOCK_TOKENS * KV_BLOCK_TOKENS;
	if (a && full + KV_BLOCK_TOKENS <= n)
		key = restore_key(ms, parent);
	else
		a = NULL;
	pthread_mutex_unlock(&ms->lock);
	int restorable = a ? restore_probe(a, key, ids + full, n - full) : 0;
	return full + restorable > found ? full + restorable : found;
}

// Cuts a subtree off: nobody finds its blocks any more; unpinned ones are freed, children first.
static void cut_off(struct maskstore *ms, block_id id) {
	for (block_id at = id, parent;; at = parent) {
		while (ms->blocks[at].first_child != BLOCK_NONE)
			at = ms->blocks[at].first_child;
		parent = ms->blocks[at].parent;
		tree_unlink(ms, at);
		ms->blocks[at].condemned = true;
		if (!ms->blocks[at].pins)
			store_give_back(ms, at);
		if (at == id)
			return;
	}
}

void maskstore_condemn(struct maskstore *ms, block_id id) {
	pthread_mutex_lock(&ms->lock);
	assert(ms->blocks[id].pins);
	if (ms->blocks[id].n_ids)
		cut_off(ms, id);
	pthread_mutex_unlock(&ms->lock);
}

bool maskstore_is_writable(struct maskstore *ms, block_id id, int slot) {
	assert(id < ms->n_blocks_max);
	pthread_mutex_lock(&ms->lock);
	bool yes = ms->blocks[id].pins == 1 && ms->blocks[id].n_ids <= slot;
	pthread_mutex_unlock(&ms->lock);
	return yes;
}

enum err maskstore_copy(struct maskstore *ms, block_id id, block_id *out) {
	block_id copy;
	enum err e = maskstore_alloc(ms, &copy);
	if (e != ERR_OK)
		return e;
	memcpy(ms->base + copy * ms->block_bytes, ms->base + id * ms->block_bytes, ms->block_bytes);
	pthread_mutex_lock(&ms->lock);
	ms->n_copied++;
	pthread_mutex_unlock(&ms->lock);
	*out = copy;
	return ERR_OK;
}

bool maskstore_is_equal(const struct maskstore *ms, block_id a, block_id b) {
	return !memcmp(ms->base + a * ms->block_bytes, ms->base + b * ms->block_bytes, ms->block_bytes);
}

// --- sanity walk

// Length of a list of siblings below `parent`, or UINT32_MAX where it is broken.
static uint32_t count_list(const struct maskstore *ms, block_id first, block_id parent) {
	uint32_t n = 0;
	for (block_id id = first; id != BLOCK_NONE; id = ms->blocks[id].next_sibling, n++)
		if (id >= ms->n_fresh || !ms->blocks[id].n_ids || ms->blocks[id].parent != parent || n == ms->n_fresh)
			return UINT32_MAX;
	return n;
}

// Whether every way up from a block ends at a root.
static bool reaches_root(const struct maskstore *ms, block_id id) {
	uint32_t steps = 0;
	while (id != BLOCK_NONE && steps++ <= ms->n_fresh)
		id = ms->blocks[id].parent;
	return id == BLOCK_NONE;
}

int tree_find_broken(const struct maskstore *ms) {
	uint32_t n_linked = count_list(ms, ms->first_root, BLOCK_NONE), n_published = 0, n_cached = 0, n_tails = 0;
	if (n_linked == UINT32_MAX)
		return 5;
	for (block_id id = 0; id < ms->n_fresh; id++) {
		const struct block *b = &ms->blocks[id];
		if (b->state != BLOCK_HOT)
			continue;
		uint32_t n_children = count_list(ms, b->first_child, id);
		if (n_children == UINT32_MAX || b->n_ids > KV_BLOCK_TOKENS || (n_children && b->n_ids != KV_BLOCK_TOKENS) || !reaches_root(ms, id))
			return 5;
		n_linked += n_children;
		n_published += b->n_ids > 0;
		n_cached += b->n_ids > 0 && !b->pins;
		n_tails += b->n_ids > 0 && !b->pins && b->n_ids < KV_BLOCK_TOKENS;
	}
	if (n_linked != n_published)
		return 5;
	return n_cached != ms->n_cached || n_tails != ms->n_tails || n_tails > MASKSTORE_TAILS_MAX ? 6 : 0;
}
