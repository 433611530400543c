// SPDX-License-Identifier: MIT
// Writes GGUF files in memory, right or wrong in any field.
#ifndef MASKSTORE_TESTS_GGUF_BYTES_H
#define MASKSTORE_TESTS_GGUF_BYTES_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/gguf.h"

// A file being written; start with gguf_begin.
struct gguf_bytes {
	uint8_t *data; // owned, 32-byte aligned, exactly n_bytes long once finished
	size_t n_bytes, cap;
};

// Header with the given version and counts.
void gguf_begin(struct gguf_bytes *b, uint32_t version, uint64_t n_tensors, uint64_t n_pairs);
void gguf_put(struct gguf_bytes *b, const void *data, size_t n_bytes);
void gguf_put_u32(struct gguf_bytes *b, uint32_t v);
void gguf_put_u64(struct gguf_bytes *b, uint64_t v);
// Length and text.
void gguf_put_str(struct gguf_bytes *b, const char *text);
// Key and type of a pair; its value follows.
void gguf_put_key(struct gguf_bytes *b, const char *key, uint32_t type);
// Key, array type, element type and count; the elements follow.
void gguf_put_array(struct gguf_bytes *b, const char *key, uint32_t type, uint64_t n);
void gguf_put_pair_u32(struct gguf_bytes *b, const char *key, uint32_t v);
void gguf_put_pair_str(struct gguf_bytes *b, const char *key, const char *text);
void gguf_put_tensor(struct gguf_bytes *b, const char *name, uint32_t n_dims, const uint64_t *dims, uint32_t type, uint64_t offset);
// Pads to the alignment and adds n_data bytes 0, 1, 2, …
void gguf_put_data(struct gguf_bytes *b, size_t align, size_t n_data);
void gguf_free(struct gguf_bytes *b);

// Opens a copy of the first n_bytes in memory of exactly that size (so that sanitizers see a read past the end); free *copy after the file.
enum err gguf_open_copy(const uint8_t *data, size_t n_bytes, void **copy, struct gguf **out, struct err_msg *msg) ERR_MUST_CHECK;

#endif
