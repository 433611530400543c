// SPDX-License-Identifier: MIT
// See gguf_bytes.h. Memory failures end the test program.
#include "gguf_bytes.h"

#include <stdlib.h>
#include <string.h>

void gguf_put(struct gguf_bytes *b, const void *data, size_t n_bytes) {
	if (b->n_bytes + n_bytes > b->cap) {
		b->cap = 2 * (b->n_bytes + n_bytes);
		b->data = realloc(b->data, b->cap);
		if (!b->data)
			abort();
	}
	if (n_bytes)
		memcpy(b->data + b->n_bytes, data, n_bytes);
	b->n_bytes += n_bytes;
}

static void put_le(struct gguf_bytes *b, uint64_t v, int n) {
	uint8_t bytes[8];
	for (int i = 0; i < n; i++)
		bytes[i] = (uint8_t)(v >> (8 * i));
	gguf_put(b, bytes, (size_t)n);
}

void gguf_put_u32(struct gguf_bytes *b, uint32_t v) {
	put_le(b, v, 4);
}

void gguf_put_u64(struct gguf_bytes *b, uint64_t v) {
	put_le(b, v, 8);
}

void gguf_begin(struct gguf_bytes *b, uint32_t version, uint64_t n_tensors, uint64_t n_pairs) {
	*b = (struct gguf_bytes){0};
	gguf_put(b, "GGUF", 4);
	gguf_put_u32(b, version);
	gguf_put_u64(b, n_tensors);
	gguf_put_u64(b, n_pairs);
}

void gguf_put_str(struct gguf_bytes *b, const char *text) {
	gguf_put_u64(b, strlen(text));
	gguf_put(b, text, strlen(text));
}

void gguf_put_key(struct gguf_bytes *b, const char *key, uint32_t type) {
	gguf_put_str(b, key);
	gguf_put_u32(b, type);
}

void gguf_put_array(struct gguf_bytes *b, const char *key, uint32_t type, uint64_t n) {
	gguf_put_key(b, key, GGUF_ARRAY);
	gguf_put_u32(b, type);
	gguf_put_u64(b, n);
}

void gguf_put_pair_u32(struct gguf_bytes *b, const char *key, uint32_t v) {
	gguf_put_key(b, key, GGUF_U32);
	gguf_put_u32(b, v);
}

void gguf_put_pair_str(struct gguf_bytes *b, const char *key, const char *text) {
	gguf_put_key(b, key, GGUF_STRING);
	gguf_put_str(b, text);
}

void gguf_put_tensor(struct gguf_bytes *b, const char *name, uint32_t n_dims, const uint64_t *dims, uint32_t type, uint64_t offset) {
	gguf_put_str(b, name);
	gguf_put_u32(b, n_dims);
	for (uint32_t i = 0; i < n_dims; i++)
		gguf_put_u64(b, dims[i]);
	gguf_put_u32(b, type);
	gguf_put_u64(b, offset);
}

void gguf_put_data(struct gguf_bytes *b, size_t align, size_t n_data) {
	while (b->n_bytes % align)
		gguf_put(b, "", 1);
	for (size_t i = 0; i < n_data; i++)
		gguf_put(b, &(uint8_t){(uint8_t)i}, 1);
}

void gguf_free(struct gguf_bytes *b) {
	free(b->data);
	*b = (struct gguf_bytes){0};
}

enum err gguf_open_copy(const uint8_t *data, size_t n_bytes, void **copy, struct gguf **out, struct err_msg *msg) {
	if (posix_memalign(copy, 32, n_bytes ? n_bytes : 1) != 0)
		abort();
	if (n_bytes)
		memcpy(*copy, data, n_bytes);
	return gguf_open_memory(*copy, n_bytes, "test.gguf", out, msg);
}
