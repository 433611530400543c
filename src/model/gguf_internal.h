// SPDX-License-Identifier: MIT
// What gguf.c (opening, looking up) and gguf_parse.c (checking) share. Private to these two.
#ifndef MASKSTORE_MODEL_GGUF_INTERNAL_H
#define MASKSTORE_MODEL_GGUF_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "model/gguf.h"

#define GGUF_FIX "download it again with tools/fetch-model"

struct gguf_pair {
	struct gguf_str key;
	enum gguf_type type;      // of the value
	enum gguf_type elem_type; // of an array's elements
	uint64_t n;               // elements of an array, bytes of a string, else 1
	const uint8_t *data;      // first byte of the value, of the text or of the elements
};

struct gguf {
	char *path;          // owned
	const uint8_t *data; // the file
	size_t size_bytes;
	bool mapped;         // data is ours to unmap
	struct gguf_pair *pairs;  // owned [n_pairs]
	size_t n_pairs;
	struct gguf_tensor *tensors; // owned [n_tensors]
	size_t n_tensors;
	uint32_t *pair_order;   // owned [n_pairs], sorted by key
	uint32_t *tensor_order; // owned [n_tensors], sorted by name
};

// Fills the tables of *g from g->data. On failure g holds what was built so far, for gguf_close; `msg` lacks the file's name.
enum err gguf_parse(struct gguf *g, struct err_msg *msg) ERR_MUST_CHECK;

// Bytes of one value of a type, 0 for strings and arrays.
static inline size_t gguf_value_bytes(enum gguf_type type) {
	switch (type) {
	case GGUF_U8: case GGUF_I8: case GGUF_BOOL: return 1;
	case GGUF_U16: case GGUF_I16: return 2;
	case GGUF_U32: case GGUF_I32: case GGUF_F32: return 4;
	case GGUF_U64: case GGUF_I64: case GGUF_F64: return 8;
	case GGUF_STRING: case GGUF_ARRAY: break;
	}
	return 0;
}

static inline uint64_t gguf_load_le(const uint8_t *p, size_t n_bytes) {
	uint64_t v = 0;
	for (size_t i = 0; i < n_bytes; i++)
		v |= (uint64_t)p[i] << (8 * i);
	return v;
}

// Written out, which compilers turn into one load; of a loop they don't.
static inline uint32_t gguf_load_u32(const uint8_t *p) {
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t gguf_load_u64(const uint8_t *p) {
	return (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24 | (uint64_t)p[4] << 32 | (uint64_t)p[5] << 40 |
	       (uint64_t)p[6] << 48 | (uint64_t)p[7] << 56;
}

// Order of names: by bytes, then by length.
static inline int gguf_compare(struct gguf_str a, const char *b, size_t b_bytes) {
	size_t n = a.len_bytes < b_bytes ? a.len_bytes : b_bytes;
	int order = memcmp(a.data, b, n);
	return order ? order : (a.len_bytes > b_bytes) - (a.len_bytes < b_bytes);
}

// The name of item i of a table whose items start with a struct gguf_str.
static inline struct gguf_str gguf_name_at(const void *table, size_t item_bytes, size_t i) {
	return *(const struct gguf_str *)((const char *)table + i * item_bytes);
}

#endif
