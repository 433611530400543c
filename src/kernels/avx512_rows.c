// SPDX-License-Identifier: MIT
// AVX-512 VNNI products of quantised weights and quantised activations of up to MM_FEW_TOKENS tokens: decode, and the check of a guess.
//
// Such products wait for memory, so the sixteen lanes of a panel are a sixteenth of the rows apart: memory is read as sixteen long ascending streams,
// each asked for ahead. A chunk of eight 32-blocks is unpacked, which stays in L1, and met by one tile of all tokens: T sums of 16 rows.
// vpdpbusd takes unsigned codes; what must be taken off them (as in avx512_matmul.c) starts the sum as -offset·Σq. Integers are exact and the chain of
// fused steps per output is that of every other way. Stateless; scratch is the caller's.
#include "kernels/avx2_common.h"
#include "kernels/avx2_sets.h"
#include "kernels/avx512_unpack.h"
#include "kernels/sets.h"

#define CHUNK_BLOCKS 8     // one K block
#define PREFETCH_BYTES 512 // ahead in each stream

enum tile_kind {
	TILE_PLAIN, // offset in the starting value: Q4_0 Q5_0 Q8_0
	TILE_MIN,   // Q4_1 Q5_1 Q4_K Q5_K
	TILE_K6,    // Q6_K
};

// One token's activations of a 32-block.
struct few_act {
	int8_t q[32];
	float d, d_sum;         // d_sum = d·(float)Σq
	int32_t start, start2;  // -offset·Σq; Q6_K: of k 0..15, and of k 16..31
};
_Static_assert(sizeof(struct few_act) * MM_FEW_TOKENS == MM_FEW_BLOCK_BYTES, "scratch is sized by this");
_Static_assert(CHUNK_BLOCKS * sizeof(struct wide_block) <= MM_PANELS * MM_CHUNK_BLOCKS * MM_PANEL_BLOCK_BYTES, "scratch");

struct plan {
	const struct weight *w;
	enum tile_kind kind;
	int offset;
	size_t row_bytes;
	int n_blocks, n_tokens;
	float *y;
	size_t y_stride;
	struct wide_block *panel; // [CHUNK_BLOCKS]
	struct few_act *act;      // [n_blocks][n_tokens]
};

static void choose_kind(struct plan *p, enum dtype type) {
	switch (type) {
	case DTYPE_Q4_0: p->kind = TILE_PLAIN; p->offset = 8; break;
	case DTYPE_Q5_0: p->kind = TILE_PLAIN; p->offset = 16; break;
	case DTYPE_Q4_1:
	case DTYPE_Q5_1:
	case DTYPE_Q4_K:
	case DTYPE_Q5_K: p->kind = TILE_MIN; break;
	case DTYPE_Q6_K: p->kind = TILE_K6; p->offset = 32; break;
	default: p->kind = TILE_PLAIN; p->offset = 128; break;
	}
}

// Σ of the first 16 of a block.
static int first_half_sum(const int8_t *q) {
	__m128i pairs = _mm_maddubs_epi16(_mm_set1_epi8(1), _mm_loadu_si128((const __m128i *)(const void *)q));
	__m128i s = _mm_madd_epi16(pairs, _mm_set1_epi16(1));
	s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
	s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1));
	return _mm_cvtsi128_si32(s);
}

static void pack_activations(const struct plan *p, const struct act_block *act) {
	for (int t = 0; t < p->n_tokens; t++) {
		for (int b = 0; b < p->n_blocks; b++, act++) {
			struct few_act *to = p->act + (size_t)b * (size_t)p->n_tokens + (size_t)t;
			int first = p->kind == TILE_K6 ? first_half_sum(act->q) : act->sum;
			memcpy(to->q, act->q, sizeof to->q);
			to->d = act->d;
			to->d_sum = act->d * (float)act->sum;
			to->start = -p->offset * first;
			to->start2 = -p->offset * (act->sum - first);
		}
	}
}

#define EACH_TOKEN(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

// T tokens × 16 rows over n blocks into c[T][16]; `first`: they start at +0. The sums have names of their own because the compiler keeps arrays of
// them in memory.
ALWAYS_INLINE void tile(const struct wide_block *panel, int n, const struct few_act *a, float *c, bool first, int T, enum tile_kind kind) {
	const __m512 zero = _mm512_setzero_ps();
#define LOAD_C(t) __m512 c##t = !first && T > t ? _mm512_loadu_ps(c + WIDE_ROWS * t) : zero;
	EACH_TOKEN(LOAD_C)
#undef LOAD_C
	for (int b = 0; b < n; b++, panel++, a += T) {
#define START(t) __m512i s##t = _mm512_set1_epi32(T > t ? a[T > t ? t : 0].start : 0);
		EACH_TOKEN(START)
#undef START
#define DOT(t) \
	if (T > t) \
		s##t = _mm512_dpbusd_epi32(s##t, codes, _mm512_set1_epi32((int)load_u32(a[t].q + 4 * v)));
#define DOTS(begin, end) \
	_Pragma("GCC unroll 8") for (int v = begin; v < end; v++) { \
		__m512i codes = _mm512_load_si512((const void *)panel->codes[v]); \
		EACH_TOKEN(DOT) \
	}
		__m512 scale = _mm512_load_ps(panel->scale);
		if (kind != TILE_K6) {
			DOTS(0, 8)
			__m512 min = kind == TILE_MIN ? _mm512_load_ps(panel->min) : zero;
#define FINISH(t) \
	if (T > t) { \
		c##t = _mm512_fmadd_ps(_mm512_cvtepi32_ps(s##t), _mm512_mul_ps(scale, _mm512_set1_ps(a[t].d)), c##t); \
		if (kind == TILE_MIN) \
			c##t = _mm512_fmadd_ps(min, _mm512_set1_ps(a[t].d_sum), c##t); \
	}
			EACH_TOKEN(FINISH)
#undef FINISH
		} else {
			DOTS(0, 4)
			__m512 half = _mm512_load_ps(panel->half_scale[0]);
#define FIRST_HALF(t) \
	__m512 i##t = _mm512_mul_ps(_mm512_cvtepi32_ps(s##t), half); \
	s##t = _mm512_set1_epi32(T > t ? a[T > t ? t : 0].start2 : 0);
			EACH_TOKEN(FIRST_HALF)
#undef FIRST_HALF
			DOTS(4, 8)
			half = _mm512_load_ps(panel->half_scale[1]);
#define FINISH(t) \
	if (T > t) { \
		i##t = _mm512_fmadd_ps(_mm512_cvtepi32_ps(s##t), half, i##t); \
		c##t = _mm512_fmadd_ps(i##t, _mm512_mul_ps(scale, _mm512_set1_ps(a[t].d)), c##t); \
	}
			EACH_TOKEN(FINISH)
#undef FINISH
		}
#undef DOTS
#undef DOT
	}
#define STORE_C(t) \
	if (T > t) \
		_mm512_storeu_ps(c + WIDE_ROWS * t, c##t);
	EACH_TOKEN(STORE_C)
#undef STORE_C
}

typedef void tile_fn(const struct wide_block *panel, int n, const struct few_act *a, float *c, bool first);

#define DEFINE_TILE(kind, T) \
	static void tile_##kind##_##T(const struct wide_block *panel, int n, const struct few_act *a, float *c, bool first) { \
		tile(panel, n, a, c, first, T, kind); \
	}
#define DEFINE_TILES(kind) \
	DEFINE_TILE(kind, 1) DEFINE_TILE(kind, 2) DEFINE_TILE(kind, 3) DEFINE_TILE(kind, 4) DEFINE_TILE(kind, 5) DEFINE_TILE(kind, 6) \
	DEFINE_TILE(kind, 7) DEFINE_TILE(kind, 8)
DEFINE_TILES(TILE_PLAIN)
DEFINE_TILES(TILE_MIN)
DEFINE_TILES(TILE_K6)
#define TILE_ROW(kind) \
	{tile_##kind##_1, tile_##kind##_2, tile_##kind##_3, tile_##kind##_4, tile_##kind##_5, tile_##kind##_6, tile_##kind##_7, tile_##kind##_8}
static tile_fn *const tiles[3][MM_FEW_TOKENS] = {TILE_ROW(TILE_PLAIN), TILE_ROW(TILE_MIN), TILE_ROW(TILE_K6)};
#undef TILE_ROW
#undef DEFINE_TILES
#undef DEFINE_TILE

// Asks for the next bytes of the streams. As rows follow each other in a stream, looking past the end of a row is right.
ALWAYS_INLINE void prefetch_lanes(const uint8_t *rows, size_t lane_bytes, size_t n_bytes) {
	for (size_t r = 0; r < WIDE_ROWS; r++)
		for (size_t i = 0; i < n_bytes; i += 64)
			_mm_prefetch((const char *)rows + r * lane_bytes + PREFETCH_BYTES + i, _MM_HINT_T0);
}

// The 16 rows `row` + lane·step.
static void panel_rows(const struct plan *p, int row, int step) {
	const uint8_t *rows = (const uint8_t *)p->w->data + (size_t)row * p->row_bytes;
	size_t lane_bytes = (size_t)step * p->row_bytes, chunk_bytes = dtype_row_bytes(p->w->type, 32 * CHUNK_BLOCKS);
	float c[MM_FEW_TOKENS * WIDE_ROWS];
	tile_fn *fn = tiles[p->kind][p->n_tokens - 1];
	for (int b = 0; b < p->n_blocks; b += CHUNK_BLOCKS) {
		int n = min_int(CHUNK_BLOCKS, p->n_blocks - b);
		prefetch_lanes(rows + chunk_bytes * (size_t)(b / CHUNK_BLOCKS), lane_bytes, chunk_bytes);
		unpack_wide(p->w->type, rows, lane_bytes, b, n, p->w->type == DTYPE_Q8_0 ? 128 : 0, p->panel);
		fn(p->panel, n, p->act + (size_t)b * (size_t)p->n_tokens, c, b == 0);
	}
	for (int t = 0; t < p->n_tokens; t++)
		for (int r = 0; r < WIDE_ROWS; r++)
			p->y[(size_t)t * p->y_stride + (size_t)(row + r * step)] = c[t * WIDE_ROWS + r];
}

void matmul_rows_avx512(const struct weight *w, int row_begin, int row_end, const struct act_block *act, int n_tokens, float *y, size_t y_stride,
                        void *scratch, const _Atomic int *cancel) {
	struct plan p = {.w = w, .row_bytes = dtype_row_bytes(w->type, w->k), .n_blocks = w->k / 32, .n_tokens = n_tokens, .y = y, .y_stride = y_stride,
	                 .panel = scratch};
	p.act = (struct few_act *)(void *)(p.panel + CHUNK_BLOCKS);
	choose_kind(&p, w->type);
	pack_activations(&p, act);
	int step = (row_end - row_begin) / WIDE_ROWS;
	for (int row = row_begin; row < row_begin + step; row++) {
		if (cancelled(cancel))
			return;
		panel_rows(&p, row, step);
	}
	// A rest of fewer than 16 rows is done as the last 16: rows done twice get the same bits.
	if ((row_end - row_begin) % WIDE_ROWS)
		panel_rows(&p, row_end - WIDE_ROWS, 1);
}
