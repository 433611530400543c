// SPDX-License-Identifier: MIT
// What is said about a cursor ($ in the snippets), for whole and half-typed Python.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "document/document.h"

static struct syntax_place place(const char *text, size_t n_bytes, size_t offset) {
	struct snapshot *s = snapshot_create(text, n_bytes, true);
	assert_non_null(s);
	struct syntax *x;
	assert_int_equal(snapshot_syntax(s, NULL, NULL, &x), ERR_OK);
	struct syntax_place p = syntax_at(x, offset);
	syntax_unref(x);
	snapshot_unref(s);
	return p;
}

// Takes the first $ out of a copy (malloc'ed) and gives its offset.
static char *without_mark(const char *marked, size_t *offset) {
	const char *mark = strchr(marked, '$');
	assert_non_null(mark);
	*offset = (size_t)(mark - marked);
	char *text = malloc(strlen(marked) + 1);
	assert_non_null(text);
	memcpy(text, marked, *offset);
	strcpy(text + *offset, mark + 1);
	return text;
}

struct block_case {
	const char *marked;
	bool empty_block;
	uint32_t block_indent;
};

static const struct block_case BLOCKS[] = {
	// a header just above, nothing below
	{"def f():\n    $", true, 4},
	{"def f():\n$", true, 4},
	{"def f():$", true, 4},
	{"def f():$\n", true, 4},
	{"def f(): $", true, 4},
	{"def f():\n\n\n    $\n\n\nx = 1\n", true, 4},
	{"def f():\n    # what it does\n    $\n", true, 4},
	{"def f(): # comment\n    $\n", true, 4},
	{"def f():  # half a comment$\n", false, 0},
	{"class A:\n    def f(self):\n        $\n\n    def g(self):\n        pass\n", true, 8},
	{"class A:\n    def f(self):\n    $\n\n    def g(self):\n        pass\n", true, 8},
	{"class A:\n    def f(self):\n$\n\n    def g(self):\n        pass\n", true, 8},
	{"def f(\n    a,\n    b,\n):\n    $", true, 4},
	{"def f(\n    a,\n    b,\n):$", true, 4},
	{"async def f():\n    async with x as y:\n        $", true, 8},
	{"try:\n    x()\nexcept ValueError:\n    $\n", true, 4},
	{"for x in y:\n    pass\nelse:\n    $", true, 4},
	{"if a:\n    pass\nelif b:\n    $\nelse:\n    pass\n", true, 4},
	{"match x:\n    case 1:\n        $\n    case _:\n        pass\n", true, 8},
	{"match x:\n    $", true, 4},
	{"while True:\n\t$", true, 1},
	{"class A:\n\tdef f(self):\n\t\t$", true, 2},
	{"class A:\n\tdef f(self):$\n", true, 2},
	{"class A:\n  x = 1\n\n  def f(self):$\n", true, 4}, // steps of two
	{"@a\n@b(1)\ndef f():\n    $", true, 4},
	{"def f() -> dict[str, int]:\n    $", true, 4},
	{"if x[1:2] == {1: 2}:\n    $", true, 4},
	{"with a as b, \\\n     c as d:\n    $", true, 4},
	// only a docstring
	{"def f():\n    \"\"\"Doc.\"\"\"\n    $", true, 4},
	{"def f():\n    \"\"\"Doc.\n\n    More: than one line\n    \"\"\"\n    $\n\n\ndef g():\n    pass\n", true, 4},
	{"def f():\n    r'Doc.'\n\n    $\n", true, 4},
	{"def f():\n    \"\"\"Doc.\"\"\"\n$", false, 0}, // column 0 may be behind the function
	{"def f():\n    \"\"\"Doc.\"\"\".upper()\n    $", false, 4},
	{"def f():\n    \"\"\"Doc.\"\"\"\n    $\n    return 1\n", false, 4},
	// statements there already
	{"def f():\n    x = 1\n    $\n", false, 4},
	{"def f():\n    $\n    x = 1\n", false, 4},
	{"def f():$\n    x = 1\n", false, 4},
	{"def f():\n    # note\n    $\n    # more\n    x = 1\n", false, 4},
	{"def f():$pass\n", false, 4},
	{"def f(): return 1\n$", false, 0},
	{"if x: return 1\n    $", false, 0},
	{"class A:\n    x = 1\n\n    def g(self):\n        pass\n\n    $", false, 4},
	{"class A:\n    x = 1\n\n    def g(self):\n        pass\n\n        $", false, 8},
	{"class A:\n    x = 1\n\n    def g(self):\n        pass\n\n$", false, 0},
	{"x = 1\n$\n", false, 0},
	{"$", false, 0},
	{"\n\n$", false, 0},
	// in the middle of something
	{"def f():\n    retu$", false, 4},
	{"def f():\n    $return 1\n", false, 4},
	{"def f($):\n", false, 0},
	{"def f(a, $\n", false, 0},
	{"x = {\n    'a': 1,\n    $\n}\n", false, 0},
	{"x = foo(\n    $\n", false, 0},
	{"x = lambda a:$", false, 0},
	{"d = {1:$}\n", false, 0},
	{"x: $\n", false, 0},
	{"def f():\n    x = [a,\n         $]\n", false, 4},
	{"@property\n$", false, 0},
	{"s = \"\"\"def f():\n    $\n\"\"\"\n", false, 0},
	// broken text above
	{"x = foo(1,\n\ndef f():\n    $", true, 4},
	{"print('abc\ndef f():\n    $", true, 4},
	{"class A(\n    pass\n\ndef f(a):\n    if a:\n        $\n", true, 8},
	{"import os\ndef f(:\n    pass\n\nfor x in y:\n    $", true, 4},
};

static void test_blocks(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof BLOCKS / sizeof *BLOCKS; i++) {
		size_t at;
		char *text = without_mark(BLOCKS[i].marked, &at);
		struct syntax_place p = place(text, strlen(text), at);
		if (p.empty_block != BLOCKS[i].empty_block || p.block_indent != BLOCKS[i].block_indent) {
			print_error("%s\n(empty %d, indent %u)\n", BLOCKS[i].marked, p.empty_block, p.block_indent);
			fail();
		}
		free(text);
	}
}

struct literal_case {
	const char *marked;
	bool in_string, in_comment;
};

static const struct literal_case LITERALS[] = {
	{"x = 'a$b'\n", true, false},
	{"x = $'ab'\n", false, false},
	{"x = 'ab'$\n", false, false},
	{"x = 'a\\'$b'\n", true, false},
	{"x = 'a\ny = $1", false, false}, // an open string ends with its line
	{"x = \"$", true, false},
	{"def f():\n    \"\"\"Return $\n", true, false},
	{"def f():\n    \"\"\"Doc\n\n    $\n    \"\"\"\n    return 1\n", true, false},
	{"def f():\n    \"\"\"Doc\"\"\"\n    x = '''a'b''' + $\n", false, false},
	{"x = 1 # a 'comment$\n", false, true},
	{"# $\n", false, true},
	{"x = '# no comment $'\n", true, false},
	{"x = f'{a}$'\n", true, false},
	{"x = 'a \\\n b$'\n", true, false},
	{"x = rb'\\' $'\n", true, false},
	{"# a\n$x\n", false, false},
};

static void test_literals(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof LITERALS / sizeof *LITERALS; i++) {
		size_t at;
		char *text = without_mark(LITERALS[i].marked, &at);
		struct syntax_place p = place(text, strlen(text), at);
		if (p.in_string != LITERALS[i].in_string || p.in_comment != LITERALS[i].in_comment) {
			print_error("%s\n(string %d, comment %d)\n", LITERALS[i].marked, p.in_string, p.in_comment);
			fail();
		}
		free(text);
	}
}

static const char CLASS[] =
	"import os\n\n\n@cache\nclass A:\n    x = 1\n\n    @property\n    @other\n    def f(self):\n        for i in self.x:\n            print(i)\n\n        return 2\n\n"
	"    def g(self):\n        pass\n\n\ny = 3\n";

static void check_range(const char *needle, const char *begin, const char *end, const char *definition) {
	struct syntax_place p = place(CLASS, sizeof CLASS - 1, (size_t)(strstr(CLASS, needle) - CLASS));
	assert_int_equal(p.block_begin, begin ? (size_t)(strstr(CLASS, begin) - CLASS) : 0);
	assert_int_equal(p.block_end, end ? (size_t)(strstr(CLASS, end) - CLASS) + strlen(end) : sizeof CLASS - 1);
	assert_int_equal(p.definition_begin, definition ? (size_t)(strstr(CLASS, definition) - CLASS) : SIZE_MAX);
}

static void test_ranges(void **state) {
	(void)state;
	check_range("print(i)", "for i in", "print(i)", "@property");
	check_range("return 2", "def f", "return 2", "@property");
	check_range("x = 1", "class A", "def g(self):\n        pass", "@cache");
	check_range("pass", "def g", "def g(self):\n        pass", "def g");
	check_range("y = 3", NULL, NULL, NULL);
	check_range("os\n", NULL, NULL, NULL);
}

// Every cursor of every snippet, and cut off there: answers stay inside the text.
static void test_every_offset(void **state) {
	(void)state;
	for (size_t n = 0; n < sizeof CLASS; n++)
		for (size_t at = n > 40 ? n - 40 : 0; at <= n && at < sizeof CLASS; at++) {
			struct syntax_place p = place(CLASS, n, at);
			assert_true(p.block_begin <= p.block_end && p.block_end <= n);
			assert_true(p.definition_begin == SIZE_MAX || p.definition_begin <= at);
			assert_true(p.block_begin <= at);
		}
}

// Text in front must not change what is said, though the walk then begins at the last sure definition.
static void test_sure_start(void **state) {
	(void)state;
	static const char FRONT[] = "import sys\n\n\ndef front(a):\n    return '''x\n'''\n\n\n";
	for (size_t i = 0; i < sizeof BLOCKS / sizeof *BLOCKS; i++) {
		size_t at, n_front = sizeof FRONT - 1;
		char *text = without_mark(BLOCKS[i].marked, &at);
		char *longer = malloc(n_front + strlen(text) + 1);
		assert_non_null(longer);
		strcpy(longer, FRONT);
		strcat(longer, text);
		struct syntax_place p = place(longer, strlen(longer), n_front + at);
		if (strchr(text, ' ')) // with a step of its own
			assert_int_equal(p.empty_block, BLOCKS[i].empty_block);
		free(longer);
		free(text);
	}
}

// --- without a tree

static const char *read_file(const char *name, size_t *n) {
	static char text[1 << 16];
	char path[512];
	const char *data = getenv("MASKSTORE_TEST_DATA");
	snprintf(path, sizeof path, "%s/py/%s", data ? data : "tests/data", name);
	FILE *f = fopen(path, "rb");
	if (!f)
		fail_msg("%s", path);
	*n = fread(text, 1, sizeof text, f);
	fclose(f);
	return text;
}

static uint32_t draw(uint64_t *seed, uint32_t n) {
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*seed >> 33) % n;
}

// Bytes that matter put in, pieces cut out and doubled.
static size_t break_text(char *text, size_t n, uint64_t *seed) {
	static const char BYTES[] = "\"\"''()[]{}:#\\\n\n\n    @=.,def class import from \t\r";
	for (uint32_t k = draw(seed, 8); k--;) {
		size_t at = draw(seed, (uint32_t)n), len = draw(seed, 40);
		len = len < n - at ? len : n - at;
		switch (draw(seed, 4)) {
		case 0: text[at] = BYTES[draw(seed, sizeof BYTES - 1)]; break;
		case 1: memmove(text + at, text + at + len, n - at - len), n -= len; break;
		case 2: memmove(text + at + 3, text + at, n - at), memset(text + at, draw(seed, 2) ? '"' : '\'', 3), n += 3; break;
		default: memmove(text + at + len, text + at, n - at), n += len; break;
		}
		if (!n)
			text[n++] = 'x';
	}
	return n;
}

// Behind a random line indentation is halved, and a header without a body is put there.
static size_t reindent_text(char *text, size_t n, uint64_t *seed) {
	static const char HEADER[] = "def late(x):\n\n";
	size_t at = draw(seed, (uint32_t)n), out;
	while (at && (text[at - 1] != '\n' || text[at] == ' '))
		at--;
	memmove(text + at + sizeof HEADER - 1, text + at, n - at);
	memcpy(text + at, HEADER, sizeof HEADER - 1);
	n += sizeof HEADER - 1;
	out = at += sizeof HEADER - 1;
	for (bool leading = true; at < n; at++) {
		leading = text[at - 1] == '\n' || (leading && text[at - 1] == ' ');
		if (leading && text[at] == ' ' && at + 1 < n && text[at + 1] == ' ')
			at++;
		text[out++] = text[at];
	}
	return out;
}

// A random place, or one on the line behind a header.
static size_t draw_place(const char *text, size_t n, uint64_t *seed) {
	size_t at = draw(seed, (uint32_t)n + 1);
	if (draw(seed, 2))
		return at;
	while (at > 1 && !(text[at - 1] == '\n' && text[at - 2] == ':'))
		at--;
	return at;
}

// What is said early is what the tree says, in texts that are broken at random.
static void test_early(void **state) {
	(void)state;
	static const char *const FILES[] = {"inventory.py", "matrix.py", "retry.py", "shortest_path.py", "test_retry.py", "unfinished.py"};
	static char text[1 << 17];
	uint64_t seed = 11;
	int n_early = 0, n_all = 0;
	for (int i = 0; i < 2000; i++) {
		size_t n;
		const char *file = read_file(FILES[draw(&seed, 6)], &n);
		memcpy(text, file, n);
		n = break_text(text, n, &seed);
		if (draw(&seed, 2))
			n = reindent_text(text, n, &seed);
		struct snapshot *s = snapshot_create(text, n, true);
		struct syntax *x;
		assert_int_equal(snapshot_syntax(s, NULL, NULL, &x), ERR_OK);
		for (int k = 0; k < 20; k++) {
			size_t at = draw_place(text, n, &seed);
			struct syntax_place early, late = syntax_at(x, at);
			n_all++;
			if (!snapshot_place_early(s, at, &early))
				continue;
			n_early++;
			if (early.in_string != late.in_string || early.in_comment != late.in_comment || early.empty_block != late.empty_block ||
			    early.block_indent != late.block_indent)
				fail_msg("text %d, byte %zu: string %d %d, comment %d %d, block %d %d, indent %u %u\n%.*s", i, at, early.in_string, late.in_string, early.in_comment,
				         late.in_comment, early.empty_block, late.empty_block, early.block_indent, late.block_indent, (int)(at < 300 ? at : 300), text + (at < 300 ? 0 : at - 300));
		}
		syntax_unref(x);
		snapshot_unref(s);
	}
	print_message("%d of %d places were known early\n", n_early, n_all);
	assert_true(n_early > n_all / 2);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_blocks), cmocka_unit_test(test_literals), cmocka_unit_test(test_ranges), cmocka_unit_test(test_every_offset),
		cmocka_unit_test(test_sure_start), cmocka_unit_test(test_early),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
