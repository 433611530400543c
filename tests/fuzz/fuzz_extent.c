// SPDX-License-Identifier: MIT
// Any bytes as an extent: checked, unpacked, packed again and unpacked to the same block.
//
// The first byte of the input says how honest the rest is made, since no fuzzer guesses a checksum: bit 0 writes the right checksum,
// bit 1 the size of the deflated plane that fits the length.
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "maskstore/extent.h"

#define CODEC_BYTES (1u << 20) // larger blocks must be refused by the codec

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static uint32_t get_u32(const uint8_t *at) {
	return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static void put_u64(uint8_t *at, uint64_t v, int n_bytes) {
	for (int i = 0; i < n_bytes; i++)
		at[i] = (uint8_t)(v >> (8 * i));
}

static void make_honest(uint8_t *extent, size_t n_bytes, uint8_t how) {
	if (n_bytes < EXTENT_HEADER_BYTES)
		return;
	uint64_t element = get_u32(extent + 20) == 4 ? 4 : 2;
	uint64_t plain = EXTENT_HEADER_BYTES + get_u32(extent + 40) / element * (element - 1);
	if (how & 2)
		put_u64(extent + 48, n_bytes - plain, 8);
	if (how & 1)
		put_u64(extent + 12, crc32_z(crc32_z(0, extent, 12), extent + 16, n_bytes - 16), 4);
}

// The block must come back from what we make of it ourselves.
static void pack_again(struct extent_codec *c, const struct extent_info *info, const void *payload) {
	struct maskstore_geometry g = info->geometry;
	g.kv_type = info->element_bytes == 2 ? KV_F16 : KV_F32; // the reader leaves unknown types to the archive
	uint8_t *out = malloc(extent_max_bytes(info->block_bytes)), *back = malloc(info->block_bytes);
	struct extent_info again;
	assert(out && back);
	size_t n = extent_pack(c, &g, &info->name, payload, out);
	assert(n && extent_read(out, n, &again) == EXTENT_OK && !memcmp(&again.name, &info->name, sizeof again.name));
	assert(extent_unpack(c, out, &again, back) == EXTENT_OK && !memcmp(back, payload, info->block_bytes));
	free(out);
	free(back);
}

static void look_at(struct extent_codec *c, const uint8_t *extent, size_t n_bytes) {
	struct extent_info info;
	enum extent_check check = extent_read(extent, n_bytes, &info);
	assert(check == EXTENT_OK || extent_peek(extent, n_bytes) != EXTENT_UNKNOWN_VERSION || check == EXTENT_UNKNOWN_VERSION);
	if (check != EXTENT_OK)
		return;
	assert(info.block_bytes <= EXTENT_MAX_BLOCK_BYTES && info.deflated_bytes < n_bytes);
	void *payload = malloc(info.block_bytes);
	assert(payload);
	check = extent_unpack(c, extent, &info, payload);
	assert(check == extent_unpack(c, extent, &info, NULL));
	if (check == EXTENT_OK)
		pack_again(c, &info, payload);
	free(payload);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
	static struct extent_codec *codec; // one for all inputs: a broken one must not harm the next
	if (!codec && extent_codec_create(CODEC_BYTES, &codec, NULL) != ERR_OK)
		return 0;
	if (n_bytes < 1)
		return 0;
	uint8_t *extent = malloc(n_bytes); // one byte less is used, but malloc(0) may be null
	if (!extent)
		return 0;
	memcpy(extent + 1, data + 1, n_bytes - 1);
	make_honest(extent + 1, n_bytes - 1, data[0]);
	look_at(codec, extent + 1, n_bytes - 1);
	free(extent);
	return 0;
}
