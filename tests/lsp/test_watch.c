// SPDX-License-Identifier: MIT
// R30: who counts as alive.
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "lsp/watch.h"

static void nothing_to_watch(void **state) {
	(void)state;
	assert_true(watch_process_alive(0));
	assert_true(watch_process_alive(-1));
	assert_true(watch_process_alive(INT64_MAX));
}

static void living_processes(void **state) {
	(void)state;
	assert_true(watch_process_alive(getpid()));
	assert_true(watch_process_alive(1)); // EPERM, where we are not root, is alive too
}

static void dead_and_undead(void **state) {
	(void)state;
	pid_t child = fork();
	if (!child)
		for (;;)
			pause();
	assert_true(watch_process_alive(child));
	kill(child, SIGKILL);
	siginfo_t info;
	assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0); // dead, not yet collected
	assert_false(watch_process_alive(child));
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_false(watch_process_alive(child));
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_to_watch), cmocka_unit_test(living_processes), cmocka_unit_test(dead_and_undead)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
