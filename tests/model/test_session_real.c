// SPDX-License-Identifier: MIT
// Reuse equals recompute on the default model: 50 random edit sequences. Skips (77) where the file or fast kernels are missing.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "lab.h"

#define CAPACITY 400

#define N_SEQUENCES (50 / lab_fewer())

static char model_path[4096];

static const char TEXT[] =
	"import os\nimport sys\n\n\nclass Stack:\n    def __init__(self):\n        self.items = []\n\n    def push(self, item):\n"
	"        self.items.append(item)\n\n    def pop(self):\n        if not self.items:\n            raise IndexError(\"pop from empty stack\")\n"
	"        return self.items.pop()\n\n\ndef fibonacci(n):\n    a, b = 0, 1\n    for _ in range(n):\n        a, b = b, a + b\n    return a\n\n\n"
	"def read_lines(path):\n    with open(path, encoding=\"utf-8\") as f:\n        return [line.rstrip(\"\\n\") for line in f]\n\n\n"
	"if __name__ == \"__main__\":\n    for line in read_lines(sys.argv[1]):\n        print(os.path.basename(line), fibonacci(len(line)))\n";

// Replaces n_old tokens at `at` by n_new from somewhere in the source text.
static int replace(token_id *t, int n, int at, int n_old, int n_new, const struct token_list *source, uint64_t *seed) {
	n_old = n_old < n - at ? n_old : n - at;
	n_new = n_new < CAPACITY - n ? n_new : CAPACITY - n;
	memmove(t + at + n_new, t + at + n_old, (size_t)(n - at - n_old) * sizeof *t);
	for (int i = 0; i < n_new; i++)
		t[at + i] = source->ids[tiny_draw(seed, (uint32_t)source->n)];
	n += n_new - n_old;
	return n ? n : 1;
}

static void sync_ok(struct session *s, const token_id *t, int n) {
	struct err_msg msg = {""};
	if (session_sync(s, t, (size_t)n, NULL, NULL, &msg) != ERR_OK)
		fail_msg("%s", msg.text);
}

static void test_reuse_equals_recompute(void **state) {
	(void)state;
	struct lab lab;
	struct token_list source = {0};
	static const int chunks[] = {256, 32, 7, 1};
	uint64_t seed = 50;
	lab_open_file(&lab, model_path);
	assert_int_equal(tokenizer_encode(model_tokenizer(lab.models[1]), TEXT, strlen(TEXT), &source), ERR_OK);
	size_t n_vocab = (size_t)model_info(lab.models[1])->n_vocab;
	struct rig cold;
	rig_open(&cold, &lab, &(struct rig_options){.n_threads = 1, .chunk_tokens = 256, .capacity_tokens = CAPACITY});
	for (int i = 0; i < N_SEQUENCES; i++) {
		struct rig rig;
		token_id t[CAPACITY];
		int n = 20 + (int)tiny_draw(&seed, i % 10 ? 60 : 250); // now and then more than one KV unit
		for (int k = 0; k < n; k++)
			t[k] = source.ids[(size_t)k % source.n];
		rig_open(&rig, &lab, &(struct rig_options){.n_threads = 1 + i % 2, .chunk_tokens = chunks[i / 2 % 4], .capacity_tokens = CAPACITY});
		for (int n_edits = 0; n_edits < 3; n_edits++) {
			sync_ok(rig.session, t, n);
			int at = n - 1 - (int)tiny_draw(&seed, n > 24 ? 24 : (uint32_t)n);
			n = replace(t, n, at, (int)tiny_draw(&seed, 8), (int)tiny_draw(&seed, 8), &source, &seed);
		}
		sync_ok(rig.session, t, n);
		session_rewind(cold.session, 0);
		sync_ok(cold.session, t, n);
		assert_memory_equal(session_logits(rig.session), session_logits(cold.session), n_vocab * sizeof(float));
		rig_close(&rig);
	}
	rig_close(&cold);
	token_list_finish(&source);
	lab_close(&lab);
}

static int skip_all(const char *reason) {
	printf("skipped: %s\n", reason);
	return 77;
}

int main(void) {
	if (kernels_get(cpu_flags()) == kernels_get(0))
		return skip_all("only the scalar kernels are built, a real model takes too long with them");
	const char *model = getenv("MASKSTORE_TEST_MODEL"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	if (model)
		snprintf(model_path, sizeof model_path, "%s", model);
	else
		snprintf(model_path, sizeof model_path, "%s%s/maskstore/models/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", cache ? cache : home ? home : "",
		         cache ? "" : "/.cache");
	if (access(model_path, R_OK) != 0)
		return skip_all("the default model is not in the cache (tools/fetch-model default gets it)");
	if (kernels_get(cpu_flags()) == kernels_get(0))
		return skip_all("the scalar kernels would take an hour");
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_reuse_equals_recompute)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
