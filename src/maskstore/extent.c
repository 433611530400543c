// SPDX-License-Identifier: MIT
// Packing and unpacking of one block; the format stands in extent.h. The only file that sees zlib.
//
// zlib's streams are made once per codec and reset per block, so neither packing nor unpacking allocates. Inflating gets the whole plane as
// its output in one call (Z_FINISH), so zlib needs no window.
#include "maskstore/extent.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define ZLIB_CONST // next_in points to const: zlib does not write to its input
#include <zlib.h>

static const uint8_t magic[8] = {'M', 'S', 'K', 'E', 'X', 'T', 'N', 'T'};

enum offset {
	AT_VERSION = 8, AT_CRC = 12, AT_KV_TYPE = 16, AT_ELEMENT = 20, AT_LAYERS = 24, AT_HEADS = 28, AT_HEAD_DIM = 32, AT_ZERO = 36,
	AT_BLOCK_BYTES = 40, AT_DEFLATED_BYTES = 48, AT_ZERO_2 = 56, AT_KEY = 64, AT_PARENT = 96, AT_IDS = 128,
};

struct extent_codec {
	z_stream deflate, inflate;
	size_t max_block_bytes;
	uint8_t *plane; // the last plane before deflate or after inflate [max_block_bytes / 2]
};

// --- codec

static enum err start_streams(struct extent_codec *c) {
	// Level 1: only the strategy matters. -15: no zlib header. Memory level 8, a new code table every 16 K values, packed best of 4 to 9 on
	// KV of the default model.
	if (deflateInit2(&c->deflate, 1, Z_DEFLATED, -15, 8, Z_HUFFMAN_ONLY) != Z_OK)
		return ERR_NOMEM;
	if (inflateInit2(&c->inflate, -15) == Z_OK)
		return ERR_OK;
	deflateEnd(&c->deflate);
	return ERR_NOMEM;
}

enum err extent_codec_create(size_t max_block_bytes, struct extent_codec **out, struct err_msg *msg) {
	if (max_block_bytes < 4 || max_block_bytes > EXTENT_MAX_BLOCK_BYTES)
		return err_set(msg, ERR_ARG, "a KV block of %zu bytes can't be archived (at most %u)", max_block_bytes, EXTENT_MAX_BLOCK_BYTES);
	struct extent_codec *c = calloc(1, sizeof *c);
	if (!c)
		return err_set(msg, ERR_NOMEM, "no memory to pack KV blocks");
	c->max_block_bytes = max_block_bytes;
	c->plane = malloc(max_block_bytes / 2);
	if (c->plane && start_streams(c) == ERR_OK) {
		*out = c;
		return ERR_OK;
	}
	free(c->plane);
	free(c);
	return err_set(msg, ERR_NOMEM, "no memory to pack KV blocks");
}

void extent_codec_destroy(struct extent_codec *c) {
	if (!c)
		return;
	deflateEnd(&c->deflate);
	inflateEnd(&c->inflate);
	free(c->plane);
	free(c);
}

// --- planes

static void split_2(const uint16_t *restrict in, size_t n, uint8_t *restrict p0, uint8_t *restrict top) {
	for (size_t i = 0; i < n; i++) {
		p0[i] = (uint8_t)in[i];
		top[i] = (uint8_t)(in[i] >> 8);
	}
}

static void join_2(const uint8_t *restrict p0, const uint8_t *restrict top, size_t n, uint16_t *restrict out) {
	for (size_t i = 0; i < n; i++)
		out[i] = (uint16_t)(p0[i] | top[i] << 8);
}

static void split_4(const uint32_t *restrict in, size_t n, uint8_t *restrict low, uint8_t *restrict top) {
	for (size_t i = 0; i < n; i++) {
		low[i] = (uint8_t)in[i];
		low[n + i] = (uint8_t)(in[i] >> 8);
		low[2 * n + i] = (uint8_t)(in[i] >> 16);
		top[i] = (uint8_t)(in[i] >> 24);
	}
}

static void join_4(const uint8_t *restrict low, const uint8_t *restrict top, size_t n, uint32_t *restrict out) {
	for (size_t i = 0; i < n; i++)
		out[i] = low[i] | (uint32_t)low[n + i] << 8 | (uint32_t)low[2 * n + i] << 16 | (uint32_t)top[i] << 24;
}

// --- header

static void put_u32(uint8_t *at, uint32_t v) {
	for (int i = 0; i < 4; i++)
		at[i] = (uint8_t)(v >> (8 * i));
}

static uint32_t get_u32(const uint8_t *at) {
	return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static void put_u64(uint8_t *at, uint64_t v) {
	put_u32(at, (uint32_t)v);
	put_u32(at + 4, (uint32_t)(v >> 32));
}

static uint64_t get_u64(const uint8_t *at) {
	return get_u32(at) | (uint64_t)get_u32(at + 4) << 32;
}

static uint32_t checksum(const uint8_t *data, size_t n_bytes) {
	unsigned long crc = crc32_z(0, data, AT_CRC);
	return (uint32_t)crc32_z(crc, data + AT_KV_TYPE, n_bytes - AT_KV_TYPE);
}

static void write_header(const struct extent_info *info, uint8_t *out) {
	memset(out, 0, EXTENT_HEADER_BYTES);
	memcpy(out, magic, sizeof magic);
	put_u32(out + AT_VERSION, EXTENT_VERSION);
	put_u32(out + AT_KV_TYPE, (uint32_t)info->geometry.kv_type);
	put_u32(out + AT_ELEMENT, (uint32_t)info->element_bytes);
	put_u32(out + AT_LAYERS, (uint32_t)info->geometry.n_layer);
	put_u32(out + AT_HEADS, (uint32_t)info->geometry.n_head_kv);
	put_u32(out + AT_HEAD_DIM, (uint32_t)info->geometry.head_dim);
	put_u64(out + AT_BLOCK_BYTES, info->block_bytes);
	put_u64(out + AT_DEFLATED_BYTES, info->deflated_bytes);
	memcpy(out + AT_KEY, info->name.key.bytes, sizeof info->name.key.bytes);
	memcpy(out + AT_PARENT, info->name.parent.bytes, sizeof info->name.parent.bytes);
	for (size_t i = 0; i < KV_BLOCK_TOKENS; i++)
		put_u32(out + AT_IDS + 4 * i, (uint32_t)info->name.ids[i]);
}

// Sizes that fit one another: the product of the geometry is the block, and planes and deflated plane are the whole extent.
static int sizes_fit(const struct extent_info *info, size_t n_bytes) {
	const struct maskstore_geometry *g = &info->geometry;
	if (info->element_bytes != 2 && info->element_bytes != 4)
		return 0;
	if (g->n_layer < 1 || g->n_head_kv < 1 || g->head_dim < 1)
		return 0;
	size_t n = 2 * KV_BLOCK_TOKENS * (size_t)info->element_bytes;
	if (__builtin_mul_overflow(n, (size_t)g->n_layer, &n) || __builtin_mul_overflow(n, (size_t)g->n_head_kv, &n) ||
	    __builtin_mul_overflow(n, (size_t)g->head_dim, &n) || n != info->block_bytes || n > EXTENT_MAX_BLOCK_BYTES)
		return 0;
	size_t plain_bytes = EXTENT_HEADER_BYTES + n / (size_t)info->element_bytes * (size_t)(info->element_bytes - 1);
	return n_bytes >= plain_bytes && n_bytes - plain_bytes == info->deflated_bytes;
}

enum extent_check extent_peek(const uint8_t *data, size_t n_bytes) {
	if (n_bytes < AT_VERSION + 4 || memcmp(data, magic, sizeof magic) != 0)
		return EXTENT_CORRUPT;
	return get_u32(data + AT_VERSION) == EXTENT_VERSION ? EXTENT_OK : EXTENT_UNKNOWN_VERSION;
}

enum extent_check extent_read(const uint8_t *data, size_t n_bytes, struct extent_info *out) {
	enum extent_check format = extent_peek(data, n_bytes);
	if (format != EXTENT_OK)
		return format;
	if (n_bytes < EXTENT_HEADER_BYTES || get_u32(data + AT_ZERO) || get_u64(data + AT_ZERO_2))
		return EXTENT_CORRUPT;
	struct extent_info info = {
		.geometry = {(int)get_u32(data + AT_LAYERS), (int)get_u32(data + AT_HEADS), (int)get_u32(data + AT_HEAD_DIM),
		             (enum kv_type)get_u32(data + AT_KV_TYPE)},
		.element_bytes = (int)get_u32(data + AT_ELEMENT),
		.block_bytes = get_u64(data + AT_BLOCK_BYTES),
		.deflated_bytes = get_u64(data + AT_DEFLATED_BYTES),
	};
	if (!sizes_fit(&info, n_bytes) || checksum(data, n_bytes) != get_u32(data + AT_CRC))
		return EXTENT_CORRUPT;
	memcpy(info.name.key.bytes, data + AT_KEY, sizeof info.name.key.bytes);
	memcpy(info.name.parent.bytes, data + AT_PARENT, sizeof info.name.parent.bytes);
	for (size_t i = 0; i < KV_BLOCK_TOKENS; i++)
		info.name.ids[i] = (int32_t)get_u32(data + AT_IDS + 4 * i);
	*out = info;
	return EXTENT_OK;
}

// --- packing

size_t extent_max_bytes(size_t block_bytes) {
	// Deflate stores what it can't shorten: 5 bytes for each stored block of at least 4 KB here, rounded up generously.
	return EXTENT_HEADER_BYTES + block_bytes + block_bytes / 512 + 128;
}

static size_t deflate_plane(struct extent_codec *c, size_t n, uint8_t *out, size_t out_bytes) {
	z_stream *z = &c->deflate;
	if (deflateReset(z) != Z_OK)
		return 0;
	z->next_in = c->plane;
	z->avail_in = (uInt)n;
	z->next_out = out;
	z->avail_out = (uInt)out_bytes;
	return deflate(z, Z_FINISH) == Z_STREAM_END ? out_bytes - z->avail_out : 0;
}

size_t extent_pack(struct extent_codec *c, const struct maskstore_geometry *g, const struct archive_block *name, const void *payload,
                   uint8_t *out) {
	struct extent_info info = {.geometry = *g, .element_bytes = kv_type_bytes(g->kv_type), .block_bytes = maskstore_block_bytes(g), .name = *name};
	assert(info.block_bytes && info.block_bytes <= c->max_block_bytes);
	size_t n = info.block_bytes / (size_t)info.element_bytes;
	uint8_t *planes = out + EXTENT_HEADER_BYTES, *deflated = planes + n * (size_t)(info.element_bytes - 1);
	if (info.element_bytes == 2)
		split_2(payload, n, planes, c->plane);
	else
		split_4(payload, n, planes, c->plane);
	info.deflated_bytes = deflate_plane(c, n, deflated, (size_t)(out + extent_max_bytes(info.block_bytes) - deflated));
	if (!info.deflated_bytes)
		return 0;
	write_header(&info, out);
	size_t n_bytes = (size_t)(deflated - out) + info.deflated_bytes;
	put_u32(out + AT_CRC, checksum(out, n_bytes));
	return n_bytes;
}

static int inflate_plane(struct extent_codec *c, const uint8_t *data, size_t n_bytes, size_t n) {
	z_stream *z = &c->inflate;
	if (inflateReset(z) != Z_OK)
		return 0;
	z->next_in = data;
	z->avail_in = (uInt)n_bytes;
	z->next_out = c->plane;
	z->avail_out = (uInt)n;
	return inflate(z, Z_FINISH) == Z_STREAM_END && z->avail_in == 0 && z->avail_out == 0;
}

enum extent_check extent_unpack(struct extent_codec *c, const uint8_t *data, const struct extent_info *info, void *payload) {
	if (info->block_bytes > c->max_block_bytes)
		return EXTENT_CORRUPT;
	size_t n = info->block_bytes / (size_t)info->element_bytes;
	const uint8_t *planes = data + EXTENT_HEADER_BYTES;
	if (!inflate_plane(c, planes + n * (size_t)(info->element_bytes - 1), info->deflated_bytes, n))
		return EXTENT_CORRUPT;
	if (payload && info->element_bytes == 2)
		join_2(planes, c->plane, n, payload);
	else if (payload)
		join_4(planes, c->plane, n, payload);
	return EXTENT_OK;
}
