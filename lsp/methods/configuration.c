// SPDX-License-Identifier: MIT
// Settings from the client: initializationOptions, workspace/configuration, didChangeConfiguration. Bad values keep the old ones, and each bad key
// is named once in a session.
#include <stdlib.h>
#include <string.h>

#include "../internal.h"

// True the first time this line is seen.
static bool first_time(struct server *s, const char *line, size_t n) {
	for (int i = 0; i < s->n_noted; i++)
		if (strlen(s->noted[i]) == n && !memcmp(s->noted[i], line, n))
			return false;
	if (s->n_noted == (int)(sizeof s->noted / sizeof s->noted[0]))
		return false;
	char *copy = strndup(line, n);
	if (copy)
		s->noted[s->n_noted++] = copy;
	return copy != NULL;
}

static void tell_notes(struct server *s, const struct buf *notes) {
	const char *p = notes->data, *end = p ? p + notes->len_bytes : p;
	while (p < end) {
		const char *lf = memchr(p, '\n', (size_t)(end - p));
		size_t n = (size_t)((lf ? lf : end) - p);
		if (n && first_time(s, p, n))
			server_message(s, MESSAGE_WARNING, false, "settings: %.*s", (int)(n > 400 ? 400 : n), p);
		p += n + 1;
	}
}

static bool needs_restart(const struct config *a, const struct config *b) {
	return strcmp(a->model, b->model) || strcmp(a->cache_dir, b->cache_dir) || a->threads != b->threads || a->max_context != b->max_context ||
	       a->deadline_ms != b->deadline_ms || a->max_new_tokens != b->max_new_tokens || strcmp(a->strategy, b->strategy) ||
	       strcmp(a->isa, b->isa) || strcmp(a->kv_type, b->kv_type) || a->kv_budget_mb != b->kv_budget_mb ||
	       a->store_budget_mb != b->store_budget_mb || a->prefetch != b->prefetch;
}

void configuration_apply(struct server *s, json_t *value) {
	char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
	struct config *old = malloc(sizeof *old);
	if (text && old) {
		struct buf notes = {0};
		struct err_msg msg;
		*old = s->config;
		if (config_apply_json(&s->config, text, strlen(text), &notes, &msg)) {
			s->config = *old;
			if (first_time(s, msg.text, strlen(msg.text)))
				server_message(s, MESSAGE_WARNING, false, "settings: %s", msg.text);
		}
		tell_notes(s, &notes);
		buf_finish(&notes);
		if (s->engine_tried && needs_restart(old, &s->config) && server_notice(s, NOTICE_RESTART))
			server_message(s, MESSAGE_INFO, false, "changed settings take effect when the server starts again");
	}
	free(old);
	free(text);
}

void configuration_ask(struct server *s) {
	s->configuration_id = server_request(s, "workspace/configuration", json_pack("{s:[{s:s}]}", "items", "section", "maskstore"));
}

void configuration_response(struct server *s, const struct rpc_message *m) {
	s->configuration_id = 0;
	configuration_apply(s, json_array_get(json_object_get(m->root, "result"), 0)); // null where it is an error, short, or no array
	uv_timer_stop(&s->config_timer);
	if (s->life == LIFE_INITIALIZED)
		model_start(s);
}

void method_did_change_configuration(struct server *s, const struct rpc_message *m, int64_t received_us) {
	(void)received_us;
	json_t *settings = json_object_get(m->params, "settings"), *section = json_object_get(settings, "maskstore");
	configuration_apply(s, section ? section : settings);
	if (s->client.configuration)
		configuration_ask(s);
}
