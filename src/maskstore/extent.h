// SPDX-License-Identifier: MIT
// One block as bytes at rest: packed for RAM and disk, unpacked after every check.
//
// An extent, all numbers little-endian:
//
//   offset size
//        0    8  magic "MSKEXTNT"
//        8    4  format version (EXTENT_VERSION)
//       12    4  CRC-32 (zlib's) of everything else: bytes 0..11, then 16 to the end
//       16    4  KV type (enum kv_type)
//       20    4  bytes of one element: 2 or 4
//       24    4  layers
//       28    4  KV heads
//       32    4  head size
//       36    4  zero
//       40    8  bytes of the block before packing
//       48    8  bytes of the deflated plane
//       56    8  zero
//       64   32  key
//       96   32  key of the parent
//      128  128  32 token ids, int32
//      256       planes: byte 0 of every element, byte 1 of every element, …; all but the last as they are, in the block's order
//                the last plane (sign and exponent): one raw deflate stream (no zlib header: the CRC covers it)
//
// The last plane is put in the order [layer] { K [head][head_dim][32], V [head][32][head_dim] }, and in K each byte is the difference from
// the token before it in its channel (the first of the 32 as it is). K and V of each layer have code tables of their own.
//
// Why: mantissa bits don't compress; matches cost time and gain nothing, so Huffman codes alone (Z_HUFFMAN_ONLY); exponents differ by
// layer and kind, and K's by channel. Measured on 4,000 tokens of Python, f16: one stream 1.138, tables by layer and kind 1.162, with
// differences in K 1.179 (default model; docs/speed.md has more). The header takes 256 bytes, a multiple of a cache line.
//
// Nothing in an extent is trusted: magic, version, zero fields, each size against the others and the file's, the checksum, and that the
// deflated plane has exactly the size it must have. Threads: a codec belongs to one thread at a time; the rest is pure.
#ifndef MASKSTORE_EXTENT_H
#define MASKSTORE_EXTENT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "maskstore/archive.h"

#define EXTENT_VERSION 1
#define EXTENT_HEADER_BYTES 256
// Largest block that is archived: 80 layers x 8 heads x 128 in f32 are 21 MB. Bounds what a hostile header can ask for.
#define EXTENT_MAX_BLOCK_BYTES (64u << 20)

struct extent_codec;

enum extent_check {
	EXTENT_OK = 0,
	EXTENT_CORRUPT,         // no extent, cut, or not what its checksum says
	EXTENT_UNKNOWN_VERSION, // an extent of another format
};

struct extent_info {
	struct maskstore_geometry geometry;
	int element_bytes; // 2 or 4
	size_t block_bytes, deflated_bytes;
	struct archive_block name;
};

// A codec for blocks of up to max_block_bytes (≤ EXTENT_MAX_BLOCK_BYTES): all memory that packing and unpacking need. ERR_ARG, ERR_NOMEM.
enum err extent_codec_create(size_t max_block_bytes, struct extent_codec **out, struct err_msg *msg) ERR_MUST_CHECK;
// Accepts null.
void extent_codec_destroy(struct extent_codec *c);

// Most bytes that a block of block_bytes takes as an extent. Pure.
size_t extent_max_bytes(size_t block_bytes);
// Packs payload [maskstore_block_bytes(g)] (aligned to an element) into out [extent_max_bytes]; returns the bytes written, 0 if zlib failed.
size_t extent_pack(struct extent_codec *c, const struct maskstore_geometry *g, const struct archive_block *name, const void *payload,
                   uint8_t *out);
// The format of the first n_bytes of an extent, as far as magic and version tell. Needs 12 bytes; fewer are corrupt.
enum extent_check extent_peek(const uint8_t *data, size_t n_bytes);
// Checks all of data[n_bytes] but the deflated plane's contents and fills *out.
enum extent_check extent_read(const uint8_t *data, size_t n_bytes, struct extent_info *out);
// Unpacks an extent that extent_read passed into payload [info->block_bytes] (aligned to an element). EXTENT_CORRUPT if the deflated plane
// is not what it must be, or the block is larger than the codec; payload is then unspecified. A null payload only checks.
enum extent_check extent_unpack(struct extent_codec *c, const uint8_t *data, const struct extent_info *info, void *payload);

#endif
