// SPDX-License-Identifier: MIT
// Scalar reference: activation quantisation and products with quantised weights. No state.
#include <stdatomic.h>

#include "kernels/blocks.h"
#include "kernels/scalar.h"
#include "kernels/sets.h"

#define ROWS_PER_POLL 16

static void quantize_block(const float *x, struct act_block *out) {
	uint32_t top = 0; // bits of max |x|: for floats without sign the order of bits is the order of values, NaN on top
	for (int i = 0; i < 32; i++) {
		uint32_t u = f32_bits(x[i]) & 0x7fffffffu;
		top = u > top ? u : top;
	}
	float max = f32_from_bits(top);
	*out = (struct act_block){0};
	if (top >= 0x7f800000u) { // infinity or NaN: the product shall be NaN, not a plausible number
		out->d = f32_from_bits(0x7fc00000u);
		return;
	}
	if (max < 1e-30f)
		return;
	out->d = max / 127.0f;
	float inverse = 127.0f / max;
	for (int i = 0; i < 32; i++) {
		int q = (int)rintf(x[i] * inverse);
		out->q[i] = (int8_t)q;
		out->sum += q;
	}
}

void quantize_scalar(const float *x, struct act_block *out, int k) {
	for (int b = 0; b < k / 32; b++)
		quantize_block(x + 32 * b, out + b);
}

static int32_t dot16(const int8_t *a, const int8_t *b) {
	int32_t sum = 0;
	for (int i = 0; i < 16; i++)
		sum += a[i] * b[i];
	return sum;
}

// One step of the chain of kernels.h: adds block w × block a to `acc`.
static float add_block(const struct wblock *w, const struct act_block *a, bool has_min, float acc) {
	int32_t i = w->sc[0] * dot16(w->code, a->q) + w->sc[1] * dot16(w->code + 16, a->q + 16);
	acc = fmaf((float)i, w->d * a->d, acc);
	return has_min ? fmaf(w->m, a->d * (float)a->sum, acc) : acc;
}

// One row for up to TOKENS_AT_ONCE tokens, so that a block is unpacked once for all of them.
#define TOKENS_AT_ONCE 16

static void matmul_row(const struct weight *w, int row, const struct act_block *act, int n_tokens, float *y,
                       size_t y_stride) {
	const uint8_t *data = (const uint8_t *)w->data + (size_t)row * dtype_row_bytes(w->type, w->k);
	bool has_min = dtype_has_min(w->type);
	size_t n_blocks = (size_t)w->k / 32;
	float acc[TOKENS_AT_ONCE] = {0};
	for (size_t b = 0; b < n_blocks; b++) {
		struct wblock block;
		wblock_load(w->type, data, (int)b, &block);
		for (int t = 0; t < n_tokens; t++)
			acc[t] = add_block(&block, &act[(size_t)t * n_blocks + b], has_min, acc[t]);
	}
	for (int t = 0; t < n_tokens; t++)
		y[(size_t)t * y_stride + (size_t)row] = acc[t];
}

void matmul_scalar(const struct weight *w, int row_begin, int row_end, const struct act_block *act, int n_tokens,
                   float *y, size_t y_stride, void *scratch, const _Atomic int *cancel) {
	(void)scratch;
	for (int t = 0; t < n_tokens; t += TOKENS_AT_ONCE) {
		int n = n_tokens - t < TOKENS_AT_ONCE ? n_tokens - t : TOKENS_AT_ONCE;
		for (int row = row_begin; row < row_end; row++) {
			if ((row - row_begin) % ROWS_PER_POLL == 0 && cancel && atomic_load_explicit(cancel, memory_order_relaxed))
				return;
			matmul_row(w, row, act + (size_t)t * ((size_t)w->k / 32), n, y + (size_t)t * y_stride, y_stride);
		}
	}
}

static void dequantize_blocks(const struct weight *w, const uint8_t *data, float *out) {
	bool has_min = dtype_has_min(w->type);
	for (int b = 0; b < w->k / 32; b++) {
		struct wblock block;
		wblock_load(w->type, data, b, &block);
		for (int i = 0; i < 32; i++) {
			float scale = block.d * (float)block.sc[i / 16]; // sc is 1 but for Q6_K: exact
			float value = scale * (float)block.code[i];
			out[32 * b + i] = has_min ? value + block.m : value;
		}
	}
}

void dequantize_row_scalar(const struct weight *w, int row, float *out) {
	const uint8_t *data = (const uint8_t *)w->data + (size_t)row * dtype_row_bytes(w->type, w->k);
	switch (w->type) {
	case DTYPE_F32: memcpy(out, data, sizeof *out * (size_t)w->k); break;
	case DTYPE_F16:
		for (int i = 0; i < w->k; i++)
			out[i] = load_f16(data + 2 * (size_t)i);
		break;
	case DTYPE_BF16:
		for (int i = 0; i < w->k; i++)
			out[i] = bf16_to_f32(load_u16(data + 2 * (size_t)i));
		break;
	default: dequantize_blocks(w, data, out); break;
	}
}
