// SPDX-License-Identifier: MIT
// From a cursor to the prompt: heal.c says what is generated again, window.c what part of the text is kept; here the pieces are laid out.
//
// Pure functions of text, cursor, syntax and options; any thread. Cost: the kept window, never the whole file.
#include <stdlib.h>
#include <string.h>

#include "prompt/internal.h"

void text_append(struct buf *b, const struct snapshot *s, size_t begin, size_t end) {
	if (!buf_reserve(b, end - begin))
		return;
	while (begin < end) {
		size_t len;
		const char *run = snapshot_chunk_at(s, begin, &len);
		if (!len)
			return;
		if (len > end - begin)
			len = end - begin;
		begin += len;
		if (!memchr(run, '\r', len)) {
			buf_append(b, run, len);
			continue;
		}
		for (size_t i = 0; i < len; i++) { // chunks never split \r\n
			if (run[i] == '\r' && i + 1 < len && run[i + 1] == '\n')
				continue;
			buf_append_char(b, run[i] == '\r' ? '\n' : run[i]);
		}
	}
}

// A piece of text as a string of its own, line ends normalised. Null if memory is out.
static char *text_copy(const struct snapshot *s, size_t begin, size_t end, size_t *n_bytes) {
	struct buf b = {0};
	text_append(&b, s, begin, end);
	buf_append(&b, "", 1); // a string even where it is empty
	if (b.failed) {
		buf_finish(&b);
		return NULL;
	}
	if (n_bytes)
		*n_bytes = b.len_bytes - 1;
	return b.data;
}

static void add_mark(struct prompt *p, enum prompt_mark mark) {
	p->segments[p->n_segments++] = (struct prompt_segment){.mark = mark};
}

static void add_text(struct prompt *p, struct buf *b, const struct snapshot *s, size_t begin, size_t end) {
	size_t from = b->len_bytes;
	text_append(b, s, begin, end);
	if (b->len_bytes > from)
		p->segments[p->n_segments++] = (struct prompt_segment){PROMPT_TEXT, from, b->len_bytes};
}

// Text from the cut to `end`, with what stays of the text above the cut.
static void add_prefix(struct prompt *p, struct buf *b, const struct snapshot *s, const struct head *head, size_t cut, size_t end) {
	size_t from = b->len_bytes;
	for (int i = 0; i < head->n; i++)
		text_append(b, s, snapshot_line_start(s, head->lines[i].begin), snapshot_line_start(s, head->lines[i].end));
	text_append(b, s, cut, end);
	if (b->len_bytes > from)
		p->segments[p->n_segments++] = (struct prompt_segment){PROMPT_TEXT, from, b->len_bytes};
}

static bool lay_out(struct prompt *p, const struct snapshot *s, const struct window *w, const struct prompt_options *o) {
	struct buf b = {0};
	if (o->has_bos)
		add_mark(p, PROMPT_BOS);
	if (o->has_fim) {
		add_mark(p, PROMPT_FIM_PREFIX);
		add_prefix(p, &b, s, &w->head, w->cut, w->anchor);
		add_mark(p, PROMPT_FIM_SUFFIX);
		add_text(p, &b, s, w->cursor, w->suffix_end);
		add_mark(p, PROMPT_FIM_MIDDLE);
		add_text(p, &b, s, w->anchor, w->heal);
	} else {
		add_prefix(p, &b, s, &w->head, w->cut, w->heal);
		if (!p->n_segments) {
			buf_append_char(&b, '\n');
			p->segments[p->n_segments++] = (struct prompt_segment){PROMPT_TEXT, 0, 1};
		}
	}
	p->text_bytes = b.len_bytes;
	buf_append(&b, "", 1);
	p->text = b.data;
	return !b.failed;
}

static bool is_blank(const char *text) {
	return text[strspn(text, " \t\f")] == 0;
}

// The parts that stop rules look at.
static bool surroundings(struct prompt *p, const struct snapshot *s, size_t cursor, size_t *before_begin) {
	uint32_t line = snapshot_line_of(s, cursor), n_lines = snapshot_lines(s);
	size_t begin = snapshot_line_start(s, line), end = snapshot_line_end(s, line);
	if (cursor - begin > PROMPT_LINE_BYTES)
		begin = snapshot_char_start(s, cursor - PROMPT_LINE_BYTES);
	if (end - cursor > PROMPT_LINE_BYTES)
		end = snapshot_char_start(s, cursor + PROMPT_LINE_BYTES);
	*before_begin = begin;
	p->before = text_copy(s, begin, cursor, NULL);
	p->rest = text_copy(s, cursor, end, NULL);
	size_t from = snapshot_line_start(s, line + 1), to = line + 1 < n_lines ? snapshot_line_end(s, line + PROMPT_AFTER_LINES < n_lines ?
	                                                                                          line + PROMPT_AFTER_LINES : n_lines - 1) : from;
	if (to - from > PROMPT_LINE_BYTES)
		to = snapshot_char_start(s, from + PROMPT_LINE_BYTES);
	p->after = text_copy(s, from, to, NULL);
	return p->before && p->rest && p->after;
}

// One line, or a whole block where the cursor stands in an empty one with nothing to its right.
static void choose_extent(struct prompt *p, const struct syntax *syntax, const struct syntax_place *known, size_t cursor) {
	p->single_line = true;
	if (!syntax && !known)
		return;
	struct syntax_place place = known ? *known : syntax_at(syntax, cursor);
	p->in_string = place.in_string;
	if (place.empty_block && !place.in_string && !place.in_comment && is_blank(p->rest)) {
		p->single_line = false;
		p->block_indent = (int)place.block_indent;
	}
}

enum err prompt_build(const struct snapshot *s, const struct syntax *syntax, size_t offset, const struct prompt_options *o,
                      prompt_count_tokens *count, void *user, struct prompt *out, struct err_msg *msg) {
	struct prompt p = {0};
	struct window w;
	uint32_t line = snapshot_line_of(s, offset);
	size_t cursor = snapshot_char_start(s, offset > snapshot_line_end(s, line) ? snapshot_line_end(s, line) : offset), before_begin;
	if (!surroundings(&p, s, cursor, &before_begin))
		goto no_memory;
	size_t n_healed = heal_length(p.before, cursor - before_begin);
	p.healed = text_copy(s, cursor - n_healed, cursor, &p.healed_bytes);
	if (!p.healed || window_choose(s, cursor, n_healed, o, count, user, &w))
		goto no_memory;
	p.crlf = snapshot_crlf(s);
	choose_extent(&p, syntax, o->place, cursor);
	if (!lay_out(&p, s, &w, o))
		goto no_memory;
	*out = p;
	return ERR_OK;
no_memory:
	prompt_finish(&p);
	return err_set(msg, ERR_NOMEM, "no memory for a prompt");
}

enum err prompt_build_file(const struct snapshot *s, size_t offset, uint32_t ahead_lines, const struct prompt_options *o, prompt_count_tokens *count, void *user,
                           struct prompt *out, struct err_msg *msg) {
	struct prompt p = {0};
	struct buf b = {0};
	struct head head;
	size_t cursor = snapshot_char_start(s, offset < snapshot_bytes(s) ? offset : snapshot_bytes(s)), begin, end;
	if (window_file(s, cursor, ahead_lines, o, count, user, &head, &begin, &end) != ERR_OK)
		return err_set(msg, ERR_NOMEM, "no memory for a prompt");
	if (o->has_bos)
		add_mark(&p, PROMPT_BOS);
	if (o->has_fim)
		add_mark(&p, PROMPT_FIM_PREFIX);
	add_prefix(&p, &b, s, &head, begin, end);
	p.text_bytes = b.len_bytes;
	buf_append(&b, "", 1);
	p.text = b.data;
	if (b.failed) {
		prompt_finish(&p);
		return err_set(msg, ERR_NOMEM, "no memory for a prompt");
	}
	*out = p;
	return ERR_OK;
}

void prompt_finish(struct prompt *p) {
	free(p->text);
	free(p->healed);
	free(p->before);
	free(p->rest);
	free(p->after);
	*p = (struct prompt){0};
}
