// SPDX-License-Identifier: MIT
// Completion requests between the loop and the engine. Each gets exactly one response: null when superseded, failed or closed, -32800 when its
// client cancelled it, else its items. The latency line is written before the response.
//
// The decode thread calls `finished`, which copies the result and wakes the loop; all else runs on the loop thread.
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "base/clock.h"
#include "internal.h"

struct pending {
	struct server *server;
	struct pending *next;      // in server->pending
	struct pending *done_next; // in server->done
	json_t *id;                // owned
	const char *method;        // static
	bool inline_item, may_archive;
	uint64_t document_id, ticket;
	int64_t version, received_us;
	struct snapshot *snapshot; // owned reference
	struct answer_place place;
	char *selected_text;       // owned
	bool cancelled;            // by the client
	bool answered;
	// Written by the decode thread before it appears in server->done:
	struct complete_result result; // without its suggestion's text
	char *text;                    // owned copy
};

static void pending_free(struct pending *p) {
	if (!p)
		return;
	json_decref(p->id);
	snapshot_unref(p->snapshot);
	free(p->selected_text);
	free(p->text);
	free(p);
}

// Decode thread (or the loop's, inside engine_cancel).
static void finished(void *user, const struct complete_result *result) {
	struct pending *p = user;
	struct server *s = p->server;
	p->result = *result;
	if (result->outcome == OUTCOME_SHOWN && result->suggestion.text) {
		p->text = malloc(result->suggestion.text_bytes + 1);
		if (p->text)
			memcpy(p->text, result->suggestion.text, result->suggestion.text_bytes);
		else
			p->result.outcome = OUTCOME_EMPTY;
	}
	p->result.suggestion.text = NULL;
	pthread_mutex_lock(&s->done_lock);
	p->done_next = s->done;
	s->done = p;
	pthread_mutex_unlock(&s->done_lock);
	uv_async_send(&s->wake);
}

// --- answering

static void write_line(struct server *s, const struct latency_entry *e, json_t *id) {
	struct latency_entry entry = *e;
	char *text = json_dumps(id, JSON_ENCODE_ANY | JSON_COMPACT);
	entry.id_json = text ? text : "null";
	entry.strategy = s->config.strategy;
	entry.loop = &s->loop_time;
	if (!latency_log_write(&s->log, &entry) && server_notice(s, NOTICE_LOG))
		server_message(s, MESSAGE_LOG, false, "the latency log cannot be written: %s", s->log.path ? s->log.path : "");
	free(text);
}

static void log_pending(struct pending *p, enum outcome outcome) {
	write_line(p->server, &(struct latency_entry){
		.method = p->method, .document_version = p->version, .document_bytes = snapshot_bytes(p->snapshot),
		.answer_bytes = outcome == OUTCOME_SHOWN ? p->result.suggestion.text_bytes : 0, .outcome = outcome_name(outcome), .result = &p->result,
		.total_us = clock_us() - p->received_us}, p->id);
}

static json_t *items(struct pending *p) {
	if (p->result.outcome != OUTCOME_SHOWN && p->result.outcome != OUTCOME_EMPTY)
		return NULL;
	struct answer_text t = {p->text ? p->text : "", p->text ? p->result.suggestion.text_bytes : 0, p->result.suggestion.replace_bytes};
	p->place.snapshot = p->snapshot;
	p->place.selected_text.text = p->selected_text;
	return p->inline_item ? answer_inline(&p->place, &t) : answer_list(&p->place, &t);
}

static void tell_failure(struct server *s, const struct complete_result *r) {
	if (s->loaded_err || !s->model_settled)
		return; // model_loaded tells that, once
	const char *reason = r->msg.text[0] ? r->msg.text : err_name(r->err);
	bool first = server_notice(s, NOTICE_REQUEST);
	server_message(s, first ? MESSAGE_WARNING : MESSAGE_LOG, first, "maskstore could not complete: %s", reason);
}

static void answer(struct pending *p) {
	struct server *s = p->server;
	enum outcome outcome = p->cancelled ? OUTCOME_CANCELLED : p->result.outcome;
	p->answered = true;
	log_pending(p, outcome);
	if (p->cancelled)
		server_send_error(s, p->id, RPC_CANCELLED, "cancelled");
	else
		server_send_result(s, p->id, items(p));
	if (outcome == OUTCOME_FAILED)
		tell_failure(s, &p->result);
}

static void unlink_pending(struct server *s, struct pending *p) {
	struct pending **link = &s->pending;
	while (*link && *link != p)
		link = &(*link)->next;
	if (*link)
		*link = p->next;
}

static struct pending *take_done(struct server *s) {
	pthread_mutex_lock(&s->done_lock);
	struct pending *list = s->done;
	s->done = NULL;
	pthread_mutex_unlock(&s->done_lock);
	struct pending *ordered = NULL; // the list is newest first
	while (list) {
		struct pending *next = list->done_next;
		list->done_next = ordered;
		ordered = list;
		list = next;
	}
	return ordered;
}

void requests_collect(struct server *s) {
	for (struct pending *p = take_done(s), *next; p; p = next) {
		next = p->done_next;
		if (!p->answered)
			answer(p);
		unlink_pending(s, p);
		pending_free(p);
	}
}

// --- submitting

static void log_refused(struct server *s, json_t *id, const char *method, const char *outcome, int64_t received_us) {
	write_line(s, &(struct latency_entry){.method = method, .outcome = outcome, .total_us = clock_us() - received_us}, id);
}

void requests_refuse(struct server *s, json_t *id, const char *method, const char *text, int64_t received_us) {
	log_refused(s, id, method, "invalid", received_us);
	server_send_error(s, id, RPC_INVALID_PARAMS, text);
}

static void answer_null(struct server *s, json_t *id, const char *method, const char *outcome, int64_t received_us) {
	log_refused(s, id, method, outcome, received_us);
	server_send_result(s, id, NULL);
}

// Why this document gives no completion, or null.
static const char *unusable(struct server *s, struct open_document *d, const struct snapshot *snap) {
	if (!d || !d->text || d->stale) {
		if (server_notice(s, NOTICE_NOT_OPEN))
			server_message(s, MESSAGE_LOG, false, "a completion was asked for a document that is not open");
		return "not_open";
	}
	if (!snap || snapshot_bytes(snap) <= WORKSPACE_COMPLETION_MAX_BYTES)
		return NULL;
	if (!d->told_large)
		server_message(s, MESSAGE_WARNING, true, "maskstore gives no completions in a file of %zu MB: the limit is %u MB",
			snapshot_bytes(snap) >> 20, WORKSPACE_COMPLETION_MAX_BYTES >> 20);
	d->told_large = true;
	return "too_large";
}

static struct pending *pending_create(struct server *s, const struct rpc_message *m, const char *method, const struct completion_params *params,
                                      struct snapshot *snap) {
	struct pending *p = calloc(1, sizeof *p);
	if (!p)
		return NULL;
	p->server = s;
	p->id = json_incref(m->id);
	p->method = methods_find(method)->name; // static, unlike the message
	p->inline_item = !strcmp(method, "textDocument/inlineCompletion");
	p->snapshot = snap;
	p->place = (struct answer_place){.offset = snapshot_offset(snap, params->position, s->client.encoding), .encoding = s->client.encoding,
		.as_is_insertion = s->client.as_is_insertion, .has_selected = params->has_selected, .selected_range = params->selected_range,
		.selected_text = params->selected_text};
	if (params->has_selected) {
		p->selected_text = malloc(params->selected_text.n_bytes + 1);
		if (p->selected_text)
			memcpy(p->selected_text, params->selected_text.text, params->selected_text.n_bytes);
		p->place.has_selected = p->selected_text != NULL;
	}
	return p;
}

// The two methods have names of their own: an editor asks both at the same place, and neither may supersede the other.
static uint64_t superseding_key(const struct pending *p) {
	return p->document_id * 2 + p->inline_item;
}

static bool submit(struct server *s, struct pending *p, int trigger_kind) {
	struct complete_request r = {.snapshot = p->snapshot, .offset = p->place.offset,
		.trigger = trigger_kind == 1 ? TRIGGER_INVOKED : TRIGGER_AUTOMATIC, .document = p->document_id, .may_archive = p->may_archive, .received_us = p->received_us};
	p->next = s->pending;
	s->pending = p; // before the engine may finish it
	p->ticket = s->engine ? engine_submit(s->engine, &r, superseding_key(p), finished, p) : 0;
	if (p->ticket)
		return true;
	s->pending = p->next;
	return false;
}

void requests_submit(struct server *s, const struct rpc_message *m, const char *method, const struct completion_params *params, int64_t received_us) {
	struct open_document *d = workspace_find(&s->workspace, params->uri.text, params->uri.n_bytes);
	struct snapshot *snap = d && d->text && !d->stale ? document_snapshot(d->text) : NULL;
	const char *reason = unusable(s, d, snap);
	model_start(s);
	struct pending *p = reason || !snap ? NULL : pending_create(s, m, method, params, snap);
	if (!p) {
		snapshot_unref(snap);
		answer_null(s, m->id, method, reason ? reason : "failed", received_us);
		return;
	}
	p->document_id = d->id;
	p->may_archive = d->may_archive;
	p->version = document_version(d->text);
	p->received_us = received_us;
	prepare_asked(s);
	if (!submit(s, p, params->trigger_kind)) {
		answer_null(s, m->id, method, "failed", received_us);
		pending_free(p);
	}
}

// --- cancelling

static struct pending *find(const struct server *s, json_t *id) {
	for (struct pending *p = s->pending; id && p; p = p->next)
		if (!p->answered && json_equal(p->id, id))
			return p;
	return NULL;
}

bool requests_in_flight(const struct server *s, json_t *id) {
	return find(s, id) != NULL;
}

void requests_cancel(struct server *s, json_t *id) {
	struct pending *p = find(s, id);
	if (!p || p->cancelled)
		return;
	p->cancelled = true;
	engine_cancel(s->engine, p->ticket);
}

void requests_cancel_document(struct server *s, uint64_t document_id) {
	for (struct pending *p = s->pending; p; p = p->next)
		if (p->document_id == document_id && !p->answered)
			engine_cancel(s->engine, p->ticket);
}

void requests_cancel_all(struct server *s) {
	for (struct pending *p = s->pending; p; p = p->next)
		engine_cancel(s->engine, p->ticket);
}

void requests_abandon(struct server *s) {
	requests_collect(s);
	for (struct pending *p = s->pending; p; p = p->next) {
		if (p->answered)
			continue;
		p->answered = true;
		// The engine may still be writing p->result: the line has no phases.
		answer_null(s, p->id, p->method, outcome_name(OUTCOME_CANCELLED), p->received_us);
	}
}

void requests_free(struct server *s) {
	while (s->pending) {
		struct pending *p = s->pending;
		s->pending = p->next;
		pending_free(p);
	}
	s->done = NULL;
}
