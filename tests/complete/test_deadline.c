// SPDX-License-Identifier: MIT
// The watchdog: fires once, leaves other values alone, never touches a flag after disarm.
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "complete/deadline.h"

static void sleep_ms(long ms) {
	nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static int wait_change(_Atomic int *flag) {
	for (int i = 0; i < 5000 && atomic_load(flag) == 0; i++)
		sleep_ms(1);
	return atomic_load(flag);
}

static void fires_at_its_time(void **state) {
	(void)state;
	struct deadline *d;
	assert_int_equal(deadline_create(&d), ERR_OK);
	for (int i = 0; i < 20; i++) {
		_Atomic int flag = 0;
		int64_t when_us = clock_us() + 3000;
		deadline_arm(d, when_us, &flag, 7);
		assert_int_equal(wait_change(&flag), 7);
		assert_true(clock_us() >= when_us);
		deadline_disarm(d);
	}
	deadline_destroy(d);
}

static void leaves_a_raised_flag(void **state) {
	(void)state;
	struct deadline *d;
	assert_int_equal(deadline_create(&d), ERR_OK);
	_Atomic int flag = 1;
	deadline_arm(d, clock_us() - 1, &flag, 7);
	sleep_ms(20);
	deadline_disarm(d);
	assert_int_equal(atomic_load(&flag), 1);
	deadline_destroy(d);
}

static void disarmed_is_silent(void **state) {
	(void)state;
	struct deadline *d;
	assert_int_equal(deadline_create(&d), ERR_OK);
	for (int i = 0; i < 200; i++) {
		_Atomic int flag = 0;
		deadline_arm(d, clock_us() + 1000 * (i % 3), &flag, 7);
		deadline_disarm(d);
		int seen = atomic_load(&flag);
		sleep_ms(i % 10 == 0 ? 4 : 0);
		assert_int_equal(atomic_load(&flag), seen);
	}
	deadline_destroy(d);
	deadline_destroy(NULL);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fires_at_its_time),
		cmocka_unit_test(leaves_a_raised_flag),
		cmocka_unit_test(disarmed_is_silent),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
