// SPDX-License-Identifier: MIT
// Loops that run at the machine's limits, for `bench machine`. Stateless.
#include "kernels/avx2_common.h"
#include "kernels/sets.h"

static uint64_t read_avx2(const void *data, size_t n_bytes) {
	const uint8_t *p = data;
	__m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
	for (size_t i = 0; i + 128 <= n_bytes; i += 128) {
		// Twice a page ahead, so that the hardware's prefetcher never has to restart at a page's edge.
		__builtin_prefetch(p + i + 8192, 0, 3);
		__builtin_prefetch(p + i + 8192 + 64, 0, 3);
		const __m256i *v = (const __m256i *)(const void *)(p + i);
		a = _mm256_xor_si256(a, _mm256_loadu_si256(v));
		b = _mm256_xor_si256(b, _mm256_loadu_si256(v + 1));
		c = _mm256_xor_si256(c, _mm256_loadu_si256(v + 2));
		d = _mm256_xor_si256(d, _mm256_loadu_si256(v + 3));
	}
	uint64_t lanes[4];
	_mm256_storeu_si256((__m256i *)(void *)lanes, _mm256_xor_si256(_mm256_xor_si256(a, b), _mm256_xor_si256(c, d)));
	return lanes[0] ^ lanes[1] ^ lanes[2] ^ lanes[3];
}

// A step is eight multiply-add-accumulate pairs; the empty asm keeps the products from being hoisted.
static uint64_t int8_dot_avx2(uint64_t n_steps) {
	__m256i s[8], w = _mm256_set1_epi8(3), q = _mm256_set1_epi8(-2);
	for (int j = 0; j < 8; j++)
		s[j] = _mm256_setzero_si256();
	for (uint64_t i = 0; i < n_steps; i++) {
#pragma GCC unroll 8
		for (int j = 0; j < 8; j++) {
			__asm__("" : "+x"(w), "+x"(q));
			s[j] = _mm256_add_epi16(s[j], _mm256_maddubs_epi16(w, q));
		}
	}
	for (int j = 0; j < 8; j++)
		__asm__ volatile("" : : "x"(s[j]));
	return n_steps * 8 * 32;
}

static uint64_t fma_avx2(uint64_t n_steps) {
	__m256 s[12], a = _mm256_set1_ps(0.5f), b = _mm256_set1_ps(0.25f);
	for (int j = 0; j < 12; j++)
		s[j] = _mm256_setzero_ps();
	for (uint64_t i = 0; i < n_steps; i++) {
#pragma GCC unroll 12
		for (int j = 0; j < 12; j++)
			s[j] = _mm256_fmadd_ps(a, s[j], b);
	}
	for (int j = 0; j < 12; j++)
		__asm__ volatile("" : : "x"(s[j]));
	return n_steps * 12 * 8;
}

const struct kernels_peaks kernels_peaks_avx2 = {read_avx2, int8_dot_avx2, fma_avx2};
