// SPDX-License-Identifier: MIT
// Lexical walk over Python lines: strings, comments, brackets, logical lines, and the stack of blocks by indentation.
//
// A tree of half-typed code depends on how the parser repairs it; indentation does not, so blocks are found this way. Two rules keep
// a mistake local: a string in single quotes ends with its line, and a word that only begins statements closes forgotten brackets.
// One pass, no allocation; cost about 2 ns a byte.
#include <string.h>

#include "document/scan.h"

void scan_begin(struct scan *sc, const struct snapshot *s, size_t begin) {
	memset(sc, 0, sizeof *sc);
	sc->s = s;
	sc->at = begin;
	sc->decorators = SIZE_MAX;
}

int scan_byte(struct scan *sc, size_t offset) {
	if (offset < sc->run_begin || offset >= sc->run_end) {
		size_t len;
		sc->run = snapshot_chunk_at(sc->s, offset, &len);
		sc->run_begin = offset;
		sc->run_end = offset + len;
		if (!len)
			return -1;
	}
	return (unsigned char)sc->run[offset - sc->run_begin];
}

bool scan_continues(const struct scan *sc) {
	return sc->open && (sc->depth || sc->quote || sc->backslash);
}

bool scan_at_header(const struct scan *sc) {
	return sc->open && sc->header && sc->last == ':' && !sc->depth && !sc->quote && !sc->comment;
}

void scan_pop(struct scan *sc, uint32_t indent) {
	while (sc->n_blocks && sc->blocks[sc->n_blocks - 1].indent >= indent)
		sc->n_blocks--;
}

static bool is_word(int c) {
	return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c >= 0x80;
}

#define WORD_MAX 9 // "finally" and "continue" fit with their zero

// The word at `offset`, cut at WORD_MAX - 1 bytes; "" if there is none.
static void read_word(struct scan *sc, size_t offset, char word[WORD_MAX]) {
	size_t n = 0;
	for (int c; n < WORD_MAX - 1 && is_word(c = scan_byte(sc, offset + n)); n++)
		word[n] = (char)c;
	if (n == WORD_MAX - 1 && is_word(scan_byte(sc, offset + n)))
		n = 0;
	word[n] = 0;
}

static bool one_of(const char *word, const char *const *list) {
	for (; *list; list++)
		if (!strcmp(word, *list))
			return true;
	return false;
}

static bool opens_block(const char *word) {
	static const char *const LIST[] = {"def", "class", "if", "elif", "else", "for", "while", "try", "except", "finally", "with", "match", "case", "async", NULL};
	return one_of(word, LIST);
}

// Words that no expression holds at the start of a line.
static bool begins_statement(const char *word) {
	static const char *const LIST[] = {"def", "class", "return", "import", "while", "try", "raise", "pass", "break", "continue", "del", "global", "nonlocal",
	                                   "assert", "with", "finally", "except", "elif", NULL};
	return one_of(word, LIST);
}

static bool begins_string(struct scan *sc, size_t offset) {
	for (int k = 0; k < 3; k++) {
		int c = scan_byte(sc, offset + (size_t)k);
		if (c == '"' || c == '\'')
			return true;
		if (c < 0 || !strchr("rRuUbBfF", c))
			return false;
	}
	return false;
}

static bool is_definition(struct scan *sc, size_t offset, const char *word) {
	if (!strcmp(word, "async")) {
		char next[WORD_MAX];
		for (offset += 5; scan_byte(sc, offset) == ' ';)
			offset++;
		read_word(sc, offset, next);
		return !strcmp(next, "def");
	}
	return !strcmp(word, "def") || !strcmp(word, "class");
}

// A statement begins at `begin`: it closes blocks and counts for the one it is in.
static void begin_logical(struct scan *sc, size_t begin, uint32_t indent, const char *word) {
	scan_pop(sc, indent);
	if (!indent)
		sc->unit = 0; // a walk that begins here knows of no earlier step either
	sc->open = true;
	sc->begin = begin;
	sc->indent = indent;
	sc->header = opens_block(word);
	sc->definition = sc->header && is_definition(sc, begin, word);
	sc->decorator = scan_byte(sc, begin) == '@';
	sc->only_string = begins_string(sc, begin);
	sc->last = 0;
	if (sc->decorators != SIZE_MAX && sc->decorators_indent != indent)
		sc->decorators = SIZE_MAX;
	if (sc->decorator && sc->decorators == SIZE_MAX) {
		sc->decorators = begin;
		sc->decorators_indent = indent;
	}
	if (!sc->n_blocks)
		return;
	struct scan_block *b = &sc->blocks[sc->n_blocks - 1];
	if (b->n_statements++ == 0) {
		b->body_indent = indent;
		sc->unit = indent - b->indent;
	}
}

// The statement ended with its line.
static void end_logical(struct scan *sc) {
	if (sc->n_blocks) {
		struct scan_block *b = &sc->blocks[sc->n_blocks - 1];
		b->doc = b->n_statements == 1 && sc->only_string;
	}
	if (scan_at_header(sc) && sc->n_blocks < SCAN_MAX_BLOCKS) {
		size_t decorated = sc->definition && sc->decorators != SIZE_MAX ? sc->decorators : sc->begin;
		sc->blocks[sc->n_blocks++] = (struct scan_block){.begin = sc->begin, .decorated = decorated, .indent = sc->indent, .definition = sc->definition};
	}
	if (!sc->decorator)
		sc->decorators = SIZE_MAX;
	sc->open = false;
}

// At the start of a line: skips its blanks and begins a statement if there is one.
static void begin_line(struct scan *sc, size_t stop) {
	if (scan_continues(sc) && (sc->quote || sc->backslash)) {
		sc->backslash = false;
		return;
	}
	size_t first = sc->at;
	int c;
	while (first < stop && ((c = scan_byte(sc, first)) == ' ' || c == '\t' || c == '\f'))
		first++;
	uint32_t indent = (uint32_t)(first - sc->at);
	c = first < stop ? scan_byte(sc, first) : -1;
	char word[WORD_MAX] = "";
	if (c >= 0)
		read_word(sc, first, word);
	if (sc->open && sc->depth && begins_statement(word)) {
		sc->depth = 0;
		end_logical(sc);
	}
	if (!sc->open && c >= 0 && c != '\n' && c != '\r' && c != '#')
		begin_logical(sc, first, indent, word);
	sc->at = first;
}

static void end_line(struct scan *sc) {
	if (sc->quote && !sc->triple && !sc->backslash)
		sc->quote = 0;
	sc->comment = false;
	if (sc->open && !scan_continues(sc))
		end_logical(sc);
}

// One byte inside a string.
static void string_byte(struct scan *sc, int c) {
	if (c == '\\') {
		int next = scan_byte(sc, sc->at + 1);
		if (next >= 0 && next != '\n' && next != '\r')
			sc->at++;
		else
			sc->backslash = true; // the string goes on behind the line end
	} else if (c == sc->quote) {
		if (!sc->triple) {
			sc->quote = 0;
		} else if (scan_byte(sc, sc->at + 1) == c && scan_byte(sc, sc->at + 2) == c) {
			sc->at += 2;
			sc->quote = 0;
		}
	}
}

static void code_byte(struct scan *sc, int c) {
	switch (c) {
	case '#': sc->comment = true; return;
	case ' ': case '\t': case '\f': return;
	case '\\': {
		int next = scan_byte(sc, sc->at + 1);
		sc->backslash = next == '\n' || next == '\r';
		return;
	}
	case '"': case '\'':
		sc->quote = (char)c;
		sc->triple = scan_byte(sc, sc->at + 1) == c && scan_byte(sc, sc->at + 2) == c;
		sc->at += sc->triple ? 2 : 0;
		break;
	case '(': case '[': case '{': sc->depth++; break;
	case ')': case ']': case '}': sc->depth -= sc->depth > 0; break;
	default: break;
	}
	if (sc->only_string && !sc->last && !sc->quote)
		return; // the prefix of a string
	if (!sc->quote)
		sc->only_string = false;
	sc->last = (char)c;
}

void scan_until(struct scan *sc, size_t stop) {
	size_t bytes = snapshot_bytes(sc->s);
	if (stop > bytes)
		stop = bytes;
	while (sc->at < stop) {
		int before = sc->at ? scan_byte(sc, sc->at - 1) : '\n';
		if (before == '\n' || (before == '\r' && scan_byte(sc, sc->at) != '\n'))
			begin_line(sc, stop);
		if (sc->at >= stop)
			return;
		int c = scan_byte(sc, sc->at);
		if (c == '\n' || c == '\r') {
			if (c == '\r' && scan_byte(sc, sc->at + 1) == '\n')
				sc->at++;
			end_line(sc);
		} else if (sc->quote) {
			string_byte(sc, c);
		} else if (!sc->comment) {
			code_byte(sc, c);
		}
		sc->at++;
	}
}
