// SPDX-License-Identifier: MIT
// Unpacking of eight GGUF rows into panel blocks: 4-byte groups of the packed bytes are transposed first (four loads of
// two rows each and eight shuffles for 16 bytes of 8 rows), then nibbles are split; so the shuffles work on packed data.
// Stateless.
#include "kernels/avx2_unpack.h"

#include "kernels/avx2_common.h"

// Four vectors; lane r (of eight 4-byte lanes) of v[i] is the i-th 4 bytes of row r.
struct quad {
	__m256i v[4];
};

// 16 bytes of a row and of the row four below.
static inline __m256i load_two(const uint8_t *p, size_t row_bytes) {
	__m256i low = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)p));
	return _mm256_inserti128_si256(low, _mm_loadu_si128((const __m128i *)(const void *)(p + 4 * row_bytes)), 1);
}

ALWAYS_INLINE struct quad load_quad(const uint8_t *p, size_t row_bytes) {
	__m256i a = load_two(p, row_bytes), b = load_two(p + row_bytes, row_bytes);
	__m256i c = load_two(p + 2 * row_bytes, row_bytes), d = load_two(p + 3 * row_bytes, row_bytes);
	__m256i ab_low = _mm256_unpacklo_epi32(a, b), cd_low = _mm256_unpacklo_epi32(c, d);
	__m256i ab_high = _mm256_unpackhi_epi32(a, b), cd_high = _mm256_unpackhi_epi32(c, d);
	return (struct quad){{_mm256_unpacklo_epi64(ab_low, cd_low), _mm256_unpackhi_epi64(ab_low, cd_low),
	                      _mm256_unpacklo_epi64(ab_high, cd_high), _mm256_unpackhi_epi64(ab_high, cd_high)}};
}

static inline void store_codes(struct panel_block *out, int v, __m256i codes) {
	_mm256_store_si256((__m256i *)(void *)out->codes[v], codes);
}

static inline __m256i low_nibbles(__m256i x) {
	return _mm256_and_si256(x, _mm256_set1_epi8(15));
}

static inline __m256i high_nibbles(__m256i x) {
	return low_nibbles(_mm256_srli_epi16(x, 4));
}

// Halves of each lane apart: the low 16 bits of the eight lanes, then the high 16 bits.
static inline __m256i split_halves(__m256i lanes) {
	const __m256i order = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15, 0, 1, 4, 5, 8, 9, 12,
	                                       13, 2, 3, 6, 7, 10, 11, 14, 15);
	return _mm256_permute4x64_epi64(_mm256_shuffle_epi8(lanes, order), 0xd8);
}

static inline __m256 low_f16(__m256i lanes) {
	return _mm256_cvtph_ps(_mm256_castsi256_si128(split_halves(lanes)));
}

static inline __m256 high_f16(__m256i lanes) {
	return _mm256_cvtph_ps(_mm256_extracti128_si256(split_halves(lanes), 1));
}

// Nibble blocks: values 0..15 low, 16..31 high.
ALWAYS_INLINE void unpack_nibbles(const uint8_t *qs, size_t row_bytes, struct panel_block *out) {
	struct quad q = load_quad(qs, row_bytes);
	for (int v = 0; v < 4; v++) {
		store_codes(out, v, low_nibbles(q.v[v]));
		store_codes(out, v + 4, high_nibbles(q.v[v]));
	}
}

// 16 in each byte whose bit is set: byte j of a lane takes bit 4 + j of byte `index` of that lane of `bits`. As the
// tested bits are 16 and up, min with 16 normalises them.
ALWAYS_INLINE __m256i fifth_bits(__m256i bits, int index) {
	__m256i order = _mm256_add_epi8(_mm256_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12, 0, 0, 0, 0, 4, 4,
	                                                 4, 4, 8, 8, 8, 8, 12, 12, 12, 12),
	                                _mm256_set1_epi8((char)index));
	__m256i tested = _mm256_and_si256(_mm256_shuffle_epi8(bits, order), _mm256_set1_epi32((int)0x80402010u));
	return _mm256_min_epu8(tested, _mm256_set1_epi8(16));
}

// As unpack_nibbles; bit k of lane r of `high` is the fifth bit of value k of row r.
ALWAYS_INLINE void unpack_fives(const uint8_t *qs, size_t row_bytes, __m256i high, struct panel_block *out) {
	struct quad q = load_quad(qs, row_bytes);
	__m256i shifted = _mm256_slli_epi32(high, 4); // brings bits 0..3 of each byte to 4..7
	for (int v = 0; v < 4; v++) {
		__m256i bits = v % 2 ? high : shifted;
		store_codes(out, v, _mm256_or_si256(low_nibbles(q.v[v]), fifth_bits(bits, v / 2)));
		store_codes(out, v + 4, _mm256_or_si256(high_nibbles(q.v[v]), fifth_bits(bits, 2 + v / 2)));
	}
}

static void unpack_q4_0(const uint8_t *b, size_t row_bytes, int n, struct panel_block *out) {
	for (int i = 0; i < n; i++, b += 18) {
		_mm256_store_ps(out[i].scale, low_f16(load_quad(b, row_bytes).v[0]));
		unpack_nibbles(b + 2, row_bytes, out + i);
	}
}

static void unpack_q4_1(const uint8_t *b, size_t row_bytes, int n, struct panel_block *out) {
	for (int i = 0; i < n; i++, b += 20) {
		struct quad head = load_quad(b, row_bytes);
		_mm256_store_ps(out[i].scale, low_f16(head.v[0]));
		_mm256_store_ps(out[i].min, high_f16(head.v[0]));
		unpack_nibbles(b + 4, row_bytes, out + i);
	}
}

static void unpack_q5_0(const uint8_t *b, size_t row_bytes, int n, struct panel_block *out) {
	for (int i = 0; i < n; i++, b += 22) {
		struct quad head = load_quad(b, row_bytes); // d and half of the fifth bits; the other half and two code bytes
		_mm256_store_ps(out[i].scale, low_f16(head.v[0]));
		__m256i high = _mm256_or_si256(_mm256_srli_epi32(head.v[0], 16), _mm256_slli_epi32(head.v[1], 16));
		unpack_fives(b + 6, row_bytes, high, out + i);
	}
}

static void unpack_q5_1(const uint8_t *b, size_t row_bytes, int n, struct panel_block *out) {
	for (int i = 0; i < n; i++, b += 24) {
		struct quad head = load_quad(b, row_bytes);
		_mm256_store_ps(out[i].scale, low_f16(head.v[0]));
		_mm256_store_ps(out[i].min, high_f16(head.v[0]));
		unpack_fives(b + 8, row_bytes, head.v[1], out + i);
	}
}

static void unpack_q8_0(const uint8_t *b, size_t row_bytes, int n, struct panel_block *out) {
	for (int i = 0; i < n; i++, b += 34) {
		_mm256_store_ps(out[i].scale, low_f16(load_quad(b, row_bytes).v[0]));
		for (int half = 0; half < 2; half++) {
			struct quad q = load_quad(b + 2 + 16 * half, row_bytes);
			for (int v = 0; v < 4; v++)
				store_codes(out + i, 4 * half + v, q.v[v]);
		}
	}
}

// Scales and mins of the eight groups of a Q4_K or Q5_K block: `head` is d and dmin, then 12 bytes of 6-bit numbers.
ALWAYS_INLINE void unpack_k45_scales(struct quad head, struct panel_block *out) {
	const __m256i six = _mm256_set1_epi8(63), four = _mm256_set1_epi8(15), two = _mm256_set1_epi8(3);
	__m256i s0 = head.v[1], s1 = head.v[2], s2 = head.v[3];
	__m256i top0 = _mm256_slli_epi32(_mm256_and_si256(_mm256_srli_epi32(s0, 6), two), 4);
	__m256i top1 = _mm256_slli_epi32(_mm256_and_si256(_mm256_srli_epi32(s1, 6), two), 4);
	__m256i scale[2] = {_mm256_and_si256(s0, six), _mm256_or_si256(_mm256_and_si256(s2, four), top0)};
	__m256i min[2] = {_mm256_and_si256(s1, six),
	                  _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi32(s2, 4), four), top1)};
	__m256 d = low_f16(head.v[0]), dmin = high_f16(head.v[0]);
	const __m256i byte = _mm256_set1_epi32(255);
	const __m256 sign = _mm256_set1_ps(-0.0f);
	for (int g = 0; g < 8; g++) {
		__m256 s = _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_srli_epi32(scale[g / 4], 8 * (g % 4)), byte));
		__m256 m = _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_srli_epi32(min[g / 4], 8 * (g % 4)), byte));
		_mm256_store_ps(out[g].scale, _mm256_mul_ps(d, s));
		_mm256_store_ps(out[g].min, _mm256_xor_ps(_mm256_mul_ps(dmin, m), sign));
	}
}

static void unpack_q4_k(const uint8_t *b, size_t row_bytes, int n, struct panel_block *out) {
	for (int i = 0; i < n; i += 8, b += 144, out += 8) {
		unpack_k45_scales(load_quad(b, row_bytes), out);
		for (int part = 0; part < 8; part++) { // 16 bytes: half of two groups
			struct quad q = load_quad(b + 16 + 16 * part, row_bytes);
			struct panel_block *pair = out + part / 2 * 2;
			for (int v = 0; v < 4; v++) {
				store_codes(pair, part % 2 * 4 + v, low_nibbles(q.v[v]));
				store_codes(pair + 1, part % 2 * 4 + v, high_nibbles(q.v[v]));
			}
		}
	}
}

static void unpack_q5_k(const uint8_t *b, size_t row_bytes, int n, struct panel_block *out) {
	const __m256i fifth = _mm256_set1_epi8(16);
	for (int i = 0; i < n; i += 8, b += 176, out += 8) {
		unpack_k45_scales(load_quad(b, row_bytes), out);
		for (int half = 0; half < 2; half++) { // values 0..15 and 16..31 of all eight groups
			struct quad h = load_quad(b + 16 + 16 * half, row_bytes);
			for (int j = 0; j < 4; j++) {
				struct quad q = load_quad(b + 48 + 32 * j + 16 * half, row_bytes);
				for (int v = 0; v < 4; v++) { // bits 2j and 2j + 1 have been shifted down to 0 and 1
					__m256i low = _mm256_and_si256(_mm256_slli_epi16(h.v[v], 4), fifth);
					__m256i high = _mm256_and_si256(_mm256_slli_epi16(h.v[v], 3), fifth);
					store_codes(out + 2 * j, half * 4 + v, _mm256_or_si256(low_nibbles(q.v[v]), low));
					store_codes(out + 2 * j + 1, half * 4 + v, _mm256_or_si256(high_nibbles(q.v[v]), high));
					h.v[v] = _mm256_srli_epi16(h.v[v], 2);
				}
			}
		}
	}
}

// Byte `index` of each lane, sign-extended to 16 bits, twice.
ALWAYS_INLINE __m256i twice_i16(__m256i lanes, int index) {
	const char i = (char)index, z = -1;
	const __m256i order = _mm256_setr_epi8(z, i, z, i, z, (char)(i + 4), z, (char)(i + 4), z, (char)(i + 8), z,
	                                       (char)(i + 8), z, (char)(i + 12), z, (char)(i + 12), z, i, z, i, z,
	                                       (char)(i + 4), z, (char)(i + 4), z, (char)(i + 8), z, (char)(i + 8), z,
	                                       (char)(i + 12), z, (char)(i + 12));
	return _mm256_srai_epi16(_mm256_shuffle_epi8(lanes, order), 8);
}

ALWAYS_INLINE void unpack_q6_k_scales(const uint8_t *b, size_t row_bytes, struct panel_block *out) {
	struct quad s = load_quad(b + 192, row_bytes);
	uint16_t d[8];
	for (size_t r = 0; r < 8; r++)
		d[r] = load_u16(b + 208 + r * row_bytes);
	__m256 scale = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)d));
	for (int g = 0; g < 8; g++) {
		_mm256_store_ps(out[g].scale, scale);
		for (int half = 0; half < 2; half++)
			_mm256_store_si256((__m256i *)(void *)out[g].half_scale[half], twice_i16(s.v[g / 2], g % 2 * 2 + half));
	}
}

static void unpack_q6_k(const uint8_t *b, size_t row_bytes, int n, struct panel_block *out) {
	const __m256i pair = _mm256_set1_epi8(0x30);
	for (int i = 0; i < n; i += 8, b += 210, out += 8) {
		unpack_q6_k_scales(b, row_bytes, out);
		for (int part = 0; part < 4; part++) { // 128 values, then 16 of each of its four groups
			int half = part / 2, v0 = part % 2 * 4;
			struct panel_block *g = out + 4 * half;
			struct quad low = load_quad(b + 64 * half + 16 * (part % 2), row_bytes);
			struct quad next = load_quad(b + 64 * half + 32 + 16 * (part % 2), row_bytes);
			struct quad high = load_quad(b + 128 + 32 * half + 16 * (part % 2), row_bytes);
			for (int v = 0; v < 4; v++) {
				__m256i h = high.v[v];
				store_codes(g, v0 + v, _mm256_or_si256(low_nibbles(low.v[v]), _mm256_and_si256(_mm256_slli_epi16(h, 4), pair)));
				store_codes(g + 1, v0 + v, _mm256_or_si256(low_nibbles(next.v[v]), _mm256_and_si256(_mm256_slli_epi16(h, 2), pair)));
				store_codes(g + 2, v0 + v, _mm256_or_si256(high_nibbles(low.v[v]), _mm256_and_si256(h, pair)));
				store_codes(g + 3, v0 + v, _mm256_or_si256(high_nibbles(next.v[v]), _mm256_and_si256(_mm256_srli_epi16(h, 2), pair)));
			}
		}
	}
}

void unpack_panel(enum dtype type, const uint8_t *rows, size_t row_bytes, int block, int n, struct panel_block *out) {
	struct dtype_info info = dtype_info(type);
	const uint8_t *b = rows + (size_t)(block / (info.block_elems / 32)) * (size_t)info.block_bytes;
	switch (type) {
	case DTYPE_Q4_0: unpack_q4_0(b, row_bytes, n, out); break;
	case DTYPE_Q4_1: unpack_q4_1(b, row_bytes, n, out); break;
	case DTYPE_Q5_0: unpack_q5_0(b, row_bytes, n, out); break;
	case DTYPE_Q5_1: unpack_q5_1(b, row_bytes, n, out); break;
	case DTYPE_Q8_0: unpack_q8_0(b, row_bytes, n, out); break;
	case DTYPE_Q4_K: unpack_q4_k(b, row_bytes, n, out); break;
	case DTYPE_Q5_K: unpack_q5_k(b, row_bytes, n, out); break;
	case DTYPE_Q6_K: unpack_q6_k(b, row_bytes, n, out); break;
	default: break; // float types are not unpacked
	}
}
