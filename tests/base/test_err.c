// SPDX-License-Identifier: MIT
// Error messages: text, prefixes, cutting, names.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"

static void test_set_and_prefix(void **state) {
	(void)state;
	struct err_msg msg;
	assert_int_equal(err_set(&msg, ERR_FORMAT, "bad %s %d", "field", 7), ERR_FORMAT);
	assert_string_equal(msg.text, "bad field 7");
	assert_int_equal(err_prefix(&msg, ERR_IO, "file %s", "x"), ERR_IO);
	assert_string_equal(msg.text, "file x: bad field 7");
	assert_int_equal(err_set(NULL, ERR_LIMIT, "%d", 1), ERR_LIMIT);
	assert_int_equal(err_prefix(NULL, ERR_LIMIT, "%d", 1), ERR_LIMIT);
}

// Too long: cut at the end, always terminated.
static void test_cut(void **state) {
	(void)state;
	char text[2000];
	memset(text, 'y', sizeof text);
	text[sizeof text - 1] = 0;
	struct err_msg msg;
	for (size_t n = 490; n < 530; n++) {
		err_set(&msg, ERR_IO, "%s", "old text");
		err_prefix(&msg, ERR_IO, "%.*s", (int)n, text);
		size_t len = strlen(msg.text);
		assert_true(len < sizeof msg.text);
		assert_int_equal(len, n + 10 < sizeof msg.text ? n + 10 : sizeof msg.text - 1);
	}
	err_set(&msg, ERR_IO, "%s", text);
	err_prefix(&msg, ERR_IO, "name");
	assert_memory_equal(msg.text, "name: yyy", 9);
	assert_true(strlen(msg.text) > 490 && strlen(msg.text) < sizeof msg.text);
}

static void test_names(void **state) {
	(void)state;
	for (int i = ERR_OK; i >= ERR_STATE; i--)
		for (int j = i - 1; j >= ERR_STATE; j--)
			assert_string_not_equal(err_name((enum err)i), err_name((enum err)j));
	assert_string_equal(err_name(ERR_CANCELLED), "cancelled");
	assert_string_equal(err_name((enum err)-99), "unknown");
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_set_and_prefix), cmocka_unit_test(test_cut),
	                                   cmocka_unit_test(test_names)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
