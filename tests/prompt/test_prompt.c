// SPDX-License-Identifier: MIT
// Prompts: what is healed, how the pieces are laid out, what is kept within a budget, one line or a block.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/utf8.h"
#include "prompt/prompt.h"

struct counted {
	size_t bytes; // of all texts that were counted
};

// A tokeniser of sorts: a token is a run of blanks, a word of at most 8 bytes, or one other byte.
static size_t count_tokens(void *user, const char *text, size_t n_bytes) {
	struct counted *c = user;
	c->bytes += n_bytes;
	size_t n = 0, run = 0;
	char kind = 0;
	for (size_t i = 0; i < n_bytes; i++) {
		char k = text[i] == ' ' ? ' ' : (text[i] >= '0' && text[i] <= '9') || (text[i] >= 'A' && text[i] <= 'z') ? 'w' : 0;
		bool same = k && k == kind && run < 8;
		run = same ? run + 1 : 1;
		n += !same;
		kind = k;
	}
	return n;
}

static const struct prompt_options FIM = {.budget_tokens = 2000, .has_fim = true}, PLAIN = {.budget_tokens = 2000};

static void build(const struct snapshot *s, size_t offset, const struct prompt_options *o, struct prompt *p) {
	struct syntax *x = NULL;
	struct counted c = {0};
	if (snapshot_is_python(s))
		assert_int_equal(snapshot_syntax((struct snapshot *)s, NULL, NULL, &x), ERR_OK);
	assert_int_equal(prompt_build(s, x, offset, o, count_tokens, &c, p, NULL), ERR_OK);
	// Counting costs the budget (8 bytes a token, each part at most a few times), not the file.
	assert_true(c.bytes <= 16u * 8u * (size_t)o->budget_tokens);
	assert_true(p->n_segments > 0 && p->n_segments <= PROMPT_MAX_SEGMENTS);
	assert_null(memchr(p->text, '\r', p->text_bytes));
	syntax_unref(x);
}

// Text of the n-th text segment behind the given mark (any mark for PROMPT_TEXT); empty if there is none.
static char *part(const struct prompt *p, enum prompt_mark mark) {
	char *out = calloc(1, p->text_bytes + 1);
	assert_non_null(out);
	for (int i = 0; i < p->n_segments; i++)
		if (p->segments[i].mark == PROMPT_TEXT && (mark == PROMPT_TEXT || (i > 0 && p->segments[i - 1].mark == mark))) {
			memcpy(out, p->text + p->segments[i].begin, p->segments[i].end - p->segments[i].begin);
			break;
		}
	return out;
}

static void check_budget(const struct prompt *p, int budget) {
	struct counted c = {0};
	size_t n = 0;
	for (int i = 0; i < p->n_segments; i++) {
		const struct prompt_segment *g = &p->segments[i];
		n += g->mark == PROMPT_TEXT ? count_tokens(&c, p->text + g->begin, g->end - g->begin) : 1;
		if (g->mark == PROMPT_TEXT)
			assert_true(utf8_valid(p->text + g->begin, g->end - g->begin));
	}
	assert_true(n <= (size_t)budget);
}

struct heal_case {
	const char *before, *healed;
};

static const struct heal_case HEALS[] = {
	{"", ""}, {"    ", "    "}, {"\t\t", "\t\t"}, {"x = ", " "}, {"    retu", "    retu"}, {"return va", " va"}, {"return val  ", "  "},
	{"x = fo", " fo"}, {"shape.", "."}, {"shape.ra", ".ra"}, {"foo(", "("}, {"foo(ba", "(ba"}, {"x = (fo", "fo"}, {"foo((ba", "ba"}, {"(ba", "(ba"},
	{"def f(x):", "):"}, {"x =", " ="}, {"x == y", " y"}, {"    \"\"\"", "    \"\"\""}, {"my_var_1", "my_var_1"}, {"if caf\xc3\xa9", " caf\xc3\xa9"},
	{"a[i].b_c", "b_c"}, {"foo()", "()"}, {"f(a, b", " b"}, {"# ----------------", ""}, {"a.b.c", ".c"}, {"x=1", "=1"}, {"@", "@"}, {"    @prop", "prop"},
};

static void test_healing(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof HEALS / sizeof *HEALS; i++) {
		char text[100];
		snprintf(text, sizeof text, "y = 1\n%sREST\n", HEALS[i].before);
		size_t cursor = 6 + strlen(HEALS[i].before);
		struct snapshot *s = snapshot_create(text, strlen(text), false);
		struct prompt p;
		build(s, cursor, &FIM, &p);
		if (strcmp(p.healed, HEALS[i].healed))
			print_error("before: \"%s\"\n", HEALS[i].before);
		assert_string_equal(p.healed, HEALS[i].healed);
		assert_int_equal(p.healed_bytes, strlen(HEALS[i].healed));
		assert_string_equal(p.before, HEALS[i].before);
		assert_string_equal(p.rest, "REST");
		char *middle = part(&p, PROMPT_FIM_MIDDLE), both[200];
		snprintf(both, sizeof both, "%s%s", middle, p.healed);
		text[cursor] = 0;
		assert_string_equal(both, text); // nothing lost, nothing twice
		free(middle);
		prompt_finish(&p);
		snapshot_unref(s);
	}
}

static void test_long_runs_are_not_healed(void **state) {
	(void)state;
	char text[4000];
	memset(text, 'a', sizeof text);
	struct snapshot *s = snapshot_create(text, sizeof text, false);
	struct prompt p;
	build(s, 3000, &FIM, &p);
	assert_int_equal(p.healed_bytes, 0);
	prompt_finish(&p);
	snapshot_unref(s);
}

// n lines "line <i>", from line 0 on.
static char *numbered(int n, const char *eol) {
	char *text = calloc(1, (size_t)n * 20 + 1), *at = text;
	assert_non_null(text);
	for (int i = 0; i < n; i++)
		at += sprintf(at, "line_%d = %d%s", i, i, eol);
	return text;
}

static void test_layout(void **state) {
	(void)state;
	char *text = numbered(100, "\n");
	struct snapshot *s = snapshot_create(text, strlen(text), false);
	size_t cursor = (size_t)(strstr(text, "line_40 = 40") - text) + strlen("line_40 =");
	struct prompt p;
	build(s, cursor, &FIM, &p);
	assert_int_equal(p.n_segments, 6);
	assert_int_equal(p.segments[0].mark, PROMPT_FIM_PREFIX);
	assert_int_equal(p.segments[2].mark, PROMPT_FIM_SUFFIX);
	assert_int_equal(p.segments[4].mark, PROMPT_FIM_MIDDLE);
	char *prefix = part(&p, PROMPT_FIM_PREFIX), *suffix = part(&p, PROMPT_FIM_SUFFIX), *middle = part(&p, PROMPT_FIM_MIDDLE);
	size_t anchor = (size_t)(strstr(text, "line_32 ") - text);
	assert_int_equal(strlen(prefix), anchor);
	assert_memory_equal(prefix, text, anchor);
	assert_memory_equal(middle, text + anchor, strlen(middle));
	assert_int_equal(anchor + strlen(middle) + p.healed_bytes, cursor);
	assert_memory_equal(suffix, text + cursor, strlen(suffix));
	assert_string_equal(suffix + strlen(suffix) - strlen("line_48 = 48"), "line_48 = 48"); // the rest of the line and 8 lines
	assert_memory_equal(p.after, "line_41 = 41\n", 13);
	assert_true(p.single_line);
	free(prefix);
	free(suffix);
	free(middle);
	prompt_finish(&p);
	build(s, cursor, &PLAIN, &p);
	assert_int_equal(p.n_segments, 1);
	assert_int_equal(p.text_bytes, cursor - p.healed_bytes);
	assert_memory_equal(p.text, text, p.text_bytes);
	assert_memory_equal(p.after, "line_41 = 41\n", 13);
	prompt_finish(&p);
	build(s, cursor, &(struct prompt_options){.budget_tokens = 2000, .has_fim = true, .has_bos = true}, &p);
	assert_int_equal(p.segments[0].mark, PROMPT_BOS);
	assert_int_equal(p.segments[1].mark, PROMPT_FIM_PREFIX);
	prompt_finish(&p);
	snapshot_unref(s);
	free(text);
}

static void test_edges_of_the_text(void **state) {
	(void)state;
	static const char *const TEXTS[] = {"", "\n", "\r\n", " ", "\t\n", "\n\n\n", "x", "\xef\xbb\xbf"};
	for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++)
		for (size_t at = 0; at <= strlen(TEXTS[i]); at++)
			for (int python = 0; python < 2; python++) {
				struct snapshot *s = snapshot_create(TEXTS[i], strlen(TEXTS[i]), python);
				struct prompt p;
				build(s, at, &FIM, &p);
				prompt_finish(&p);
				build(s, at, &PLAIN, &p); // something to begin from
				assert_true(p.segments[0].end > p.segments[0].begin);
				prompt_finish(&p);
				snapshot_unref(s);
			}
}

static void test_crlf(void **state) {
	(void)state;
	char *text = numbered(30, "\r\n"), *lf = numbered(30, "\n");
	struct snapshot *s = snapshot_create(text, strlen(text), false), *t = snapshot_create(lf, strlen(lf), false);
	struct prompt p, q;
	build(s, (size_t)(strstr(text, "line_20") - text), &FIM, &p);
	build(t, (size_t)(strstr(lf, "line_20") - lf), &FIM, &q);
	assert_true(p.crlf);
	assert_false(q.crlf);
	assert_int_equal(p.text_bytes, q.text_bytes);
	assert_memory_equal(p.text, q.text, p.text_bytes);
	assert_string_equal(p.after, q.after);
	assert_string_equal(p.rest, "line_20 = 20");
	prompt_finish(&p);
	prompt_finish(&q);
	snapshot_unref(s);
	snapshot_unref(t);
	free(text);
	free(lf);
}

// First line kept, by its number.
static int first_line(const struct prompt *p) {
	char *prefix = part(p, PROMPT_FIM_PREFIX), *middle = part(p, PROMPT_FIM_MIDDLE);
	int n = -1;
	(void)!sscanf(*prefix ? prefix : middle, "line_%d", &n);
	free(prefix);
	free(middle);
	return n;
}

static void test_budget_cuts_in_coarse_steps(void **state) {
	(void)state;
	char *text = numbered(3000, "\n");
	struct snapshot *s = snapshot_create(text, strlen(text), false);
	int last = 0, moves = 0;
	for (int line = 0; line < 3000; line++) {
		char needle[32];
		snprintf(needle, sizeof needle, "line_%d = ", line);
		struct prompt p;
		build(s, (size_t)(strstr(text, needle) - text) + strlen(needle) - 2, &FIM, &p);
		check_budget(&p, FIM.budget_tokens);
		int first = first_line(&p);
		assert_true(first >= 0 && first % PROMPT_CUT_LINES == 0);
		assert_true(first >= last); // never back while the cursor goes down
		moves += first != last;
		last = first;
		prompt_finish(&p);
	}
	assert_true(last > 2500 && moves <= 3000 / PROMPT_CUT_LINES + 1);
	print_message("%d cuts in 3000 lines\n", moves);
	snapshot_unref(s);
	free(text);
}

static void test_tight_budgets(void **state) {
	(void)state;
	char *text = numbered(300, "\n");
	struct snapshot *s = snapshot_create(text, strlen(text), false);
	for (int budget = 15; budget < 700; budget += 7)
		for (int line = 100; line < 300; line += 13)
			for (int fim = 0; fim < 2; fim++) {
				char needle[32];
				snprintf(needle, sizeof needle, "line_%d", line);
				struct prompt p;
				struct prompt_options o = {.budget_tokens = budget, .has_fim = fim};
				build(s, (size_t)(strstr(text, needle) - text) + strlen(needle), &o, &p);
				check_budget(&p, budget);
				if (budget > 100)
					assert_true(p.text_bytes >= 100); // the budget is used
				prompt_finish(&p);
			}
	snapshot_unref(s);
	free(text);
}

// One line of 10 MB with characters of four bytes: the nearest part, whole characters, no walk over the file.
static void test_huge_line(void **state) {
	(void)state;
	size_t n = 10u << 20;
	char *text = malloc(n);
	assert_non_null(text);
	for (size_t i = 0; i < n; i += 8)
		memcpy(text + i, i % 64 ? "abc(\xf0\x9f\x98\x80" : "abc( de ", 8);
	struct snapshot *s = snapshot_create(text, n, false);
	for (size_t at = 0; at <= n; at += n / 16) {
		for (int fim = 0; fim < 2; fim++) {
			struct prompt p;
			struct prompt_options o = {.budget_tokens = 500, .has_fim = fim};
			build(s, at, &o, &p);
			check_budget(&p, 500);
			assert_true(p.text_bytes >= 400 || at == 0 || (fim && at == n));
			assert_true(strlen(p.before) <= PROMPT_LINE_BYTES + 3 && utf8_valid(p.before, strlen(p.before)));
			assert_true(strlen(p.rest) <= PROMPT_LINE_BYTES && utf8_valid(p.rest, strlen(p.rest)));
			prompt_finish(&p);
		}
	}
	snapshot_unref(s);
	free(text);
}

struct extent_case {
	const char *marked; // cursor at $
	bool single_line;
	int block_indent;
};

static const struct extent_case EXTENTS[] = {
	{"def f():\n    $", false, 4}, {"def f():$\n", false, 4}, {"def f():\n    $\n\nx = 1\n", false, 4}, {"def f():\n    \"\"\"Doc.\"\"\"\n    $\n", false, 4},
	{"class A:\n\tdef f(self):\n\t\t$", false, 2}, {"def f():\n    retu$", true, 0}, {"def f():\n    return $\n", true, 0}, {"x = $", true, 0}, {"", true, 0},
	{"def f():\n    $return 1\n", true, 0}, {"def f($):\n", true, 0}, {"def f():\n    x = 1\n    $\n", true, 0}, {"def f():\n    \"\"\"Doc $\n", true, 0},
	{"foo($)\n", true, 0}, {"if x:  # why $\n", true, 0},
};

static void test_extent(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof EXTENTS / sizeof *EXTENTS; i++)
		for (int python = 0; python < 2; python++) {
			char text[200];
			const char *mark = strchr(EXTENTS[i].marked, '$');
			size_t at = mark ? (size_t)(mark - EXTENTS[i].marked) : 0;
			snprintf(text, sizeof text, "%.*s%s", (int)at, EXTENTS[i].marked, mark ? mark + 1 : "");
			struct snapshot *s = snapshot_create(text, strlen(text), python);
			struct prompt p;
			build(s, at, &FIM, &p);
			if (python && p.single_line != EXTENTS[i].single_line)
				print_error("%s\n", EXTENTS[i].marked);
			assert_int_equal(p.single_line, !python || EXTENTS[i].single_line);
			assert_int_equal(p.block_indent, python ? EXTENTS[i].block_indent : 0);
			prompt_finish(&p);
			snapshot_unref(s);
		}
}

// The same text, reached by edits or opened at once, gives the same prompt.
static void test_pure(void **state) {
	(void)state;
	char *text = numbered(2000, "\n");
	struct document *d;
	assert_int_equal(document_create("", 0, true, 1, &d, NULL), ERR_OK);
	for (size_t done = 0, n; done < strlen(text); done += n) {
		n = strlen(text) - done < 777 ? strlen(text) - done : 777;
		assert_int_equal(document_edit(d, (struct position){UINT32_MAX, 0}, (struct position){UINT32_MAX, 0}, POS_UTF16, text + done, n), ERR_OK);
	}
	struct snapshot *s = document_snapshot(d), *t = snapshot_create(text, strlen(text), true);
	for (size_t at = 0; at < strlen(text); at += 991) {
		struct prompt p, q;
		build(s, at, &FIM, &p);
		build(t, at, &FIM, &q);
		assert_int_equal(p.text_bytes, q.text_bytes);
		assert_memory_equal(p.text, q.text, p.text_bytes);
		assert_int_equal(p.n_segments, q.n_segments);
		assert_memory_equal(p.segments, q.segments, sizeof p.segments);
		assert_string_equal(p.healed, q.healed);
		prompt_finish(&p);
		prompt_finish(&q);
	}
	snapshot_unref(s);
	snapshot_unref(t);
	document_destroy(d);
	free(text);
}

// The file's own prompt begins as all prompts with that cut do, and fits. `whole`: it is the file.
static void check_file_prompt(const char *text, bool whole) {
	struct snapshot *s = snapshot_create(text, strlen(text), false);
	size_t n = strlen(text);
	for (size_t at = 0; at < n; at += n / 37) {
		struct counted c = {0};
		struct prompt file, p;
		assert_int_equal(prompt_build_file(s, at, 0, &FIM, count_tokens, &c, &file, NULL), ERR_OK);
		build(s, at, &FIM, &p);
		check_budget(&file, FIM.budget_tokens);
		char *all = part(&file, PROMPT_FIM_PREFIX), *prefix = part(&p, PROMPT_FIM_PREFIX);
		assert_memory_equal(all, prefix, strlen(prefix));
		if (whole)
			assert_string_equal(all, text);
		else
			assert_true(count_tokens(&c, all, strlen(all)) > (size_t)FIM.budget_tokens / 3 || at > n / 2);
		free(all);
		free(prefix);
		prompt_finish(&file);
		prompt_finish(&p);
	}
	snapshot_unref(s);
}

// As far as ahead_lines behind the cursor, to the next anchor.
static void check_file_ahead(const char *text, uint32_t ahead_lines) {
	struct snapshot *s = snapshot_create(text, strlen(text), false);
	for (size_t at = 0; at < strlen(text); at += strlen(text) / 23) {
		struct counted c = {0};
		struct prompt all, near;
		assert_int_equal(prompt_build_file(s, at, 0, &FIM, count_tokens, &c, &all, NULL), ERR_OK);
		assert_int_equal(prompt_build_file(s, at, ahead_lines, &FIM, count_tokens, &c, &near, NULL), ERR_OK);
		char *whole = part(&all, PROMPT_FIM_PREFIX), *some = part(&near, PROMPT_FIM_PREFIX);
		assert_memory_equal(whole, some, strlen(some));
		uint32_t last = (snapshot_line_of(s, at) + ahead_lines) / PROMPT_ANCHOR_LINES * PROMPT_ANCHOR_LINES + PROMPT_ANCHOR_LINES;
		size_t begin = (size_t)(strstr(text, some) - text), end = last < snapshot_lines(s) ? snapshot_line_start(s, last) : strlen(text);
		assert_int_equal(strlen(some), end - begin < strlen(whole) ? end - begin : strlen(whole));
		free(whole);
		free(some);
		prompt_finish(&all);
		prompt_finish(&near);
	}
	snapshot_unref(s);
}

// Another anchor and suffix than the default.
static void test_other_layout(void **state) {
	(void)state;
	char *text = numbered(200, "\n");
	struct snapshot *s = snapshot_create(text, strlen(text), false);
	for (uint32_t line = 0; line < 190; line += 7) {
		struct prompt_options o = FIM;
		struct prompt p;
		o.budget_tokens = 100000;
		o.layout = (struct prompt_layout){.anchor_lines = 8, .suffix_lines = 4};
		build(s, snapshot_line_start(s, line), &o, &p);
		char *prefix = part(&p, PROMPT_FIM_PREFIX), *suffix = part(&p, PROMPT_FIM_SUFFIX);
		assert_int_equal(strlen(prefix), snapshot_line_start(s, line / 8 * 8));
		assert_int_equal(strlen(suffix), snapshot_line_end(s, line + 4) - snapshot_line_start(s, line));
		free(prefix);
		free(suffix);
		prompt_finish(&p);
	}
	snapshot_unref(s);
	free(text);
}

static void test_file_prompt(void **state) {
	(void)state;
	char *text = numbered(200, "\n"), *large = numbered(3000, "\n");
	check_file_prompt(text, true);
	check_file_prompt(large, false);
	check_file_ahead(text, 60);
	check_file_ahead(large, 20);
	free(text);
	free(large);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_healing), cmocka_unit_test(test_long_runs_are_not_healed), cmocka_unit_test(test_layout), cmocka_unit_test(test_edges_of_the_text),
		cmocka_unit_test(test_crlf), cmocka_unit_test(test_budget_cuts_in_coarse_steps), cmocka_unit_test(test_tight_budgets), cmocka_unit_test(test_huge_line),
		cmocka_unit_test(test_extent), cmocka_unit_test(test_file_prompt), cmocka_unit_test(test_other_layout), cmocka_unit_test(test_pure),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
