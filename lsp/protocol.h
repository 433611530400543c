// SPDX-License-Identifier: MIT
// LSP structures from JSON, checked field by field, and back. Loop thread (or any: no state).
//
// Readers return ERR_ARG with a message that names the field ("position.line must be …"), which becomes the text of error -32602.
// Strings are borrowed from the JSON they were read from. Optional fields: absent and null are the same.
#ifndef MASKSTORE_LSP_PROTOCOL_H
#define MASKSTORE_LSP_PROTOCOL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "document/document.h"

struct text_ref {
	const char *text; // borrowed; may hold zero bytes
	size_t n_bytes;
};

struct lsp_range {
	struct position start, end;
};

// InlineCompletionParams and CompletionParams, as far as they are used.
struct completion_params {
	struct text_ref uri;
	struct position position;
	int trigger_kind;           // 1 or 2; unknown kinds are 2
	bool has_selected;          // selectedCompletionInfo
	struct lsp_range selected_range;
	struct text_ref selected_text;
};

struct text_change {
	bool has_range;
	struct lsp_range range;
	struct text_ref text;
};

// What the client said in initialize.
struct client_info {
	int64_t process_id;         // 0: none
	enum pos_encoding encoding; // chosen
	bool offers_encodings;
	bool configuration;         // workspace.configuration
	bool progress;              // window.workDoneProgress
	bool as_is_insertion;       // completionItem.insertTextModeSupport holds asIs
};

// `path` is the name used in messages.
enum err protocol_read_position(json_t *json, const char *path, struct position *out, struct err_msg *msg) ERR_MUST_CHECK;
enum err protocol_read_range(json_t *json, const char *path, struct lsp_range *out, struct err_msg *msg) ERR_MUST_CHECK;
// params.textDocument.uri
enum err protocol_read_uri(json_t *params, struct text_ref *out, struct err_msg *msg) ERR_MUST_CHECK;
enum err protocol_read_inline_completion(json_t *params, struct completion_params *out, struct err_msg *msg) ERR_MUST_CHECK;
enum err protocol_read_completion(json_t *params, struct completion_params *out, struct err_msg *msg) ERR_MUST_CHECK;
// One element of contentChanges.
enum err protocol_read_change(json_t *json, size_t index, struct text_change *out, struct err_msg *msg) ERR_MUST_CHECK;
// A string member of `object`. ERR_ARG if it is absent or no string.
enum err protocol_read_string(json_t *object, const char *key, const char *path, struct text_ref *out, struct err_msg *msg) ERR_MUST_CHECK;
// Any number as a version; 0 for everything else.
int64_t protocol_version(json_t *json);
// InitializeParams; never fails: what is missing or wrong gets its default.
void protocol_read_client(json_t *params, struct client_info *out);
const char *protocol_encoding_name(enum pos_encoding enc);

// New references; null if memory is out.
json_t *protocol_position(struct position p) ERR_MUST_CHECK;
json_t *protocol_range(struct lsp_range r) ERR_MUST_CHECK;
json_t *protocol_initialize_result(const struct client_info *c) ERR_MUST_CHECK;

#endif
