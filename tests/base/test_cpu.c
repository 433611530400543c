// SPDX-License-Identifier: MIT
// What the CPU module reports, against what Linux reports.
#define _GNU_SOURCE // sched_setaffinity
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/cpu.h"

static bool has_word(const char *line, const char *word) {
	size_t n = strlen(word);
	for (const char *p = line; (p = strstr(p, word)); p += n)
		if ((p == line || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\n' || !p[n]))
			return true;
	return false;
}

static void test_flags(void **state) {
	(void)state;
	FILE *f = fopen("/proc/cpuinfo", "r");
	if (!f)
		skip();
	static char line[8192];
	bool found = false, expected = false, amx = false;
	while (fgets(line, sizeof line, f))
		if (!strncmp(line, "flags", 5)) {
			found = true;
			expected = has_word(line, "avx2") && has_word(line, "fma") && has_word(line, "f16c");
			amx = has_word(line, "amx_tile") && has_word(line, "amx_int8");
		}
	fclose(f);
	if (!found) // not x86: no flags
		expected = false;
	assert_int_equal((cpu_flags() & CPU_AVX2_FMA_F16C) != 0, expected);
	assert_true(amx || !(cpu_flags() & CPU_AMX_INT8)); // Linux may refuse what the CPU has
}

// Each level has what the one below has, and no more than the machine.
static void test_levels(void **state) {
	(void)state;
	static const char *const levels[] = {"scalar", "avx2", "avx512", "amx"};
	unsigned below = 0;
	assert_int_equal(cpu_flags_up_to("scalar"), 0);
	for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
		unsigned flags = cpu_flags_up_to(levels[i]);
		assert_int_equal(flags & below, below);
		below = flags;
	}
	assert_int_equal(cpu_flags_up_to("avx2") & ~(unsigned)CPU_AVX2_FMA_F16C, 0);
	assert_int_equal(cpu_flags_up_to("avx512") & CPU_AMX_INT8, 0);
	assert_int_equal(cpu_flags_up_to("amx"), cpu_flags());
	assert_int_equal(cpu_flags_up_to(NULL), cpu_flags());
}

// Bound to one core, one core is what it counts.
static void test_count(void **state) {
	(void)state;
	assert_true(cpu_count() >= 1);
	cpu_set_t old, one;
	assert_int_equal(sched_getaffinity(0, sizeof old, &old), 0);
	CPU_ZERO(&one);
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &old)) {
			CPU_SET(i, &one);
			break;
		}
	assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
	assert_int_equal(cpu_count(), 1);
	assert_int_equal(sched_setaffinity(0, sizeof old, &old), 0);
	assert_true(cpu_count() <= CPU_COUNT(&old));
}

static void test_clock(void **state) {
	(void)state;
	int64_t last = clock_us();
	assert_true(last > 0);
	for (int i = 0; i < 1000; i++) {
		int64_t now = clock_us();
		assert_true(now >= last);
		last = now;
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_flags), cmocka_unit_test(test_levels), cmocka_unit_test(test_count), cmocka_unit_test(test_clock)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
