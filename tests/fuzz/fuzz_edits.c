// SPDX-License-Identifier: MIT
// Document edits from any bytes: a sequence of edits, positions and cursors, compared with a flat string; every fourth text is also parsed
// and a prompt built at its cursor. Aborts on a difference.
//
// An input is a list of commands of 8 bytes: kind, encoding, start line, start character, end line, end character, length, piece.
#include <stdint.h>
#include <stdio.h>

#include "../document/flat.h"
#include "prompt/prompt.h"

#define COMMAND_BYTES 8
#define MAX_COMMANDS 64
#define MAX_BYTES 20000 // the flat model is slow; chunks have 8 KB

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static const char *const PIECES[] = {
	"\n", "\r", "\r\n", "\n\r", "x", "    ", "\t", "\xc3\xa9", "\xe4\xb8\xad", "\xf0\x9f\x98\x80", "\xe2\x80\xa8", "\xef\xbb\xbf", "def f(a):\n", "class A:\n    ",
	"\"\"\"", "'", "\"", "(", ")", "[", "]", "{", "}", ":", "#", "\\", "return ", "if x:\n", "else:", "@", ",", "=", "lambda ", "f'{", "\f", "match x:\n", "case _:\n",
};
#define N_PIECES (sizeof PIECES / sizeof *PIECES)

static void check(bool ok, const char *what) {
	if (!ok) {
		fprintf(stderr, "difference: %s\n", what);
		abort();
	}
}

static size_t count_bytes(void *user, const char *text, size_t n_bytes) {
	(void)user;
	(void)text;
	return n_bytes / 4 + 1;
}

// Syntax and prompt at an offset of the edited text and of the same text opened anew must agree.
static void check_prompt(struct snapshot *s, const struct flat *f, size_t offset) {
	struct snapshot *fresh = snapshot_create(f->text, f->n_bytes, true);
	struct syntax *x = NULL, *y = NULL;
	check(fresh != NULL, "memory");
	check(snapshot_syntax(s, NULL, NULL, &x) == ERR_OK && snapshot_syntax(fresh, NULL, NULL, &y) == ERR_OK, "parse");
	char *a = syntax_dump(x), *b = syntax_dump(y);
	check(a && b && !strcmp(a, b), "trees");
	free(a);
	free(b);
	struct syntax_place place = syntax_at(x, offset);
	check(place.block_begin <= place.block_end && place.block_end <= f->n_bytes, "block");
	struct prompt p, q;
	struct prompt_options o = {.budget_tokens = 100, .has_fim = true};
	check(prompt_build(s, x, offset, &o, count_bytes, NULL, &p, NULL) == ERR_OK, "prompt");
	check(prompt_build(fresh, y, offset, &o, count_bytes, NULL, &q, NULL) == ERR_OK, "prompt");
	check(p.text_bytes == q.text_bytes && !memcmp(p.text, q.text, p.text_bytes) && !strcmp(p.healed, q.healed), "prompts");
	check(!memchr(p.text, '\r', p.text_bytes) && p.single_line == q.single_line && p.block_indent == q.block_indent, "prompts");
	prompt_finish(&p);
	prompt_finish(&q);
	syntax_unref(x);
	syntax_unref(y);
	snapshot_unref(fresh);
}

static void check_position(struct snapshot *s, const struct flat *f, struct position p, enum pos_encoding enc, size_t *offset) {
	*offset = snapshot_offset(s, p, enc);
	check(*offset == flat_offset(f, p, enc), "offset");
	struct position got = snapshot_position(s, *offset, enc), want = flat_position(f, *offset, enc);
	check(got.line == want.line && got.character == want.character, "position");
	check(snapshot_lines(s) == flat_lines(f), "lines");
}

// The piece, repeated or doubled; sometimes a long run so that chunks are split.
static size_t make_text(const uint8_t *c, char *out) {
	const char *piece = PIECES[c[7] % N_PIECES];
	size_t n = strlen(piece), times = c[6] < 200 ? c[6] % 4 : (size_t)(c[6] - 199) * 40, len = 0;
	for (size_t i = 0; i < times && len + n <= 8000; i++, len += n)
		memcpy(out + len, piece, n);
	return len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
	struct document *d;
	struct flat f = {malloc(1), 0};
	check(f.text && document_create("", 0, true, 0, &d, NULL) == ERR_OK, "create");
	size_t n = n_bytes / COMMAND_BYTES < MAX_COMMANDS ? n_bytes / COMMAND_BYTES : MAX_COMMANDS;
	for (size_t i = 0; i < n; i++) {
		const uint8_t *c = data + i * COMMAND_BYTES;
		enum pos_encoding enc = (enum pos_encoding)(c[1] % 3);
		struct position a = {c[2], c[3] == 255 ? UINT32_MAX : c[3]}, b = c[0] & 1 ? a : (struct position){c[4], c[5]};
		char text[8000];
		size_t len = make_text(c, text);
		if (c[0] % 32 == 30) {
			check(document_replace(d, text, len) == ERR_OK, "replace");
			flat_splice(&f, 0, f.n_bytes, text, len);
		} else if (f.n_bytes + len <= MAX_BYTES) {
			check(document_edit(d, a, b, enc, text, len) == ERR_OK, "edit");
			flat_edit(&f, a, b, enc, text, len);
		}
		struct snapshot *s = document_snapshot(d);
		check(flat_equals(&f, s), "text");
		size_t offset;
		check_position(s, &f, a, enc, &offset);
		check_position(s, &f, b, enc, &offset);
		if (c[0] / 2 % 4 == 0 && f.n_bytes < 4000)
			check_prompt(s, &f, offset);
		snapshot_unref(s);
	}
	document_destroy(d);
	free(f.text);
	return 0;
}
