// SPDX-License-Identifier: MIT
// The exact tier: one reserved range of addresses cut into equal blocks, a stack of freed ones, and a count of pins each.
//
// The range is reserved without memory behind it; pages come when a block is first written (2 MB at a time where the system has large pages, since
// restoring a file's blocks on small ones costs as much in faults as in work), so a block that was never handed out reads as zeros and costs next to nothing. Freed blocks keep their pages and are handed out again first (last freed, first used), so the
// resident size is the largest number of blocks that were ever in use.
//
// Invariants: those of maskstore.h. Blocks [0, n_fresh) were handed out at least once; of them the FREE ones are exactly the stack
// that starts at `free_head` and runs through `next`. Blocks from n_fresh on are FREE and not on the stack.
// Threads: `lock` guards every field that changes; geometry, base and sizes are constant after creation and read without it.
#include "maskstore/internal.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/pages.h"

size_t maskstore_block_bytes(const struct maskstore_geometry *g) {
	if (g->n_layer < 1 || g->n_head_kv < 1 || g->head_dim < 1 || kv_type_bytes(g->kv_type) < 1)
		return 0;
	size_t n = 2 * KV_BLOCK_TOKENS * (size_t)kv_type_bytes(g->kv_type); // K and V
	if (__builtin_mul_overflow(n, (size_t)g->head_dim, &n) || __builtin_mul_overflow(n, (size_t)g->n_head_kv, &n) ||
	    __builtin_mul_overflow(n, (size_t)g->n_layer, &n))
		return 0;
	return n; // a multiple of 64 already: 2 · 32 elements of at least 2 bytes
}

static enum err reserve(struct maskstore *ms, struct err_msg *msg) {
	size_t n_bytes = 0;
	if (__builtin_mul_overflow((size_t)ms->n_blocks_max, ms->block_bytes, &n_bytes))
		return err_set(msg, ERR_NOMEM, "KV budget of %zu bytes exceeds the address space", ms->budget_bytes);
	void *p = pages_alloc(n_bytes);
	if (!p)
		return err_set(msg, ERR_NOMEM, "cannot reserve %zu bytes of addresses for the KV cache: lower its budget", n_bytes);
	ms->base = p;
	ms->blocks = calloc(ms->n_blocks_max, sizeof ms->blocks[0]);
	if (ms->blocks)
		return ERR_OK;
	pages_free(p, n_bytes);
	return err_set(msg, ERR_NOMEM, "no memory for the table of %u KV blocks: lower the budget", ms->n_blocks_max);
}

enum err maskstore_create(const struct maskstore_geometry *g, size_t budget_bytes, struct maskstore **out, struct err_msg *msg) {
	size_t block_bytes = maskstore_block_bytes(g);
	if (!block_bytes)
		return err_set(msg, ERR_ARG, "KV geometry %d layers x %d heads x %d is impossible", g->n_layer, g->n_head_kv, g->head_dim);
	if (budget_bytes < block_bytes)
		return err_set(msg, ERR_ARG, "KV budget of %zu bytes is below one block of %zu bytes: raise it", budget_bytes, block_bytes);
	struct maskstore *ms = calloc(1, sizeof *ms);
	if (!ms)
		return err_set(msg, ERR_NOMEM, "no memory for the KV store");
	size_t n_blocks = budget_bytes / block_bytes;
	ms->geometry = *g;
	ms->block_bytes = block_bytes;
	ms->head_bytes = (size_t)g->head_dim * KV_BLOCK_TOKENS * (size_t)kv_type_bytes(g->kv_type);
	ms->budget_bytes = budget_bytes;
	ms->n_blocks_max = n_blocks < BLOCK_NONE ? (uint32_t)n_blocks : BLOCK_NONE - 1;
	ms->free_head = BLOCK_NONE;
	ms->first_root = BLOCK_NONE;
	enum err e = reserve(ms, msg);
	if (e != ERR_OK) {
		free(ms);
		return e;
	}
	pthread_mutex_init(&ms->lock, NULL);
	*out = ms;
	return ERR_OK;
}

void maskstore_destroy(struct maskstore *ms) {
	if (!ms)
		return;
	assert(ms->n_pinned == 0);
	pages_free(ms->base, (size_t)ms->n_blocks_max * ms->block_bytes);
	pthread_mutex_destroy(&ms->lock);
	free(ms->blocks);
	free(ms);
}

const struct maskstore_geometry *maskstore_geometry(const struct maskstore *ms) {
	return &ms->geometry;
}

void store_pin(struct maskstore *ms, struct block *b) {
	assert(b->state == BLOCK_HOT && b->pins < UINT32_MAX);
	if (b->pins++)
		return;
	ms->n_pinned++;
	ms->n_cached -= b->n_ids > 0;
	ms->n_tails -= b->n_ids > 0 && b->n_ids < KV_BLOCK_TOKENS;
}

void store_unpin(struct maskstore *ms, struct block *b) {
	assert(b->state == BLOCK_HOT && b->pins > 0);
	if (--b->pins)
		return;
	ms->n_pinned--;
	ms->n_cached += b->n_ids > 0;
	ms->n_tails += b->n_ids > 0 && b->n_ids < KV_BLOCK_TOKENS;
	b->used = ++ms->clock;
	tree_limit_tails(ms);
}

// The next block to hand out, or BLOCK_NONE. Caller holds the lock.
static block_id take_free(struct maskstore *ms) {
	if (ms->free_head == BLOCK_NONE && ms->n_fresh == ms->n_blocks_max)
		tree_evict(ms);
	block_id id = ms->free_head;
	if (id != BLOCK_NONE)
		ms->free_head = ms->blocks[id].next;
	else if (ms->n_fresh < ms->n_blocks_max)
		id = ms->n_fresh++;
	return id;
}

void store_give_back(struct maskstore *ms, block_id id) {
	struct block *b = &ms->blocks[id];
	assert(b->state == BLOCK_HOT && b->pins == 0 && b->n_ids == 0);
	*b = (struct block){.next = ms->free_head, .state = BLOCK_FREE};
	ms->free_head = id;
	ms->n_hot--;
	ms->n_free++;
}

enum err maskstore_alloc(struct maskstore *ms, block_id *out) {
	pthread_mutex_lock(&ms->lock);
	block_id id = take_free(ms);
	if (id != BLOCK_NONE) {
		assert(ms->blocks[id].state == BLOCK_FREE && ms->blocks[id].pins == 0);
		ms->blocks[id] = (struct block){.pins = 1, .next = BLOCK_NONE, .state = BLOCK_HOT, .parent = BLOCK_NONE, .first_child = BLOCK_NONE,
		                                .next_sibling = BLOCK_NONE};
		ms->n_hot++;
		ms->n_pinned++;
		ms->n_alloc++;
		*out = id;
	}
	pthread_mutex_unlock(&ms->lock);
	return id == BLOCK_NONE ? ERR_NOMEM : ERR_OK;
}

void maskstore_pin(struct maskstore *ms, block_id id) {
	assert(id < ms->n_blocks_max);
	pthread_mutex_lock(&ms->lock);
	struct block *b = &ms->blocks[id];
	store_pin(ms, b);
	pthread_mutex_unlock(&ms->lock);
}

void maskstore_release(struct maskstore *ms, block_id id) {
	assert(id < ms->n_blocks_max);
	pthread_mutex_lock(&ms->lock);
	struct block *b = &ms->blocks[id];
	store_unpin(ms, b);
	pthread_mutex_unlock(&ms->lock);
}

void maskstore_free(struct maskstore *ms, block_id id) {
	assert(id < ms->n_blocks_max);
	pthread_mutex_lock(&ms->lock);
	assert(ms->blocks[id].state == BLOCK_HOT && ms->blocks[id].pins == 0);
	if (ms->blocks[id].n_ids)
		tree_unlink(ms, id);
	store_give_back(ms, id);
	pthread_mutex_unlock(&ms->lock);
}

// K of a layer and head; V follows it.
static uint8_t *head_at(const struct maskstore *ms, block_id id, int layer, int head) {
	const struct maskstore_geometry *g = &ms->geometry;
	assert(id < ms->n_blocks_max && layer >= 0 && layer < g->n_layer && head >= 0 && head < g->n_head_kv);
	size_t i_head = (size_t)layer * (size_t)g->n_head_kv + (size_t)head;
	return ms->base + id * ms->block_bytes + i_head * 2 * ms->head_bytes;
}

void *maskstore_k(const struct maskstore *ms, block_id id, int layer, int head) {
	return head_at(ms, id, layer, head);
}

void *maskstore_v(const struct maskstore *ms, block_id id, int layer, int head) {
	return head_at(ms, id, layer, head) + ms->head_bytes;
}

void maskstore_stats(struct maskstore *ms, struct maskstore_stats *out) {
	pthread_mutex_lock(&ms->lock);
	*out = (struct maskstore_stats){
		.block_bytes = ms->block_bytes, .budget_bytes = ms->budget_bytes, .n_blocks_max = ms->n_blocks_max,
		.n_hot = ms->n_hot, .n_pinned = ms->n_pinned, .n_cached = ms->n_cached, .n_alloc = ms->n_alloc, .n_free = ms->n_free,
		.n_evicted = ms->n_evicted, .n_copied = ms->n_copied, .hit_tokens = ms->hit_tokens, .restored_tokens = ms->restored_tokens,
	};
	pthread_mutex_unlock(&ms->lock);
}

// Number of blocks on the stack of freed ones, or UINT32_MAX if it is broken (a cycle, a wrong index, a block in use).
static uint32_t count_stack(const struct maskstore *ms) {
	uint32_t n = 0;
	for (block_id id = ms->free_head; id != BLOCK_NONE; id = ms->blocks[id].next) {
		if (id >= ms->n_fresh || ms->blocks[id].state != BLOCK_FREE || n == ms->n_fresh)
			return UINT32_MAX;
		n++;
	}
	return n;
}

// Number of the first broken invariant, 0 if all hold. Caller holds the lock. (4 holds by construction: base never moves.)
static int find_broken(const struct maskstore *ms) {
	uint32_t n_hot = 0, n_pinned = 0, n_free = 0;
	for (uint32_t i = 0; i < ms->n_fresh; i++) {
		const struct block *b = &ms->blocks[i];
		if (b->state == BLOCK_FREE && b->pins)
			return 2;
		n_free += b->state == BLOCK_FREE;
		n_hot += b->state == BLOCK_HOT;
		n_pinned += b->pins > 0;
	}
	if (n_hot + n_free != ms->n_fresh || n_hot != ms->n_hot || count_stack(ms) != n_free)
		return 1;
	if (n_pinned != ms->n_pinned || n_pinned > n_hot)
		return 2;
	if (ms->n_fresh > ms->n_blocks_max || ms->n_hot > ms->budget_bytes / ms->block_bytes || ms->n_alloc - ms->n_free != ms->n_hot)
		return 3;
	return tree_find_broken(ms);
}

enum err maskstore_check(struct maskstore *ms, struct err_msg *msg) {
	pthread_mutex_lock(&ms->lock);
	int broken = find_broken(ms);
	pthread_mutex_unlock(&ms->lock);
	return broken ? err_set(msg, ERR_STATE, "mask store: invariant %d is broken", broken) : ERR_OK;
}
