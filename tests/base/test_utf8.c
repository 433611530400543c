// SPDX-License-Identifier: MIT
// UTF-8: every code point round trips, everything RFC 3629 forbids is refused.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/utf8.h"

static void test_round_trip(void **state) {
	(void)state;
	for (uint32_t c = 0; c <= 0x10ffff; c++) {
		char text[4];
		size_t n = utf8_encode(c, text);
		uint32_t back = 0;
		if (c >= 0xd800 && c < 0xe000) {
			assert_int_equal(utf8_sequence(text, n), 0);
			continue;
		}
		assert_int_equal(n, c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4);
		assert_int_equal(utf8_decode(text, n, &back), n);
		assert_int_equal(back, c);
		for (size_t cut = 0; cut < n; cut++)
			assert_int_equal(utf8_sequence(text, cut), 0);
	}
}

// Exactly the shortest forms are accepted: of all byte strings of up to three bytes as many as there are code points.
static void test_counts(void **state) {
	(void)state;
	size_t n_of_length[4] = {0};
	for (uint32_t u = 0; u < 1u << 24; u++) {
		char text[3] = {(char)(u >> 16), (char)(u >> 8), (char)u};
		size_t n = utf8_sequence(text, 3);
		n_of_length[n]++;
		if (n == 1)
			u |= 0xffff; // the rest doesn't matter
	}
	assert_int_equal(n_of_length[1], 0x80);
	assert_int_equal(n_of_length[2], (0x800 - 0x80) * 256);
	assert_int_equal(n_of_length[3], 0x10000 - 0x800 - 0x800);
}

static void test_four_bytes(void **state) {
	(void)state;
	static const char *const bad[] = {
		"\xf0\x8f\xbf\xbf", // overlong
		"\xf4\x90\x80\x80", // above U+10FFFF
		"\xf5\x80\x80\x80", "\xf8\x88\x80\x80", "\xff\xff\xff\xff", "\xf0\x9f\x98\x41", "\xf0\x9f\x41\x80", "\xf0\x41\x98\x80",
		"\x80\x80\x80\x80", "\xc0\x80\x80\x80", "\xc1\xbf\x80\x80",
	};
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		uint32_t c = 12345;
		assert_int_equal(utf8_decode(bad[i], 4, &c), 0);
		assert_int_equal(c, 12345);
	}
}

static void test_valid(void **state) {
	(void)state;
	assert_true(utf8_valid("", 0));
	assert_true(utf8_valid("a\0\xc3\xa4", 4));
	assert_false(utf8_valid("a\xc3", 2));
	assert_false(utf8_valid("\xc3\xa4\x80", 3));
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_round_trip), cmocka_unit_test(test_counts),
	                                   cmocka_unit_test(test_four_bytes), cmocka_unit_test(test_valid)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
