// SPDX-License-Identifier: MIT
// The loop: bytes from standard input become messages, messages are dispatched in order, answers go to a private copy of standard output.
//
// Invariants: messages are handled strictly in the order of arrival (one that a worker parses holds back those behind it); the loop never
// blocks on a pipe; nothing but frames reaches the client's pipe. On the way out everything is answered, flushed for a moment and joined; a
// watchdog ends the process within a second whatever a worker does.
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "internal.h"

#define STOP_FLUSH_US 300000   // for output that the client has not taken yet
#define STOP_WATCHDOG_MS 600   // after that: both together stay below a second
#define BROKEN_QUIET_MS 200    // after a broken header the client's writes are taken for so long, so that it is not stuck in one
#define BROKEN_MAX_US 2000000

// --- sending

void server_stop(struct server *s, int status) {
	if (s->stopping)
		return;
	s->stopping = true;
	s->status = status;
	uv_stop(&s->loop);
}

void server_stderr(const char *format, ...) {
	char text[512] = "maskstore: "; // at most PIPE_BUF bytes, so that a pipe that polls writable takes it without blocking
	size_t n = strlen(text);
	va_list args;
	va_start(args, format);
	int more = vsnprintf(text + n, sizeof text - n - 1, format, args);
	va_end(args);
	if (more < 0)
		return;
	n = strlen(text);
	text[n++] = '\n';
	struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
	if (poll(&p, 1, 0) == 1 && (p.revents & POLLOUT) && write(STDERR_FILENO, text, n) < 0)
		return; // nobody is left to be told
}

static void send_new(struct server *s, json_t *message) {
	output_send(&s->output, message);
	json_decref(message);
}

void server_send_result(struct server *s, json_t *id, json_t *result) {
	json_t *message = rpc_result(id, result);
	json_decref(result);
	send_new(s, message ? message : rpc_error(id, RPC_INTERNAL_ERROR, "out of memory"));
}

void server_send_error(struct server *s, json_t *id, enum rpc_code code, const char *text) {
	json_t *message = rpc_error(id, code, text);
	send_new(s, message ? message : rpc_error(id, code, "invalid")); // a field's name may not be valid text
}

void server_notify(struct server *s, const char *method, json_t *params) {
	send_new(s, params ? rpc_notification(method, params) : NULL);
	json_decref(params);
}

int server_request(struct server *s, const char *method, json_t *params) {
	int id = ++s->last_request_id;
	send_new(s, params ? rpc_request(id, method, params) : NULL);
	json_decref(params);
	return id;
}

void server_message(struct server *s, enum message_type type, bool show, const char *format, ...) {
	char text[1024];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	struct buf b = {0};
	buf_append_json(&b, text, strlen(text)); // cleans invalid UTF-8
	json_t *clean = b.failed || !b.data ? NULL : json_loads(b.data, JSON_DECODE_ANY, NULL);
	if (clean)
		server_notify(s, show ? "window/showMessage" : "window/logMessage", json_pack("{s:i, s:o}", "type", (int)type, "message", clean));
	buf_finish(&b);
}

bool server_notice(struct server *s, enum notice n) {
	bool first = !(s->notices & n);
	s->notices |= n;
	return first;
}

// --- dispatch

static void dispatch_request(struct server *s, const struct rpc_message *m, const struct method *method, int64_t received_us) {
	if (s->life == LIFE_NEW && strcmp(m->method, "initialize"))
		server_send_error(s, m->id, RPC_NOT_INITIALIZED, "initialize comes first");
	else if (s->life == LIFE_SHUT_DOWN)
		server_send_error(s, m->id, RPC_INVALID_REQUEST, "the server is shutting down");
	else if (requests_in_flight(s, m->id))
		server_send_error(s, m->id, RPC_INVALID_REQUEST, "this id is in use by a request that is not answered yet");
	else if (!method || method->kind != RPC_REQUEST)
		server_send_error(s, m->id, RPC_METHOD_NOT_FOUND, "unknown method");
	else if (m->bad_params)
		server_send_error(s, m->id, RPC_INVALID_PARAMS, "params must be an object or an array");
	else
		method->handle(s, m, received_us);
}

static void dispatch(struct server *s, const struct rpc_message *m, int64_t received_us) {
	const struct method *method = methods_find(m->method);
	switch (m->kind) {
	case RPC_INVALID:
		server_send_error(s, m->id, m->code, m->msg.text);
		break;
	case RPC_REQUEST:
		dispatch_request(s, m, method, received_us);
		break;
	case RPC_NOTIFICATION:
		if (method && method->kind == RPC_NOTIFICATION && (s->life == LIFE_INITIALIZED || method->handle == method_exit))
			method->handle(s, m, received_us);
		break;
	case RPC_RESPONSE:
		methods_response(s, m);
		break;
	}
}

static void handle_body(struct server *s, char *body, size_t n_bytes, int64_t received_us) {
	struct rpc_message m;
	rpc_parse(body, n_bytes, &m);
	dispatch(s, &m, received_us);
	rpc_message_finish(&m);
}

// --- the inbox: what waits behind a large message

static void parse_large(uv_work_t *work) {
	struct server *s = work->data;
	rpc_parse(s->work_item->body, s->work_item->n_bytes, &s->work_message);
}

static void pump(struct server *s);

static void parsed_large(uv_work_t *work, int status) {
	struct server *s = work->data;
	(void)status;
	s->parsing = false;
	if (!s->stopping)
		dispatch(s, &s->work_message, s->work_item->received_us);
	rpc_message_finish(&s->work_message);
	free(s->work_item);
	s->work_item = NULL;
	pump(s);
}

static struct inbox_item *inbox_take(struct server *s) {
	struct inbox_item *item = s->inbox_head;
	s->inbox_head = item->next;
	if (!s->inbox_head)
		s->inbox_tail = &s->inbox_head;
	s->inbox_bytes -= item->n_bytes;
	return item;
}

static void start_reading(struct server *s);

static void pump(struct server *s) {
	while (s->inbox_head && !s->parsing && !s->stopping) {
		struct inbox_item *item = inbox_take(s);
		if (item->n_bytes <= SERVER_INLINE_PARSE_BYTES) {
			handle_body(s, item->body, item->n_bytes, item->received_us);
			free(item);
			continue;
		}
		s->work_item = item;
		s->work.data = s;
		s->parsing = true;
		if (uv_queue_work(&s->loop, &s->work, parse_large, parsed_large)) {
			parse_large(&s->work);
			parsed_large(&s->work, 0);
			return;
		}
	}
	if (s->in_paused && s->inbox_bytes < SERVER_MAX_INBOX_BYTES / 2 && !s->stopping)
		start_reading(s);
}

static void inbox_put(struct server *s, const char *body, size_t n_bytes, int64_t received_us) {
	struct inbox_item *item = malloc(sizeof *item + n_bytes);
	if (!item) {
		server_stderr("out of memory for a message of %zu bytes", n_bytes);
		server_stop(s, 1); // to go on without it would lose an edit
		return;
	}
	*item = (struct inbox_item){.received_us = received_us, .n_bytes = n_bytes};
	memcpy(item->body, body, n_bytes);
	*s->inbox_tail = item;
	s->inbox_tail = &item->next;
	s->inbox_bytes += n_bytes;
}

static void receive(struct server *s, struct frame *f) {
	int64_t now = clock_us();
	if (!s->parsing && !s->inbox_head && f->n_bytes <= SERVER_INLINE_PARSE_BYTES) {
		handle_body(s, f->body, f->n_bytes, now);
		return;
	}
	inbox_put(s, f->body, f->n_bytes, now);
	pump(s);
}

// --- reading

static void stop_broken(uv_timer_t *timer) {
	server_stop(timer->data, 1);
}

// The stream cannot be understood any more. The client hears why; its writes are taken until it is quiet, then the process ends.
static void refuse_stream(struct server *s, const struct err_msg *note) {
	server_stderr("the input is not a stream of LSP messages: %s", note->text);
	if (s->life != LIFE_NEW)
		server_message(s, MESSAGE_ERROR, false, "maskstore ends: the input is not a stream of LSP messages: %s", note->text);
	s->broken_until_us = clock_us() + BROKEN_MAX_US;
	uv_timer_start(&s->broken_timer, stop_broken, BROKEN_QUIET_MS, 0);
}

static void refuse_frame(struct server *s, const struct err_msg *note) {
	server_message(s, MESSAGE_ERROR, false, "%s", note->text);
	server_send_error(s, NULL, RPC_INVALID_REQUEST, note->text);
}

static void take_frames(struct server *s) {
	struct frame f;
	while (!s->stopping) {
		switch (framing_next(&s->framing, &f)) {
		case FRAMING_MORE:
			return;
		case FRAMING_BODY:
			receive(s, &f);
			break;
		case FRAMING_REFUSED:
			refuse_frame(s, &f.note);
			break;
		case FRAMING_BROKEN:
			refuse_stream(s, &f.note);
			return;
		}
	}
}

static void take_bytes(struct server *s, const char *p, size_t n) {
	if (s->broken_until_us) {
		if (clock_us() < s->broken_until_us)
			uv_timer_start(&s->broken_timer, stop_broken, BROKEN_QUIET_MS, 0);
		return;
	}
	if (framing_push(&s->framing, p, n)) {
		server_stderr("out of memory for input");
		server_stop(s, 1);
		return;
	}
	take_frames(s);
}

static void end_of_input(struct server *s) {
	server_stop(s, s->life == LIFE_SHUT_DOWN ? 0 : 1);
}

static void allocate(uv_handle_t *handle, size_t suggested, uv_buf_t *b) {
	struct server *s = handle->data;
	(void)suggested;
	*b = uv_buf_init(s->in_bytes, sizeof s->in_bytes);
}

static void pause_if_full(struct server *s) {
	if (s->inbox_bytes <= SERVER_MAX_INBOX_BYTES || s->in_paused)
		return;
	s->in_paused = true;
	if (s->in_polled)
		uv_read_stop((uv_stream_t *)&s->in_pipe);
}

static void have_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *b) {
	struct server *s = stream->data;
	if (n < 0) {
		end_of_input(s);
		return;
	}
	take_bytes(s, b->base, (size_t)n);
	pause_if_full(s);
}

static void have_read_file(uv_fs_t *req) {
	struct server *s = req->data;
	ssize_t n = req->result;
	uv_fs_req_cleanup(req);
	s->in_reading_file = false;
	if (s->stopping)
		return;
	if (n <= 0) {
		end_of_input(s);
		return;
	}
	take_bytes(s, s->in_bytes, (size_t)n);
	pause_if_full(s);
	if (!s->in_paused && !s->stopping)
		start_reading(s);
}

static void start_reading(struct server *s) {
	s->in_paused = false;
	if (s->in_polled) {
		uv_read_start((uv_stream_t *)&s->in_pipe, allocate, have_read);
		return;
	}
	uv_buf_t b = uv_buf_init(s->in_bytes, sizeof s->in_bytes);
	s->in_read.data = s;
	s->in_reading_file = !uv_fs_read(&s->loop, &s->in_read, s->in_fd, &b, 1, -1, have_read_file);
	if (!s->in_reading_file)
		end_of_input(s);
}

// --- start and end

static void woken(uv_async_t *async) {
	struct server *s = async->data;
	model_loaded(s);
	requests_collect(s);
}

static void output_failed(void *owner) {
	struct server *s = owner;
	if (s->output.state == OUTPUT_FULL)
		server_stderr("the client reads nothing: %u MB wait for it", OUTPUT_MAX_QUEUED_BYTES >> 20);
	server_stop(s, s->life == LIFE_SHUT_DOWN ? 0 : 1);
}

// Standard output moves to a private descriptor, and descriptor 1 becomes standard error, so that no library can write into the stream.
static int take_stdout(void) {
	int fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	if (fd < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) >= 0)
		return fd;
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC); // standard error is closed
	if (null >= 0) {
		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		close(null);
	}
	return fd;
}

static bool open_input(struct server *s) {
	uv_handle_type type = uv_guess_handle(STDIN_FILENO);
	s->in_fd = STDIN_FILENO;
	s->in_polled = type == UV_NAMED_PIPE || type == UV_TCP || type == UV_TTY;
	if (s->in_polled && (uv_pipe_init(&s->loop, &s->in_pipe, 0) || uv_pipe_open(&s->in_pipe, STDIN_FILENO)))
		return false;
	s->in_pipe.data = s;
	return type != UV_UNKNOWN_HANDLE;
}

static bool open_handles(struct server *s) {
	int fd = take_stdout();
	uv_timer_t *timers[] = {&s->watch_timer, &s->config_timer, &s->broken_timer, &s->prepare_timer};
	for (int i = 0; i < 4; i++) {
		if (uv_timer_init(&s->loop, timers[i]))
			return false;
		timers[i]->data = s;
	}
	s->wake.data = s;
	if (fd < 0 || uv_async_init(&s->loop, &s->wake, woken) || output_open(&s->output, &s->loop, fd, s, output_failed))
		return false;
	s->wake.data = s;
	return open_input(s);
}

static bool init(struct server *s, const struct server_options *o) {
	s->config = o->config;
	s->flag_process_id = o->client_process_id;
	s->inbox_tail = &s->inbox_head;
	framing_init(&s->framing, FRAMING_MAX_BODY_BYTES);
	workspace_init(&s->workspace);
	privacy_init(&s->privacy, &s->loop);
	latency_log_init(&s->log, NULL, 0);
	pthread_mutex_init(&s->done_lock, NULL);
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	sigaction(SIGPIPE, &ignore, NULL);
	json_object_seed(0);
	if (parser_worker_create(&s->parser) || uv_loop_init(&s->loop))
		return false;
	loop_time_init(&s->loop_time, &s->loop);
	return open_handles(s);
}

static void *watchdog(void *status) {
	struct timespec t = {.tv_nsec = STOP_WATCHDOG_MS * 1000000L};
	while (nanosleep(&t, &t) && errno == EINTR)
		;
	_exit(*(int *)status);
}

// Joining may take longer than a client waits (a model that is being read from a slow disk): then the process ends without it.
static void start_watchdog(struct server *s) {
	static int status;
	pthread_t thread;
	status = s->status;
	if (!pthread_create(&thread, NULL, watchdog, &status))
		pthread_detach(thread);
}

static void tick(uv_timer_t *timer) {
	(void)timer;
}

// Gives the client a moment to take the last answers.
static void flush(struct server *s) {
	int64_t until = clock_us() + STOP_FLUSH_US;
	uv_timer_start(&s->watch_timer, tick, 10, 10);
	while (s->output.state == OUTPUT_GOOD && output_queued_bytes(&s->output) && clock_us() < until)
		uv_run(&s->loop, UV_RUN_ONCE);
}

static void close_any(uv_handle_t *handle, void *unused) {
	(void)unused;
	if (!uv_is_closing(handle))
		uv_close(handle, NULL);
}

static void finish(struct server *s) {
	while (s->inbox_head)
		free(inbox_take(s));
	latency_log_finish(&s->log);
	output_finish(&s->output);
	framing_finish(&s->framing);
	pthread_mutex_destroy(&s->done_lock);
	for (int i = 0; i < s->n_noted; i++)
		free(s->noted[i]);
	free(s);
}

static void stop(struct server *s) {
	s->stopping = true;
	if (s->in_polled)
		uv_read_stop((uv_stream_t *)&s->in_pipe);
	requests_cancel_all(s);
	requests_abandon(s);
	flush(s);
	start_watchdog(s);
	engine_destroy(s->engine);
	requests_free(s);
	parser_worker_destroy(s->parser);
	workspace_finish(&s->workspace);
	privacy_stop(&s->privacy);
	output_close(&s->output);
	uv_walk(&s->loop, close_any, NULL);
	// A read of a terminal or a large parse may still be going on; the watchdog limits it.
	uv_run(&s->loop, UV_RUN_DEFAULT);
	privacy_finish(&s->privacy);
	uv_loop_close(&s->loop);
}

int server_run(const struct server_options *o) {
	struct server *s = calloc(1, sizeof *s);
	if (!s || !init(s, o)) {
		server_stderr("the server could not be started");
		return 1; // the process ends; nothing of value is open yet
	}
	start_reading(s);
	uv_run(&s->loop, UV_RUN_DEFAULT);
	int status = s->status;
	stop(s);
	finish(s);
	return status;
}
