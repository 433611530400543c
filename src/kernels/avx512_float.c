// SPDX-License-Identifier: MIT
// The element-wise step that prefill spends time in, with sixteen lanes. Every output sees the same operations in the same order as in the scalar set.
// Stateless.
#include "kernels/avx2_common.h"
#include "kernels/avx2_sets.h"
#include "kernels/avx512_common.h"
#include "kernels/sets.h"

void swiglu_avx512(const float *gate, const float *up, float *y, int n) {
	const __m512i sign = _mm512_set1_epi32((int)0x80000000u);
	const __m512 one = _mm512_set1_ps(1.0f);
	int i = 0;
	for (; i + 16 <= n; i += 16) {
		__m512 g = _mm512_loadu_ps(gate + i);
		__m512 e = exp_sixteen(_mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(g), sign)));
		_mm512_storeu_ps(y + i, _mm512_mul_ps(_mm512_div_ps(g, _mm512_add_ps(one, e)), _mm512_loadu_ps(up + i)));
	}
	swiglu_scalar(gate + i, up + i, y + i, n - i);
}
