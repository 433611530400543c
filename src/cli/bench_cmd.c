// SPDX-License-Identifier: MIT
// maskstore bench prefill|decode|machine (spec: bench_spec.c): figures of this machine, each beside the limit it runs against.
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "cli/cli.h"

#define READ_BYTES ((size_t)1 << 30) // far above any cache
#define PEAK_STEPS 200000000ull       // about 0.1–0.3 s a thread

// --- machine

struct machine {
	struct kernels_peaks peaks;
	uint8_t *data;
	_Atomic uint64_t work; // done by all threads; also keeps the loops' results alive
};

static void read_part(void *arg, int i, int n) {
	struct machine *m = arg;
	size_t part = READ_BYTES / (size_t)n;
	atomic_fetch_add(&m->work, m->peaks.read(m->data + part * (size_t)i, part) & 1);
}

static void dot_part(void *arg, int i, int n) {
	(void)i, (void)n;
	struct machine *m = arg;
	atomic_fetch_add(&m->work, m->peaks.int8_dot(PEAK_STEPS));
}

static void fma_part(void *arg, int i, int n) {
	(void)i, (void)n;
	struct machine *m = arg;
	atomic_fetch_add(&m->work, m->peaks.fma(PEAK_STEPS));
}

// Best of three runs, in seconds; *work is what one run added.
static double best_seconds(struct pool *pool, pool_task *task, struct machine *m, uint64_t *work) {
	double best = 1e9;
	for (int i = 0; i < 3; i++) {
		atomic_store(&m->work, 0);
		int64_t start = clock_us();
		pool_run(pool, task, m);
		double took = (double)(clock_us() - start) / 1e6;
		best = took < best ? took : best;
	}
	*work = atomic_load(&m->work);
	return best;
}

static int bench_machine(const struct cli *c) {
	int threads = c->config.threads ? c->config.threads : cpu_count();
	struct pool *pool;
	struct machine m = {.peaks = kernels_peaks(cpu_flags_up_to(c->config.isa)), .data = aligned_alloc(64, READ_BYTES)};
	if (!m.data || pool_create(threads, &pool) != ERR_OK) {
		free(m.data);
		return cli_fail(ERR_NOMEM, &(struct err_msg){"bench machine needs 1 GiB of free memory"});
	}
	memset(m.data, 1, READ_BYTES); // so that the pages exist
	uint64_t work;
	double read_gbs = (double)READ_BYTES / best_seconds(pool, read_part, &m, &work) / 1e9;
	double dot_s = best_seconds(pool, dot_part, &m, &work), dot_gops = 2e-9 * (double)work / dot_s;
	double fma_s = best_seconds(pool, fma_part, &m, &work), fma_gflops = 2e-9 * (double)work / fma_s;
	if (c->json)
		printf("{\"threads\":%d,\"read_gb_per_s\":%.2f,\"int8_dot_gops\":%.1f,\"fma_gflops\":%.1f}\n", threads, read_gbs, dot_gops, fma_gflops);
	else
		printf("%d threads: read %.1f GB/s, int8 dot %.0f GOPS, FMA %.0f GFLOPS\n", threads, read_gbs, dot_gops, fma_gflops);
	pool_destroy(pool);
	free(m.data);
	return 0;
}

// --- prefill and decode

struct rate {
	double tokens_per_s;
	uint64_t weight_bytes_per_token;
};

struct bench_args {
	bool decode;
	long n, depth, repeat, chunk;
	long batch; // tokens of a pass while decoding
};

// Ids that are text-like enough: the speed does not depend on them. A fixed pattern over the low, never special, ids.
static void fill_ids(token_id *ids, size_t n, int n_vocab) {
	int range = n_vocab < 256 ? n_vocab : 256;
	for (size_t i = 0; i < n; i++)
		ids[i] = (token_id)((i * 37 + i / 7) % (size_t)range);
}

static enum err measure_prefill(struct session *s, token_id *ids, size_t n, long repeat, struct rate *out, struct err_msg *msg) {
	for (long i = 0; i < repeat; i++) {
		ids[0] = (token_id)i; // another beginning each time, so that nothing is found in the store
		int64_t start = clock_us();
		enum err e = session_sync(s, ids, n, NULL, NULL, msg);
		if (e != ERR_OK)
			return e;
		double rate = (double)n * 1e6 / (double)(clock_us() - start);
		out->tokens_per_s = rate > out->tokens_per_s ? rate : out->tokens_per_s;
	}
	return ERR_OK;
}

static enum err measure_decode(struct session *s, token_id *ids, size_t depth, const struct bench_args *a, struct rate *out, struct err_msg *msg) {
	size_t n = (size_t)(a->n - a->n % a->batch), batch = (size_t)a->batch;
	for (long r = 0; r < a->repeat; r++) {
		enum err e = session_sync(s, ids, depth, NULL, NULL, msg);
		int64_t start = clock_us();
		for (size_t i = 0; e == ERR_OK && i < n; i += batch)
			e = batch > 1 ? session_guess(s, ids + depth + i, batch, NULL, msg) : session_step(s, ids[depth + i], NULL, msg);
		if (e != ERR_OK)
			return e;
		double rate = (double)n * 1e6 / (double)(clock_us() - start);
		out->tokens_per_s = rate > out->tokens_per_s ? rate : out->tokens_per_s;
		session_rewind(s, depth);
	}
	return ERR_OK;
}

static enum err measure(struct completer *c, const struct bench_args *a, struct rate *out, struct err_msg *msg) {
	size_t n_ids = (size_t)(a->decode ? a->depth + a->n : a->n);
	token_id *ids = malloc(n_ids * sizeof *ids);
	if (!ids)
		return err_set(msg, ERR_NOMEM, "out of memory");
	const struct model_info *info = model_info(completer_model(c));
	fill_ids(ids, n_ids, info->n_vocab);
	out->weight_bytes_per_token = info->weight_bytes_per_token;
	struct session *s = completer_session(c);
	enum err e = a->decode ? measure_decode(s, ids, (size_t)a->depth, a, out, msg)
	                       : measure_prefill(s, ids, (size_t)a->n, a->repeat, out, msg);
	free(ids);
	return e;
}

static void print_rate(const struct cli *c, const struct bench_args *a, const struct rate *r) {
	double weight_gbs = a->decode ? r->tokens_per_s * (double)r->weight_bytes_per_token / 1e9 : 0;
	if (c->json)
		printf("{\"bench\":\"%s\",\"n\":%ld,\"depth\":%ld,\"tokens_per_s\":%.2f,\"weight_gb_per_s\":%.2f}\n", a->decode ? "decode" : "prefill", a->n,
		       a->decode ? a->depth : 0, r->tokens_per_s, weight_gbs);
	else
		printf("%s: %.1f tokens/s%s", a->decode ? "decode" : "prefill", r->tokens_per_s, a->decode ? "" : "\n");
	if (!c->json && a->decode)
		printf(" (%.1f GB/s of weights)\n", weight_gbs);
}

static int bench_session(const struct cli *c, bool decode) {
	struct bench_args a = {.decode = decode};
	if (!cli_option_int(c, "n", 1, 100000, decode ? 64 : 512, &a.n) || !cli_option_int(c, "depth", 1, 500000, 512, &a.depth) ||
	    !cli_option_int(c, "repeat", 1, 100, 3, &a.repeat) || !cli_option_int(c, "chunk", 0, SESSION_MAX_CHUNK, 0, &a.chunk) ||
	    !cli_option_int(c, "batch", 1, SESSION_MAX_GUESS, 1, &a.batch))
		return CLI_EXIT_BAD_INPUT;
	struct engine_options o = cli_engine_options(c);
	o.chunk_tokens = (int)a.chunk;
	o.max_context_tokens = (int)(decode ? a.depth + a.n : a.n);
	struct completer *completer = NULL;
	struct err_msg msg = {0};
	struct rate r = {0};
	enum err e = completer_create(&o, NULL, &completer, &msg);
	if (e == ERR_OK)
		e = measure(completer, &a, &r, &msg);
	if (e == ERR_OK)
		print_rate(c, &a, &r);
	completer_destroy(completer);
	return e == ERR_OK ? 0 : cli_fail(e, &msg);
}

int cli_bench(const struct cli *c) {
	const char *what = c->n_words == 1 ? c->words[0] : "";
	if (c->n_words > 1 && !strcmp(c->words[0], "spec"))
		return cli_bench_spec(c);
	if (!strcmp(what, "machine"))
		return bench_machine(c);
	if (!strcmp(what, "prefill") || !strcmp(what, "decode"))
		return bench_session(c, !strcmp(what, "decode"));
	return cli_fail(ERR_ARG, &(struct err_msg){"bench takes one of: prefill, decode, machine, spec"});
}
