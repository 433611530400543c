// SPDX-License-Identifier: MIT
// A turn lasts from one preparation of the poll to the next; the loop itself says how much of that it waited.
#include "loop_time.h"

static void turn(uv_prepare_t *handle) {
	struct loop_time *t = handle->data;
	uint64_t now = uv_hrtime(), idle = uv_metrics_idle_time(handle->loop);
	if (t->turn_ns) {
		uint64_t waited = idle - t->idle_ns, passed = now - t->turn_ns;
		uint64_t us = passed > waited ? (passed - waited) / 1000 : 0;
		int i = 0;
		while (i < LOOP_TIME_BUCKETS - 1 && us > (uint64_t)LOOP_TIME_FIRST_US << i)
			i++;
		t->n[i]++;
		t->max_us = us > t->max_us ? us : t->max_us;
	}
	t->turn_ns = now;
	t->idle_ns = idle;
}

void loop_time_init(struct loop_time *t, uv_loop_t *loop) {
	*t = (struct loop_time){0};
	uv_loop_configure(loop, UV_METRICS_IDLE_TIME);
	uv_prepare_init(loop, &t->prepare);
	t->prepare.data = t;
	uv_prepare_start(&t->prepare, turn);
	uv_unref((uv_handle_t *)&t->prepare); // does not keep the loop alive
}
