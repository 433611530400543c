// SPDX-License-Identifier: MIT
// R7, R13, R15, R16, R18: classification of messages and the form of answers.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lsp/rpc.h"

static struct rpc_message parse(const char *text) {
	struct rpc_message m;
	char *copy = strdup(text);
	rpc_parse(copy, strlen(copy), &m);
	free(copy);
	return m;
}

static void expect_kind(const char *text, enum rpc_kind kind, int code) {
	struct rpc_message m = parse(text);
	assert_int_equal(m.kind, kind);
	assert_int_equal(m.code, code);
	assert_int_equal(kind == RPC_INVALID, m.msg.text[0] != 0);
	rpc_message_finish(&m);
}

static void kinds(void **state) {
	(void)state;
	expect_kind("{\"id\":1,\"method\":\"a\"}", RPC_REQUEST, 0);
	expect_kind("{\"method\":\"a\",\"params\":null}", RPC_NOTIFICATION, 0);
	expect_kind("{\"id\":1,\"result\":null}", RPC_RESPONSE, 0);
	expect_kind("{\"id\":1,\"error\":{}}", RPC_RESPONSE, 0);
	expect_kind("{\"id\":\"m\"}", RPC_INVALID, RPC_INVALID_REQUEST);
	expect_kind("{\"id\":null,\"method\":\"a\"}", RPC_INVALID, RPC_INVALID_REQUEST);
	expect_kind("{\"id\":1.5,\"method\":\"a\"}", RPC_INVALID, RPC_INVALID_REQUEST);
	expect_kind("{\"id\":[],\"method\":\"a\"}", RPC_INVALID, RPC_INVALID_REQUEST);
	expect_kind("{\"id\":1,\"method\":5}", RPC_INVALID, RPC_INVALID_REQUEST);
	expect_kind("[]", RPC_INVALID, RPC_INVALID_REQUEST);
	expect_kind("42", RPC_INVALID, RPC_INVALID_REQUEST);
	expect_kind("null", RPC_INVALID, RPC_INVALID_REQUEST);
	expect_kind("", RPC_INVALID, RPC_PARSE_ERROR);
	expect_kind("{\"id\":1,\"method\":", RPC_INVALID, RPC_PARSE_ERROR);
	expect_kind("{\"id\":1}{}", RPC_INVALID, RPC_PARSE_ERROR);
}

static void invalid_keeps_a_usable_id(void **state) {
	(void)state;
	struct rpc_message m = parse("{\"id\":\"x\",\"method\":5}");
	assert_string_equal(json_string_value(m.id), "x");
	rpc_message_finish(&m);
	m = parse("{\"id\":99999999999999999999999999999999999999999,\"method\":\"a\"}");
	assert_int_equal(m.kind, RPC_INVALID);
	assert_null(m.id);
	rpc_message_finish(&m);
}

static void params_forms(void **state) {
	(void)state;
	const struct { const char *text; bool there, bad; } cases[] = {
		{"{\"method\":\"a\"}", false, false}, {"{\"method\":\"a\",\"params\":null}", false, false}, {"{\"method\":\"a\",\"params\":{}}", true, false},
		{"{\"method\":\"a\",\"params\":[]}", true, false}, {"{\"method\":\"a\",\"params\":5}", false, true}, {"{\"method\":\"a\",\"params\":\"\"}", false, true},
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct rpc_message m = parse(cases[i].text);
		assert_int_equal(m.params != NULL, cases[i].there);
		assert_int_equal(m.bad_params, cases[i].bad);
		rpc_message_finish(&m);
	}
}

// The id in an answer is the id of the request: same type, same bytes.
static void ids_are_echoed(void **state) {
	(void)state;
	const char *ids[] = {"1", "0", "-1", "2147483647", "-2147483648", "9007199254740993", "\"1\"", "\"\"", "\"{9a-b}\"", "\"\\u00e9\xf0\x9f\x98\x80\"", "\"a\\u0000b\""};
	for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
		struct buf text = {0};
		buf_appendf(&text, "{\"id\":%s,\"method\":\"a\"}", ids[i]);
		struct rpc_message m;
		rpc_parse(text.data, text.len_bytes, &m);
		assert_int_equal(m.kind, RPC_REQUEST);
		json_t *answer = rpc_result(m.id, NULL);
		assert_true(json_equal(json_object_get(answer, "id"), m.id));
		char *dump = json_dumps(answer, JSON_COMPACT);
		json_t *back = json_loads(dump, JSON_ALLOW_NUL, NULL);
		assert_true(json_equal(json_object_get(back, "id"), m.id));
		json_decref(back);
		free(dump);
		json_decref(answer);
		rpc_message_finish(&m);
		buf_finish(&text);
	}
}

static void answers_have_one_of_result_and_error(void **state) {
	(void)state;
	json_t *id = json_integer(3), *result = rpc_result(id, NULL), *error = rpc_error(NULL, RPC_PARSE_ERROR, "no");
	assert_true(json_is_null(json_object_get(result, "result")));
	assert_null(json_object_get(result, "error"));
	assert_int_equal(json_object_size(result), 3);
	assert_null(json_object_get(error, "result"));
	assert_true(json_is_null(json_object_get(error, "id")));
	assert_int_equal(json_integer_value(json_object_get(json_object_get(error, "error"), "code")), -32700);
	assert_int_equal(json_object_size(error), 3);
	json_decref(id);
	json_decref(result);
	json_decref(error);
}

static void depth_is_refused(void **state) {
	(void)state;
	size_t n = 200000;
	char *text = malloc(n);
	memset(text, '[', n / 2);
	memset(text + n / 2, ']', n / 2);
	struct rpc_message m;
	rpc_parse(text, n, &m);
	assert_int_equal(m.code, RPC_PARSE_ERROR);
	rpc_message_finish(&m);
	free(text);
}

// The text of a parse error names a place and quotes nothing.
static void parse_errors_quote_nothing(void **state) {
	(void)state;
	struct rpc_message m = parse("{\"text\": \"secret\" secret}");
	assert_int_equal(m.code, RPC_PARSE_ERROR);
	assert_null(strstr(m.msg.text, "secret"));
	rpc_message_finish(&m);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kinds), cmocka_unit_test(invalid_keeps_a_usable_id), cmocka_unit_test(params_forms), cmocka_unit_test(ids_are_echoed),
		cmocka_unit_test(answers_have_one_of_result_and_error), cmocka_unit_test(depth_is_refused), cmocka_unit_test(parse_errors_quote_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
