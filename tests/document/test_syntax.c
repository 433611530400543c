// SPDX-License-Identifier: MIT
// Syntax trees: an incremental tree equals a fresh one after any edits, whoever parses; cancelling; the worker's queue.
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <pthread.h>
#include <time.h>

#include <cmocka.h>

#include "flat.h"

static const char SOURCE[] =
	"import os\nfrom typing import List\n\n\nclass Stack:\n    \"\"\"A stack.\n\n    With a doc string.\n    \"\"\"\n\n"
	"    def __init__(self, items=None):\n        self.items = list(items or [])\n\n    @property\n    def top(self):\n"
	"        if not self.items:\n            raise IndexError('empty')\n        return self.items[-1]\n\n"
	"    def push(self, *items):\r\n        for item in items:\r\n            self.items.append(item)\r\n\n\n"
	"def walk(path):\n    with os.scandir(path) as it:\n        for e in it:\n            try:\n                yield from walk(e.path) if e.is_dir() else [e]\n"
	"            except OSError as x:\n                print(f\"{x!r:>10} {e.name}\", 1_000, {'a': [1, 2, (3,)]})\n            finally:\n                pass\n\n\n"
	"async def main(n: int = 3) -> List[int]:\n    match n:\n        case 1 | 2:\n            return [x ** 2 async for x in f(n) if x]\n"
	"        case _:\n            return lambda a, *b: (a, b)\n";

static const char *const PIECES[] = {
	"\n", "\r", "\r\n", " ", "    ", "\t", "x", "def f(a):\n    ", ":", "(", ")", "[", "]", "{", "}", "\"", "'", "\"\"\"", "#", "\\", "=", ",", ".", "if ", "else:\n", "return ",
	"class A:\n", "lambda ", "f'{", "\xc3\xa9", "\xf0\x9f\x98\x80", "1", "@", "\n\n    ", "        pass\n", "for x in y:\n", "not in", "**", "\f", "print ", "match x:\n", "case ",
};

static char *tree_of(struct snapshot *s, struct parser_worker *w) {
	struct syntax *x;
	assert_int_equal(snapshot_syntax(s, w, NULL, &x), ERR_OK);
	char *dump = syntax_dump(x);
	assert_non_null(dump);
	syntax_unref(x);
	return dump;
}

static void check_fresh(const struct flat *f, struct document *d, struct parser_worker *w) {
	struct snapshot *s = document_snapshot(d), *fresh = snapshot_create(f->text, f->n_bytes, true);
	assert_true(flat_equals(f, s));
	char *got = tree_of(s, w), *want = tree_of(fresh, NULL);
	if (strcmp(got, want)) {
		size_t same = 0;
		while (got[same] == want[same])
			same++;
		print_error("text:\n%.*s\nincremental: …%.1500s\nfresh:       …%.1500s\n", (int)f->n_bytes, f->text, got + same, want + same);
		fail();
	}
	free(got);
	free(want);
	snapshot_unref(s);
	snapshot_unref(fresh);
}

static void edit(struct document *d, struct flat *f, size_t a, size_t b, const char *text) {
	struct position pa = flat_position(f, a, POS_UTF8), pb = flat_position(f, b, POS_UTF8);
	assert_int_equal(document_edit(d, pa, pb, POS_UTF8, text, strlen(text)), ERR_OK);
	flat_edit(f, pa, pb, POS_UTF8, text, strlen(text));
}

static size_t random_start(const struct flat *f, uint64_t *seed) {
	size_t at = flat_below(seed, (uint32_t)f->n_bytes + 1);
	while (at > 0 && at < f->n_bytes && (f->text[at] & 0xc0) == 0x80)
		at--;
	return at;
}

// Edits that are mostly undone again, so that the text stays near Python; every tree is compared.
static void random_edits(uint64_t seed, int n_rounds, struct parser_worker *w) {
	for (int round = 0; round < n_rounds; round++) {
		struct flat f = {NULL, 0};
		f.text = malloc(1);
		assert_non_null(f.text);
		flat_splice(&f, 0, 0, SOURCE, sizeof SOURCE - 1);
		struct document *d;
		assert_int_equal(document_create(f.text, f.n_bytes, true, 1, &d, NULL), ERR_OK);
		for (int k = 0; k < 12; k++) {
			size_t a = random_start(&f, &seed), b = flat_below(&seed, 2) ? a : random_start(&f, &seed);
			if (b > a + 20 || b < a)
				b = a;
			const char *piece = flat_below(&seed, 4) ? PIECES[flat_below(&seed, sizeof PIECES / sizeof *PIECES)] : "";
			char *removed = malloc(b - a + 1);
			assert_non_null(removed);
			memcpy(removed, f.text + a, b - a);
			removed[b - a] = 0;
			struct position p = flat_position(&f, a, POS_UTF8);
			bool exact = flat_offset(&f, p, POS_UTF8) == a && flat_offset(&f, flat_position(&f, b, POS_UTF8), POS_UTF8) == b;
			edit(d, &f, a, b, piece);
			if (w && flat_below(&seed, 2))
				document_parse_async(d, w);
			if (flat_below(&seed, 3)) // sometimes several edits between two parses
				check_fresh(&f, d, w);
			if (exact && flat_below(&seed, 3) && flat_offset(&f, flat_position(&f, a + strlen(piece), POS_UTF8), POS_UTF8) == a + strlen(piece) &&
			    flat_offset(&f, flat_position(&f, a, POS_UTF8), POS_UTF8) == a)
				edit(d, &f, a, a + strlen(piece), removed);
			free(removed);
			check_fresh(&f, d, w);
		}
		document_destroy(d);
		free(f.text);
	}
}

static void test_incremental_equals_fresh(void **state) {
	(void)state;
	random_edits(11, 200, NULL);
}

static void test_worker_equals_fresh(void **state) {
	(void)state;
	struct parser_worker *w;
	assert_int_equal(parser_worker_create(&w), ERR_OK);
	random_edits(12, 100, w);
	parser_worker_destroy(w);
}

// Characters typed one after the other, as an editor sends them.
static void test_typing(void **state) {
	(void)state;
	static const char TYPED[] = "def mean(values):\n    \"\"\"Mean.\"\"\"\n    total = 0\n    for v in values:\n        total += v\n    return total / len(values)\n\n";
	struct flat f = {malloc(1), 0};
	assert_non_null(f.text);
	flat_splice(&f, 0, 0, SOURCE, sizeof SOURCE - 1);
	struct document *d;
	assert_int_equal(document_create(f.text, f.n_bytes, true, 1, &d, NULL), ERR_OK);
	size_t at = (size_t)(strstr(SOURCE, "def walk") - SOURCE);
	for (size_t i = 0; i + 1 < sizeof TYPED; i++) {
		edit(d, &f, at + i, at + i, (char[]){TYPED[i], 0});
		check_fresh(&f, d, NULL);
	}
	document_destroy(d);
	free(f.text);
}

// A bare \r ends a line for the grammar as it does for the protocol.
static void test_bare_cr(void **state) {
	(void)state;
	struct snapshot *cr = snapshot_create("def f():\r    return 1\rx = 2\r", 28, true), *lf = snapshot_create("def f():\n    return 1\nx = 2\n", 28, true);
	char *a = tree_of(cr, NULL), *b = tree_of(lf, NULL);
	assert_string_equal(a, b);
	free(a);
	free(b);
	snapshot_unref(cr);
	snapshot_unref(lf);
}

static void test_not_python(void **state) {
	(void)state;
	struct snapshot *s = snapshot_create("fn main() {}", 12, false);
	struct syntax *x;
	assert_int_equal(snapshot_syntax(s, NULL, NULL, &x), ERR_UNSUPPORTED);
	snapshot_unref(s);
}

// About 12 MB of Python, more than can be parsed in the time that it takes to cancel.
static struct snapshot *big_snapshot(void) {
	size_t n = 20000 * (sizeof SOURCE - 1);
	char *text = malloc(n);
	assert_non_null(text);
	for (size_t i = 0; i < n; i += sizeof SOURCE - 1)
		memcpy(text + i, SOURCE, sizeof SOURCE - 1);
	n /= 2;
	struct snapshot *s = snapshot_create(text, n, true);
	free(text);
	assert_non_null(s);
	return s;
}

struct cancelled {
	struct snapshot *s;
	_Atomic int flag;
	enum err err;
};

static void *ask(void *arg) {
	struct cancelled *c = arg;
	struct syntax *x;
	c->err = snapshot_syntax(c->s, NULL, &c->flag, &x);
	return NULL;
}

// One caller parses, another waits for it; both let go when told, and the text can still be parsed afterwards.
static void test_cancel(void **state) {
	(void)state;
	struct cancelled c[2] = {{.s = big_snapshot()}, {.s = NULL}};
	c[1].s = c[0].s;
	pthread_t t[2];
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&t[i], NULL, ask, &c[i]), 0);
	nanosleep(&(struct timespec){.tv_nsec = 20 * 1000 * 1000}, NULL);
	for (int i = 0; i < 2; i++)
		atomic_store(&c[i].flag, 1);
	for (int i = 0; i < 2; i++) {
		pthread_join(t[i], NULL);
		assert_int_equal(c[i].err, ERR_CANCELLED);
	}
	snapshot_unref(c[0].s);
	_Atomic int set = 1;
	struct snapshot *s = snapshot_create("x = 1\n", 6, true);
	struct syntax *x;
	enum err err = snapshot_syntax(s, NULL, &set, &x); // may be done in one slice
	assert_true(err == ERR_OK || err == ERR_CANCELLED);
	if (!err)
		syntax_unref(x);
	assert_int_equal(snapshot_syntax(s, NULL, NULL, &x), ERR_OK);
	syntax_unref(x);
	snapshot_unref(s);
}

// Many documents and edits queued faster than they are parsed; then the worker goes with work still queued.
static void test_queue(void **state) {
	(void)state;
	struct parser_worker *w;
	assert_int_equal(parser_worker_create(&w), ERR_OK);
	struct document *d[20];
	for (int i = 0; i < 20; i++)
		assert_int_equal(document_create(SOURCE, sizeof SOURCE - 1, true, 1, &d[i], NULL), ERR_OK);
	for (int k = 0; k < 30; k++)
		for (int i = 0; i < 20; i++) {
			assert_int_equal(document_edit(d[i], (struct position){3, 0}, (struct position){3, 0}, POS_UTF16, "x = 1\n", 6), ERR_OK);
			document_parse_async(d[i], w);
			document_parse_async(d[i], w); // twice is harmless
			if ((i + k) % 7 == 0)
				assert_int_equal(document_replace(d[i], SOURCE, sizeof SOURCE - 1), ERR_OK);
		}
	struct snapshot *s = document_snapshot(d[3]);
	char *got = tree_of(s, w);
	struct syntax *x;
	assert_int_equal(snapshot_syntax(s, w, NULL, &x), ERR_OK); // asked twice: the same tree
	char *again = syntax_dump(x);
	assert_string_equal(got, again);
	free(again);
	free(got);
	syntax_unref(x);
	for (int i = 0; i < 10; i++)
		document_destroy(d[i]);
	parser_worker_destroy(w);
	got = tree_of(s, NULL);
	free(got);
	snapshot_unref(s);
	for (int i = 10; i < 20; i++) { // queued ones can be parsed by others now
		s = document_snapshot(d[i]);
		free(tree_of(s, NULL));
		snapshot_unref(s);
		document_destroy(d[i]);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_incremental_equals_fresh), cmocka_unit_test(test_worker_equals_fresh), cmocka_unit_test(test_typing),
		cmocka_unit_test(test_bare_cr), cmocka_unit_test(test_not_python), cmocka_unit_test(test_cancel), cmocka_unit_test(test_queue),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
