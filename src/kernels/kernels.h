// SPDX-License-Identifier: MIT
// Arithmetic on quantised weights, activations and KV blocks: the front door of the kernels room.
//
// All matrices are row-major. Weight rows are GGUF rows exactly as they lie in the file (kernels read the mapped file,
// so weights are resident once). Arguments never alias unless said. No allocation, no globals, no threads: callers
// split rows, tokens or heads over threads. Pointers to floats need 4-byte alignment, weight pointers 2-byte, scratch 64.
//
// ARITHMETIC (the arithmetic id KERNELS_ARITHMETIC): every kernel set gives the same bits, for any split of rows or
// tokens. Rules, after design.md §3.6 and §5 and research/cpu-kernels.md §5–§6:
//  - Activations are quantised in blocks of 32: d = max|x|/127, q = round-half-even(x · (127/max|x|)); max|x| < 1e-30
//    gives q = 0, d = 0; an infinity or NaN in the block gives q = 0, d = NaN, so that the product is NaN and no
//    plausible number. `sum` is the integer sum of q.
//  - Quantised weight × quantised activation: the integer dot product i of each 32-block is exact (any order), then one
//    ascending chain of fused f32 steps per output, starting at +0:
//      Q4_0 Q5_0 Q8_0: acc = fma((float)i, dw*da, acc)            with i = Σ (code - offset)·q
//      Q4_1 Q5_1:      acc = fma((float)i, dw*da, acc); acc = fma(m, da*(float)sum, acc)
//      Q4_K Q5_K:      acc = fma((float)i, (dw*(float)sc)*da, acc); acc = fma(-(dmin*(float)min), da*(float)sum, acc)
//      Q6_K:           acc = fma((float)(sc0*i0 + sc1*i1), dw*da, acc)   (two 16-halves of a 32-block; |…| < 2^24)
//    Products of two scales are rounded to f32 before the fma, as written.
//  - Float weight (F32, F16, BF16) × float activation, and dequantised weight × float activation (the reference mode):
//    eight lanes, lane j sums k ≡ j (mod 8) ascending by fma from +0, a tail k ≥ 8·(n/8) goes on in lanes 0…; then
//    ((l0+l4)+(l2+l6)) + ((l1+l5)+(l3+l7)).
//  - exp is one polynomial (kernels_exp in scalar.h), the same steps in every set.
// Scalar code is compiled with contraction off and calls fmaf where the rule says fma.
#ifndef MASKSTORE_KERNELS_H
#define MASKSTORE_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KERNELS_ARITHMETIC 1u // raise when any rule above changes

// Tensor types, numbered as in GGUF (ggml's enum ggml_type).
enum dtype {
	DTYPE_F32 = 0, DTYPE_F16 = 1, DTYPE_Q4_0 = 2, DTYPE_Q4_1 = 3, DTYPE_Q5_0 = 6, DTYPE_Q5_1 = 7, DTYPE_Q8_0 = 8,
	DTYPE_Q4_K = 12, DTYPE_Q5_K = 13, DTYPE_Q6_K = 14, DTYPE_BF16 = 30,
};

// Size of one block of a type: `block_elems` consecutive values of a row in `block_bytes`. Null name if unsupported.
struct dtype_info {
	const char *name;
	int block_elems;
	int block_bytes;
	bool quantised; // takes quantised activations
};
// Description of any number, supported or not (then name is null). Pure.
struct dtype_info dtype_info(uint32_t type);
// Bytes of a row of `k` values (k a multiple of block_elems).
size_t dtype_row_bytes(enum dtype type, int k);

// One quantised activation block of 32 values (see ARITHMETIC).
struct act_block {
	int8_t q[32];
	float d;
	int32_t sum;
};

// A weight matrix [n_rows][k] as it lies in the file.
struct weight {
	const void *data; // borrowed
	enum dtype type;
	int n_rows;
	int k;
};

// Element type of KV blocks.
enum kv_type { KV_F16 = 0, KV_F32 = 1, KV_BF16 = 2 };
// Bytes of one element.
int kv_type_bytes(enum kv_type type);

// KV geometry. A block holds KV_BLOCK_TOKENS tokens of one layer and one KV head as
//   K: [head_dim][KV_BLOCK_TOKENS]   (transposed: lanes are tokens)
//   V: [KV_BLOCK_TOKENS][head_dim]
// head_dim is a multiple of 8 for these kernels (others are padded by nobody: the model refuses them).
#define KV_BLOCK_TOKENS 32
#define KV_UNIT_TOKENS 256 // attention partials are taken over units of this many positions, merged ascending

// Attention of some query rows that share one KV head (all heads of a GQA group, any number of tokens).
//
// Row r has position pos[r] and sees key positions 0..pos[r] (causal), and of these only those with a set bit in
// mask[r] if masks are given (bit p of mask[r]: position p is visible; at least one must be). Per row and per unit of
// KV_UNIT_TOKENS positions, ascending:
//   s_p = Σ_d q[d]·k[d][p] (one chain, d ascending, fma from +0), times `scale` applied to q beforehand (q·scale rounded)
//   m = max s_p over visible p;  w_p = exp(s_p - m), 0 for invisible;  l = eight lanes by p mod 8, tree as above
//   o[d] = Σ_p w_p·v[p][d] (one chain, p ascending over groups of 8 that hold a position ≤ pos[r], fma from +0)
// then merge into the row's running (M, L, O), first unit copies: M' = max(M, m); a = exp(M-M'), b = exp(m-M');
//   L = fma(L, a, l*b); O[d] = fma(O[d], a, o[d]*b). A unit without a visible position is skipped. Result O[d]/L.
// A prefill tile does per row exactly this, so decode and any chunking give the same bits.
struct attention_args {
	enum kv_type kv_type;
	int head_dim;
	int n_rows;                  // query rows
	float scale;                 // 1/sqrt(head_dim)
	const float *const *q;       // [n_rows] → [head_dim]
	float *const *out;           // [n_rows] → [head_dim]
	const int32_t *pos;          // [n_rows] ascending
	const void *const *k_blocks; // [ceil((max pos + 1)/32)] → K of this layer and head; values past a row's position must be finite
	const void *const *v_blocks; // same for V
	const uint32_t *const *mask; // null, or [n_rows] → bitmap of positions (null entry: plain causal)
	void *scratch;               // kernels_attention_scratch_bytes(), 64-byte aligned
	const _Atomic int *cancel;   // polled per unit of keys × rows tile; when non-zero the rest of out is unspecified
};

// One set of kernels for one ISA. Immutable.
struct kernels {
	const char *name; // "scalar", "avx2"

	// q = act blocks of x. x[k], out[k/32]; k a multiple of 32.
	void (*quantize)(const float *x, struct act_block *out, int k);

	// y[t][r] for rows [row_begin, row_end) and n_tokens tokens: quantised weight times quantised activations.
	// act[n_tokens][k/32], y[n_tokens][y_stride] (y_stride in floats, ≥ n_rows; only the given rows are written).
	// `scratch` kernels_matmul_scratch_bytes() per thread, 64-byte aligned. Polls `cancel` per panel of 16 rows and
	// token block (well under 2 ms) and returns early when it is non-zero (then y is unspecified).
	void (*matmul)(const struct weight *w, int row_begin, int row_end, const struct act_block *act, int n_tokens,
	               float *y, size_t y_stride, void *scratch, const _Atomic int *cancel);

	// Same with float activations x[n_tokens][k]: any weight type, dequantised row by row (reference mode; the only
	// mode for float weights).
	void (*matmul_f32)(const struct weight *w, int row_begin, int row_end, const float *x, int n_tokens, float *y,
	                   size_t y_stride, void *scratch, const _Atomic int *cancel);

	// out[k] = values of row `row` as f32 (exactly the format's definition: products of f32-converted scales).
	void (*dequantize_row)(const struct weight *w, int row, float *out);

	// y[n] = (x[n] / sqrt(mean(x²) + eps)) * weight[n]: sum of squares in eight lanes (fma), inv = 1/sqrtf(sum/n + eps),
	// y = (x*inv)*weight. y may equal x.
	void (*rms_norm)(const float *x, const float *weight, float *y, int n, float eps);

	// x[n] += y[n]
	void (*add)(float *x, const float *y, int n);

	// y[n] = (g/(1+exp(-g))) * u; y may equal g.
	void (*swiglu)(const float *gate, const float *up, float *y, int n);

	// Rotates one head vector in place. cos_sin[head_dim/2][2]. neox: pairs (i, i+half); else pairs (2i, 2i+1).
	//   a' = fma(a, c, -(b*s)); b' = fma(b, c, a*s)
	void (*rope)(float *x, const float *cos_sin, int head_dim, bool neox);

	// Stores one token's K and V of one head into its block at slot (position mod 32). F16 by round-half-even.
	void (*kv_store)(enum kv_type type, int head_dim, int slot, const float *k, const float *v, void *k_block, void *v_block);

	// See struct attention_args.
	void (*attention)(const struct attention_args *a);

	// Index of the largest value, the lowest index on ties. n ≥ 1; NaN never wins (all NaN: 0).
	int (*argmax)(const float *x, int n);
};

// The best set for `cpu_flags` (enum cpu_flag); the scalar set for 0. Static storage.
const struct kernels *kernels_get(unsigned cpu_flags);

// Scratch that one thread needs. head_dim and k are upper bounds over the model.
size_t kernels_matmul_scratch_bytes(int max_k);
size_t kernels_attention_scratch_bytes(int head_dim, int max_rows);

// Rows per call of attention() that the caller should aim at: this many tokens × heads of a group.
#define KERNELS_ATTENTION_MAX_ROWS 256

// Machine limits for `bench machine`, single-threaded loops (the caller runs them on each thread):
// reads n_bytes and returns a value that depends on them; runs `n` int8 dot steps / FMA steps and returns the number
// of multiply-adds done.
struct kernels_peaks {
	uint64_t (*read)(const void *data, size_t n_bytes);
	uint64_t (*int8_dot)(uint64_t n_steps);
	uint64_t (*fma)(uint64_t n_steps);
};
struct kernels_peaks kernels_peaks(unsigned cpu_flags);

#endif
