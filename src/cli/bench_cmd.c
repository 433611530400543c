// SPDX-License-Identifier: MIT
// maskstore bench prefill|decode|machine (spec: bench_spec.c): figures of this machine, each beside the limit it runs against. One thread and its pool.
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "cli/cli.h"
#include "maskstore/maskstore.h"

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

// Short enough to stand between two prefills.
static void short_dot_part(void *arg, int i, int n) {
	(void)i, (void)n;
	struct machine *m = arg;
	atomic_fetch_add(&m->work, m->peaks.int8_dot(PEAK_STEPS / 10));
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
	double tokens_per_s;      // of the best run; of the median run where a limit stands beside it
	uint64_t weight_bytes_per_token;
	double pass_bytes;        // weights and KV that a decoded token reads, nothing screened
	double token_madds;       // int8 multiply-adds of a prefilled token
	double limit;             // best bytes or multiply-adds a second in the same minutes; 0: not asked for
};

struct bench_args {
	bool decode, with_limit; // --with-read, --with-dot
	long n, depth, repeat, chunk;
	long batch; // tokens of a pass while decoding
};

// What the measuring functions share.
struct bench {
	struct completer *completer;
	const struct bench_args *args;
	token_id *ids;
	struct machine machine; // for the limit
	double *rates;          // [repeat], tokens per second
};

// Ids that are text-like enough: the speed does not depend on them. A fixed pattern over the low, never special, ids.
static void fill_ids(token_id *ids, size_t n, int n_vocab) {
	int range = n_vocab < 256 ? n_vocab : 256;
	for (size_t i = 0; i < n; i++)
		ids[i] = (token_id)((i * 37 + i / 7) % (size_t)range);
}

// One run at the machine's limit, into out->limit if it is the best so far.
static void measure_limit(struct bench *b, struct rate *out) {
	if (!b->args->with_limit)
		return;
	atomic_store(&b->machine.work, 0);
	int64_t start = clock_us();
	pool_run(completer_pool(b->completer), b->args->decode ? read_part : short_dot_part, &b->machine);
	double work = b->args->decode ? (double)READ_BYTES : (double)atomic_load(&b->machine.work);
	double limit = work * 1e6 / (double)(clock_us() - start);
	out->limit = limit > out->limit ? limit : out->limit;
}

static enum err run_prefill(struct bench *b, long i, struct err_msg *msg) {
	b->ids[0] = (token_id)i; // another beginning each time, so that nothing is found in the store
	int64_t start = clock_us();
	enum err e = session_sync(completer_session(b->completer), b->ids, (size_t)b->args->n, NULL, NULL, msg);
	b->rates[i] = (double)b->args->n * 1e6 / (double)(clock_us() - start);
	return e;
}

// Decodes n tokens behind `depth`, from token `done` on.
static enum err decode_part(struct bench *b, long done, long n, int64_t *us, struct err_msg *msg) {
	int64_t start = clock_us();
	struct session *s = completer_session(b->completer);
	enum err e = ERR_OK;
	for (long i = done, batch = b->args->batch; i < done + n && e == ERR_OK; i += batch) {
		const token_id *at = b->ids + b->args->depth + i;
		e = batch > 1 ? session_guess(s, at, (size_t)batch, NULL, msg) : session_step(s, *at, NULL, msg);
	}
	*us += clock_us() - start;
	return e;
}

#define PASSES_BETWEEN_READS 8

// One run of decode; with a limit memory is read after every few tokens, as the bandwidth changes within seconds.
static enum err run_decode(struct bench *b, long i, struct rate *out, struct err_msg *msg) {
	struct session *s = completer_session(b->completer);
	enum err e = session_sync(s, b->ids, (size_t)b->args->depth, NULL, NULL, msg);
	int64_t us = 0;
	for (long done = 0, n; done < b->args->n && e == ERR_OK; done += n) {
		long left = b->args->n - done, few = PASSES_BETWEEN_READS * b->args->batch;
		n = b->args->with_limit && left > few ? few : left;
		e = decode_part(b, done, n, &us, msg);
		measure_limit(b, out);
	}
	b->rates[i] = (double)b->args->n * 1e6 / (double)us;
	if (e == ERR_OK)
		session_rewind(s, (size_t)b->args->depth);
	return e;
}

#define FILLED_AFTER 512 // positions that are evaluated before the rest is filled

// Puts ids[depth] into the store without evaluating more than the first FILLED_AFTER of them: the other blocks are copies of those, published as if they
// held the ids. Their keys and values are a model's own, in memory of their own, and no kernel's work depends on the values, so a step costs what it costs
// behind a real prefill, which would take minutes.
static enum err fill_depth(struct bench *b, struct err_msg *msg) {
	int n_whole = (int)b->args->depth / KV_BLOCK_TOKENS, n_real = FILLED_AFTER / KV_BLOCK_TOKENS, n = n_real;
	struct maskstore *store = completer_store(b->completer);
	if (n_whole <= n_real)
		return ERR_OK;
	enum err e = session_sync(completer_session(b->completer), b->ids, FILLED_AFTER, NULL, NULL, msg);
	block_id *path = malloc((size_t)n_whole * sizeof *path);
	if (e != ERR_OK || !path) {
		free(path);
		return e != ERR_OK ? e : err_set(msg, ERR_NOMEM, "out of memory");
	}
	int n_found = maskstore_find(store, BLOCK_NONE, b->ids, FILLED_AFTER, path) / KV_BLOCK_TOKENS;
	if (n_found < n_real)
		e = err_set(msg, ERR_STATE, "the store has lost what was just evaluated");
	for (n = n_found; n < n_whole && e == ERR_OK; n++) {
		e = maskstore_copy(store, path[n % n_real], &path[n]);
		if (e != ERR_OK)
			e = err_set(msg, e, "the KV budget holds %d tokens, not %ld: raise it", n * KV_BLOCK_TOKENS, b->args->depth);
		else
			maskstore_publish(store, &path[n], path[n - 1], b->ids + n * KV_BLOCK_TOKENS, KV_BLOCK_TOKENS);
		n -= e != ERR_OK; // this one is nobody's
	}
	while (n > 0)
		maskstore_drop(store, path[--n]);
	free(path);
	return e;
}

static int compare_doubles(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static enum err measure_runs(struct bench *b, struct rate *out, struct err_msg *msg) {
	long n = b->args->repeat;
	enum err e = b->args->decode ? fill_depth(b, msg) : ERR_OK;
	for (long i = 0; i < n && e == ERR_OK; i++) {
		measure_limit(b, out);
		e = b->args->decode ? run_decode(b, i, out, msg) : run_prefill(b, i, msg);
	}
	measure_limit(b, out);
	qsort(b->rates, (size_t)n, sizeof *b->rates, compare_doubles);
	out->tokens_per_s = b->rates[b->args->with_limit ? n / 2 : n - 1];
	return e;
}

// Multiply-adds of the layers' products for one token (the output head is needed for the last one only).
static double token_madds(const struct model_info *i) {
	double q = (double)i->n_head * i->head_dim, kv = (double)i->n_head_kv * i->head_dim;
	return i->n_layer * (double)i->n_embd * (2 * q + 2 * kv + 3.0 * i->n_ff);
}

static double kv_token_bytes(struct completer *c) {
	return (double)maskstore_block_bytes(maskstore_geometry(completer_store(c))) / KV_BLOCK_TOKENS;
}

static enum err measure(struct bench *b, unsigned cpu_flags, struct rate *out, struct err_msg *msg) {
	const struct bench_args *a = b->args;
	const struct model_info *info = model_info(completer_model(b->completer));
	size_t n_ids = (size_t)(a->decode ? a->depth + a->n : a->n);
	bool reads = a->with_limit && a->decode;
	b->ids = malloc(n_ids * sizeof *b->ids);
	b->rates = calloc((size_t)a->repeat, sizeof *b->rates);
	b->machine = (struct machine){.peaks = kernels_peaks(cpu_flags), .data = reads ? aligned_alloc(64, READ_BYTES) : NULL};
	enum err e = ERR_NOMEM;
	if (b->ids && b->rates && (!reads || b->machine.data)) {
		if (reads)
			memset(b->machine.data, 1, READ_BYTES); // so that the pages exist
		fill_ids(b->ids, n_ids, info->n_vocab);
		out->weight_bytes_per_token = info->weight_bytes_per_token;
		out->pass_bytes = (double)info->weight_bytes_per_token + kv_token_bytes(b->completer) * ((double)a->depth + (double)a->n / 2);
		out->token_madds = token_madds(info);
		e = measure_runs(b, out, msg);
	} else {
		e = err_set(msg, ERR_NOMEM, reads ? "--with-read needs 1 GiB of free memory" : "out of memory");
	}
	free(b->ids);
	free(b->rates);
	free(b->machine.data);
	return e;
}

static void print_rate(const struct cli *c, const struct bench_args *a, const struct rate *r) {
	double weight_gbs = a->decode ? r->tokens_per_s * (double)r->weight_bytes_per_token / 1e9 : 0;
	double work = a->decode ? r->pass_bytes : r->token_madds, share = r->limit > 0 ? r->tokens_per_s * work / r->limit : 0;
	if (c->json) {
		printf("{\"bench\":\"%s\",\"n\":%ld,\"depth\":%ld,\"tokens_per_s\":%.2f,\"weight_gb_per_s\":%.2f", a->decode ? "decode" : "prefill", a->n,
		       a->decode ? a->depth : 0, r->tokens_per_s, weight_gbs);
		if (r->limit > 0 && a->decode)
			printf(",\"pass_bytes\":%.0f,\"read_gb_per_s\":%.2f,\"bandwidth_share\":%.4f", r->pass_bytes, r->limit / 1e9, share);
		else if (r->limit > 0)
			printf(",\"token_madds\":%.0f,\"int8_dot_gops\":%.1f,\"dot_share\":%.4f", r->token_madds, 2e-9 * r->limit, share);
		printf("}\n");
		return;
	}
	printf("%s: %.1f tokens/s", a->decode ? "decode" : "prefill", r->tokens_per_s);
	if (a->decode)
		printf(" (%.1f GB/s of weights)", weight_gbs);
	if (r->limit > 0 && a->decode)
		printf(", %.0f %% of the read bandwidth of %.1f GB/s", 100 * share, r->limit / 1e9);
	else if (r->limit > 0)
		printf(", %.0f %% of the int8 dot peak of %.0f GOPS", 100 * share, 2e-9 * r->limit);
	printf("\n");
}

static int bench_session(const struct cli *c, bool decode) {
	struct bench_args a = {.decode = decode, .with_limit = cli_option(c, decode ? "with-read" : "with-dot") != NULL};
	if (!cli_option_int(c, "n", 1, 100000, decode ? 64 : 512, &a.n) || !cli_option_int(c, "depth", 1, 500000, 512, &a.depth) ||
	    !cli_option_int(c, "repeat", 1, 100, 3, &a.repeat) || !cli_option_int(c, "chunk", 0, SESSION_MAX_CHUNK, 0, &a.chunk) ||
	    !cli_option_int(c, "batch", 1, SESSION_MAX_GUESS, 1, &a.batch))
		return CLI_EXIT_BAD_INPUT;
	if (decode) // whole passes
		a.n = a.n < a.batch ? a.batch : a.n - a.n % a.batch;
	struct engine_options o = cli_engine_options(c);
	o.chunk_tokens = (int)a.chunk;
	o.max_context_tokens = (int)(decode ? a.depth + a.n : a.n);
	struct bench b = {.args = &a};
	struct err_msg msg = {0};
	struct rate r = {0};
	enum err e = completer_create(&o, NULL, &b.completer, &msg);
	if (e == ERR_OK)
		e = measure(&b, o.cpu_flags, &r, &msg);
	if (e == ERR_OK)
		print_rate(c, &a, &r);
	completer_destroy(b.completer);
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
