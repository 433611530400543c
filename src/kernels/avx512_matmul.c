// SPDX-License-Identifier: MIT
// AVX-512 VNNI products of quantised weights and quantised activations of many tokens. A few tokens, which wait for memory and not for arithmetic, go
// row by row (avx512_rows.c), the last rows the AVX2 way. The same chain of fused steps per output as there, so the bits are the same.
//
// Sixteen rows lie side by side (avx512_unpack.h), so a zmm register is one value of k of 16 rows, four at a time. A tile is 32 rows × up to 6 tokens (4 for
// Q6_K, whose blocks are two sums): int32 sums of a 32-block per row lane, then one fused step into C, which stays in registers for a chunk of k.
//   for each token block: for each chunk of k: repack activations; for each 32 rows: unpack, tiles.
// vpdpbusd takes unsigned codes as they are; what must be taken off them (8, 16, 32; 128 for Q8_0, whose codes are made unsigned) starts the sum as
// -offset·Σq. All integers are exact: |sum| ≤ 32·255·127 < 2^21; Q6_K's two sums times their scales stay below 2^24, so floats hold them too.
// Stateless; scratch is the caller's.
#include "kernels/avx2_common.h"
#include "kernels/avx2_sets.h"
#include "kernels/avx512_unpack.h"
#include "kernels/sets.h"

#define TILE_ROWS 32
#define CHUNK_BLOCKS 40 // two wide panels of it are 55 KiB, more than L1; yet 2 to 4 % faster than 24 (measured)
#define MAX_GROUP 6

enum tile_kind {
	TILE_PLAIN, // offset in the starting value: Q4_0 Q5_0 Q8_0
	TILE_MIN,   // Q4_1 Q5_1 Q4_K Q5_K
	TILE_K6,    // Q6_K
};

// Activations of T tokens for one 32-block: q[T][32], then arrays [T] of 4 bytes: d; d·(float)sum; start: int32, -offset·Σq (Q6_K: of k 0..15);
// start2: Q6_K: the same of k 16..31.
enum act_field { ACT_D, ACT_D_SUM, ACT_START, ACT_START2, ACT_FIELDS };

ALWAYS_INLINE size_t act_stride(int n_tokens) {
	return ((size_t)n_tokens * (32 + 4 * ACT_FIELDS) + 63) / 64 * 64;
}

ALWAYS_INLINE size_t act_offset(int n_tokens, enum act_field field, int t) {
	return (size_t)n_tokens * 32 + 4 * ((size_t)field * (size_t)n_tokens + (size_t)t);
}
// A token block's activations fit where the AVX2 set keeps its own.
_Static_assert((MM_TOKEN_BLOCK / MAX_GROUP + 1) * ((MAX_GROUP * (32 + 4 * ACT_FIELDS) + 63) / 64 * 64) * CHUNK_BLOCKS <=
	MM_TOKEN_BLOCK / MM_GROUP_TOKENS * MM_CHUNK_BLOCKS * MM_GROUP_BLOCK_BYTES, "scratch");
_Static_assert(2 * CHUNK_BLOCKS * sizeof(struct wide_block) <= MM_PANELS * MM_CHUNK_BLOCKS * MM_PANEL_BLOCK_BYTES, "scratch");

struct plan {
	const struct weight *w;
	enum tile_kind kind;
	int offset;
	int group; // tokens of a tile
	size_t row_bytes;
	int n_blocks;
	const struct act_block *act;
	float *y;
	size_t y_stride;
	struct wide_block *panel; // [2][CHUNK_BLOCKS]
	uint8_t *packed;
	const _Atomic int *cancel;
};

static void choose_kind(struct plan *p, enum dtype type) {
	p->group = MAX_GROUP;
	switch (type) {
	case DTYPE_Q4_0: p->kind = TILE_PLAIN; p->offset = 8; break;
	case DTYPE_Q5_0: p->kind = TILE_PLAIN; p->offset = 16; break;
	case DTYPE_Q4_1:
	case DTYPE_Q5_1:
	case DTYPE_Q4_K:
	case DTYPE_Q5_K: p->kind = TILE_MIN; break;
	case DTYPE_Q6_K: p->kind = TILE_K6; p->offset = 32; p->group = 4; break;
	default: p->kind = TILE_PLAIN; p->offset = 128; break;
	}
}

// Σ of 16 int8.
static int sum_16(const int8_t *q) {
	__m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)q));
	__m256i pairs = _mm256_madd_epi16(wide, _mm256_set1_epi16(1));
	__m128i s = _mm_add_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
	s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
	s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1));
	return _mm_cvtsi128_si32(s);
}

// Repacks blocks [block, block + n) of tokens [token, token + n_tokens) to `out`.
static void repack_group(const struct plan *p, int token, int n_tokens, int block, int n, uint8_t *out) {
	for (int b = 0; b < n; b++, out += act_stride(n_tokens)) {
		for (int t = 0; t < n_tokens; t++) {
			const struct act_block *a = p->act + (size_t)(token + t) * (size_t)p->n_blocks + (size_t)(block + b);
			int first = p->kind == TILE_K6 ? sum_16(a->q) : a->sum;
			memcpy(out + 32 * t, a->q, 32);
			put_u32(out, act_offset(n_tokens, ACT_D, t), f32_bits(a->d));
			put_u32(out, act_offset(n_tokens, ACT_D_SUM, t), f32_bits(a->d * (float)a->sum));
			put_u32(out, act_offset(n_tokens, ACT_START, t), (uint32_t)(-p->offset * first));
			put_u32(out, act_offset(n_tokens, ACT_START2, t), (uint32_t)(-p->offset * (a->sum - first)));
		}
	}
}

static inline __m512i load_line(const uint8_t *line) {
	return _mm512_load_si512((const void *)line);
}

static inline __m512i broadcast_u32(const uint8_t *p) {
	return _mm512_set1_epi32((int)load_u32(p));
}

static inline __m512 broadcast_f32(const uint8_t *p) {
	return _mm512_castsi512_ps(broadcast_u32(p));
}

#define EACH_TOKEN(X) X(0) X(1) X(2) X(3) X(4) X(5)

// T tokens × W·16 rows over n blocks. c[T] are rows of y, 16·W floats each; `first`: they start at +0. The sums have names of their own because
// the compiler keeps arrays of them in memory.
ALWAYS_INLINE void tile(const struct wide_block *pa, const struct wide_block *pb, int n, const uint8_t *act, float *c, size_t c_stride, bool first,
                        int T, int W, enum tile_kind kind) {
	const __m512 zero = _mm512_setzero_ps();
#define LOAD_C(t) \
	float *c##t = c + (size_t)t * c_stride; \
	__m512 ca##t = !first && T > t ? _mm512_loadu_ps(c##t) : zero, cb##t = !first && T > t && W > 1 ? _mm512_loadu_ps(c##t + 16) : zero;
	EACH_TOKEN(LOAD_C)
#undef LOAD_C
	for (int b = 0; b < n; b++, pa++, pb++, act += act_stride(T)) {
#define START(field) \
	if (T > 0) { sa0 = broadcast_u32(act + act_offset(T, field, 0)); sb0 = sa0; } \
	if (T > 1) { sa1 = broadcast_u32(act + act_offset(T, field, 1)); sb1 = sa1; } \
	if (T > 2) { sa2 = broadcast_u32(act + act_offset(T, field, 2)); sb2 = sa2; } \
	if (T > 3) { sa3 = broadcast_u32(act + act_offset(T, field, 3)); sb3 = sa3; } \
	if (T > 4) { sa4 = broadcast_u32(act + act_offset(T, field, 4)); sb4 = sa4; } \
	if (T > 5) { sa5 = broadcast_u32(act + act_offset(T, field, 5)); sb5 = sa5; }
#define DOT(t) \
	if (T > t) { \
		__m512i q = broadcast_u32(act + 32 * t + 4 * v); \
		sa##t = _mm512_dpbusd_epi32(sa##t, wa, q); \
		if (W > 1) \
			sb##t = _mm512_dpbusd_epi32(sb##t, wb, q); \
	}
#define DOTS(begin, end) \
	_Pragma("GCC unroll 8") for (int v = begin; v < end; v++) { \
		__m512i wa = load_line(pa->codes[v]), wb = W > 1 ? load_line(pb->codes[v]) : wa; \
		EACH_TOKEN(DOT) \
	}
		__m512i sa0, sa1, sa2, sa3, sa4, sa5, sb0, sb1, sb2, sb3, sb4, sb5;
		sa0 = sa1 = sa2 = sa3 = sa4 = sa5 = sb0 = sb1 = sb2 = sb3 = sb4 = sb5 = _mm512_setzero_si512();
		START(ACT_START)
		__m512 scale_a = _mm512_load_ps(pa->scale), scale_b = W > 1 ? _mm512_load_ps(pb->scale) : scale_a;
		if (kind != TILE_K6) {
			DOTS(0, 8)
			__m512 min_a = zero, min_b = zero;
			if (kind == TILE_MIN) {
				min_a = _mm512_load_ps(pa->min);
				min_b = W > 1 ? _mm512_load_ps(pb->min) : min_a;
			}
#define FINISH(t) \
	if (T > t) { \
		__m512 d = broadcast_f32(act + act_offset(T, ACT_D, t)); \
		ca##t = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sa##t), _mm512_mul_ps(scale_a, d), ca##t); \
		if (W > 1) \
			cb##t = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sb##t), _mm512_mul_ps(scale_b, d), cb##t); \
		if (kind == TILE_MIN) { \
			__m512 d_sum = broadcast_f32(act + act_offset(T, ACT_D_SUM, t)); \
			ca##t = _mm512_fmadd_ps(min_a, d_sum, ca##t); \
			if (W > 1) \
				cb##t = _mm512_fmadd_ps(min_b, d_sum, cb##t); \
		} \
	}
			EACH_TOKEN(FINISH)
#undef FINISH
		} else {
			DOTS(0, 4)
			__m512 ha = _mm512_load_ps(pa->half_scale[0]), hb = W > 1 ? _mm512_load_ps(pb->half_scale[0]) : ha;
#define FIRST_HALF(t) __m512 ia##t = _mm512_mul_ps(_mm512_cvtepi32_ps(sa##t), ha), ib##t = _mm512_mul_ps(_mm512_cvtepi32_ps(sb##t), hb);
			EACH_TOKEN(FIRST_HALF)
#undef FIRST_HALF
			START(ACT_START2)
			DOTS(4, 8)
			ha = _mm512_load_ps(pa->half_scale[1]);
			hb = W > 1 ? _mm512_load_ps(pb->half_scale[1]) : ha;
#define FINISH(t) \
	if (T > t) { \
		__m512 d = broadcast_f32(act + act_offset(T, ACT_D, t)); \
		ia##t = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sa##t), ha, ia##t); \
		ca##t = _mm512_fmadd_ps(ia##t, _mm512_mul_ps(scale_a, d), ca##t); \
		if (W > 1) { \
			ib##t = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sb##t), hb, ib##t); \
			cb##t = _mm512_fmadd_ps(ib##t, _mm512_mul_ps(scale_b, d), cb##t); \
		} \
	}
			EACH_TOKEN(FINISH)
#undef FINISH
		}
#undef DOTS
#undef DOT
#undef START
	}
#define STORE_C(t) \
	if (T > t) { \
		_mm512_storeu_ps(c##t, ca##t); \
		if (W > 1) \
			_mm512_storeu_ps(c##t + 16, cb##t); \
	}
	EACH_TOKEN(STORE_C)
#undef STORE_C
}

typedef void tile_fn(const struct wide_block *pa, const struct wide_block *pb, int n, const uint8_t *act, float *c, size_t c_stride, bool first);

#define DEFINE_TILE(kind, T, W) \
	static void tile_##kind##_##T##_##W(const struct wide_block *pa, const struct wide_block *pb, int n, const uint8_t *act, float *c, \
	                                    size_t c_stride, bool first) { \
		tile(pa, pb, n, act, c, c_stride, first, T, W, kind); \
	}
#define DEFINE_TILES(kind) \
	DEFINE_TILE(kind, 1, 1) DEFINE_TILE(kind, 2, 1) DEFINE_TILE(kind, 3, 1) DEFINE_TILE(kind, 4, 1) DEFINE_TILE(kind, 5, 1) DEFINE_TILE(kind, 6, 1) \
	DEFINE_TILE(kind, 1, 2) DEFINE_TILE(kind, 2, 2) DEFINE_TILE(kind, 3, 2) DEFINE_TILE(kind, 4, 2) DEFINE_TILE(kind, 5, 2) DEFINE_TILE(kind, 6, 2)
DEFINE_TILES(TILE_PLAIN)
DEFINE_TILES(TILE_MIN)
DEFINE_TILES(TILE_K6)
#define TILE_ROW(kind) \
	{{tile_##kind##_1_1, tile_##kind##_2_1, tile_##kind##_3_1, tile_##kind##_4_1, tile_##kind##_5_1, tile_##kind##_6_1}, \
	 {tile_##kind##_1_2, tile_##kind##_2_2, tile_##kind##_3_2, tile_##kind##_4_2, tile_##kind##_5_2, tile_##kind##_6_2}}
static tile_fn *const tiles[3][2][MAX_GROUP] = {TILE_ROW(TILE_PLAIN), TILE_ROW(TILE_MIN), TILE_ROW(TILE_K6)};
#undef TILE_ROW
#undef DEFINE_TILES
#undef DEFINE_TILE

// Blocks [block, block + n) of 16 rows from `row`.
static void unpack_rows(const struct plan *p, int row, int block, int n, struct wide_block *out) {
	const uint8_t *rows = (const uint8_t *)p->w->data + (size_t)row * p->row_bytes;
	unpack_wide(p->w->type, rows, p->row_bytes, block, n, p->w->type == DTYPE_Q8_0 ? 128 : 0, out);
}

// One chunk of k for 16·W rows from `row` and n_tokens tokens from `token`; `row_end`: of the rows to come.
static void panel_tokens(const struct plan *p, int row, int W, int row_end, int token, int n_tokens, int block, int n) {
	struct wide_block *second = p->panel + CHUNK_BLOCKS;
	unpack_rows(p, row, block, n, p->panel);
	if (W > 1)
		unpack_rows(p, row + 16, block, n, second);
	int next_row = row + W * WIDE_ROWS;
	struct ahead ahead = look_ahead(p->w, next_row, min_int(next_row + TILE_ROWS, row_end), block, n, (n_tokens + p->group - 1) / p->group);
	const uint8_t *act = p->packed;
	for (int t = 0, T; t < n_tokens; t += T, act += (size_t)n * act_stride(T)) {
		float *c = p->y + (size_t)(token + t) * p->y_stride + (size_t)row;
		T = min_int(p->group, n_tokens - t);
		ask_ahead(&ahead);
		tiles[p->kind][W - 1][T - 1](p->panel, second, n, act, c, p->y_stride, block == 0);
	}
}

// Rows [row_begin, row_end), a multiple of 16, for one token block.
static void token_block(const struct plan *p, int row_begin, int row_end, int token, int n_tokens) {
	for (int b = 0; b < p->n_blocks; b += CHUNK_BLOCKS) {
		int n = min_int(CHUNK_BLOCKS, p->n_blocks - b);
		uint8_t *out = p->packed;
		for (int t = 0, T; t < n_tokens; t += T, out += (size_t)n * act_stride(T)) {
			T = min_int(p->group, n_tokens - t);
			repack_group(p, token + t, T, b, n, out);
		}
		for (int row = row_begin; row < row_end; row += TILE_ROWS) {
			if (cancelled(p->cancel))
				return;
			panel_tokens(p, row, row_end - row >= TILE_ROWS ? 2 : 1, row_end, token, n_tokens, b, n);
		}
	}
}

void matmul_avx512(const struct weight *w, int row_begin, int row_end, const struct act_block *act, int n_tokens,
                   float *y, size_t y_stride, void *scratch, const _Atomic int *cancel) {
	int whole_end = row_begin + (row_end - row_begin) / 16 * 16;
	if (n_tokens <= MM_FEW_TOKENS && whole_end > row_begin) {
		matmul_rows_avx512(w, row_begin, row_end, act, n_tokens, y, y_stride, scratch, cancel);
		return;
	}
	if (whole_end == row_begin) {
		matmul_avx2(w, row_begin, row_end, act, n_tokens, y, y_stride, scratch, cancel);
		return;
	}
	struct plan p = {.w = w, .row_bytes = dtype_row_bytes(w->type, w->k), .n_blocks = w->k / 32, .act = act, .y = y,
	                 .y_stride = y_stride, .panel = scratch, .cancel = cancel};
	p.packed = (uint8_t *)(p.panel + 2 * CHUNK_BLOCKS);
	choose_kind(&p, w->type);
	for (int t = 0; t < n_tokens; t += MM_TOKEN_BLOCK)
		token_block(&p, row_begin, whole_end, t, min_int(MM_TOKEN_BLOCK, n_tokens - t));
	if (whole_end < row_end)
		matmul_avx2(w, whole_end, row_end, act, n_tokens, y, y_stride, scratch, cancel);
}
