// SPDX-License-Identifier: MIT
// The growing buffer: contents, terminator, JSON strings, refused sizes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"

static void test_append(void **state) {
	(void)state;
	struct buf b = {0};
	char expected[3000] = "";
	for (int i = 0; i < 300; i++) {
		buf_append_str(&b, "ab");
		buf_append_char(&b, 'c');
		buf_appendf(&b, "%d,", i % 10);
		snprintf(expected + strlen(expected), sizeof expected - strlen(expected), "abc%d,", i % 10);
		assert_int_equal(b.len_bytes, strlen(expected));
		assert_string_equal(b.data, expected);
	}
	assert_false(b.failed);
	buf_clear(&b);
	assert_int_equal(b.len_bytes, 0);
	assert_string_equal(b.data, "");
	buf_finish(&b);
	assert_null(b.data);
}

static void test_zero_bytes_and_empty(void **state) {
	(void)state;
	struct buf b = {0};
	buf_append(&b, NULL, 0);
	assert_int_equal(b.len_bytes, 0);
	assert_int_equal(b.data[0], 0);
	buf_append(&b, "a\0b", 3);
	assert_int_equal(b.len_bytes, 3);
	assert_memory_equal(b.data, "a\0b", 4);
	buf_finish(&b);
}

// A long formatted text needs more room than the buffer has.
static void test_long_format(void **state) {
	(void)state;
	struct buf b = {0};
	buf_appendf(&b, "%0500d|%s", 7, "end");
	assert_int_equal(b.len_bytes, 504);
	assert_string_equal(b.data + 498, "07|end");
	buf_finish(&b);
}

static void test_consume(void **state) {
	(void)state;
	struct buf b = {0};
	buf_consume(&b, 5);
	buf_append_str(&b, "hello");
	buf_consume(&b, 2);
	assert_string_equal(b.data, "llo");
	buf_consume(&b, 0);
	assert_string_equal(b.data, "llo");
	buf_consume(&b, 99);
	assert_string_equal(b.data, "");
	assert_int_equal(b.len_bytes, 0);
	buf_finish(&b);
}

static void test_refuses_absurd_sizes(void **state) {
	(void)state;
	struct buf b = {0};
	buf_append_str(&b, "x");
	assert_false(buf_reserve(&b, SIZE_MAX));
	assert_true(b.failed);
	assert_false(buf_reserve(&b, SIZE_MAX / 2));
	assert_string_equal(b.data, "x");
	buf_clear(&b);
	assert_false(b.failed);
	buf_finish(&b);
}

static void test_json(void **state) {
	(void)state;
	static const struct {
		const char *text;
		size_t n_bytes;
		const char *json;
	} cases[] = {
		{"", 0, "\"\""},
		{"a\"b\\c", 5, "\"a\\\"b\\\\c\""},
		{"\n\r\t\x01\x1f\0\x7f", 7, "\"\\n\\r\\t\\u0001\\u001f\\u0000\\u007f\""},
		{"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", 9, "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\""},
		{"a\xff\xc3", 3, "\"a\xef\xbf\xbd\xef\xbf\xbd\""},
		{"\xed\xa0\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""}, // a surrogate
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct buf b = {0};
		buf_append_json(&b, cases[i].text, cases[i].n_bytes);
		assert_string_equal(b.data, cases[i].json);
		buf_finish(&b);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_append), cmocka_unit_test(test_zero_bytes_and_empty), cmocka_unit_test(test_long_format),
		cmocka_unit_test(test_consume), cmocka_unit_test(test_refuses_absurd_sizes), cmocka_unit_test(test_json)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
