// SPDX-License-Identifier: MIT
// Between the tree and the archive: blocks at rest that go on where the tree ends, and blocks of a timeline that are put to rest.
//
// Keys are computed when they are first needed and kept with their block, so a store without an archive never hashes.
//
// Invariants: a block that is queued for the archive is pinned until the archive has let go of its payload (put_done). Only full
// blocks have keys.
// Threads: public functions as in maskstore.h; put_done runs on the archive's worker. The archive's lock is never taken while the store's is held.
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "maskstore/archive.h"
#include "maskstore/internal.h"

#define BATCH 64 // blocks asked for at once; the arrays live on the stack
#define TELL_EVERY_US (3600 * INT64_C(1000000)) // that a block at rest is still in use: seldom enough that a day's work counts as a few uses

void maskstore_set_archive(struct maskstore *ms, struct archive *a, const struct kv_key *root) {
	pthread_mutex_lock(&ms->lock);
	ms->archive = a;
	ms->root = *root;
	pthread_mutex_unlock(&ms->lock);
}

// The walk up ends at the first block whose key is known.
struct kv_key restore_key(struct maskstore *ms, block_id id) {
	if (id == BLOCK_NONE)
		return ms->root;
	block_id top = id, path_length = 0;
	while (top != BLOCK_NONE && !ms->blocks[top].has_key) {
		top = ms->blocks[top].parent;
		path_length++;
	}
	struct kv_key key = top == BLOCK_NONE ? ms->root : ms->blocks[top].key;
	for (; path_length; path_length--) { // down again, one block a round
		block_id at = id;
		for (block_id up = path_length; up > 1; up--)
			at = ms->blocks[at].parent;
		kv_key_next(&key, ms->blocks[at].ids, &ms->blocks[at].key);
		ms->blocks[at].has_key = true;
		key = ms->blocks[at].key;
	}
	return key;
}

// --- from the archive

// Names of the blocks of ids[n] after `parent`, as many as the archive seems to have, at most BATCH.
static size_t name_blocks(struct archive *a, struct kv_key parent, const int32_t *ids, int n, struct archive_block *out) {
	size_t n_blocks = 0;
	for (; n_blocks < BATCH && (int)(n_blocks + 1) * KV_BLOCK_TOKENS <= n; n_blocks++) {
		struct archive_block *b = &out[n_blocks];
		b->parent = parent;
		memcpy(b->ids, ids + n_blocks * KV_BLOCK_TOKENS, sizeof b->ids);
		kv_key_next(&parent, b->ids, &b->key);
		if (!archive_has(a, &b->key))
			break;
		parent = b->key;
	}
	return n_blocks;
}

// Publishes a restored block; it is at rest already.
static void take_in(struct maskstore *ms, block_id *id, block_id parent, const struct archive_block *b) {
	maskstore_publish(ms, id, parent, b->ids, KV_BLOCK_TOKENS);
	pthread_mutex_lock(&ms->lock);
	struct block *block = &ms->blocks[*id];
	block->key = b->key;
	block->has_key = true;
	block->archived = ARCHIVE_DONE;
	block->told_us = clock_us();
	ms->restored_tokens += KV_BLOCK_TOKENS;
	pthread_mutex_unlock(&ms->lock);
}

static int restore_batch(struct maskstore *ms, struct archive *a, block_id parent, const int32_t *ids, int n, block_id *path, const _Atomic int *cancel) {
	struct archive_block blocks[BATCH];
	void *payloads[BATCH];
	pthread_mutex_lock(&ms->lock);
	struct kv_key key = restore_key(ms, parent);
	pthread_mutex_unlock(&ms->lock);
	size_t n_named = name_blocks(a, key, ids, n, blocks), n_ready = 0;
	while (n_ready < n_named && maskstore_alloc(ms, &path[n_ready]) == ERR_OK) {
		payloads[n_ready] = ms->base + path[n_ready] * ms->block_bytes;
		n_ready++;
	}
	size_t n_restored = n_ready ? archive_restore(a, blocks, payloads, n_ready, cancel) : 0;
	for (size_t i = n_ready; i > n_restored; i--)
		maskstore_drop(ms, path[i - 1]);
	for (size_t i = 0; i < n_restored; i++)
		take_in(ms, &path[i], i ? path[i - 1] : parent, &blocks[i]);
	return (int)n_restored;
}

int maskstore_restore(struct maskstore *ms, block_id parent, const int32_t *ids, int n, block_id *path, const _Atomic int *cancel) {
	int n_blocks = 0, got = BATCH;
	pthread_mutex_lock(&ms->lock);
	struct archive *a = ms->archive;
	pthread_mutex_unlock(&ms->lock);
	while (a && got == BATCH && (n_blocks + 1) * KV_BLOCK_TOKENS <= n) {
		got = restore_batch(ms, a, n_blocks ? path[n_blocks - 1] : parent, ids + n_blocks * KV_BLOCK_TOKENS, n - n_blocks * KV_BLOCK_TOKENS,
		                    path + n_blocks, cancel);
		n_blocks += got;
	}
	return n_blocks * KV_BLOCK_TOKENS;
}

int restore_probe(struct archive *a, struct kv_key parent, const int32_t *ids, int n) {
	struct archive_block blocks[BATCH];
	int n_blocks = 0, got = BATCH;
	while (got == BATCH) {
		got = (int)name_blocks(a, parent, ids + n_blocks * KV_BLOCK_TOKENS, n - n_blocks * KV_BLOCK_TOKENS, blocks);
		if (got)
			parent = blocks[got - 1].key;
		n_blocks += got;
	}
	return n_blocks * KV_BLOCK_TOKENS;
}

// --- to the archive

// Archive's worker.
static void put_done(void *user, uint32_t id) {
	struct maskstore *ms = user;
	pthread_mutex_lock(&ms->lock);
	ms->blocks[id].archived = ARCHIVE_DONE;
	ms->blocks[id].told_us = clock_us();
	store_unpin(ms, &ms->blocks[id]);
	pthread_mutex_unlock(&ms->lock);
}

// Whether the archive should hear that a block it has is still used from memory: its file would look unused otherwise. Caller holds the lock.
static bool is_untold(struct block *b, bool to_disk) {
	int64_t now_us = clock_us();
	if (!to_disk || b->archived != ARCHIVE_DONE || now_us - b->told_us < TELL_EVERY_US)
		return false;
	b->told_us = now_us;
	return true;
}

bool maskstore_archive(struct maskstore *ms, block_id id, bool to_disk) {
	assert(id < ms->n_blocks_max);
	struct archive_block named;
	pthread_mutex_lock(&ms->lock);
	struct block *b = &ms->blocks[id];
	struct archive *a = ms->archive;
	bool wanted = a && b->n_ids == KV_BLOCK_TOKENS && b->archived == ARCHIVE_NOT;
	if (wanted) {
		named.key = restore_key(ms, id);
		named.parent = restore_key(ms, b->parent);
		memcpy(named.ids, b->ids, sizeof named.ids);
		store_pin(ms, b);
		b->archived = ARCHIVE_QUEUED;
	}
	bool untold = a && !wanted && is_untold(b, to_disk);
	if (untold)
		named.key = restore_key(ms, id);
	pthread_mutex_unlock(&ms->lock);
	if (untold)
		archive_touch(a, &named.key);
	if (!wanted)
		return true;
	if (archive_put(a, &named, ms->base + id * ms->block_bytes, to_disk, put_done, ms, id))
		return true;
	bool there = archive_has(a, &named.key);
	pthread_mutex_lock(&ms->lock);
	b->archived = there ? ARCHIVE_DONE : ARCHIVE_NOT;
	b->told_us = clock_us();
	store_unpin(ms, b);
	pthread_mutex_unlock(&ms->lock);
	return there;
}
