// SPDX-License-Identifier: MIT
// Unpacking of sixteen GGUF rows into wide blocks, the AVX2 way (avx2_unpack.c) with twice the rows: 4-byte groups of the packed bytes are transposed
// first (four loads of four rows each and eight shuffles for 16 bytes of 16 rows), then nibbles are split; so the shuffles work on packed data.
// Stateless.
#include "kernels/avx512_unpack.h"

#include "kernels/avx2_common.h"

// Four vectors; lane r (of sixteen 4-byte lanes) of v[i] is the i-th 4 bytes of row r.
struct quad {
	__m512i v[4];
};

// 16 bytes of a row and of the rows four, eight and twelve below.
ALWAYS_INLINE __m512i load_four(const uint8_t *p, size_t row_bytes) {
	__m512i x = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(const void *)p));
	x = _mm512_inserti32x4(x, _mm_loadu_si128((const __m128i *)(const void *)(p + 4 * row_bytes)), 1);
	x = _mm512_inserti32x4(x, _mm_loadu_si128((const __m128i *)(const void *)(p + 8 * row_bytes)), 2);
	return _mm512_inserti32x4(x, _mm_loadu_si128((const __m128i *)(const void *)(p + 12 * row_bytes)), 3);
}

ALWAYS_INLINE struct quad load_quad(const uint8_t *p, size_t row_bytes) {
	__m512i a = load_four(p, row_bytes), b = load_four(p + row_bytes, row_bytes);
	__m512i c = load_four(p + 2 * row_bytes, row_bytes), d = load_four(p + 3 * row_bytes, row_bytes);
	__m512i ab_low = _mm512_unpacklo_epi32(a, b), cd_low = _mm512_unpacklo_epi32(c, d);
	__m512i ab_high = _mm512_unpackhi_epi32(a, b), cd_high = _mm512_unpackhi_epi32(c, d);
	return (struct quad){{_mm512_unpacklo_epi64(ab_low, cd_low), _mm512_unpackhi_epi64(ab_low, cd_low),
	                      _mm512_unpacklo_epi64(ab_high, cd_high), _mm512_unpackhi_epi64(ab_high, cd_high)}};
}

// What all unpackers take; `b` is the first row's first block.
struct source {
	const uint8_t *b;
	size_t row_bytes;
	int n; // blocks of 32
	__m512i bias;
};

ALWAYS_INLINE void store_codes(const struct source *s, struct wide_block *out, int v, __m512i codes) {
	_mm512_store_si512((void *)out->codes[v], _mm512_sub_epi8(codes, s->bias));
}

static inline __m512i low_nibbles(__m512i x) {
	return _mm512_and_si512(x, _mm512_set1_epi8(15));
}

static inline __m512i high_nibbles(__m512i x) {
	return low_nibbles(_mm512_srli_epi16(x, 4));
}

static inline __m512 low_f16(__m512i lanes) {
	return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(lanes));
}

static inline __m512 high_f16(__m512i lanes) {
	return low_f16(_mm512_srli_epi32(lanes, 16));
}

// Nibble blocks: values 0..15 low, 16..31 high.
ALWAYS_INLINE void unpack_nibbles(const struct source *s, const uint8_t *qs, struct wide_block *out) {
	struct quad q = load_quad(qs, s->row_bytes);
	for (int v = 0; v < 4; v++) {
		store_codes(s, out, v, low_nibbles(q.v[v]));
		store_codes(s, out, v + 4, high_nibbles(q.v[v]));
	}
}

// Adds 16 to the bytes of `codes` whose fifth bit is set: byte j of a lane has bit 4·v + j of that lane of `high`.
ALWAYS_INLINE __m512i add_fifth(__m512i codes, __m512i high, int v) {
	const __m512i lane_first = _mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0);
	__m512i byte = _mm512_shuffle_epi8(high, _mm512_add_epi8(lane_first, _mm512_set1_epi8((char)(v / 2))));
	__mmask64 set = _mm512_test_epi8_mask(byte, _mm512_set1_epi32(v % 2 ? (int)0x80402010u : 0x08040201));
	return _mm512_mask_add_epi8(codes, set, codes, _mm512_set1_epi8(16));
}

// As unpack_nibbles; bit k of lane r of `high` is the fifth bit of value k of row r.
ALWAYS_INLINE void unpack_fives(const struct source *s, const uint8_t *qs, __m512i high, struct wide_block *out) {
	struct quad q = load_quad(qs, s->row_bytes);
#pragma GCC unroll 4
	for (int v = 0; v < 4; v++) {
		store_codes(s, out, v, add_fifth(low_nibbles(q.v[v]), high, v));
		store_codes(s, out, v + 4, add_fifth(high_nibbles(q.v[v]), high, v + 4));
	}
}

static void unpack_q4_0(const struct source *s, struct wide_block *out) {
	const uint8_t *b = s->b;
	for (int i = 0; i < s->n; i++, b += 18) {
		_mm512_store_ps(out[i].scale, low_f16(load_quad(b, s->row_bytes).v[0]));
		unpack_nibbles(s, b + 2, out + i);
	}
}

static void unpack_q4_1(const struct source *s, struct wide_block *out) {
	const uint8_t *b = s->b;
	for (int i = 0; i < s->n; i++, b += 20) {
		__m512i head = load_quad(b, s->row_bytes).v[0];
		_mm512_store_ps(out[i].scale, low_f16(head));
		_mm512_store_ps(out[i].min, high_f16(head));
		unpack_nibbles(s, b + 4, out + i);
	}
}

static void unpack_q5_0(const struct source *s, struct wide_block *out) {
	const uint8_t *b = s->b;
	for (int i = 0; i < s->n; i++, b += 22) {
		struct quad head = load_quad(b, s->row_bytes); // d and half of the fifth bits; the other half and two code bytes
		_mm512_store_ps(out[i].scale, low_f16(head.v[0]));
		unpack_fives(s, b + 6, _mm512_or_si512(_mm512_srli_epi32(head.v[0], 16), _mm512_slli_epi32(head.v[1], 16)), out + i);
	}
}

static void unpack_q5_1(const struct source *s, struct wide_block *out) {
	const uint8_t *b = s->b;
	for (int i = 0; i < s->n; i++, b += 24) {
		struct quad head = load_quad(b, s->row_bytes);
		_mm512_store_ps(out[i].scale, low_f16(head.v[0]));
		_mm512_store_ps(out[i].min, high_f16(head.v[0]));
		unpack_fives(s, b + 8, head.v[1], out + i);
	}
}

static void unpack_q8_0(const struct source *s, struct wide_block *out) {
	const uint8_t *b = s->b;
	for (int i = 0; i < s->n; i++, b += 34) {
		_mm512_store_ps(out[i].scale, low_f16(load_quad(b, s->row_bytes).v[0]));
		for (int half = 0; half < 2; half++) {
			struct quad q = load_quad(b + 2 + 16 * half, s->row_bytes);
			for (int v = 0; v < 4; v++)
				store_codes(s, out + i, 4 * half + v, q.v[v]);
		}
	}
}

// Scales and mins of the eight groups of a Q4_K or Q5_K block: `head` is d and dmin, then 12 bytes of 6-bit numbers.
ALWAYS_INLINE void unpack_k45_scales(struct quad head, struct wide_block *out) {
	const __m512i six = _mm512_set1_epi8(63), four = _mm512_set1_epi8(15), two = _mm512_set1_epi8(3);
	__m512i s0 = head.v[1], s1 = head.v[2], s2 = head.v[3];
	__m512i top0 = _mm512_slli_epi32(_mm512_and_si512(_mm512_srli_epi32(s0, 6), two), 4);
	__m512i top1 = _mm512_slli_epi32(_mm512_and_si512(_mm512_srli_epi32(s1, 6), two), 4);
	__m512i scale[2] = {_mm512_and_si512(s0, six), _mm512_or_si512(_mm512_and_si512(s2, four), top0)};
	__m512i min[2] = {_mm512_and_si512(s1, six), _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi32(s2, 4), four), top1)};
	__m512 d = low_f16(head.v[0]), dmin = high_f16(head.v[0]);
	const __m512i byte = _mm512_set1_epi32(255), sign = _mm512_set1_epi32((int)0x80000000u);
	for (int g = 0; g < 8; g++) {
		__m128i shift = _mm_cvtsi32_si128(8 * (g % 4));
		__m512 s = _mm512_cvtepi32_ps(_mm512_and_si512(_mm512_srl_epi32(scale[g / 4], shift), byte));
		__m512 m = _mm512_cvtepi32_ps(_mm512_and_si512(_mm512_srl_epi32(min[g / 4], shift), byte));
		_mm512_store_ps(out[g].scale, _mm512_mul_ps(d, s));
		_mm512_store_si512((void *)out[g].min, _mm512_xor_si512(_mm512_castps_si512(_mm512_mul_ps(dmin, m)), sign));
	}
}

static void unpack_q4_k(const struct source *s, struct wide_block *out) {
	const uint8_t *b = s->b;
	for (int i = 0; i < s->n; i += 8, b += 144, out += 8) {
		unpack_k45_scales(load_quad(b, s->row_bytes), out);
		for (int part = 0; part < 8; part++) { // 16 bytes: half of two groups
			struct quad q = load_quad(b + 16 + 16 * part, s->row_bytes);
			struct wide_block *pair = out + part / 2 * 2;
			for (int v = 0; v < 4; v++) {
				store_codes(s, pair, part % 2 * 4 + v, low_nibbles(q.v[v]));
				store_codes(s, pair + 1, part % 2 * 4 + v, high_nibbles(q.v[v]));
			}
		}
	}
}

static void unpack_q5_k(const struct source *s, struct wide_block *out) {
	const uint8_t *b = s->b;
	const __m512i fifth = _mm512_set1_epi8(16);
	for (int i = 0; i < s->n; i += 8, b += 176, out += 8) {
		unpack_k45_scales(load_quad(b, s->row_bytes), out);
		for (int half = 0; half < 2; half++) { // values 0..15 and 16..31 of all eight groups
			struct quad h = load_quad(b + 16 + 16 * half, s->row_bytes);
			for (int j = 0; j < 4; j++) {
				struct quad q = load_quad(b + 48 + 32 * j + 16 * half, s->row_bytes);
				for (int v = 0; v < 4; v++) { // bits 2j and 2j + 1 have been shifted down to 0 and 1
					__m512i low = _mm512_and_si512(_mm512_slli_epi16(h.v[v], 4), fifth);
					__m512i high = _mm512_and_si512(_mm512_slli_epi16(h.v[v], 3), fifth);
					store_codes(s, out + 2 * j, half * 4 + v, _mm512_or_si512(low_nibbles(q.v[v]), low));
					store_codes(s, out + 2 * j + 1, half * 4 + v, _mm512_or_si512(high_nibbles(q.v[v]), high));
					h.v[v] = _mm512_srli_epi16(h.v[v], 2);
				}
			}
		}
	}
}

// Byte `index` of each lane, as a signed number.
ALWAYS_INLINE __m512 byte_f32(__m512i lanes, int index) {
	__m512i top = _mm512_sll_epi32(lanes, _mm_cvtsi32_si128(24 - 8 * index));
	return _mm512_cvtepi32_ps(_mm512_srai_epi32(top, 24));
}

ALWAYS_INLINE void unpack_q6_k_scales(const uint8_t *b, size_t row_bytes, struct wide_block *out) {
	struct quad q = load_quad(b + 192, row_bytes);
	uint16_t d[WIDE_ROWS];
	for (size_t r = 0; r < WIDE_ROWS; r++)
		d[r] = load_u16(b + 208 + r * row_bytes);
	__m512 scale = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)d));
	for (int g = 0; g < 8; g++) {
		_mm512_store_ps(out[g].scale, scale);
		for (int half = 0; half < 2; half++)
			_mm512_store_ps(out[g].half_scale[half], byte_f32(q.v[g / 2], g % 2 * 2 + half));
	}
}

static void unpack_q6_k(const struct source *s, struct wide_block *out) {
	const uint8_t *b = s->b;
	const __m512i pair = _mm512_set1_epi8(0x30);
	for (int i = 0; i < s->n; i += 8, b += 210, out += 8) {
		unpack_q6_k_scales(b, s->row_bytes, out);
		for (int part = 0; part < 4; part++) { // 128 values, then 16 of each of its four groups
			int half = part / 2, v0 = part % 2 * 4;
			struct wide_block *g = out + 4 * half;
			struct quad low = load_quad(b + 64 * half + 16 * (part % 2), s->row_bytes);
			struct quad next = load_quad(b + 64 * half + 32 + 16 * (part % 2), s->row_bytes);
			struct quad high = load_quad(b + 128 + 32 * half + 16 * (part % 2), s->row_bytes);
			for (int v = 0; v < 4; v++) {
				__m512i h = high.v[v];
				store_codes(s, g, v0 + v, _mm512_or_si512(low_nibbles(low.v[v]), _mm512_and_si512(_mm512_slli_epi16(h, 4), pair)));
				store_codes(s, g + 1, v0 + v, _mm512_or_si512(low_nibbles(next.v[v]), _mm512_and_si512(_mm512_slli_epi16(h, 2), pair)));
				store_codes(s, g + 2, v0 + v, _mm512_or_si512(high_nibbles(low.v[v]), _mm512_and_si512(h, pair)));
				store_codes(s, g + 3, v0 + v, _mm512_or_si512(high_nibbles(next.v[v]), _mm512_and_si512(_mm512_srli_epi16(h, 2), pair)));
			}
		}
	}
}

void unpack_wide(enum dtype type, const uint8_t *rows, size_t row_bytes, int block, int n, uint8_t bias, struct wide_block *out) {
	struct dtype_info info = dtype_info(type);
	struct source s = {.b = rows + (size_t)(block / (info.block_elems / 32)) * (size_t)info.block_bytes, .row_bytes = row_bytes, .n = n,
	                   .bias = _mm512_set1_epi8((char)bias)};
	switch (type) {
	case DTYPE_Q4_0: unpack_q4_0(&s, out); break;
	case DTYPE_Q4_1: unpack_q4_1(&s, out); break;
	case DTYPE_Q5_0: unpack_q5_0(&s, out); break;
	case DTYPE_Q5_1: unpack_q5_1(&s, out); break;
	case DTYPE_Q8_0: unpack_q8_0(&s, out); break;
	case DTYPE_Q4_K: unpack_q4_k(&s, out); break;
	case DTYPE_Q5_K: unpack_q5_k(&s, out); break;
	case DTYPE_Q6_K: unpack_q6_k(&s, out); break;
	default: break; // float types are not unpacked
	}
}
