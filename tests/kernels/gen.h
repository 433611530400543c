// SPDX-License-Identifier: MIT
// Made-up inputs for kernel tests: a seeded generator, weight rows of any type (random or at the extremes of their
// codes), activations, and the kernel sets to compare. Include after cmocka.h.
#ifndef MASKSTORE_TESTS_KERNELS_GEN_H
#define MASKSTORE_TESTS_KERNELS_GEN_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "kernels/kernels.h"
#include "kernels/scalar.h"

#define EXIT_SKIP 77 // meson's number for a skipped test

struct rng {
	uint64_t state;
};

// splitmix64 (Steele, Lea, Flood 2014).
static inline uint64_t rng_next(struct rng *g) {
	uint64_t z = g->state += 0x9e3779b97f4a7c15u;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static inline int rng_below(struct rng *g, int n) {
	return (int)(rng_next(g) % (uint64_t)n);
}

// Uniform in [-1, 1).
static inline float rng_float(struct rng *g) {
	return (float)(int32_t)rng_next(g) * 0x1p-31f;
}

// Aligned memory, freed by free(); the test ends if there is none.
static inline void *alloc_bytes(size_t n_bytes) {
	void *p = aligned_alloc(64, (n_bytes + 63) / 64 * 64);
	if (!p)
		abort();
	return p;
}

static inline void put_f16(uint8_t *p, float x) {
	uint16_t h = f32_to_f16(x);
	memcpy(p, &h, sizeof h);
}

// Byte offsets of the f16 scales in a block, -1 for none.
static inline void scale_offsets(enum dtype type, int offset[2]) {
	offset[0] = 0;
	offset[1] = -1;
	if (type == DTYPE_Q4_1 || type == DTYPE_Q5_1 || type == DTYPE_Q4_K || type == DTYPE_Q5_K)
		offset[1] = 2;
	if (type == DTYPE_Q6_K)
		offset[0] = 208;
}

enum fill { FILL_RANDOM, FILL_ONES, FILL_ZEROS, FILL_SIGN, FILL_EXTREMES };

// Code bytes: random, all bits set, none set, 0x80 each (Q8_0: -128; Q6_K: scales of -128), or a mix of such bytes.
static inline uint8_t fill_byte(struct rng *g, enum fill fill) {
	static const uint8_t extremes[] = {0x00, 0xff, 0x80, 0x7f, 0xf0, 0x0f};
	switch (fill) {
	case FILL_RANDOM: return (uint8_t)rng_next(g);
	case FILL_ONES: return 0xff;
	case FILL_ZEROS: return 0;
	case FILL_SIGN: return 0x80;
	default: return extremes[rng_below(g, 6)];
	}
}

// A weight matrix with finite scales; data is owned by the caller (free).
static inline struct weight make_weight(struct rng *g, enum dtype type, int n_rows, int k, enum fill fill) {
	struct dtype_info info = dtype_info(type);
	size_t n_bytes = dtype_row_bytes(type, k) * (size_t)n_rows;
	uint8_t *data = malloc(n_bytes); // exactly, so that a sanitizer sees any byte read behind the last row
	if (!data)
		abort();
	if (!info.quantised) {
		for (size_t i = 0; i < n_bytes / (size_t)info.block_bytes; i++) {
			float x = rng_float(g);
			uint32_t bits = f32_bits(x);
			if (type == DTYPE_F32)
				memcpy(data + 4 * i, &x, 4);
			else if (type == DTYPE_F16)
				put_f16(data + 2 * i, x);
			else
				memcpy(data + 2 * i, (uint8_t *)&bits + 2, 2);
		}
		return (struct weight){data, type, n_rows, k};
	}
	for (size_t i = 0; i < n_bytes; i++)
		data[i] = fill_byte(g, fill);
	int offset[2];
	scale_offsets(type, offset);
	for (uint8_t *b = data; b < data + n_bytes; b += info.block_bytes)
		for (int j = 0; j < 2 && offset[j] >= 0; j++)
			put_f16(b + offset[j], rng_below(g, 50) ? rng_float(g) * 0.05f : rng_float(g) * 1e-6f); // some subnormal halves
	return (struct weight){data, type, n_rows, k};
}

// Activations for n_tokens rows of k values; `extreme`: every q is ±127.
static inline struct act_block *make_act(struct rng *g, const struct kernels *set, int n_tokens, int k, bool extreme) {
	size_t n = (size_t)n_tokens * (size_t)k;
	float *x = alloc_bytes(n * sizeof *x);
	for (size_t i = 0; i < n; i++)
		x[i] = extreme ? (rng_next(g) % 8 ? 1.0f : -1.0f) : rng_float(g) * (rng_below(g, 100) ? 1.0f : 30.0f);
	struct act_block *act = alloc_bytes(n / 32 * sizeof *act);
	for (int t = 0; t < n_tokens; t++)
		set->quantize(x + (size_t)t * (size_t)k, act + (size_t)t * (size_t)k / 32, k);
	free(x);
	return act;
}

static inline const struct kernels *scalar_set(void) {
	return kernels_get(0);
}

// The best set here (up to MASKSTORE_ISA), or null where that is the scalar one.
static inline const struct kernels *fast_set(void) {
	const struct kernels *set = kernels_get(cpu_flags_up_to(getenv("MASKSTORE_ISA")));
	return set == scalar_set() ? NULL : set;
}

static const enum dtype all_types[] = {DTYPE_F32,  DTYPE_F16,  DTYPE_BF16, DTYPE_Q4_0, DTYPE_Q4_1, DTYPE_Q5_0,
                                       DTYPE_Q5_1, DTYPE_Q8_0, DTYPE_Q4_K, DTYPE_Q5_K, DTYPE_Q6_K};
#define N_TYPES ((int)(sizeof all_types / sizeof all_types[0]))
#define N_FLOAT_TYPES 3 // they come first

#endif
