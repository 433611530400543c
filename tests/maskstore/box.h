// SPDX-License-Identifier: MIT
// An archive in a temporary folder with a universe of blocks, for its tests.
//
// Payloads are lent on the heap and freed by the callback, so that sanitizers see a use after it.
#ifndef MASKSTORE_TESTS_BOX_H
#define MASKSTORE_TESTS_BOX_H

#include <dirent.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "blocks.h"
#include "maskstore/archive_internal.h"

#define N_BLOCKS 48 // a tree: block i follows block parent[i] < i, or the root

static const struct maskstore_geometry TINY = {.n_layer = 1, .n_head_kv = 2, .head_dim = 4, .kv_type = KV_F16}; // blocks of 1 KB

struct box {
	char dir[128];
	struct archive_options options;
	struct archive *archive;
	struct archive_block blocks[N_BLOCKS];
	int parent[N_BLOCKS]; // -1: the root
	size_t block_bytes;
	uint8_t *back[N_BLOCKS]; // where restores go
	_Atomic int lent;
	_Atomic uint64_t given_back; // payloads
};

// Removes a folder with all that is in it.
static inline void remove_folder(const char *path) {
	DIR *d = opendir(path);
	char inner[1024];
	for (const struct dirent *e; d && (e = readdir(d));) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		snprintf(inner, sizeof inner, "%.500s/%s", path, e->d_name);
		if (unlink(inner))
			remove_folder(inner);
	}
	if (d)
		closedir(d);
	(void)rmdir(path);
}

static inline void box_init(struct box *b, bool on_disk, uint64_t disk_budget, uint64_t ram_budget) {
	memset(b, 0, sizeof *b);
	const char *tmp = getenv("TMPDIR");
	snprintf(b->dir, sizeof b->dir, "%.90s/maskstore-XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(b->dir))
		b->dir[0] = 0;
	b->options = (struct archive_options){.geometry = TINY, .root = {{9, 9}}, .dir = on_disk ? b->dir : NULL, .disk_budget_bytes = disk_budget,
	                                      .ram_budget_bytes = ram_budget, .prefetch_blocks = 3};
	b->block_bytes = maskstore_block_bytes(&TINY);
	uint64_t seed = 77;
	for (int i = 0; i < N_BLOCKS; i++) {
		b->parent[i] = i < 3 ? i - 1 : (int)draw(&seed, 4) == 0 ? (int)draw(&seed, (uint32_t)i) : i - 1;
		b->blocks[i] = block_after(b->parent[i] < 0 ? &b->options.root : &b->blocks[b->parent[i]].key, (uint32_t)i);
		b->back[i] = malloc(b->block_bytes);
	}
}

static inline bool box_open(struct box *b) {
	struct err_msg msg;
	return archive_open(&b->options, &b->archive, &msg) == ERR_OK;
}

static inline void box_close(struct box *b, int flush_ms) {
	archive_close(b->archive, flush_ms);
	b->archive = NULL;
}

static inline void box_finish(struct box *b) {
	archive_close(b->archive, 0);
	for (int i = 0; i < N_BLOCKS; i++)
		free(b->back[i]);
	if (b->dir[0])
		remove_folder(b->dir);
}

struct loan {
	struct box *box;
	uint32_t block;
	uint8_t payload[];
};

static inline void box_done(void *user, uint32_t block) {
	struct loan *l = user;
	atomic_fetch_sub(&l->box->lent, 1);
	atomic_fetch_add(&l->box->given_back, block == l->block);
	free(l);
}

static inline bool box_put(struct box *b, int i, bool to_disk) {
	struct loan *l = malloc(sizeof *l + b->block_bytes);
	if (!l)
		return false;
	l->box = b;
	l->block = (uint32_t)i;
	fill_payload(&b->blocks[i].key, 2, l->payload, b->block_bytes);
	atomic_fetch_add(&b->lent, 1);
	bool queued = archive_put(b->archive, &b->blocks[i], l->payload, to_disk, box_done, l, l->block);
	if (!queued) {
		atomic_fetch_sub(&b->lent, 1);
		free(l);
	}
	return queued;
}

// The chain from the root to block i: indices in `path`, their count returned.
static inline size_t box_path(const struct box *b, int i, int path[N_BLOCKS]) {
	size_t n = 0;
	for (int j = i; j >= 0; j = b->parent[j])
		n++;
	size_t at = n;
	for (int j = i; j >= 0; j = b->parent[j])
		path[--at] = j;
	return n;
}

// Whether back[k] holds what belongs to the block.
static inline bool box_same(const struct box *b, int block, const uint8_t *back) {
	uint8_t *want = malloc(b->block_bytes);
	fill_payload(&b->blocks[block].key, 2, want, b->block_bytes);
	bool same = want && !memcmp(want, back, b->block_bytes);
	free(want);
	return same;
}

// Restores the chain that ends with block i; the blocks restored, or -1 if one of them is wrong.
static inline int box_restore(struct box *b, int i) {
	int path[N_BLOCKS];
	size_t n = box_path(b, i, path);
	struct archive_block names[N_BLOCKS];
	for (size_t k = 0; k < n; k++) {
		names[k] = b->blocks[path[k]];
		memset(b->back[k], 0x77, b->block_bytes);
	}
	size_t got = archive_restore(b->archive, names, (void *const *)b->back, n, NULL);
	for (size_t k = 0; k < got; k++)
		if (!box_same(b, path[k], b->back[k]))
			return -1;
	return (int)got;
}

static inline void box_file(const struct box *b, int i, char out[512]) {
	char root[ARCHIVE_HEX_BYTES], name[ARCHIVE_HEX_BYTES];
	disk_hex(&b->options.root, root);
	disk_hex(&b->blocks[i].key, name);
	snprintf(out, 512, "%s/%s/%s", b->dir, root, name);
}

#endif
