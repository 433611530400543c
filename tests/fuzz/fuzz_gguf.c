// SPDX-License-Identifier: MIT
// Any bytes as a model file: opened, looked at in every way, and made into a tokenizer that encodes some of them.
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "model/gguf.h"
#include "model/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static volatile unsigned sink; // keeps reads from being optimised away

static void look_at_tensors(const struct gguf *g) {
	for (size_t i = 0; i < gguf_n_tensors(g); i++) {
		const struct gguf_tensor *t = gguf_tensor_at(g, i);
		const uint8_t *bytes = t->data;
		assert(t->size_bytes > 0);
		sink += bytes[0] + bytes[t->size_bytes - 1];
		char name[256];
		memcpy(name, t->name.data, t->name.len_bytes);
		name[t->name.len_bytes] = 0;
		if (strlen(name) == t->name.len_bytes)
			assert(gguf_tensor_find(g, name) == t);
	}
}

static void look_at_array(const struct gguf *g, const char *key) {
	enum gguf_type type;
	size_t n;
	if (!gguf_get_array(g, key, &type, &n) || n > 100000)
		return;
	struct gguf_strs walk;
	int32_t *ints = malloc((n + 1) * sizeof *ints);
	float *floats = malloc((n + 1) * sizeof *floats);
	if (gguf_get_strs(g, key, &walk)) {
		assert(walk.n_left == n);
		while (walk.n_left) {
			struct gguf_str s = gguf_strs_next(&walk);
			if (s.len_bytes)
				sink += (unsigned)s.data[s.len_bytes - 1];
		}
	}
	if (ints && gguf_get_i32_array(g, key, ints, n) && n)
		sink += (unsigned)ints[n - 1];
	if (floats && gguf_get_f32_array(g, key, floats, n) && n)
		sink += floats[n - 1] > 0;
	free(ints);
	free(floats);
}

static void look_at_pairs(const struct gguf *g) {
	for (size_t i = 0; i < gguf_n_pairs(g); i++) {
		struct gguf_str s = gguf_pair_key(g, i);
		char *key = malloc(s.len_bytes + 1);
		if (!key)
			return;
		memcpy(key, s.data, s.len_bytes);
		key[s.len_bytes] = 0;
		assert(strlen(key) != s.len_bytes || gguf_has(g, key));
		uint32_t u;
		float f;
		bool b;
		sink += gguf_get_u32(g, key, &u) + gguf_get_f32(g, key, &f) + gguf_get_bool(g, key, &b);
		if (gguf_get_str(g, key, &s) && s.len_bytes)
			sink += (unsigned)s.data[s.len_bytes - 1];
		look_at_array(g, key);
		free(key);
	}
}

// Encodes the input's own last bytes; the tokens together are never longer than the text.
static void try_tokenizer(const struct gguf *g, const uint8_t *data, size_t n_bytes) {
	struct tokenizer *t;
	struct err_msg msg = {""};
	if (tokenizer_create(g, &t, &msg)) {
		assert(msg.text[0]);
		return;
	}
	size_t n = n_bytes < 512 ? n_bytes : 512, total = 0;
	struct token_list list = {0};
	enum err e = tokenizer_encode(t, (const char *)data + n_bytes - n, n, &list);
	for (size_t i = 0; !e && i < list.n; i++) {
		size_t len;
		const char *bytes = tokenizer_bytes(t, list.ids[i], &len);
		assert(list.ids[i] >= 0 && list.ids[i] < tokenizer_n_vocab(t) && !tokenizer_is_special(t, list.ids[i]));
		sink += len ? (unsigned)bytes[len - 1] : 0;
		total += len;
	}
	assert(total <= n);
	token_list_finish(&list);
	tokenizer_destroy(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
	void *copy; // aligned as the contract wants, and of the exact size so that a read past the end is seen
	if (posix_memalign(&copy, 32, n_bytes ? n_bytes : 1) != 0)
		return 0;
	memcpy(copy, data, n_bytes);
	struct gguf *g;
	struct err_msg msg = {""};
	if (gguf_open_memory(copy, n_bytes, "input", &g, &msg)) {
		assert(msg.text[0]);
	} else {
		look_at_pairs(g);
		look_at_tensors(g);
		try_tokenizer(g, copy, n_bytes);
		gguf_close(g);
	}
	free(copy);
	return 0;
}
