// SPDX-License-Identifier: MIT
// Documents against the flat model: texts, positions in three encodings, line ends, chunk seams, clamping, snapshots.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "flat.h"

static const enum pos_encoding ENCODINGS[] = {POS_UTF8, POS_UTF16, POS_UTF32};

static struct document *make(const char *text, size_t n) {
	struct document *d;
	assert_int_equal(document_create(text, n, false, 1, &d, NULL), ERR_OK);
	return d;
}

static void check_equal(struct document *d, const struct flat *f) {
	struct snapshot *s = document_snapshot(d);
	assert_true(flat_equals(f, s));
	snapshot_unref(s);
}

// Every character start of the text, both ways, in all encodings; line starts and ends too.
static void check_positions(const struct flat *f) {
	struct snapshot *s = snapshot_create(f->text, f->n_bytes, false);
	assert_non_null(s);
	assert_int_equal(snapshot_lines(s), flat_lines(f));
	for (int e = 0; e < 3; e++) {
		struct position p = {0, 0};
		for (size_t i = 0; i <= f->n_bytes;) {
			struct position got = snapshot_position(s, i, ENCODINGS[e]);
			assert_int_equal(got.line, p.line);
			assert_int_equal(got.character, p.character);
			assert_int_equal(snapshot_offset(s, p, ENCODINGS[e]), i);
			assert_int_equal(snapshot_line_of(s, i), p.line);
			if (i == f->n_bytes)
				break;
			size_t end = flat_line_end_at(f, i), n = end ? end : flat_char(f, i);
			if (end) {
				assert_int_equal(snapshot_line_end(s, p.line), i);
				assert_int_equal(snapshot_line_start(s, p.line + 1), i + end);
			}
			p = end ? (struct position){p.line + 1, 0} : (struct position){p.line, p.character + flat_units(n, ENCODINGS[e])};
			i += n;
		}
	}
	snapshot_unref(s);
}

static void test_round_trip(void **state) {
	(void)state;
	static const char *const TEXTS[] = {
		"", "\n", "\r", "\r\n", "\n\r", "\r\r\n\n", "a", "ab\ncd", "ab\r\ncd\rxy\n", "x\xe2\x80\xa8y\x0cz\x0bq\n", // U+2028, FF, VT end no line
		"\xef\xbb\xbf# BOM\nx = 1", "e\xcc\x81 \xc3\xa9 \xe4\xb8\xad \xf0\x9f\x98\x80\xf0\x9f\x9a\x80\r\n\xf0\x9f\x98\x80", "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb",
	};
	for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++)
		check_positions(&(struct flat){(char *)TEXTS[i], strlen(TEXTS[i])});
}

static const char *const PIECES[] = {
	"\n", "\r", "\r\n", "\n\r", "a", "word ", "\t", "\xc3\xa9", "\xe4\xb8\xad", "\xf0\x9f\x98\x80", "\xe2\x80\xa8", "\xef\xbb\xbf", "    x = 1\r\n", "def f(a):\n",
};

// A random text of at least n_bytes, malloc'ed.
static struct flat random_text(uint64_t *seed, size_t n_bytes) {
	struct flat f = {malloc(n_bytes + 16), 0};
	assert_non_null(f.text);
	while (f.n_bytes < n_bytes) {
		const char *piece = PIECES[flat_below(seed, sizeof PIECES / sizeof *PIECES)];
		memcpy(f.text + f.n_bytes, piece, strlen(piece));
		f.n_bytes += strlen(piece);
	}
	return f;
}

static void test_round_trip_over_chunks(void **state) {
	(void)state;
	uint64_t seed = 7;
	for (size_t n = 5000; n < 20000; n += 7000) {
		struct flat f = random_text(&seed, n);
		check_positions(&f);
		free(f.text);
	}
}

static struct position random_position(const struct flat *f, uint64_t *seed, enum pos_encoding enc) {
	if (flat_below(seed, 20) == 0) // anything at all
		return (struct position){flat_below(seed, 400), flat_below(seed, 2) ? flat_below(seed, 90) : UINT32_MAX};
	size_t at = f->n_bytes ? flat_below(seed, (uint32_t)f->n_bytes + 1) : 0;
	while (at > 0 && at < f->n_bytes && (f->text[at] & 0xc0) == 0x80)
		at--;
	struct position p = flat_position(f, at, enc);
	p.character += flat_below(seed, 30) == 0; // often inside a character
	return p;
}

// 100,000 edits in all; texts stay small enough for the flat model and now and then cross chunk sizes.
static void random_edits(uint64_t seed, int n_edits, size_t max_bytes) {
	struct flat f = random_text(&seed, max_bytes / 2);
	struct document *d = make(f.text, f.n_bytes);
	for (int k = 0; k < n_edits; k++) {
		enum pos_encoding enc = ENCODINGS[flat_below(&seed, 3)];
		struct position a = random_position(&f, &seed, enc), b = flat_below(&seed, 3) ? a : random_position(&f, &seed, enc);
		if (f.n_bytes < max_bytes && flat_below(&seed, 2)) // near each other, so that the text doesn't shrink to nothing
			b = (struct position){a.line, a.character + flat_below(&seed, 4)};
		struct flat ins = random_text(&seed, flat_below(&seed, 50) ? flat_below(&seed, 12) : flat_below(&seed, 3000));
		assert_int_equal(document_edit(d, a, b, enc, ins.text, ins.n_bytes), ERR_OK);
		flat_edit(&f, a, b, enc, ins.text, ins.n_bytes);
		free(ins.text);
		check_equal(d, &f);
		if (k % 500 == 0 && f.n_bytes < 2000)
			check_positions(&f);
		struct snapshot *s = document_snapshot(d); // the document's own cuts, not fresh ones
		size_t at = flat_offset(&f, random_position(&f, &seed, enc), enc);
		struct position want = flat_position(&f, at, enc), got = snapshot_position(s, at, enc);
		assert_int_equal(got.line, want.line);
		assert_int_equal(got.character, want.character);
		assert_int_equal(snapshot_offset(s, want, enc), at);
		snapshot_unref(s);
	}
	document_destroy(d);
	free(f.text);
}

static void test_random_edits_small(void **state) {
	(void)state;
	random_edits(1, 95000, 300);
}

static void test_random_edits_chunks(void **state) {
	(void)state;
	random_edits(2, 5000, 30000);
}

// A \r and a \n, or the bytes of a character, that come to lie on both sides of a chunk's end must act as one.
static void test_seams(void **state) {
	(void)state;
	size_t n = 40000;
	struct flat f = {malloc(n), n};
	assert_non_null(f.text);
	memset(f.text, 'a', n);
	for (size_t i = 100; i < n; i += 100)
		f.text[i] = '\n';
	struct document *d = make(f.text, f.n_bytes);
	for (size_t at = 1; at < f.n_bytes; at += 37) { // put \r in front of, then \n behind, some byte
		struct position p = flat_position(&f, at, POS_UTF8);
		assert_int_equal(document_edit(d, p, p, POS_UTF8, "\r", 1), ERR_OK);
		flat_edit(&f, p, p, POS_UTF8, "\r", 1);
		p = (struct position){p.line + 1, 0};
		assert_int_equal(document_edit(d, p, p, POS_UTF8, at % 2 ? "\n" : "\xf0\x9f\x98\x80", at % 2 ? 1 : 4), ERR_OK);
		flat_edit(&f, p, p, POS_UTF8, at % 2 ? "\n" : "\xf0\x9f\x98\x80", at % 2 ? 1 : 4);
		at += 4;
	}
	check_equal(d, &f);
	struct snapshot *s = document_snapshot(d);
	assert_int_equal(snapshot_lines(s), flat_lines(&f));
	for (size_t i = 0; i < f.n_bytes;) { // no run ends inside a pair or a character
		size_t len;
		const char *run = snapshot_chunk_at(s, i, &len);
		assert_true(len > 0);
		i += len;
		if (i < f.n_bytes) {
			assert_false(run[len - 1] == '\r' && f.text[i] == '\n');
			assert_false((f.text[i] & 0xc0) == 0x80);
		}
	}
	snapshot_unref(s);
	document_destroy(d);
	free(f.text);
}

// Deletes whole stretches so that every boundary of the first text once joins a \r with a \n.
static void test_deletion_joins_pairs(void **state) {
	(void)state;
	for (size_t cut = 6100; cut < 6200; cut++) {
		struct flat f = {malloc(20001), 20001};
		assert_non_null(f.text);
		memset(f.text, 'b', f.n_bytes);
		f.text[cut - 1] = '\r';
		f.text[cut + 50] = '\n';
		struct document *d = make(f.text, f.n_bytes);
		struct position a = flat_position(&f, cut, POS_UTF8), b = flat_position(&f, cut + 50, POS_UTF8);
		assert_int_equal(document_edit(d, a, b, POS_UTF8, "", 0), ERR_OK);
		flat_edit(&f, a, b, POS_UTF8, "", 0);
		check_equal(d, &f);
		struct snapshot *s = document_snapshot(d);
		assert_int_equal(snapshot_lines(s), 2);
		assert_int_equal(snapshot_line_end(s, 0), cut - 1);
		assert_int_equal(snapshot_line_start(s, 1), cut + 1);
		assert_true(snapshot_crlf(s));
		snapshot_unref(s);
		document_destroy(d);
		free(f.text);
	}
}

static void check_edit(const char *before, struct position a, struct position b, const char *text, const char *after) {
	struct document *d = make(before, strlen(before));
	assert_int_equal(document_edit(d, a, b, POS_UTF16, text, strlen(text)), ERR_OK);
	check_equal(d, &(struct flat){(char *)after, strlen(after)});
	document_destroy(d);
}

static void test_clamping(void **state) {
	(void)state;
	check_edit("ab\r\ncd", (struct position){0, 99}, (struct position){0, UINT32_MAX}, "X", "abX\r\ncd");
	check_edit("ab\ncd", (struct position){1, 2}, (struct position){2, 0}, "\n", "ab\ncd\n"); // Neovim's `o` on a last line without line end
	check_edit("ab\ncd", (struct position){9, 9}, (struct position){UINT32_MAX, UINT32_MAX}, "!", "ab\ncd!");
	check_edit("abc", (struct position){0, 2}, (struct position){0, 1}, "-", "a-c"); // reversed
	check_edit("\xf0\x9f\x98\x80x", (struct position){0, 1}, (struct position){0, 3}, "-", "-"); // begins inside a pair
	check_edit("\xf0\x9f\x98\x80x", (struct position){0, 1}, (struct position){0, 1}, "-", "-\xf0\x9f\x98\x80x");
	check_edit("", (struct position){0, 0}, (struct position){1, 0}, "def two(a):\n    return ", "def two(a):\n    return ");
}

static void test_inner_offsets_round_down(void **state) {
	(void)state;
	static const char TEXT[] = "a\xf0\x9f\x98\x80\xc3\xa9\r\nz";
	struct snapshot *s = snapshot_create(TEXT, sizeof TEXT - 1, false);
	for (size_t i = 1; i < 5; i++)
		assert_int_equal(snapshot_position(s, i, POS_UTF16).character, 1);
	assert_int_equal(snapshot_position(s, 6, POS_UTF16).character, 3);
	assert_int_equal(snapshot_position(s, 8, POS_UTF16).character, 4); // between \r and \n
	assert_int_equal(snapshot_position(s, 8, POS_UTF16).line, 0);
	assert_int_equal(snapshot_offset(s, (struct position){0, 3}, POS_UTF8), 1);
	assert_int_equal(snapshot_position(s, 99, POS_UTF32).line, 1);
	snapshot_unref(s);
}

static void test_snapshots_stay(void **state) {
	(void)state;
	struct document *d = make("one\ntwo\n", 8);
	struct snapshot *a = document_snapshot(d), *same = document_snapshot(d);
	assert_ptr_equal(a, same);
	assert_int_equal(document_edit(d, (struct position){1, 0}, (struct position){1, 3}, POS_UTF8, "2", 1), ERR_OK);
	assert_int_equal(document_replace(d, "new", 3), ERR_OK);
	document_set_version(d, 7);
	assert_int_equal(document_version(d), 7);
	assert_true(flat_equals(&(struct flat){(char *)"one\ntwo\n", 8}, a));
	check_equal(d, &(struct flat){(char *)"new", 3});
	document_destroy(d);
	assert_true(flat_equals(&(struct flat){(char *)"one\ntwo\n", 8}, same));
	char copy[3];
	snapshot_read(a, 4, 7, copy);
	assert_memory_equal(copy, "two", 3);
	snapshot_unref(a);
	snapshot_unref(same);
}

static void test_too_large(void **state) {
	(void)state;
	struct document *d = make("x", 1);
	struct err_msg msg;
	struct document *none = NULL;
	static char big[1];
	assert_int_equal(document_create(big, DOCUMENT_MAX_BYTES + 1u, false, 1, &none, &msg), ERR_LIMIT);
	assert_null(none);
	assert_int_equal(document_edit(d, (struct position){0, 0}, (struct position){0, 0}, POS_UTF8, big, DOCUMENT_MAX_BYTES), ERR_LIMIT);
	assert_int_equal(document_replace(d, big, DOCUMENT_MAX_BYTES + 1u), ERR_LIMIT);
	check_equal(d, &(struct flat){(char *)"x", 1});
	document_destroy(d);
}

// Bytes that are no UTF-8: the text is kept, every answer stays inside the text and lines stay right.
static void test_any_bytes(void **state) {
	(void)state;
	uint64_t seed = 5;
	for (int round = 0; round < 200; round++) {
		size_t n = flat_below(&seed, 20000);
		struct flat f = {malloc(n + 1), n};
		assert_non_null(f.text);
		for (size_t i = 0; i < n; i++)
			f.text[i] = (char)(flat_below(&seed, 3) ? 0x80 + flat_below(&seed, 128) : flat_below(&seed, 16));
		struct document *d = make(f.text, n);
		for (int k = 0; k < 20; k++) {
			struct snapshot *s = document_snapshot(d);
			enum pos_encoding enc = ENCODINGS[flat_below(&seed, 3)];
			struct position p = {flat_below(&seed, snapshot_lines(s) + 1), flat_below(&seed, 50)};
			size_t at = snapshot_offset(s, p, enc);
			assert_true(at <= f.n_bytes);
			assert_true(snapshot_position(s, at, enc).line < snapshot_lines(s));
			snapshot_unref(s);
			assert_int_equal(document_edit(d, p, p, enc, "\x9f\x80\r\xf0", 4), ERR_OK);
			flat_splice(&f, at, at, "\x9f\x80\r\xf0", 4);
			check_equal(d, &f);
		}
		document_destroy(d);
		free(f.text);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip), cmocka_unit_test(test_round_trip_over_chunks), cmocka_unit_test(test_random_edits_small),
		cmocka_unit_test(test_random_edits_chunks), cmocka_unit_test(test_seams), cmocka_unit_test(test_deletion_joins_pairs),
		cmocka_unit_test(test_clamping), cmocka_unit_test(test_inner_offsets_round_down), cmocka_unit_test(test_snapshots_stay),
		cmocka_unit_test(test_too_large), cmocka_unit_test(test_any_bytes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
