// SPDX-License-Identifier: MIT
// Loops at the limits of the AVX-512 VNNI units, for `bench machine` and the shares of benches. Stateless.
#include <immintrin.h>

#include "kernels/sets.h"

#define CHAINS 12 // more than a latency of 5 on two ports

// Unsigned times signed bytes, four products to a 32-bit sum: 64 multiply-adds an instruction.
uint64_t peak_int8_dot_vnni(uint64_t n_steps) {
	__m512i s[CHAINS], w = _mm512_set1_epi8(3), q = _mm512_set1_epi8(-2);
	for (int j = 0; j < CHAINS; j++)
		s[j] = _mm512_setzero_si512();
	for (uint64_t i = 0; i < n_steps; i++) {
#pragma GCC unroll 12
		for (int j = 0; j < CHAINS; j++) {
			s[j] = _mm512_dpbusd_epi32(s[j], w, q);
			__asm__("" : "+v"(s[j]));
		}
	}
	for (int j = 0; j < CHAINS; j++)
		__asm__ volatile("" : : "v"(s[j]));
	return n_steps * CHAINS * 64;
}

uint64_t peak_fma_avx512(uint64_t n_steps) {
	__m512 s[CHAINS], a = _mm512_set1_ps(0.5f), b = _mm512_set1_ps(0.25f);
	for (int j = 0; j < CHAINS; j++)
		s[j] = _mm512_setzero_ps();
	for (uint64_t i = 0; i < n_steps; i++) {
#pragma GCC unroll 12
		for (int j = 0; j < CHAINS; j++)
			s[j] = _mm512_fmadd_ps(a, s[j], b);
	}
	for (int j = 0; j < CHAINS; j++)
		__asm__ volatile("" : : "v"(s[j]));
	return n_steps * CHAINS * 16;
}
