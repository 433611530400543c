// SPDX-License-Identifier: MIT
// The completer's mask store: how much memory it gets, the session on it, the archive behind it, and what is done for them while nobody waits.
//
// The archive's names need the model file's hash, which takes seconds the first time: it is computed in slices while idle, and the archive opened
// when it is known. Until then the store works in memory only.
//
// Invariants: the archive is closed before the store is destroyed. At rest only the session's own timeline is archived, and only if the document it
// came from may be (struct completer, may_archive); branches of typing are never written.
// Threads: as the completer.
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "complete/internal.h"
#include "defaults.h"
#include "maskstore/archive.h"
#include "model/file_hash.h"

#define STORE_CONTEXTS 4         // full contexts that the memory for keys and values holds: the one at hand and branches to come back to
#define STORE_MEMORY_SHARE 4     // but at most this part of the machine's memory
#define SPARE_BLOCKS 2           // beside a full context: a copied tail, a block that is computed again
#define HASH_SLICE_BYTES (1u << 20) // about 4 ms
#define ARCHIVE_RAM_BYTES (64ull << 20) // extents that may not be written, and those just written
#define ARCHIVE_FLUSH_MS 300     // at the end: the editor waits
#define VERIFY_EVERY 64          // periods of rest between two blocks that are computed again

struct rest {
	char cache_dir[3000];
	char model_path[3000];
	struct file_hasher *hasher; // while the hash is being computed
	struct archive *archive;
	bool given_up;              // no archive in this process
	unsigned n_rests, n_verified;
	uint64_t n_same, n_healed;
};

static size_t machine_bytes(void) {
	long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
	return pages > 0 && page_bytes > 0 ? (size_t)pages * (size_t)page_bytes : SIZE_MAX;
}

// Blocks for keys and values: what was asked for, else four contexts within a quarter of the memory.
static size_t budget_blocks(const struct completer *c, size_t n_context, size_t block_bytes) {
	if (c->options.kv_budget_bytes)
		return c->options.kv_budget_bytes / block_bytes;
	size_t n_share = machine_bytes() / STORE_MEMORY_SHARE / block_bytes;
	return STORE_CONTEXTS * n_context < n_share ? STORE_CONTEXTS * n_context : n_share;
}

static size_t megabytes(const struct completer *c, size_t n_bytes) {
	return (c->options.kv_budget_bytes ? c->options.kv_budget_bytes : n_bytes) >> 20;
}

// The memory ladder's last two steps (spec §2): where one context does not fit, it becomes shorter, and the person is told; below what makes
// a useful prompt the model is refused.
static enum err fit_context(struct completer *c, size_t block_bytes, size_t *n_blocks, struct err_msg *msg) {
	size_t n_context = ((size_t)c->context_tokens + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS;
	*n_blocks = budget_blocks(c, n_context, block_bytes);
	if (*n_blocks >= n_context + SPARE_BLOCKS)
		return ERR_OK;
	int n_fit = *n_blocks > SPARE_BLOCKS ? (int)(*n_blocks - SPARE_BLOCKS) * KV_BLOCK_TOKENS : 0;
	if (n_fit < LIMIT_MIN_CONTEXT_TOKENS)
		return err_set(msg, ERR_LIMIT, "%zu MB for keys and values hold a context of %d tokens of this model, %d are needed: raise kvBudgetMb to %zu",
			megabytes(c, *n_blocks * block_bytes), n_fit, LIMIT_MIN_CONTEXT_TOKENS,
			((LIMIT_MIN_CONTEXT_TOKENS / KV_BLOCK_TOKENS + SPARE_BLOCKS) * block_bytes >> 20) + 1);
	err_set(&c->notice, ERR_OK, "the context is cut from %d to %d tokens, which is what %zu MB for keys and values hold: raise kvBudgetMb for more",
		c->context_tokens, n_fit, megabytes(c, *n_blocks * block_bytes));
	c->context_tokens = c->options.max_context_tokens = n_fit;
	return ERR_OK;
}

// --- opening the archive

static bool join(char *out, size_t size_bytes, const char *dir, const char *name) {
	return (size_t)snprintf(out, size_bytes, "%s/%s", dir, name) < size_bytes;
}

static void open_archive(struct completer *c, const uint8_t hash[FILE_HASH_BYTES]) {
	const struct maskstore_geometry *g = maskstore_geometry(c->store);
	const struct model_info *i = model_info(c->model);
	struct kv_facts facts = {.geometry = g, .rope_theta = i->rope_theta, .rope_neox = i->rope_neox,
		.arithmetic_id = KERNELS_ARITHMETIC * 2 + (c->options.activation == ACTIVATION_F32), .attention = ATTENTION_EXACT};
	memcpy(facts.model_hash, hash, sizeof facts.model_hash);
	char dir[3100];
	struct archive_options o = {.geometry = *g, .dir = dir, .disk_budget_bytes = c->options.archive_budget_bytes,
		.ram_budget_bytes = ARCHIVE_RAM_BYTES, .prefetch_blocks = c->options.prefetch_blocks};
	kv_key_root(&facts, &o.root);
	if (!join(dir, sizeof dir, c->rest->cache_dir, "store") || archive_open(&o, &c->rest->archive, NULL) != ERR_OK)
		c->rest->given_up = true;
	else
		maskstore_set_archive(c->store, c->rest->archive, &o.root);
}

static void recall(struct completer *c) {
	uint8_t hash[FILE_HASH_BYTES];
	char dir[3100];
	if (!c->rest->given_up && join(dir, sizeof dir, c->rest->cache_dir, "hashes") && file_hash_recall(c->rest->model_path, dir, hash) == ERR_OK)
		open_archive(c, hash);
}

// --- life

enum err store_open(struct completer *c, const char *model_path, struct err_msg *msg) {
	struct maskstore_geometry g = session_geometry(c->model, c->options.kv_type);
	size_t block_bytes = maskstore_block_bytes(&g), n_blocks;
	enum err e = fit_context(c, block_bytes, &n_blocks, msg);
	if (e == ERR_OK)
		e = maskstore_create(&g, n_blocks * block_bytes, &c->store, msg);
	if (e != ERR_OK)
		return e;
	c->rest = calloc(1, sizeof *c->rest);
	if (!c->rest)
		return err_set(msg, ERR_NOMEM, "out of memory");
	const char *dir = c->options.cache_dir ? c->options.cache_dir : "";
	size_t n_dir = (size_t)snprintf(c->rest->cache_dir, sizeof c->rest->cache_dir, "%s", dir);
	size_t n_path = (size_t)snprintf(c->rest->model_path, sizeof c->rest->model_path, "%s", model_path);
	c->options.cache_dir = NULL; // the caller's
	c->rest->given_up = !*dir || n_dir >= sizeof c->rest->cache_dir || n_path >= sizeof c->rest->model_path || !c->options.archive_budget_bytes;
	struct session_options o = {
		.capacity_tokens = c->context_tokens,
		.chunk_tokens = c->options.chunk_tokens,
		.activation = c->options.activation,
		.store = c->store,
		.pool = c->pool,
		.share = true,
	};
	e = session_create(c->model, &o, &c->session, msg);
	if (e == ERR_OK)
		recall(c);
	return e;
}

void store_close(struct completer *c) {
	session_destroy(c->session);
	if (c->rest) {
		file_hasher_destroy(c->rest->hasher);
		archive_close(c->rest->archive, ARCHIVE_FLUSH_MS);
	}
	free(c->rest);
	maskstore_destroy(c->store);
}

// One slice of the model file's hash. True while there is more to do.
static bool hash_slice(struct completer *c) {
	struct rest *r = c->rest;
	char dir[3100];
	uint8_t hash[FILE_HASH_BYTES];
	bool done = false;
	enum err e = ERR_OK;
	if (!r->hasher)
		e = join(dir, sizeof dir, r->cache_dir, "hashes") ? file_hasher_create(r->model_path, dir, &r->hasher) : ERR_LIMIT;
	if (e == ERR_OK)
		e = file_hasher_step(r->hasher, HASH_SLICE_BYTES, &done, hash);
	if (e == ERR_OK && !done)
		return true;
	file_hasher_destroy(r->hasher);
	r->hasher = NULL;
	if (e == ERR_OK)
		open_archive(c, hash);
	else
		r->given_up = true;
	return false;
}

// --- at rest

static void verify_one(struct completer *c, const _Atomic int *cancel) {
	struct rest *r = c->rest;
	switch (session_verify(c->session, r->n_verified++ * 7919u, cancel)) { // a prime: all blocks get their turn
	case VERDICT_SAME: r->n_same++; break;
	case VERDICT_DIFFERENT: r->n_healed++; break;
	case VERDICT_NONE: break;
	}
}

void completer_rest(struct completer *c, bool may_archive, const _Atomic int *cancel) {
	struct rest *r = c->rest;
	while (!r->given_up && !r->archive && !atomic_load(cancel) && hash_slice(c))
		;
	if (atomic_load(cancel))
		return;
	if (r->archive && may_archive)
		session_archive(c->session, true);
	if (++r->n_rests % VERIFY_EVERY == 0)
		verify_one(c, cancel);
}

void completer_stats(struct completer *c, struct completer_stats *out) {
	*out = (struct completer_stats){.n_verified = c->rest->n_same + c->rest->n_healed, .n_healed = c->rest->n_healed};
	maskstore_stats(c->store, &out->store);
	if (c->rest->archive)
		archive_stats(c->rest->archive, &out->archive);
}
