// SPDX-License-Identifier: MIT
// The frame of checkkernels: guarded buffers, the sets of this CPU, comparison and reports.
//
// A round builds one random case, runs the scalar set and then every other set on the same inputs, and compares. All
// randomness comes from the seed, the function's name and the round's number, so that one failing round can be run alone. One thread.
#ifndef MASKSTORE_TESTS_KERNELS_CHECK_H
#define MASKSTORE_TESTS_KERNELS_CHECK_H

#include "tests/kernels/gen.h"

#define CHECK_MAX_SETS 8

// Guarded regions, by what they hold. The scalar set's outputs are kept in EXPECTED and EXPECTED_2.
enum slot { SLOT_A, SLOT_B, SLOT_C, SLOT_D, SLOT_E, SLOT_F, SLOT_OUT, SLOT_OUT_2, SLOT_EXPECTED, SLOT_EXPECTED_2, SLOT_SCRATCH, N_SLOTS };

struct region {
	uint8_t *pages;       // CHECK_REGION_BYTES, with an inaccessible page before and behind
	uint8_t *at;          // the buffer placed last
	size_t n_bytes;
};

struct check {
	struct rng rng;
	const struct kernels *sets[CHECK_MAX_SETS]; // the scalar set first
	int n_sets;
	const struct kernels *set; // that runs at the moment, for reports
	const char *function;
	int round;
	uint64_t seed;
	char shape[160];
	int n_failed;
	struct region regions[N_SLOTS];
};

// One function of struct kernels (or a property of one).
struct check_function {
	const char *name;
	int rounds;
	void (*run)(struct check *c);
};

// Functions of the sets, by the file that checks them; ended by a null name.
extern const struct check_function check_products[];  // checkkernels_products.c
extern const struct check_function check_steps[];     // checkkernels_steps.c
extern const struct check_function check_attention[]; // checkkernels_attention.c

// Times every function of every set (checkkernels_bench.c): thread CPU time, printed.
void check_bench(struct check *c);

// n_bytes at a multiple of `align`, either directly behind the page before or ending directly at the page behind (less
// what `align` leaves over); where begin is misaligned beyond `align` is random. Filled with CHECK_MARK, writable.
#define CHECK_MARK 0x5a
void *check_place(struct check *c, enum slot slot, size_t n_bytes, size_t align);
// Makes a placed input read-only until the slot is placed anew.
void check_freeze(struct check *c, enum slot slot);
// Scratch of exactly n_bytes, 64-byte aligned, full of NaN or random bytes.
void *check_scratch(struct check *c, size_t n_bytes);
// Fails unless the bytes beside the slot's buffer still hold CHECK_MARK.
void check_margins(struct check *c, enum slot slot);

// Notes what the case looks like, for reports.
__attribute__((format(printf, 2, 3))) void check_shape(struct check *c, const char *format, ...);
// Reports a failure of the set that runs.
__attribute__((format(printf, 2, 3))) void check_fail(struct check *c, const char *format, ...);
// Compares floats bit for bit; a NaN equals any NaN, as IEEE 754 leaves its payload open. Reports the first difference.
bool check_floats(struct check *c, const float *expected, const float *actual, size_t n);
// Compares bytes and margins of two slots' buffers of one size.
bool check_bytes(struct check *c, enum slot expected, enum slot actual);

static inline bool one_in(struct rng *g, int n) {
	return rng_below(g, n) == 0;
}

static inline int rng_between(struct rng *g, int low, int high) {
	return low + rng_below(g, high - low + 1);
}

static inline bool is_nan_bits(uint32_t u) {
	return (u & 0x7fffffffu) > 0x7f800000u;
}

// Floats of one magnitude; with `wild`, some zeros of both signs, subnormals, huge values, infinities and NaN.
void check_fill_floats(struct rng *g, float *x, size_t n, float scale, bool wild);

#endif
