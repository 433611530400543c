// SPDX-License-Identifier: MIT
// A turn lasts from one preparation of the poll to the next. Its work is the thread's CPU time: neither waiting in the poll counts nor waiting for a core that
// the decoder's threads keep busy.
#include "loop_time.h"

#include <time.h>

static uint64_t thread_cpu_ns(void) {
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void turn(uv_prepare_t *handle) {
	struct loop_time *t = handle->data;
	uint64_t now = thread_cpu_ns();
	if (t->begun) {
		uint64_t us = (now - t->turn_ns) / 1000;
		int i = 0;
		while (i < LOOP_TIME_BUCKETS - 1 && us > (uint64_t)LOOP_TIME_FIRST_US << i)
			i++;
		t->n[i]++;
		t->max_us = us > t->max_us ? us : t->max_us;
	}
	t->begun = true;
	t->turn_ns = now;
}

void loop_time_init(struct loop_time *t, uv_loop_t *loop) {
	*t = (struct loop_time){0};
	uv_prepare_init(loop, &t->prepare);
	t->prepare.data = t;
	uv_prepare_start(&t->prepare, turn);
	uv_unref((uv_handle_t *)&t->prepare); // does not keep the loop alive
}
