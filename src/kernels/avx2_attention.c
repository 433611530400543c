// SPDX-License-Identifier: MIT
// AVX2 attention: rows × one unit of KV_UNIT_TOKENS positions at a time, in the order of struct attention_args.
//
// Both products (query × K over channels, weights × V over positions) are the same outer-product tile: R rows × 8·V
// lanes, lanes are tokens or channels, so each output is one ascending chain. For more than DIRECT_ROWS rows an f16
// unit is converted to f32 once; fewer rows (decode) convert in the tile, where each value is used by one tile only.
// Stateless; scratch is the caller's.
#include "kernels/attention_rows.h"
#include "kernels/avx2_common.h"
#include "kernels/avx2_sets.h"
#include "kernels/sets.h"

#define DIRECT_ROWS 8
#define UNIT_BLOCKS (KV_UNIT_TOKENS / KV_BLOCK_TOKENS)

// Everything of one call. Rows of q, o and w are contiguous, one after another.
struct attend {
	const struct attention_args *a;
	size_t d;         // head_dim
	float *unit_k;    // [UNIT_BLOCKS][d][KV_BLOCK_TOKENS] as f32
	float *unit_v;    // [d/16, rounded up][KV_UNIT_TOKENS][16]: slices, so that one stays in L1 for all rows
	float *q;         // [n_rows][d], scaled
	float *o;         // [n_rows][d], output of the unit at hand
	float *w;         // [n_rows][KV_UNIT_TOKENS], scores, then weights
	struct row_state *state;
	bool converted;   // the unit is in unit_k and unit_v
	enum kv_type type; // of the elements that k and v point at
	const void *k[UNIT_BLOCKS + 1], *v[UNIT_BLOCKS]; // blocks of the unit at hand; then what to prefetch as the next K
};

// c[R][lanes] = x[R][n] · m[n][lanes], one ascending chain per output. m lies in pieces of piece_rows rows. Strides in
// elements.
struct product {
	const float *x;
	size_t x_stride;
	const void *const *m;
	int piece_rows;
	size_t m_stride;
	int n;
	float *c;
	size_t c_stride;
	const void *ahead[2]; // null, or memory that is needed soon: a line per row of m is prefetched in the first two passes
};

ALWAYS_INLINE __m256 load_eight(const void *p, size_t i, enum kv_type type) {
	if (type == KV_F16)
		return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)((const uint8_t *)p + 2 * i)));
	if (type == KV_BF16)
		return _mm256_castsi256_ps(_mm256_slli_epi32(
			_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)((const uint8_t *)p + 2 * i))), 16));
	return _mm256_loadu_ps((const float *)p + i);
}

// R rows × 8·V lanes from lane `at`.
ALWAYS_INLINE void outer(const struct product *p, int at, const char *ahead, int R, int V, enum kv_type type) {
	const __m256 zero = _mm256_setzero_ps();
	__m256 a0 = zero, a1 = zero, a2 = zero, a3 = zero, a4 = zero, a5 = zero, a6 = zero, a7 = zero;
	__m256 b0 = zero, b1 = zero, b2 = zero, b3 = zero, b4 = zero, b5 = zero, b6 = zero, b7 = zero;
	__m256 e0 = zero, e1 = zero, f0 = zero, f1 = zero;
	const float *x = p->x;
	const size_t x_stride = p->x_stride, m_stride = p->m_stride;
	for (int left = p->n, piece = 0; left > 0; left -= p->piece_rows, piece++) {
		const void *m = p->m[piece];
		const float *end = x + (left < p->piece_rows ? left : p->piece_rows);
		for (size_t i = (size_t)at; x < end; x++, i += m_stride) {
			__m256 m0 = load_eight(m, i, type);
			__m256 m1 = V > 1 ? load_eight(m, i + 8, type) : zero;
			__m256 m2 = V > 2 ? load_eight(m, i + 16, type) : zero;
			__m256 m3 = V > 2 ? load_eight(m, i + 24, type) : zero;
			if (type != KV_F32 && ahead) {
				__builtin_prefetch(ahead, 0, 3);
				ahead += 64;
			}
#define STEP(r) \
	if (R > r) { \
		__m256 factor = _mm256_broadcast_ss(x + r * x_stride); \
		a##r = _mm256_fmadd_ps(factor, m0, a##r); \
		if (V > 1) \
			b##r = _mm256_fmadd_ps(factor, m1, b##r); \
	}
#define STEP_WIDE(r) \
	if (R > r && V > 2) { \
		__m256 factor = _mm256_broadcast_ss(x + r * x_stride); \
		e##r = _mm256_fmadd_ps(factor, m2, e##r); \
		f##r = _mm256_fmadd_ps(factor, m3, f##r); \
	}
			STEP(0) STEP(1) STEP(2) STEP(3) STEP(4) STEP(5) STEP(6) STEP(7)
			STEP_WIDE(0) STEP_WIDE(1)
#undef STEP
#undef STEP_WIDE
		}
	}
	float *c = p->c + at;
#define STORE(r, name, v) if (R > r && V > v) _mm256_storeu_ps(c + r * p->c_stride + 8 * v, name##r);
	STORE(0, a, 0) STORE(1, a, 0) STORE(2, a, 0) STORE(3, a, 0) STORE(4, a, 0) STORE(5, a, 0) STORE(6, a, 0) STORE(7, a, 0)
	STORE(0, b, 1) STORE(1, b, 1) STORE(2, b, 1) STORE(3, b, 1) STORE(4, b, 1) STORE(5, b, 1) STORE(6, b, 1) STORE(7, b, 1)
	STORE(0, e, 2) STORE(1, e, 2) STORE(0, f, 3) STORE(1, f, 3)
#undef STORE
}

typedef void outer_fn(const struct product *p, int at, const char *ahead);

#define DEFINE_OUTER(R, V, type) \
	static void outer_##R##_##V##_##type(const struct product *p, int at, const char *ahead) { \
		outer(p, at, ahead, R, V, type); \
	}
#define DEFINE_OUTERS(type) \
	DEFINE_OUTER(1, 1, type) DEFINE_OUTER(2, 1, type) DEFINE_OUTER(3, 1, type) DEFINE_OUTER(4, 1, type) \
	DEFINE_OUTER(5, 1, type) DEFINE_OUTER(6, 1, type) DEFINE_OUTER(7, 1, type) DEFINE_OUTER(8, 1, type) \
	DEFINE_OUTER(1, 2, type) DEFINE_OUTER(2, 2, type) DEFINE_OUTER(3, 2, type) DEFINE_OUTER(4, 2, type) \
	DEFINE_OUTER(5, 2, type) DEFINE_OUTER(6, 2, type) DEFINE_OUTER(1, 4, type) DEFINE_OUTER(2, 4, type)
DEFINE_OUTERS(KV_F16)
DEFINE_OUTERS(KV_F32)
DEFINE_OUTERS(KV_BF16)
// [type][log2 V][R - 1]: the tiles whose sums fit the 16 registers.
#define OUTER_ROW(type) \
	{{outer_1_1_##type, outer_2_1_##type, outer_3_1_##type, outer_4_1_##type, outer_5_1_##type, outer_6_1_##type, \
	  outer_7_1_##type, outer_8_1_##type}, \
	 {outer_1_2_##type, outer_2_2_##type, outer_3_2_##type, outer_4_2_##type, outer_5_2_##type, outer_6_2_##type}, \
	 {outer_1_4_##type, outer_2_4_##type}}
static outer_fn *const outers[3][3][8] = {OUTER_ROW(KV_F16), OUTER_ROW(KV_F32), OUTER_ROW(KV_BF16)};
#undef OUTER_ROW
#undef DEFINE_OUTERS
#undef DEFINE_OUTER

// Rows of the next tile when n are left: never a thin rest after full tiles.
static int tile_rows(int n) {
	return n <= 8 ? n : n <= 10 ? 5 : 6;
}

// R rows × n_vectors·8 lanes, in passes as wide as the registers allow.
static void multiply(const struct product *p, enum kv_type type, int R, int n_vectors) {
	int most = R <= 2 ? 2 : R <= 6 ? 1 : 0; // log2 of vectors
	for (int v = 0, pass = 0; v < n_vectors; pass++) {
		int wide = most;
		while (v + (1 << wide) > n_vectors)
			wide--;
		outers[type][wide][R - 1](p, 8 * v, pass < 2 ? p->ahead[pass] : NULL);
		v += 1 << wide;
	}
}

ALWAYS_INLINE void convert_k(const void *from, float *to, size_t n, enum kv_type type) {
	for (size_t i = 0; i < n; i += 8)
		_mm256_store_ps(to + i, load_eight(from, i, type));
}

// Block b of V into the slices of unit_v.
ALWAYS_INLINE void convert_v(const struct attend *s, const void *from, int b, enum kv_type type) {
	for (size_t p = 0; p < KV_BLOCK_TOKENS; p++)
		for (size_t d = 0; d < s->d; d += 8) {
			float *slice = s->unit_v + d / 16 * 16 * KV_UNIT_TOKENS;
			_mm256_store_ps(slice + ((size_t)b * KV_BLOCK_TOKENS + p) * 16 + d % 16, load_eight(from, p * s->d + d, type));
		}
}

// Block b of the unit as f32, one copy of the loops for each type.
static void convert_block(struct attend *s, const void *k, const void *v, int b) {
	size_t n = s->d * KV_BLOCK_TOKENS;
	if (s->a->kv_type == KV_F16) {
		convert_k(k, s->unit_k + (size_t)b * n, n, KV_F16);
		convert_v(s, v, b, KV_F16);
	} else {
		convert_k(k, s->unit_k + (size_t)b * n, n, KV_BF16);
		convert_v(s, v, b, KV_BF16);
	}
}

// Points k and v at the unit's blocks, converted if that pays.
static void load_unit(struct attend *s, int p0, int n_blocks, int n_rows) {
	const struct attention_args *a = s->a;
	const void *const *k = a->k_blocks + p0 / KV_BLOCK_TOKENS, *const *v = a->v_blocks + p0 / KV_BLOCK_TOKENS;
	s->converted = a->kv_type != KV_F32 && n_rows > DIRECT_ROWS;
	s->type = s->converted ? KV_F32 : a->kv_type;
	size_t n = s->d * KV_BLOCK_TOKENS;
	for (int b = 0; b < n_blocks; b++) {
		s->k[b] = s->converted ? s->unit_k + (size_t)b * n : k[b];
		s->v[b] = v[b];
		if (s->converted)
			convert_block(s, k[b], v[b], b);
	}
	s->k[n_blocks] = a->pos[a->n_rows - 1] >= p0 + n_blocks * KV_BLOCK_TOKENS ? k[n_blocks] : NULL;
}

// Scores of rows [row, n_rows) against the block at position `p`, number b of the unit. While K is read, V of the block
// and K of the next are prefetched.
static void score_block(struct attend *s, int row, int p, int b) {
	const int32_t *pos = s->a->pos;
	while (row < s->a->n_rows && pos[row] < p)
		row++;
	struct product m = {.x_stride = s->d, .m = s->k + b, .piece_rows = (int)s->d, .m_stride = KV_BLOCK_TOKENS,
	                    .n = (int)s->d, .c_stride = KV_UNIT_TOKENS, .ahead = {s->v[b], s->k[b + 1]}};
	for (int R; row < s->a->n_rows; row += R) {
		R = tile_rows(s->a->n_rows - row);
		m.x = s->q + (size_t)row * s->d;
		m.c = s->w + (size_t)row * KV_UNIT_TOKENS + b * KV_BLOCK_TOKENS;
		multiply(&m, s->type, R, min_int((pos[row + R - 1] - p) / 8 + 1, KV_BLOCK_TOKENS / 8));
	}
}

// Lanes of the eight positions from p that row r sees, as a mask.
static inline __m256 visible_lanes(const struct attention_args *a, int r, int p) {
	const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
	__m256i seen = _mm256_cmpgt_epi32(_mm256_set1_epi32(a->pos[r] - p + 1), lane);
	const uint32_t *bits = a->mask ? a->mask[r] : NULL;
	if (bits) {
		const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
		__m256i byte = _mm256_set1_epi32((int)(bits[p / 32] >> (p % 32) & 255));
		seen = _mm256_and_si256(seen, _mm256_cmpeq_epi32(_mm256_and_si256(byte, bit), bit));
	}
	return _mm256_castsi256_ps(seen);
}

static float max_lanes(__m256 x) {
	__m128 m = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
	m = _mm_max_ps(m, _mm_movehl_ps(m, m));
	return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

// Turns the scores of row r into weights; returns their largest score and, in *sum, their sum. *any: one is visible.
static float softmax_unit(struct attend *s, int r, int p0, float *sum, bool *any) {
	float *w = s->w + (size_t)r * KV_UNIT_TOKENS;
	int n = unit_positions(s->a->pos[r], p0), plain = plain_positions(s->a, r, p0);
	const __m256 lowest = _mm256_set1_ps(-INFINITY);
	__m256 top = lowest, all = _mm256_setzero_ps(), lanes = _mm256_setzero_ps();
	for (int i = 0; i < plain; i += 8)
		top = _mm256_max_ps(_mm256_loadu_ps(w + i), top);
	for (int i = plain; i < n; i += 8) {
		__m256 seen = visible_lanes(s->a, r, p0 + i);
		all = _mm256_or_ps(all, seen);
		top = _mm256_max_ps(_mm256_blendv_ps(lowest, _mm256_loadu_ps(w + i), seen), top);
	}
	float max = max_lanes(top);
	__m256 maxes = _mm256_set1_ps(max);
	for (int i = 0; i < plain; i += 8) {
		__m256 e = exp_lanes_below_zero(_mm256_sub_ps(_mm256_loadu_ps(w + i), maxes));
		_mm256_storeu_ps(w + i, e);
		lanes = _mm256_add_ps(lanes, e);
	}
	for (int i = plain; i < n; i += 8) {
		__m256 e = exp_lanes(_mm256_sub_ps(_mm256_loadu_ps(w + i), maxes));
		e = _mm256_and_ps(e, visible_lanes(s->a, r, p0 + i));
		_mm256_storeu_ps(w + i, e);
		lanes = _mm256_add_ps(lanes, e);
	}
	*sum = sum_lanes(lanes);
	*any = plain > 0 || _mm256_movemask_ps(all) != 0;
	return max;
}

// Weights × V for rows [row, end), which look at the same n positions: from the blocks, or from slices of 16 channels.
static void weigh_values(struct attend *s, int row, int end, int n) {
	size_t lanes = s->converted ? 16 : s->d;
	for (size_t d = 0; d < s->d; d += lanes) {
		const void *slice = s->unit_v + d * KV_UNIT_TOKENS;
		struct product m = {.x_stride = KV_UNIT_TOKENS, .m = s->converted ? &slice : s->v,
		                    .piece_rows = s->converted ? KV_UNIT_TOKENS : KV_BLOCK_TOKENS, .m_stride = lanes, .n = n,
		                    .c_stride = s->d};
		int n_vectors = (int)(s->d - d < lanes ? s->d - d : lanes) / 8;
		for (int r = row, R; r < end; r += R) {
			R = tile_rows(end - r);
			m.x = s->w + (size_t)r * KV_UNIT_TOKENS;
			m.c = s->o + (size_t)r * s->d + d;
			multiply(&m, s->type, R, n_vectors);
		}
	}
}

static void merge_row(struct attend *s, int r) {
	struct row_state *state = s->state + r;
	float *out = s->a->out[r];
	const float *o = s->o + (size_t)r * s->d;
	if (!state->visible)
		return;
	__m256 scale_all = _mm256_set1_ps(state->scale_all), scale_unit = _mm256_set1_ps(state->scale_unit);
	for (size_t i = 0; i < s->d; i += 8) {
		__m256 unit = _mm256_loadu_ps(o + i);
		if (state->started)
			unit = _mm256_fmadd_ps(_mm256_loadu_ps(out + i), scale_all, _mm256_mul_ps(unit, scale_unit));
		_mm256_storeu_ps(out + i, unit);
	}
	state->started = 1;
}

// Rows [row, n_rows) over the unit at p0.
static void attend_unit(struct attend *s, int row, int p0) {
	const struct attention_args *a = s->a;
	int n_blocks = min_int((a->pos[a->n_rows - 1] - p0) / KV_BLOCK_TOKENS + 1, UNIT_BLOCKS);
	load_unit(s, p0, n_blocks, a->n_rows - row);
	for (int b = 0; b < n_blocks && !cancelled(a->cancel); b++)
		score_block(s, row, p0 + b * KV_BLOCK_TOKENS, b);
	for (int r = row; r < a->n_rows; r++) {
		bool any;
		float sum, max = softmax_unit(s, r, p0, &sum, &any);
		row_state_add(s->state + r, max, sum, any);
	}
	for (int run = row, end; run < a->n_rows && !cancelled(a->cancel); run = end) {
		int n = unit_positions(a->pos[run], p0);
		for (end = run + 1; end < a->n_rows && unit_positions(a->pos[end], p0) == n; end++) {
		}
		weigh_values(s, run, end, n);
	}
	for (int r = row; r < a->n_rows; r++)
		merge_row(s, r);
}

static void scale_queries(struct attend *s) {
	__m256 scale = _mm256_set1_ps(s->a->scale);
	for (int r = 0; r < s->a->n_rows; r++) {
		s->state[r] = (struct row_state){0};
		for (size_t i = 0; i < s->d; i += 8)
			_mm256_storeu_ps(s->q + (size_t)r * s->d + i, _mm256_mul_ps(_mm256_loadu_ps(s->a->q[r] + i), scale));
	}
}

static void divide_rows(struct attend *s) {
	for (int r = 0; r < s->a->n_rows; r++) {
		__m256 sum = _mm256_set1_ps(s->state[r].sum);
		for (float *out = s->a->out[r], *end = out + s->d; out < end; out += 8)
			_mm256_storeu_ps(out, _mm256_div_ps(_mm256_loadu_ps(out), sum));
	}
}

void attention_avx2(const struct attention_args *a) {
	if (a->n_rows < 1)
		return;
	size_t d = (size_t)a->head_dim, n_rows = (size_t)a->n_rows, unit = ATTENTION_UNIT_LANES(d) * KV_UNIT_TOKENS;
	float *p = a->scratch;
	struct attend s = {.a = a, .d = d, .unit_k = p, .unit_v = p + unit};
	s.w = p + 2 * unit;
	s.q = s.w + n_rows * KV_UNIT_TOKENS;
	s.o = s.q + n_rows * d;
	s.state = (struct row_state *)(void *)(s.o + n_rows * d);
	scale_queries(&s);
	int row = 0;
	for (int p0 = 0; p0 <= a->pos[a->n_rows - 1]; p0 += KV_UNIT_TOKENS) {
		if (cancelled(a->cancel))
			return;
		while (a->pos[row] < p0)
			row++;
		attend_unit(&s, row, p0);
	}
	divide_rows(&s);
}

// Eight floats to halves.
static inline __m128i to_f16(const float *x) {
	return _mm256_cvtps_ph(_mm256_loadu_ps(x), _MM_FROUND_TO_NEAREST_INT);
}

void kv_store_avx2(enum kv_type type, int head_dim, int slot, const float *k, const float *v, void *k_block,
                   void *v_block) {
	if (type != KV_F16) {
		kv_store_scalar(type, head_dim, slot, k, v, k_block, v_block);
		return;
	}
	uint8_t *column = (uint8_t *)k_block + 2 * (size_t)slot, *row = (uint8_t *)v_block + 2 * (size_t)slot * (size_t)head_dim;
	for (size_t d = 0; d < (size_t)head_dim; d += 8) {
		_mm_storeu_si128((__m128i *)(void *)(row + 2 * d), to_f16(v + d));
		uint16_t h[8];
		_mm_storeu_si128((__m128i *)(void *)h, to_f16(k + d));
		for (size_t i = 0; i < 8; i++)
			memcpy(column + 2 * KV_BLOCK_TOKENS * (d + i), h + i, 2);
	}
}
