// SPDX-License-Identifier: MIT
// Writes tiny random GGUF models for tests: any shape, any mix of types, and the faults that a loader must refuse.
#ifndef MASKSTORE_TESTS_TINY_MODEL_H
#define MASKSTORE_TESTS_TINY_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/kernels.h"

// One metadata pair that replaces or adds to the usual ones. Exactly one of text and the numbers is used, by kind.
struct tiny_pair {
	const char *key;
	enum { TINY_U32, TINY_F32, TINY_STR, TINY_U32_ARRAY, TINY_OMIT } kind;
	uint32_t u32;
	float f32;
	const char *text;
};

struct tiny_options {
	const char *arch; // "qwen2" or "llama" (decides tokenizer and key names)
	int n_layer, n_embd, n_head, n_head_kv, head_dim, n_ff;
	bool bias, tied;
	enum dtype types[4]; // the matrices take these in turn
	int n_types;
	uint64_t seed;
	// faults
	struct tiny_pair pairs[4];
	int n_pairs;
	const char *omit_tensor;  // left out
	const char *short_tensor; // one row fewer
	const char *extra_tensor; // an F32 vector of extra_n values more (all 2.0)
	int extra_n;
};

#define TINY_VOCAB 261 // 256 bytes, one merge, four specials

// Writes the file; false (with errno) if the system refuses.
bool tiny_write(const char *path, const struct tiny_options *o);

// A seeded random number below n.
uint32_t tiny_draw(uint64_t *state, uint32_t n);

#endif
