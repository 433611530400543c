// SPDX-License-Identifier: MIT
// What the AVX-512 files share: exp on sixteen values. Include only from avx512_*.c.
#ifndef MASKSTORE_KERNELS_AVX512_COMMON_H
#define MASKSTORE_KERNELS_AVX512_COMMON_H

#include "kernels/avx2_common.h"

// kernels_exp's polynomial and n. p·2^n by scalef rounds once, as the scalar steps do: p is between 0.7 and 1.5, n a whole number, and no result in
// range is subnormal.
static inline __m512 exp_polynomial_512(__m512 x, __m512 *n) {
	const __m512 round = _mm512_set1_ps(EXP_ROUND);
	*n = _mm512_sub_ps(_mm512_fmadd_ps(x, _mm512_set1_ps(EXP_LOG2E), round), round);
	__m512 r = _mm512_fmadd_ps(*n, _mm512_set1_ps(-EXP_LN2_HI), x);
	r = _mm512_fmadd_ps(*n, _mm512_set1_ps(-EXP_LN2_LO), r);
	__m512 p = _mm512_fmadd_ps(_mm512_set1_ps(EXP_C5), r, _mm512_set1_ps(EXP_C4));
	p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(EXP_C3));
	p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(EXP_C2));
	p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(EXP_C1));
	p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(EXP_C0));
	return _mm512_add_ps(_mm512_fmadd_ps(p, _mm512_mul_ps(r, r), r), _mm512_set1_ps(1.0f));
}

// kernels_exp for x ≤ 0 (or NaN).
static inline __m512 exp_sixteen_below_zero(__m512 x) {
	__m512 n, p = exp_polynomial_512(x, &n);
	return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(EXP_MIN), _CMP_NLT_UQ), p, n);
}

// kernels_exp.
static inline __m512 exp_sixteen(__m512 x) {
	const __m512 infinity = _mm512_set1_ps(INFINITY);
	return _mm512_mask_mov_ps(exp_sixteen_below_zero(x), _mm512_cmp_ps_mask(x, _mm512_set1_ps(EXP_MAX), _CMP_GT_OQ), infinity);
}

#endif
