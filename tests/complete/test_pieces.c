// SPDX-License-Identifier: MIT
// Remembered pieces: the ids are the tokenizer's, whatever was remembered before.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "complete/pieces.h"

#define MAX_BYTES 60000

static struct tokenizer *open_tokenizer(const char *name) {
	char path[1024];
	struct gguf *g;
	struct tokenizer *t = NULL;
	struct err_msg msg = {""};
	snprintf(path, sizeof path, "%s/%s", getenv("MASKSTORE_TEST_DATA"), name);
	if (gguf_open(path, &g, &msg) || tokenizer_create(g, &t, &msg))
		fail_msg("%s", msg.text);
	gguf_close(g);
	return t;
}

static uint32_t draw(uint64_t *seed, uint32_t n) {
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*seed >> 33) % n;
}

// A module of random lines, n_lines of them.
static size_t make_text(char *text, int n_lines, uint64_t *seed) {
	size_t n = 0;
	for (int i = 0; i < n_lines; i++) {
		static const char *const LINES[] = {"def f_%u(a, b):\n", "    return a + %u\n", "\n", "class C%u:\n", "        x = [%u, 'it''s']  # \xc3\xa9\n", "\n\n", "import m%u\n", "    \n"};
		n += (size_t)sprintf(text + n, LINES[draw(seed, 8)], draw(seed, 1000));
	}
	return n;
}

static void check(struct pieces *p, const struct tokenizer *t, const char *text, size_t n_bytes) {
	struct token_list whole = {0}, found = {0};
	assert_int_equal(tokenizer_encode(t, text, n_bytes, &whole), ERR_OK);
	assert_int_equal(pieces_count(p, text, n_bytes), whole.n);
	assert_int_equal(pieces_encode(p, text, n_bytes, &found), ERR_OK);
	assert_int_equal(found.n, whole.n);
	if (whole.n)
		assert_memory_equal(found.ids, whole.ids, whole.n * sizeof *whole.ids);
	token_list_finish(&whole);
	token_list_finish(&found);
}

// Prefixes, suffixes and windows of a text that is edited at random.
static void ids_are_the_tokenizers(void **state) {
	(void)state;
	static char text[MAX_BYTES + 100];
	uint64_t seed = 17;
	for (int kind = 0; kind < 2; kind++) {
		struct tokenizer *t = open_tokenizer(kind ? "bpe_smollm.gguf" : "bpe_qwen2.gguf");
		struct pieces *p;
		assert_int_equal(pieces_create(t, &p), ERR_OK);
		size_t n = make_text(text, 700, &seed);
		for (int i = 0; i < 300; i++) {
			static const char *const EDITS[] = {"x", "\n", "    ", "(", "\n\n", "0", "\xe2\x80\xa8"};
			const char *edit = EDITS[draw(&seed, 7)];
			size_t at = draw(&seed, (uint32_t)n), len = strlen(edit);
			if (draw(&seed, 3)) {
				memmove(text + at + len, text + at, n - at);
				memcpy(text + at, edit, len);
				n += len;
			} else {
				memmove(text + at, text + at + 1, n - at - 1);
				n--;
			}
			size_t begin = draw(&seed, 2) ? 0 : draw(&seed, (uint32_t)n);
			check(p, t, text + begin, draw(&seed, (uint32_t)(n - begin) + 1));
			assert_true(n < MAX_BYTES);
		}
		check(p, t, text, 0);
		pieces_destroy(p);
		tokenizer_destroy(t);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(ids_are_the_tokenizers)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
