// SPDX-License-Identifier: MIT
// What the AVX2 files share: eight lanes and their sum, exp on eight values. Include only from avx2_*.c.
#ifndef MASKSTORE_KERNELS_AVX2_COMMON_H
#define MASKSTORE_KERNELS_AVX2_COMMON_H

#include <immintrin.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/scalar.h"

// Kernels are written once for constant parameters and expanded for each.
#define ALWAYS_INLINE static inline __attribute__((always_inline))

static inline bool cancelled(const _Atomic int *cancel) {
	return cancel && atomic_load_explicit(cancel, memory_order_relaxed);
}

static inline int min_int(int a, int b) {
	return a < b ? a : b;
}

static inline void put_u32(uint8_t *record, size_t at, uint32_t value) {
	memcpy(record + at, &value, sizeof value);
}

// ((l0+l4)+(l2+l6)) + ((l1+l5)+(l3+l7)), the order of kernels.h.
static inline float sum_lanes(__m256 l) {
	__m128 a = _mm_add_ps(_mm256_castps256_ps128(l), _mm256_extractf128_ps(l, 1)); // l0+l4 l1+l5 l2+l6 l3+l7
	__m128 b = _mm_add_ps(a, _mm_movehl_ps(a, a));
	return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}

// exp(r)'s polynomial and n (in the low bits of *t) of kernels_exp.
static inline __m256 exp_polynomial(__m256 x, __m256 *t) {
	*t = _mm256_fmadd_ps(x, _mm256_set1_ps(EXP_LOG2E), _mm256_set1_ps(EXP_ROUND));
	__m256 n = _mm256_sub_ps(*t, _mm256_set1_ps(EXP_ROUND));
	__m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-EXP_LN2_HI), x);
	r = _mm256_fmadd_ps(n, _mm256_set1_ps(-EXP_LN2_LO), r);
	__m256 p = _mm256_fmadd_ps(_mm256_set1_ps(EXP_C5), r, _mm256_set1_ps(EXP_C4));
	p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_C3));
	p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_C2));
	p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_C1));
	p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_C0));
	return _mm256_add_ps(_mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r), _mm256_set1_ps(1.0f));
}

// kernels_exp on eight values: the same steps.
static inline __m256 exp_lanes(__m256 x) {
	__m256 t, p = exp_polynomial(x, &t);
	__m256i bits = _mm256_add_epi32(_mm256_castps_si256(t), _mm256_set1_epi32(126));
	__m256 scale = _mm256_castsi256_ps(_mm256_slli_epi32(bits, 23));
	__m256 y = _mm256_mul_ps(_mm256_mul_ps(p, _mm256_set1_ps(2.0f)), scale);
	y = _mm256_andnot_ps(_mm256_cmp_ps(x, _mm256_set1_ps(EXP_MIN), _CMP_LT_OQ), y);
	return _mm256_blendv_ps(y, _mm256_set1_ps(INFINITY), _mm256_cmp_ps(x, _mm256_set1_ps(EXP_MAX), _CMP_GT_OQ));
}

// The same for x ≤ 0 (or NaN): 2^n is in range itself, so fewer steps give the same bits.
static inline __m256 exp_lanes_below_zero(__m256 x) {
	__m256 t, p = exp_polynomial(x, &t);
	__m256i bits = _mm256_add_epi32(_mm256_castps_si256(t), _mm256_set1_epi32(127));
	__m256 y = _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(bits, 23)));
	return _mm256_andnot_ps(_mm256_cmp_ps(x, _mm256_set1_ps(EXP_MIN), _CMP_LT_OQ), y);
}

#endif
