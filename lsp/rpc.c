// SPDX-License-Identifier: MIT
// Classification of one message and construction of answers. A message is a request (method and id), a notification (method), a
// response (result or error), or invalid; an invalid one keeps its id where it has a usable one, so that it can be answered.
#include "rpc.h"

#include <string.h>

#include "prepass.h"

static void set_invalid(struct rpc_message *m, enum rpc_code code, const char *text) {
	m->kind = RPC_INVALID;
	m->code = code;
	err_set(&m->msg, ERR_FORMAT, "%s", text);
}

static json_t *load(char *json, size_t n_bytes, struct rpc_message *m) {
	json_error_t error;
	prepass_mend(json, n_bytes);
	json_t *root = json_loadb(json, n_bytes, JSON_ALLOW_NUL | JSON_DECODE_ANY, &error);
	if (!root) {
		m->kind = RPC_INVALID;
		m->code = RPC_PARSE_ERROR;
		// jansson's own text may quote the message, which may be a document: position only.
		err_set(&m->msg, ERR_FORMAT, "not valid JSON near byte %d", error.position);
	}
	return root;
}

static void classify(struct rpc_message *m) {
	json_t *id = json_object_get(m->root, "id"), *method = json_object_get(m->root, "method");
	if (json_is_integer(id) || json_is_string(id))
		m->id = id;
	if (!method && (json_object_get(m->root, "result") || json_object_get(m->root, "error"))) {
		m->kind = RPC_RESPONSE;
		return;
	}
	if (!json_is_string(method)) {
		set_invalid(m, RPC_INVALID_REQUEST, method ? "method is not a string" : "neither method nor result nor error");
		return;
	}
	if (id && !m->id) {
		set_invalid(m, RPC_INVALID_REQUEST, "id is neither an integer nor a string");
		return;
	}
	m->method = json_string_value(method);
	if (strlen(m->method) != json_string_length(method))
		m->method = ""; // a zero character inside: no method of ours
	m->kind = id ? RPC_REQUEST : RPC_NOTIFICATION;
	json_t *params = json_object_get(m->root, "params");
	m->bad_params = params && !json_is_null(params) && !json_is_object(params) && !json_is_array(params);
	m->params = json_is_object(params) || json_is_array(params) ? params : NULL;
}

void rpc_parse(char *json, size_t n_bytes, struct rpc_message *out) {
	*out = (struct rpc_message){.method = ""};
	out->root = load(json, n_bytes, out);
	if (!out->root)
		return;
	if (json_is_object(out->root))
		classify(out);
	else
		set_invalid(out, RPC_INVALID_REQUEST, json_is_array(out->root) ? "batches are not part of LSP" : "a message must be an object");
}

void rpc_message_finish(struct rpc_message *m) {
	json_decref(m->root);
	*m = (struct rpc_message){.method = ""};
}

static json_t *or_null(json_t *value) {
	return value ? value : json_null();
}

json_t *rpc_result(json_t *id, json_t *result) {
	return json_pack("{s:s, s:O, s:O}", "jsonrpc", "2.0", "id", or_null(id), "result", or_null(result));
}

json_t *rpc_error(json_t *id, enum rpc_code code, const char *text) {
	return json_pack("{s:s, s:O, s:{s:i, s:s}}", "jsonrpc", "2.0", "id", or_null(id), "error", "code", (int)code, "message", text);
}

json_t *rpc_notification(const char *method, json_t *params) {
	return json_pack("{s:s, s:s, s:O}", "jsonrpc", "2.0", "method", method, "params", params);
}

json_t *rpc_request(int id, const char *method, json_t *params) {
	return json_pack("{s:s, s:i, s:s, s:O}", "jsonrpc", "2.0", "id", id, "method", method, "params", params);
}
