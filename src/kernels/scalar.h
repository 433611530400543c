// SPDX-License-Identifier: MIT
// Scalar maths that every kernel set must agree on bit for bit: 16-bit floats and exp.
//
// Pure inline functions, no headers of any ISA. Compile with contraction off.
#ifndef MASKSTORE_KERNELS_SCALAR_H
#define MASKSTORE_KERNELS_SCALAR_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t f32_bits(float x) {
	uint32_t u;
	memcpy(&u, &x, sizeof u);
	return u;
}

static inline float f32_from_bits(uint32_t u) {
	float x;
	memcpy(&x, &u, sizeof x);
	return x;
}

// IEEE half to float: exact; a signalling NaN becomes quiet, as F16C does.
static inline float f16_to_f32(uint16_t h) {
	uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
	uint32_t rest = h & 0x7fffu;
	if (rest >= 0x7c00u)
		return f32_from_bits(sign | 0x7f800000u | (rest & 0x3ffu) << 13 | (rest > 0x7c00u ? 0x400000u : 0));
	if (rest >= 0x400u)
		return f32_from_bits(sign | ((rest << 13) + 0x38000000u));
	float magnitude = (float)rest * 0x1p-24f; // subnormal halves are multiples of 2^-24
	return f32_from_bits(sign | f32_bits(magnitude));
}

// Float to IEEE half, round-half-even; overflow gives infinity, NaN stays NaN (quiet, payload cut), as F16C does.
static inline uint16_t f32_to_f16(float x) {
	uint32_t u = f32_bits(x);
	uint32_t sign = u >> 16 & 0x8000u;
	u &= 0x7fffffffu;
	if (u > 0x7f800000u)
		return (uint16_t)(sign | 0x7e00u | (u >> 13 & 0x3ffu));
	if (u >= 0x477ff000u) // 65520 and more round to infinity
		return (uint16_t)(sign | 0x7c00u);
	if (u < 0x38800000u) { // below 2^-14: adding 0.5 makes the float addition round at 2^-24
		float shifted = f32_from_bits(u) + 0.5f;
		return (uint16_t)(sign | (f32_bits(shifted) - 0x3f000000u));
	}
	u += 0xfffu + (u >> 13 & 1); // half of the last kept bit, less one if that bit is even
	return (uint16_t)(sign | (u - 0x38000000u) >> 13);
}

// Bfloat16 to float: exact.
static inline float bf16_to_f32(uint16_t h) {
	return f32_from_bits((uint32_t)h << 16);
}

// Float to bfloat16, round-half-even; NaN stays NaN (quiet).
static inline uint16_t f32_to_bf16(float x) {
	uint32_t u = f32_bits(x);
	if ((u & 0x7fffffffu) > 0x7f800000u)
		return (uint16_t)(u >> 16 | 0x40u);
	return (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}

static inline uint16_t load_u16(const void *p) {
	uint16_t u;
	memcpy(&u, p, sizeof u);
	return u;
}

static inline uint32_t load_u32(const void *p) {
	uint32_t u;
	memcpy(&u, p, sizeof u);
	return u;
}

static inline float load_f16(const void *p) {
	return f16_to_f32(load_u16(p));
}

// Constants of kernels_exp. exp(x) = 2^n · exp(r), n = round(x/ln 2), r = x - n·ln 2 in two steps; exp(r) by the
// minimax polynomial of Cephes' expf (Moshier, netlib cephes/single/expf.c) on |r| ≤ ln(2)/2.
#define EXP_LOG2E 1.44269504088896341f
#define EXP_ROUND 12582912.0f // 1.5·2^23: adding it leaves the rounded integer in the low bits
#define EXP_LN2_HI 0.693359375f
#define EXP_LN2_LO -2.12194440e-4f
#define EXP_C5 1.9875691500e-4f
#define EXP_C4 1.3981999507e-3f
#define EXP_C3 8.3334519073e-3f
#define EXP_C2 4.1665795894e-2f
#define EXP_C1 1.6666665459e-1f
#define EXP_C0 5.0000001201e-1f
#define EXP_MIN -86.5f      // below: +0, so no result is subnormal
#define EXP_MAX 88.7228317f // above: infinity

// exp(x) within 2e-7 (relative) on [EXP_MIN, EXP_MAX]; 0 below (and for -inf), infinity above, NaN for NaN.
static inline float kernels_exp(float x) {
	float t = fmaf(x, EXP_LOG2E, EXP_ROUND);
	float n = t - EXP_ROUND;
	float r = fmaf(n, -EXP_LN2_HI, x);
	r = fmaf(n, -EXP_LN2_LO, r);
	float p = fmaf(EXP_C5, r, EXP_C4);
	p = fmaf(p, r, EXP_C3);
	p = fmaf(p, r, EXP_C2);
	p = fmaf(p, r, EXP_C1);
	p = fmaf(p, r, EXP_C0);
	p = fmaf(p, r * r, r) + 1.0f;
	// 2^(n-1) keeps n = 128 in range; the low bits of t hold n.
	float scale = f32_from_bits((f32_bits(t) + 126u) << 23);
	float y = (p * 2.0f) * scale;
	if (x < EXP_MIN)
		y = 0;
	if (x > EXP_MAX)
		y = INFINITY;
	return y;
}

#endif
