// SPDX-License-Identifier: MIT
// Two kernel sets side by side on one thread, by CPU time, in turn within one process: figures that other work on the machine disturbs least.
// Usage: bench_pair attention|rows [SET SET], sets as MASKSTORE_ISA names them (default avx2 avx512).
//
// attention: head_dim 64 × 7 heads (and 128 × 6), f16; K and V lie as those of 48 KV heads do in the store, and each call takes the next head, so that
// memory is read as in a model of 24 layers. All on large pages, as in a server. rows: products of 1..8 tokens with matrices that come from memory (32 MiB) and from L2 (1 MiB).
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/pages.h"
#include "tests/kernels/gen.h"

#define ROUNDS 9
#define MAX_TOKENS 8
#define WEIGHT_BYTES ((size_t)32 << 20)

static double cpu_s(void) {
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

// Runs `once` for each set in turn, ROUNDS times (and once before); best[2] and median[2] in seconds.
static void measure(const struct kernels *const set[2], void once(const struct kernels *, void *, int), void *arg, double best[2], double median[2]) {
	double s[2][ROUNDS];
	for (int i = -1; i < ROUNDS; i++)
		for (int j = 0; j < 2; j++) {
			double start = cpu_s();
			once(set[j], arg, i + 1);
			if (i >= 0)
				s[j][i] = cpu_s() - start;
		}
	for (int j = 0; j < 2; j++) {
		qsort(s[j], ROUNDS, sizeof(double), by_value);
		best[j] = s[j][0];
		median[j] = s[j][ROUNDS / 2];
	}
}

#define N_HEADS 48

struct attention_job {
	struct attention_args a;
	const void **blocks; // [N_HEADS][2][n_blocks]
	int n_blocks;
	int repeats;
};

static void attend(const struct kernels *set, void *arg, int round) {
	struct attention_job *j = arg;
	for (int i = 0; i < j->repeats; i++) {
		struct attention_args a = j->a;
		size_t head = (size_t)((round * j->repeats + i) % N_HEADS);
		a.k_blocks = j->blocks + head * 2 * (size_t)j->n_blocks;
		a.v_blocks = a.k_blocks + j->n_blocks;
		set->attention(&a);
	}
}

// Halves of 0.5 to 1 of either sign.
static void fill_halves(struct rng *g, uint8_t *p, size_t n_bytes) {
	for (size_t i = 0; i < n_bytes; i += 8) {
		uint64_t four = (rng_next(g) & 0x83ff83ff83ff83ffu) | 0x3800380038003800u;
		memcpy(p + i, &four, sizeof four);
	}
}

static void bench_attention(const struct kernels *const set[2], int d, int heads, int n_ctx, int n_tokens) {
	struct rng g = {1};
	size_t n_blocks = (size_t)(n_ctx + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS, piece = (size_t)d * KV_BLOCK_TOKENS * 2;
	int n_rows = heads * n_tokens;
	size_t kv_bytes = n_blocks * N_HEADS * 2 * piece;
	uint8_t *kv = pages_alloc(kv_bytes);
	if (!kv)
		abort();
	fill_halves(&g, kv, kv_bytes);
	float *q = alloc_bytes(sizeof(float) * (size_t)(d * n_rows)), *out = alloc_bytes(sizeof(float) * (size_t)(d * n_rows));
	for (int i = 0; i < d * n_rows; i++)
		q[i] = rng_float(&g);
	const void **blocks = alloc_bytes(sizeof *blocks * n_blocks * N_HEADS * 2);
	for (size_t head = 0; head < N_HEADS; head++)
		for (size_t b = 0; b < n_blocks; b++)
			for (size_t v = 0; v < 2; v++)
				blocks[(head * 2 + v) * n_blocks + b] = kv + ((b * N_HEADS + head) * 2 + v) * piece;
	const float *q_rows[KERNELS_ATTENTION_MAX_ROWS];
	float *out_rows[KERNELS_ATTENTION_MAX_ROWS];
	int32_t pos[KERNELS_ATTENTION_MAX_ROWS];
	for (int r = 0; r < n_rows; r++) {
		q_rows[r] = q + r * d;
		out_rows[r] = out + r * d;
		pos[r] = n_ctx - n_tokens + r / heads;
	}
	struct attention_job j = {.blocks = blocks, .n_blocks = (int)n_blocks, .repeats = n_tokens > 4 ? 1 : 16384 / n_ctx};
	j.a = (struct attention_args){.kv_type = KV_F16, .head_dim = d, .n_rows = n_rows, .scale = 0.125f, .q = q_rows, .out = out_rows, .pos = pos,
	                              .scratch = alloc_bytes(kernels_attention_scratch_bytes(d, n_rows))};
	double best[2], median[2], flops = 4.0 * d * n_rows * n_ctx;
	measure(set, attend, &j, best, median);
	printf("d %-3d × %d heads, context %-5d %2d tokens:", d, heads, n_ctx, n_tokens);
	for (int i = 0; i < 2; i++)
		printf("  %s %8.1f us best %8.1f median %5.1f GFLOPS", set[i]->name, 1e6 * best[i] / j.repeats, 1e6 * median[i] / j.repeats,
		       flops * j.repeats / median[i] / 1e9);
	printf("  ratio %.2f\n", median[0] / median[1]);
	fflush(stdout);
	pages_free(kv, kv_bytes);
	free(q);
	free(out);
	free(blocks);
	free(j.a.scratch);
}

struct rows_job {
	struct weight w;
	struct act_block *act;
	float *y;
	void *scratch;
	int n_tokens, repeats;
};

static void multiply(const struct kernels *set, void *arg, int round) {
	struct rows_job *j = arg;
	(void)round;
	for (int i = 0; i < j->repeats; i++)
		set->matmul(&j->w, 0, j->w.n_rows, j->act, j->n_tokens, j->y, (size_t)j->w.n_rows, j->scratch, NULL);
}

static void bench_rows(const struct kernels *const set[2], enum dtype type, int k, size_t n_bytes) {
	struct rng g = {type};
	size_t row = dtype_row_bytes(type, k);
	int n_rows = (int)(n_bytes / row) / 16 * 16;
	struct rows_job j = {.w = make_weight(&g, type, n_rows, k, FILL_RANDOM), .act = make_act(&g, set[0], MAX_TOKENS, k, false),
	                     .y = alloc_bytes(sizeof(float) * MAX_TOKENS * (size_t)n_rows), .scratch = alloc_bytes(kernels_matmul_scratch_bytes(k)),
	                     .repeats = (int)(WEIGHT_BYTES / n_bytes)};
	size_t weight_bytes = row * (size_t)n_rows;
	void *on_large_pages = pages_alloc(weight_bytes);
	if (!on_large_pages)
		abort();
	memcpy(on_large_pages, j.w.data, weight_bytes);
	free((void *)j.w.data);
	j.w.data = on_large_pages;
	printf("%-5s k %-5d %3d MiB, GB/s of weights for 1 to %d tokens\n", dtype_info(type).name, k, (int)(n_bytes >> 20), MAX_TOKENS);
	double gb_s[2][MAX_TOKENS];
	for (j.n_tokens = 1; j.n_tokens <= MAX_TOKENS; j.n_tokens++) {
		double best[2], median[2];
		measure(set, multiply, &j, best, median);
		for (int i = 0; i < 2; i++)
			gb_s[i][j.n_tokens - 1] = (double)row * n_rows * j.repeats / best[i] / 1e9;
	}
	for (int i = 0; i < 2; i++) {
		printf("  %-7s", set[i]->name);
		for (int t = 0; t < MAX_TOKENS; t++)
			printf(" %6.1f", gb_s[i][t]);
		printf("\n");
	}
	fflush(stdout);
	pages_free(on_large_pages, weight_bytes);
	free(j.act);
	free(j.y);
	free(j.scratch);
}

int main(int argc, char **argv) {
	if (argc < 2 || (strcmp(argv[1], "attention") && strcmp(argv[1], "rows"))) {
		fprintf(stderr, "usage: bench_pair attention|rows [SET SET]\n");
		return 2;
	}
	const struct kernels *set[2];
	for (int i = 0; i < 2; i++)
		set[i] = kernels_get(cpu_flags_up_to(argc > i + 2 ? argv[i + 2] : i ? "avx512" : "avx2"));
	if (!strcmp(argv[1], "attention")) {
		static const int contexts[] = {512, 4096, 16384};
		for (int i = 0; i < 3; i++) {
			bench_attention(set, 64, 7, contexts[i], 1);
			bench_attention(set, 64, 7, contexts[i], 4);
			bench_attention(set, 64, 7, contexts[i], 32);
			bench_attention(set, 128, 6, contexts[i], 1);
			bench_attention(set, 128, 6, contexts[i], 32);
		}
		return 0;
	}
	static const enum dtype types[] = {DTYPE_Q5_0, DTYPE_Q8_0, DTYPE_Q4_K, DTYPE_Q6_K};
	for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
		int k = dtype_info(types[i]).block_elems == 32 ? 896 : 4864;
		bench_rows(set, types[i], k, WEIGHT_BYTES);
		bench_rows(set, types[i], k, 1u << 20);
	}
	return 0;
}
