// SPDX-License-Identifier: MIT
// Where generated text meets what is already there. The model hardly ever stops at the hole inside a line (design.md §4), so the cut is found here:
// brackets and quotes tell closers that belong to the generated text from those that the rest of the line holds. Pure functions.
#include <string.h>

#include "complete/overlap.h"

#define REST_WINDOW_BYTES 20 // so much of the rest of the line is enough to know it again (completion-anchors.md c4)
#define REST_MIN_BYTES 3     // a shorter rest with words in it turns up by chance

bool is_word_byte(char c) {
	return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c & 0x80);
}

bool is_blank_byte(char c) {
	return c == ' ' || c == '\t' || c == '\f';
}

bool slice_blank(struct slice s) {
	for (size_t i = 0; i < s.n_bytes; i++)
		if (!is_blank_byte(s.text[i]) && s.text[i] != '\n')
			return false;
	return true;
}

bool slice_equal(struct slice a, struct slice b) {
	return a.n_bytes == b.n_bytes && !memcmp(a.text, b.text, a.n_bytes);
}

struct slice slice_trim_end(struct slice s) {
	while (s.n_bytes && is_blank_byte(s.text[s.n_bytes - 1]))
		s.n_bytes--;
	return s;
}

struct slice slice_trim(struct slice s) {
	s = slice_trim_end(s);
	while (s.n_bytes && is_blank_byte(*s.text)) {
		s.text++;
		s.n_bytes--;
	}
	return s;
}

struct slice first_line(const char *text, size_t n_bytes) {
	const char *end = n_bytes ? memchr(text, '\n', n_bytes) : NULL;
	return (struct slice){text, end ? (size_t)(end - text) : n_bytes};
}

struct slice first_full_line(const char *text) {
	for (size_t left = strlen(text); left;) {
		struct slice line = first_line(text, left);
		if (!slice_blank(line))
			return slice_trim_end(line);
		size_t step = line.n_bytes < left ? line.n_bytes + 1 : left;
		text += step;
		left -= step;
	}
	return (struct slice){"", 0};
}

static bool tripled(const char *text, size_t n_bytes, size_t i) {
	return i + 2 < n_bytes && text[i + 1] == text[i] && text[i + 2] == text[i];
}

size_t lexer_step(struct lexer *l, const char *text, size_t n_bytes, size_t i) {
	char c = text[i];
	if (c == '\n') {
		l->comment = false;
		if (!l->triple)
			l->quote = 0;
		return 1;
	}
	if (l->comment)
		return 1;
	if (l->quote) {
		if (c == '\\' && i + 1 < n_bytes && text[i + 1] != '\n')
			return 2;
		if (c != l->quote || (l->triple && !tripled(text, n_bytes, i)))
			return 1;
		size_t step = l->triple ? 3 : 1;
		l->quote = 0;
		l->triple = false;
		return step;
	}
	if (c == '"' || c == '\'') {
		l->quote = c;
		l->triple = tripled(text, n_bytes, i);
		return l->triple ? 3 : 1;
	}
	l->comment = c == '#';
	if (c == '(' || c == '[' || c == '{')
		l->depth++;
	else if ((c == ')' || c == ']' || c == '}') && l->depth)
		l->depth--;
	return 1;
}

struct lexer lexer_at_cursor(const struct prompt *p) {
	struct lexer l = {0};
	size_t n = strlen(p->before);
	for (size_t i = 0; i < n;)
		i += lexer_step(&l, p->before, n, i);
	if (p->in_string && !l.quote) // opened on a line above
		l = (struct lexer){.quote = '"', .triple = true};
	l.depth = 0; // from here on: brackets of the generated text
	return l;
}

// Does the rest of the line close a bracket (or, for a quote, the string) that is open at the cursor?
static bool rest_closes(struct slice rest, struct lexer l, char closer) {
	for (size_t i = 0; i < rest.n_bytes;) {
		char c = rest.text[i];
		struct lexer was = l;
		i += lexer_step(&l, rest.text, rest.n_bytes, i);
		if (c == closer && was.quote == closer && !l.quote)
			return true;
		if (c == closer && !was.quote && !was.depth && closer != '"' && closer != '\'')
			return true;
	}
	return false;
}

static bool all_marks(struct slice s) {
	for (size_t i = 0; i < s.n_bytes; i++)
		if (is_word_byte(s.text[i]) || is_blank_byte(s.text[i]))
			return false;
	return true;
}

// Does the rest of the line begin at text[i]?
static bool rest_begins(struct slice rest, const char *text, size_t n_bytes, size_t i, bool open) {
	size_t n = rest.n_bytes < REST_WINDOW_BYTES ? rest.n_bytes : REST_WINDOW_BYTES;
	if (i + n > n_bytes || memcmp(text + i, rest.text, n) || (rest.n_bytes < REST_MIN_BYTES && !all_marks(rest)))
		return false;
	if (is_word_byte(rest.text[0]) && i && is_word_byte(text[i - 1]))
		return false; // inside a word
	bool word_end = n == rest.n_bytes && is_word_byte(rest.text[n - 1]);
	if (word_end && i + n < n_bytes)
		return !is_word_byte(text[i + n]);
	return !(word_end && open);
}

size_t overlap_rest(const struct prompt *p, const char *text, size_t n_bytes, bool open) {
	struct slice rest = slice_trim((struct slice){p->rest, strlen(p->rest)});
	if (!rest.n_bytes)
		return n_bytes;
	struct lexer start = lexer_at_cursor(p), l = start;
	bool own_string = start.quote != 0; // still in the string that holds the cursor
	for (size_t i = 0; i < n_bytes;) {
		char c = text[i];
		struct lexer was = l;
		if (!was.depth && (own_string || !was.quote) && rest_begins(rest, text, n_bytes, i, open))
			return i;
		size_t step = lexer_step(&l, text, n_bytes, i);
		if (own_string && !l.quote) {
			own_string = false;
			if (rest_closes(rest, start, was.quote))
				return i;
		} else if ((c == ')' || c == ']' || c == '}') && !was.quote && !was.comment && !was.depth && !was.triple) {
			struct lexer outside = {0};
			if (rest_closes(rest, outside, c))
				return i;
		}
		i += step;
	}
	return n_bytes;
}

size_t overlap_tail(const struct prompt *p, const char *text, size_t n_bytes) {
	struct slice rest = slice_trim((struct slice){p->rest, strlen(p->rest)});
	struct lexer l = lexer_at_cursor(p);
	bool own_string = l.quote != 0;
	for (size_t i = 0; i < n_bytes;) {
		size_t n = n_bytes - i;
		bool fits = n <= rest.n_bytes && !memcmp(text + i, rest.text, n) && (n > 1 || n == rest.n_bytes || !is_word_byte(text[i]));
		bool splits = (i && is_word_byte(rest.text[0]) && is_word_byte(text[i - 1])) ||
		              (n < rest.n_bytes && is_word_byte(rest.text[n - 1]) && is_word_byte(rest.text[n]));
		if (fits && !splits && !l.depth && (own_string || !l.quote))
			return n;
		i += lexer_step(&l, text, n_bytes, i);
		own_string = own_string && l.quote;
	}
	return 0;
}
