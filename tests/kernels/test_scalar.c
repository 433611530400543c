// SPDX-License-Identifier: MIT
// 16-bit floats and exp: against definitions in double precision.
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/kernels/gen.h"

// The value of a half by its definition (IEEE 754 binary16).
static double half_value(uint16_t h) {
	int exponent = h >> 10 & 31, mantissa = h & 1023;
	double magnitude = exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
	return h & 0x8000 ? -magnitude : magnitude;
}

static void test_half_to_float(void **state) {
	(void)state;
	for (uint32_t h = 0; h < 0x10000; h++) {
		float x = f16_to_f32((uint16_t)h);
		if ((h >> 10 & 31) < 31) {
			assert_true((double)x == half_value((uint16_t)h) && !signbit(x) == !(h & 0x8000));
			assert_int_equal(f32_to_f16(x), h);
		} else if (h & 1023) {
			assert_true(isnan(x));
			assert_int_equal(f32_to_f16(x), h | 0x200);
		} else {
			assert_true(isinf(x) && !signbit(x) == !(h & 0x8000));
			assert_int_equal(f32_to_f16(x), h);
		}
	}
}

// The nearest half, the even one of two: no half is nearer, and of equals the one with mantissa bit 0 clear.
static void check_rounding(float x) {
	uint16_t h = f32_to_f16(x);
	double magnitude = fabs((double)x), at = half_value(h & 0x7fff);
	if (magnitude >= 65520) { // half the way from 65504 to 65536
		assert_int_equal(h & 0x7fff, 0x7c00);
		return;
	}
	assert_int_equal(h >> 15, signbit(x) ? 1 : 0);
	double up = fabs(half_value((uint16_t)((h & 0x7fff) + 1)) - magnitude), here = fabs(at - magnitude);
	double down = h & 0x7fff ? fabs(half_value((uint16_t)((h & 0x7fff) - 1)) - magnitude) : INFINITY;
	bool even = !(h & 1);
	if (!(here <= up && here <= down) || ((here == up || here == down) && here != 0 && !even))
		fail_msg("%a became %04x", (double)x, h);
}

static void test_float_to_half(void **state) {
	(void)state;
	struct rng g = {1};
	for (int i = 0; i < 2000000; i++) {
		uint32_t bits = (uint32_t)rng_next(&g);
		bits = (bits & 0x807fffffu) | (uint32_t)(95 + rng_below(&g, 52)) << 23; // 2^-32 … 2^19
		check_rounding(f32_from_bits(bits));
	}
	for (uint32_t h = 0; h < 0x7bff; h++) { // ties and their neighbours
		float tie = (float)((half_value((uint16_t)h) + half_value((uint16_t)(h + 1))) / 2);
		check_rounding(tie);
		check_rounding(-tie);
		check_rounding(nextafterf(tie, 0));
		check_rounding(nextafterf(tie, INFINITY));
	}
	assert_int_equal(f32_to_f16(65519.996f), 0x7bff);
	assert_int_equal(f32_to_f16(65520.0f), 0x7c00);
	assert_int_equal(f32_to_f16(-INFINITY), 0xfc00);
}

// Every bfloat16 comes back; between two neighbours the nearer one is taken, the even one in the middle.
static void test_bfloat16(void **state) {
	(void)state;
	for (uint32_t h = 0; h < 0x10000; h++) {
		float x = bf16_to_f32((uint16_t)h);
		if (isnan(x)) {
			assert_int_equal(f32_to_bf16(x), h | 0x40);
			continue;
		}
		assert_int_equal(f32_to_bf16(x), h);
		float next = bf16_to_f32((uint16_t)(h + 1));
		if (isinf(x) || isinf(next) || isnan(next) || h == 0x7fff || h == 0xffff)
			continue;
		float tie = (float)(((double)x + (double)next) / 2);
		assert_int_equal(f32_to_bf16(tie), h & 1 ? h + 1 : h);
		assert_int_equal(f32_to_bf16(nextafterf(tie, x)), h);
		assert_int_equal(f32_to_bf16(nextafterf(tie, next)), h + 1);
	}
	assert_int_equal(f32_to_bf16(FLT_MAX), 0x7f80); // rounds to infinity
}

static void test_exp_accuracy(void **state) {
	(void)state;
	double worst = 0;
	float at = 0;
	for (double v = (double)EXP_MIN; v < 88.72; v += 1.0 / 8192) {
		float x = (float)v;
		double truth = exp((double)x), error = fabs((double)kernels_exp(x) - truth) / truth;
		if (error > worst) {
			worst = error;
			at = x;
		}
	}
	print_message("exp: worst relative error %.3g at %.9g\n", worst, (double)at);
	assert_true(worst < 2e-7);
}

static void test_exp_limits(void **state) {
	(void)state;
	assert_true(kernels_exp(0.0f) == 1.0f && kernels_exp(-0.0f) == 1.0f);
	assert_true(kernels_exp(-INFINITY) == 0.0f && kernels_exp(-1e30f) == 0.0f && kernels_exp(-87.0f) == 0.0f);
	assert_true(kernels_exp(INFINITY) == INFINITY && kernels_exp(1e30f) == INFINITY && kernels_exp(89.0f) == INFINITY);
	assert_true(isnan(kernels_exp(NAN)));
	assert_true(fpclassify(kernels_exp(EXP_MIN)) == FP_NORMAL && isfinite(kernels_exp(EXP_MAX)));
	// Larger arguments never give smaller results by more than a rounding.
	for (float x = -20; x < 20; x = nextafterf(x + 1e-4f, INFINITY))
		assert_true(kernels_exp(nextafterf(x, INFINITY)) >= kernels_exp(x) * (1 - 0x1p-23f));
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_half_to_float), cmocka_unit_test(test_float_to_half), cmocka_unit_test(test_bfloat16),
	                                   cmocka_unit_test(test_exp_accuracy), cmocka_unit_test(test_exp_limits)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
