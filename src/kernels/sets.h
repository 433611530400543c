// SPDX-License-Identifier: MIT
// The kernel sets and what they share; private to the kernels room.
#ifndef MASKSTORE_KERNELS_SETS_H
#define MASKSTORE_KERNELS_SETS_H

#include "kernels/kernels.h"

extern const struct kernels kernels_scalar;
extern const struct kernels kernels_avx2; // only in builds with KERNELS_HAVE_AVX2
extern const struct kernels kernels_avx512; // KERNELS_HAVE_AVX512
extern const struct kernels kernels_amx; // KERNELS_HAVE_AMX
extern const struct kernels_peaks kernels_peaks_scalar;
extern const struct kernels_peaks kernels_peaks_avx2;
// The AVX-512 loops of struct kernels_peaks; it reads as AVX2 does.
uint64_t peak_int8_dot_vnni(uint64_t n_steps);
uint64_t peak_fma_avx512(uint64_t n_steps);
uint64_t peak_int8_dot_amx(uint64_t n_steps); // KERNELS_HAVE_AMX

// Scalar functions, contracts as in struct kernels.
void quantize_scalar(const float *x, struct act_block *out, int k);
void matmul_scalar(const struct weight *w, int row_begin, int row_end, const struct act_block *act, int n_tokens,
                   float *y, size_t y_stride, void *scratch, const _Atomic int *cancel);
void matmul_f32_scalar(const struct weight *w, int row_begin, int row_end, const float *x, int n_tokens, float *y,
                       size_t y_stride, void *scratch, const _Atomic int *cancel);
void dequantize_row_scalar(const struct weight *w, int row, float *out);
void rms_norm_scalar(const float *x, const float *weight, float *y, int n, float eps);
void add_scalar(float *x, const float *y, int n);
void swiglu_scalar(const float *gate, const float *up, float *y, int n);
void rope_scalar(float *x, const float *cos_sin, int head_dim, bool neox);
void kv_store_scalar(enum kv_type type, int head_dim, int slot, const float *k, const float *v, void *k_block,
                     void *v_block);
void attention_scalar(const struct attention_args *a);
int argmax_scalar(const float *x, int n);

// True if position p is visible to row r (see struct attention_args).
static inline bool position_visible(const struct attention_args *a, int r, int p) {
	const uint32_t *bits = a->mask ? a->mask[r] : NULL;
	return p <= a->pos[r] && (!bits || (bits[p / 32] >> (p % 32) & 1));
}

// Rows of float weights that matmul_f32 dequantises at a time, for any set.
#define F32_PANEL_ROWS 4

// Channels of V as kept in scratch for a head of d: whole slices of 16.
#define ATTENTION_UNIT_LANES(d) (((d) + 15) / 16 * 16)
// Bytes that a set may keep per row of an attention call.
#define ATTENTION_STATE_BYTES 32

// Sizes of the AVX2 matmul (avx2_matmul.h explains them); here because scratch is sized for every set.
#define MM_CHUNK_BLOCKS 40      // 32-blocks of k unpacked at a time: 2 × 40 × 352 B = 28 KiB of L1
#define MM_PANELS 4             // of 8 rows that any set keeps unpacked at a time
#define MM_TOKEN_BLOCK 128      // tokens whose activations are repacked at a time
#define MM_GROUP_TOKENS 4       // tokens of one register tile
#define MM_PANEL_BLOCK_BYTES 352 // 8 rows × 32 k unpacked
#define MM_FEW_TOKENS 8          // of a product that the AVX-512 set does row by row (avx512_rows.c)
#define MM_FEW_BLOCK_BYTES 384   // activations of these × 32 k
#define MM_GROUP_BLOCK_BYTES 224 // activations of 4 tokens × 32 k
#define MM_WIDE_BLOCK_BYTES 704 // 16 rows × 32 k unpacked, AVX-512
#define AMX_TOKEN_BLOCK 256      // tokens whose activations the AMX set repacks at a time: a chunk of the command line
#define AMX_GROUP_TOKENS 16      // tokens of one AMX tile
#define AMX_GROUP_BLOCK_BYTES 640 // activations of 16 tokens × 32 k

#endif
