// SPDX-License-Identifier: MIT
// Reading is tolerant where editors differ (integral reals, numbers beyond 32 bits, missing context) and strict where a wrong value would
// change a text or a place: such fields are named in the error.
#include "protocol.h"

#include <math.h>
#include <string.h>
#include <strings.h>

static struct text_ref ref(const json_t *string) {
	return (struct text_ref){json_string_value(string), json_string_length(string)};
}

enum err protocol_read_string(json_t *object, const char *key, const char *path, struct text_ref *out, struct err_msg *msg) {
	json_t *value = json_object_get(object, key);
	if (!json_is_string(value))
		return err_set(msg, ERR_ARG, "%s must be a string", path);
	*out = ref(value);
	return ERR_OK;
}

// uinteger; values beyond 32 bits are clamped, since they only can mean "the end".
static enum err read_unsigned(json_t *object, const char *key, const char *path, uint32_t *out, struct err_msg *msg) {
	json_t *value = json_object_get(object, key);
	double number = json_is_number(value) ? json_number_value(value) : -1;
	if (number < 0 || number != floor(number))
		return err_set(msg, ERR_ARG, "%s.%s must be an integer of 0 or more", path, key);
	*out = number > UINT32_MAX ? UINT32_MAX : (uint32_t)number;
	return ERR_OK;
}

enum err protocol_read_position(json_t *json, const char *path, struct position *out, struct err_msg *msg) {
	if (!json_is_object(json))
		return err_set(msg, ERR_ARG, "%s must be an object", path);
	enum err e = read_unsigned(json, "line", path, &out->line, msg);
	return e ? e : read_unsigned(json, "character", path, &out->character, msg);
}

enum err protocol_read_range(json_t *json, const char *path, struct lsp_range *out, struct err_msg *msg) {
	if (!json_is_object(json))
		return err_set(msg, ERR_ARG, "%s must be an object", path);
	enum err e = protocol_read_position(json_object_get(json, "start"), "start", &out->start, msg);
	if (!e)
		e = protocol_read_position(json_object_get(json, "end"), "end", &out->end, msg);
	return e ? err_prefix(msg, e, "%s", path) : ERR_OK;
}

enum err protocol_read_uri(json_t *params, struct text_ref *out, struct err_msg *msg) {
	if (!json_is_object(params))
		return err_set(msg, ERR_ARG, "params must be an object");
	json_t *document = json_object_get(params, "textDocument");
	if (!json_is_object(document))
		return err_set(msg, ERR_ARG, "textDocument must be an object");
	return protocol_read_string(document, "uri", "textDocument.uri", out, msg);
}

static bool present(json_t *value) {
	return value && !json_is_null(value);
}

static enum err read_selected(json_t *info, struct completion_params *out, struct err_msg *msg) {
	if (!json_is_object(info))
		return err_set(msg, ERR_ARG, "context.selectedCompletionInfo must be an object");
	enum err e = protocol_read_range(json_object_get(info, "range"), "context.selectedCompletionInfo.range", &out->selected_range, msg);
	if (!e)
		e = protocol_read_string(info, "text", "context.selectedCompletionInfo.text", &out->selected_text, msg);
	out->has_selected = !e;
	return e;
}

static enum err read_place(json_t *params, struct completion_params *out, struct err_msg *msg) {
	*out = (struct completion_params){.trigger_kind = 2};
	enum err e = protocol_read_uri(params, &out->uri, msg);
	if (!e)
		e = protocol_read_position(json_object_get(params, "position"), "position", &out->position, msg);
	json_t *context = json_object_get(params, "context");
	if (!e && present(context) && !json_is_object(context))
		e = err_set(msg, ERR_ARG, "context must be an object");
	return e;
}

enum err protocol_read_inline_completion(json_t *params, struct completion_params *out, struct err_msg *msg) {
	enum err e = read_place(params, out, msg);
	if (e)
		return e;
	json_t *context = json_object_get(params, "context"), *kind = json_object_get(context, "triggerKind");
	if (present(kind) && !json_is_number(kind))
		return err_set(msg, ERR_ARG, "context.triggerKind must be an integer");
	if (kind && json_number_value(kind) == 1)
		out->trigger_kind = 1;
	json_t *selected = json_object_get(context, "selectedCompletionInfo");
	return present(selected) ? read_selected(selected, out, msg) : ERR_OK;
}

enum err protocol_read_completion(json_t *params, struct completion_params *out, struct err_msg *msg) {
	// Here kind 1 covers typing as well as an explicit call, so every request counts as automatic: a newer one supersedes it.
	return read_place(params, out, msg);
}

enum err protocol_read_change(json_t *json, size_t index, struct text_change *out, struct err_msg *msg) {
	*out = (struct text_change){0};
	enum err e = ERR_OK;
	if (!json_is_object(json))
		e = err_set(msg, ERR_ARG, "the change must be an object");
	if (!e)
		e = protocol_read_string(json, "text", "text", &out->text, msg);
	json_t *range = json_object_get(json, "range");
	if (!e && present(range)) {
		out->has_range = true;
		e = protocol_read_range(range, "range", &out->range, msg);
	}
	return e ? err_prefix(msg, e, "contentChanges[%zu]", index) : ERR_OK;
}

int64_t protocol_version(json_t *json) {
	if (json_is_integer(json))
		return json_integer_value(json);
	double v = json_is_real(json) ? json_real_value(json) : 0;
	return v > 9e18 ? INT64_MAX : v < -9e18 ? INT64_MIN : (int64_t)v;
}

static json_t *find(json_t *object, const char *a, const char *b, const char *c) {
	json_t *value = json_object_get(json_object_get(object, a), b);
	return c ? json_object_get(value, c) : value;
}

static bool encoding_of(json_t *name, enum pos_encoding *out) {
	for (int i = 0; i < 3; i++) {
		if (json_is_string(name) && !strcmp(json_string_value(name), protocol_encoding_name((enum pos_encoding)i))) {
			*out = (enum pos_encoding)i;
			return true;
		}
	}
	return false;
}

// The first of the client's list that we know; utf-16 without a usable list.
static void choose_encoding(json_t *list, struct client_info *out) {
	out->encoding = POS_UTF16;
	out->offers_encodings = json_is_array(list);
	for (size_t i = 0; i < json_array_size(list); i++)
		if (encoding_of(json_array_get(list, i), &out->encoding))
			return;
}

static bool list_has(json_t *list, int number) {
	for (size_t i = 0; i < json_array_size(list); i++)
		if (json_integer_value(json_array_get(list, i)) == number)
			return true;
	return false;
}

void protocol_read_client(json_t *params, struct client_info *out) {
	*out = (struct client_info){0};
	json_t *capabilities = json_object_get(params, "capabilities");
	out->process_id = json_integer_value(json_object_get(params, "processId"));
	choose_encoding(find(capabilities, "general", "positionEncodings", NULL), out);
	out->configuration = json_is_true(find(capabilities, "workspace", "configuration", NULL));
	out->progress = json_is_true(find(capabilities, "window", "workDoneProgress", NULL));
	json_t *item = find(capabilities, "textDocument", "completion", "completionItem");
	out->as_is_insertion = list_has(json_object_get(json_object_get(item, "insertTextModeSupport"), "valueSet"), 1);
}

const char *protocol_encoding_name(enum pos_encoding enc) {
	return enc == POS_UTF8 ? "utf-8" : enc == POS_UTF32 ? "utf-32" : "utf-16";
}

json_t *protocol_position(struct position p) {
	return json_pack("{s:I, s:I}", "line", (json_int_t)p.line, "character", (json_int_t)p.character);
}

json_t *protocol_range(struct lsp_range r) {
	return json_pack("{s:o, s:o}", "start", protocol_position(r.start), "end", protocol_position(r.end));
}

json_t *protocol_initialize_result(const struct client_info *c) {
	return json_pack("{s:{s:s, s:{s:b, s:i, s:{s:b}}, s:b, s:{s:b}}, s:{s:s, s:s}}",
		"capabilities",
			"positionEncoding", protocol_encoding_name(c->encoding),
			"textDocumentSync", "openClose", 1, "change", 2, "save", "includeText", 1,
			"inlineCompletionProvider", 1,
			"completionProvider", "resolveProvider", 0,
		"serverInfo", "name", "maskstore", "version", MASKSTORE_VERSION);
}
