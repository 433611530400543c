// SPDX-License-Identifier: MIT
// R14 on the pre-pass: what jansson refuses is mended, nothing else changes, the length stays.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/buf.h"
#include "lsp/prepass.h"

// Mends a copy (without a zero behind it, so that the sanitizer sees a read too far) and compares.
static void expect_bytes(const char *in, size_t n, const char *want) {
	char *copy = malloc(n ? n : 1);
	memcpy(copy, in, n);
	size_t changes = prepass_mend(copy, n);
	assert_memory_equal(copy, want, n);
	assert_int_equal(changes == 0, !memcmp(in, want, n));
	free(copy);
}

static void expect(const char *in, const char *want) {
	assert_int_equal(strlen(in), strlen(want));
	expect_bytes(in, strlen(in), want);
}

static void surrogates(void **state) {
	(void)state;
	expect("{\"a\":\"\\ud83d\\ude00\"}", "{\"a\":\"\\ud83d\\ude00\"}");
	expect("\"\\ud83d\"", "\"\\ufffd\"");
	expect("\"\\uDE00\\uD83D\"", "\"\\ufffd\\ufffd\"");
	expect("\"\\ud83d\\ud83d\\ude00\"", "\"\\ufffd\\ud83d\\ude00\"");
	expect("\"\\ud83dx\\ude00\"", "\"\\ufffdx\\ufffd\"");
	expect("\"\\\\ud83d\"", "\"\\\\ud83d\""); // an escaped backslash, then letters
	expect("\"\\ud83d\\n\"", "\"\\ufffd\\n\"");
	expect("\"\xed\xa0\x80\"", "\"\xef\xbf\xbd\"");
}

static void invalid_utf8(void **state) {
	(void)state;
	expect("\"\xff\xfe\"", "\"??\"");
	expect("\"\xc3\"", "\"?\"");
	expect("\"\xe2\x82\"", "\"??\"");
	expect("\"\xe2\x82\xac\xf0\x9f\x98\x80\"", "\"\xe2\x82\xac\xf0\x9f\x98\x80\"");
	expect("\"\xc0\x80\"", "\"??\"");
}

static void numbers(void **state) {
	(void)state;
	expect("[123456789012345678]", "[123456789012345678]");
	expect("[9999999999999999999]", "[99999999999999999e2]");
	expect("[-9999999999999999999]", "[-99999999999999999e2]");
	expect("[1e999,1.5,-2E400]", "[1e300,1.5,-1e300]");
	expect("\"9999999999999999999\"", "\"9999999999999999999\"");
	struct buf b = {0};
	buf_append_str(&b, "[0.");
	for (int i = 0; i < 400; i++)
		buf_append_char(&b, '1');
	buf_append_str(&b, "]");
	expect_bytes(b.data, b.len_bytes, b.data);
	buf_finish(&b);
}

// Whatever number comes, jansson takes the message.
static void any_number_is_accepted(void **state) {
	(void)state;
	for (int digits = 1; digits < 700; digits++) {
		struct buf b = {0};
		buf_append_str(&b, digits % 2 ? "[-" : "[");
		for (int i = 0; i < digits; i++)
			buf_append_char(&b, '9');
		buf_append_str(&b, "]");
		prepass_mend(b.data, b.len_bytes);
		json_t *j = json_loadb(b.data, b.len_bytes, 0, NULL);
		assert_non_null(j);
		assert_true(json_is_number(json_array_get(j, 0)));
		json_decref(j);
		buf_finish(&b);
	}
}

static void zero_characters(void **state) {
	(void)state;
	expect("{\"a\\u0000b\" : \"c\\u0000d\"}", "{\"a\\ufffdb\" : \"c\\u0000d\"}");
	expect("[\"c\\u0000\"]", "[\"c\\u0000\"]");
	expect("{\"\\\\u0000\": 1}", "{\"\\\\u0000\": 1}");
}

static void broken_text_is_left(void **state) {
	(void)state;
	const char *texts[] = {"", "\"", "\"\\", "\"\\u", "\"\\u12", "-", "\"\\ud83d", "\"\\ud83d\\u", "{\"a\": ", "tru"};
	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		char *copy = malloc(strlen(texts[i]) + 1);
		memcpy(copy, texts[i], strlen(texts[i]));
		prepass_mend(copy, strlen(texts[i])); // no read beyond: the sanitized run checks
		free(copy);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(surrogates), cmocka_unit_test(invalid_utf8), cmocka_unit_test(numbers), cmocka_unit_test(any_number_is_accepted),
		cmocka_unit_test(zero_characters), cmocka_unit_test(broken_text_is_left),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
