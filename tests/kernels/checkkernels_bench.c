// SPDX-License-Identifier: MIT
// checkkernels --bench: CPU time of one thread for each function of each set, sets in turn, the best of some batches.
// Against the machine's limits bench_kernels measures; this one compares sets.
#include <time.h>

#include "tests/kernels/check.h"

#define BATCHES 7
#define BATCH_NS 4e6

enum { D = 64, CONTEXT = 512, MAX_TOKENS = 64, ROWS = 256, K = 1024, N = 4864, VOCAB = 151936 };

// What all timed calls work on.
struct bench {
	struct weight w;
	const struct act_block *act;
	float *x, *y, *z;
	float cos_sin[D]; // of one angle: a rotation keeps sizes, so that repeated ones don't end in subnormals
	int n_tokens;
	void *scratch;
	struct attention_args attention;
};

typedef void timed(const struct kernels *set, struct bench *b);

static void t_quantize(const struct kernels *set, struct bench *b) { set->quantize(b->x, (struct act_block *)(void *)b->z, N); }
static void t_matmul(const struct kernels *set, struct bench *b) { set->matmul(&b->w, 0, ROWS, b->act, b->n_tokens, b->y, ROWS, b->scratch, NULL); }
static void t_matmul_f32(const struct kernels *set, struct bench *b) { set->matmul_f32(&b->w, 0, ROWS, b->x, b->n_tokens, b->y, ROWS, b->scratch, NULL); }
static void t_dequantize(const struct kernels *set, struct bench *b) { set->dequantize_row(&b->w, 1, b->y); }
static void t_rms_norm(const struct kernels *set, struct bench *b) { set->rms_norm(b->x, b->z, b->y, 896, 1e-6f); }
static void t_add(const struct kernels *set, struct bench *b) { set->add(b->y, b->x, 896); }
static void t_swiglu(const struct kernels *set, struct bench *b) { set->swiglu(b->x, b->x, b->y, N); }
static void t_rope(const struct kernels *set, struct bench *b) { set->rope(b->y, b->cos_sin, D, true); }
static void t_rope_pairs(const struct kernels *set, struct bench *b) { set->rope(b->y, b->cos_sin, D, false); }
static void t_kv_store(const struct kernels *set, struct bench *b) { set->kv_store(KV_F16, D, 7, b->x, b->x + D, b->y, b->z); }
static void t_attention(const struct kernels *set, struct bench *b) { set->attention(&b->attention); }
static void t_argmax(const struct kernels *set, struct bench *b) {
	volatile int keep = set->argmax(b->x, VOCAB);
	(void)keep;
}

static double cpu_ns(void) {
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

// Nanoseconds of one call: the best batch of BATCHES, sets in turn.
static void report(struct check *c, struct bench *b, const char *name, timed *call) {
	double best[CHECK_MAX_SETS];
	int n_calls[CHECK_MAX_SETS];
	for (int s = 0; s < c->n_sets; s++) {
		double start = cpu_ns();
		call(c->sets[s], b);
		double once = cpu_ns() - start + 1;
		n_calls[s] = once > BATCH_NS ? 1 : (int)(BATCH_NS / once);
		best[s] = 1e18;
	}
	for (int batch = 0; batch < BATCHES; batch++)
		for (int s = 0; s < c->n_sets; s++) {
			double start = cpu_ns();
			for (int i = 0; i < n_calls[s]; i++)
				call(c->sets[s], b);
			double took = (cpu_ns() - start) / n_calls[s];
			best[s] = took < best[s] ? took : best[s];
		}
	printf("%-28s", name);
	for (int s = 0; s < c->n_sets; s++)
		printf(" %14.0f", best[s]);
	printf("\n");
}

static void bench_products(struct check *c, struct bench *b) {
	char name[64];
	for (int i = 0; i < N_TYPES; i++) {
		enum dtype type = all_types[i];
		b->w = make_weight(&c->rng, type, ROWS, K, FILL_RANDOM);
		b->act = dtype_info(type).quantised ? make_act(&c->rng, scalar_set(), MAX_TOKENS, K, false) : NULL;
		static const int tokens[] = {1, 4, MAX_TOKENS};
		for (int t = 0; t < 3 && b->act; t++) {
			b->n_tokens = tokens[t];
			snprintf(name, sizeof name, "matmul %s, %d tokens", dtype_info(type).name, b->n_tokens);
			report(c, b, name, t_matmul);
		}
		b->n_tokens = 4;
		snprintf(name, sizeof name, "matmul_f32 %s, 4 tokens", dtype_info(type).name);
		report(c, b, name, t_matmul_f32);
		snprintf(name, sizeof name, "dequantize_row %s", dtype_info(type).name);
		report(c, b, name, t_dequantize);
		free((void *)b->w.data);
		free((void *)b->act);
	}
}

// Decode (7 rows) and a prefill tile (7 × 32 rows) at the end of CONTEXT positions.
static void bench_attention(struct check *c, struct bench *b) {
	enum { BLOCKS = CONTEXT / KV_BLOCK_TOKENS, MAX_ROWS = 7 * 32 };
	static const void *k[BLOCKS], *v[BLOCKS];
	static const float *q[MAX_ROWS];
	static float *out[MAX_ROWS];
	static int32_t pos[MAX_ROWS];
	uint8_t *kv = alloc_bytes(2 * BLOCKS * D * KV_BLOCK_TOKENS * sizeof(float));
	for (enum kv_type type = KV_F16; type <= KV_BF16; type++) {
		size_t block_bytes = (size_t)(D * KV_BLOCK_TOKENS * kv_type_bytes(type));
		for (size_t i = 0; i < 2 * BLOCKS * D * KV_BLOCK_TOKENS; i++) {
			float x = rng_float(&c->rng);
			uint16_t h = type == KV_F16 ? f32_to_f16(x) : f32_to_bf16(x);
			memcpy(kv + i * (size_t)kv_type_bytes(type), type == KV_F32 ? (void *)&x : (void *)&h, (size_t)kv_type_bytes(type));
		}
		for (int i = 0; i < BLOCKS; i++) {
			k[i] = kv + (size_t)i * block_bytes;
			v[i] = kv + (size_t)(BLOCKS + i) * block_bytes;
		}
		for (int tokens = 1; tokens <= 32; tokens += 31) {
			for (int r = 0; r < 7 * tokens; r++) {
				q[r] = b->x + r * D;
				out[r] = b->y + r * D;
				pos[r] = CONTEXT - tokens + r / 7;
			}
			b->attention = (struct attention_args){.kv_type = type, .head_dim = D, .n_rows = 7 * tokens, .scale = 0.125f, .q = q, .out = out,
			                                       .pos = pos, .k_blocks = k, .v_blocks = v, .scratch = b->scratch};
			char name[64];
			snprintf(name, sizeof name, "attention %s, %d rows", (const char *[]){"f16", "f32", "bf16"}[type], 7 * tokens);
			report(c, b, name, t_attention);
		}
	}
	free(kv);
}

void check_bench(struct check *c) {
	struct bench b = {.x = alloc_bytes(sizeof(float) * VOCAB), .y = alloc_bytes(sizeof(float) * VOCAB), .z = alloc_bytes(sizeof(float) * VOCAB)};
	size_t products = kernels_matmul_scratch_bytes(K), attention = kernels_attention_scratch_bytes(D, 7 * 32);
	b.scratch = alloc_bytes(products > attention ? products : attention);
	check_fill_floats(&c->rng, b.x, VOCAB, 1, false);
	check_fill_floats(&c->rng, b.y, VOCAB, 1, false);
	check_fill_floats(&c->rng, b.z, VOCAB, 1, false);
	for (int i = 0; i < D; i++)
		b.cos_sin[i] = i % 2 ? 0.8f : 0.6f;
	printf("%-28s", "ns of one call, best batch");
	for (int s = 0; s < c->n_sets; s++)
		printf(" %14s", c->sets[s]->name);
	printf("\n");
	static const struct {
		const char *name;
		timed *call;
	} steps[] = {
		{"quantize 4864", t_quantize}, {"rms_norm 896", t_rms_norm}, {"add 896", t_add}, {"swiglu 4864", t_swiglu},
		{"rope 64, neox", t_rope},     {"rope 64, pairs", t_rope_pairs}, {"kv_store f16 64", t_kv_store}, {"argmax 151936", t_argmax},
	};
	for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
		report(c, &b, steps[i].name, steps[i].call);
	bench_attention(c, &b);
	bench_products(c, &b);
	free(b.x);
	free(b.y);
	free(b.z);
	free(b.scratch);
}
