// SPDX-License-Identifier: MIT
// Thread start with signals blocked around pthread_create: the new thread inherits the mask.
#include "base/thread.h"

#include <signal.h>
#include <time.h>

enum err thread_start(pthread_t *out, void *(*run)(void *), void *arg) {
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int failed = pthread_create(out, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return failed ? ERR_NOMEM : ERR_OK;
}

void thread_cond_init(pthread_cond_t *cond) {
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
}
