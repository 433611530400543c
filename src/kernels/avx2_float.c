// SPDX-License-Identifier: MIT
// AVX2 activation quantisation, products with float activations and the element-wise steps. Every output sees the same
// operations in the same order as in the scalar set. Stateless.
#include "kernels/avx2_common.h"
#include "kernels/avx2_sets.h"
#include "kernels/sets.h"

static inline __m256 load_abs(const float *x) {
	return _mm256_and_ps(_mm256_loadu_ps(x), _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff)));
}

static inline __m256i max_bits(__m256 a, __m256 b) {
	return _mm256_max_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b));
}

// Bits of max |x| of 32 values: order of bits is order of values, NaN on top.
static uint32_t top_bits(const float *x) {
	__m256i m = _mm256_max_epi32(max_bits(load_abs(x), load_abs(x + 8)), max_bits(load_abs(x + 16), load_abs(x + 24)));
	__m128i s = _mm_max_epi32(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
	s = _mm_max_epi32(s, _mm_shuffle_epi32(s, 0x4e));
	s = _mm_max_epi32(s, _mm_shuffle_epi32(s, 0xb1));
	return (uint32_t)_mm_cvtsi128_si32(s);
}

static inline __m256i round_scaled(const float *x, __m256 inverse) {
	return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x), inverse));
}

static void quantize_block(const float *x, struct act_block *out) {
	uint32_t top = top_bits(x);
	float max = f32_from_bits(top);
	if (top >= 0x7f800000u || max < 1e-30f) {
		*out = (struct act_block){.d = top >= 0x7f800000u ? f32_from_bits(0x7fc00000u) : 0};
		return;
	}
	__m256 inverse = _mm256_set1_ps(127.0f / max);
	__m256i a = _mm256_packs_epi32(round_scaled(x, inverse), round_scaled(x + 8, inverse));
	__m256i b = _mm256_packs_epi32(round_scaled(x + 16, inverse), round_scaled(x + 24, inverse));
	__m256i q = _mm256_packs_epi16(a, b); // 4-byte groups in the order 0 2 4 6 1 3 5 7
	q = _mm256_permutevar8x32_epi32(q, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
	_mm256_storeu_si256((__m256i *)(void *)out->q, q);
	out->d = max / 127.0f;
	__m256i s = _mm256_madd_epi16(_mm256_add_epi16(a, b), _mm256_set1_epi16(1));
	__m128i t = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
	t = _mm_add_epi32(t, _mm_shuffle_epi32(t, 0x4e));
	t = _mm_add_epi32(t, _mm_shuffle_epi32(t, 0xb1));
	out->sum = _mm_cvtsi128_si32(t);
}

void quantize_avx2(const float *x, struct act_block *out, int k) {
	for (int b = 0; b < k / 32; b++)
		quantize_block(x + 32 * b, out + b);
}

// The tail of a dot product (n mod 8 values) goes on in lanes 0….
static __m256 add_tail(__m256 lanes, const float *a, const float *b, int n) {
	float l[8];
	_mm256_storeu_ps(l, lanes);
	for (int i = 0; i < n; i++)
		l[i] = _mm_cvtss_f32(_mm_fmadd_ss(_mm_set_ss(a[i]), _mm_set_ss(b[i]), _mm_set_ss(l[i])));
	return _mm256_loadu_ps(l);
}

static float finish_dot(__m256 lanes, const float *a, const float *b, int n) {
	return sum_lanes(n % 8 ? add_tail(lanes, a + n / 8 * 8, b + n / 8 * 8, n % 8) : lanes);
}

static float dot(const float *a, const float *b, int n) {
	__m256 lanes = _mm256_setzero_ps();
	for (int i = 0; i + 8 <= n; i += 8)
		lanes = _mm256_fmadd_ps(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i), lanes);
	return finish_dot(lanes, a, b, n);
}

// Four rows (w, `stride` floats apart) times two tokens: eight chains hide the latency of fma.
static void dot_4x2(const float *w, size_t stride, const float *x0, const float *x1, int n, float y0[4], float y1[4]) {
	const float *w1 = w + stride, *w2 = w1 + stride, *w3 = w2 + stride;
	__m256 a0 = _mm256_setzero_ps(), a1 = a0, a2 = a0, a3 = a0, b0 = a0, b1 = a0, b2 = a0, b3 = a0;
	for (int i = 0; i + 8 <= n; i += 8) {
		__m256 p = _mm256_loadu_ps(x0 + i), q = _mm256_loadu_ps(x1 + i), r = _mm256_loadu_ps(w + i);
		a0 = _mm256_fmadd_ps(r, p, a0);
		b0 = _mm256_fmadd_ps(r, q, b0);
		r = _mm256_loadu_ps(w1 + i);
		a1 = _mm256_fmadd_ps(r, p, a1);
		b1 = _mm256_fmadd_ps(r, q, b1);
		r = _mm256_loadu_ps(w2 + i);
		a2 = _mm256_fmadd_ps(r, p, a2);
		b2 = _mm256_fmadd_ps(r, q, b2);
		r = _mm256_loadu_ps(w3 + i);
		a3 = _mm256_fmadd_ps(r, p, a3);
		b3 = _mm256_fmadd_ps(r, q, b3);
	}
	__m256 a[4] = {a0, a1, a2, a3}, b[4] = {b0, b1, b2, b3};
	for (size_t j = 0; j < 4; j++) {
		y0[j] = finish_dot(a[j], w + j * stride, x0, n);
		y1[j] = finish_dot(b[j], w + j * stride, x1, n);
	}
}

// n_rows ≤ 4 dequantised rows times all tokens.
static void rows_times_tokens(const float *w, size_t stride, int n_rows, const float *x, int n_tokens, int k, float *y,
                              size_t y_stride) {
	int t = 0;
	for (; n_rows == F32_PANEL_ROWS && t + 2 <= n_tokens; t += 2) {
		const float *x0 = x + (size_t)t * (size_t)k;
		float *y0 = y + (size_t)t * y_stride;
		dot_4x2(w, stride, x0, x0 + k, k, y0, y0 + y_stride);
	}
	for (; t < n_tokens; t++)
		for (int r = 0; r < n_rows; r++)
			y[(size_t)t * y_stride + (size_t)r] = dot(w + (size_t)r * stride, x + (size_t)t * (size_t)k, k);
}

void matmul_f32_avx2(const struct weight *w, int row_begin, int row_end, const float *x, int n_tokens, float *y,
                     size_t y_stride, void *scratch, const _Atomic int *cancel) {
	float *panel = scratch;
	size_t stride = ((size_t)w->k + 15) / 16 * 16;
	for (int row = row_begin; row < row_end; row += F32_PANEL_ROWS) {
		if (cancelled(cancel))
			return;
		int n = row_end - row < F32_PANEL_ROWS ? row_end - row : F32_PANEL_ROWS;
		for (int r = 0; r < n; r++)
			dequantize_row_scalar(w, row + r, panel + (size_t)r * stride);
		rows_times_tokens(panel, stride, n, x, n_tokens, w->k, y + row, y_stride);
	}
}

void rms_norm_avx2(const float *x, const float *weight, float *y, int n, float eps) {
	float inverse = 1.0f / sqrtf(dot(x, x, n) / (float)n + eps);
	__m256 scale = _mm256_set1_ps(inverse);
	int i = 0;
	for (; i + 8 <= n; i += 8)
		_mm256_storeu_ps(y + i, _mm256_mul_ps(_mm256_mul_ps(_mm256_loadu_ps(x + i), scale), _mm256_loadu_ps(weight + i)));
	for (; i < n; i++)
		y[i] = (x[i] * inverse) * weight[i];
}

void add_avx2(float *x, const float *y, int n) {
	int i = 0;
	for (; i + 8 <= n; i += 8)
		_mm256_storeu_ps(x + i, _mm256_add_ps(_mm256_loadu_ps(x + i), _mm256_loadu_ps(y + i)));
	for (; i < n; i++)
		x[i] += y[i];
}

void swiglu_avx2(const float *gate, const float *up, float *y, int n) {
	const __m256 sign = _mm256_set1_ps(-0.0f), one = _mm256_set1_ps(1.0f);
	int i = 0;
	for (; i + 8 <= n; i += 8) {
		__m256 g = _mm256_loadu_ps(gate + i);
		__m256 e = exp_lanes(_mm256_xor_ps(g, sign));
		_mm256_storeu_ps(y + i, _mm256_mul_ps(_mm256_div_ps(g, _mm256_add_ps(one, e)), _mm256_loadu_ps(up + i)));
	}
	swiglu_scalar(gate + i, up + i, y + i, n - i);
}

static void rope_neox(float *x, const float *cos_sin, int half) {
	int i = 0;
	for (; i + 4 <= half; i += 4) {
		__m128 p = _mm_loadu_ps(cos_sin + 2 * i), q = _mm_loadu_ps(cos_sin + 2 * i + 4);
		__m128 c = _mm_shuffle_ps(p, q, 0x88), s = _mm_shuffle_ps(p, q, 0xdd);
		__m128 a = _mm_loadu_ps(x + i), b = _mm_loadu_ps(x + i + half);
		_mm_storeu_ps(x + i, _mm_fmsub_ps(a, c, _mm_mul_ps(b, s)));
		_mm_storeu_ps(x + i + half, _mm_fmadd_ps(b, c, _mm_mul_ps(a, s)));
	}
	for (; i < half; i++) {
		float a = x[i], b = x[i + half], c = cos_sin[2 * i], s = cos_sin[2 * i + 1];
		x[i] = fmaf(a, c, -(b * s));
		x[i + half] = fmaf(b, c, a * s);
	}
}

static void rope_pairs(float *x, const float *cos_sin, int half) {
	int i = 0;
	for (; i + 4 <= half; i += 4) {
		__m256 v = _mm256_loadu_ps(x + 2 * i), cs = _mm256_loadu_ps(cos_sin + 2 * i);
		__m256 cross = _mm256_mul_ps(_mm256_permute_ps(v, 0xb1), _mm256_movehdup_ps(cs)); // b·s, a·s
		_mm256_storeu_ps(x + 2 * i, _mm256_fmaddsub_ps(v, _mm256_moveldup_ps(cs), cross));
	}
	rope_scalar(x + 2 * i, cos_sin + 2 * i, 2 * (half - i), false);
}

void rope_avx2(float *x, const float *cos_sin, int head_dim, bool neox) {
	if (neox)
		rope_neox(x, cos_sin, head_dim / 2);
	else
		rope_pairs(x, cos_sin, head_dim / 2);
}

int argmax_avx2(const float *x, int n) {
	__m256 top = _mm256_set1_ps(-INFINITY);
	int i = 0;
	for (; i + 8 <= n; i += 8)
		top = _mm256_max_ps(_mm256_loadu_ps(x + i), top); // the second operand wins against NaN
	float lanes[8], max = -INFINITY;
	_mm256_storeu_ps(lanes, top);
	for (int j = 0; j < 8; j++)
		max = lanes[j] > max ? lanes[j] : max;
	for (; i < n; i++)
		max = x[i] > max ? x[i] : max;
	__m256 wanted = _mm256_set1_ps(max);
	for (i = 0; i + 8 <= n; i += 8) {
		int hits = _mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(x + i), wanted, _CMP_EQ_OQ));
		if (hits)
			return i + __builtin_ctz((unsigned)hits);
	}
	for (; i < n; i++)
		if (x[i] == max)
			return i;
	return 0;
}
