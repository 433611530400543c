// SPDX-License-Identifier: MIT
// From decoded text to what is shown: when to stop, what stays, and the last trimming. Pure functions over text.
//
// Rules follow completion-anchors.md c4 (stop), c5 (trim) and c6 (indentation). All text has \n line ends. suggest_stop looks at the whole text at each
// token: it is a few hundred bytes, and a rule that depends on nothing but the text can be tested as such.
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "complete/overlap.h"
#include "complete/suggest.h"

const char *stop_name(enum stop_reason r) {
	static const char *const NAMES[] = {
		[STOP_NONE] = "none", [STOP_END_TOKEN] = "end_token", [STOP_LINE] = "line", [STOP_REST_OF_LINE] = "rest_of_line",
		[STOP_BLOCK_END] = "block_end", [STOP_NEXT_LINE] = "next_line", [STOP_REPETITION] = "repetition", [STOP_BLANK_LINE] = "blank_line",
		[STOP_MAX_TOKENS] = "max_tokens", [STOP_DEADLINE] = "deadline", [STOP_CONTEXT] = "context", [STOP_CANCELLED] = "cancelled",
		[STOP_HEALING] = "healing", [STOP_SOFT_DEADLINE] = "soft_deadline",
	};
	return (size_t)r < sizeof NAMES / sizeof *NAMES ? NAMES[r] : "unknown";
}

static bool text_blank(const char *text) {
	return slice_blank((struct slice){text, strlen(text)});
}

static size_t leading_blanks(struct slice line) {
	size_t n = 0;
	while (n < line.n_bytes && is_blank_byte(line.text[n]))
		n++;
	return n;
}

static enum stop_reason stop_at(enum stop_reason reason, size_t bytes, size_t *keep_bytes) {
	*keep_bytes = bytes;
	return reason;
}

// --- one line

// One line of content. At the end of a line the model may first end it, but not leave blank lines.
static enum stop_reason stop_single(const struct prompt *p, const char *text, size_t n_bytes, size_t *keep_bytes) {
	struct slice line = first_line(text, n_bytes);
	bool complete = line.n_bytes < n_bytes;
	size_t cut = overlap_rest(p, text, line.n_bytes, !complete);
	if (cut < line.n_bytes)
		return stop_at(STOP_REST_OF_LINE, cut, keep_bytes);
	if (!complete)
		return STOP_NONE;
	if (!slice_blank(line) || !text_blank(p->rest))
		return stop_at(STOP_LINE, line.n_bytes, keep_bytes);
	size_t begin = line.n_bytes + 1;
	line = first_line(text + begin, n_bytes - begin);
	if (begin + line.n_bytes == n_bytes)
		return STOP_NONE;
	return slice_blank(line) ? stop_at(STOP_BLANK_LINE, 0, keep_bytes) : stop_at(STOP_LINE, begin + line.n_bytes, keep_bytes);
}

// --- a block

// True if `line` behind `before` (what stands in front of it on its line) is the line `want`.
static bool is_line(const char *before, struct slice line, struct slice want) {
	size_t n = strlen(before);
	line = slice_trim_end(line);
	return want.n_bytes && n + line.n_bytes == want.n_bytes && !memcmp(want.text, before, n) && !memcmp(want.text + n, line.text, line.n_bytes);
}

struct block_walk {
	struct lexer lexer;
	struct slice last[2];   // the two full lines before the one at hand
	size_t last_begin;      // where the nearer one begins
	size_t content_end;     // end of the last line with content
	bool content;
	int n_blank;
};

// Looks at a complete line that begins at `begin`; `inside` a string or brackets.
static enum stop_reason stop_line(const struct prompt *p, struct block_walk *w, struct slice line, size_t begin, bool inside, size_t *keep_bytes) {
	bool on_header = begin == 0 && !text_blank(p->before); // the rest of the line that opens the block
	if (slice_blank(line)) {
		w->n_blank += !inside && !on_header;
		return w->n_blank >= 2 ? stop_at(STOP_BLANK_LINE, w->content_end, keep_bytes) : STOP_NONE;
	}
	w->n_blank = 0;
	if (!on_header && is_line(begin ? "" : p->before, line, first_full_line(p->after)))
		return stop_at(STOP_NEXT_LINE, begin, keep_bytes);
	struct slice trimmed = slice_trim_end(line);
	if (w->last[0].text && w->last[1].text && slice_equal(trimmed, w->last[0]) && slice_equal(trimmed, w->last[1]))
		return stop_at(STOP_REPETITION, w->last_begin, keep_bytes);
	w->last[1] = w->last[0];
	w->last[0] = trimmed;
	w->last_begin = begin;
	w->content = true;
	w->content_end = begin + line.n_bytes;
	return STOP_NONE;
}

static enum stop_reason stop_block(const struct prompt *p, const char *text, size_t n_bytes, size_t *keep_bytes) {
	struct block_walk w = {.lexer = lexer_at_cursor(p)};
	bool blank_before = text_blank(p->before);
	for (size_t begin = 0; begin < n_bytes;) {
		struct slice line = first_line(text + begin, n_bytes - begin);
		bool inside = w.lexer.depth || w.lexer.quote, complete = begin + line.n_bytes < n_bytes;
		size_t indent = leading_blanks(line) + (begin ? 0 : strlen(p->before));
		if (!inside && !slice_blank(line) && (begin || blank_before) && indent < (size_t)p->block_indent)
			return stop_at(STOP_BLOCK_END, begin, keep_bytes);
		if (complete) {
			enum stop_reason r = stop_line(p, &w, line, begin, inside, keep_bytes);
			if (r)
				return r;
		}
		size_t end = begin + line.n_bytes + complete;
		while (begin < end)
			begin += lexer_step(&w.lexer, text, n_bytes, begin);
	}
	return STOP_NONE;
}

enum stop_reason suggest_stop(const struct prompt *p, const char *text, size_t n_bytes, size_t *keep_bytes) {
	return p->single_line ? stop_single(p, text, n_bytes, keep_bytes) : stop_block(p, text, n_bytes, keep_bytes);
}

// --- the last trimming

// Valid UTF-8 at the front; 0 if something other than a cut last character is wrong.
static size_t valid_bytes(const char *text, size_t n_bytes) {
	size_t i = 0, n;
	while (i < n_bytes && (n = utf8_sequence(text + i, n_bytes - i)))
		i += n;
	size_t left = n_bytes - i;
	if (!left)
		return i;
	unsigned char lead = (unsigned char)text[i];
	bool cut = left < 4 && lead >= 0xc2 && lead <= 0xf4 && left < (lead >= 0xf0 ? 4u : lead >= 0xe0 ? 3u : 2u);
	for (size_t k = 1; k < left; k++)
		cut = cut && (text[i + k] & 0xc0) == 0x80;
	return cut ? i : 0;
}

// Bytes in front of the first spelling of a special token, which is never what somebody wants in a file.
static size_t before_special(const char *text, size_t n_bytes) {
	static const char *const SPELLINGS[] = {"<fim_", "<file_sep>", "<repo_name>", "<\xef\xbd\x9c", "<EOT>", "<PRE>", "<SUF>", "<MID>"};
	for (size_t i = 0; i < n_bytes; i++) {
		if (text[i] != '<')
			continue;
		size_t left = n_bytes - i;
		if (left >= 2 && text[i + 1] == '|' && (left == 2 || is_word_byte(text[i + 2])))
			return i;
		for (size_t k = 0; k < sizeof SPELLINGS / sizeof *SPELLINGS; k++)
			if (left >= strlen(SPELLINGS[k]) && !memcmp(text + i, SPELLINGS[k], strlen(SPELLINGS[k])))
				return i;
	}
	return n_bytes;
}

// What the lines around the cursor are indented with: '\t', ' ', or 0 if unknown or both.
static char indent_char(const struct prompt *p) {
	bool tab = p->before[0] == '\t', space = p->before[0] == ' ';
	for (const char *line = p->after; line && *line; line = strchr(line, '\n'), line += line != NULL) {
		tab |= *line == '\t';
		space |= *line == ' ';
	}
	return tab == space ? 0 : tab ? '\t' : ' ';
}

#define INDENT_SPACES 4 // spaces for a tab where the model mixes them up

// Appends the line's leading blanks in the document's own kind.
static void append_indent(struct buf *b, struct slice blanks, char kind) {
	if (kind == '\t') {
		size_t spaces = 0;
		for (size_t i = 0; i < blanks.n_bytes; i++)
			spaces = blanks.text[i] == ' ' ? spaces + 1 : (buf_append_char(b, '\t'), 0);
		for (; spaces >= INDENT_SPACES; spaces -= INDENT_SPACES)
			buf_append_char(b, '\t');
		for (; spaces; spaces--)
			buf_append_char(b, ' ');
		return;
	}
	for (size_t i = 0; i < blanks.n_bytes; i++)
		if (kind == ' ' && blanks.text[i] == '\t')
			buf_append(b, "    ", INDENT_SPACES);
		else
			buf_append_char(b, blanks.text[i]);
}

// Copies text[n_bytes] with trailing blanks of lines left out (except those of the last line) and indentation made the document's.
static void append_tidy(struct buf *b, const struct prompt *p, const char *text, size_t n_bytes) {
	char kind = indent_char(p);
	struct lexer l = lexer_at_cursor(p);
	for (size_t begin = 0; begin < n_bytes;) {
		struct slice line = first_line(text + begin, n_bytes - begin);
		bool complete = begin + line.n_bytes < n_bytes;
		size_t indent = begin && !l.quote ? leading_blanks(line) : 0;
		struct slice body = {line.text + indent, line.n_bytes - indent};
		append_indent(b, (struct slice){line.text, indent}, kind);
		if (complete)
			body = slice_trim_end(body);
		buf_append(b, body.text, body.n_bytes);
		if (complete)
			buf_append_char(b, '\n');
		size_t end = begin + line.n_bytes + complete;
		while (begin < end)
			begin += lexer_step(&l, text, n_bytes, begin);
	}
}

// Cuts what the rest of the line begins with, and trailing blanks where they would stand doubled, at the end or in front of a closer.
static size_t trim_tail(const struct prompt *p, const char *text, size_t n_bytes) {
	if (!memchr(text, '\n', n_bytes))
		n_bytes -= overlap_tail(p, text, n_bytes);
	bool trim = text_blank(p->rest) || is_blank_byte(p->rest[0]) || strchr(")]}:,;", p->rest[0]);
	while (n_bytes && (text[n_bytes - 1] == '\n' || (trim && is_blank_byte(text[n_bytes - 1]))))
		n_bytes--;
	return n_bytes;
}

// The last `k` lines of text[n_bytes]: where they begin, or n_bytes if there are not so many behind the first line.
static size_t last_lines(const char *text, size_t n_bytes, int k) {
	for (size_t i = n_bytes; i-- > 0;)
		if (text[i] == '\n' && --k == 0)
			return i + 1;
	return n_bytes;
}

#define REPEAT_MAX_LINES 8

// Cuts whole lines at the end that the lines below the cursor begin with.
static size_t trim_repeated_lines(const struct prompt *p, const char *text, size_t n_bytes) {
	const char *after = p->after + strspn(p->after, "\n");
	size_t n_after = strlen(after);
	for (int k = REPEAT_MAX_LINES; k > 0; k--) {
		size_t begin = last_lines(text, n_bytes, k), n = n_bytes - begin;
		if (n && n <= n_after && !memcmp(text + begin, after, n) && (n == n_after || after[n] == '\n') &&
		    !slice_blank((struct slice){text + begin, n}))
			return begin - 1;
	}
	return n_bytes;
}

// True if there is nothing to show: blank, already there to the right, or the next line once more.
static bool is_useless(const struct prompt *p, const char *text, size_t n_bytes) {
	struct slice all = slice_trim((struct slice){text, n_bytes}), rest = slice_trim((struct slice){p->rest, strlen(p->rest)});
	if (slice_blank(all) || (all.n_bytes <= rest.n_bytes && !memcmp(all.text, rest.text, all.n_bytes)))
		return true;
	struct slice line = first_line(text, n_bytes), next = first_full_line(p->after);
	if (line.n_bytes == n_bytes)
		return text_blank(p->rest) && is_line(p->before, line, next);
	struct slice second = {text + line.n_bytes + 1, n_bytes - line.n_bytes - 1};
	return slice_blank(line) && is_line("", second, next);
}

enum err suggest_finish(const struct prompt *p, const char *text, size_t n_bytes, struct suggestion *out) {
	struct buf raw = {0}, tidy = {0};
	size_t keep = 0, n = valid_bytes(text, n_bytes);
	for (size_t i = 0; i < n && text[i]; i++) // a zero byte ends it
		if (text[i] != '\r')
			buf_append_char(&raw, text[i]);
	append_tidy(&tidy, p, raw.data, before_special(raw.data, raw.len_bytes));
	size_t len = tidy.len_bytes;
	buf_append_char(&tidy, '\n'); // all lines are complete now
	bool failed = raw.failed || tidy.failed;
	buf_finish(&raw);
	if (failed) {
		buf_finish(&tidy);
		return ERR_NOMEM;
	}
	if (suggest_stop(p, tidy.data, len + 1, &keep) && keep < len)
		len = keep;
	len = trim_tail(p, tidy.data, len);
	if (!p->single_line)
		len = trim_repeated_lines(p, tidy.data, len);
	if (is_useless(p, tidy.data, len))
		len = 0;
	tidy.data[len] = 0;
	*out = (struct suggestion){.text = tidy.data, .text_bytes = len};
	return ERR_OK;
}

void suggestion_finish(struct suggestion *s) {
	free(s->text);
	*s = (struct suggestion){0};
}
