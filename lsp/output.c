// SPDX-License-Identifier: MIT
// Frames are written at once as far as the pipe takes them; the rest waits in libuv's queue, bounded. EPIPE means that the client is gone.
#include "output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "framing.h"

#define KEEP_CAPACITY_BYTES (256u << 10)

struct pending_write {
	uv_write_t req;
	struct output *output;
	size_t n_bytes;
	char data[];
};

static void set_state(struct output *o, enum output_state state) {
	if (o->state != OUTPUT_GOOD)
		return;
	o->state = state;
	o->failed(o->owner);
}

int output_open(struct output *o, uv_loop_t *loop, int fd, void *owner, void (*failed)(void *owner)) {
	*o = (struct output){.fd = fd, .owner = owner, .failed = failed};
	uv_handle_type type = uv_guess_handle(fd);
	o->polled = type == UV_NAMED_PIPE || type == UV_TCP;
	if (!o->polled)
		return 0;
	int e = uv_pipe_init(loop, &o->pipe, 0);
	return e ? e : uv_pipe_open(&o->pipe, fd);
}

static void write_directly(struct output *o, const char *p, size_t n) {
	while (n) {
		ssize_t done = write(o->fd, p, n);
		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0) {
			set_state(o, OUTPUT_CLOSED);
			return;
		}
		p += done;
		n -= (size_t)done;
	}
}

static void written(uv_write_t *req, int status) {
	struct pending_write *w = (struct pending_write *)req;
	if (status < 0 && status != UV_ECANCELED)
		set_state(w->output, OUTPUT_CLOSED);
	free(w);
}

static void queue(struct output *o, const char *p, size_t n) {
	if (output_queued_bytes(o) + n > OUTPUT_MAX_QUEUED_BYTES) {
		set_state(o, OUTPUT_FULL);
		return;
	}
	struct pending_write *w = malloc(sizeof *w + n);
	if (!w) {
		set_state(o, OUTPUT_FULL);
		return;
	}
	w->output = o;
	w->n_bytes = n;
	memcpy(w->data, p, n);
	uv_buf_t b = uv_buf_init(w->data, (unsigned)n);
	int e = uv_write(&w->req, (uv_stream_t *)&o->pipe, &b, 1, written);
	if (e) {
		free(w);
		set_state(o, OUTPUT_CLOSED);
	}
}

static void write_bytes(struct output *o, char *p, size_t n) {
	if (!o->polled) {
		write_directly(o, p, n);
		return;
	}
	uv_buf_t b = uv_buf_init(p, (unsigned)n);
	int done = output_queued_bytes(o) ? UV_EAGAIN : uv_try_write((uv_stream_t *)&o->pipe, &b, 1);
	if (done == UV_EAGAIN)
		done = 0;
	if (done < 0)
		set_state(o, OUTPUT_CLOSED);
	else if ((size_t)done < n)
		queue(o, p + done, n - (size_t)done);
}

static int append(const char *p, size_t n, void *body) {
	buf_append(body, p, n);
	return ((struct buf *)body)->failed ? -1 : 0;
}

static void give_back(struct buf *b) {
	if (b->cap_bytes > KEEP_CAPACITY_BYTES)
		buf_finish(b);
}

void output_send(struct output *o, json_t *message) {
	if (!message || o->state != OUTPUT_GOOD)
		return;
	buf_clear(&o->body);
	buf_clear(&o->frame);
	if (json_dump_callback(message, append, &o->body, JSON_COMPACT))
		return;
	framing_wrap(&o->frame, o->body.data, o->body.len_bytes);
	if (!o->frame.failed)
		write_bytes(o, o->frame.data, o->frame.len_bytes);
	give_back(&o->body);
	give_back(&o->frame);
}

size_t output_queued_bytes(const struct output *o) {
	return o->polled ? uv_stream_get_write_queue_size((const uv_stream_t *)&o->pipe) : 0;
}

void output_close(struct output *o) {
	if (o->polled)
		uv_close((uv_handle_t *)&o->pipe, NULL);
	else if (o->fd >= 0)
		close(o->fd);
}

void output_finish(struct output *o) {
	buf_finish(&o->body);
	buf_finish(&o->frame);
}
