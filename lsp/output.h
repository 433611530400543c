// SPDX-License-Identifier: MIT
// What goes to the client: frames on a private descriptor, queued without ever blocking the loop. Loop thread only.
#ifndef MASKSTORE_LSP_OUTPUT_H
#define MASKSTORE_LSP_OUTPUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "base/buf.h"

#define OUTPUT_MAX_QUEUED_BYTES (64u << 20) // a client that reads nothing may let so much pile up

enum output_state { OUTPUT_GOOD, OUTPUT_CLOSED, OUTPUT_FULL };

struct output {
	uv_pipe_t pipe;
	int fd;                  // used directly where it is a file or a device that the loop cannot poll
	bool polled;
	enum output_state state; // once not GOOD, nothing more is written
	struct buf body, frame;  // scratch
	void *owner;
	void (*failed)(void *owner); // called when the state changes; must not free the output
};

// Takes `fd` (closed by output_close). 0 or a libuv error.
int output_open(struct output *o, uv_loop_t *loop, int fd, void *owner, void (*failed)(void *owner));
// Sends one message (borrowed; null is ignored: memory was out).
void output_send(struct output *o, json_t *message);
// Bytes that the client has not taken yet.
size_t output_queued_bytes(const struct output *o);
// Starts closing; the loop must run until its handles are closed.
void output_close(struct output *o);
// Frees the scratch memory, after the loop has ended.
void output_finish(struct output *o);

#endif
