// SPDX-License-Identifier: MIT
// Private to the complete room: where generated text meets the text around the cursor. Pure functions.
#ifndef MASKSTORE_COMPLETE_OVERLAP_H
#define MASKSTORE_COMPLETE_OVERLAP_H

#include <stdbool.h>
#include <stddef.h>

#include "prompt/prompt.h"

// A run of bytes, borrowed.
struct slice {
	const char *text;
	size_t n_bytes;
};

// Brackets and strings, byte by byte, over one language-blind line or several lines of Python.
struct lexer {
	char quote;    // of the string at hand, 0 outside
	bool triple;
	bool comment;
	size_t depth;  // open brackets
};

bool is_word_byte(char c);
bool is_blank_byte(char c);
bool slice_blank(struct slice s);
bool slice_equal(struct slice a, struct slice b);
struct slice slice_trim_end(struct slice s);
struct slice slice_trim(struct slice s);
// The first line of text[n_bytes], without its \n.
struct slice first_line(const char *text, size_t n_bytes);
// The first line of `text` that isn't blank, trailing blanks left out; empty if there is none.
struct slice first_full_line(const char *text);

// Walks over byte i of text[n_bytes] and returns how many bytes that took (a triple quote and an escaped byte are taken whole).
size_t lexer_step(struct lexer *l, const char *text, size_t n_bytes, size_t i);
// The state at the cursor, by the line in front of it.
struct lexer lexer_at_cursor(const struct prompt *p);

// Bytes of text[n_bytes], the text generated on the cursor's line, in front of the place where the rest of the line begins: a closing bracket or quote
// that the rest of the line has already, or the rest itself. n_bytes if there is no such place (yet, when `open`: more text may follow).
size_t overlap_rest(const struct prompt *p, const char *text, size_t n_bytes, bool open);
// Length of the longest end of text[n_bytes] that the rest of the line begins with, where cutting it off keeps brackets and words whole.
size_t overlap_tail(const struct prompt *p, const char *text, size_t n_bytes);

#endif
