// SPDX-License-Identifier: MIT
// didOpen, didChange, didClose, didSave. The text is kept exactly as the client has it; where that fails, the document is marked stale and gives no
// answers until a whole text arrives (didChange without range, didSave with text, or reopening).
#include <string.h>
#include <strings.h>

#include "../internal.h"
#include "../uri.h"

static void bad_params(struct server *s, const char *method, const struct err_msg *msg) {
	if (server_notice(s, NOTICE_PARAMS))
		server_message(s, MESSAGE_WARNING, false, "%s ignored: %s", method, msg->text);
}

static struct open_document *find(struct server *s, const struct rpc_message *m, struct text_ref *uri) {
	struct err_msg msg;
	if (protocol_read_uri(m->params, uri, &msg)) {
		bad_params(s, m->method, &msg);
		return NULL;
	}
	struct open_document *d = workspace_find(&s->workspace, uri->text, uri->n_bytes);
	if (!d && server_notice(s, NOTICE_NOT_OPEN))
		server_message(s, MESSAGE_LOG, false, "%s for a document that is not open", m->method);
	return d;
}

static bool is_python(json_t *language, struct text_ref uri) {
	const char *id = json_is_string(language) ? json_string_value(language) : "";
	return !strcasecmp(id, "python") || (!*id && uri_is_python(uri.text, uri.n_bytes));
}

// A large document is not parsed: it gets no completion.
static bool wants_syntax(json_t *language, struct text_ref uri, size_t n_bytes) {
	return n_bytes <= WORKSPACE_COMPLETION_MAX_BYTES && is_python(language, uri);
}

static void lost(struct server *s, struct open_document *d, const char *reason) {
	d->stale = true;
	server_message(s, MESSAGE_WARNING, false, "a document gives no completions until it is opened or saved again: %s", reason);
}

static void parse(struct server *s, struct open_document *d) {
	if (d->text && !d->stale && document_is_python(d->text))
		document_parse_async(d->text, s->parser);
}

// A later document under the same URI has another id.
static void take_privacy(void *user, uint64_t document_id, bool may_write) {
	struct server *s = user;
	struct open_document *d = workspace_find_id(&s->workspace, document_id);
	if (d)
		d->may_archive = may_write;
	if (d && may_write && s->engine)
		engine_allow_archive(s->engine, document_id);
	if (d && may_write)
		prepare_opened(s, d); // its fill may be archived now; what is done already costs nothing
}

void method_did_open(struct server *s, const struct rpc_message *m, int64_t received_us) {
	(void)received_us;
	struct text_ref uri, text;
	struct err_msg msg;
	json_t *item = json_object_get(m->params, "textDocument");
	enum err e = protocol_read_uri(m->params, &uri, &msg);
	if (!e)
		e = protocol_read_string(item, "text", "textDocument.text", &text, &msg);
	if (e) {
		bad_params(s, m->method, &msg);
		return;
	}
	struct open_document *d = workspace_find(&s->workspace, uri.text, uri.n_bytes);
	if (d) {
		requests_cancel_document(s, d->id);
		prepare_closed(s, d->id);
	}
	if (workspace_open(&s->workspace, uri.text, uri.n_bytes, &d))
		return;
	bool python = wants_syntax(json_object_get(item, "languageId"), uri, text.n_bytes);
	if (document_create(text.text, text.n_bytes, python, protocol_version(json_object_get(item, "version")), &d->text, &msg))
		lost(s, d, msg.text);
	privacy_ask(&s->privacy, d->key, d->key_bytes, d->id, take_privacy, s);
	parse(s, d);
	prepare_opened(s, d);
}

// Where the text that a change brought ends.
static size_t end_of_change(struct server *s, struct open_document *d, const struct text_change *c) {
	if (!c->has_range)
		return 0;
	struct snapshot *snap = document_snapshot(d->text);
	size_t offset = snapshot_offset(snap, c->range.start, s->client.encoding) + c->text.n_bytes;
	snapshot_unref(snap);
	return offset;
}

static enum err apply(struct server *s, struct open_document *d, const struct text_change *c) {
	if (c->has_range)
		return document_edit(d->text, c->range.start, c->range.end, s->client.encoding, c->text.text, c->text.n_bytes);
	enum err e = document_replace(d->text, c->text.text, c->text.n_bytes);
	d->stale &= e != ERR_OK;
	return e;
}

static void apply_all(struct server *s, struct open_document *d, json_t *changes) {
	struct err_msg msg;
	size_t index;
	json_t *item;
	json_array_foreach(changes, index, item) {
		struct text_change c;
		if (protocol_read_change(item, index, &c, &msg)) {
			lost(s, d, msg.text);
			continue;
		}
		enum err e = apply(s, d, &c);
		if (e)
			lost(s, d, e == ERR_LIMIT ? "it is too large" : "memory is out");
		else if (index + 1 == json_array_size(changes))
			prepare_changed(s, d, end_of_change(s, d, &c));
	}
}

static void set_version(struct server *s, struct open_document *d, json_t *version) {
	int64_t old = document_version(d->text), now = protocol_version(version);
	document_set_version(d->text, now);
	if (now <= old && json_is_number(version) && server_notice(s, NOTICE_VERSION))
		server_message(s, MESSAGE_LOG, false, "a document's version went from %lld to %lld", (long long)old, (long long)now);
}

void method_did_change(struct server *s, const struct rpc_message *m, int64_t received_us) {
	(void)received_us;
	struct text_ref uri;
	struct open_document *d = find(s, m, &uri);
	if (!d || !d->text)
		return;
	json_t *changes = json_object_get(m->params, "contentChanges");
	if (!json_is_array(changes)) {
		struct err_msg msg;
		err_set(&msg, ERR_ARG, "contentChanges must be an array");
		bad_params(s, m->method, &msg);
		return;
	}
	apply_all(s, d, changes);
	set_version(s, d, json_object_get(json_object_get(m->params, "textDocument"), "version"));
	parse(s, d);
}

void method_did_close(struct server *s, const struct rpc_message *m, int64_t received_us) {
	(void)received_us;
	struct text_ref uri;
	struct open_document *d = find(s, m, &uri);
	if (!d)
		return;
	requests_cancel_document(s, d->id);
	prepare_closed(s, d->id);
	workspace_close(&s->workspace, uri.text, uri.n_bytes);
}

static bool same_text(struct open_document *d, struct text_ref text) {
	struct snapshot *snap = document_snapshot(d->text);
	size_t at = 0, n;
	bool same = snapshot_bytes(snap) == text.n_bytes;
	while (same && at < text.n_bytes) {
		const char *p = snapshot_chunk_at(snap, at, &n);
		same = n && !memcmp(p, text.text + at, n);
		at += n;
	}
	snapshot_unref(snap);
	return same;
}

void method_did_save(struct server *s, const struct rpc_message *m, int64_t received_us) {
	(void)received_us;
	struct text_ref uri, text;
	struct open_document *d = find(s, m, &uri);
	if (!d || !d->text || !json_is_string(json_object_get(m->params, "text")))
		return;
	if (protocol_read_string(m->params, "text", "text", &text, NULL) || (!d->stale && same_text(d, text)))
		return;
	// Neovim's text and ours part after "delete all, open a line, undo" (neovim issue 17085): what was saved is the truth.
	if (document_replace(d->text, text.text, text.n_bytes)) {
		lost(s, d, "the saved text could not be taken over");
		return;
	}
	d->stale = false;
	server_message(s, MESSAGE_LOG, false, "resync: the saved text differed and was taken over");
	parse(s, d);
}
