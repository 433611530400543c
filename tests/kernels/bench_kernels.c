// SPDX-License-Identifier: MIT
// Speed of the kernels against the machine's limits, measured in the same run. Usage: bench_kernels [THREADS [FILTER]]
//
// Each figure is the best and the median of ROUNDS runs on THREADS pinned-by-nobody threads (default: all cores).
// matvec: rows of a WEIGHTS_BYTES matrix, one token, in GB/s of weights, beside a plain read of the same bytes.
// gemm: 128 tokens, in GOPS (2 per multiply-add). attention: head_dim 64, 7 query heads on each of 2 KV heads, f16, in
// ms for 24 layers; decode of one token and a prefill chunk of 32 tokens at the end of the context.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/pool.h"
#include "tests/kernels/gen.h"

#define ROUNDS 9
#define WEIGHTS_BYTES (96u << 20)
#define GEMM_TOKENS 128

struct job {
	const struct kernels *set;
	struct kernels_peaks peaks;
	struct weight w;
	struct act_block *act;
	float *y;
	int n_tokens;
	void *scratch[POOL_MAX_THREADS];
	_Atomic uint64_t keep;
	struct attention_args *heads; // [2]
};

static void run_matmul(void *arg, int i, int n) {
	struct job *j = arg;
	int begin, end;
	pool_split(j->w.n_rows, 16, i, n, &begin, &end);
	j->set->matmul(&j->w, begin, end, j->act, j->n_tokens, j->y, (size_t)j->w.n_rows, j->scratch[i], NULL);
}

static void run_read(void *arg, int i, int n) {
	struct job *j = arg;
	int begin, end;
	pool_split(j->w.n_rows, 16, i, n, &begin, &end);
	size_t row = dtype_row_bytes(j->w.type, j->w.k);
	j->keep += j->peaks.read((const uint8_t *)j->w.data + row * (size_t)begin, row * (size_t)(end - begin));
}

#define PEAK_STEPS 4000000

static void run_int8(void *arg, int i, int n) {
	(void)i, (void)n;
	struct job *j = arg;
	j->keep = j->peaks.int8_dot(PEAK_STEPS);
}

static void run_fma(void *arg, int i, int n) {
	(void)i, (void)n;
	struct job *j = arg;
	j->keep = j->peaks.fma(PEAK_STEPS);
}

static void run_attention(void *arg, int i, int n) {
	struct job *j = arg;
	int begin, end;
	pool_split(2, 1, i, n, &begin, &end);
	for (int head = begin; head < end; head++) {
		j->heads[head].scratch = j->scratch[i];
		j->set->attention(&j->heads[head]);
	}
}

static int by_value(const void *a, const void *b) {
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

struct timing {
	double best_s, median_s;
};

static struct timing measure(struct pool *pool, pool_task *task, struct job *j) {
	int64_t us[ROUNDS];
	pool_run(pool, task, j);
	for (int i = 0; i < ROUNDS; i++) {
		int64_t start = clock_us();
		pool_run(pool, task, j);
		us[i] = clock_us() - start + 1;
	}
	qsort(us, ROUNDS, sizeof us[0], by_value);
	return (struct timing){(double)us[0] * 1e-6, (double)us[ROUNDS / 2] * 1e-6};
}

static void bench_type(struct pool *pool, struct job *j, enum dtype type, int k) {
	struct rng g = {type};
	size_t row = dtype_row_bytes(type, k);
	int n_rows = (int)(WEIGHTS_BYTES / row) / 16 * 16;
	j->w = make_weight(&g, type, n_rows, k, FILL_RANDOM);
	j->act = make_act(&g, j->set, GEMM_TOKENS, k, false);
	j->y = alloc_bytes(sizeof(float) * GEMM_TOKENS * (size_t)n_rows);
	double n_bytes = (double)row * n_rows, n_ops = 2.0 * n_rows * k;
	struct timing read = measure(pool, run_read, j);
	j->n_tokens = 1;
	struct timing one = measure(pool, run_matmul, j);
	j->n_tokens = 3;
	struct timing three = measure(pool, run_matmul, j);
	j->w.n_rows = 4864 / 16 * 16 < n_rows ? 4864 : n_rows; // a matrix of a layer is enough for the product of many tokens
	j->n_tokens = GEMM_TOKENS;
	struct timing many = measure(pool, run_matmul, j);
	double many_ops = n_ops * j->w.n_rows / n_rows * GEMM_TOKENS;
	printf("%-5s k %-5d matvec %6.1f GB/s best %6.1f median | read %6.1f %6.1f | share %3.0f %% | 3 tokens %6.1f GB/s | "
	       "gemm %6.0f GOPS best %6.0f median\n",
	       dtype_info(type).name, k, n_bytes / one.best_s / 1e9, n_bytes / one.median_s / 1e9, n_bytes / read.best_s / 1e9,
	       n_bytes / read.median_s / 1e9, 100 * read.best_s / one.best_s, n_bytes / three.best_s / 1e9,
	       many_ops / many.best_s / 1e9, many_ops / many.median_s / 1e9);
	fflush(stdout);
	free((void *)j->w.data);
	free(j->act);
	free(j->y);
}

// Both KV heads of one layer: n_tokens query tokens ending at the last of n_ctx positions.
static void bench_attention(struct pool *pool, struct job *j, int n_ctx, int n_tokens) {
	enum { D = 64, GROUP = 7 };
	struct rng g = {1};
	int n_rows = GROUP * n_tokens, n_blocks = (n_ctx + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS;
	size_t block_bytes = D * KV_BLOCK_TOKENS * 2, kv_bytes = (size_t)n_blocks * block_bytes;
	uint8_t *kv = alloc_bytes(4 * kv_bytes);
	for (size_t i = 0; i < 2 * kv_bytes; i++)
		put_f16(kv + 2 * i, rng_float(&g));
	float *q = alloc_bytes(sizeof(float) * 2 * D * (size_t)n_rows), *out = alloc_bytes(sizeof(float) * 2 * D * (size_t)n_rows);
	for (int i = 0; i < D * n_rows * 2; i++)
		q[i] = rng_float(&g);
	const void **blocks = alloc_bytes(sizeof *blocks * 4 * (size_t)n_blocks);
	const float **q_rows = alloc_bytes(sizeof *q_rows * 2 * (size_t)n_rows);
	float **out_rows = alloc_bytes(sizeof *out_rows * 2 * (size_t)n_rows);
	int32_t *pos = alloc_bytes(sizeof *pos * (size_t)n_rows);
	struct attention_args heads[2];
	for (int i = 0; i < 4 * n_blocks; i++)
		blocks[i] = kv + (size_t)i * block_bytes;
	for (int r = 0; r < 2 * n_rows; r++) {
		q_rows[r] = q + r * D;
		out_rows[r] = out + r * D;
	}
	for (int r = 0; r < n_rows; r++)
		pos[r] = n_ctx - n_tokens + r / GROUP;
	for (int h = 0; h < 2; h++)
		heads[h] = (struct attention_args){KV_F16, D, n_rows, 0.125f, q_rows + h * n_rows, out_rows + h * n_rows, pos,
		                                   blocks + 2 * h * n_blocks, blocks + (2 * h + 1) * n_blocks, NULL, NULL, NULL};
	j->heads = heads;
	struct timing t = measure(pool, run_attention, j);
	double flops = 24.0 * 4 * D * 2 * n_rows * n_ctx;
	printf("attention, context %-6d %2d tokens: %8.2f ms best %8.2f median for 24 layers, %5.0f GFLOPS\n", n_ctx, n_tokens,
	       24e3 * t.best_s, 24e3 * t.median_s, flops / (24 * t.best_s) / 1e9);
	fflush(stdout);
	free(kv);
	free(q);
	free(out);
	free(blocks);
	free(q_rows);
	free(out_rows);
	free(pos);
}

int main(int argc, char **argv) {
	int n_threads = argc > 1 ? (int)strtol(argv[1], NULL, 10) : cpu_count();
	const char *filter = argc > 2 ? argv[2] : "";
	struct pool *pool;
	if (pool_create(n_threads, &pool) != ERR_OK)
		return 1;
	static struct job j;
	j.set = kernels_get(cpu_flags_up_to(getenv("MASKSTORE_ISA")));
	j.peaks = kernels_peaks(cpu_flags());
	size_t a = kernels_matmul_scratch_bytes(8960), b = kernels_attention_scratch_bytes(128, KERNELS_ATTENTION_MAX_ROWS);
	for (int i = 0; i < n_threads; i++)
		j.scratch[i] = alloc_bytes(a > b ? a : b);
	struct timing dot = measure(pool, run_int8, &j), fma = measure(pool, run_fma, &j);
	printf("set %s, %d threads; peaks: int8 %.0f GOPS, FMA %.0f GFLOPS\n", j.set->name, n_threads,
	       2.0 * n_threads * (double)j.peaks.int8_dot(PEAK_STEPS) / dot.best_s / 1e9,
	       2.0 * n_threads * (double)j.peaks.fma(PEAK_STEPS) / fma.best_s / 1e9);
	for (int i = N_FLOAT_TYPES; i < N_TYPES; i++) {
		if (!strstr(dtype_info(all_types[i]).name, filter))
			continue;
		if (dtype_info(all_types[i]).block_elems == 32)
			bench_type(pool, &j, all_types[i], 896);
		bench_type(pool, &j, all_types[i], 4864);
	}
	static const int contexts[] = {512, 4096, 16384};
	for (int i = 0; i < 3 && (!*filter || !strcmp(filter, "attention")); i++) {
		bench_attention(pool, &j, contexts[i], 1);
		bench_attention(pool, &j, contexts[i], 32);
	}
	for (int i = 0; i < n_threads; i++)
		free(j.scratch[i]);
	pool_destroy(pool);
	return 0;
}
