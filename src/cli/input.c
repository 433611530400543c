// SPDX-License-Identifier: MIT
// What subcommands read: files, token ids, cursors. And how they fail.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/utf8.h"
#include "cli/cli.h"
#include "engine_settings.h"

int cli_fail(enum err e, const struct err_msg *msg) {
	fprintf(stderr, "maskstore: %s\n", msg->text[0] ? msg->text : err_name(e));
	return e == ERR_NOMEM || e == ERR_CANCELLED || e == ERR_STATE ? 1 : CLI_EXIT_BAD_INPUT;
}

struct engine_options cli_engine_options(const struct cli *c) {
	const char *activations = cli_option(c, "activations"), *kv = cli_option(c, "kv");
	struct engine_options o = engine_settings(&c->config);
	if (o.deadline_ms == DEADLINE_BY_TRIGGER)
		o.deadline_ms = 0; // a command line waits
	if (activations && !strcmp(activations, "f32"))
		o.activation = ACTIVATION_F32;
	if (kv)
		o.kv_type = !strcmp(kv, "f32") ? KV_F32 : !strcmp(kv, "bf16") ? KV_BF16 : KV_F16;
	o.archive_budget_bytes = 0; // one answer from nothing, as a reference to compare with
	return o;
}

// --- files

static enum err read_open(FILE *f, const char *path, char **data, size_t *n_bytes, struct err_msg *msg) {
	struct stat st;
	if (fstat(fileno(f), &st) || !S_ISREG(st.st_mode))
		return err_set(msg, ERR_IO, "%s: not a regular file", path);
	if (st.st_size > (off_t)DOCUMENT_MAX_BYTES)
		return err_set(msg, ERR_LIMIT, "%s: %lld bytes, the limit is %u: complete in a smaller file", path, (long long)st.st_size, DOCUMENT_MAX_BYTES);
	char *text = malloc((size_t)st.st_size + 1);
	if (!text)
		return err_set(msg, ERR_NOMEM, "%s: out of memory", path);
	*n_bytes = fread(text, 1, (size_t)st.st_size, f);
	*data = text;
	return ERR_OK;
}

enum err cli_read_file(const char *path, char **data, size_t *n_bytes, struct err_msg *msg) {
	FILE *f = fopen(path, "rbe");
	if (!f)
		return err_set(msg, ERR_IO, "%s: %s", path, strerror(errno));
	enum err e = read_open(f, path, data, n_bytes, msg);
	fclose(f);
	return e;
}

enum err cli_read_ids(const char *path, token_id **out, size_t *n, struct err_msg *msg) {
	char *data = NULL;
	size_t n_bytes = 0;
	enum err e = cli_read_file(path, &data, &n_bytes, msg);
	if (e != ERR_OK)
		return e;
	if (n_bytes == 0 || n_bytes % sizeof(token_id)) {
		free(data);
		return err_set(msg, ERR_FORMAT, "%s: %zu bytes are not a list of int32 token ids", path, n_bytes);
	}
	*out = (token_id *)(void *)data; // malloc'ed, so aligned
	*n = n_bytes / sizeof(token_id);
	return ERR_OK;
}

// --- cursors

struct cursor {
	char path[4096];
	unsigned long line, column; // 1-based
};

static bool parse_number(const char *text, const char *end, unsigned long *out) {
	char *stop;
	errno = 0;
	*out = strtoul(text, &stop, 10);
	return !errno && stop == end && stop != text && *text >= '0' && *text <= '9' && *out >= 1 && *out <= UINT32_MAX;
}

static enum err parse_cursor(const char *text, struct cursor *out, struct err_msg *msg) {
	const char *column = strrchr(text, ':'), *line = column;
	while (line && line > text && *--line != ':') {
	}
	size_t path_bytes = line ? (size_t)(line - text) : 0;
	if (!line || *line != ':' || !path_bytes || path_bytes >= sizeof out->path || !parse_number(line + 1, column, &out->line) ||
	    !parse_number(column + 1, column + strlen(column), &out->column))
		return err_set(msg, ERR_ARG, "\"%.200s\" is not FILE:LINE:COL with numbers from 1, for example app.py:12:5", text);
	memcpy(out->path, text, path_bytes);
	out->path[path_bytes] = 0;
	return ERR_OK;
}

static bool is_python(const char *path) {
	size_t n = strlen(path);
	return (n > 3 && !strcmp(path + n - 3, ".py")) || (n > 4 && !strcmp(path + n - 4, ".pyi"));
}

static enum err check_text(const char *path, const char *data, size_t n_bytes, struct err_msg *msg) {
	if (n_bytes == 0)
		return err_set(msg, ERR_ARG, "%s: the file is empty, there is nothing to complete from: type a first line", path);
	size_t i = 0;
	for (size_t n; i < n_bytes; i += n)
		if (!(n = utf8_sequence(data + i, n_bytes - i)))
			return err_set(msg, ERR_FORMAT, "%s: byte %zu is not UTF-8: convert the file to UTF-8", path, i + 1);
	return ERR_OK;
}

static enum err place_cursor(const struct cursor *c, const struct snapshot *s, size_t *offset, struct err_msg *msg) {
	if (c->line > snapshot_lines(s))
		return err_set(msg, ERR_ARG, "%s: line %lu is past the end, the file has %u lines", c->path, c->line, snapshot_lines(s));
	uint32_t line = (uint32_t)(c->line - 1);
	struct position end = snapshot_position(s, snapshot_line_end(s, line), POS_UTF32);
	if (c->column - 1 > end.character)
		return err_set(msg, ERR_ARG, "%s: column %lu is past the end, line %lu has %u characters", c->path, c->column, c->line, end.character);
	*offset = snapshot_offset(s, (struct position){line, (uint32_t)(c->column - 1)}, POS_UTF32);
	return ERR_OK;
}

static enum err open_text(const struct cursor *c, struct snapshot **out, struct err_msg *msg) {
	char *data = NULL;
	size_t n_bytes = 0;
	enum err e = cli_read_file(c->path, &data, &n_bytes, msg);
	if (e != ERR_OK)
		return e;
	e = check_text(c->path, data, n_bytes, msg);
	struct snapshot *s = e == ERR_OK ? snapshot_create(data, n_bytes, is_python(c->path)) : NULL;
	free(data);
	if (e != ERR_OK)
		return e;
	if (!s)
		return err_set(msg, ERR_NOMEM, "%s: out of memory", c->path);
	*out = s;
	return ERR_OK;
}

enum err cli_open_cursor(const char *text, struct snapshot **snapshot, size_t *offset, struct err_msg *msg) {
	struct cursor c;
	struct snapshot *s = NULL;
	enum err e = parse_cursor(text, &c, msg);
	if (e == ERR_OK)
		e = open_text(&c, &s, msg);
	if (e == ERR_OK)
		e = place_cursor(&c, s, offset, msg);
	if (e == ERR_OK)
		*snapshot = s;
	else
		snapshot_unref(s);
	return e;
}
