// SPDX-License-Identifier: MIT
// Packing and unpacking of one block; the format stands in extent.h. The only file that sees zlib and libdeflate.
//
// zlib deflates, because it can be told where code tables end and to look for no matches; libdeflate inflates and computes the checksum
// (zlib's CRC-32), because it takes less than half of zlib's time for that, and somebody waits for restores. Streams are made once per
// codec, so neither packing nor unpacking allocates.
#include "maskstore/extent.h"

#include <assert.h>
#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>

#define ZLIB_CONST // next_in points to const
#include <zlib.h>

static const uint8_t magic[8] = {'M', 'S', 'K', 'E', 'X', 'T', 'N', 'T'};

enum offset {
	AT_VERSION = 8, AT_CRC = 12, AT_KV_TYPE = 16, AT_ELEMENT = 20, AT_LAYERS = 24, AT_HEADS = 28, AT_HEAD_DIM = 32, AT_ZERO = 36,
	AT_BLOCK_BYTES = 40, AT_DEFLATED_BYTES = 48, AT_ZERO_2 = 56, AT_KEY = 64, AT_PARENT = 96, AT_IDS = 128,
};

struct extent_codec {
	z_stream deflate;
	struct libdeflate_decompressor *inflate;
	size_t max_block_bytes;
	uint8_t *plane; // the last plane before deflate or after inflate [max_block_bytes / 2]
};

// --- codec

static enum err start_streams(struct extent_codec *c) {
	// Level 1: only the strategy matters. -15: no zlib header. 8: a code table for at most 16 K values, as large as a table is worth.
	if (deflateInit2(&c->deflate, 1, Z_DEFLATED, -15, 8, Z_HUFFMAN_ONLY) != Z_OK)
		return ERR_NOMEM;
	c->inflate = libdeflate_alloc_decompressor();
	if (c->inflate)
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
	libdeflate_free_decompressor(c->inflate);
	free(c->plane);
	free(c);
}

// --- planes

// One head's K or V: n elements in the block's order.
static void split_2(const uint16_t *restrict in, size_t n, uint8_t *restrict low, uint8_t *restrict top) {
	for (size_t i = 0; i < n; i++) {
		low[i] = (uint8_t)in[i];
		top[i] = (uint8_t)(in[i] >> 8);
	}
}

static void join_2(const uint8_t *restrict low, const uint8_t *restrict top, size_t n, uint16_t *restrict out) {
	for (size_t i = 0; i < n; i++)
		out[i] = (uint16_t)(low[i] | top[i] << 8);
}

// `stride`: bytes from one low plane to the next.
static void split_4(const uint32_t *restrict in, size_t n, uint8_t *restrict low, size_t stride, uint8_t *restrict top) {
	for (size_t i = 0; i < n; i++) {
		low[i] = (uint8_t)in[i];
		low[stride + i] = (uint8_t)(in[i] >> 8);
		low[2 * stride + i] = (uint8_t)(in[i] >> 16);
		top[i] = (uint8_t)(in[i] >> 24);
	}
}

static void join_4(const uint8_t *restrict low, size_t stride, const uint8_t *restrict top, size_t n, uint32_t *restrict out) {
	for (size_t i = 0; i < n; i++)
		out[i] = low[i] | (uint32_t)low[stride + i] << 8 | (uint32_t)low[2 * stride + i] << 16 | (uint32_t)top[i] << 24;
}

// Differences along the tokens of each channel, in place and back.
static void differ(uint8_t *k, size_t n) {
	for (size_t i = 0; i < n; i += KV_BLOCK_TOKENS)
		for (size_t t = KV_BLOCK_TOKENS - 1; t > 0; t--)
			k[i + t] = (uint8_t)(k[i + t] - k[i + t - 1]);
}

static void add_up(uint8_t *k, size_t n) {
	for (size_t i = 0; i < n; i += KV_BLOCK_TOKENS)
		for (size_t t = 1; t < KV_BLOCK_TOKENS; t++)
			k[i + t] = (uint8_t)(k[i + t] + k[i + t - 1]);
}

// Sizes and places in planes. A part is K or V of one head.
struct layout {
	size_t n_parts, n_heads; // of the block; of a layer
	size_t part, n;          // elements of a part; of the block
	size_t element_bytes;
};

static struct layout layout_of(const struct maskstore_geometry *g, size_t element_bytes) {
	size_t part = (size_t)g->head_dim * KV_BLOCK_TOKENS, n_parts = 2 * (size_t)g->n_layer * (size_t)g->n_head_kv;
	return (struct layout){.n_parts = n_parts, .n_heads = (size_t)g->n_head_kv, .part = part, .n = n_parts * part, .element_bytes = element_bytes};
}

// Where part i of the block's order starts in the last plane.
static size_t place_in_top(const struct layout *l, size_t i) {
	size_t layer = i / (2 * l->n_heads), head = i / 2 % l->n_heads, is_v = i % 2;
	return ((2 * layer + is_v) * l->n_heads + head) * l->part;
}

static void split_planes(const struct layout *l, const void *payload, uint8_t *low, uint8_t *top) {
	for (size_t i = 0; i < l->n_parts; i++) {
		uint8_t *part = top + place_in_top(l, i);
		if (l->element_bytes == 2)
			split_2((const uint16_t *)payload + i * l->part, l->part, low + i * l->part, part);
		else
			split_4((const uint32_t *)payload + i * l->part, l->part, low + i * l->part, l->n, part);
		if (i % 2 == 0)
			differ(part, l->part);
	}
}

// Changes `top`.
static void join_planes(const struct layout *l, const uint8_t *low, uint8_t *top, void *payload) {
	for (size_t i = 0; i < l->n_parts; i++) {
		uint8_t *part = top + place_in_top(l, i);
		if (i % 2 == 0)
			add_up(part, l->part);
		if (l->element_bytes == 2)
			join_2(low + i * l->part, part, l->part, (uint16_t *)payload + i * l->part);
		else
			join_4(low + i * l->part, l->n, part, l->part, (uint32_t *)payload + i * l->part);
	}
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
	return libdeflate_crc32(libdeflate_crc32(0, data, AT_CRC), data + AT_KV_TYPE, n_bytes - AT_KV_TYPE);
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
	// Deflate stores what it can't shorten: 6 bytes more for each code table, which stands for at least 32 bytes of the last plane.
	return EXTENT_HEADER_BYTES + block_bytes + block_bytes / 8 + 128;
}

// A code table each `step` bytes of the last plane. 0 if zlib fails.
static size_t deflate_plane(struct extent_codec *c, size_t n, size_t step, uint8_t *out, size_t out_bytes) {
	z_stream *z = &c->deflate;
	if (deflateReset(z) != Z_OK)
		return 0;
	z->next_out = out;
	z->avail_out = (uInt)out_bytes;
	int result = Z_OK;
	for (size_t i = 0; i < n && result == Z_OK; i += step) {
		z->next_in = c->plane + i;
		z->avail_in = (uInt)step;
		result = deflate(z, i + step < n ? Z_BLOCK : Z_FINISH);
	}
	return result == Z_STREAM_END ? out_bytes - z->avail_out : 0;
}

size_t extent_pack(struct extent_codec *c, const struct maskstore_geometry *g, const struct archive_block *name, const void *payload,
                   uint8_t *out) {
	struct extent_info info = {.geometry = *g, .element_bytes = kv_type_bytes(g->kv_type), .block_bytes = maskstore_block_bytes(g), .name = *name};
	assert(info.block_bytes && info.block_bytes <= c->max_block_bytes);
	struct layout l = layout_of(g, (size_t)info.element_bytes);
	uint8_t *planes = out + EXTENT_HEADER_BYTES, *deflated = planes + l.n * (l.element_bytes - 1);
	size_t room_bytes = extent_max_bytes(info.block_bytes) - (size_t)(deflated - out);
	split_planes(&l, payload, planes, c->plane);
	info.deflated_bytes = deflate_plane(c, l.n, l.n_heads * l.part, deflated, room_bytes);
	if (!info.deflated_bytes)
		return 0;
	write_header(&info, out);
	size_t n_bytes = (size_t)(deflated - out) + info.deflated_bytes;
	put_u32(out + AT_CRC, checksum(out, n_bytes));
	return n_bytes;
}

// All of the stream, and no byte more or less than the plane.
static int inflate_plane(struct extent_codec *c, const uint8_t *data, size_t n_bytes, size_t n) {
	size_t used_bytes = 0;
	return libdeflate_deflate_decompress_ex(c->inflate, data, n_bytes, c->plane, n, &used_bytes, NULL) == LIBDEFLATE_SUCCESS &&
	       used_bytes == n_bytes;
}

enum extent_check extent_unpack(struct extent_codec *c, const uint8_t *data, const struct extent_info *info, void *payload) {
	if (info->block_bytes > c->max_block_bytes)
		return EXTENT_CORRUPT;
	struct layout l = layout_of(&info->geometry, (size_t)info->element_bytes);
	const uint8_t *planes = data + EXTENT_HEADER_BYTES;
	if (!inflate_plane(c, planes + l.n * (l.element_bytes - 1), info->deflated_bytes, l.n))
		return EXTENT_CORRUPT;
	if (payload)
		join_planes(&l, planes, c->plane, payload);
	return EXTENT_OK;
}
