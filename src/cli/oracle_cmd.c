// SPDX-License-Identifier: MIT
// maskstore inspect logits|generate: the decoder without prompts and rules, for comparisons with outside oracles.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "cli/cli.h"
#include "model/sampler.h"

// A model with one session as the flags ask for; token ids read. One place to open and close all of it.
struct rig {
	struct model *model;
	struct maskstore *store;
	struct pool *pool;
	struct session *session;
	token_id *ids;
	size_t n;
	int n_vocab;
};

static void rig_finish(struct rig *r) {
	session_destroy(r->session);
	maskstore_destroy(r->store);
	pool_destroy(r->pool);
	model_close(r->model);
	free(r->ids);
}

static enum err rig_session(struct rig *r, const struct cli *c, const struct engine_options *o, size_t capacity, struct err_msg *msg) {
	long chunk;
	if (!cli_option_int(c, "chunk", 0, SESSION_MAX_CHUNK, 0, &chunk))
		return err_set(msg, ERR_ARG, "see maskstore --help");
	struct maskstore_geometry g = session_geometry(r->model, o->kv_type);
	size_t n_blocks = (capacity + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS;
	enum err e = maskstore_create(&g, n_blocks * maskstore_block_bytes(&g), &r->store, msg);
	if (e != ERR_OK)
		return e;
	struct session_options so = {
		.capacity_tokens = (int)capacity, .chunk_tokens = (int)chunk, .activation = o->activation, .store = r->store, .pool = r->pool,
	};
	return session_create(r->model, &so, &r->session, msg);
}

static enum err rig_init(struct rig *r, const struct cli *c, size_t more_tokens, struct err_msg *msg) {
	const char *path = cli_option(c, "tokens");
	if (!path)
		return err_set(msg, ERR_ARG, "--tokens IDS is missing (little-endian int32 ids; inspect tokens --binary makes them)");
	enum err e = cli_read_ids(path, &r->ids, &r->n, msg);
	if (e != ERR_OK)
		return e;
	struct engine_options o = cli_engine_options(c);
	e = model_open(c->config.model, kernels_get(o.cpu_flags), &r->model, msg);
	if (e != ERR_OK)
		return e;
	r->n_vocab = model_info(r->model)->n_vocab;
	if (r->n + more_tokens > SESSION_MAX_TOKENS)
		return err_set(msg, ERR_LIMIT, "%zu tokens are more than %d", r->n + more_tokens, SESSION_MAX_TOKENS);
	e = pool_create(o.n_threads > 0 ? o.n_threads : cpu_count(), &r->pool);
	return e == ERR_OK ? rig_session(r, c, &o, r->n + more_tokens, msg) : err_set(msg, e, "cannot start threads");
}

// --- logits

struct gap_writer {
	FILE *out;
	int n_vocab;
};

// For --at all: best id and its lead over the second in nat.
static void write_gap(void *user, size_t position, const float *logits) {
	(void)position;
	struct gap_writer *w = user;
	token_id first, second;
	sampler_top2(logits, w->n_vocab, &first, &second);
	float gap = logits[first] - logits[second];
	fwrite(&first, sizeof first, 1, w->out);
	fwrite(&gap, sizeof gap, 1, w->out);
}

static enum err write_all(struct rig *r, FILE *out, struct err_msg *msg) {
	struct gap_writer w = {out, r->n_vocab};
	session_set_each(r->session, write_gap, &w);
	return session_sync(r->session, r->ids, r->n, NULL, NULL, msg);
}

static enum err write_at(struct rig *r, size_t n, FILE *out, struct err_msg *msg) {
	enum err e = session_sync(r->session, r->ids, n, NULL, NULL, msg);
	if (e == ERR_OK)
		fwrite(session_logits(r->session), sizeof(float), (size_t)r->n_vocab, out);
	return e;
}

static enum err write_list(struct rig *r, const char *at, FILE *out, struct err_msg *msg) {
	while (*at) {
		char *end;
		unsigned long n = strtoul(at, &end, 10);
		if (end == at || n < 1 || n > r->n || (*end && *end != ','))
			return err_set(msg, ERR_ARG, "--at \"%.60s\": numbers from 1 to %zu joined by commas, or all", at, r->n);
		enum err e = write_at(r, n, out, msg);
		if (e != ERR_OK)
			return e;
		at = *end ? end + 1 : end;
	}
	return ERR_OK;
}

static enum err write_logits(struct rig *r, const struct cli *c, struct err_msg *msg) {
	const char *at = cli_option(c, "at"), *path = cli_option(c, "out");
	if (!at || !path)
		return err_set(msg, ERR_ARG, "inspect logits needs --at and --out; see maskstore --help");
	FILE *out = fopen(path, "wbe");
	if (!out)
		return err_set(msg, ERR_IO, "%s: %s", path, strerror(errno));
	enum err e = !strcmp(at, "all") ? write_all(r, out, msg) : write_list(r, at, out, msg);
	bool failed = ferror(out);
	if ((fclose(out) || failed) && e == ERR_OK)
		return err_set(msg, ERR_IO, "%s: cannot be written", path);
	return e;
}

int cli_inspect_logits(const struct cli *c) {
	struct rig r = {0};
	struct err_msg msg = {0};
	enum err e = rig_init(&r, c, 0, &msg);
	if (e == ERR_OK)
		e = write_logits(&r, c, &msg);
	rig_finish(&r);
	return e == ERR_OK ? 0 : cli_fail(e, &msg);
}

// --- generate

struct generated {
	struct buf tokens, seconds, gaps, text;
};

static void add_step(struct generated *g, const struct tokenizer *t, const float *logits, int n_vocab, token_id token) {
	token_id first, second;
	sampler_top2(logits, n_vocab, &first, &second);
	const char *comma = g->tokens.len_bytes ? "," : "";
	buf_appendf(&g->tokens, "%s%d", comma, token);
	buf_appendf(&g->seconds, "%s%d", comma, second);
	buf_appendf(&g->gaps, "%s%.6g", comma, (double)(logits[first] - logits[second]));
	size_t n;
	const char *bytes = tokenizer_bytes(t, token, &n);
	buf_append(&g->text, bytes, n);
}

static enum err generate(struct rig *r, long n, struct sampler *sampler, struct generated *g, struct err_msg *msg) {
	const struct tokenizer *t = model_tokenizer(r->model);
	enum err e = session_sync(r->session, r->ids, r->n, NULL, NULL, msg);
	for (long i = 0; e == ERR_OK && i < n; i++) {
		const float *logits = session_logits(r->session);
		token_id token = sampler_pick(sampler, model_kernels(r->model), logits);
		add_step(g, t, logits, r->n_vocab, token);
		if (i + 1 < n)
			e = session_step(r->session, token, NULL, msg);
	}
	return e;
}

// Greedy unless --temperature is given (in thousandths, so that it is a whole number); --seed makes a choice repeatable.
static enum err open_sampler(const struct cli *c, int n_vocab, struct sampler *out, struct err_msg *msg) {
	long temperature, seed, top_k;
	if (!cli_option_int(c, "temperature-milli", 0, 10000, 0, &temperature) || !cli_option_int(c, "seed", 0, INT32_MAX, 0, &seed) ||
	    !cli_option_int(c, "top-k", 0, 1000000, 0, &top_k))
		return err_set(msg, ERR_ARG, "see maskstore --help");
	struct sampler_options o = {.temperature = (float)temperature / 1000, .top_k = (int)top_k, .top_p = 1, .seed = (uint64_t)seed};
	return sampler_init(out, &o, n_vocab, msg);
}

int cli_inspect_generate(const struct cli *c) {
	long n;
	if (!cli_option_int(c, "n", 1, 100000, 64, &n))
		return CLI_EXIT_BAD_INPUT;
	struct rig r = {0};
	struct err_msg msg = {0};
	struct generated g = {0};
	struct sampler sampler = {0};
	enum err e = rig_init(&r, c, (size_t)n, &msg);
	if (e == ERR_OK)
		e = open_sampler(c, r.n_vocab, &sampler, &msg);
	if (e == ERR_OK)
		e = generate(&r, n, &sampler, &g, &msg);
	if (e == ERR_OK) {
		struct buf text = {0};
		buf_append_json(&text, g.text.data ? g.text.data : "", g.text.len_bytes);
		printf("{\"tokens\":[%s],\"second\":[%s],\"gaps\":[%s],\"text\":%s}\n", g.tokens.data, g.seconds.data, g.gaps.data, text.data);
		buf_finish(&text);
	}
	sampler_finish(&sampler);
	buf_finish(&g.tokens);
	buf_finish(&g.seconds);
	buf_finish(&g.gaps);
	buf_finish(&g.text);
	rig_finish(&r);
	return e == ERR_OK ? 0 : cli_fail(e, &msg);
}
