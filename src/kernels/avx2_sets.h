// SPDX-License-Identifier: MIT
// Functions of the AVX2, AVX-512 and AMX sets, contracts as in struct kernels; private to kernels_a*.c and the files that define them.
#ifndef MASKSTORE_KERNELS_AVX2_SETS_H
#define MASKSTORE_KERNELS_AVX2_SETS_H

#include "kernels/kernels.h"

void quantize_avx2(const float *x, struct act_block *out, int k);
void matmul_avx2(const struct weight *w, int row_begin, int row_end, const struct act_block *act, int n_tokens,
                 float *y, size_t y_stride, void *scratch, const _Atomic int *cancel);
void matmul_f32_avx2(const struct weight *w, int row_begin, int row_end, const float *x, int n_tokens, float *y,
                     size_t y_stride, void *scratch, const _Atomic int *cancel);
void rms_norm_avx2(const float *x, const float *weight, float *y, int n, float eps);
void add_avx2(float *x, const float *y, int n);
void swiglu_avx2(const float *gate, const float *up, float *y, int n);
void rope_avx2(float *x, const float *cos_sin, int head_dim, bool neox);
void kv_store_avx2(enum kv_type type, int head_dim, int slot, const float *k, const float *v, void *k_block,
                   void *v_block);
void attention_avx2(const struct attention_args *a);
int argmax_avx2(const float *x, int n);

// The AVX-512 set's own.
void matmul_avx512(const struct weight *w, int row_begin, int row_end, const struct act_block *act, int n_tokens,
                   float *y, size_t y_stride, void *scratch, const _Atomic int *cancel);
// Of at least 16 rows and at most MM_FEW_TOKENS tokens.
void matmul_rows_avx512(const struct weight *w, int row_begin, int row_end, const struct act_block *act, int n_tokens,
                        float *y, size_t y_stride, void *scratch, const _Atomic int *cancel);
void swiglu_avx512(const float *gate, const float *up, float *y, int n);
void attention_avx512(const struct attention_args *a);

// The AMX set's own.
void matmul_amx(const struct weight *w, int row_begin, int row_end, const struct act_block *act, int n_tokens,
                float *y, size_t y_stride, void *scratch, const _Atomic int *cancel);

#endif
