// SPDX-License-Identifier: MIT
// AVX-512 attention: rows × one unit of KV_UNIT_TOKENS positions at a time, in the order of struct attention_args. Bit-equal to the other sets.
//
// Both products (query × K over channels, weights × V over positions) are the same outer-product tile: up to 14 rows × 32 lanes or 6 rows × 64
// lanes, whose sums fill the 32 registers; lanes are positions or channels, so each output is one ascending chain. Scaled queries are packed by tile,
// so that a step reads neighbours. For more than DIRECT_ROWS rows a unit of 16-bit elements is converted to f32 once; fewer rows convert in the tile.
// While the tile reads K, V of the unit is prefetched, and while it reads V, K of the next one: memory works in both halves.
// Heads whose size is no multiple of 32 go the AVX2 way. Stateless; scratch is the caller's.
#include "kernels/attention_rows.h"
#include "kernels/avx2_common.h"
#include "kernels/avx2_sets.h"
#include "kernels/avx512_common.h"
#include "kernels/sets.h"

#define DIRECT_ROWS 28
#define TILE_ROWS 14
#define WIDE_ROWS 6 // rows of a tile with four vectors
#define FETCH_BYTES 256 // of K and of V of the next unit, prefetched for each tile
#define LANES 32    // of a tile with two vectors
#define UNIT_BLOCKS (KV_UNIT_TOKENS / KV_BLOCK_TOKENS)
_Static_assert(LANES == KV_BLOCK_TOKENS, "a block's positions are the lanes of a tile");

// Everything of one call.
struct attend {
	const struct attention_args *a;
	size_t d;         // head_dim
	float *unit_k;    // [UNIT_BLOCKS][d][LANES] as f32
	float *unit_v;    // [d/LANES][KV_UNIT_TOKENS][LANES] as f32
	float *q;         // scaled, tile by tile [d][rows of the tile]
	float *o;         // [n_rows][d], output of the unit at hand
	float *w;         // [n_rows][KV_UNIT_TOKENS], scores, then weights
	struct row_state *state;
	bool converted;   // the unit is in unit_k and unit_v
	enum kv_type type; // of the elements that k and v point at
	const void *k[UNIT_BLOCKS], *v[UNIT_BLOCKS]; // blocks of the unit at hand
	const void *v_ahead[UNIT_BLOCKS], *k_ahead[UNIT_BLOCKS]; // what a tile that converts prefetches: V of this unit, K of the next
	const void *const *next_k, *const *next_v; // [n_next] blocks of the next unit, which other tiles fetch to L2 bit by bit
	int n_next;
	size_t fetched_bytes; // of each of them; and the block at hand
	int fetched_block;
};

// c[R][lanes] = x[R][n] · m[n][lanes], one ascending chain per output. m lies in pieces of piece_rows rows. Strides in elements.
struct product {
	const float *x;
	const void *const *m;        // [pieces]
	size_t m_offset;             // elements from there to the first lane
	ptrdiff_t second_bytes;      // from a lane to the one 32 further, for the wide tile
	int piece_rows;
	size_t m_stride;
	int n;
	float *c;
	size_t c_stride;
	const void *const *ahead;    // [pieces], not for f32: a line is prefetched for each row of m, beginning ahead_offset bytes on
	size_t ahead_offset;
	ptrdiff_t ahead_second;      // and for the wide tile another one so many bytes further
};

ALWAYS_INLINE size_t elem_bytes(enum kv_type type) {
	return type == KV_F32 ? 4 : 2;
}

ALWAYS_INLINE __m512 load_sixteen(const uint8_t *p, enum kv_type type) {
	if (type == KV_F16)
		return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
	if (type == KV_BF16)
		return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p)), 16));
	return _mm512_loadu_ps((const void *)p);
}

#define EACH_ROW(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13)
#define EACH_WIDE_ROW(X) X(0) X(1) X(2) X(3) X(4) X(5)

// R rows × 16·V lanes. `packed`: x is [n][R], else [R][KV_UNIT_TOKENS]. The sums have names of their own because the compiler keeps arrays of them
// in memory.
ALWAYS_INLINE void outer(const struct product *p, int R, int V, enum kv_type type, bool packed) {
	const __m512 zero = _mm512_setzero_ps();
#define SUMS(r) __m512 a##r = zero, b##r = zero;
	EACH_ROW(SUMS)
#undef SUMS
#define SUMS(r) __m512 e##r = zero, f##r = zero;
	EACH_WIDE_ROW(SUMS)
#undef SUMS
	const float *x = p->x;
	const size_t stride = p->m_stride * elem_bytes(type), row = packed ? 1 : KV_UNIT_TOKENS, step = packed ? (size_t)R : 1;
	const ptrdiff_t second = p->second_bytes, ahead_second = p->ahead_second;
	for (int left = p->n, piece = 0; left > 0; left -= p->piece_rows, piece++) {
		const uint8_t *m = (const uint8_t *)p->m[piece] + p->m_offset * elem_bytes(type);
		const char *ahead = type == KV_F32 ? NULL : (const char *)p->ahead[piece] + p->ahead_offset;
		for (int i = left < p->piece_rows ? left : p->piece_rows; i > 0; i--, x += step, m += stride) {
			__m512 m0 = load_sixteen(m, type), m1 = load_sixteen(m + 16 * elem_bytes(type), type);
			__m512 m2 = zero, m3 = zero;
			if (V > 2) {
				m2 = load_sixteen(m + second, type);
				m3 = load_sixteen(m + second + 16 * elem_bytes(type), type);
			}
			if (type != KV_F32) {
				_mm_prefetch(ahead, _MM_HINT_T0);
				if (V > 2)
					_mm_prefetch(ahead + ahead_second, _MM_HINT_T0);
				ahead += 64;
			}
#define STEP(r) \
	if (R > r) { \
		__m512 factor = _mm512_set1_ps(x[r * row]); \
		a##r = _mm512_fmadd_ps(factor, m0, a##r); \
		b##r = _mm512_fmadd_ps(factor, m1, b##r); \
	}
			EACH_ROW(STEP)
#undef STEP
#define STEP(r) \
	if (R > r && V > 2) { \
		__m512 factor = _mm512_set1_ps(x[r * row]); \
		e##r = _mm512_fmadd_ps(factor, m2, e##r); \
		f##r = _mm512_fmadd_ps(factor, m3, f##r); \
	}
			EACH_WIDE_ROW(STEP)
#undef STEP
		}
	}
#define STORE(r) \
	if (R > r) { \
		_mm512_storeu_ps(p->c + r * p->c_stride, a##r); \
		_mm512_storeu_ps(p->c + r * p->c_stride + 16, b##r); \
	}
	EACH_ROW(STORE)
#undef STORE
#define STORE(r) \
	if (R > r && V > 2) { \
		_mm512_storeu_ps(p->c + r * p->c_stride + 32, e##r); \
		_mm512_storeu_ps(p->c + r * p->c_stride + 48, f##r); \
	}
	EACH_WIDE_ROW(STORE)
#undef STORE
}

typedef void outer_fn(const struct product *p);

#define DEFINE_OUTER(R, V, type) \
	static void score_##R##_##V##_##type(const struct product *p) { \
		outer(p, R, V, type, true); \
	} \
	static void weigh_##R##_##V##_##type(const struct product *p) { \
		outer(p, R, V, type, false); \
	}
#define DEFINE_OUTERS(type) \
	DEFINE_OUTER(1, 2, type) DEFINE_OUTER(2, 2, type) DEFINE_OUTER(3, 2, type) DEFINE_OUTER(4, 2, type) DEFINE_OUTER(5, 2, type) \
	DEFINE_OUTER(6, 2, type) DEFINE_OUTER(7, 2, type) DEFINE_OUTER(8, 2, type) DEFINE_OUTER(9, 2, type) DEFINE_OUTER(10, 2, type) \
	DEFINE_OUTER(11, 2, type) DEFINE_OUTER(12, 2, type) DEFINE_OUTER(13, 2, type) DEFINE_OUTER(14, 2, type) \
	DEFINE_OUTER(1, 4, type) DEFINE_OUTER(2, 4, type) DEFINE_OUTER(3, 4, type) DEFINE_OUTER(4, 4, type) DEFINE_OUTER(5, 4, type) \
	DEFINE_OUTER(6, 4, type)
DEFINE_OUTERS(KV_F16)
DEFINE_OUTERS(KV_F32)
DEFINE_OUTERS(KV_BF16)
#define OUTER_ROW(name, type) \
	{{name##_1_2_##type, name##_2_2_##type, name##_3_2_##type, name##_4_2_##type, name##_5_2_##type, name##_6_2_##type, name##_7_2_##type, \
	  name##_8_2_##type, name##_9_2_##type, name##_10_2_##type, name##_11_2_##type, name##_12_2_##type, name##_13_2_##type, name##_14_2_##type}, \
	 {name##_1_4_##type, name##_2_4_##type, name##_3_4_##type, name##_4_4_##type, name##_5_4_##type, name##_6_4_##type}}
// [type][wide][R - 1]
static outer_fn *const score_tiles[3][2][TILE_ROWS] = {OUTER_ROW(score, KV_F16), OUTER_ROW(score, KV_F32), OUTER_ROW(score, KV_BF16)};
static outer_fn *const weigh_tiles[3][2][TILE_ROWS] = {OUTER_ROW(weigh, KV_F16), OUTER_ROW(weigh, KV_F32), OUTER_ROW(weigh, KV_BF16)};
#undef OUTER_ROW
#undef DEFINE_OUTERS
#undef DEFINE_OUTER

// n rows lie in as few tiles as can be, of nearly equal size.
static int tile_count(int n) {
	return (n + TILE_ROWS - 1) / TILE_ROWS;
}

static int tile_begin(int n, int tile) {
	return n * tile / tile_count(n);
}

ALWAYS_INLINE void convert_k(const uint8_t *from, float *to, size_t n, enum kv_type type) {
	for (size_t i = 0; i < n; i += 16)
		_mm512_store_ps(to + i, load_sixteen(from + i * elem_bytes(type), type));
}

// Block b of V into the slices of unit_v.
ALWAYS_INLINE void convert_v(const struct attend *s, const uint8_t *from, int b, enum kv_type type) {
	for (size_t p = 0; p < KV_BLOCK_TOKENS; p++)
		for (size_t d = 0; d < s->d; d += 16) {
			float *slice = s->unit_v + d / LANES * LANES * KV_UNIT_TOKENS;
			_mm512_store_ps(slice + ((size_t)b * KV_BLOCK_TOKENS + p) * LANES + d % LANES, load_sixteen(from + (p * s->d + d) * elem_bytes(type), type));
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

// Points k and v at the unit's blocks, converted if that pays, and says what to prefetch.
static void load_unit(struct attend *s, int p0, int n_blocks, int n_rows) {
	const struct attention_args *a = s->a;
	const void *const *k = a->k_blocks + p0 / KV_BLOCK_TOKENS, *const *v = a->v_blocks + p0 / KV_BLOCK_TOKENS;
	int n_left = (a->pos[a->n_rows - 1] - p0) / KV_BLOCK_TOKENS + 1; // blocks from here to the end
	s->converted = a->kv_type != KV_F32 && n_rows > DIRECT_ROWS;
	s->type = s->converted ? KV_F32 : a->kv_type;
	s->next_k = k + UNIT_BLOCKS;
	s->next_v = v + UNIT_BLOCKS;
	s->n_next = min_int(n_left - UNIT_BLOCKS, UNIT_BLOCKS);
	s->fetched_bytes = 0;
	s->fetched_block = 0;
	size_t n = s->d * KV_BLOCK_TOKENS;
	for (int b = 0; b < n_blocks; b++) {
		s->k[b] = s->converted ? s->unit_k + (size_t)b * n : k[b];
		s->v[b] = v[b];
		s->v_ahead[b] = v[b];
		s->k_ahead[b] = b + UNIT_BLOCKS < n_left ? k[b + UNIT_BLOCKS] : v[b];
		if (s->converted)
			convert_block(s, k[b], v[b], b);
	}
}

// Fetches a little of the next unit, which is converted in one go: called for each tile.
static void fetch_next(struct attend *s) {
	if (!s->converted || s->fetched_block >= s->n_next)
		return;
	const char *k = (const char *)s->next_k[s->fetched_block] + s->fetched_bytes, *v = (const char *)s->next_v[s->fetched_block] + s->fetched_bytes;
	for (size_t i = 0; i < FETCH_BYTES; i += 64) {
		_mm_prefetch(k + i, _MM_HINT_T1);
		_mm_prefetch(v + i, _MM_HINT_T1);
	}
	s->fetched_bytes += FETCH_BYTES;
	if (s->fetched_bytes < s->d * KV_BLOCK_TOKENS * elem_bytes(s->a->kv_type))
		return;
	s->fetched_bytes = 0;
	s->fetched_block++;
}

// Scores of the tiles from `tile` against blocks b and, if `wide`, b + 1.
static void score_tiles_of(struct attend *s, int tile, int b, bool wide) {
	int n_rows = s->a->n_rows;
	struct product m = {.m = s->k + b, .piece_rows = (int)s->d, .m_stride = LANES, .n = (int)s->d, .c_stride = KV_UNIT_TOKENS, .ahead = s->v_ahead + b};
	if (wide) {
		m.second_bytes = (const uint8_t *)s->k[b + 1] - (const uint8_t *)s->k[b];
		m.ahead_second = (const char *)s->v_ahead[b + 1] - (const char *)s->v_ahead[b];
	}
	for (; tile < tile_count(n_rows); tile++) {
		int row = tile_begin(n_rows, tile), R = tile_begin(n_rows, tile + 1) - row;
		m.x = s->q + (size_t)row * s->d;
		m.c = s->w + (size_t)row * KV_UNIT_TOKENS + b * KV_BLOCK_TOKENS;
		fetch_next(s);
		score_tiles[s->type][wide][R - 1](&m);
	}
}

// Scores of the unit at p0 for the rows from `row`. A tile may hold earlier rows, which take no notice.
static void score_unit(struct attend *s, int row, int p0, int n_blocks) {
	const struct attention_args *a = s->a;
	bool thin = a->n_rows <= WIDE_ROWS;
	int tile = 0;
	for (int b = 0, n; b < n_blocks && !cancelled(a->cancel); b += n) {
		while (a->pos[row] < p0 + b * KV_BLOCK_TOKENS)
			row++;
		while (tile_begin(a->n_rows, tile + 1) <= row)
			tile++;
		n = thin && b + 1 < n_blocks ? 2 : 1;
		score_tiles_of(s, tile, b, n > 1);
	}
}

// The sixteen positions from p that row r sees.
static inline __mmask16 visible_lanes(const struct attention_args *a, int r, int p) {
	int n = a->pos[r] - p + 1;
	uint32_t seen = n >= 16 ? 0xffffu : (1u << (n > 0 ? n : 0)) - 1u;
	const uint32_t *bits = a->mask ? a->mask[r] : NULL;
	return (__mmask16)(bits ? seen & bits[p / 32] >> (p % 32) : seen);
}

// lanes + low half + high half: the order of eight lanes by p mod 8.
static inline __m256 add_halves(__m256 lanes, __m512 e) {
	lanes = _mm256_add_ps(lanes, _mm512_castps512_ps256(e));
	return _mm256_add_ps(lanes, _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(e), 1)));
}

// Turns the scores of row r into weights, 0 where nothing is seen; returns their largest score and, in *sum, their sum. *any: one is visible. The last
// sixteen positions may reach past those that the row looks at: weights of 0 in the sum change no bit, since it is +0 at least.
static float softmax_unit(struct attend *s, int r, int p0, float *sum, bool *any) {
	float *w = s->w + (size_t)r * KV_UNIT_TOKENS;
	int n = unit_positions(s->a->pos[r], p0), plain = plain_positions(s->a, r, p0) / 16 * 16;
	const __m512 lowest = _mm512_set1_ps(-INFINITY);
	__m512 top = lowest, top2 = lowest;
	unsigned all = 0;
	int i = 0;
	for (; i + 32 <= plain; i += 32) {
		top = _mm512_max_ps(_mm512_loadu_ps(w + i), top);
		top2 = _mm512_max_ps(_mm512_loadu_ps(w + i + 16), top2);
	}
	for (; i < plain; i += 16)
		top = _mm512_max_ps(_mm512_loadu_ps(w + i), top);
	for (; i < n; i += 16) {
		__mmask16 seen = visible_lanes(s->a, r, p0 + i);
		all |= seen;
		top = _mm512_max_ps(_mm512_mask_loadu_ps(lowest, seen, w + i), top);
	}
	float max = _mm512_reduce_max_ps(_mm512_max_ps(top2, top));
	__m512 maxes = _mm512_set1_ps(max);
	__m256 lanes = _mm256_setzero_ps();
	for (i = 0; i < plain; i += 16) {
		__m512 e = exp_sixteen_below_zero(_mm512_sub_ps(_mm512_loadu_ps(w + i), maxes));
		_mm512_storeu_ps(w + i, e);
		lanes = add_halves(lanes, e);
	}
	for (; i < n; i += 16) {
		__mmask16 seen = visible_lanes(s->a, r, p0 + i);
		__m512 e = exp_sixteen_below_zero(_mm512_sub_ps(_mm512_mask_loadu_ps(lowest, seen, w + i), maxes));
		e = _mm512_maskz_mov_ps(seen, e);
		_mm512_storeu_ps(w + i, e);
		lanes = add_halves(lanes, e);
	}
	*sum = sum_lanes(lanes);
	*any = plain > 0 || all != 0;
	return max;
}

// Weights × V for rows [row, end), which look at the same n positions.
static void weigh_values(struct attend *s, int row, int end, int n) {
	int n_rows = end - row, n_tiles = tile_count(n_rows);
	bool thin = n_rows <= WIDE_ROWS;
	struct product m = {.m_stride = s->converted ? LANES : s->d, .n = n, .c_stride = s->d, .ahead = s->k_ahead, .ahead_second = 64 * LANES,
	                    .piece_rows = s->converted ? KV_UNIT_TOKENS : KV_BLOCK_TOKENS,
	                    .second_bytes = (ptrdiff_t)(LANES * (s->converted ? sizeof(float) * KV_UNIT_TOKENS : elem_bytes(s->type)))};
	for (size_t d = 0, n_lanes; d < s->d; d += n_lanes) {
		bool wide = thin && d + 2 * LANES <= s->d;
		n_lanes = wide ? 2 * LANES : LANES;
		const void *slice = s->unit_v + d * KV_UNIT_TOKENS;
		m.m = s->converted ? &slice : s->v;
		m.m_offset = s->converted ? 0 : d;
		m.ahead_offset = 64 * d;
		for (int tile = 0; tile < n_tiles; tile++) {
			int r = row + tile_begin(n_rows, tile), R = row + tile_begin(n_rows, tile + 1) - r;
			m.x = s->w + (size_t)r * KV_UNIT_TOKENS;
			m.c = s->o + (size_t)r * s->d + d;
			fetch_next(s);
			weigh_tiles[s->type][wide][R - 1](&m);
		}
	}
}

static void merge_row(struct attend *s, int r) {
	struct row_state *state = s->state + r;
	float *out = s->a->out[r];
	const float *o = s->o + (size_t)r * s->d;
	if (!state->visible)
		return;
	__m512 scale_all = _mm512_set1_ps(state->scale_all), scale_unit = _mm512_set1_ps(state->scale_unit);
	for (size_t i = 0; i < s->d; i += 16) {
		__m512 unit = _mm512_loadu_ps(o + i);
		if (state->started)
			unit = _mm512_fmadd_ps(_mm512_loadu_ps(out + i), scale_all, _mm512_mul_ps(unit, scale_unit));
		_mm512_storeu_ps(out + i, unit);
	}
	state->started = 1;
}

// Rows [row, n_rows) over the unit at p0.
static void attend_unit(struct attend *s, int row, int p0) {
	const struct attention_args *a = s->a;
	int n_blocks = min_int((a->pos[a->n_rows - 1] - p0) / KV_BLOCK_TOKENS + 1, UNIT_BLOCKS);
	load_unit(s, p0, n_blocks, a->n_rows - row);
	score_unit(s, row, p0, n_blocks);
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

static void pack_queries(struct attend *s) {
	int n_rows = s->a->n_rows;
	for (int tile = 0; tile < tile_count(n_rows); tile++) {
		int row = tile_begin(n_rows, tile), R = tile_begin(n_rows, tile + 1) - row;
		float *to = s->q + (size_t)row * s->d;
		for (int r = 0; r < R; r++)
			for (size_t i = 0; i < s->d; i++)
				to[i * (size_t)R + (size_t)r] = s->a->q[row + r][i] * s->a->scale;
	}
}

static void divide_rows(struct attend *s) {
	for (int r = 0; r < s->a->n_rows; r++) {
		__m512 sum = _mm512_set1_ps(s->state[r].sum);
		for (float *out = s->a->out[r], *end = out + s->d; out < end; out += 16)
			_mm512_storeu_ps(out, _mm512_div_ps(_mm512_loadu_ps(out), sum));
	}
}

void attention_avx512(const struct attention_args *a) {
	if (a->n_rows < 1)
		return;
	if (a->head_dim % LANES) {
		attention_avx2(a);
		return;
	}
	size_t d = (size_t)a->head_dim, n_rows = (size_t)a->n_rows, unit = ATTENTION_UNIT_LANES(d) * KV_UNIT_TOKENS;
	float *p = a->scratch;
	struct attend s = {.a = a, .d = d, .unit_k = p, .unit_v = p + unit};
	s.w = p + 2 * unit;
	s.q = s.w + n_rows * KV_UNIT_TOKENS;
	s.o = s.q + n_rows * d;
	s.state = (struct row_state *)(void *)(s.o + n_rows * d);
	memset(s.state, 0, n_rows * sizeof s.state[0]);
	pack_queries(&s);
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
