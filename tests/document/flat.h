// SPDX-License-Identifier: MIT
// The plain model that documents are compared with: one flat string, every answer found by walking it from the start.
#ifndef MASKSTORE_TESTS_DOCUMENT_FLAT_H
#define MASKSTORE_TESTS_DOCUMENT_FLAT_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "document/document.h"

struct flat {
	char *text; // malloc'ed
	size_t n_bytes;
};

// Length of the line end at i, 0 if there is none.
static inline size_t flat_line_end_at(const struct flat *f, size_t i) {
	if (i < f->n_bytes && f->text[i] == '\r')
		return i + 1 < f->n_bytes && f->text[i + 1] == '\n' ? 2 : 1;
	return i < f->n_bytes && f->text[i] == '\n';
}

// Length of the (valid UTF-8) character at i.
static inline size_t flat_char(const struct flat *f, size_t i) {
	unsigned char c = (unsigned char)f->text[i];
	return c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
}

static inline uint32_t flat_units(size_t char_bytes, enum pos_encoding enc) {
	return enc == POS_UTF8 ? (uint32_t)char_bytes : enc == POS_UTF16 && char_bytes == 4 ? 2 : 1;
}

static inline size_t flat_offset(const struct flat *f, struct position p, enum pos_encoding enc) {
	size_t i = 0;
	for (uint32_t line = 0; line < p.line;) {
		if (i >= f->n_bytes)
			return f->n_bytes;
		size_t end = flat_line_end_at(f, i);
		line += end > 0;
		i += end ? end : 1;
	}
	for (uint64_t units = 0; i < f->n_bytes && !flat_line_end_at(f, i);) {
		size_t n = flat_char(f, i);
		units += flat_units(n, enc);
		if (units > p.character)
			break;
		i += n;
	}
	return i;
}

// Position of a character start.
static inline struct position flat_position(const struct flat *f, size_t offset, enum pos_encoding enc) {
	struct position p = {0, 0};
	for (size_t i = 0; i < offset;) {
		size_t end = flat_line_end_at(f, i);
		if (end && i + end <= offset) {
			p.line++;
			p.character = 0;
			i += end;
		} else if (end) {
			return p; // between \r and \n: the end of the line
		} else {
			p.character += flat_units(flat_char(f, i), enc);
			i += flat_char(f, i);
		}
	}
	return p;
}

static inline uint32_t flat_lines(const struct flat *f) {
	return flat_position(f, f->n_bytes, POS_UTF8).line + 1;
}

static inline void flat_splice(struct flat *f, size_t a, size_t b, const char *text, size_t n_bytes) {
	char *next = malloc(f->n_bytes - (b - a) + n_bytes + 1);
	if (!next)
		abort();
	memcpy(next, f->text, a);
	memcpy(next + a, text, n_bytes);
	memcpy(next + a + n_bytes, f->text + b, f->n_bytes - b);
	f->n_bytes += n_bytes - (b - a);
	free(f->text);
	f->text = next;
}

// The edit as the protocol describes it, by positions.
static inline void flat_edit(struct flat *f, struct position start, struct position end, enum pos_encoding enc, const char *text, size_t n_bytes) {
	size_t a = flat_offset(f, start, enc), b = flat_offset(f, end, enc);
	flat_splice(f, a < b ? a : b, a < b ? b : a, text, n_bytes);
}

static inline bool flat_equals(const struct flat *f, const struct snapshot *s) {
	if (snapshot_bytes(s) != f->n_bytes)
		return false;
	for (size_t i = 0; i < f->n_bytes;) {
		size_t len;
		const char *run = snapshot_chunk_at(s, i, &len);
		if (!len || memcmp(run, f->text + i, len))
			return false;
		i += len;
	}
	return true;
}

// A small generator (xorshift64*), so that every run of a seed is the same.
static inline uint64_t flat_random(uint64_t *state) {
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 2685821657736338717u;
}

static inline uint32_t flat_below(uint64_t *state, uint32_t n) {
	return (uint32_t)((flat_random(state) >> 33) % n);
}

#endif
