// SPDX-License-Identifier: MIT
// R49, R50: spellings of one document meet, different documents do not.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lsp/uri.h"

static struct buf key(const char *uri) {
	struct buf b = {0};
	uri_key(uri, strlen(uri), &b);
	buf_append_char(&b, 0);
	return b;
}

static bool same(const char *a, const char *b) {
	struct buf x = key(a), y = key(b);
	bool equal = x.len_bytes == y.len_bytes && !memcmp(x.data, y.data, x.len_bytes);
	buf_finish(&x);
	buf_finish(&y);
	return equal;
}

static void spellings_meet(void **state) {
	(void)state;
	assert_true(same("file:///c%3A/a.py", "file:///c:/a.py"));
	assert_true(same("file:///C:/a.py", "file:///c%3a/a.py"));
	assert_true(same("FILE:///a.py", "file:///a.py"));
	assert_true(same("file:///%61.py", "file:///a.py"));
	assert_true(same("file:///a%20b.py", "file:///a b.py"));
	assert_true(same("file:///%C3%A9.py", "file:///\xc3\xa9.py"));
	assert_true(same("file:///%c3%a9.py", "file:///%C3%A9.py"));
	assert_true(same("file:///a%2fb", "file:///a%2Fb"));
	assert_true(same("untitled:Untitled-1", "untitled:Untitled%2D1"));
}

static void documents_differ(void **state) {
	(void)state;
	assert_false(same("file:///a.py", "file:///A.py"));
	assert_false(same("file:///a+b.py", "file:///a%20b.py"));
	assert_false(same("file:///a%2Fb", "file:///a/b"));
	assert_false(same("file:///a%2541", "file:///a%41"));
	assert_false(same("file:///a%00", "file:///a"));
	assert_false(same("file:///d:/a.py", "file:///c:/a.py"));
	assert_false(same("untitled:a", "file:a"));
	assert_false(same("file://", "file:///"));
}

static void any_bytes_are_taken(void **state) {
	(void)state;
	const char *odd[] = {"", "%", "%4", "%zz", "://", "file://", "1:x", "\xff\xfe", "%%%", "buffer:3", "unsaved://x"};
	for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
		struct buf b = key(odd[i]);
		assert_false(b.failed);
		buf_finish(&b);
	}
}

static void python_by_name(void **state) {
	(void)state;
	assert_true(uri_is_python("file:///a.py", 12));
	assert_true(uri_is_python("file:///a.PYI", 13));
	assert_false(uri_is_python("file:///a.pyx", 13));
	assert_false(uri_is_python("", 0));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spellings_meet), cmocka_unit_test(documents_differ), cmocka_unit_test(any_bytes_are_taken), cmocka_unit_test(python_by_name),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
