// SPDX-License-Identifier: MIT
// How much the loop thread works in one turn (CPU time): what keeps the server from answering the next message. Loop thread only.
#ifndef MASKSTORE_LSP_LOOP_TIME_H
#define MASKSTORE_LSP_LOOP_TIME_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#define LOOP_TIME_BUCKETS 8
#define LOOP_TIME_FIRST_US 125 // upper edge of the first bucket; each next one is twice as wide, the last has no edge

struct loop_time {
	uv_prepare_t prepare;
	bool begun;
	uint64_t turn_ns; // the thread's CPU time when the turn at hand began
	uint64_t n[LOOP_TIME_BUCKETS];
	uint64_t max_us;
};

// Before the loop runs for the first time, on its thread.
void loop_time_init(struct loop_time *t, uv_loop_t *loop);

#endif
