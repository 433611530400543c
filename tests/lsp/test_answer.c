// SPDX-License-Identifier: MIT
// R39, R62 to R64 on the items: ranges in the client's units on the cursor's line, covered text a prefix, nothing blank. Each case also applies the
// item to the document, as an editor would.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "lsp/answer.h"

struct asked {
	const char *before, *after; // the document, parted by the cursor
	const char *text;           // the suggestion
	size_t replace_bytes;
	enum pos_encoding encoding;
};

static struct snapshot *document(const struct asked *a) {
	struct buf b = {0};
	buf_append_str(&b, a->before);
	buf_append_str(&b, a->after);
	struct snapshot *s = snapshot_create(b.data ? b.data : "", b.len_bytes, false);
	buf_finish(&b);
	assert_non_null(s);
	return s;
}

static struct answer_place place(const struct asked *a, struct snapshot *s) {
	return (struct answer_place){.snapshot = s, .offset = strlen(a->before), .encoding = a->encoding};
}

static struct answer_text text(const struct asked *a) {
	return (struct answer_text){a->text, strlen(a->text), a->replace_bytes};
}

static struct lsp_range read_range(json_t *item) {
	struct lsp_range r;
	assert_int_equal(protocol_read_range(item, "range", &r, NULL), ERR_OK);
	return r;
}

// Checks the rules for a range and its text, and compares the edited document with `want`.
static void check_edit(const struct asked *a, struct snapshot *s, struct lsp_range r, const char *inserted, const char *filter, const char *want) {
	struct position cursor = snapshot_position(s, strlen(a->before), a->encoding);
	assert_int_equal(r.start.line, r.end.line);
	assert_int_equal(r.start.line, cursor.line);
	assert_true(r.start.character <= cursor.character && cursor.character <= r.end.character);
	size_t begin = snapshot_offset(s, r.start, a->encoding), end = snapshot_offset(s, r.end, a->encoding), n = snapshot_bytes(s);
	char *all = malloc(n + 1);
	snapshot_read(s, 0, n, all);
	all[n] = 0;
	assert_true(!strncmp(filter, all + begin, end - begin) || !strncmp(inserted, all + begin, end - begin));
	struct buf b = {0};
	buf_append(&b, all, begin);
	buf_append_str(&b, inserted);
	buf_append(&b, all + end, n - end);
	assert_string_equal(b.data, want);
	buf_finish(&b);
	free(all);
}

static const char *member(json_t *item, const char *key) {
	const char *v = json_string_value(json_object_get(item, key));
	return v ? v : "";
}

static void check_inline(const struct asked *a, const char *want) {
	struct snapshot *s = document(a);
	struct answer_place p = place(a, s);
	struct answer_text t = text(a);
	json_t *j = answer_inline(&p, &t), *item = json_array_get(json_object_get(j, "items"), 0);
	assert_non_null(item);
	const char *filter = member(item, "filterText"), *inserted = member(item, "insertText");
	check_edit(a, s, read_range(json_object_get(item, "range")), inserted, *filter ? filter : inserted, want);
	json_decref(j);
	snapshot_unref(s);
}

static void check_list(const struct asked *a, const char *label, const char *want) {
	struct snapshot *s = document(a);
	struct answer_place p = place(a, s);
	struct answer_text t = text(a);
	json_t *j = answer_list(&p, &t), *item = json_array_get(json_object_get(j, "items"), 0), *edit = json_object_get(item, "textEdit");
	assert_true(json_is_true(json_object_get(j, "isIncomplete")));
	assert_non_null(item);
	assert_string_equal(member(item, "label"), label);
	check_edit(a, s, read_range(json_object_get(edit, "range")), member(edit, "newText"), member(item, "filterText"), want);
	json_decref(j);
	snapshot_unref(s);
}

static void insertion(void **state) {
	(void)state;
	struct asked a = {"x = 1\nreturn ", "\nz", "a + b", 0, POS_UTF16};
	check_inline(&a, "x = 1\nreturn a + b\nz");
	check_list(&a, "a + b", "x = 1\nreturn a + b\nz");
}

static void word_at_cursor(void **state) {
	(void)state;
	struct asked a = {"s = 'é😀'; ret", "", "urn x\n    y", 0, POS_UTF8};
	for (int e = 0; e < 3; e++) {
		a.encoding = (enum pos_encoding)e;
		check_inline(&a, "s = 'é😀'; return x\n    y");
		check_list(&a, "return x", "s = 'é😀'; return x\n    y");
	}
}

static void closing_bracket_is_an_insertion(void **state) {
	(void)state;
	struct asked a = {"print(", ")", "a, b)", 1, POS_UTF16};
	check_inline(&a, "print(a, b)");
	check_list(&a, "a, b", "print(a, b)");
}

static void other_replacement_has_a_filter(void **state) {
	(void)state;
	struct asked a = {"f(😀", "x) # y", "ab", 1, POS_UTF16};
	check_inline(&a, "f(😀ab) # y");
	a.before = "f(wo";
	check_list(&a, "woab", "f(woab) # y");
}

static void replacement_stays_on_the_line(void **state) {
	(void)state;
	struct asked a = {"f(", "x\r\ny", "abc", 5, POS_UTF16};
	check_inline(&a, "f(abc\r\ny");
}

static void begins_with_a_line_end(void **state) {
	(void)state;
	struct asked a = {"if x:", "", "\r\n    pass", 0, POS_UTF16};
	check_inline(&a, "if x:\r\n    pass");
	check_list(&a, "pass", "if x:\r\n    pass");
}

static void nothing_to_show(void **state) {
	(void)state;
	const char *texts[] = {"", " ", "\n    \n", "\t\r\n", "\xff", ")"};
	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		struct asked a = {"x(", "))", texts[i], *texts[i] == ')', POS_UTF16};
		struct snapshot *s = document(&a);
		struct answer_place p = place(&a, s);
		struct answer_text t = text(&a);
		json_t *item = answer_inline(&p, &t), *list = answer_list(&p, &t);
		if (*texts[i] == ')') {
			json_decref(item); // replaces a bracket by the same: whatever is said, the document stays
		} else {
			assert_true(json_is_array(json_object_get(item, "items")) && json_array_size(json_object_get(item, "items")) == 0);
			json_decref(item);
			assert_int_equal(json_array_size(json_object_get(list, "items")), 0);
			assert_true(json_is_true(json_object_get(list, "isIncomplete")));
		}
		json_decref(list);
		snapshot_unref(s);
	}
}

static void selected_menu_item(void **state) {
	(void)state;
	struct asked a = {"os.pa", "", "th.join(a)", 0, POS_UTF16};
	struct snapshot *s = document(&a);
	struct answer_place p = place(&a, s);
	struct answer_text t = text(&a);
	p.has_selected = true;
	p.selected_range = (struct lsp_range){{0, 3}, {0, 5}};
	p.selected_text = (struct text_ref){"path", 4};
	json_t *j = answer_inline(&p, &t), *item = json_array_get(json_object_get(j, "items"), 0);
	assert_string_equal(member(item, "insertText"), "path.join(a)");
	struct lsp_range r = read_range(json_object_get(item, "range"));
	assert_true(r.start.character == 3 && r.end.character == 5);
	json_decref(j);
	p.selected_text = (struct text_ref){"pardir", 6};
	j = answer_inline(&p, &t);
	assert_true(json_is_array(json_object_get(j, "items")) && json_array_size(json_object_get(j, "items")) == 0);
	json_decref(j);
	snapshot_unref(s);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(insertion), cmocka_unit_test(word_at_cursor), cmocka_unit_test(closing_bracket_is_an_insertion),
		cmocka_unit_test(other_replacement_has_a_filter), cmocka_unit_test(replacement_stays_on_the_line), cmocka_unit_test(begins_with_a_line_end),
		cmocka_unit_test(nothing_to_show), cmocka_unit_test(selected_menu_item),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
