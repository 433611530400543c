// SPDX-License-Identifier: MIT
// Quantised weight blocks as they lie in a GGUF row, and their common unpacked form.
//
// Formats after ggml's ggml-common.h (block_q4_0 … block_q6_K) and dequantize_row_*; checked against the gguf Python
// package (tests/kernels/test_dtype.c).
#ifndef MASKSTORE_KERNELS_BLOCKS_H
#define MASKSTORE_KERNELS_BLOCKS_H

#include <stdint.h>

#include "kernels/kernels.h"

#define ACT_BLOCK_ELEMS 32 // values in an activation block; every quantised row is a whole number of them

// 32 consecutive weights of a row: value k = d·code[k] + m (Q6_K: d·sc[k/16]·code[k]).
struct wblock {
	int8_t code[ACT_BLOCK_ELEMS]; // offset already taken off for types without a min
	float d;                      // scale; K types with mins: d·sc, rounded
	float m;                      // 0, m of Q4_1/Q5_1, or -(dmin·min), rounded
	int sc[2];                    // Q6_K: scales of the two halves, else 1
};

// True for the types whose blocks have a min (m).
static inline bool dtype_has_min(enum dtype type) {
	return type == DTYPE_Q4_1 || type == DTYPE_Q5_1 || type == DTYPE_Q4_K || type == DTYPE_Q5_K;
}

// Unpacks the i-th group of 32 values of the row at `row` (a quantised type). Reads that group's block only.
void wblock_load(enum dtype type, const uint8_t *row, int i, struct wblock *out);

#endif
