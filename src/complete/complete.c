// SPDX-License-Identifier: MIT
// The spine: complete_run is the data flow from a cursor to a suggestion, one call a step.
//
//   snapshot ─► syntax (document) ─► prompt (prompt) ─► tokens (model/tokenizer) ─► prefill (model/session)
//            ─► decode with stop rules (model/sampler, complete/suggest) ─► suggestion (complete/suggest)
//
// Threads: a completer belongs to one thread at a time (the engine's decode thread, or the CLI's main thread); kernels run on its
// pool, syntax on the parser worker. The request's cancel flag may be set by any thread and is read by every worker.
#include "complete/complete.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "complete/deadline.h"
#include "defaults.h"
#include "model/sampler.h"

struct completer {
	struct engine_options options; // model_path is not kept
	struct parser_worker *parser;  // borrowed
	struct model *model;
	struct pool *pool;
	struct maskstore *store;
	struct session *session;
	struct deadline *deadline;
	int context_tokens;
};

const char *outcome_name(enum outcome o) {
	static const char *const names[] = {"shown", "empty", "cancelled", "superseded", "failed"};
	return names[o];
}

void complete_result_finish(struct complete_result *r) {
	suggestion_finish(&r->suggestion);
	*r = (struct complete_result){0};
}

// --- life

static int context_tokens(const struct model *m, const struct engine_options *o) {
	int n_ctx_train = model_info(m)->n_ctx_train;
	return o->max_context_tokens < n_ctx_train ? o->max_context_tokens : n_ctx_train;
}

static enum err create_session(struct completer *c, struct err_msg *msg) {
	struct maskstore_geometry g = session_geometry(c->model, c->options.kv_type);
	size_t n_blocks = ((size_t)c->context_tokens + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS;
	enum err e = maskstore_create(&g, n_blocks * maskstore_block_bytes(&g), &c->store, msg);
	if (e != ERR_OK)
		return e;
	struct session_options o = {
		.capacity_tokens = c->context_tokens,
		.chunk_tokens = c->options.chunk_tokens,
		.activation = c->options.activation,
		.store = c->store,
		.pool = c->pool,
	};
	return session_create(c->model, &o, &c->session, msg);
}

static enum err create_parts(struct completer *c, const char *model_path, struct err_msg *msg) {
	enum err e = model_open(model_path, kernels_get(c->options.cpu_flags), &c->model, msg);
	if (e != ERR_OK)
		return e;
	model_prefetch(c->model);
	c->context_tokens = context_tokens(c->model, &c->options);
	if (pool_create(c->options.n_threads > 0 ? c->options.n_threads : cpu_count(), &c->pool) != ERR_OK)
		return err_set(msg, ERR_NOMEM, "cannot start %d worker threads: lower --threads", c->options.n_threads);
	e = deadline_create(&c->deadline);
	if (e != ERR_OK)
		return err_set(msg, e, "cannot start the deadline thread");
	return create_session(c, msg);
}

enum err completer_create(const struct engine_options *o, struct parser_worker *parser, struct completer **out,
                          struct err_msg *msg) {
	struct completer *c = calloc(1, sizeof *c);
	if (!c)
		return err_set(msg, ERR_NOMEM, "out of memory");
	c->options = *o;
	c->options.model_path = NULL;
	c->parser = parser;
	enum err e = create_parts(c, o->model_path, msg);
	if (e != ERR_OK)
		completer_destroy(c);
	else
		*out = c;
	return e;
}

void completer_destroy(struct completer *c) {
	if (!c)
		return;
	deadline_destroy(c->deadline);
	session_destroy(c->session);
	maskstore_destroy(c->store);
	pool_destroy(c->pool);
	model_close(c->model);
	free(c);
}

const struct model *completer_model(const struct completer *c) {
	return c->model;
}

struct session *completer_session(struct completer *c) {
	return c->session;
}

// --- steps of one request

// What one run passes from step to step; lives on complete_run's stack.
struct run {
	struct completer *c;
	const struct complete_request *request;
	_Atomic int *cancel;
	struct complete_result *out;
	struct prompt prompt;
	struct token_list tokens;
	struct buf text;      // generated behind the cursor, healed bytes left out
	int max_new_tokens;
};

static size_t count_tokens(void *user, const char *text, size_t n_bytes) {
	struct token_list l = {0};
	size_t n = SIZE_MAX / 4; // out of memory: fits no budget
	if (tokenizer_encode(user, text, n_bytes, &l) == ERR_OK)
		n = l.n;
	token_list_finish(&l);
	return n;
}

enum err complete_prompt(const struct model *m, const struct engine_options *options, struct parser_worker *parser, struct snapshot *s,
                         size_t offset, const _Atomic int *cancel, struct prompt *out, struct err_msg *msg) {
	const struct tokenizer *t = model_tokenizer(m);
	struct syntax *syntax = NULL;
	enum err e = ERR_OK;
	if (snapshot_is_python(s))
		e = snapshot_syntax(s, parser, cancel, &syntax);
	if (e != ERR_OK && e != ERR_UNSUPPORTED)
		return err_set(msg, e, "the text could not be parsed: %s", err_name(e));
	struct prompt_options o = {
		.budget_tokens = context_tokens(m, options) - options->max_new_tokens_block,
		.has_fim = tokenizer_fim(t)->middle != TOKEN_NONE,
		.has_bos = tokenizer_bos(t) != TOKEN_NONE,
	};
	e = prompt_build(s, syntax, offset, &o, count_tokens, (void *)t, out, msg);
	syntax_unref(syntax);
	return e;
}

static enum err build_prompt(struct run *r, struct err_msg *msg) {
	const struct engine_options *o = &r->c->options;
	enum err e = complete_prompt(r->c->model, o, r->c->parser, r->request->snapshot, r->request->offset, r->cancel, &r->prompt, msg);
	if (e == ERR_OK)
		r->max_new_tokens = r->prompt.single_line ? o->max_new_tokens_line : o->max_new_tokens_block;
	return e;
}

static token_id mark_token(const struct tokenizer *t, enum prompt_mark mark) {
	switch (mark) {
	case PROMPT_BOS: return tokenizer_bos(t);
	case PROMPT_FIM_PREFIX: return tokenizer_fim(t)->prefix;
	case PROMPT_FIM_SUFFIX: return tokenizer_fim(t)->suffix;
	case PROMPT_FIM_MIDDLE: return tokenizer_fim(t)->middle;
	case PROMPT_TEXT: break;
	}
	return TOKEN_NONE;
}

// Segments to ids. Text whose every byte the vocabulary lacks gives none: then one newline, since a decoder needs a token.
static enum err encode_prompt(struct run *r, struct err_msg *msg) {
	const struct tokenizer *t = model_tokenizer(r->c->model);
	enum err e = ERR_OK;
	for (int i = 0; i < r->prompt.n_segments && e == ERR_OK; i++) {
		const struct prompt_segment *s = &r->prompt.segments[i];
		if (s->mark == PROMPT_TEXT)
			e = tokenizer_encode(t, r->prompt.text + s->begin, s->end - s->begin, &r->tokens);
		else
			e = token_list_push(&r->tokens, mark_token(t, s->mark));
	}
	if (e == ERR_OK && r->tokens.n == 0)
		e = tokenizer_encode(t, "\n", 1, &r->tokens);
	if (e != ERR_OK)
		return err_set(msg, e, "out of memory while tokenising");
	if (r->tokens.n == 0 || r->tokens.n > (size_t)r->c->context_tokens)
		return err_set(msg, ERR_LIMIT, "the prompt has %zu tokens, max_context is %d", r->tokens.n, r->c->context_tokens);
	return ERR_OK;
}

// The next token: bound to the healed bytes while any are left.
static token_id pick_token(struct run *r, const char *must, size_t must_bytes) {
	const float *logits = session_logits(r->c->session);
	if (must_bytes)
		return sampler_pick_healed(model_tokenizer(r->c->model), logits, must, must_bytes);
	return model_kernels(r->c->model)->argmax(logits, model_info(r->c->model)->n_vocab);
}

// Appends a token's bytes to the text; bytes that heal are counted off `*must_bytes` instead.
static void take_token(struct run *r, token_id token, const char **must, size_t *must_bytes) {
	size_t n;
	const char *bytes = tokenizer_bytes(model_tokenizer(r->c->model), token, &n);
	size_t heal = n < *must_bytes ? n : *must_bytes;
	*must += heal;
	*must_bytes -= heal;
	buf_append(&r->text, bytes + heal, n - heal);
}

// Greedy decoding until a stop rule speaks; the text is cut to what the rule keeps.
static enum err decode(struct run *r, struct err_msg *msg) {
	const struct tokenizer *t = model_tokenizer(r->c->model);
	const char *must = r->prompt.healed;
	size_t must_bytes = r->prompt.healed_bytes;
	struct complete_result *out = r->out;
	for (;;) {
		token_id token = pick_token(r, must, must_bytes);
		if (out->generated_tokens == 0)
			out->ttft_us = clock_us() - r->request->received_us;
		if (token == TOKEN_NONE) {
			out->stop = STOP_HEALING;
			return ERR_OK;
		}
		out->generated_tokens++;
		if (tokenizer_is_end(t, token)) {
			out->stop = STOP_END_TOKEN;
			return ERR_OK;
		}
		take_token(r, token, &must, &must_bytes);
		size_t keep_bytes = r->text.len_bytes;
		out->stop = suggest_stop(&r->prompt, r->text.data ? r->text.data : "", r->text.len_bytes, &keep_bytes);
		if (out->stop == STOP_NONE && out->generated_tokens >= r->max_new_tokens)
			out->stop = STOP_MAX_TOKENS;
		if (out->stop == STOP_NONE && r->tokens.n + (size_t)out->generated_tokens >= (size_t)r->c->context_tokens)
			out->stop = STOP_CONTEXT;
		if (out->stop != STOP_NONE) {
			r->text.len_bytes = keep_bytes;
			return ERR_OK;
		}
		enum err e = session_step(r->c->session, token, r->cancel, msg);
		if (e != ERR_OK)
			return e;
	}
}

// The suggestion with the document's line ends.
static enum err finish_text(struct run *r, struct err_msg *msg) {
	struct suggestion *s = &r->out->suggestion;
	if (r->text.failed || suggest_finish(&r->prompt, r->text.data ? r->text.data : "", r->text.len_bytes, s) != ERR_OK)
		return err_set(msg, ERR_NOMEM, "out of memory");
	if (!r->prompt.crlf || !s->text_bytes)
		return ERR_OK;
	struct buf crlf = {0};
	for (size_t i = 0; i < s->text_bytes; i++)
		buf_append(&crlf, s->text[i] == '\n' ? "\r\n" : s->text + i, s->text[i] == '\n' ? 2 : 1);
	if (crlf.failed) {
		buf_finish(&crlf);
		return err_set(msg, ERR_NOMEM, "out of memory");
	}
	free(s->text);
	s->text = crlf.data;
	s->text_bytes = crlf.len_bytes;
	return ERR_OK;
}

static int64_t lap(int64_t *since) {
	int64_t now = clock_us(), took = now - *since;
	*since = now;
	return took;
}

static enum err run_steps(struct run *r, struct err_msg *msg) {
	struct complete_phases_us *phases = &r->out->phases;
	int64_t since = clock_us();
	phases->queue = since - r->request->received_us;

	enum err e = build_prompt(r, msg);
	phases->prompt = lap(&since);
	if (e != ERR_OK)
		return e;

	e = encode_prompt(r, msg);
	phases->tokenize = lap(&since);
	r->out->prompt_tokens = (int)r->tokens.n;
	if (e != ERR_OK)
		return e;

	struct session_sync_result sync = {0};
	e = session_sync(r->c->session, r->tokens.ids, r->tokens.n, r->cancel, &sync, msg);
	phases->prefill = lap(&since);
	r->out->hit_tokens = sync.hit_tokens;
	r->out->new_tokens = sync.new_tokens;
	if (e != ERR_OK)
		return e;

	e = decode(r, msg);
	phases->decode = lap(&since);
	if (e != ERR_OK && !(e == ERR_CANCELLED && atomic_load(r->cancel) == CANCEL_DEADLINE))
		return e;
	if (e == ERR_CANCELLED)
		r->out->stop = STOP_DEADLINE; // what was decoded in time is shown

	e = finish_text(r, msg);
	phases->finish = lap(&since);
	return e;
}

static enum outcome outcome_of(enum err e, int cancel, const struct complete_result *out) {
	if (e == ERR_OK)
		return out->suggestion.text_bytes ? OUTCOME_SHOWN : OUTCOME_EMPTY;
	if (e != ERR_CANCELLED)
		return OUTCOME_FAILED;
	if (cancel == CANCEL_DEADLINE)
		return OUTCOME_EMPTY;
	return cancel == CANCEL_SUPERSEDED ? OUTCOME_SUPERSEDED : OUTCOME_CANCELLED;
}

void complete_run(struct completer *c, const struct complete_request *request, struct complete_result *out) {
	*out = (struct complete_result){0};
	_Atomic int own_flag = CANCEL_NONE;
	struct run r = {.c = c, .request = request, .cancel = request->cancel ? request->cancel : &own_flag, .out = out};
	if (c->options.deadline_ms > 0)
		deadline_arm(c->deadline, request->received_us + (int64_t)c->options.deadline_ms * 1000, r.cancel, CANCEL_DEADLINE);
	enum err e = run_steps(&r, &out->msg);
	deadline_disarm(c->deadline);
	int cancel = atomic_load(r.cancel);
	out->err = e;
	out->outcome = outcome_of(e, cancel, out);
	if (e == ERR_CANCELLED)
		out->stop = cancel == CANCEL_DEADLINE ? STOP_DEADLINE : STOP_CANCELLED;
	out->total_us = clock_us() - request->received_us;
	if (!out->ttft_us)
		out->ttft_us = out->total_us;
	prompt_finish(&r.prompt);
	token_list_finish(&r.tokens);
	buf_finish(&r.text);
}
