// SPDX-License-Identifier: MIT
// Scalar reference: products with float activations, norms and the other element-wise steps. No state.
#include <stdatomic.h>

#include "kernels/blocks.h"
#include "kernels/scalar.h"
#include "kernels/sets.h"

// Sum of the eight lanes in the one order that all sets use.
static float sum_lanes(const float l[8]) {
	return ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]));
}

static float dot(const float *a, const float *b, int n) {
	float lanes[8] = {0};
	for (int i = 0; i < n; i++)
		lanes[i % 8] = fmaf(a[i], b[i], lanes[i % 8]);
	return sum_lanes(lanes);
}

void matmul_f32_scalar(const struct weight *w, int row_begin, int row_end, const float *x, int n_tokens, float *y,
                       size_t y_stride, void *scratch, const _Atomic int *cancel) {
	float *row_values = scratch;
	for (int row = row_begin; row < row_end; row++) {
		if (cancel && atomic_load_explicit(cancel, memory_order_relaxed))
			return;
		dequantize_row_scalar(w, row, row_values);
		for (int t = 0; t < n_tokens; t++)
			y[(size_t)t * y_stride + (size_t)row] = dot(row_values, x + (size_t)t * (size_t)w->k, w->k);
	}
}

void rms_norm_scalar(const float *x, const float *weight, float *y, int n, float eps) {
	float inverse = 1.0f / sqrtf(dot(x, x, n) / (float)n + eps);
	for (int i = 0; i < n; i++)
		y[i] = (x[i] * inverse) * weight[i];
}

void add_scalar(float *x, const float *y, int n) {
	for (int i = 0; i < n; i++)
		x[i] += y[i];
}

void swiglu_scalar(const float *gate, const float *up, float *y, int n) {
	for (int i = 0; i < n; i++)
		y[i] = (gate[i] / (1.0f + kernels_exp(-gate[i]))) * up[i];
}

void rope_scalar(float *x, const float *cos_sin, int head_dim, bool neox) {
	int half = head_dim / 2;
	for (int i = 0; i < half; i++) {
		float *a = neox ? x + i : x + 2 * i;
		float *b = neox ? x + i + half : x + 2 * i + 1;
		float c = cos_sin[2 * i], s = cos_sin[2 * i + 1];
		float a0 = *a, b0 = *b;
		*a = fmaf(a0, c, -(b0 * s));
		*b = fmaf(b0, c, a0 * s);
	}
}

int argmax_scalar(const float *x, int n) {
	float max = -INFINITY;
	for (int i = 0; i < n; i++)
		max = x[i] > max ? x[i] : max;
	for (int i = 0; i < n; i++)
		if (x[i] == max)
			return i;
	return 0; // all NaN
}
