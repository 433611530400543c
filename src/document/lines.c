// SPDX-License-Identifier: MIT
// Lines and positions: between byte offsets and (line, character) in the three encodings of the protocol.
//
// Pure functions over an immutable snapshot, any thread. Cost: a binary search over chunks and a walk over part of one, so a 10 MB line
// is no slower than a short one. Characters are counted by their first bytes (struct counts), which is exact for UTF-8 and
// harmless for anything else.
#include "document/internal.h"

static bool is_tail(unsigned char c) {
	return (c & 0xc0) == 0x80;
}

uint32_t snapshot_lines(const struct snapshot *s) {
	return s->before[s->n_chunks].lines + 1;
}

// True if a line ends behind byte i of the chunk.
static bool ends_line(const struct chunk *c, uint32_t i) {
	return c->text[i] == '\n' || (c->text[i] == '\r' && (i + 1 == c->n.bytes || c->text[i + 1] != '\n'));
}

size_t snapshot_line_start(const struct snapshot *s, uint32_t line) {
	if (line == 0)
		return 0;
	if (line >= snapshot_lines(s))
		return snapshot_bytes(s);
	uint32_t low = 0, high = s->n_chunks; // the last chunk with fewer than `line` line ends in front holds the one we want
	while (high - low > 1) {
		uint32_t mid = low + (high - low) / 2;
		if (s->before[mid].lines < line)
			low = mid;
		else
			high = mid;
	}
	const struct chunk *c = s->chunks[low];
	uint32_t left = line - s->before[low].lines, i = 0;
	for (; left; i++)
		left -= ends_line(c, i);
	return s->before[low].bytes + i;
}

size_t snapshot_line_end(const struct snapshot *s, uint32_t line) {
	if (line + 1 >= snapshot_lines(s))
		return snapshot_bytes(s);
	size_t end = snapshot_line_start(s, line + 1);
	if (snapshot_byte(s, end - 1) == '\n' && end >= 2 && snapshot_byte(s, end - 2) == '\r')
		return end - 2;
	return end - 1;
}

uint32_t snapshot_line_of(const struct snapshot *s, size_t offset) {
	if (offset >= snapshot_bytes(s))
		return snapshot_lines(s) - 1;
	uint32_t i_chunk = snapshot_chunk_of(s, offset);
	const struct chunk *c = s->chunks[i_chunk];
	uint32_t line = s->before[i_chunk].lines;
	for (uint32_t i = 0; i < offset - s->before[i_chunk].bytes; i++)
		line += ends_line(c, i);
	return line;
}

static uint32_t counts_units(const struct counts *n, enum pos_encoding enc) {
	return enc == POS_UTF16 ? n->utf16 : enc == POS_UTF32 ? n->utf32 : n->bytes;
}

static uint32_t byte_units(unsigned char c, enum pos_encoding enc) {
	return is_tail(c) ? 0 : enc == POS_UTF16 && c >= 0xf0 ? 2 : 1;
}

// Units (utf-16 or utf-32) of all characters that begin before the offset.
static uint64_t units_before(const struct snapshot *s, size_t offset, enum pos_encoding enc) {
	if (offset >= snapshot_bytes(s))
		return counts_units(&s->before[s->n_chunks], enc);
	uint32_t i_chunk = snapshot_chunk_of(s, offset);
	const unsigned char *text = (const unsigned char *)s->chunks[i_chunk]->text;
	uint64_t n = counts_units(&s->before[i_chunk], enc);
	for (uint32_t i = 0; i < offset - s->before[i_chunk].bytes; i++)
		n += byte_units(text[i], enc);
	return n;
}

// Start of the character that holds unit `target` (utf-16 or utf-32) of the whole text.
static size_t unit_offset(const struct snapshot *s, uint64_t target, enum pos_encoding enc) {
	if (!s->n_chunks || target >= counts_units(&s->before[s->n_chunks], enc))
		return snapshot_bytes(s);
	uint32_t low = 0, high = s->n_chunks;
	while (high - low > 1) {
		uint32_t mid = low + (high - low) / 2;
		if (counts_units(&s->before[mid], enc) <= target)
			low = mid;
		else
			high = mid;
	}
	const struct chunk *c = s->chunks[low];
	uint64_t n = counts_units(&s->before[low], enc);
	uint32_t i = 0;
	for (; i < c->n.bytes; i++) {
		n += byte_units((unsigned char)c->text[i], enc);
		if (n > target)
			break;
	}
	return s->before[low].bytes + i;
}

size_t snapshot_offset(const struct snapshot *s, struct position p, enum pos_encoding enc) {
	if (p.line >= snapshot_lines(s))
		return snapshot_bytes(s);
	size_t begin = snapshot_line_start(s, p.line), end = snapshot_line_end(s, p.line), at;
	if (p.character == 0)
		return begin;
	if (enc == POS_UTF8) {
		at = p.character >= end - begin ? end : snapshot_char_start(s, begin + p.character);
	} else {
		at = unit_offset(s, units_before(s, begin, enc) + p.character, enc);
	}
	return at < begin ? begin : at > end ? end : at;
}

struct position snapshot_position(const struct snapshot *s, size_t offset, enum pos_encoding enc) {
	if (offset > snapshot_bytes(s))
		offset = snapshot_bytes(s);
	uint32_t line = snapshot_line_of(s, offset);
	size_t begin = snapshot_line_start(s, line), end = snapshot_line_end(s, line);
	if (offset > end)
		offset = end;
	offset = snapshot_char_start(s, offset);
	if (offset < begin)
		offset = begin;
	if (enc == POS_UTF8)
		return (struct position){line, (uint32_t)(offset - begin)};
	return (struct position){line, (uint32_t)(units_before(s, offset, enc) - units_before(s, begin, enc))};
}

bool snapshot_crlf(const struct snapshot *s) {
	size_t end = snapshot_line_end(s, 0);
	return snapshot_byte(s, end) == '\r' && snapshot_byte(s, end + 1) == '\n';
}
