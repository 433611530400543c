// SPDX-License-Identifier: MIT
// R19, R26, R34: fields are named in errors, odd numbers are understood, the client's encodings are honoured.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "lsp/protocol.h"

static json_t *load(const char *text) {
	json_t *j = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
	assert_non_null(j);
	return j;
}

static void expect_position(const char *text, enum err want, uint32_t line, uint32_t character) {
	json_t *j = load(text);
	struct position p = {77, 77};
	struct err_msg msg;
	assert_int_equal(protocol_read_position(j, "position", &p, &msg), want);
	if (want)
		assert_non_null(strstr(msg.text, "position"));
	else
		assert_true(p.line == line && p.character == character);
	json_decref(j);
}

static void positions(void **state) {
	(void)state;
	expect_position("{\"line\":1,\"character\":2}", ERR_OK, 1, 2);
	expect_position("{\"line\":1.0,\"character\":2.0}", ERR_OK, 1, 2);
	expect_position("{\"line\":2147483647,\"character\":4294967296}", ERR_OK, 2147483647, UINT32_MAX);
	expect_position("{\"line\":1e300,\"character\":0}", ERR_OK, UINT32_MAX, 0);
	expect_position("{\"line\":-1,\"character\":0}", ERR_ARG, 0, 0);
	expect_position("{\"line\":0,\"character\":0.5}", ERR_ARG, 0, 0);
	expect_position("{\"line\":\"0\",\"character\":0}", ERR_ARG, 0, 0);
	expect_position("{\"line\":0}", ERR_ARG, 0, 0);
	expect_position("null", ERR_ARG, 0, 0);
	expect_position("[]", ERR_ARG, 0, 0);
}

static void expect_field(const char *params, const char *field) {
	json_t *j = load(params);
	struct completion_params p;
	struct err_msg msg = {0};
	assert_int_equal(protocol_read_inline_completion(j, &p, &msg), field ? ERR_ARG : ERR_OK);
	if (field)
		assert_non_null(strstr(msg.text, field));
	json_decref(j);
}

#define PLACE "\"textDocument\":{\"uri\":\"u\"},\"position\":{\"line\":0,\"character\":0}"

static void wrong_fields_are_named(void **state) {
	(void)state;
	expect_field("{" PLACE "}", NULL);
	expect_field("{" PLACE ",\"context\":null}", NULL);
	expect_field("{" PLACE ",\"context\":{}}", NULL);
	expect_field("[]", "params");
	expect_field("{}", "textDocument");
	expect_field("{\"textDocument\":5}", "textDocument");
	expect_field("{\"textDocument\":{\"uri\":5}}", "textDocument.uri");
	expect_field("{\"textDocument\":{\"uri\":\"u\"}}", "position");
	expect_field("{\"textDocument\":{\"uri\":\"u\"},\"position\":{\"line\":0,\"character\":[]}}", "position.character");
	expect_field("{" PLACE ",\"context\":5}", "context");
	expect_field("{" PLACE ",\"context\":{\"triggerKind\":\"x\"}}", "context.triggerKind");
	expect_field("{" PLACE ",\"context\":{\"selectedCompletionInfo\":{\"text\":\"a\"}}}", "selectedCompletionInfo.range");
	expect_field("{" PLACE ",\"context\":{\"selectedCompletionInfo\":{\"text\":1,\"range\":{\"start\":{\"line\":0,\"character\":0},"
		"\"end\":{\"line\":0,\"character\":0}}}}}", "selectedCompletionInfo.text");
}

static int trigger(const char *context) {
	struct buf b = {0};
	buf_appendf(&b, "{" PLACE ",\"context\":%s}", context);
	json_t *j = load(b.data);
	struct completion_params p;
	assert_int_equal(protocol_read_inline_completion(j, &p, NULL), ERR_OK);
	json_decref(j);
	buf_finish(&b);
	return p.trigger_kind;
}

static void trigger_kinds(void **state) {
	(void)state;
	assert_int_equal(trigger("{\"triggerKind\":1}"), 1);
	assert_int_equal(trigger("{\"triggerKind\":2}"), 2);
	assert_int_equal(trigger("{\"triggerKind\":99}"), 2);
	assert_int_equal(trigger("null"), 2);
}

static struct client_info client(const char *params) {
	json_t *j = load(params);
	struct client_info c;
	protocol_read_client(j, &c);
	json_decref(j);
	return c;
}

#define ENCODINGS(list) "{\"capabilities\":{\"general\":{\"positionEncodings\":" list "}}}"

static void encodings(void **state) {
	(void)state;
	assert_int_equal(client(ENCODINGS("[\"utf-8\",\"utf-16\"]")).encoding, POS_UTF8);
	assert_int_equal(client(ENCODINGS("[\"utf-32\",\"utf-8\"]")).encoding, POS_UTF32);
	assert_int_equal(client(ENCODINGS("[\"utf-7\",5,\"utf-32\"]")).encoding, POS_UTF32);
	assert_int_equal(client(ENCODINGS("[\"utf-7\"]")).encoding, POS_UTF16);
	assert_int_equal(client(ENCODINGS("[]")).encoding, POS_UTF16);
	assert_int_equal(client(ENCODINGS("\"utf-8\"")).encoding, POS_UTF16);
	assert_int_equal(client("{\"capabilities\":{}}").encoding, POS_UTF16);
}

static void odd_initialize_params(void **state) {
	(void)state;
	const char *odd[] = {"null", "{}", "[]", "{\"processId\":null}", "{\"processId\":\"x\",\"capabilities\":5}", "{\"capabilities\":{\"window\":true}}"};
	for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
		struct client_info c = client(odd[i]);
		assert_int_equal(c.process_id, 0);
		assert_false(c.configuration || c.progress || c.as_is_insertion);
	}
	struct client_info c = client("{\"processId\":7,\"capabilities\":{\"workspace\":{\"configuration\":true},\"window\":{\"workDoneProgress\":true},"
		"\"textDocument\":{\"completion\":{\"completionItem\":{\"insertTextModeSupport\":{\"valueSet\":[2,1]}}}}}}");
	assert_int_equal(c.process_id, 7);
	assert_true(c.configuration && c.progress && c.as_is_insertion);
}

static void changes(void **state) {
	(void)state;
	struct text_change c;
	struct err_msg msg;
	json_t *j = load("{\"text\":\"a\\u0000b\",\"rangeLength\":-5,\"range\":{\"start\":{\"line\":0,\"character\":1},\"end\":{\"line\":2,\"character\":3}}}");
	assert_int_equal(protocol_read_change(j, 0, &c, &msg), ERR_OK);
	assert_true(c.has_range && c.range.end.line == 2 && c.text.n_bytes == 3 && !memcmp(c.text.text, "a\0b", 3));
	json_decref(j);
	j = load("{\"text\":\"\",\"range\":null}");
	assert_int_equal(protocol_read_change(j, 0, &c, &msg), ERR_OK);
	assert_false(c.has_range);
	json_decref(j);
	j = load("{\"range\":{}}");
	assert_int_equal(protocol_read_change(j, 3, &c, &msg), ERR_ARG);
	assert_non_null(strstr(msg.text, "contentChanges[3]"));
	json_decref(j);
}

static void versions(void **state) {
	(void)state;
	json_t *j = json_real(1e300);
	assert_int_equal(protocol_version(j), INT64_MAX);
	json_decref(j);
	assert_int_equal(protocol_version(NULL), 0);
	j = json_real(5.0);
	assert_int_equal(protocol_version(j), 5);
	json_decref(j);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(positions), cmocka_unit_test(wrong_fields_are_named), cmocka_unit_test(trigger_kinds), cmocka_unit_test(encodings),
		cmocka_unit_test(odd_initialize_params), cmocka_unit_test(changes), cmocka_unit_test(versions),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
