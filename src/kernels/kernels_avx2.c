// SPDX-License-Identifier: MIT
// The AVX2+FMA+F16C kernel set. Bit-equal to the scalar set.
#include "kernels/avx2_sets.h"
#include "kernels/sets.h"

const struct kernels kernels_avx2 = {
	.name = "avx2",
	.quantize = quantize_scalar,
	.matmul = matmul_avx2,
	.matmul_f32 = matmul_f32_scalar,
	.dequantize_row = dequantize_row_scalar,
	.rms_norm = rms_norm_scalar,
	.add = add_scalar,
	.swiglu = swiglu_scalar,
	.rope = rope_scalar,
	.kv_store = kv_store_scalar,
	.attention = attention_scalar,
	.argmax = argmax_scalar,
};
