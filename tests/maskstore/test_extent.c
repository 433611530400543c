// SPDX-License-Identifier: MIT
// Extents: round trips over geometries and contents, the layout as documented, every byte flipped, every length cut, hostile headers.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>

#include "blocks.h"
#include "maskstore/extent.h"

static const struct maskstore_geometry SMALL = {.n_layer = 2, .n_head_kv = 2, .head_dim = 4, .kv_type = KV_F16};
static const struct kv_key ROOT = {{1, 2, 3}};

struct packed {
	struct archive_block name;
	size_t block_bytes, n_bytes;
	void *payload;
	uint8_t *data;
	struct extent_codec *codec;
};

static void *make_bytes(size_t n) {
	void *p = malloc(n);
	assert_non_null(p);
	return p;
}

// Packs a payload that is filled already, or one made from the key.
static struct packed pack(const struct maskstore_geometry *g, const void *payload) {
	struct packed p = {.name = block_after(&ROOT, 1), .block_bytes = maskstore_block_bytes(g)};
	struct err_msg msg;
	assert_int_equal(extent_codec_create(p.block_bytes, &p.codec, &msg), ERR_OK);
	p.payload = make_bytes(p.block_bytes);
	if (payload)
		memcpy(p.payload, payload, p.block_bytes);
	else
		fill_payload(&p.name.key, kv_type_bytes(g->kv_type), p.payload, p.block_bytes);
	uint8_t *out = make_bytes(extent_max_bytes(p.block_bytes));
	p.n_bytes = extent_pack(p.codec, g, &p.name, p.payload, out);
	assert_true(p.n_bytes > EXTENT_HEADER_BYTES && p.n_bytes <= extent_max_bytes(p.block_bytes));
	p.data = make_bytes(p.n_bytes); // of the exact size, so that sanitizers see a read past the end
	memcpy(p.data, out, p.n_bytes);
	free(out);
	return p;
}

static void finish(struct packed *p) {
	extent_codec_destroy(p->codec);
	free(p->payload);
	free(p->data);
}

// Makes the checksum right after a change, as somebody hostile would.
static void sign(uint8_t *data, size_t n_bytes) {
	uint32_t crc = (uint32_t)crc32_z(crc32_z(0, data, 12), data + 16, n_bytes - 16);
	for (int i = 0; i < 4; i++)
		data[12 + i] = (uint8_t)(crc >> (8 * i));
}

static void expect_round_trip(const struct packed *p, const struct maskstore_geometry *g) {
	struct extent_info info;
	assert_int_equal(extent_peek(p->data, p->n_bytes), EXTENT_OK);
	assert_int_equal(extent_read(p->data, p->n_bytes, &info), EXTENT_OK);
	assert_memory_equal(&info.geometry, g, sizeof *g);
	assert_memory_equal(&info.name, &p->name, sizeof p->name);
	assert_int_equal(info.block_bytes, p->block_bytes);
	assert_int_equal(info.element_bytes, kv_type_bytes(g->kv_type));
	void *back = make_bytes(p->block_bytes);
	memset(back, 0x5a, p->block_bytes);
	assert_int_equal(extent_unpack(p->codec, p->data, &info, NULL), EXTENT_OK);
	assert_int_equal(extent_unpack(p->codec, p->data, &info, back), EXTENT_OK);
	assert_memory_equal(back, p->payload, p->block_bytes);
	free(back);
}

static void test_round_trip(void **state) {
	(void)state;
	const struct maskstore_geometry geometries[] = {
		{24, 2, 64, KV_F16}, {30, 3, 64, KV_F16}, {1, 1, 1, KV_F16}, {2, 3, 80, KV_F16}, {3, 5, 7, KV_F32}, {1, 1, 1, KV_F32}, {24, 2, 64, KV_F32}, {4, 2, 64, KV_BF16},
	};
	for (size_t i = 0; i < sizeof geometries / sizeof geometries[0]; i++) {
		struct packed p = pack(&geometries[i], NULL);
		expect_round_trip(&p, &geometries[i]);
		finish(&p);
	}
}

// All bits at random, all zero, all one: what can't be shortened and what is shortened most.
static void test_extreme_contents(void **state) {
	(void)state;
	const struct maskstore_geometry geometries[] = {{2, 2, 64, KV_F16}, {3, 1, 1, KV_F16}, {1, 1, 200, KV_F32}, {1, 40, 32, KV_F16}};
	uint64_t seed = 5;
	for (size_t i = 0; i < sizeof geometries / sizeof geometries[0]; i++)
		for (int kind = 0; kind < 3; kind++) {
			size_t n = maskstore_block_bytes(&geometries[i]);
			uint8_t *payload = make_bytes(n);
			for (size_t j = 0; j < n; j++)
				payload[j] = kind == 0 ? (uint8_t)draw(&seed, 256) : kind == 1 ? 0 : 0xff;
			struct packed p = pack(&geometries[i], payload);
			expect_round_trip(&p, &geometries[i]);
			finish(&p);
			free(payload);
		}
}

// The format of extent.h, read by hand: another reader must find the same.
static void test_layout(void **state) {
	(void)state;
	struct packed p = pack(&SMALL, NULL);
	size_t n = p.block_bytes / 2, part = 4 * KV_BLOCK_TOKENS;
	const uint8_t *payload = p.payload;
	assert_memory_equal(p.data, "MSKEXTNT\1\0\0\0", 12);
	assert_memory_equal(p.data + 64, p.name.key.bytes, 32);
	assert_memory_equal(p.data + 96, p.name.parent.bytes, 32);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(p.data[256 + i], payload[2 * i]);
	uint8_t *top = make_bytes(n);
	z_stream z = {0};
	assert_int_equal(inflateInit2(&z, -15), Z_OK);
	z.next_in = p.data + 256 + n;
	z.avail_in = (uInt)(p.n_bytes - 256 - n);
	z.next_out = top;
	z.avail_out = (uInt)n;
	assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
	assert_int_equal(z.avail_in + z.avail_out, 0);
	inflateEnd(&z);
	const uint8_t *at = top;
	for (size_t layer = 0; layer < 2; layer++)
		for (size_t v = 0; v < 2; v++)
			for (size_t head = 0; head < 2; head++)
				for (size_t i = 0; i < part; i++) {
					size_t j = ((layer * 2 + head) * 2 + v) * part + i;
					uint8_t before = v || i % KV_BLOCK_TOKENS == 0 ? 0 : payload[2 * j - 1];
					assert_int_equal(*at++, (uint8_t)(payload[2 * j + 1] - before));
				}
	free(top);
	finish(&p);
}

// Any byte changed in any of three ways: a miss.
static void test_every_byte_counts(void **state) {
	(void)state;
	struct packed p = pack(&SMALL, NULL);
	for (size_t i = 0; i < p.n_bytes; i++)
		for (int way = 0; way < 3; way++) {
			uint8_t was = p.data[i];
			p.data[i] = (uint8_t)(way == 0 ? was ^ 1 : way == 1 ? was ^ 0x80 : ~was);
			struct extent_info info;
			assert_int_not_equal(extent_read(p.data, p.n_bytes, &info), EXTENT_OK);
			p.data[i] = was;
		}
	expect_round_trip(&p, &SMALL);
	finish(&p);
}

static void test_every_length_counts(void **state) {
	(void)state;
	struct packed p = pack(&SMALL, NULL);
	struct extent_info info;
	for (size_t n = 0; n < p.n_bytes; n++) {
		uint8_t *cut = make_bytes(n ? n : 1);
		memcpy(cut, p.data, n);
		assert_int_equal(extent_read(cut, n, &info), EXTENT_CORRUPT);
		free(cut);
	}
	uint8_t *longer = make_bytes(p.n_bytes + 8);
	memset(longer, 0, p.n_bytes + 8);
	memcpy(longer, p.data, p.n_bytes);
	for (size_t n = 1; n <= 8; n++) {
		sign(longer, p.n_bytes + n);
		assert_int_equal(extent_read(longer, p.n_bytes + n, &info), EXTENT_CORRUPT);
	}
	free(longer);
	finish(&p);
}

static void set_u32(uint8_t *at, uint32_t v) {
	for (int i = 0; i < 4; i++)
		at[i] = (uint8_t)(v >> (8 * i));
}

// Headers with right checksums and wrong sizes, and another version.
static void test_hostile_headers(void **state) {
	(void)state;
	struct packed p = pack(&SMALL, NULL);
	const struct {
		size_t at;
		uint32_t value;
	} lies[] = {
		{20, 0}, {20, 1}, {20, 3}, {20, 4}, {20, 8}, {20, UINT32_MAX}, {24, 0}, {24, 1}, {24, 3}, {24, UINT32_MAX}, {24, 1u << 30}, {28, 0}, {28, 1u << 31},
		{32, 0}, {32, 5}, {32, INT32_MAX}, {36, 1}, {40, 0}, {40, 1}, {40, UINT32_MAX}, {44, 1}, {44, UINT32_MAX}, {48, 0}, {48, 1}, {48, UINT32_MAX}, {52, 1},
		{52, UINT32_MAX}, {56, 1}, {60, 1},
	};
	struct extent_info info;
	for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
		uint8_t *copy = make_bytes(p.n_bytes);
		memcpy(copy, p.data, p.n_bytes);
		set_u32(copy + lies[i].at, lies[i].value);
		sign(copy, p.n_bytes);
		assert_int_equal(extent_read(copy, p.n_bytes, &info), EXTENT_CORRUPT);
		free(copy);
	}
	set_u32(p.data + 8, 2);
	sign(p.data, p.n_bytes);
	assert_int_equal(extent_peek(p.data, p.n_bytes), EXTENT_UNKNOWN_VERSION);
	assert_int_equal(extent_read(p.data, p.n_bytes, &info), EXTENT_UNKNOWN_VERSION);
	finish(&p);
}

// A wrong deflated plane behind a right checksum: refused or, if it happens to be a stream of the right size, unpacked; never out of bounds.
static void test_hostile_streams(void **state) {
	(void)state;
	struct packed p = pack(&SMALL, NULL);
	uint8_t *copy = make_bytes(p.n_bytes), *payload = make_bytes(p.block_bytes);
	size_t begin = 256 + p.block_bytes / 2;
	uint64_t seed = 9;
	int n_refused = 0;
	for (int round = 0; round < 3000; round++) {
		memcpy(copy, p.data, p.n_bytes);
		for (uint32_t k = 1 + draw(&seed, 4); k > 0; k--)
			copy[begin + draw(&seed, (uint32_t)(p.n_bytes - begin))] = (uint8_t)draw(&seed, 256);
		sign(copy, p.n_bytes);
		struct extent_info info;
		assert_int_equal(extent_read(copy, p.n_bytes, &info), EXTENT_OK);
		n_refused += extent_unpack(p.codec, copy, &info, payload) != EXTENT_OK;
	}
	assert_true(n_refused > 1000);
	free(copy);
	free(payload);
	expect_round_trip(&p, &SMALL); // the codec is as good as new
	finish(&p);
}

// Bytes after the end of the deflate stream, counted in its size.
static void test_bytes_after_the_stream(void **state) {
	(void)state;
	struct packed p = pack(&SMALL, NULL);
	uint8_t *longer = make_bytes(p.n_bytes + 1);
	memcpy(longer, p.data, p.n_bytes);
	longer[p.n_bytes] = 0;
	set_u32(longer + 48, (uint32_t)(p.n_bytes + 1 - 256 - p.block_bytes / 2));
	sign(longer, p.n_bytes + 1);
	struct extent_info info;
	assert_int_equal(extent_read(longer, p.n_bytes + 1, &info), EXTENT_OK);
	assert_int_equal(extent_unpack(p.codec, longer, &info, NULL), EXTENT_CORRUPT);
	free(longer);
	finish(&p);
}

static void test_codec_limits(void **state) {
	(void)state;
	struct extent_codec *c = (struct extent_codec *)&SMALL;
	struct err_msg msg;
	assert_int_equal(extent_codec_create(EXTENT_MAX_BLOCK_BYTES + 1, &c, &msg), ERR_ARG);
	assert_int_equal(extent_codec_create(0, &c, &msg), ERR_ARG);
	assert_ptr_equal(c, &SMALL);
	extent_codec_destroy(NULL);
	struct packed p = pack(&SMALL, NULL);
	struct extent_info info;
	assert_int_equal(extent_read(p.data, p.n_bytes, &info), EXTENT_OK);
	assert_int_equal(extent_codec_create(p.block_bytes - 2, &c, &msg), ERR_OK);
	assert_int_equal(extent_unpack(c, p.data, &info, NULL), EXTENT_CORRUPT); // larger than the codec
	extent_codec_destroy(c);
	finish(&p);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),        cmocka_unit_test(test_extreme_contents),    cmocka_unit_test(test_layout),
		cmocka_unit_test(test_every_byte_counts), cmocka_unit_test(test_every_length_counts), cmocka_unit_test(test_hostile_headers),
		cmocka_unit_test(test_hostile_streams),   cmocka_unit_test(test_bytes_after_the_stream), cmocka_unit_test(test_codec_limits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
