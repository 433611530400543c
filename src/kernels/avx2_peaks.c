// SPDX-License-Identifier: MIT
// Loops that run at the machine's limits, for `bench machine`. Stateless.
#include "kernels/avx2_common.h"
#include "kernels/sets.h"

// Eight streams, as the matrix-vector product reads: one stream leaves a core's memory parallelism unused (measured on a
// virtual Sapphire Rapids: 1.4 to 1.8 times slower).
static uint64_t read_avx2(const void *data, size_t n_bytes) {
	size_t stream_bytes = n_bytes / 8 / 64 * 64;
	const uint8_t *p = data;
	__m256i a = _mm256_setzero_si256(), b = a;
	for (size_t i = 0; i < stream_bytes; i += 64) {
#pragma GCC unroll 8
		for (size_t s = 0; s < 8; s++) {
			const uint8_t *at = p + s * stream_bytes + i;
			__builtin_prefetch(at + 512, 0, 3);
			a = _mm256_xor_si256(a, _mm256_loadu_si256((const __m256i *)(const void *)at));
			b = _mm256_xor_si256(b, _mm256_loadu_si256((const __m256i *)(const void *)(at + 32)));
		}
	}
	uint64_t lanes[4], rest = 0;
	_mm256_storeu_si256((__m256i *)(void *)lanes, _mm256_xor_si256(a, b));
	for (size_t i = 8 * stream_bytes; i < n_bytes; i++)
		rest += p[i];
	return lanes[0] ^ lanes[1] ^ lanes[2] ^ lanes[3] ^ rest;
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
