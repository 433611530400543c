// SPDX-License-Identifier: MIT
// Attention over KV blocks: the scalar set against a softmax in double precision, every other set against the scalar
// set bit for bit, and each row of a tile against the same row alone (so decode equals prefill).
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/kernels/gen.h"

#define MAX_POSITIONS 1024
#define MAX_BLOCKS (MAX_POSITIONS / KV_BLOCK_TOKENS)

// KV of one head, and query rows; all owned.
struct scene {
	enum kv_type type;
	int d, n_rows;
	float *q, *out;                  // [n_rows][d]
	const float *q_rows[256];
	float *out_rows[256];
	int32_t pos[256];
	void *k[MAX_BLOCKS], *v[MAX_BLOCKS];
	uint32_t *masks[256];            // null entries: plain causal
	bool masked;
	void *scratch;
};

static void fill_blocks(struct scene *s, struct rng *g, const struct kernels *set, int n_positions) {
	float k[256], v[256];
	for (int p = 0; p < n_positions; p++) {
		for (int d = 0; d < s->d; d++) {
			k[d] = rng_float(g) * 3;
			v[d] = rng_float(g);
		}
		set->kv_store(s->type, s->d, p % KV_BLOCK_TOKENS, k, v, s->k[p / KV_BLOCK_TOKENS], s->v[p / KV_BLOCK_TOKENS]);
	}
}

// Rows: n_tokens tokens ending at position last, `heads` rows each.
static struct scene *make_scene(struct rng *g, const struct kernels *set, enum kv_type type, int d, int heads, int n_tokens,
                                int last, bool masked) {
	struct scene *s = calloc(1, sizeof *s);
	assert_non_null(s);
	s->type = type;
	s->d = d;
	s->n_rows = heads * n_tokens;
	s->masked = masked;
	s->q = alloc_bytes(sizeof(float) * (size_t)(s->n_rows * d));
	s->out = alloc_bytes(sizeof(float) * (size_t)(s->n_rows * d));
	s->scratch = alloc_bytes(kernels_attention_scratch_bytes(d, s->n_rows));
	size_t block_bytes = (size_t)(d * KV_BLOCK_TOKENS * kv_type_bytes(type));
	for (int b = 0; b <= last / KV_BLOCK_TOKENS; b++) {
		s->k[b] = alloc_bytes(block_bytes);
		s->v[b] = alloc_bytes(block_bytes);
		memset(s->k[b], 0, block_bytes); // slots past the last position are finite
		memset(s->v[b], 0, block_bytes);
	}
	fill_blocks(s, g, set, last + 1);
	for (int r = 0; r < s->n_rows; r++) {
		s->q_rows[r] = s->q + r * d;
		s->out_rows[r] = s->out + r * d;
		s->pos[r] = last - n_tokens + 1 + r / heads;
		for (int i = 0; i < d; i++)
			s->q[r * d + i] = rng_float(g) * 2;
		if (!masked || r % 3 == 2)
			continue;
		s->masks[r] = calloc(MAX_BLOCKS, sizeof(uint32_t));
		assert_non_null(s->masks[r]);
		for (int b = 0; b < MAX_BLOCKS; b++) // whole units hidden too
			s->masks[r][b] = b / 8 % 2 ? 0 : (uint32_t)(rng_next(g) & rng_next(g));
		int p = s->pos[r] / 256 % 2 ? 0 : s->pos[r];
		s->masks[r][p / 32] |= 1u << (p % 32);
	}
	return s;
}

static void free_scene(struct scene *s) {
	for (int b = 0; b < MAX_BLOCKS; b++) {
		free(s->k[b]);
		free(s->v[b]);
	}
	for (int r = 0; r < s->n_rows; r++)
		free(s->masks[r]);
	free(s->q);
	free(s->out);
	free(s->scratch);
	free(s);
}

// Runs rows [begin, begin + n) into s->out.
static void attend(struct scene *s, const struct kernels *set, int begin, int n) {
	struct attention_args a = {
		.kv_type = s->type, .head_dim = s->d, .n_rows = n, .scale = 1.0f / sqrtf((float)s->d), .q = s->q_rows + begin,
		.out = s->out_rows + begin, .pos = s->pos + begin, .k_blocks = (const void *const *)s->k,
		.v_blocks = (const void *const *)s->v, .mask = s->masked ? (const uint32_t *const *)s->masks + begin : NULL,
		.scratch = s->scratch};
	set->attention(&a);
}

static double stored(const struct scene *s, const void *block, int i) {
	if (s->type == KV_F32)
		return (double)((const float *)block)[i];
	uint16_t h = ((const uint16_t *)block)[i];
	return (double)(s->type == KV_F16 ? f16_to_f32(h) : bf16_to_f32(h));
}

static uint16_t half(enum kv_type type, float x) {
	return type == KV_F16 ? f32_to_f16(x) : f32_to_bf16(x);
}

static bool visible(const struct scene *s, int r, int p) {
	return !s->masks[r] || (s->masks[r][p / 32] >> (p % 32) & 1);
}

// Textbook softmax in double precision over the stored K and V.
static void true_row(const struct scene *s, int r, double *out) {
	static double score[MAX_POSITIONS];
	double max = -INFINITY, sum = 0;
	for (int p = 0; p <= s->pos[r]; p++) {
		score[p] = 0;
		for (int d = 0; d < s->d; d++)
			score[p] += (double)s->q_rows[r][d] * stored(s, s->k[p / 32], d * 32 + p % 32);
		score[p] /= sqrt(s->d);
		if (visible(s, r, p) && score[p] > max)
			max = score[p];
	}
	memset(out, 0, sizeof *out * (size_t)s->d);
	for (int p = 0; p <= s->pos[r]; p++) {
		double w = visible(s, r, p) ? exp(score[p] - max) : 0;
		sum += w;
		for (int d = 0; d < s->d; d++)
			out[d] += w * stored(s, s->v[p / 32], p % 32 * s->d + d);
	}
	for (int d = 0; d < s->d; d++)
		out[d] /= sum;
}

// |v| ≤ 1 and a score is off by some 1e-6 relative to its terms of size up to 30: 2e-5 holds with room.
static void check_truth(struct scene *s) {
	double truth[256];
	attend(s, scalar_set(), 0, s->n_rows);
	for (int r = 0; r < s->n_rows; r++) {
		true_row(s, r, truth);
		for (int d = 0; d < s->d; d++)
			if (!(fabs(truth[d] - (double)s->out_rows[r][d]) < 2e-5))
				fail_msg("row %d (position %d) channel %d: %.9g, truth %.9g", r, s->pos[r], d, (double)s->out_rows[r][d], truth[d]);
	}
}

static const struct {
	int d, heads, n_tokens, last;
	bool masked;
} shapes[] = {
	{64, 7, 1, 0, false},   {64, 7, 1, 300, false},  {64, 7, 32, 31, false},  {64, 7, 32, 290, false}, {64, 3, 9, 511, false},
	{64, 1, 1, 700, false}, {64, 2, 1, 256, false},  {128, 6, 5, 255, false}, {80, 1, 13, 40, false},  {8, 4, 2, 100, false},
	{64, 7, 3, 600, true},  {64, 1, 40, 530, true},  {128, 6, 1, 900, true},  {24, 8, 1, 33, true},    {64, 9, 1, 64, false},
	{64, 10, 1, 64, false}, {64, 11, 1, 64, false},  {96, 5, 1, 1023, false}, {64, 4, 64, 300, false},
};
#define N_SHAPES (sizeof shapes / sizeof shapes[0])

static struct scene *nth_scene(size_t i, enum kv_type type) {
	struct rng g = {100 + i};
	return make_scene(&g, scalar_set(), type, shapes[i].d, shapes[i].heads, shapes[i].n_tokens, shapes[i].last,
	                  shapes[i].masked);
}

static void test_truth(void **state) {
	(void)state;
	for (size_t i = 0; i < N_SHAPES; i++)
		for (enum kv_type type = KV_F16; type <= KV_BF16; type++) {
			struct scene *s = nth_scene(i, type);
			check_truth(s);
			free_scene(s);
		}
}

static void test_equal(void **state) {
	(void)state;
	for (size_t i = 0; i < N_SHAPES; i++)
		for (enum kv_type type = KV_F16; type <= KV_BF16; type++) {
			struct scene *s = nth_scene(i, type);
			size_t n_bytes = sizeof(float) * (size_t)(s->n_rows * s->d);
			float *expected = alloc_bytes(n_bytes);
			attend(s, scalar_set(), 0, s->n_rows);
			memcpy(expected, s->out, n_bytes);
			memset(s->out, 0x5a, n_bytes);
			attend(s, fast_set(), 0, s->n_rows);
			for (int j = 0; j < s->n_rows * s->d; j++)
				if (memcmp(expected + j, s->out + j, sizeof(float)))
					fail_msg("shape %zu type %d row %d channel %d: %a, expected %a", i, (int)type, j / s->d, j % s->d,
					         (double)s->out[j], (double)expected[j]);
			free(expected);
			free_scene(s);
		}
}

// Rows in any grouping give the same bits: decode (one token) equals any prefill tile.
static void check_rows_alone(const struct kernels *set) {
	for (size_t i = 0; i < N_SHAPES; i++) {
		struct scene *s = nth_scene(i, KV_F16);
		size_t n_bytes = sizeof(float) * (size_t)(s->n_rows * s->d);
		float *whole = alloc_bytes(n_bytes);
		attend(s, set, 0, s->n_rows);
		memcpy(whole, s->out, n_bytes);
		memset(s->out, 0x5a, n_bytes);
		struct rng g = {i};
		for (int r = 0, n; r < s->n_rows; r += n) {
			n = 1 + rng_below(&g, s->n_rows - r < 12 ? s->n_rows - r : 12);
			attend(s, set, r, n);
		}
		assert_memory_equal(whole, s->out, n_bytes);
		free(whole);
		free_scene(s);
	}
}

static void test_rows_alone(void **state) {
	(void)state;
	check_rows_alone(scalar_set());
	if (fast_set())
		check_rows_alone(fast_set());
}

// What lies behind a row's position in its blocks changes nothing, as long as it is finite.
static void test_future_is_invisible(void **state) {
	(void)state;
	struct rng g = {9};
	const struct kernels *sets[] = {scalar_set(), fast_set() ? fast_set() : scalar_set()};
	for (int i = 0; i < 2; i++) {
		struct scene *s = make_scene(&g, scalar_set(), KV_F16, 64, 7, 2, 72, false);
		float before[14 * 64];
		attend(s, sets[i], 0, 14);
		memcpy(before, s->out, sizeof before);
		float k[64], v[64];
		for (int d = 0; d < 64; d++) {
			k[d] = 60000;
			v[d] = -60000;
		}
		for (int slot = 9; slot < 32; slot++)
			scalar_set()->kv_store(KV_F16, 64, slot, k, v, s->k[2], s->v[2]);
		attend(s, sets[i], 0, 14);
		assert_memory_equal(before, s->out, sizeof before);
		free_scene(s);
	}
}

// kv_store puts values at K[d][slot] and V[slot][d] and nowhere else, and all sets store the same halves.
static void test_kv_store(void **state) {
	(void)state;
	enum { D = 40, N = D * KV_BLOCK_TOKENS };
	struct rng g = {11};
	const struct kernels *sets[] = {scalar_set(), fast_set() ? fast_set() : scalar_set()};
	for (int i = 0; i < 4; i++) {
		uint16_t kb[N], vb[N];
		memset(kb, 0xee, sizeof kb);
		memset(vb, 0xee, sizeof vb);
		float k[D], v[D];
		for (int d = 0; d < D; d++) {
			uint32_t bits = (uint32_t)rng_next(&g); // any float at all, NaN and infinities too
			memcpy(k + d, &bits, 4);
			v[d] = rng_float(&g);
		}
		enum kv_type type = i < 2 ? KV_F16 : KV_BF16;
		sets[i % 2]->kv_store(type, D, 5, k, v, kb, vb);
		for (int d = 0; d < D; d++)
			for (int slot = 0; slot < KV_BLOCK_TOKENS; slot++) {
				assert_int_equal(kb[d * KV_BLOCK_TOKENS + slot], slot == 5 ? half(type, k[d]) : 0xeeee);
				assert_int_equal(vb[slot * D + d], slot == 5 ? half(type, v[d]) : 0xeeee);
			}
	}
}

int main(void) {
	const struct CMUnitTest all[] = {cmocka_unit_test(test_truth), cmocka_unit_test(test_rows_alone),
	                                 cmocka_unit_test(test_future_is_invisible), cmocka_unit_test(test_kv_store)};
	const struct CMUnitTest equal[] = {cmocka_unit_test(test_equal)};
	int failed = cmocka_run_group_tests_name("attention", all, NULL, NULL);
	if (fast_set())
		return failed + cmocka_run_group_tests_name("equal", equal, NULL, NULL);
	printf("skipped: this CPU or build has only the scalar set, nothing to compare\n");
	return failed ? failed : EXIT_SKIP;
}
