// SPDX-License-Identifier: MIT
// AVX2 products of quantised weights and quantised activations.
//
// Weights are unpacked from the file's rows into panels (avx2_unpack.h) and met by tiles of up to 16 rows × 4 tokens:
// int16 sums of a 32-block per row lane, one madd to int32, one fused step into C, which lives in y between calls.
//   few tokens (1..3): for each panel of 8 rows, an eighth of the rows apart: for each chunk of k: unpack, tile.
//   more: for each token block: for each chunk of k: repack activations; for each panel of 16 rows: unpack, tiles.
// Every output sees the same chain whichever way it goes, so batch size and row split change no bit.
//
// int16 bounds (research: a lane sums 16 products, Q6_K 8 per half; codes start from -offset·Σq so the end fits):
//   Q4 16·15·127 = 30480; Q5 16·16·127 = 32512 around code 16; Q6 8·32·127 = 32512 around code 32.
//   Q8_0: |w| ≤ 128 unsigned times q signed by w: pairs ≤ 2·128·127 = 32512, then int32; so -128 needs no care.
// Stateless; scratch is the caller's.
#include "kernels/avx2_common.h"
#include "kernels/avx2_sets.h"
#include "kernels/avx2_unpack.h"
#include "kernels/blocks.h"
#include "kernels/sets.h"

#define FEW_TOKENS 3
#define FEW_CHUNK_BLOCKS 8 // one K block
#define PREFETCH_BYTES 512 // ahead in each of the eight streams

// Shape of a type's arithmetic.
enum tile_kind {
	TILE_PLAIN, // offset in the starting value: Q4_0 Q5_0
	TILE_MIN,   // Q4_1 Q5_1 Q4_K Q5_K
	TILE_K6,    // Q6_K
	TILE_I8,    // Q8_0
};

// Activations of T tokens for one 32-block: q[T][32], then arrays [T] of 4 bytes each:
//   d; d·(float)sum; start: two int16, -offset·Σq over k mod 4 in {0,1} and {2,3} (Q6_K: of k 0..15);
//   start2: Q6_K: the same of k 16..31; restore: int32 to add to the integer dot product (Q5_1, Q5_K: 16·Σq).
enum act_field { ACT_D, ACT_D_SUM, ACT_START, ACT_START2, ACT_RESTORE, ACT_FIELDS };

ALWAYS_INLINE size_t act_stride(int n_tokens) {
	return n_tokens == MM_GROUP_TOKENS ? MM_GROUP_BLOCK_BYTES : ((size_t)n_tokens * (32 + 4 * ACT_FIELDS) + 63) / 64 * 64;
}

ALWAYS_INLINE size_t act_offset(int n_tokens, enum act_field field, int t) {
	return (size_t)n_tokens * 32 + 4 * ((size_t)field * (size_t)n_tokens + (size_t)t);
}

struct plan {
	const struct weight *w;
	enum tile_kind kind;
	int offset;   // taken off unsigned codes by the starting value
	bool restore; // and added again
	size_t row_bytes;
	int n_blocks;
	const struct act_block *act;
	float *y;
	size_t y_stride;
	struct panel_block *panel; // [2][MM_CHUNK_BLOCKS]
	uint8_t *packed;           // repacked activations
	const _Atomic int *cancel;
};

static void choose_kind(struct plan *p, enum dtype type) {
	switch (type) {
	case DTYPE_Q4_0: p->kind = TILE_PLAIN; p->offset = 8; break;
	case DTYPE_Q5_0: p->kind = TILE_PLAIN; p->offset = 16; break;
	case DTYPE_Q4_1:
	case DTYPE_Q4_K: p->kind = TILE_MIN; break;
	case DTYPE_Q5_1:
	case DTYPE_Q5_K: p->kind = TILE_MIN; p->offset = 16; p->restore = true; break;
	case DTYPE_Q6_K: p->kind = TILE_K6; p->offset = 32; break;
	default: p->kind = TILE_I8; break;
	}
}

// -offset times two sums of eight 16-bit pair sums: lanes of even and of odd index. Fits int16 (32·4·2·127 = 32512).
static inline uint32_t start_pair(__m128i pairs, int offset) {
	__m128i s = _mm_add_epi16(pairs, _mm_shuffle_epi32(pairs, 0x4e));
	s = _mm_add_epi16(s, _mm_shuffle_epi32(s, 0xb1));
	s = _mm_mullo_epi16(s, _mm_set1_epi16((short)-offset));
	return (uint32_t)_mm_cvtsi128_si32(s);
}

// Repacks block `a` as token t of T.
ALWAYS_INLINE void repack_block(const struct plan *p, const struct act_block *a, uint8_t *record, int t, int n_tokens) {
	__m256i q = _mm256_loadu_si256((const __m256i *)(const void *)a->q);
	_mm256_storeu_si256((__m256i *)(void *)(record + 32 * t), q);
	__m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), q);
	__m128i low = _mm256_castsi256_si128(pairs), high = _mm256_extracti128_si256(pairs, 1);
	bool halves = p->kind == TILE_K6;
	put_u32(record, act_offset(n_tokens, ACT_D, t), f32_bits(a->d));
	put_u32(record, act_offset(n_tokens, ACT_D_SUM, t), f32_bits(a->d * (float)a->sum));
	put_u32(record, act_offset(n_tokens, ACT_START, t), start_pair(halves ? low : _mm_add_epi16(low, high), p->offset));
	put_u32(record, act_offset(n_tokens, ACT_START2, t), halves ? start_pair(high, p->offset) : 0);
	put_u32(record, act_offset(n_tokens, ACT_RESTORE, t), p->restore ? (uint32_t)(p->offset * a->sum) : 0);
}

// Repacks blocks [block, block + n) of tokens [token, token + n_tokens), n_tokens ≤ 4, to `out`.
static void repack_group(const struct plan *p, int token, int n_tokens, int block, int n, uint8_t *out) {
	for (int b = 0; b < n; b++) {
		uint8_t *record = out + (size_t)b * act_stride(n_tokens);
		for (int t = 0; t < n_tokens; t++)
			repack_block(p, p->act + (size_t)(token + t) * (size_t)p->n_blocks + (size_t)(block + b), record, t, n_tokens);
	}
}

static inline __m256i load_codes(const struct panel_block *p, int v) {
	return _mm256_load_si256((const __m256i *)(const void *)p->codes[v]);
}

static inline __m256i broadcast_u32(const uint8_t *p) {
	return _mm256_set1_epi32((int)load_u32(p));
}

static inline __m256 broadcast_f32(const uint8_t *p) {
	return _mm256_castsi256_ps(broadcast_u32(p));
}

// Keeps the compiler from computing many products before it adds any, which would spill the sums.
#define PIN(a, b) __asm__("" : "+x"(a), "+x"(b))

// Adds codes · activations of one 4-byte group: int16 lanes, or int32 lanes for TILE_I8.
ALWAYS_INLINE __m256i add_products(__m256i sum, __m256i codes, __m256i magnitude, __m256i q, enum tile_kind kind) {
	if (kind != TILE_I8)
		return _mm256_add_epi16(sum, _mm256_maddubs_epi16(codes, q));
	__m256i products = _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(q, codes));
	return _mm256_add_epi32(sum, _mm256_madd_epi16(products, _mm256_set1_epi16(1)));
}

// Sums of one block for up to 4 tokens × 2 halves of 8 rows.
struct sums {
	__m256i a0, a1, a2, a3; // rows 0..7
	__m256i b0, b1, b2, b3; // rows 8..15
};

// Sums over vectors [v0, v1) from the starting values in `field`.
ALWAYS_INLINE struct sums sum_codes(const struct panel_block *pa, const struct panel_block *pb, const uint8_t *act, int v0,
                                    int v1, enum act_field field, int T, int halves, enum tile_kind kind) {
	const bool start = kind == TILE_PLAIN || kind == TILE_MIN || kind == TILE_K6;
	__m256i a0 = _mm256_setzero_si256(), a1 = a0, a2 = a0, a3 = a0;
	if (start) {
		a0 = broadcast_u32(act + act_offset(T, field, 0));
		if (T > 1) a1 = broadcast_u32(act + act_offset(T, field, 1));
		if (T > 2) a2 = broadcast_u32(act + act_offset(T, field, 2));
		if (T > 3) a3 = broadcast_u32(act + act_offset(T, field, 3));
	}
	__m256i b0 = a0, b1 = a1, b2 = a2, b3 = a3;
#pragma GCC unroll 8
	for (int v = v0; v < v1; v++) {
		__m256i wa = load_codes(pa, v), wb = halves > 1 ? load_codes(pb, v) : wa;
		__m256i ma = kind == TILE_I8 ? _mm256_abs_epi8(wa) : wa, mb = kind == TILE_I8 ? _mm256_abs_epi8(wb) : wb;
		__m256i q = broadcast_u32(act + 4 * v);
		a0 = add_products(a0, wa, ma, q, kind);
		if (halves > 1) b0 = add_products(b0, wb, mb, q, kind);
		PIN(a0, b0);
		if (T > 1) {
			q = broadcast_u32(act + 32 + 4 * v);
			a1 = add_products(a1, wa, ma, q, kind);
			if (halves > 1) b1 = add_products(b1, wb, mb, q, kind);
			PIN(a1, b1);
		}
		if (T > 2) {
			q = broadcast_u32(act + 64 + 4 * v);
			a2 = add_products(a2, wa, ma, q, kind);
			if (halves > 1) b2 = add_products(b2, wb, mb, q, kind);
			PIN(a2, b2);
		}
		if (T > 3) {
			q = broadcast_u32(act + 96 + 4 * v);
			a3 = add_products(a3, wa, ma, q, kind);
			if (halves > 1) b3 = add_products(b3, wb, mb, q, kind);
			PIN(a3, b3);
		}
	}
	return (struct sums){a0, a1, a2, a3, b0, b1, b2, b3};
}

// The fused steps of one block for 8 rows and token t: integer sum (or, for Q6_K, the int16 sums of both halves) into c.
ALWAYS_INLINE __m256 finish(__m256 c, __m256i sum, __m256i sum2, const struct panel_block *p, const uint8_t *act, int t,
                            int T, enum tile_kind kind) {
	__m256i i = sum;
	if (kind == TILE_K6) {
		__m256i first = _mm256_madd_epi16(sum, _mm256_load_si256((const __m256i *)(const void *)p->half_scale[0]));
		__m256i second = _mm256_madd_epi16(sum2, _mm256_load_si256((const __m256i *)(const void *)p->half_scale[1]));
		i = _mm256_add_epi32(first, second);
	} else if (kind != TILE_I8) {
		i = _mm256_madd_epi16(sum, _mm256_set1_epi16(1));
	}
	if (kind == TILE_MIN)
		i = _mm256_add_epi32(i, broadcast_u32(act + act_offset(T, ACT_RESTORE, t)));
	__m256 scale = _mm256_mul_ps(_mm256_load_ps(p->scale), broadcast_f32(act + act_offset(T, ACT_D, t)));
	c = _mm256_fmadd_ps(_mm256_cvtepi32_ps(i), scale, c);
	if (kind == TILE_MIN)
		c = _mm256_fmadd_ps(_mm256_load_ps(p->min), broadcast_f32(act + act_offset(T, ACT_D_SUM, t)), c);
	return c;
}

// T tokens × `halves`·8 rows over n blocks. c[T] are rows of y, 8·halves floats each; `first`: they start at +0.
ALWAYS_INLINE void tile(const struct panel_block *pa, const struct panel_block *pb, int n, const uint8_t *act, float *c,
                        size_t c_stride, bool first, int T, int halves, enum tile_kind kind) {
	float *c1 = c + c_stride, *c2 = c1 + c_stride, *c3 = c2 + c_stride;
	__m256 zero = _mm256_setzero_ps();
#define LOAD_C(name, t, h, from) __m256 name = !first && T > t && halves > h ? _mm256_loadu_ps(from + 8 * h) : zero
	LOAD_C(ca0, 0, 0, c); LOAD_C(cb0, 0, 1, c); LOAD_C(ca1, 1, 0, c1); LOAD_C(cb1, 1, 1, c1);
	LOAD_C(ca2, 2, 0, c2); LOAD_C(cb2, 2, 1, c2); LOAD_C(ca3, 3, 0, c3); LOAD_C(cb3, 3, 1, c3);
#undef LOAD_C
	for (int b = 0; b < n; b++, pa++, pb++, act += act_stride(T)) {
		struct sums s = sum_codes(pa, pb, act, 0, kind == TILE_K6 ? 4 : 8, ACT_START, T, halves, kind);
		struct sums s2 = s;
		if (kind == TILE_K6)
			s2 = sum_codes(pa, pb, act, 4, 8, ACT_START2, T, halves, kind);
		ca0 = finish(ca0, s.a0, s2.a0, pa, act, 0, T, kind);
		if (halves > 1) cb0 = finish(cb0, s.b0, s2.b0, pb, act, 0, T, kind);
		if (T > 1) ca1 = finish(ca1, s.a1, s2.a1, pa, act, 1, T, kind);
		if (T > 1 && halves > 1) cb1 = finish(cb1, s.b1, s2.b1, pb, act, 1, T, kind);
		if (T > 2) ca2 = finish(ca2, s.a2, s2.a2, pa, act, 2, T, kind);
		if (T > 2 && halves > 1) cb2 = finish(cb2, s.b2, s2.b2, pb, act, 2, T, kind);
		if (T > 3) ca3 = finish(ca3, s.a3, s2.a3, pa, act, 3, T, kind);
		if (T > 3 && halves > 1) cb3 = finish(cb3, s.b3, s2.b3, pb, act, 3, T, kind);
	}
#define STORE_C(name, t, h, to) if (T > t && halves > h) _mm256_storeu_ps(to + 8 * h, name)
	STORE_C(ca0, 0, 0, c); STORE_C(cb0, 0, 1, c); STORE_C(ca1, 1, 0, c1); STORE_C(cb1, 1, 1, c1);
	STORE_C(ca2, 2, 0, c2); STORE_C(cb2, 2, 1, c2); STORE_C(ca3, 3, 0, c3); STORE_C(cb3, 3, 1, c3);
#undef STORE_C
}

typedef void tile_fn(const struct panel_block *pa, const struct panel_block *pb, int n, const uint8_t *act, float *c,
                     size_t c_stride, bool first);

#define DEFINE_TILE(kind, T, halves) \
	static void tile_##kind##_##T##_##halves(const struct panel_block *pa, const struct panel_block *pb, int n, \
	                                         const uint8_t *act, float *c, size_t c_stride, bool first) { \
		tile(pa, pb, n, act, c, c_stride, first, T, halves, kind); \
	}
#define DEFINE_TILES(kind) \
	DEFINE_TILE(kind, 1, 1) DEFINE_TILE(kind, 2, 1) DEFINE_TILE(kind, 3, 1) DEFINE_TILE(kind, 4, 1) \
	DEFINE_TILE(kind, 1, 2) DEFINE_TILE(kind, 2, 2) DEFINE_TILE(kind, 3, 2) DEFINE_TILE(kind, 4, 2)
DEFINE_TILES(TILE_PLAIN)
DEFINE_TILES(TILE_MIN)
DEFINE_TILES(TILE_K6)
DEFINE_TILES(TILE_I8)
#define TILE_ROW(kind) \
	{{tile_##kind##_1_1, tile_##kind##_2_1, tile_##kind##_3_1, tile_##kind##_4_1}, \
	 {tile_##kind##_1_2, tile_##kind##_2_2, tile_##kind##_3_2, tile_##kind##_4_2}}
static tile_fn *const tiles[4][2][4] = {TILE_ROW(TILE_PLAIN), TILE_ROW(TILE_MIN), TILE_ROW(TILE_K6), TILE_ROW(TILE_I8)};
#undef TILE_ROW
#undef DEFINE_TILES
#undef DEFINE_TILE

static const uint8_t *row_data(const struct plan *p, int row) {
	return (const uint8_t *)p->w->data + (size_t)row * p->row_bytes;
}

// Asks for the next bytes of the eight streams. Far enough for memory, near enough to stay in L1; as rows follow each
// other in a stream, looking past the end of a row is right.
static inline void prefetch_lanes(const uint8_t *rows, size_t lane_bytes, size_t n_bytes) {
	for (size_t r = 0; r < PANEL_ROWS; r++)
		for (size_t i = 0; i < n_bytes; i += 64)
			__builtin_prefetch(rows + r * lane_bytes + PREFETCH_BYTES + i, 0, 3);
}

// The 8 rows `row` + lane·step for T ≤ 3 tokens from `token`, whose activations are repacked for all of k.
static void few_panel(const struct plan *p, int row, int step, int token, int T) {
	const uint8_t *rows = row_data(p, row);
	size_t lane_bytes = (size_t)step * p->row_bytes;
	size_t chunk_bytes = dtype_row_bytes(p->w->type, 32 * FEW_CHUNK_BLOCKS);
	float c[FEW_TOKENS * PANEL_ROWS];
	tile_fn *fn = tiles[p->kind][0][T - 1];
	for (int b = 0; b < p->n_blocks; b += FEW_CHUNK_BLOCKS) {
		int n = min_int(FEW_CHUNK_BLOCKS, p->n_blocks - b);
		prefetch_lanes(rows + chunk_bytes * (size_t)(b / FEW_CHUNK_BLOCKS), lane_bytes, chunk_bytes);
		unpack_panel(p->w->type, rows, lane_bytes, b, n, p->panel);
		fn(p->panel, p->panel, n, p->packed + (size_t)b * act_stride(T), c, PANEL_ROWS, b == 0);
	}
	for (int t = 0; t < T; t++)
		for (int r = 0; r < PANEL_ROWS; r++)
			p->y[(size_t)(token + t) * p->y_stride + (size_t)(row + r * step)] = c[t * PANEL_ROWS + r];
}

// Rows [row_begin, row_end), at least 8, for T ≤ 3 tokens. The lanes of a panel are an eighth of the rows apart, so
// that memory is read as eight long ascending streams. A rest of fewer than 8 rows is done as the last 8: rows done
// twice get the same bits.
static void few_tokens(const struct plan *p, int row_begin, int row_end, int token, int T) {
	repack_group(p, token, T, 0, p->n_blocks, p->packed);
	int step = (row_end - row_begin) / PANEL_ROWS;
	for (int row = row_begin; row < row_begin + step; row++) {
		if (cancelled(p->cancel))
			return;
		few_panel(p, row, step, token, T);
	}
	if ((row_end - row_begin) % PANEL_ROWS)
		few_panel(p, row_end - PANEL_ROWS, 1, token, T);
}

// One chunk of k for 8·halves rows from `row` and n_tokens tokens from `token` (repacked in groups of 4).
static void panel_tokens(const struct plan *p, int row, int halves, int token, int n_tokens, int block, int n) {
	struct panel_block *second = p->panel + MM_CHUNK_BLOCKS;
	unpack_panel(p->w->type, row_data(p, row), p->row_bytes, block, n, p->panel);
	if (halves > 1)
		unpack_panel(p->w->type, row_data(p, row + PANEL_ROWS), p->row_bytes, block, n, second);
	const uint8_t *act = p->packed;
	for (int t = 0; t < n_tokens; t += MM_GROUP_TOKENS, act += MM_CHUNK_BLOCKS * MM_GROUP_BLOCK_BYTES) {
		float *c = p->y + (size_t)(token + t) * p->y_stride + (size_t)row;
		int T = min_int(MM_GROUP_TOKENS, n_tokens - t);
		tiles[p->kind][halves - 1][T - 1](p->panel, second, n, act, c, p->y_stride, block == 0);
	}
}

// Rows [row_begin, row_end), a multiple of 8, for one token block.
static void token_block(const struct plan *p, int row_begin, int row_end, int token, int n_tokens) {
	for (int b = 0; b < p->n_blocks; b += MM_CHUNK_BLOCKS) {
		int n = min_int(MM_CHUNK_BLOCKS, p->n_blocks - b);
		for (int t = 0; t < n_tokens; t += MM_GROUP_TOKENS)
			repack_group(p, token + t, min_int(MM_GROUP_TOKENS, n_tokens - t), b, n,
			             p->packed + (size_t)(t / MM_GROUP_TOKENS) * MM_CHUNK_BLOCKS * MM_GROUP_BLOCK_BYTES);
		for (int row = row_begin; row < row_end; row += 2 * PANEL_ROWS) {
			if (cancelled(p->cancel))
				return;
			panel_tokens(p, row, row_end - row >= 2 * PANEL_ROWS ? 2 : 1, token, n_tokens, b, n);
		}
	}
}

void matmul_avx2(const struct weight *w, int row_begin, int row_end, const struct act_block *act, int n_tokens,
                 float *y, size_t y_stride, void *scratch, const _Atomic int *cancel) {
	int n_rows = row_end - row_begin;
	if (n_rows < PANEL_ROWS) {
		matmul_scalar(w, row_begin, row_end, act, n_tokens, y, y_stride, scratch, cancel);
		return;
	}
	struct plan p = {.w = w, .row_bytes = dtype_row_bytes(w->type, w->k), .n_blocks = w->k / 32, .act = act, .y = y,
	                 .y_stride = y_stride, .panel = scratch, .cancel = cancel};
	p.packed = (uint8_t *)(p.panel + 2 * MM_CHUNK_BLOCKS);
	choose_kind(&p, w->type);
	if (n_tokens <= FEW_TOKENS) {
		few_tokens(&p, row_begin, row_end, 0, n_tokens);
		return;
	}
	int whole_end = row_begin + n_rows / PANEL_ROWS * PANEL_ROWS;
	for (int t = 0; t < n_tokens; t += MM_TOKEN_BLOCK)
		token_block(&p, row_begin, whole_end, t, min_int(MM_TOKEN_BLOCK, n_tokens - t));
	for (int t = 0; t < n_tokens && whole_end < row_end; t += FEW_TOKENS)
		few_tokens(&p, row_end - PANEL_ROWS, row_end, t, min_int(FEW_TOKENS, n_tokens - t));
}
