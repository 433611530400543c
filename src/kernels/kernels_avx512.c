// SPDX-License-Identifier: MIT
// The AVX-512 VNNI kernel set: products by 16-lane integer dot products, attention by 16-lane
// tiles, all else as in the AVX2 set. Bit-equal to both others.
#include "kernels/avx2_sets.h"
#include "kernels/sets.h"

const struct kernels kernels_avx512 = {
	.name = "avx512",
	.quantize = quantize_avx2,
	.matmul = matmul_avx512,
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
