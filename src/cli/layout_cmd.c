// SPDX-License-Identifier: MIT
// maskstore inspect layouts --layouts 16/16,8/4 FILE:LINE:COL…: the answers of several prompt layouts at the same cursors, for choosing one.
//
// A layout is ANCHOR/SUFFIX in lines (prompt.h). All run in one store, so what their prompts share is evaluated once.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/cli.h"

#define MAX_LAYOUTS 16
#define MAX_LINES 4096

struct layouts {
	struct prompt_layout at[MAX_LAYOUTS];
	int n;
};

static bool parse_layouts(const char *text, struct layouts *out) {
	out->n = 0;
	while (text && *text && out->n < MAX_LAYOUTS) {
		int anchor, suffix, n_bytes = 0;
		if (sscanf(text, "%5d/%5d%n", &anchor, &suffix, &n_bytes) != 2 || anchor < 1 || anchor > MAX_LINES || suffix < 1 || suffix > MAX_LINES)
			return false;
		out->at[out->n++] = (struct prompt_layout){anchor, suffix};
		text += n_bytes;
		if (*text && *text++ != ',')
			return false;
	}
	return out->n > 0 && !*text;
}

static enum err append_answer(struct completer *c, struct snapshot *s, size_t offset, const struct prompt_layout *l, struct buf *b, struct err_msg *msg) {
	struct complete_result r;
	struct complete_request request = {.snapshot = s, .offset = offset, .trigger = TRIGGER_INVOKED, .received_us = clock_us()};
	completer_set_layout(c, l);
	complete_run(c, &request, &r);
	enum err e = r.outcome == OUTCOME_FAILED ? err_set(msg, r.err, "%s", r.msg.text) : ERR_OK;
	buf_appendf(b, "{\"anchor\":%d,\"suffix\":%d,\"stop\":\"%s\",\"tokens\":{\"prompt\":%d,\"new\":%d},\"text\":", l->anchor_lines, l->suffix_lines, stop_name(r.stop),
	            r.prompt_tokens, r.new_tokens);
	buf_append_json(b, r.suggestion.text ? r.suggestion.text : "", r.suggestion.text_bytes);
	buf_append_str(b, "}");
	complete_result_finish(&r);
	return e;
}

static enum err print_cursor(struct completer *c, const char *where, const struct layouts *layouts, struct err_msg *msg) {
	struct snapshot *s;
	size_t offset;
	enum err e = cli_open_cursor(where, &s, &offset, msg);
	if (e != ERR_OK)
		return e;
	struct buf b = {0};
	buf_append_str(&b, "{\"cursor\":");
	buf_append_json(&b, where, strlen(where));
	buf_append_str(&b, ",\"answers\":[");
	for (int i = 0; i < layouts->n && e == ERR_OK; i++) {
		if (i)
			buf_append_str(&b, ",");
		e = append_answer(c, s, offset, &layouts->at[i], &b, msg);
	}
	buf_append_str(&b, "]}");
	if (e == ERR_OK && b.failed)
		e = err_set(msg, ERR_NOMEM, "out of memory");
	if (e == ERR_OK) {
		printf("%s\n", b.data);
		fflush(stdout);
	}
	buf_finish(&b);
	snapshot_unref(s);
	return e;
}

int cli_inspect_layouts(const struct cli *c) {
	struct err_msg msg = {"out of memory"};
	struct layouts layouts;
	if (!parse_layouts(cli_option(c, "layouts"), &layouts) || c->n_words < 2)
		return cli_fail(ERR_ARG, &(struct err_msg){"inspect layouts takes --layouts ANCHOR/SUFFIX,… (lines, at least 1) and one FILE:LINE:COL or more"});
	struct parser_worker *parser = NULL;
	struct completer *completer = NULL;
	struct engine_options o = cli_engine_options(c);
	o.deadline_ms = 0;
	o.archive_budget_bytes = 0;
	enum err e = parser_worker_create(&parser);
	if (e == ERR_OK)
		e = completer_create(&o, parser, &completer, &msg);
	for (int i = 1; i < c->n_words && e == ERR_OK; i++) // words[0] is "layouts"
		e = print_cursor(completer, c->words[i], &layouts, &msg);
	completer_destroy(completer);
	parser_worker_destroy(parser);
	return e == ERR_OK ? 0 : cli_fail(e, &msg);
}
