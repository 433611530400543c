// SPDX-License-Identifier: MIT
// What stays above a cut: which lines head_find takes, and that prompts hold them within the budget, standing still while somebody types.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "prompt/internal.h"

// The kept lines as text: imports, then signatures.
static void kept(const char *text, uint32_t cut_line, char *out, size_t size) {
	struct snapshot *s = snapshot_create(text, strlen(text), true);
	struct head parts[2];
	struct buf b = {0};
	head_find(s, cut_line, &parts[0], &parts[1]);
	for (int k = 0; k < 2; k++)
		for (int i = 0; i < parts[k].n; i++) {
			struct line_range r = parts[k].lines[i];
			assert_true(r.begin < r.end && r.end <= cut_line && (i == 0 || r.begin >= parts[k].lines[i - 1].end));
			text_append(&b, s, snapshot_line_start(s, r.begin), snapshot_line_start(s, r.end));
		}
	buf_append(&b, "", 1);
	assert_false(b.failed);
	snprintf(out, size, "%s", b.data);
	buf_finish(&b);
	snapshot_unref(s);
}

static uint32_t line_of(const char *text, const char *mark) {
	uint32_t line = 0;
	for (const char *at = text; at < strstr(text, mark); at++)
		line += *at == '\n';
	return line;
}

static void lines_are_found(void **state) {
	(void)state;
	static const struct {
		const char *text, *kept; // cut at the line that holds "CUT"
	} cases[] = {
		{"import a\nx = 1\nCUT\n", "import a\n"},
		{"'''doc'''\nimport a\n\nfrom b import (\n    c,\n    d,\n)\nx = 1\nimport e  # late\n\ndef f():\n    pass\n\nimport never\nCUT\n",
		 "import a\nfrom b import (\n    c,\n    d,\n)\nimport e  # late\n"},
		{"from a import b, \\\n    c\nCUT\n", "from a import b, \\\n    c\n"},
		{"important = 1\nfrom_here = 2\n    import indented\nCUT\n", ""},
		{"class A(B):\n    x = 1\n\n    def f(self):\n        pass\n\n    def g(self, a):\n        y = 2\n        CUT\n", "class A(B):\n    def g(self, a):\n"},
		{"class A:\n    def f(\n        self,\n        b,\n    ) -> int:\n        y = 2\n\n        CUT\n", "class A:\n    def f(\n        self,\n        b,\n    ) -> int:\n"},
		{"async def f():\n    if x:\n        for y in z:\n            a\n            CUT\n", "async def f():\n"},
		{"def f():\n    a\n\nb = 1\nCUT\n", ""}, // not in it any more
		{"def f():\n    a\n# at the margin\n    b\n    CUT\n", "def f():\n"},
		{"def f():\n    a\n\n\n\n    CUT\n", "def f():\n"},
		{"def f(CUT\n    a\n", ""},
		{"from a import (\n    b,\nCUT\n", ""}, // goes on behind the cut
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char found[400];
		kept(cases[i].text, line_of(cases[i].text, "CUT"), found, sizeof found);
		if (strcmp(found, cases[i].kept))
			fail_msg("case %zu: kept \"%s\", wanted \"%s\"", i, found, cases[i].kept);
	}
}

// One token a byte, which is also what bounds the text.
static size_t count_bytes(void *user, const char *text, size_t n_bytes) {
	(void)user;
	(void)text;
	return n_bytes;
}

#define N_METHODS 400

static char *long_class(void) {
	char *text = malloc(200 + N_METHODS * 80), *at = text;
	assert_non_null(text);
	at += sprintf(at, "'''Doc.'''\nimport os\nfrom a import (\n    b,\n)\n\n\nclass Long(Base):\n");
	for (int i = 0; i < N_METHODS; i++)
		at += sprintf(at, "    def m%d(self):\n        a = %d\n        return a\n\n", i, i);
	return text;
}

static void build(const struct snapshot *s, size_t at, const struct prompt_options *o, bool file, struct prompt *p) {
	if (file)
		assert_int_equal(prompt_build_file(s, at, 0, o, count_bytes, NULL, p, NULL), ERR_OK);
	else
		assert_int_equal(prompt_build(s, NULL, at, o, count_bytes, NULL, p, NULL), ERR_OK);
	assert_true(p->text_bytes <= (size_t)o->budget_tokens);
}

static void prompts_keep_them(void **state) {
	(void)state;
	static const char HEAD[] = "import os\nfrom a import (\n    b,\n)\nclass Long(Base):\n";
	char *text = long_class();
	size_t n = strlen(text);
	struct snapshot *s = snapshot_create(text, n, true);
	struct prompt_options large = {.budget_tokens = 6000, .has_fim = true}, plain = {.budget_tokens = 6000}, small = {.budget_tokens = 256, .has_fim = true};
	for (size_t at = n / 2; at < n; at += n / 97) {
		struct prompt p, q, f;
		build(s, at, &large, false, &p);
		assert_memory_equal(p.text, HEAD, sizeof HEAD - 1);
		build(s, at, &large, true, &f);
		size_t prefix = p.segments[1].end - p.segments[1].begin;
		assert_memory_equal(f.text, p.text, prefix); // the file's prefix is that of prompts in it
		build(s, at, &plain, false, &q);
		assert_memory_equal(q.text, HEAD, sizeof HEAD - 1);
		prompt_finish(&q);
		build(s, at, &small, false, &q); // lines come first
		assert_null(strstr(q.text, "import os"));
		prompt_finish(&q);
		prompt_finish(&p);
		prompt_finish(&f);
	}
	snapshot_unref(s);
	free(text);
}

static void typing_leaves_them(void **state) {
	(void)state;
	char *text = long_class();
	size_t n = strlen(text), at = (size_t)(strstr(text, "m300") - text);
	struct prompt_options o = {.budget_tokens = 6000, .has_fim = true};
	struct prompt first = {0}, p;
	for (int i = 0; i < 100; i++) {
		struct snapshot *s = snapshot_create(text, n, true);
		build(s, at, &o, false, &p);
		if (!i)
			first = p;
		else
			assert_memory_equal(p.text, first.text, first.segments[1].end);
		snapshot_unref(s);
		char *more = malloc(n + 2);
		assert_non_null(more);
		sprintf(more, "%.*sx%s", (int)at, text, text + at);
		free(text);
		text = more;
		n++;
		at++;
		if (i)
			prompt_finish(&p);
	}
	prompt_finish(&first);
	free(text);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_found), cmocka_unit_test(prompts_keep_them), cmocka_unit_test(typing_leaves_them),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
