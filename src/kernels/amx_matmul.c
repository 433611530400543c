// SPDX-License-Identifier: MIT
// Products of quantised weights and quantised activations of many tokens by AMX int8 tiles. The same chain of fused steps per output as everywhere.
//
// A tile is 16 tokens × 16 rows: one tdpbssd gives the int32 sums of a 32-block (two of them for Q6_K, a half each), which go through memory, since
// tiles have no other way out, into sixteen vectors of 16 rows in AVX-512 registers: one fused step each, C staying in registers for a chunk of k.
//   for each token block: for each chunk of k: repack activations; for each 16 rows: unpack, tiles.
// Weight codes are unpacked signed, so sums start at zero. All integers are exact: |sum| ≤ 32·128·128 = 2^19; Q6_K's two sums times their scales
// stay below 2^24 as in the VNNI set. Sums are used two blocks after they were made, which hides the tile unit's latency.
// Few tokens, and numbers of tokens that would leave many of 16 lines empty, go the VNNI way; the last rows the AVX2 way.
// Threads: the process must be allowed to use tiles (cpu_flags() asks for it); each call sets the tiles of its thread up and releases them.
// Stateless; scratch is the caller's.
#include "kernels/avx2_common.h"
#include "kernels/avx2_sets.h"
#include "kernels/avx512_unpack.h"
#include "kernels/sets.h"

#define GROUP_TOKENS AMX_GROUP_TOKENS
#define CHUNK_BLOCKS 40
#define MAX_PANELS 2 // of 16 rows: two lines of y side by side
#define SUM_SLOTS 4 // blocks whose sums are kept: a power of two above LAG
#define LAG 2       // blocks between making sums and using them

enum tile_kind {
	TILE_PLAIN, // Q4_0 Q5_0 Q8_0
	TILE_MIN,   // Q4_1 Q5_1 Q4_K Q5_K
	TILE_K6,    // Q6_K
};

// Activations of 16 tokens for one 32-block; zeros for tokens that are not there.
struct act_group {
	alignas(64) int8_t q[GROUP_TOKENS][32];
	float d[GROUP_TOKENS];
	float d_sum[GROUP_TOKENS]; // d·(float)sum
};
_Static_assert(AMX_TOKEN_BLOCK % GROUP_TOKENS == 0 && CHUNK_BLOCKS <= MM_CHUNK_BLOCKS &&
	sizeof(struct act_group) == AMX_GROUP_BLOCK_BYTES, "scratch");
_Static_assert(MAX_PANELS * CHUNK_BLOCKS * sizeof(struct wide_block) <= MM_PANELS * MM_CHUNK_BLOCKS * MM_PANEL_BLOCK_BYTES, "scratch");

struct plan {
	const struct weight *w;
	enum tile_kind kind;
	uint8_t bias; // makes codes signed
	int n_blocks;
	const struct act_block *act;
	float *y;
	size_t y_stride;
	struct wide_block *panel; // [MAX_PANELS][CHUNK_BLOCKS]
	struct act_group *packed; // [AMX_TOKEN_BLOCK / 16][blocks of the chunk]
	const _Atomic int *cancel;
};

static void choose_kind(struct plan *p, enum dtype type) {
	switch (type) {
	case DTYPE_Q4_0: p->kind = TILE_PLAIN; p->bias = 8; break;
	case DTYPE_Q5_0: p->kind = TILE_PLAIN; p->bias = 16; break;
	case DTYPE_Q4_1:
	case DTYPE_Q5_1:
	case DTYPE_Q4_K:
	case DTYPE_Q5_K: p->kind = TILE_MIN; break;
	case DTYPE_Q6_K: p->kind = TILE_K6; p->bias = 32; break;
	default: p->kind = TILE_PLAIN; break;
	}
}

// Tiles by number: 0 to 3 sums, 4 and 5 activations, 6 and 7 weights.
struct tile_config {
	uint8_t palette, start_row, reserved[14];
	uint16_t row_bytes[16];
	uint8_t rows[16];
};
_Static_assert(sizeof(struct tile_config) == 64, "as the instruction reads it");

// `k`: values that one product sums, 32 or 16.
static void tiles_setup(int k) {
	struct tile_config c = {.palette = 1};
	for (int i = 0; i < 8; i++) {
		c.rows[i] = i < 6 ? GROUP_TOKENS : (uint8_t)(k / 4);
		c.row_bytes[i] = i == 4 || i == 5 ? (uint16_t)k : 64;
	}
	// Not _tile_loadconfig: gcc 12 takes it for a read of 8 bytes and drops the other stores.
	__asm__ volatile("ldtilecfg %0" : : "m"(c));
}

// Repacks blocks [block, block + n) of tokens [token, token + n_tokens), n_tokens ≤ 16, to out[n].
static void repack_group(const struct plan *p, int token, int n_tokens, int block, int n, struct act_group *out) {
	for (int b = 0; b < n; b++, out++) {
		const struct act_block *a = p->act + (size_t)token * (size_t)p->n_blocks + (size_t)(block + b);
		for (int t = 0; t < n_tokens; t++, a += p->n_blocks) {
			_mm256_store_si256((__m256i *)(void *)out->q[t], _mm256_loadu_si256((const __m256i *)(const void *)a->q));
			out->d[t] = a->d;
			out->d_sum[t] = a->d * (float)a->sum;
		}
		for (int t = n_tokens; t < GROUP_TOKENS; t++) {
			memset(out->q[t], 0, sizeof out->q[t]);
			out->d[t] = out->d_sum[t] = 0.0f;
		}
	}
}

#define EACH_TOKEN(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)

// What comes after a tile, asked for while it runs.
struct next {
	struct ahead weights;
	const float *c; // 16 lines of y, each in a page of its own; a stride of 0 for none
	size_t c_stride;
};

// 16 tokens × 16 rows over n blocks. c[16] are rows of y; `first`: they start at +0. The outputs have names of their own because the compiler keeps
// arrays of them in memory.
ALWAYS_INLINE void tile(const struct wide_block *w, int n, const struct act_group *act, float *c, size_t c_stride, bool first, struct next *next,
                        enum tile_kind kind) {
	alignas(64) int32_t sums[2][SUM_SLOTS][GROUP_TOKENS][WIDE_ROWS]; // the second half's only for Q6_K
#define LOAD_C(t) __m512 c##t = first ? _mm512_setzero_ps() : _mm512_loadu_ps(c + (t) * c_stride);
	EACH_TOKEN(LOAD_C)
#undef LOAD_C
	__asm__ volatile("" : : : "memory"); // tile loads are not known to read memory
	for (int b = 0; b < n + LAG; b++) {
		if (b < n) {
			_tile_zero(0);
			_tile_loadd(4, act[b].q, 32);
			_tile_loadd(6, w[b].codes, 64);
			_tile_dpbssd(0, 4, 6);
			_tile_stored(0, sums[0][b % SUM_SLOTS], 64);
			if (kind == TILE_K6) {
				_tile_zero(1);
				_tile_loadd(5, act[b].q[0] + 16, 32);
				_tile_loadd(7, w[b].codes[4], 64);
				_tile_dpbssd(1, 5, 7);
				_tile_stored(1, sums[1][b % SUM_SLOTS], 64);
			}
			ask_ahead(&next->weights);
			if (b < GROUP_TOKENS)
				__builtin_prefetch(next->c + (size_t)b * next->c_stride, 1, 3);
		}
		if (b < LAG)
			continue;
		const struct wide_block *wb = w + (b - LAG);
		const struct act_group *ab = act + (b - LAG);
		int slot = (b - LAG) % SUM_SLOTS;
		const __m512 scale = _mm512_load_ps(wb->scale);
#define SUM(half, t) _mm512_cvtepi32_ps(_mm512_load_si512((const void *)sums[half][slot][t]))
		if (kind == TILE_K6) {
			const __m512 h0 = _mm512_load_ps(wb->half_scale[0]), h1 = _mm512_load_ps(wb->half_scale[1]);
#define STEP(t) \
	c##t = _mm512_fmadd_ps(_mm512_fmadd_ps(SUM(1, t), h1, _mm512_mul_ps(SUM(0, t), h0)), \
	                       _mm512_mul_ps(scale, _mm512_set1_ps(ab->d[t])), c##t);
			EACH_TOKEN(STEP)
#undef STEP
		} else {
			const __m512 min = _mm512_load_ps(wb->min);
#define STEP(t) \
	c##t = _mm512_fmadd_ps(SUM(0, t), _mm512_mul_ps(scale, _mm512_set1_ps(ab->d[t])), c##t); \
	if (kind == TILE_MIN) \
		c##t = _mm512_fmadd_ps(min, _mm512_set1_ps(ab->d_sum[t]), c##t);
			EACH_TOKEN(STEP)
#undef STEP
		}
#undef SUM
	}
#define STORE_C(t) _mm512_storeu_ps(c + (t) * c_stride, c##t);
	EACH_TOKEN(STORE_C)
#undef STORE_C
}

typedef void tile_fn(const struct wide_block *w, int n, const struct act_group *act, float *c, size_t c_stride, bool first, struct next *next);

#define DEFINE_TILE(kind) \
	static void tile_##kind(const struct wide_block *w, int n, const struct act_group *act, float *c, size_t c_stride, bool first, \
	                        struct next *next) { \
		tile(w, n, act, c, c_stride, first, next, kind); \
	}
DEFINE_TILE(TILE_PLAIN)
DEFINE_TILE(TILE_MIN)
DEFINE_TILE(TILE_K6)
#undef DEFINE_TILE
static tile_fn *const tiles[] = {tile_TILE_PLAIN, tile_TILE_MIN, tile_TILE_K6};

// A tile of which only n_tokens lines belong to y: by way of a whole one.
static void tile_part(const struct plan *p, const struct wide_block *panel, int n, const struct act_group *act, float *c, bool first, int n_tokens,
                      struct next *next) {
	alignas(64) float whole[GROUP_TOKENS][WIDE_ROWS] = {{0}};
	for (int t = 0; t < n_tokens && !first; t++)
		memcpy(whole[t], c + (size_t)t * p->y_stride, sizeof whole[t]);
	tiles[p->kind](panel, n, act, whole[0], WIDE_ROWS, first, next);
	for (int t = 0; t < n_tokens; t++)
		memcpy(c + (size_t)t * p->y_stride, whole[t], sizeof whole[t]);
}

// One chunk of k for n_panels·16 rows from `row` and n_tokens tokens from `token`; `row_end`: of the rows to come.
static void panel_tokens(const struct plan *p, int row, int n_panels, int row_end, int token, int n_tokens, int block, int n) {
	size_t row_bytes = dtype_row_bytes(p->w->type, p->w->k);
	for (int i = 0; i < n_panels; i++)
		unpack_wide(p->w->type, (const uint8_t *)p->w->data + (size_t)(row + i * WIDE_ROWS) * row_bytes, row_bytes, block, n, p->bias,
		            p->panel + i * CHUNK_BLOCKS);
	int next_row = row + n_panels * WIDE_ROWS, n_groups = (n_tokens + GROUP_TOKENS - 1) / GROUP_TOKENS;
	int next_row_end = min_int(next_row + MAX_PANELS * WIDE_ROWS, row_end);
	struct next next = {.weights = look_ahead(p->w, next_row, next_row_end, block, n, n_groups * n_panels * n)};
	float *c = p->y + (size_t)token * p->y_stride + (size_t)row;
	for (int g = 0; g < n_groups; g++, c += GROUP_TOKENS * p->y_stride) {
		const struct act_group *act = p->packed + (size_t)g * (size_t)n;
		int left = n_tokens - g * GROUP_TOKENS;
		bool more = left >= 2 * GROUP_TOKENS;
		next.c_stride = more ? p->y_stride : 0;
		for (int i = 0; i < n_panels; i++) {
			const struct wide_block *panel = p->panel + i * CHUNK_BLOCKS;
			float *ci = c + i * WIDE_ROWS;
			next.c = more ? ci + GROUP_TOKENS * p->y_stride : ci;
			if (left >= GROUP_TOKENS)
				tiles[p->kind](panel, n, act, ci, p->y_stride, block == 0, &next);
			else
				tile_part(p, panel, n, act, ci, block == 0, left, &next);
		}
	}
}

// Rows [row_begin, row_end), a multiple of 16, for one token block. False when cancelled.
static bool token_block(const struct plan *p, int row_begin, int row_end, int token, int n_tokens) {
	for (int b = 0; b < p->n_blocks; b += CHUNK_BLOCKS) {
		int n = min_int(CHUNK_BLOCKS, p->n_blocks - b);
		for (int t = 0; t < n_tokens; t += GROUP_TOKENS)
			repack_group(p, token + t, min_int(GROUP_TOKENS, n_tokens - t), b, n, p->packed + (size_t)(t / GROUP_TOKENS) * (size_t)n);
		for (int row = row_begin, n_panels; row < row_end; row += n_panels * WIDE_ROWS) {
			if (cancelled(p->cancel))
				return false;
			n_panels = min_int(MAX_PANELS, (row_end - row) / WIDE_ROWS);
			panel_tokens(p, row, n_panels, row_end, token, n_tokens, b, n);
		}
	}
	return true;
}

// A tile takes 16 tokens' time for however few; per token VNNI takes a third more than a full tile (measured).
static bool tiles_pay(int n_tokens) {
	int padded = (n_tokens + GROUP_TOKENS - 1) / GROUP_TOKENS * GROUP_TOKENS;
	return 3 * padded <= 4 * n_tokens;
}

void matmul_amx(const struct weight *w, int row_begin, int row_end, const struct act_block *act, int n_tokens,
                float *y, size_t y_stride, void *scratch, const _Atomic int *cancel) {
	int whole_end = row_begin + (row_end - row_begin) / WIDE_ROWS * WIDE_ROWS;
	if (!tiles_pay(n_tokens) || whole_end == row_begin) {
		matmul_avx512(w, row_begin, row_end, act, n_tokens, y, y_stride, scratch, cancel);
		return;
	}
	struct plan p = {.w = w, .n_blocks = w->k / 32, .act = act, .y = y, .y_stride = y_stride, .panel = scratch, .cancel = cancel};
	p.packed = (struct act_group *)(void *)(p.panel + MAX_PANELS * CHUNK_BLOCKS);
	choose_kind(&p, w->type);
	tiles_setup(p.kind == TILE_K6 ? 16 : 32);
	bool going = true;
	for (int t = 0; t < n_tokens && going; t += AMX_TOKEN_BLOCK)
		going = token_block(&p, row_begin, whole_end, t, min_int(AMX_TOKEN_BLOCK, n_tokens - t));
	_tile_release(); // so that the system need not save tiles when it switches threads
	if (whole_end < row_end && going)
		matmul_avx2(w, whole_end, row_end, act, n_tokens, y, y_stride, scratch, cancel);
}
