// SPDX-License-Identifier: MIT
// Token healing: where to cut the text before the cursor so that the model meets only token boundaries it knows. Pure.
//
// BPE tokenises " foo", ".append", "(self" and "):\n" as one token each, so a text that ends in a blank, in half a word or in fresh punctuation makes
// the model continue something it never saw (design.md §4, "the trap"). Cut off, and generated again, are
//   1. the word at the cursor and all blanks in front of it ("x = fo" -> " fo", a whole indentation), or the single
//      punctuation mark that it hangs on ("shape.ra" -> ".ra", but not the bracket in "x = (fo", which stands for itself);
//   2. without a word the blanks at the cursor ("x = " -> " ");
//   3. without either the run of punctuation at the cursor and the blanks in front of it ("f(x):" -> "):", "x =" -> " =").
// Longer runs than below are no tokens and are left alone.
#include "prompt/internal.h"

#define WORD_MAX_BYTES 64
#define BLANKS_MAX_BYTES 512
#define PUNCTUATION_MAX_BYTES 8

static bool is_blank(char c) {
	return c == ' ' || c == '\t' || c == '\f';
}

static bool is_word(char c) {
	return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c & 0x80);
}

static bool is_punctuation(char c) {
	return !is_word(c) && !is_blank(c);
}

// Start of the run of such bytes that ends at `end`; `end` itself if the run is longer than max_bytes.
static size_t run_start(const char *text, size_t end, size_t max_bytes, bool (*is)(char)) {
	size_t i = end;
	while (i > 0 && is(text[i - 1])) {
		if (end - --i > max_bytes)
			return end;
	}
	return i;
}

size_t heal_length(const char *before, size_t n_bytes) {
	size_t word = run_start(before, n_bytes, WORD_MAX_BYTES, is_word);
	if (word == n_bytes && n_bytes && is_word(before[n_bytes - 1]))
		return 0;
	size_t blanks = run_start(before, word, BLANKS_MAX_BYTES, is_blank);
	if (blanks < word)
		return n_bytes - blanks;
	if (word < n_bytes) {
		bool hangs = word > 0 && is_punctuation(before[word - 1]) && (word == 1 || is_word(before[word - 2]));
		return n_bytes - (word - hangs);
	}
	size_t marks = run_start(before, n_bytes, PUNCTUATION_MAX_BYTES, is_punctuation);
	if (marks < n_bytes)
		marks = run_start(before, marks, BLANKS_MAX_BYTES, is_blank);
	return n_bytes - marks;
}
