// SPDX-License-Identifier: MIT
// From a cursor in a snapshot to token ids: syntax, prompt text, ids; whole or a short window, and the file's own for the background.
//
// The short window answers where the whole prompt would keep somebody waiting (pace.h). Without a deadline the whole prompt is always used, and the prompt is
// a pure function of text and cursor.
// Threads: complete_prompt any, the rest the completer's.
#include <string.h>

#include "complete/internal.h"

#define AHEAD_LINES 256 // jumps of 200 lines are what people report
#define NEAR_LINES 32

int completer_context_tokens(const struct model *m, const struct engine_options *o) {
	int n_ctx_train = model_info(m)->n_ctx_train;
	return o->max_context_tokens < n_ctx_train ? o->max_context_tokens : n_ctx_train;
}

static size_t count_pieces(void *user, const char *text, size_t n_bytes) {
	return pieces_count(user, text, n_bytes);
}

static size_t count_tokens(void *user, const char *text, size_t n_bytes) {
	struct token_list l = {0};
	size_t n = SIZE_MAX / 4; // out of memory: fits no budget
	if (tokenizer_encode(user, text, n_bytes, &l) == ERR_OK)
		n = l.n;
	token_list_finish(&l);
	return n;
}

static struct prompt_options prompt_options(const struct model *m, const struct engine_options *o) {
	const struct tokenizer *t = model_tokenizer(m);
	return (struct prompt_options){
		.layout = o->layout,
		.budget_tokens = completer_context_tokens(m, o) - o->max_new_tokens_block,
		.has_fim = tokenizer_fim(t)->middle != TOKEN_NONE,
		.has_bos = tokenizer_bos(t) != TOKEN_NONE,
	};
}

static enum err build(const struct prompt_options *o, prompt_count_tokens *count, void *user, struct parser_worker *parser, struct snapshot *s, size_t offset,
                      const _Atomic int *cancel, struct prompt *out, struct err_msg *msg) {
	struct syntax *syntax = NULL;
	struct syntax_place place;
	struct prompt_options with_place = *o;
	enum err e = ERR_OK;
	if (snapshot_is_python(s) && snapshot_place_early(s, offset, &place))
		with_place.place = &place; // a large file takes tens of milliseconds to parse
	else if (snapshot_is_python(s))
		e = snapshot_syntax(s, parser, cancel, &syntax);
	if (e != ERR_OK && e != ERR_UNSUPPORTED)
		return err_set(msg, e, "the text could not be parsed: %s", err_name(e));
	e = prompt_build(s, syntax, offset, &with_place, count, user, out, msg);
	syntax_unref(syntax);
	return e;
}

enum err complete_prompt(const struct model *m, const struct engine_options *options, struct parser_worker *parser, struct snapshot *s,
                         size_t offset, const _Atomic int *cancel, struct prompt *out, struct err_msg *msg) {
	struct prompt_options o = prompt_options(m, options);
	return build(&o, count_tokens, (void *)model_tokenizer(m), parser, s, offset, cancel, out, msg);
}

enum err context_prompt(struct completer *c, struct snapshot *s, size_t offset, int window_tokens, const _Atomic int *cancel, struct prompt *out,
                        struct err_msg *msg) {
	struct prompt_options o = prompt_options(c->model, &c->options);
	if (window_tokens && window_tokens < o.budget_tokens)
		o.budget_tokens = window_tokens;
	return build(&o, count_pieces, c->pieces, c->parser, s, offset, cancel, out, msg);
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

// Text whose every byte the vocabulary lacks gives no ids: then one newline, since a decoder needs a token.
enum err context_encode(struct completer *c, const struct prompt *p, struct token_list *out, struct err_msg *msg) {
	const struct tokenizer *t = model_tokenizer(c->model);
	enum err e = ERR_OK;
	out->n = 0;
	for (int i = 0; i < p->n_segments && e == ERR_OK; i++) {
		const struct prompt_segment *s = &p->segments[i];
		if (s->mark == PROMPT_TEXT)
			e = pieces_encode(c->pieces, p->text + s->begin, s->end - s->begin, out);
		else
			e = token_list_push(out, mark_token(t, s->mark));
	}
	if (e == ERR_OK && out->n == 0)
		e = tokenizer_encode(t, "\n", 1, out);
	if (e != ERR_OK)
		return err_set(msg, e, "out of memory while tokenising");
	if (out->n == 0 || out->n > (size_t)c->context_tokens)
		return err_set(msg, ERR_LIMIT, "the prompt has %zu tokens, max_context is %d", out->n, c->context_tokens);
	return ERR_OK;
}

enum err context_tokens(struct completer *c, struct snapshot *s, size_t offset, enum context_kind kind, struct token_list *out) {
	struct prompt_options o = prompt_options(c->model, &c->options);
	struct prompt p = {0};
	uint32_t ahead_lines = kind == CONTEXT_AROUND ? AHEAD_LINES : kind == CONTEXT_NEAR ? NEAR_LINES : 0;
	enum err e = kind == CONTEXT_PROMPT ? prompt_build(s, NULL, offset, &o, count_pieces, c->pieces, &p, NULL) :
	             prompt_build_file(s, offset, ahead_lines, &o, count_pieces, c->pieces, &p, NULL);
	if (e == ERR_OK)
		e = context_encode(c, &p, out, NULL);
	prompt_finish(&p);
	return e;
}

bool context_return(struct completer *c, const _Atomic int *cancel) {
	size_t n;
	const token_id *now = session_tokens(c->session, &n);
	const struct token_list *last = &c->last;
	if (!last->n || (n >= last->n && !memcmp(now, last->ids, last->n * sizeof *now)) || session_probe(c->session, last->ids, last->n) < last->n)
		return false;
	struct session_sync_result r = {0};
	enum err e = session_sync(c->session, last->ids, last->n, cancel, &r, NULL);
	c->background_tokens += r.new_tokens;
	return e == ERR_OK;
}
