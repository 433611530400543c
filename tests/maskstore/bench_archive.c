// SPDX-License-Identifier: MIT
// Speed and ratio of packing, unpacking and restoring. Usage: bench_archive FOLDER
//
// FOLDER is one that a server filled (`store` in its cache folder): its blocks are real keys and values, and tell what the ratio is. Up to
// 256 blocks of one root are unpacked and packed again on this thread (CPU time), then restored through an archive on that folder (elapsed
// time, files in the page cache). Nothing in the folder changes but the files' times.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "maskstore/archive_internal.h"

#define MAX_BLOCKS 256

struct bench {
	char root[ARCHIVE_HEX_BYTES];
	size_t n, block_bytes, packed_bytes;
	struct extent_info infos[MAX_BLOCKS];
	uint8_t *extents[MAX_BLOCKS];
	size_t n_bytes[MAX_BLOCKS];
	uint8_t *payloads; // [n][block_bytes]
};

static double cpu_ms(void) {
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

// Keeps the extents of the first root that has any.
static bool read_item(void *user, const struct folder_item *item) {
	struct bench *b = user;
	if (item->kind != FOLDER_EXTENT || b->n == MAX_BLOCKS || (b->n && strcmp(b->root, item->root) != 0))
		return b->n < MAX_BLOCKS;
	uint8_t *data = malloc((size_t)item->n_bytes);
	int fd = openat(item->dir_fd, item->name, O_RDONLY);
	bool failed;
	size_t n = data && fd >= 0 ? disk_read(fd, data, (size_t)item->n_bytes, &failed) : 0;
	if (fd >= 0)
		close(fd);
	if (!n || extent_read(data, n, &b->infos[b->n]) != EXTENT_OK) {
		free(data);
		return true;
	}
	memcpy(b->root, item->root, sizeof b->root);
	b->extents[b->n] = data;
	b->n_bytes[b->n] = n;
	b->packed_bytes += n;
	b->n++;
	return true;
}

static bool unpack_all(struct bench *b, struct extent_codec *c, double *ms) {
	double begin = cpu_ms();
	bool ok = true;
	for (size_t i = 0; i < b->n; i++) {
		struct extent_info info;
		ok = ok && extent_read(b->extents[i], b->n_bytes[i], &info) == EXTENT_OK &&
		     extent_unpack(c, b->extents[i], &info, b->payloads + i * b->block_bytes) == EXTENT_OK;
	}
	*ms = cpu_ms() - begin;
	return ok;
}

static bool pack_all(struct bench *b, struct extent_codec *c, uint8_t *out, double *ms) {
	double begin = cpu_ms();
	bool ok = true;
	for (size_t i = 0; i < b->n; i++) {
		size_t n = extent_pack(c, &b->infos[i].geometry, &b->infos[i].name, b->payloads + i * b->block_bytes, out);
		ok = ok && n == b->n_bytes[i];
	}
	*ms = cpu_ms() - begin;
	return ok;
}

static bool restore_all(struct bench *b, const char *dir, double *ms) {
	struct archive_options o = {.geometry = b->infos[0].geometry, .dir = dir, .disk_budget_bytes = UINT64_MAX, .prefetch_blocks = 2};
	struct archive_block names[MAX_BLOCKS];
	void *payloads[MAX_BLOCKS];
	struct archive *a;
	for (size_t i = 0; i < sizeof o.root.bytes; i++)
		o.root.bytes[i] = (uint8_t)strtoul((char[]){b->root[2 * i], b->root[2 * i + 1], 0}, NULL, 16);
	for (size_t i = 0; i < b->n; i++) {
		names[i] = b->infos[i].name;
		payloads[i] = b->payloads + i * b->block_bytes;
	}
	if (archive_open(&o, &a, NULL) != ERR_OK)
		return false;
	archive_flush(a, 10000);
	int64_t begin_us = clock_us();
	size_t got = archive_restore(a, names, payloads, b->n, NULL);
	*ms = (double)(clock_us() - begin_us) / 1e3;
	archive_close(a, 0);
	return got == b->n;
}

static void print(const struct bench *b, const char *what, double ms) {
	double raw_mb = (double)b->n * (double)b->block_bytes / 1e6;
	printf("%-10s %7.3f ms a block, %6.0f MB/s\n", what, ms / (double)b->n, raw_mb / ms * 1e3);
}

static bool run(struct bench *b, const char *dir) {
	struct extent_codec *c = NULL;
	uint8_t *out = malloc(extent_max_bytes(b->block_bytes));
	b->payloads = aligned_alloc(64, (b->n * b->block_bytes + 63) / 64 * 64);
	bool ok = out && b->payloads && extent_codec_create(b->block_bytes, &c, NULL) == ERR_OK;
	double best[3] = {1e9, 1e9, 1e9}, ms;
	for (int round = 0; ok && round < 5; round++) {
		ok = unpack_all(b, c, &ms);
		best[0] = ms < best[0] ? ms : best[0];
		ok = ok && pack_all(b, c, out, &ms);
		best[1] = ms < best[1] ? ms : best[1];
		ok = ok && restore_all(b, dir, &ms);
		best[2] = ms < best[2] ? ms : best[2];
	}
	if (ok) {
		printf("%zu blocks of %zu bytes, ratio %.4f, best of 5\n", b->n, b->block_bytes, (double)(b->n * b->block_bytes) / (double)b->packed_bytes);
		print(b, "unpack", best[0]);
		print(b, "pack", best[1]);
		print(b, "restore", best[2]);
	}
	extent_codec_destroy(c);
	free(out);
	free(b->payloads);
	return ok;
}

int main(int argc, char **argv) {
	struct bench *b = calloc(1, sizeof *b);
	struct err_msg msg = {"usage: bench_archive FOLDER"};
	if (!b || argc != 2 || folder_walk(argv[1], read_item, b, &msg) != ERR_OK) {
		fprintf(stderr, "%s\n", msg.text);
		return 2;
	}
	b->block_bytes = b->n ? b->infos[0].block_bytes : 0;
	bool ok = b->n && run(b, argv[1]);
	if (!ok)
		fprintf(stderr, b->n ? "bench_archive: a block could not be packed to what it was\n" : "%s: no blocks in it\n", argv[1]);
	for (size_t i = 0; i < b->n; i++)
		free(b->extents[i]);
	free(b);
	return ok ? 0 : 1;
}
