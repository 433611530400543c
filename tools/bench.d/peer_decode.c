// SPDX-License-Identifier: MIT
// llama.cpp's decode behind a deep context, without the minutes of prefill that llama-bench takes for it at each start:
//   peer_decode MODEL THREADS DEPTH N FLASH(0|1) KV(f16|q8_0)        prints {"tokens_per_s": …}
// The first TILE positions are evaluated, the others are restored from that state (llama_state_seq_set_data), each copy into cells of its own as
// a sequence of its own, and all of them given to sequence 0, which then sees DEPTH cells of a model's own keys and values. The work of a
// step depends on the number of visible cells, not on what they hold. Threads, batch sizes and cache as llama-bench b11434 has them.
// Compiled by peers.py against the library of tools/bench.d/build-peer.
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ggml-cpu.h"
#include "llama.h"

#define TILE 512

static bool fail(const char *what) {
	fprintf(stderr, "peer_decode: %s failed\n", what);
	return false;
}

static void quiet(enum ggml_log_level level, const char *text, void *user) {
	(void)user;
	if (level == GGML_LOG_LEVEL_ERROR)
		fputs(text, stderr);
}

static double seconds(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool evaluate(struct llama_context *ctx, llama_token *tokens, int n) {
	if (llama_decode(ctx, llama_batch_get_one(tokens, n)) != 0)
		return fail("llama_decode");
	llama_synchronize(ctx);
	return true;
}

// Fills the cells behind the first `tile` with copies of them.
static bool restore_rest(struct llama_context *ctx, int depth, int tile) {
	size_t n_bytes = llama_state_seq_get_size(ctx, 0);
	uint8_t *state = malloc(n_bytes);
	bool right = state && llama_state_seq_get_data(ctx, state, n_bytes, 0) == n_bytes;
	for (int copy = 1; right && copy < depth / tile; copy++) {
		right = llama_state_seq_set_data(ctx, state, n_bytes, copy) > 0;
		llama_memory_seq_cp(llama_get_memory(ctx), copy, 0, -1, -1);
	}
	free(state);
	return right || fail("restoring the state");
}

static struct llama_context_params context_params(int n_threads, int depth, int tile, int n, bool flash, const char *kv) {
	struct llama_context_params p = llama_context_default_params();
	p.n_ctx = (uint32_t)(depth + n + 1);
	p.n_batch = 2048;
	p.n_ubatch = 512;
	p.n_seq_max = (uint32_t)(depth / tile);
	p.kv_unified = true;
	p.swa_full = false;
	p.flash_attn_type = flash ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
	p.type_k = p.type_v = strcmp(kv, "q8_0") ? GGML_TYPE_F16 : GGML_TYPE_Q8_0;
	p.n_threads = p.n_threads_batch = n_threads;
	return p;
}

static bool measure(struct llama_context *ctx, int range, int depth, int tile, int n) {
	llama_token tokens[TILE];
	for (int i = 0; i < tile; i++)
		tokens[i] = (llama_token)(i * 7919 % range);
	if (!evaluate(ctx, tokens, tile) || !restore_rest(ctx, depth, tile) || !evaluate(ctx, tokens, 1)) // the last to warm up
		return false;
	double start = seconds();
	for (int i = 0; i < n; i++)
		if (!evaluate(ctx, tokens + i % tile, 1))
			return false;
	printf("{\"tokens_per_s\": %.4f}\n", n / (seconds() - start));
	return true;
}

int main(int argc, char **argv) {
	if (argc != 7) {
		fprintf(stderr, "usage: peer_decode MODEL THREADS DEPTH N FLASH KV\n");
		return 2;
	}
	int n_threads = (int)strtol(argv[2], NULL, 10), depth = (int)strtol(argv[3], NULL, 10), n = (int)strtol(argv[4], NULL, 10);
	int tile = depth < TILE ? depth : TILE;
	llama_log_set(quiet, NULL);
	llama_backend_init();
	struct llama_model *model = llama_model_load_from_file(argv[1], llama_model_default_params());
	struct llama_context *ctx = model ? llama_init_from_model(model, context_params(n_threads, depth, tile, n, argv[5][0] == '1', argv[6])) : NULL;
	struct ggml_threadpool_params pool_params = ggml_threadpool_params_default(n_threads);
	struct ggml_threadpool *pool = ggml_threadpool_new(&pool_params);
	if (!ctx || !pool) {
		fail("loading the model");
		return 1;
	}
	llama_attach_threadpool(ctx, pool, NULL);
	bool done = measure(ctx, llama_vocab_n_tokens(llama_model_get_vocab(model)) / 2, depth, tile, n);
	llama_free(ctx);
	ggml_threadpool_free(pool);
	llama_model_free(model);
	return done ? 0 : 1;
}
