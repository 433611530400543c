// SPDX-License-Identifier: MIT
// Decoding: token by token, from the memo where the pick is known, else from logits, until a stop rule speaks.
//
// The session is brought up to date only when a pick is unknown, and then in one go: prompt and all that the memo gave. Greedy picks depend on nothing but the
// tokens before, and logits are the same bits however they were reached (session.h), so the text never depends on what was remembered.
// Threads: the completer's.
#include <stdatomic.h>

#include "base/clock.h"
#include "complete/internal.h"
#include "model/sampler.h"

#define MAX_LOST 6 // a chunk of 64 is a token then

// A newer request of the same place waits: what is done here is the beginning of what it needs.
static bool is_stopped(const struct run *r) {
	return r->request->stop && atomic_load(r->request->stop);
}

// The prompt's share of a sync over prompt and generated tokens.
static void count_prefill(struct run *r, const struct session_sync_result *sync) {
	struct complete_result *out = r->out;
	int end = sync->hit_tokens + sync->new_tokens;
	out->hit_tokens = sync->hit_tokens < out->prompt_tokens ? sync->hit_tokens : out->prompt_tokens;
	out->restored_tokens = sync->restored_tokens < out->hit_tokens ? sync->restored_tokens : out->hit_tokens;
	out->tree_tokens = sync->tree_tokens < out->hit_tokens - out->restored_tokens ? sync->tree_tokens : out->hit_tokens - out->restored_tokens;
	out->new_tokens = (end < out->prompt_tokens ? end : out->prompt_tokens) - out->hit_tokens;
}

// Editors cancel on nearly every key, and a chunk that is cancelled is lost: after each loss the steps become smaller, until something is kept between two keys.
static size_t step_tokens(const struct completer *c) {
	int chunk = c->options.chunk_tokens ? c->options.chunk_tokens : SESSION_DEFAULT_CHUNK;
	int step = c->n_lost ? chunk >> c->n_lost : 0;
	return step || !c->n_lost ? (size_t)step : 1;
}

// session_sync in one go, or in steps after losses.
static enum err sync_steps(struct run *r, struct session_sync_result *sum, struct err_msg *msg) {
	const struct token_list *t = &r->tokens;
	size_t step = step_tokens(r->c), n = t->n;
	enum err e = ERR_OK;
	for (bool first = true; e == ERR_OK && (first || n < t->n); first = false) {
		size_t have = step ? session_probe(r->c->session, t->ids, t->n) : 0;
		n = step && t->n - have > step ? have + step : t->n;
		struct session_sync_result part = {0};
		e = session_sync(r->c->session, t->ids, n, r->cancel, &part, msg);
		part.new_tokens += first ? 0 : sum->new_tokens;
		if (first)
			*sum = part;
		sum->new_tokens = part.new_tokens;
		if (e == ERR_OK && n < t->n && is_stopped(r))
			e = err_set(msg, ERR_CANCELLED, "superseded");
	}
	if (e == ERR_OK || sum->new_tokens)
		r->c->n_lost = e == ERR_OK ? 0 : r->c->n_lost;
	else if (e == ERR_CANCELLED && r->c->n_lost < MAX_LOST)
		r->c->n_lost++;
	return e;
}

static enum err sync_session(struct run *r, struct err_msg *msg) {
	int64_t since = clock_us();
	struct session_sync_result sync = {0};
	enum err e = sync_steps(r, &sync, msg);
	r->out->evaluated_tokens += sync.new_tokens;
	if (!sync.restored_tokens && (e == ERR_OK || is_stopped(r)))
		pace_measure(&r->c->pace, (size_t)sync.hit_tokens, (size_t)sync.new_tokens, clock_us() - since);
	if (r->out->origin != ORIGIN_DECODER) {
		r->out->origin = ORIGIN_DECODER;
		count_prefill(r, &sync);
		r->out->phases.prefill = clock_us() - since;
	}
	return e;
}

// Makes logits valid behind the last token.
static enum err evaluate(struct run *r, struct err_msg *msg) {
	enum err e;
	if (r->n_evaluated && is_stopped(r))
		return err_set(msg, ERR_CANCELLED, "superseded");
	if (r->n_evaluated && r->n_evaluated + 1 == r->tokens.n) {
		e = session_step(r->c->session, r->tokens.ids[r->n_evaluated], r->cancel, msg);
		r->out->evaluated_tokens += e == ERR_OK;
	} else {
		e = sync_session(r, msg);
	}
	if (e == ERR_OK)
		r->n_evaluated = r->tokens.n;
	return e;
}

// The next token: bound to the healed bytes while any are left.
static enum err pick_token(struct run *r, const char *must, size_t must_bytes, token_id *token, struct err_msg *msg) {
	struct completer *c = r->c;
	if (memo_pick(c->memo, must, must_bytes, token))
		return ERR_OK;
	enum err e = evaluate(r, msg);
	if (e != ERR_OK)
		return e;
	const float *logits = session_logits(c->session);
	if (must_bytes)
		*token = sampler_pick_healed(model_tokenizer(c->model), logits, must, must_bytes);
	else
		*token = model_kernels(c->model)->argmax(logits, model_info(c->model)->n_vocab);
	memo_learn(c->memo, must, must_bytes, *token);
	return ERR_OK;
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

// Whether the text is good to be shown as it is: it ends with a whole line.
static bool ends_line(const struct run *r) {
	bool content = false;
	for (size_t i = 0; i < r->text.len_bytes; i++)
		content |= r->text.data[i] != '\n' && r->text.data[i] != ' ' && r->text.data[i] != '\t';
	return content && r->text.data[r->text.len_bytes - 1] == '\n';
}

static enum stop_reason stop_rule(struct run *r, size_t *keep_bytes) {
	struct complete_result *out = r->out;
	enum stop_reason stop = suggest_stop(&r->prompt, r->text.data ? r->text.data : "", r->text.len_bytes, keep_bytes);
	if (stop != STOP_NONE)
		return stop;
	if (out->generated_tokens >= r->max_new_tokens)
		return STOP_MAX_TOKENS;
	if (r->tokens.n + 1 >= (size_t)r->c->context_tokens)
		return STOP_CONTEXT;
	return r->soft_us && clock_us() >= r->soft_us && ends_line(r) ? STOP_SOFT_DEADLINE : STOP_NONE;
}

// One token. out->stop tells whether it was the last.
static enum err generate_token(struct run *r, const char **must, size_t *must_bytes, struct err_msg *msg) {
	struct complete_result *out = r->out;
	token_id token;
	enum err e = pick_token(r, *must, *must_bytes, &token, msg);
	if (e != ERR_OK)
		return e;
	if (out->generated_tokens == 0)
		out->ttft_us = clock_us() - r->request->received_us;
	if (token == TOKEN_NONE) {
		out->stop = STOP_HEALING;
		return ERR_OK;
	}
	out->generated_tokens++;
	if (tokenizer_is_end(model_tokenizer(r->c->model), token)) {
		out->stop = STOP_END_TOKEN;
		return ERR_OK;
	}
	take_token(r, token, must, must_bytes);
	size_t keep_bytes = r->text.len_bytes;
	out->stop = stop_rule(r, &keep_bytes);
	if (out->stop != STOP_NONE) {
		r->text.len_bytes = keep_bytes;
		return ERR_OK;
	}
	memo_step(r->c->memo, token);
	r->tokens.ids[r->tokens.n++] = token; // room was made by `generate`
	return ERR_OK;
}

// So that nothing is allocated while decoding.
static enum err reserve(struct run *r, struct err_msg *msg) {
	size_t n = r->tokens.n;
	enum err e = ERR_OK;
	for (int i = 0; i < r->max_new_tokens && e == ERR_OK; i++)
		e = token_list_push(&r->tokens, 0);
	r->tokens.n = n;
	return e == ERR_OK ? e : err_set(msg, e, "out of memory");
}

enum err generate(struct run *r, struct err_msg *msg) {
	const char *must = r->prompt.healed;
	size_t must_bytes = r->prompt.healed_bytes;
	enum err e = reserve(r, msg);
	r->out->origin = ORIGIN_MEMO;
	r->out->hit_tokens = r->out->prompt_tokens;
	memo_go(r->c->memo, r->tokens.ids, r->tokens.n);
	session_set_stop(r->c->session, r->request->stop);
	while (e == ERR_OK && r->out->stop == STOP_NONE)
		e = generate_token(r, &must, &must_bytes, msg);
	session_set_stop(r->c->session, NULL);
	return e;
}
