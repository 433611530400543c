// SPDX-License-Identifier: MIT
// The AMX kernel set: products of many tokens by int8 tiles, all else as in the AVX-512 VNNI set. Bit-equal to all others.
#include "kernels/avx2_sets.h"
#include "kernels/sets.h"

const struct kernels kernels_amx = {
	.name = "amx",
	.quantize = quantize_avx2,
	.matmul = matmul_amx,
	.matmul_f32 = matmul_f32_avx2,
	.dequantize_row = dequantize_row_scalar,
	.rms_norm = rms_norm_avx2,
	.add = add_avx2,
	.swiglu = swiglu_avx512,
	.rope = rope_avx2,
	.kv_store = kv_store_avx2,
	.attention = attention_avx512,
	.argmax = argmax_avx2,
};
