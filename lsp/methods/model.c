// SPDX-License-Identifier: MIT
// Starting the engine, and what the person hears about it: progress where the client shows it, one message if the model cannot be used.
#include <string.h>

#include "../internal.h"
#include "engine_settings.h"

#define PROGRESS_TOKEN "maskstore/load"

// Decode thread.
static void engine_loaded_callback(void *user, enum err err, const struct err_msg *msg, const struct model_info *info) {
	struct server *s = user;
	pthread_mutex_lock(&s->done_lock);
	s->loaded = true;
	s->loaded_exact_only = info && !info->tiers_allowed;
	s->loaded_err = err;
	if (msg)
		s->loaded_msg = *msg;
	pthread_mutex_unlock(&s->done_lock);
	uv_async_send(&s->wake);
}

// Editors cancel on nearly every key, and a cancelled prefill keeps whole chunks: small ones leave something behind. Costs a tenth of the
// prefill speed of 256 (docs/speed.md).
#define SERVE_CHUNK_TOKENS 64

static struct engine_options options(const struct server *s) {
	struct engine_options o = engine_settings(&s->config);
	o.chunk_tokens = SERVE_CHUNK_TOKENS;
	return o;
}

static void send_progress(struct server *s, json_t *value) {
	server_notify(s, "$/progress", json_pack("{s:s, s:o}", "token", PROGRESS_TOKEN, "value", value));
}

static void ask_for_progress(struct server *s) {
	if (!s->client.progress)
		return;
	s->progress = PROGRESS_ASKED;
	s->progress_id = server_request(s, "window/workDoneProgress/create", json_pack("{s:s}", "token", PROGRESS_TOKEN));
}

static void end_progress(struct server *s) {
	if (s->progress == PROGRESS_BEGUN)
		send_progress(s, json_pack("{s:s}", "kind", "end"));
	s->progress = PROGRESS_ENDED;
}

// The client may answer late, or refuse: then nothing is shown. A token that it made is always begun and ended once.
void progress_response(struct server *s, const struct rpc_message *m) {
	s->progress_id = 0;
	if (json_object_get(m->root, "error") || s->life != LIFE_INITIALIZED)
		return;
	send_progress(s, json_pack("{s:s, s:s, s:b}", "kind", "begin", "title", "Loading the completion model", "cancellable", 0));
	s->progress = PROGRESS_BEGUN;
	if (s->model_settled)
		end_progress(s);
}

static void failed(struct server *s, const char *reason) {
	s->model_settled = true;
	if (server_notice(s, NOTICE_MODEL))
		server_message(s, MESSAGE_ERROR, true, "maskstore gives no completions: %s", reason);
}

void model_start(struct server *s) {
	if (s->engine_tried || s->life != LIFE_INITIALIZED)
		return;
	s->engine_tried = true;
	uv_timer_stop(&s->config_timer);
	config_resolve(&s->config);
	latency_log_finish(&s->log);
	latency_log_init(&s->log, s->config.log, 0);
	struct engine_options o = options(s);
	enum err e = engine_create(&o, s->parser, engine_loaded_callback, s, &s->engine);
	if (e)
		failed(s, err_name(e));
	else
		ask_for_progress(s);
	prepare_all(s);
}

static void tell_loaded(struct server *s) {
	server_message(s, MESSAGE_LOG, false, "the model is loaded: %s", s->config.model);
	if (s->loaded_msg.text[0])
		server_message(s, MESSAGE_WARNING, true, "maskstore: %s", s->loaded_msg.text);
	if (s->loaded_exact_only)
		server_message(s, MESSAGE_INFO, false, "this model's head size is not a multiple of 32: it runs with exact attention only");
	else if (strcmp(s->config.strategy, "conservative"))
		server_message(s, MESSAGE_LOG, false, "strategy %s runs exact in this version", s->config.strategy);
}

void model_loaded(struct server *s) {
	pthread_mutex_lock(&s->done_lock);
	bool loaded = s->loaded;
	pthread_mutex_unlock(&s->done_lock);
	if (!loaded || s->model_settled)
		return;
	s->model_settled = true;
	if (s->progress == PROGRESS_BEGUN)
		end_progress(s);
	if (s->loaded_err)
		failed(s, s->loaded_msg.text[0] ? s->loaded_msg.text : err_name(s->loaded_err));
	else
		tell_loaded(s);
}
