// SPDX-License-Identifier: MIT
// The arithmetic of prefill speed: what was measured is predicted, in between and beyond, and windows follow from it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "complete/pace.h"

// A machine whose tokens cost `base` µs and `slope` µs for each token before them, measured over a file of n_tokens in steps of 128.
static struct pace measured(double base, double slope, size_t n_tokens) {
	struct pace p = {0};
	for (size_t at = 0; at + 128 <= n_tokens; at += 128)
		pace_measure(&p, at, 128, (int64_t)(128 * (base + slope * ((double)at + 64))));
	return p;
}

static void near(double found, double wanted) {
	if (found < wanted * 0.97 || found > wanted * 1.03)
		fail_msg("%f, wanted %f", found, wanted);
}

static void a_line_is_found(void **state) {
	(void)state;
	struct pace p = measured(1500, 0.5, 4096);
	near(pace_predict_us(&p, 0, 512), 512 * (1500 + 0.5 * 256));
	near(pace_predict_us(&p, 3800, 200), 200 * (1500 + 0.5 * 3900));
	near(pace_predict_us(&p, 8000, 100), 100 * (1500 + 0.5 * 8050));
}

static void one_average_serves_both(void **state) {
	(void)state;
	struct pace shallow = measured(1500, 0.5, 900), deep = {0};
	assert_true(pace_predict_us(&shallow, 5000, 100) == pace_predict_us(&shallow, 0, 100));
	pace_measure(&deep, 4000, 128, 128 * 4000);
	near(pace_predict_us(&deep, 0, 100), 100 * 4000);
}

static void nonsense_is_harmless(void **state) {
	(void)state;
	struct pace p = {0};
	near(pace_predict_us(&p, 0, 128), 1e6); // nothing measured
	pace_measure(&p, 0, 47, 1000);
	pace_measure(&p, 0, 128, 0);
	pace_measure(&p, 0, 128, -5);
	near(pace_predict_us(&p, 0, 128), 1e6);
	pace_measure(&p, 0, 128, 128 * 4000); // deep ones cheaper than shallow ones: no line through them
	pace_measure(&p, 4000, 128, 128 * 1000);
	near(pace_predict_us(&p, 0, 100), 100 * 4000);
	near(pace_predict_us(&p, 4000, 100), 100 * 1000);
	struct pace steep = {{1000, 9000}, {600, 1200}}; // a line that would be below zero at the start
	assert_true(pace_predict_us(&steep, 0, 100) >= 100 * 500);
	near(pace_predict_us(&p, 0, 0), 0);
}

static void windows_follow(void **state) {
	(void)state;
	struct pace none = {0}, fast = measured(1400, 0.3, 4096), slow = measured(12000, 1, 4096), slowest = measured(1e6, 0, 4096);
	assert_int_equal(pace_window_tokens(&none, 2500000), 192);
	assert_int_equal(pace_window_tokens(&fast, 2500000), 512); // however slow its deep places are
	assert_int_equal(pace_window_tokens(&slow, 2500000), 96);
	assert_int_equal(pace_window_tokens(&slowest, 2500000), 96);
	assert_int_equal(pace_window_tokens(&fast, 500000), 192); // the time left counts
	assert_false(pace_is_slow(&fast, 0, 900, 10000000));
	assert_true(pace_is_slow(&fast, 7000, 900, 10000000));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_is_found), cmocka_unit_test(one_average_serves_both), cmocka_unit_test(nonsense_is_harmless), cmocka_unit_test(windows_follow),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
