// SPDX-License-Identifier: MIT
// The one table of methods, sorted by name (bytes) for a binary search; a test checks the order.
#include "../internal.h"

#include <stdlib.h>
#include <string.h>

const struct method methods[] = {
	{"$/cancelRequest", RPC_NOTIFICATION, method_cancel},
	{"$/setTrace", RPC_NOTIFICATION, method_ignore},
	{"exit", RPC_NOTIFICATION, method_exit},
	{"initialize", RPC_REQUEST, method_initialize},
	{"initialized", RPC_NOTIFICATION, method_initialized},
	{"shutdown", RPC_REQUEST, method_shutdown},
	{"textDocument/completion", RPC_REQUEST, method_completion},
	{"textDocument/didChange", RPC_NOTIFICATION, method_did_change},
	{"textDocument/didClose", RPC_NOTIFICATION, method_did_close},
	{"textDocument/didFocus", RPC_NOTIFICATION, method_ignore},
	{"textDocument/didOpen", RPC_NOTIFICATION, method_did_open},
	{"textDocument/didPartiallyAcceptCompletion", RPC_NOTIFICATION, method_ignore},
	{"textDocument/didSave", RPC_NOTIFICATION, method_did_save},
	{"textDocument/didShowCompletion", RPC_NOTIFICATION, method_ignore},
	{"textDocument/inlineCompletion", RPC_REQUEST, method_inline_completion},
	{"window/workDoneProgress/cancel", RPC_NOTIFICATION, method_ignore},
	{"workspace/didChangeConfiguration", RPC_NOTIFICATION, method_did_change_configuration},
};
const size_t n_methods = sizeof methods / sizeof methods[0];

static int compare(const void *name, const void *entry) {
	return strcmp(name, ((const struct method *)entry)->name);
}

const struct method *methods_find(const char *name) {
	return bsearch(name, methods, n_methods, sizeof methods[0], compare);
}

// Known, but nothing follows from it: loading is not cancellable, and no trace is sent.
void method_ignore(struct server *s, const struct rpc_message *m, int64_t received_us) {
	(void)s;
	(void)m;
	(void)received_us;
}

void methods_response(struct server *s, const struct rpc_message *m) {
	// Our ids are small integers; a reply to anything else is nobody's.
	json_int_t id = json_is_integer(m->id) ? json_integer_value(m->id) : 0;
	if (id && id == s->configuration_id)
		configuration_response(s, m);
	else if (id && id == s->progress_id)
		progress_response(s, m);
}
