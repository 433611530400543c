// SPDX-License-Identifier: MIT
// What stays of the text above a cut: imports, and the signatures of the definitions that the text behind the cut is in.
//
// Lines are told by their first word and indentation, without a tree: a prompt's cost must depend on the window and not on the file, so at most IMPORT_LINES from the start
// and SIGNATURE_LINES upwards from the cut are looked at. A function of the text above the cut only, so it stands still while somebody types below. Pure.
#include <string.h>

#include "prompt/internal.h"

#define IMPORT_LINES 400
#define SIGNATURE_LINES 2048
#define STATEMENT_LINES 40 // an import or a signature of more lines is left out
#define WORD_BYTES 8

// The first bytes of a line and its indentation.
struct line_start {
	uint32_t indent;
	size_t end;   // of the line, without its line end
	bool blank;
	char word[WORD_BYTES + 1];
};

static int byte_at(const struct snapshot *s, size_t at) {
	size_t n;
	const char *run = snapshot_chunk_at(s, at, &n);
	return n ? (unsigned char)*run : -1;
}

static struct line_start line_at(const struct snapshot *s, uint32_t line) {
	size_t at = snapshot_line_start(s, line), begin = at;
	struct line_start l = {.end = snapshot_line_end(s, line)};
	while (at < l.end && (byte_at(s, at) == ' ' || byte_at(s, at) == '\t'))
		at++;
	l.indent = (uint32_t)(at - begin);
	l.blank = at == l.end;
	for (size_t i = 0; i < WORD_BYTES && at + i < l.end; i++) {
		int c = byte_at(s, at + i);
		l.word[i] = (char)c;
		if (c == ' ')
			break;
	}
	return l;
}

static bool is_one_of(const struct line_start *l, const char *const *words) {
	for (; *words; words++)
		if (!strncmp(l->word, *words, strlen(*words)))
			return true;
	return false;
}

static bool is_definition(const struct line_start *l) {
	static const char *const WORDS[] = {"def ", "class ", "async ", NULL};
	return is_one_of(l, WORDS);
}

static bool is_import(const struct line_start *l) {
	static const char *const WORDS[] = {"import ", "from ", NULL};
	return is_one_of(l, WORDS);
}

// Brackets opened less those closed on a line, strings not told apart; and its last byte that isn't blank.
static int line_depth(const struct snapshot *s, uint32_t line, char *last) {
	int depth = 0;
	size_t end = snapshot_line_end(s, line);
	*last = 0;
	for (size_t at = snapshot_line_start(s, line); at < end; at++) {
		char c = (char)byte_at(s, at);
		depth += (c == '(' || c == '[' || c == '{') - (c == ')' || c == ']' || c == '}');
		if (c != ' ' && c != '\t')
			*last = c;
	}
	return depth;
}

// The line behind the statement that begins here; 0 if it is too long or goes on behind line `stop`.
static uint32_t statement_end(const struct snapshot *s, uint32_t line, uint32_t stop) {
	int depth = 0;
	for (uint32_t l = line; l < stop && l < line + STATEMENT_LINES; l++) {
		char last;
		depth += line_depth(s, l, &last);
		if (depth <= 0 && last != '\\')
			return l + 1;
	}
	return 0;
}

static bool add(struct head *h, uint32_t begin, uint32_t end) {
	if (h->n == HEAD_MAX_RANGES)
		return false;
	h->lines[h->n++] = (struct line_range){begin, end};
	return true;
}

static void find_imports(const struct snapshot *s, uint32_t cut_line, struct head *out) {
	uint32_t stop = cut_line < IMPORT_LINES ? cut_line : IMPORT_LINES;
	for (uint32_t line = 0, end; line < stop; line = end) {
		struct line_start l = line_at(s, line);
		end = line + 1;
		if (l.indent || l.blank)
			continue;
		if (is_definition(&l))
			return;
		if (is_import(&l) && (end = statement_end(s, line, cut_line)) == 0)
			end = line + 1;
		else if (is_import(&l) && !add(out, line, end))
			return;
	}
}

// Upwards from the cut: each line that is less indented than all below it encloses them.
static void find_signatures(const struct snapshot *s, uint32_t cut_line, struct head *out) {
	uint32_t n = snapshot_lines(s), line = cut_line;
	while (line < n && line_at(s, line).blank)
		line++;
	uint32_t level = line < n ? line_at(s, line).indent : 0, lowest = cut_line > SIGNATURE_LINES ? cut_line - SIGNATURE_LINES : 0;
	for (line = cut_line; level && line-- > lowest;) {
		struct line_start l = line_at(s, line);
		if (l.blank || l.indent >= level || strchr(")]}#", l.word[0]))
			continue;
		level = l.indent;
		uint32_t end = is_definition(&l) ? statement_end(s, line, cut_line) : 0;
		if (end && !add(out, line, end))
			return;
	}
	for (int i = 0, j = out->n - 1; i < j; i++, j--) { // top down
		struct line_range r = out->lines[i];
		out->lines[i] = out->lines[j];
		out->lines[j] = r;
	}
}

void head_find(const struct snapshot *s, uint32_t cut_line, struct head *imports, struct head *signatures) {
	imports->n = signatures->n = 0;
	if (!cut_line)
		return;
	find_imports(s, cut_line, imports);
	find_signatures(s, cut_line, signatures);
}
