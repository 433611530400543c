// SPDX-License-Identifier: MIT
// Decoding: token by token, from the memo where the pick is known, else from logits, until a stop rule speaks.
//
// Speculation: with the token that must be read anyway a pass reads a few more that may follow (draft.h). Each pick is made from the logits behind the tokens
// picked before it, as without; where it is the token that was read next, its own logits are there already. So a draft saves passes and decides nothing.
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

// --- speculation

// Of the tokens that were read on trial, takes those that have been picked since. Returns how many.
static int confirm(struct run *r) {
	size_t n_held, n_before = r->n_evaluated;
	const token_id *held = session_tokens(r->c->session, &n_held);
	while (r->n_evaluated < r->tokens.n && r->n_evaluated < r->n_held && held[r->n_evaluated] == r->tokens.ids[r->n_evaluated])
		r->n_evaluated++;
	return (int)(r->n_evaluated - n_before);
}

// Takes back what is left of them.
static void drop_guess(struct run *r) {
	if (r->n_held)
		session_rewind(r->c->session, r->n_evaluated);
	r->n_held = 0;
}

// Tokens to be read on trial behind the last one; none past the last token that the answer may have.
static int propose(struct run *r, token_id *out) {
	struct draft *d = r->c->draft;
	int max = r->max_new_tokens - r->out->generated_tokens - 1, room = r->c->context_tokens - (int)r->tokens.n;
	max = max < room ? max : room;
	max = max < DRAFT_MAX_TOKENS ? max : DRAFT_MAX_TOKENS;
	if (!d || max < 1)
		return 0;
	draft_go(d, r->tokens.ids, (size_t)r->out->prompt_tokens, r->tokens.n);
	return draft_propose(d, r->prompt.single_line && r->text.len_bytes && !r->request->exact, max, out);
}

// Reads the last token, and others with it where that is expected to pay.
static enum err step(struct run *r, struct err_msg *msg) {
	struct session *s = r->c->session;
	token_id ids[1 + DRAFT_MAX_TOKENS] = {r->tokens.ids[r->n_evaluated]};
	int n = propose(r, ids + 1);
	int64_t since = clock_us();
	enum err e = n ? session_guess(s, ids, 1 + (size_t)n, r->cancel, msg) : session_step(s, ids[0], r->cancel, msg);
	if (e == ERR_NOMEM && n) { // the last block of the budget
		n = 0;
		e = session_step(s, ids[0], r->cancel, msg);
	}
	if (e != ERR_OK)
		return e;
	if (r->c->draft)
		draft_measure(r->c->draft, 1 + n, clock_us() - since);
	r->n_held = r->n_evaluated + 1 + (size_t)n;
	r->out->evaluated_tokens++;
	r->out->decode_passes++;
	r->out->draft_proposed += n;
	return ERR_OK;
}

// Makes logits valid behind the last token.
static enum err evaluate(struct run *r, struct err_msg *msg) {
	int n_right = confirm(r);
	r->out->draft_accepted += n_right;
	r->out->evaluated_tokens += n_right;
	if (r->n_evaluated == r->tokens.n)
		return ERR_OK;
	drop_guess(r);
	if (r->n_evaluated && is_stopped(r))
		return err_set(msg, ERR_CANCELLED, "superseded");
	enum err e = r->n_evaluated && r->n_evaluated + 1 == r->tokens.n ? step(r, msg) : sync_session(r, msg);
	if (e == ERR_OK)
		r->n_evaluated = r->tokens.n;
	return e;
}

// --- picks

// The next token: bound to the healed bytes while any are left.
static enum err pick_token(struct run *r, const char *must, size_t must_bytes, token_id *token, struct err_msg *msg) {
	struct completer *c = r->c;
	if (memo_pick(c->memo, must, must_bytes, token))
		return ERR_OK;
	enum err e = evaluate(r, msg);
	if (e != ERR_OK)
		return e;
	const float *logits = session_logits_after(c->session, r->n_evaluated);
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
	if (r->request->exact)
		return out->generated_tokens >= r->max_new_tokens ? STOP_MAX_TOKENS : STOP_NONE;
	enum stop_reason stop = suggest_stop(&r->prompt, r->text.data ? r->text.data : "", r->text.len_bytes, keep_bytes);
	if (stop != STOP_NONE)
		return stop;
	if (out->generated_tokens >= r->max_new_tokens)
		return STOP_MAX_TOKENS;
	if (r->tokens.n + 1 >= (size_t)r->c->context_tokens)
		return STOP_CONTEXT;
	return r->soft_us && clock_us() >= r->soft_us && ends_line(r) ? STOP_SOFT_DEADLINE : STOP_NONE;
}

// Goes one token on.
static void follow(struct run *r, token_id token) {
	memo_step(r->c->memo, token);
	r->tokens.ids[r->tokens.n++] = token; // room was made by `generate`
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
	if (r->request->exact)
		r->request->exact[out->generated_tokens] = token;
	out->generated_tokens++;
	if (!r->request->exact && tokenizer_is_end(model_tokenizer(r->c->model), token)) {
		out->stop = STOP_END_TOKEN;
		return ERR_OK;
	}
	take_token(r, token, must, must_bytes);
	size_t keep_bytes = r->text.len_bytes;
	out->stop = stop_rule(r, &keep_bytes);
	if (out->stop != STOP_NONE)
		r->text.len_bytes = keep_bytes;
	follow(r, token);
	return ERR_OK;
}

// What was read on trial behind the end of the answer may be right too: then the memo knows how the text goes on.
static enum err learn_rest(struct run *r, struct err_msg *msg) {
	struct completer *c = r->c;
	const struct tokenizer *t = model_tokenizer(c->model);
	enum err e = ERR_OK;
	token_id token = 0;
	while (e == ERR_OK && confirm(r) && r->n_evaluated == r->tokens.n && r->tokens.n < (size_t)c->context_tokens) {
		e = pick_token(r, NULL, 0, &token, msg);
		if (e != ERR_OK || tokenizer_is_end(t, token))
			break;
		follow(r, token);
	}
	if (c->draft && r->n_evaluated)
		draft_go(c->draft, r->tokens.ids, (size_t)r->out->prompt_tokens, r->tokens.n);
	return e;
}

// So that nothing is allocated while decoding.
static enum err reserve(struct run *r, struct err_msg *msg) {
	size_t n = r->tokens.n;
	enum err e = ERR_OK;
	for (int i = 0; i < r->max_new_tokens + DRAFT_MAX_TOKENS && e == ERR_OK; i++)
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
	if (e == ERR_OK && !must_bytes)
		e = learn_rest(r, msg);
	drop_guess(r);
	session_set_stop(r->c->session, NULL);
	return e;
}
