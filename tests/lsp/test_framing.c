// SPDX-License-Identifier: MIT
// R1 to R5 and R9 on the parser itself: cut anywhere, odd headers, broken headers, sizes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lsp/framing.h"

// Pushes a stream in pieces of `step` bytes; appends "body|" for each message, "!|" for refused ones; true if it is broken.
static bool feed(const char *stream, size_t n, size_t step, size_t max_body, struct buf *out) {
	struct framing f;
	struct frame frame;
	bool broken = false;
	framing_init(&f, max_body);
	for (size_t at = 0; at < n; at += step) {
		assert_int_equal(framing_push(&f, stream + at, n - at < step ? n - at : step), ERR_OK);
		enum framing_event e;
		while ((e = framing_next(&f, &frame)) == FRAMING_BODY || e == FRAMING_REFUSED) {
			if (e == FRAMING_BODY)
				buf_append(out, frame.body, frame.n_bytes);
			else
				buf_append_char(out, '!');
			buf_append_char(out, '|');
		}
		broken |= e == FRAMING_BROKEN;
		if (e == FRAMING_BROKEN)
			assert_true(frame.note.text[0]);
	}
	framing_finish(&f);
	return broken;
}

static void expect(const char *stream, const char *want, bool broken) {
	for (size_t step = 1; step <= strlen(stream); step++) {
		struct buf out = {0};
		assert_int_equal(feed(stream, strlen(stream), step, 1000, &out), broken);
		assert_string_equal(out.data ? out.data : "", want);
		buf_finish(&out);
	}
}

static void cut_anywhere(void **state) {
	(void)state;
	expect("Content-Length: 2\r\n\r\n{}Content-Length: 9\r\n\r\n{\"a\": 12}Content-Length: 0\r\n\r\nContent-Length: 3\r\n\r\n[1]", "{}|{\"a\": 12}||[1]|", false);
}

static void headers_in_any_form(void **state) {
	(void)state;
	expect("content-LENGTH:2\r\n\r\n{}", "{}|", false);
	expect("Content-Length \t:  \t2 \t\r\n\r\n{}", "{}|", false);
	expect("X-A: b:c\r\nContent-Length: 2\r\nContent-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\n{}", "{}|", false);
	expect("Content-Type: x; charset=utf-8\r\nContent-Length: 2\r\nX-Empty:\r\n\r\n{}", "{}|", false);
	expect("Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", "{}|", false);
	expect("Content-Length: 2\n\n{}", "{}|", false);
}

static void charsets(void **state) {
	(void)state;
	expect("Content-Type: a; charset=UTF8\r\nContent-Length: 2\r\n\r\n{}", "{}|", false);
	expect("Content-Type: a; CHARSET=\"Utf-8\"; x=y\r\nContent-Length: 2\r\n\r\n{}", "{}|", false);
	expect("Content-Type: a; charset=latin1\r\nContent-Length: 2\r\n\r\n{}Content-Length: 2\r\n\r\n[]", "!|[]|", false);
	expect("Content-Type: a; charset=utf-16\r\nContent-Length: 2\r\n\r\n{}", "!|", false);
}

static void broken_headers(void **state) {
	(void)state;
	expect("Content-Length: 2\r\n\r\n{}Content-Length: x\r\n\r\n{}Content-Length: 2\r\n\r\n{}", "{}|", true);
	expect("Content-Length: -5\r\n\r\n{}", "", true);
	expect("Content-Length: \r\n\r\n{}", "", true);
	expect("Content-Length: 2.0\r\n\r\n{}", "", true);
	expect("Content-Length: 99999999999999999999999\r\n\r\n{}", "", true);
	expect("Content-Length: 900000000000\r\n\r\n{}", "", true);
	expect("Content-Type: text/plain\r\n\r\n{}", "", true);
	expect("\r\n{}", "", true);
	expect("{\"jsonrpc\":\"2.0\"}\r\n\r\n", "", true);
	expect("Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", "", true);
}

static void endless_header(void **state) {
	(void)state;
	size_t n = FRAMING_MAX_HEADER_BYTES + 100;
	char *stream = malloc(n);
	memset(stream, 'A', n);
	struct buf out = {0};
	assert_true(feed(stream, n, 100, 1000, &out));
	assert_int_equal(out.len_bytes, 0);
	free(stream);
}

static void large_body_is_read_over(void **state) {
	(void)state;
	struct buf stream = {0};
	for (int i = 0; i < 3; i++) {
		buf_appendf(&stream, "Content-Length: %d\r\n\r\n%0*d", 2000 + i, 2000 + i, 7);
		buf_append_str(&stream, "Content-Length: 2\r\n\r\n{}");
	}
	for (size_t step = 1; step < stream.len_bytes; step += 37) {
		struct buf out = {0};
		assert_false(feed(stream.data, stream.len_bytes, step, 1999, &out));
		assert_string_equal(out.data, "!|{}|!|{}|!|{}|");
		buf_finish(&out);
	}
	buf_finish(&stream);
}

// A header alone must not make us allocate what it announces, and a large body must not be kept when it is refused.
static void memory_follows_what_arrives(void **state) {
	(void)state;
	struct framing f;
	struct frame frame;
	framing_init(&f, FRAMING_MAX_BODY_BYTES);
	static const char header[] = "Content-Length: 60000000\r\n\r\n{";
	assert_int_equal(framing_push(&f, header, sizeof header - 1), ERR_OK);
	assert_int_equal(framing_next(&f, &frame), FRAMING_MORE);
	assert_true(f.in.cap_bytes < 1000);
	framing_finish(&f);
	framing_init(&f, 1000);
	static const char large[] = "Content-Length: 600000000\r\n\r\n";
	assert_int_equal(framing_push(&f, large, sizeof large - 1), ERR_OK);
	assert_int_equal(framing_next(&f, &frame), FRAMING_REFUSED);
	char *zeros = calloc(1, 1 << 20);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(framing_push(&f, zeros, 1 << 20), ERR_OK);
		assert_int_equal(framing_next(&f, &frame), FRAMING_MORE);
	}
	assert_true(f.in.cap_bytes < 1000);
	free(zeros);
	framing_finish(&f);
}

static void incomplete_body_is_no_message(void **state) {
	(void)state;
	expect("Content-Length: 5\r\n\r\n{}", "", false);
	expect("Content-Length: 5\r\n", "", false);
}

static void wrapped_length_is_in_bytes(void **state) {
	(void)state;
	struct buf out = {0}, body = {0};
	framing_wrap(&out, "\"\xf0\x9f\x98\x80\"", 6);
	assert_string_equal(out.data, "Content-Length: 6\r\n\r\n\"\xf0\x9f\x98\x80\"");
	assert_false(feed(out.data, out.len_bytes, 3, 1000, &body));
	assert_string_equal(body.data, "\"\xf0\x9f\x98\x80\"|");
	buf_finish(&out);
	buf_finish(&body);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cut_anywhere), cmocka_unit_test(headers_in_any_form), cmocka_unit_test(charsets), cmocka_unit_test(broken_headers),
		cmocka_unit_test(endless_header), cmocka_unit_test(large_body_is_read_over), cmocka_unit_test(memory_follows_what_arrives),
		cmocka_unit_test(incomplete_body_is_no_message), cmocka_unit_test(wrapped_length_is_in_bytes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
