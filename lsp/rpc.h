// SPDX-License-Identifier: MIT
// JSON-RPC 2.0: from bytes to a classified message, and the texts of responses. Pure functions; any thread.
#ifndef MASKSTORE_LSP_RPC_H
#define MASKSTORE_LSP_RPC_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

enum rpc_code {
	RPC_PARSE_ERROR = -32700,
	RPC_INVALID_REQUEST = -32600,
	RPC_METHOD_NOT_FOUND = -32601,
	RPC_INVALID_PARAMS = -32602,
	RPC_INTERNAL_ERROR = -32603,
	RPC_NOT_INITIALIZED = -32002,
	RPC_CANCELLED = -32800,
};

enum rpc_kind { RPC_REQUEST, RPC_NOTIFICATION, RPC_RESPONSE, RPC_INVALID };

struct rpc_message {
	enum rpc_kind kind;
	json_t *root;       // owned, null where parsing failed
	json_t *id;         // borrowed from root: integer or string; null for notifications, and for invalid messages without a usable id
	const char *method; // borrowed from root; "" unless request or notification
	json_t *params;     // borrowed from root: object or array, else null (absent and null are the same)
	bool bad_params;    // params is there and is neither object, array nor null
	enum rpc_code code; // for RPC_INVALID
	struct err_msg msg; // for RPC_INVALID
};

// Parses a message; json[n_bytes] is mended in place first (prepass.h). Always fills *out; finish with rpc_message_finish.
void rpc_parse(char *json, size_t n_bytes, struct rpc_message *out);
void rpc_message_finish(struct rpc_message *m);

// Response bodies. `id` may be null (JSON null). `result` is borrowed; null gives "result":null. A null return means that memory is out or
// that a string was not valid UTF-8.
json_t *rpc_result(json_t *id, json_t *result) ERR_MUST_CHECK;
json_t *rpc_error(json_t *id, enum rpc_code code, const char *text) ERR_MUST_CHECK;
json_t *rpc_notification(const char *method, json_t *params) ERR_MUST_CHECK;
json_t *rpc_request(int id, const char *method, json_t *params) ERR_MUST_CHECK;

#endif
