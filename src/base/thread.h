// SPDX-License-Identifier: MIT
// Threads with all signals blocked, so that signals reach the main thread only.
#ifndef MASKSTORE_BASE_THREAD_H
#define MASKSTORE_BASE_THREAD_H

#include <pthread.h>

#include "base/err.h"

// Starts `run(arg)`; join with pthread_join. ERR_NOMEM if the system refuses.
enum err thread_start(pthread_t *out, void *(*run)(void *), void *arg) ERR_MUST_CHECK;

// A condition variable whose timed waits are against CLOCK_MONOTONIC, the clock of clock_us.
void thread_cond_init(pthread_cond_t *cond);

#endif
