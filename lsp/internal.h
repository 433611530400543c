// SPDX-License-Identifier: MIT
// The server's state and what its files share. Private to lsp/.
//
// Threads: the loop thread owns everything here. A libuv worker parses large messages; the engine's decode thread hands finished requests over
// through the list under `done_lock`, and wakes the loop.
#ifndef MASKSTORE_LSP_INTERNAL_H
#define MASKSTORE_LSP_INTERNAL_H

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "complete/complete.h"
#include "framing.h"
#include "latency_log.h"
#include "loop_time.h"
#include "output.h"
#include "privacy.h"
#include "protocol.h"
#include "rpc.h"
#include "server.h"
#include "workspace.h"

#define SERVER_INLINE_PARSE_BYTES (64u << 10)  // larger messages are parsed by a worker, later ones wait behind them
#define SERVER_MAX_INBOX_BYTES (256u << 20)    // then reading pauses until the worker has caught up
#define SERVER_WATCH_MS 1000

struct inbox_item {
	struct inbox_item *next;
	int64_t received_us;
	size_t n_bytes;
	char body[];
};

enum message_type { MESSAGE_ERROR = 1, MESSAGE_WARNING = 2, MESSAGE_INFO = 3, MESSAGE_LOG = 4 };

enum lifecycle { LIFE_NEW, LIFE_INITIALIZED, LIFE_SHUT_DOWN };

// Things that are told to the person only once in a session.
enum notice { NOTICE_MODEL = 1, NOTICE_REQUEST = 2, NOTICE_LOG = 4, NOTICE_NOT_OPEN = 8, NOTICE_VERSION = 16, NOTICE_PARAMS = 32, NOTICE_RESTART = 64 };

enum progress_state { PROGRESS_NONE, PROGRESS_ASKED, PROGRESS_BEGUN, PROGRESS_ENDED };

struct pending; // a request that the engine works on (requests.c)

struct server {
	uv_loop_t loop;
	struct loop_time loop_time;
	int status;                 // exit status once stopping
	bool stopping;
	enum lifecycle life;
	struct config config;
	struct client_info client;
	long flag_process_id;       // --clientProcessId
	unsigned notices;           // enum notice, those given

	// input
	struct framing framing;
	uv_pipe_t in_pipe;
	bool in_polled;
	int in_fd;
	uv_fs_t in_read;            // where standard input is a file
	bool in_reading_file, in_paused;
	char in_bytes[64 << 10];
	struct inbox_item *inbox_head, **inbox_tail;
	size_t inbox_bytes;
	bool parsing;               // a worker has a message
	uv_work_t work;
	struct inbox_item *work_item;
	struct rpc_message work_message;
	uv_timer_t broken_timer;    // after a broken header: input is read over until it is quiet, then exit
	int64_t broken_until_us;

	// output
	struct output output;
	struct latency_log log;
	int last_request_id;        // of our requests to the client
	int configuration_id, progress_id; // of those in flight, 0 if none
	enum progress_state progress;

	// documents and the engine
	struct workspace workspace;
	struct privacy privacy;
	struct parser_worker *parser;
	struct engine *engine;
	bool engine_tried;
	bool model_settled;         // loading ended, one way or the other
	struct pending *pending;    // all that are not freed
	uv_async_t wake;
	pthread_mutex_t done_lock;
	struct pending *done;       // finished by the engine, under done_lock
	bool loaded;                // under done_lock: engine_loaded was called
	enum err loaded_err;
	struct err_msg loaded_msg;
	bool loaded_exact_only;

	uv_timer_t watch_timer, config_timer;
	uv_timer_t prepare_timer;   // since the last edit
	uint64_t prepare_document;
	size_t prepare_offset;
	char *noted[64];            // settings already named, owned
	int n_noted;
};

// --- server.c
// Ends the loop; the first status wins.
void server_stop(struct server *s, int status);
void server_send_result(struct server *s, json_t *id, json_t *result); // result: taken, may be null
void server_send_error(struct server *s, json_t *id, enum rpc_code code, const char *text);
void server_notify(struct server *s, const char *method, json_t *params);          // params: taken
int server_request(struct server *s, const char *method, json_t *params);          // params: taken; returns the id
void server_message(struct server *s, enum message_type type, bool show, const char *format, ...) __attribute__((format(printf, 4, 5)));
// True the first time for this notice.
bool server_notice(struct server *s, enum notice n);
// A short line on standard error that never blocks.
void server_stderr(const char *format, ...) __attribute__((format(printf, 1, 2)));

// --- requests.c
void requests_submit(struct server *s, const struct rpc_message *m, const char *method, const struct completion_params *p, int64_t received_us);
// A latency line and an error response for a request that could not even be read.
void requests_refuse(struct server *s, json_t *id, const char *method, const char *text, int64_t received_us);
void requests_cancel(struct server *s, json_t *id);
void requests_cancel_document(struct server *s, uint64_t document_id);
bool requests_in_flight(const struct server *s, json_t *id);
// Answers what the engine has finished.
void requests_collect(struct server *s);
// Tells the engine to stop all.
void requests_cancel_all(struct server *s);
// Answers all that are left with null, then (engine destroyed) frees them.
void requests_abandon(struct server *s);
void requests_free(struct server *s);

// --- prepare.c
void prepare_opened(struct server *s, struct open_document *d);
// All documents that were opened before the engine was started.
void prepare_all(struct server *s);
// An edit that ends at `offset`.
void prepare_changed(struct server *s, struct open_document *d, size_t offset);
// A request came: it prepares its place itself.
void prepare_asked(struct server *s);
void prepare_closed(struct server *s, uint64_t document_id);

// --- methods/
typedef void method_handler(struct server *s, const struct rpc_message *m, int64_t received_us);
struct method {
	const char *name;
	enum rpc_kind kind;
	method_handler *handle;
};
// The sorted table.
extern const struct method methods[];
extern const size_t n_methods;
const struct method *methods_find(const char *name);

void methods_response(struct server *s, const struct rpc_message *m); // a response to one of our requests
void model_start(struct server *s);                                   // starts the engine once
void model_loaded(struct server *s);                                  // loop side of engine_loaded
void configuration_apply(struct server *s, json_t *value);
void configuration_response(struct server *s, const struct rpc_message *m);
void configuration_ask(struct server *s);
void progress_response(struct server *s, const struct rpc_message *m);

method_handler method_initialize, method_initialized, method_shutdown, method_exit, method_cancel, method_did_open, method_did_change, method_did_close,
	method_did_save, method_did_change_configuration, method_inline_completion, method_completion, method_ignore;

#endif
