// SPDX-License-Identifier: MIT
// The pre-tokenisers `qwen2` and `smollm`, written out by hand from their regular expressions.
//
// qwen2:  (?i:'s|'t|'re|'ve|'m|'ll|'d) | [^\r\n\p{L}\p{N}]?\p{L}+ | \p{N} |  ?[^\s\p{L}\p{N}]+[\r\n]* | \s*[\r\n]+ | \s+(?!\S) | \s+
// smollm: each numeric character is cut out first; on what lies between, GPT-2's
//         's|'t|'re|'ve|'m|'ll|'d |  ?\p{L}+ |  ?\p{N}+ |  ?[^\s\p{L}\p{N}]+ | \s+(?!\S) | \s+
// Alternatives are tried in this order. A byte that is not part of valid UTF-8 counts as a character of its own that is
// neither letter, number nor space.
//
// Stateless; the table is constant.
#include "model/pretokenize.h"

#include <stdint.h>

#include "base/utf8.h"
#include "model/unicode_table.h"

// Class bits of unicode_runs. NUMBER is what the regular expressions call \p{N}, DIGIT what smollm's digit splitter cuts
// out: the same but for a few characters of the newest Unicode version.
enum { LETTER = 1, NUMBER = 2, SPACE = 4, DIGIT = 8, WORD = LETTER | NUMBER, NOT_PUNCT = LETTER | NUMBER | SPACE };

#define N_RUNS (sizeof unicode_runs / sizeof *unicode_runs)
#define CLASS_BITS 4

struct glyph {
	size_t n_bytes; // 0: there is none
	unsigned bits;
};

static unsigned table_class(uint32_t code_point) {
	size_t begin = 0, end = N_RUNS; // the run is in [begin, end)
	while (end - begin > 1) {
		size_t mid = begin + (end - begin) / 2;
		if (unicode_runs[mid] >> CLASS_BITS <= code_point)
			begin = mid;
		else
			end = mid;
	}
	return unicode_runs[begin] & ((1u << CLASS_BITS) - 1);
}

static unsigned ascii_class(unsigned char c) {
	if ((c | 0x20) >= 'a' && (c | 0x20) <= 'z')
		return LETTER;
	if (c >= '0' && c <= '9')
		return NUMBER | DIGIT;
	return c == ' ' || (c >= '\t' && c <= '\r') ? SPACE : 0;
}

// The character at text[at], or one with no bytes at the end.
static struct glyph look(const char *text, size_t n_bytes, size_t at) {
	if (at >= n_bytes)
		return (struct glyph){0, 0};
	unsigned char c = (unsigned char)text[at];
	if (c < 0x80)
		return (struct glyph){1, ascii_class(c)};
	uint32_t code_point;
	size_t n = utf8_decode(text + at, n_bytes - at, &code_point);
	return n ? (struct glyph){n, table_class(code_point)} : (struct glyph){1, 0};
}

static bool newline(const char *text, size_t n_bytes, size_t at) {
	return at < n_bytes && (text[at] == '\n' || text[at] == '\r');
}

// End of the run of characters from `at` on whose class meets `mask` (or, with `none`, doesn't); digits end it if `cut` says so.
static size_t run(const char *text, size_t n_bytes, size_t at, unsigned mask, bool none, unsigned cut) {
	for (struct glyph g; (g = look(text, n_bytes, at)).n_bytes; at += g.n_bytes)
		if ((g.bits & cut) || !(g.bits & mask) != none)
			break;
	return at;
}

// Bytes of a contraction ('s 't 're 've 'm 'll 'd) at the start of text, or 0. `fold`: in any case, which takes in U+017F,
// the long s (the Kelvin sign and its like fold to no letter used here).
static size_t contraction(const char *text, size_t n_bytes, bool fold) {
	if (n_bytes < 2 || text[0] != '\'')
		return 0;
	char a = text[1], b = n_bytes > 2 ? text[2] : 0;
	if (fold && a == '\xC5' && b == '\xBF')
		return 3;
	if (fold) {
		a = (char)(a >= 'A' && a <= 'Z' ? a + 32 : a);
		b = (char)(b >= 'A' && b <= 'Z' ? b + 32 : b);
	}
	if (a == 's' || a == 't' || a == 'm' || a == 'd')
		return 2;
	return ((a == 'r' || a == 'v') && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

// \s+(?!\S) | \s+ : the blanks from the start to `end`, less the last one when a character that is no blank follows, so that it
// may join the next piece. `follows`: such a character is there.
static size_t blanks(const char *text, size_t end, bool follows) {
	size_t last = end;
	if (!follows)
		return end;
	do
		last--;
	while (last > 0 && ((unsigned char)text[last] & 0xC0) == 0x80);
	return last > 0 ? last : end;
}

static size_t next_qwen2(const char *text, size_t n) {
	size_t end = contraction(text, n, true);
	if (end)
		return end;
	struct glyph first = look(text, n, 0), second = look(text, n, first.n_bytes);
	if (first.bits & LETTER)
		return run(text, n, first.n_bytes, LETTER, false, 0);
	if (first.bits & NUMBER)
		return first.n_bytes;
	if (!newline(text, n, 0) && (second.bits & LETTER))
		return run(text, n, first.n_bytes + second.n_bytes, LETTER, false, 0);
	bool space_then_punct = text[0] == ' ' && second.n_bytes && !(second.bits & NOT_PUNCT);
	if (space_then_punct || !(first.bits & SPACE)) {
		end = run(text, n, first.n_bytes, NOT_PUNCT, true, 0);
		while (newline(text, n, end))
			end++;
		return end;
	}
	end = run(text, n, 0, SPACE, false, 0);
	for (size_t last = end; last > 0; last--)
		if (newline(text, n, last - 1))
			return last;
	return blanks(text, end, end < n);
}

static size_t next_smollm(const char *text, size_t n) {
	struct glyph first = look(text, n, 0), second = look(text, n, first.n_bytes);
	if (first.bits & DIGIT)
		return first.n_bytes;
	size_t end = contraction(text, n, false);
	if (end)
		return end;
	// An optional space, then a run of one class; numbers stand alone already.
	struct glyph lead = text[0] == ' ' && second.n_bytes && !(second.bits & (SPACE | DIGIT)) ? second : first;
	if (lead.bits & LETTER)
		return run(text, n, first.n_bytes, LETTER, false, DIGIT);
	if (lead.bits & NUMBER)
		return run(text, n, first.n_bytes, NUMBER, false, DIGIT);
	if (!(lead.bits & SPACE))
		return run(text, n, first.n_bytes, NOT_PUNCT, true, DIGIT);
	end = run(text, n, 0, SPACE, false, DIGIT);
	return blanks(text, end, end < n && !(look(text, n, end).bits & DIGIT));
}

// A line end ends a piece where no further blank line follows it. With smollm the piece of blanks that holds it depends on whether text follows, unless it is the line
// end alone.
bool pretokenize_seam(enum pretokenizer kind, const char *text, size_t n_bytes, size_t at) {
	if (text[at - 1] != '\n')
		return false;
	if (kind == PRETOKENIZER_SMOLLM && (at < 2 || (unsigned char)text[at - 2] >= 0x80 || (ascii_class((unsigned char)text[at - 2]) & SPACE)))
		return false;
	while (kind == PRETOKENIZER_QWEN2 && at < n_bytes && (text[at] == ' ' || text[at] == '\t'))
		at++;
	return at < n_bytes && (unsigned char)text[at] < 0x80 && !(ascii_class((unsigned char)text[at]) & SPACE);
}

size_t pretokenize_next(enum pretokenizer kind, const char *text, size_t n_bytes) {
	return kind == PRETOKENIZER_QWEN2 ? next_qwen2(text, n_bytes) : next_smollm(text, n_bytes);
}
