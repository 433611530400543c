// SPDX-License-Identifier: MIT
// The scalar kernel set: the reference that every other set must equal bit for bit, and the set of machines without
// AVX2. Its parts are in dtype.c, quant_c.c, float_c.c and attention_c.c.
#include <string.h>

#include "kernels/scalar.h"
#include "kernels/sets.h"

const struct kernels kernels_scalar = {
	.name = "scalar",
	.quantize = quantize_scalar,
	.matmul = matmul_scalar,
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

// Plain loops; the compiler may use the baseline's vectors.
static uint64_t read_scalar(const void *data, size_t n_bytes) {
	const uint8_t *p = data;
	uint64_t sum[4] = {0};
	for (size_t i = 0; i + 32 <= n_bytes; i += 32) {
		for (int j = 0; j < 4; j++) {
			uint64_t u;
			memcpy(&u, p + i + 8 * j, sizeof u);
			sum[j] ^= u;
		}
	}
	return sum[0] ^ sum[1] ^ sum[2] ^ sum[3];
}

static uint64_t int8_dot_scalar(uint64_t n_steps) {
	int32_t sum[4] = {0};
	for (uint64_t i = 0; i < n_steps; i++)
		for (int j = 0; j < 4; j++)
			sum[j] = (int32_t)((uint32_t)sum[j] + (uint32_t)((int8_t)i * (int8_t)(i >> j)));
	volatile int32_t keep = sum[0] ^ sum[1] ^ sum[2] ^ sum[3];
	(void)keep;
	return 4 * n_steps;
}

static uint64_t fma_scalar(uint64_t n_steps) {
	volatile float factor = 0.999f;
	float f = factor, a = 1, b = 2, c = 3, d = 4;
	for (uint64_t i = 0; i < n_steps; i++) {
		a = a * f + f;
		b = b * f + f;
		c = c * f + f;
		d = d * f + f;
	}
	volatile float keep = a + b + c + d;
	(void)keep;
	return 4 * n_steps;
}

const struct kernels_peaks kernels_peaks_scalar = {read_scalar, int8_dot_scalar, fma_scalar};
