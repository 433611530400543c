// SPDX-License-Identifier: MIT
// The spine: complete_run is the data flow from a cursor to a suggestion, one call a step.
//
//   snapshot ─► syntax (document) ─► prompt (prompt) ─► tokens (model/tokenizer)
//            ─► decode with stop rules (complete/generate, memo, suggest; model/session, sampler) ─► suggestion (complete/suggest)
//
// Threads: a completer belongs to one thread at a time (the engine's decode thread, or the CLI's main thread); kernels run on its
// pool, syntax on the parser worker. The request's cancel flag may be set by any thread and is read by every worker.
#include "complete/complete.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "complete/internal.h"
#include "defaults.h"

const char *outcome_name(enum outcome o) {
	static const char *const names[] = {"shown", "empty", "cancelled", "superseded", "failed"};
	return names[o];
}

const char *origin_name(enum answer_origin o) {
	static const char *const names[] = {"none", "memo", "decoder"};
	return names[o];
}

void complete_result_finish(struct complete_result *r) {
	suggestion_finish(&r->suggestion);
	*r = (struct complete_result){0};
}

// --- life

static enum err create_parts(struct completer *c, const char *model_path, struct err_msg *msg) {
	enum err e = model_open_prefetching(model_path, kernels_get(c->options.cpu_flags), &c->model, msg);
	if (e != ERR_OK)
		return e;
	c->context_tokens = completer_context_tokens(c->model, &c->options);
	if (pool_create(c->options.n_threads > 0 ? c->options.n_threads : cpu_count(), &c->pool) != ERR_OK)
		return err_set(msg, ERR_NOMEM, "cannot start %d worker threads: lower --threads", c->options.n_threads);
	e = deadline_create(&c->deadline);
	if (e != ERR_OK)
		return err_set(msg, e, "cannot start the deadline thread");
	if (memo_create(model_tokenizer(c->model), c->context_tokens, &c->memo) != ERR_OK)
		return err_set(msg, ERR_NOMEM, "no memory for what was decoded");
	if (c->options.speculate && draft_create(model_tokenizer(c->model), c->context_tokens, c->options.speculate == SPECULATE_ALWAYS, &c->draft) != ERR_OK)
		return err_set(msg, ERR_NOMEM, "no memory for drafts");
	if (pieces_create(model_tokenizer(c->model), &c->pieces) != ERR_OK)
		return err_set(msg, ERR_NOMEM, "out of memory");
	return store_open(c, model_path, msg);
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
	memo_destroy(c->memo);
	draft_destroy(c->draft);
	pieces_destroy(c->pieces);
	token_list_finish(&c->last);
	store_close(c);
	pool_destroy(c->pool);
	model_close(c->model);
	free(c);
}

const char *completer_notice(const struct completer *c) {
	return c->notice.text;
}

void completer_set_layout(struct completer *c, const struct prompt_layout *l) {
	c->options.layout = *l;
}

const struct model *completer_model(const struct completer *c) {
	return c->model;
}

struct session *completer_session(struct completer *c) {
	return c->session;
}

struct maskstore *completer_store(struct completer *c) {
	return c->store;
}

struct pool *completer_pool(struct completer *c) {
	return c->pool;
}

// --- steps of one request

static int deadline_ms(const struct engine_options *o, enum complete_trigger trigger) {
	if (o->deadline_ms != DEADLINE_BY_TRIGGER)
		return o->deadline_ms;
	return trigger == TRIGGER_AUTOMATIC ? LIMIT_DEADLINE_AUTOMATIC_MS : LIMIT_DEADLINE_INVOKED_MS;
}

// window_tokens 0: the whole.
static enum err build_prompt(struct run *r, int window_tokens, struct err_msg *msg) {
	const struct engine_options *o = &r->c->options;
	enum err e = context_prompt(r->c, r->request->snapshot, r->request->offset, window_tokens, r->cancel, &r->prompt, msg);
	if (e == ERR_OK)
		r->max_new_tokens = r->request->exact ? r->request->n_exact : r->prompt.single_line ? o->max_new_tokens_line : o->max_new_tokens_block;
	return e;
}

static enum err encode_prompt(struct run *r, struct err_msg *msg) {
	enum err e = context_encode(r->c, &r->prompt, &r->tokens, msg);
	r->out->prompt_tokens = (int)r->tokens.n;
	return e;
}

// Until the deadline; there is one.
static int64_t left_us(const struct run *r) {
	return r->request->received_us + (int64_t)deadline_ms(&r->c->options, r->request->trigger) * 1000 - clock_us();
}

// Whether the first token behind the whole prompt would come too late.
static bool is_slow(struct run *r) {
	token_id token;
	struct completer *c = r->c;
	size_t n = r->tokens.n, have;
	if (deadline_ms(&c->options, r->request->trigger) == 0 || !pace_is_slow(&c->pace, 0, n, left_us(r)))
		return false;
	memo_go(c->memo, r->tokens.ids, n);
	if (memo_pick(c->memo, r->prompt.healed, r->prompt.healed_bytes, &token))
		return false;
	have = session_probe(c->session, r->tokens.ids, n);
	return pace_is_slow(&c->pace, have, n - have, left_us(r));
}

// Goes over to the short window.
static enum err take_window(struct run *r, struct err_msg *msg) {
	struct completer *c = r->c;
	if (!c->window_tokens)
		c->window_tokens = pace_window_tokens(&c->pace, (int64_t)deadline_ms(&c->options, r->request->trigger) * 1000); // by the whole time: the next key has it
	prompt_finish(&r->prompt);
	enum err e = build_prompt(r, c->window_tokens, msg);
	if (e == ERR_OK)
		e = encode_prompt(r, msg);
	r->out->window = true;
	return e;
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

// What was decoded in time is shown as far as its lines are whole.
static enum err cut_at_deadline(struct run *r) {
	size_t n = r->text.len_bytes;
	while (n && r->text.data[n - 1] != '\n')
		n--;
	r->text.len_bytes = n ? n - 1 : 0;
	r->out->stop = STOP_DEADLINE;
	return ERR_OK;
}

static enum err run_steps(struct run *r, struct err_msg *msg) {
	struct complete_phases_us *phases = &r->out->phases;
	int64_t since = clock_us();
	phases->queue = since - r->request->received_us;

	enum err e = build_prompt(r, 0, msg);
	phases->prompt = lap(&since);
	if (e != ERR_OK)
		return e;

	e = encode_prompt(r, msg);
	phases->tokenize = lap(&since);
	if (e != ERR_OK)
		return e;

	if (is_slow(r))
		e = take_window(r, msg);
	else
		r->c->window_tokens = 0;
	phases->prompt += lap(&since);
	if (e != ERR_OK)
		return e;

	e = generate(r, msg);
	phases->decode = lap(&since) - phases->prefill;
	if (e == ERR_CANCELLED && atomic_load(r->cancel) == CANCEL_DEADLINE)
		e = cut_at_deadline(r);
	if (e != ERR_OK)
		return e;

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
	return cancel == CANCEL_CLIENT ? OUTCOME_CANCELLED : OUTCOME_SUPERSEDED; // CANCEL_NONE: stopped softly
}

// Hard: the flag is raised. Soft, for automatic requests: half of that is used.
static void set_deadline(struct run *r) {
	const struct complete_request *request = r->request;
	int64_t us = (int64_t)deadline_ms(&r->c->options, request->trigger) * 1000;
	if (us <= 0)
		return;
	if (request->trigger == TRIGGER_AUTOMATIC)
		r->soft_us = request->received_us + us / 2;
	if (clock_us() < request->received_us + us) {
		deadline_arm(r->c->deadline, request->received_us + us, r->cancel, CANCEL_DEADLINE);
		return;
	}
	int none = CANCEL_NONE;
	atomic_compare_exchange_strong(r->cancel, &none, CANCEL_DEADLINE);
}

void complete_run(struct completer *c, const struct complete_request *request, struct complete_result *out) {
	*out = (struct complete_result){0};
	_Atomic int own_flag = CANCEL_NONE;
	struct run r = {.c = c, .request = request, .cancel = request->cancel ? request->cancel : &own_flag, .out = out};
	set_deadline(&r);
	enum err e = run_steps(&r, &out->msg);
	deadline_disarm(c->deadline);
	int cancel = atomic_load(r.cancel);
	out->err = e;
	out->outcome = outcome_of(e, cancel, out);
	if (e == ERR_CANCELLED)
		out->stop = cancel == CANCEL_DEADLINE ? STOP_DEADLINE : STOP_CANCELLED;
	out->background_tokens = c->background_tokens;
	c->background_tokens = 0;
	completer_stats(c, &out->stats);
	out->total_us = clock_us() - request->received_us;
	if (!out->ttft_us)
		out->ttft_us = out->total_us;
	prompt_finish(&r.prompt);
	token_list_finish(&c->last);
	r.tokens.n = out->window ? 0 : (size_t)out->prompt_tokens;
	c->last = r.tokens;
	buf_finish(&r.text);
}
