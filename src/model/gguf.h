// SPDX-License-Identifier: MIT
// Reads a GGUF file: memory-mapped, read-only, every size, offset and count checked against the file before use.
//
// Format: ggml's docs/gguf.md, versions 2 and 3, little-endian. A file that opens without error is safe to index with the
// functions below; strings are not zero-terminated. Immutable after gguf_open; any thread may read.
#ifndef MASKSTORE_MODEL_GGUF_H
#define MASKSTORE_MODEL_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "kernels/kernels.h"

struct gguf;

enum gguf_type {
	GGUF_U8, GGUF_I8, GGUF_U16, GGUF_I16, GGUF_U32, GGUF_I32, GGUF_F32, GGUF_BOOL, GGUF_STRING, GGUF_ARRAY, GGUF_U64,
	GGUF_I64, GGUF_F64,
};

// Borrowed bytes inside the mapping; valid until gguf_close.
struct gguf_str {
	const char *data;
	size_t len_bytes;
};

struct gguf_tensor {
	struct gguf_str name;
	enum dtype type;       // supported types only: others are refused at open
	int n_dims;            // 1..4
	uint64_t dims[4];      // fastest first (dims[0] = k); 1 beyond n_dims
	const void *data;      // inside the mapping
	size_t size_bytes;
};

// Opens and checks `path`. Errors: ERR_IO (missing, unreadable), ERR_FORMAT (not GGUF, truncated, absurd sizes),
// ERR_UNSUPPORTED (version, tensor type); `msg` names file, field and reason.
enum err gguf_open(const char *path, struct gguf **out, struct err_msg *msg) ERR_MUST_CHECK;
// Same on bytes in memory (borrowed until gguf_close; 32-byte aligned); `name` stands for the path in messages. For fuzzing and tests.
enum err gguf_open_memory(const void *data, size_t size_bytes, const char *name, struct gguf **out, struct err_msg *msg) ERR_MUST_CHECK;
void gguf_close(struct gguf *g);

const char *gguf_path(const struct gguf *g);
size_t gguf_file_bytes(const struct gguf *g);

// True if the key is there, whatever its kind.
bool gguf_has(const struct gguf *g, const char *key);
// Scalars: false if the key is missing or of another kind (unsigned and signed integers convert when the value fits).
bool gguf_get_u32(const struct gguf *g, const char *key, uint32_t *out);
bool gguf_get_f32(const struct gguf *g, const char *key, float *out);
bool gguf_get_bool(const struct gguf *g, const char *key, bool *out);
bool gguf_get_str(const struct gguf *g, const char *key, struct gguf_str *out);

// Arrays: number of elements and their type; false if missing or not an array.
bool gguf_get_array(const struct gguf *g, const char *key, enum gguf_type *type, size_t *n);
// A walk over an array of strings, front to back, without a copy.
struct gguf_strs {
	const uint8_t *at; // of the next one, inside the mapping
	size_t n_left;
};
// Starts a walk; false unless the key holds an array of strings.
bool gguf_get_strs(const struct gguf *g, const char *key, struct gguf_strs *out);
// The next string; n_left must not be 0.
struct gguf_str gguf_strs_next(struct gguf_strs *walk);
// Copies all n elements of an array of u32 or i32 / f32; false otherwise.
bool gguf_get_i32_array(const struct gguf *g, const char *key, int32_t *out, size_t n);
bool gguf_get_f32_array(const struct gguf *g, const char *key, float *out, size_t n);

// Metadata pairs and tensors by index, for `inspect model`.
size_t gguf_n_pairs(const struct gguf *g);
struct gguf_str gguf_pair_key(const struct gguf *g, size_t i);
enum gguf_type gguf_pair_type(const struct gguf *g, size_t i);
size_t gguf_n_tensors(const struct gguf *g);
const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, size_t i);
// Tensor by name, or null.
const struct gguf_tensor *gguf_tensor_find(const struct gguf *g, const char *name);

#endif
