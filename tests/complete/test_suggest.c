// SPDX-License-Identifier: MIT
// Stop rules and trimming: what a model might write at a cursor ($ in the snippets), and what of it is shown.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/utf8.h"
#include "complete/suggest.h"

static size_t count_bytes(void *user, const char *text, size_t n_bytes) {
	(void)user;
	(void)text;
	return n_bytes;
}

// The prompt for a marked snippet, so that the rules are tried on what prompt_build really gives.
static struct prompt at(const char *marked, bool python) {
	const char *mark = strchr(marked, '$');
	assert_non_null(mark);
	size_t cursor = (size_t)(mark - marked), n = strlen(marked) - 1;
	char *text = malloc(n + 1);
	assert_non_null(text);
	memcpy(text, marked, cursor);
	strcpy(text + cursor, mark + 1);
	struct snapshot *s = snapshot_create(text, n, python);
	struct syntax *x = NULL;
	if (python)
		assert_int_equal(snapshot_syntax(s, NULL, NULL, &x), ERR_OK);
	struct prompt p;
	struct prompt_options o = {.budget_tokens = 4000, .has_fim = true};
	assert_int_equal(prompt_build(s, x, cursor, &o, count_bytes, NULL, &p, NULL), ERR_OK);
	syntax_unref(x);
	snapshot_unref(s);
	free(text);
	return p;
}

// Feeds the text byte by byte as a decoder would; the reason and what stays. At the end of the text everything stays.
static enum stop_reason decode(const struct prompt *p, const char *text, size_t *keep) {
	size_t n = strlen(text);
	for (size_t i = 1; i <= n; i++) {
		enum stop_reason r = suggest_stop(p, text, i, keep);
		if (r) {
			assert_true(*keep <= i);
			return r;
		}
	}
	*keep = n;
	return STOP_END_TOKEN;
}

struct rule_case {
	const char *marked, *generated, *shown;
	enum stop_reason stop;
};

static const struct rule_case CASES[] = {
	// one line
	{"x = $\n", "1 + 2\ny = 3\n", "1 + 2", STOP_LINE},
	{"x = $\n", "1 + 2", "1 + 2", STOP_END_TOKEN},
	{"x = $\n", "1 + 2   \n", "1 + 2", STOP_LINE},
	{"def f(a):\n    return a$\n", "\n\n\ndef g():\n", "", STOP_BLANK_LINE},
	{"x = 1$\n", "\ny = 2\nz = 3\n", "\ny = 2", STOP_LINE},
	{"x = 1$\n", "   \n", "", STOP_END_TOKEN},
	{"x = $  # why\n", "1\n", "1", STOP_LINE},
	// inside a line: cut where its rest begins
	{"def f($):\n    pass\n", "self, x):\n        pass\n", "self, x", STOP_REST_OF_LINE},
	{"print(\"$\")\n", "hello\")\n", "hello", STOP_REST_OF_LINE},
	{"print(\"a$)\n", "bc\")\n", "bc\"", STOP_REST_OF_LINE},
	{"x = [1, $]\n", "2, (3)]\ny = 1\n", "2, (3)", STOP_REST_OF_LINE},
	{"foo(a, $, c)\n", "b, c)\n", "b", STOP_REST_OF_LINE},
	{"foo($)\n", "bar(x), y=[1, 2]\n", "bar(x), y=[1, 2]", STOP_LINE},
	{"foo($)\n", "bar(x)", "bar(x)", STOP_END_TOKEN},
	{"if x$:\n    pass\n", " > 3:\n", " > 3", STOP_REST_OF_LINE},
	{"if x$:\n    pass\n", "[1:2] == {3: 4}:\n", "[1:2] == {3: 4}", STOP_REST_OF_LINE},
	{"x = f\"{$}\"\n", "name}\"\n", "name", STOP_REST_OF_LINE},
	{"d[\"$\"]\n", "key\"]\n", "key", STOP_REST_OF_LINE},
	{"d['$'] = it\n", "it\\'s'] = 1\n", "it\\'s", STOP_REST_OF_LINE},
	{"x = $foo(a)\n", "1 + foo(a)\n", "1 + ", STOP_REST_OF_LINE},
	{"pri$nt(x)\n", "nt(x)\n", "", STOP_REST_OF_LINE},
	{"x = $b\n", "bc + b\n", "bc + ", STOP_LINE},
	{"x = ($)  # (note)\n", "1 + 2)  # (note)\n", "1 + 2", STOP_REST_OF_LINE},
	{"foo($, b)\n", "a)\n", "a", STOP_REST_OF_LINE},
	{"x = $ + y\n", "a\n", "a", STOP_LINE},
	{"call(')', $)\n", "'(', x)\n", "'(', x", STOP_REST_OF_LINE},
	{"foo($", "a, b)\n", "a, b)", STOP_LINE},
	// already there
	{"foo($)\n", ")\n", "", STOP_REST_OF_LINE},
	{"return $self.items[-1]\n", "self.items[-1]\n", "", STOP_REST_OF_LINE},
	{"x = $value\n", "val", "", STOP_END_TOKEN},
	{"def f():\n    x = 1\n    $\n    return x\n", "return x\n", "", STOP_LINE},
	{"a = 1\n$\nb = 2\n", "b = 2\n", "", STOP_LINE},
	{"a = 1$\nb = 2\n", "\nb = 2\n", "", STOP_LINE},
	// blocks
	{"def f(a):\n    $\n", "return a\n\n\ndef g():\n    pass\n", "return a", STOP_BLANK_LINE},
	{"def f(a):$\n", "\n    return a\nx = f(1)\n", "\n    return a", STOP_BLOCK_END},
	{"def f(a):\n    $\n\nx = 1\n", "if a:\n        return 1\n\n    return 2\nx = 1\n", "if a:\n        return 1\n\n    return 2", STOP_BLOCK_END},
	{"def f(a):\n$\n", "    return a\nfoo()\n", "    return a", STOP_BLOCK_END},
	{"def f(a):\n$\n", "x = 1\n", "", STOP_BLOCK_END},
	{"class A:\n    def f(self):\n        $\n", "return 1\n\n    def g(self):\n", "return 1", STOP_BLOCK_END},
	{"class A:\n\tdef f(self):\n\t\t$\n", "x = 1\n\t\treturn x\n\n\tdef g(self):\n", "x = 1\n\t\treturn x", STOP_BLOCK_END},
	{"def f(a):\n    $\n", "x = [\n  1,\n]\n    return x\n", "x = [\n  1,\n]\n    return x", STOP_END_TOKEN}, // inside brackets indentation is free
	{"def f(a):\n    $\n", "x = '''\nabc\n\n\ndef\n'''\n    return x\ny", "x = '''\nabc\n\n\ndef\n'''\n    return x", STOP_BLOCK_END},
	{"def f(a):\n    $\n", "print(1)\n    print(1)\n    print(1)\n", "print(1)\n    print(1)\n    print(1)", STOP_END_TOKEN},
	{"def f(a):\n$\n", "    print(1)\n    print(1)\n    print(1)\n", "    print(1)", STOP_REPETITION},
	{"def f(a):\n    $\n", "a = 1\n    b = 2\n    b = 2\n    b = 2\n", "a = 1\n    b = 2", STOP_REPETITION},
	{"def f(a):\n    $\n", "if a:\n        pass", "if a:\n        pass", STOP_END_TOKEN},
	{"if a:\n    if b:\n        $\n    c = 1\n", "c = 1\n    c = 1\n", "c = 1", STOP_BLOCK_END},
	{"def f():\n    \"\"\"Doc.\"\"\"\n    $\n", "return 1\n\n\n\n", "return 1", STOP_BLANK_LINE},
	// what must never be shown
	{"x = $\n", "<|fim_middle|>1\n", "", STOP_LINE},
	{"x = $\n", "1<|endoftext|>\n", "1", STOP_LINE},
	{"x = $\n", "[<fim_prefix>\n", "[", STOP_LINE},
	{"x = $\n", "a < b | c\n", "a < b | c", STOP_LINE},
	{"x = $\n", "    ", "", STOP_END_TOKEN},
	{"x = $\n", "", "", STOP_END_TOKEN},
	{"x = $\n", "\xc3\xa9\xf0\x9f\x98", "\xc3\xa9", STOP_END_TOKEN}, // cut inside a character
	{"x = $\n", "a\xff" "b\n", "", STOP_LINE},
	{"x = $\n", "1\r\n", "1", STOP_LINE},
	// tabs and spaces
	{"class A:\n\tdef f(self):$\n", "\n        return 1\n", "\n\t\treturn 1", STOP_END_TOKEN},
	{"def f():\n    x = 1\n\n\ndef g():$\n", "\n\treturn 1\n", NULL, STOP_BLOCK_END},
};

static void check_case(const struct rule_case *c) {
	struct prompt p = at(c->marked, true);
	size_t keep;
	enum stop_reason r = decode(&p, c->generated, &keep);
	struct suggestion s;
	assert_int_equal(suggest_finish(&p, c->generated, keep, &s), ERR_OK);
	if (r != c->stop || (c->shown && strcmp(s.text, c->shown)))
		print_error("%s\ngenerated \"%s\"\nshown \"%s\" (stop %s)\nwanted \"%s\" (%s)\n", c->marked, c->generated, s.text, stop_name(r), c->shown, stop_name(c->stop));
	assert_int_equal(r, c->stop);
	if (c->shown)
		assert_string_equal(s.text, c->shown);
	assert_int_equal(strlen(s.text), s.text_bytes);
	assert_int_equal(s.replace_bytes, 0);
	suggestion_finish(&s);
	prompt_finish(&p);
}

static void test_cases(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
		check_case(&CASES[i]);
}

// Any text at any of the cursors, whole or cut: what is shown keeps the promises that the protocol tests look for.
static void test_promises(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
		for (int python = 0; python < 2; python++) {
			struct prompt p = at(CASES[i].marked, python);
			for (size_t j = 0; j < sizeof CASES / sizeof *CASES; j++)
				for (size_t n = 0; n <= strlen(CASES[j].generated); n++) {
					struct suggestion s;
					assert_int_equal(suggest_finish(&p, CASES[j].generated, n, &s), ERR_OK);
					assert_true(utf8_valid(s.text, s.text_bytes));
					assert_null(strchr(s.text, '\r'));
					assert_null(strstr(s.text, "<|"));
					if (s.text_bytes) {
						assert_true(strspn(s.text, " \t\n") < s.text_bytes);
						assert_true(s.text[s.text_bytes - 1] != '\n');
						assert_true(strcmp(s.text, p.rest) != 0);
						if (p.rest[strspn(p.rest, " \t")])
							assert_null(strchr(s.text, '\n'));
					}
					// Finishing twice changes nothing more.
					struct suggestion t;
					assert_int_equal(suggest_finish(&p, s.text, s.text_bytes, &t), ERR_OK);
					if (strcmp(s.text, t.text))
						print_error("%s: \"%.*s\" -> \"%s\" -> \"%s\"\n", CASES[i].marked, (int)n, CASES[j].generated, s.text, t.text);
					assert_string_equal(s.text, t.text);
					suggestion_finish(&s);
					suggestion_finish(&t);
				}
			prompt_finish(&p);
		}
}

// Lines below the cursor that are generated once more are left out, also behind good ones.
static void test_lines_below(void **state) {
	(void)state;
	struct prompt p = at("if a:\n    if b:\n        $\n        # note\n    c = 1\n", true);
	struct suggestion s;
	static const char TEXT[] = "d = 2\n        # note\n    c = 1";
	size_t keep;
	assert_int_equal(decode(&p, TEXT, &keep), STOP_NEXT_LINE);
	assert_int_equal(suggest_finish(&p, TEXT, keep, &s), ERR_OK);
	assert_string_equal(s.text, "d = 2");
	suggestion_finish(&s);
	prompt_finish(&p);
}

static void test_names(void **state) {
	(void)state;
	for (int r = STOP_NONE; r <= STOP_HEALING; r++)
		assert_true(strlen(stop_name(r)) > 3);
	assert_string_equal(stop_name(STOP_REST_OF_LINE), "rest_of_line");
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases), cmocka_unit_test(test_promises), cmocka_unit_test(test_lines_below), cmocka_unit_test(test_names)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
