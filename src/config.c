// SPDX-License-Identifier: MIT
// Settings: one table drives JSON keys, environment variables, flags, checks and --help.
//
// Invariants: a bad value never changes the old one. The only file above base that sees jansson outside lsp/.
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "defaults.h"

#define DEFAULT_MODEL_FILE "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf" // spec §6
#define CONFIG_FILE_MAX_BYTES (1u << 20)

enum kind { KIND_TEXT, KIND_INT };

struct setting {
	const char *flag; // command line; JSON key and variable follow from it
	const char *key;  // JSON
	const char *env;
	enum kind kind;
	size_t offset;     // in struct config
	size_t size_bytes; // of a text
	int min, max;      // of a number
	const char *const *choices; // of a text, null-terminated; null: any
	const char *help;
};

static const char *const strategies[] = {"conservative", "balanced", "aggressive", NULL};
static const char *const kv_types[] = {"f16", "bf16", NULL};
static const char *const switches[] = {"on", "off", NULL};

#define TEXT(field) KIND_TEXT, offsetof(struct config, field), sizeof(((struct config *)0)->field), 0, 0
#define INT(field, lo, hi) KIND_INT, offsetof(struct config, field), 0, lo, hi

static const struct setting settings[] = {
	{"model", "model", "MASKSTORE_MODEL", TEXT(model), NULL, "GGUF file (default: the default model in the cache folder)"},
	{"cache-dir", "cacheDir", "MASKSTORE_CACHE_DIR", TEXT(cache_dir), NULL, "folder for models, logs and archives"},
	{"threads", "threads", "MASKSTORE_THREADS", INT(threads, 0, 64), NULL, "worker threads (0: all cores)"},
	{"max-context", "maxContext", "MASKSTORE_MAX_CONTEXT", INT(max_context, LIMIT_MIN_CONTEXT_TOKENS, 1 << 20), NULL,
	 "tokens of prompt and answer together"},
	{"strategy", "strategy", "MASKSTORE_STRATEGY", TEXT(strategy), strategies, "conservative, balanced or aggressive"},
	{"speculate", "speculate", "MASKSTORE_SPECULATE", TEXT(speculate), switches, "on or off: guess tokens and check several at once (same answers)"},
	{"deadline-ms", "deadlineMs", "MASKSTORE_DEADLINE_MS", INT(deadline_ms, 0, 600000), NULL,
	 "milliseconds until an answer is cut (default: 2500 while typing, 10000 on demand; 0: none)"},
	{"max-new-tokens", "maxNewTokens", "MASKSTORE_MAX_NEW_TOKENS", INT(max_new_tokens, 0, 4096), NULL,
	 "longest answer in tokens (0: 64 for a line, 192 for a block)"},
	{"kv-type", "kvType", "MASKSTORE_KV_TYPE", TEXT(kv_type), kv_types, "f16 or bf16: keys and values that are kept"},
	{"kv-budget-mb", "kvBudgetMb", "MASKSTORE_KV_BUDGET_MB", INT(kv_budget_mb, 0, 1 << 20), NULL,
	 "megabytes of memory for keys and values (0: four contexts, at most a quarter of the memory)"},
	{"store-budget-mb", "storeBudgetMb", "MASKSTORE_STORE_BUDGET_MB", INT(store_budget_mb, 0, 1 << 20), NULL,
	 "megabytes on disk for the archive of keys and values (0: none)"},
	{"prefetch", "prefetch", "MS_PREFETCH", INT(prefetch, 1, 64), NULL, "blocks that the archive reads ahead"},
	{"log", "log", "MASKSTORE_LOG", TEXT(log), NULL, "latency log (default: log/requests.jsonl in the cache folder)"},
};
#undef TEXT
#undef INT
#define N_SETTINGS (sizeof settings / sizeof settings[0])

// --- setting one value

static bool allowed(const struct setting *s, const char *text) {
	if (!s->choices)
		return true;
	for (int i = 0; s->choices[i]; i++)
		if (!strcmp(s->choices[i], text))
			return true;
	return false;
}

static enum err set_text(struct config *c, const struct setting *s, const char *text, size_t n_bytes, struct err_msg *msg) {
	if (n_bytes >= s->size_bytes || memchr(text, 0, n_bytes))
		return err_set(msg, ERR_ARG, "%s: longer than %zu bytes or holds a zero byte", s->flag, s->size_bytes - 1);
	if (!allowed(s, text))
		return err_set(msg, ERR_ARG, "%s: \"%.40s\" is not one of: %s", s->flag, text, s->help);
	memcpy((char *)c + s->offset, text, n_bytes);
	((char *)c + s->offset)[n_bytes] = 0;
	return ERR_OK;
}

static enum err set_int(struct config *c, const struct setting *s, long long value, struct err_msg *msg) {
	if (value < s->min || value > s->max)
		return err_set(msg, ERR_ARG, "%s: %lld is not between %d and %d", s->flag, value, s->min, s->max);
	int n = (int)value;
	memcpy((char *)c + s->offset, &n, sizeof n);
	return ERR_OK;
}

static enum err set_from_text(struct config *c, const struct setting *s, const char *text, struct err_msg *msg) {
	if (s->kind == KIND_TEXT)
		return set_text(c, s, text, strlen(text), msg);
	char *end;
	errno = 0;
	long long value = strtoll(text, &end, 10);
	if (errno || end == text || *end || isspace((unsigned char)*text))
		return err_set(msg, ERR_ARG, "%s: \"%.40s\" is not a whole number", s->flag, text);
	return set_int(c, s, value, msg);
}

static enum err set_from_json(struct config *c, const struct setting *s, const json_t *value, struct err_msg *msg) {
	if (json_is_null(value))
		return ERR_OK;
	if (s->kind == KIND_TEXT && json_is_string(value))
		return set_text(c, s, json_string_value(value), json_string_length(value), msg);
	if (s->kind == KIND_INT && json_is_integer(value))
		return set_int(c, s, json_integer_value(value), msg);
	return err_set(msg, ERR_ARG, "%s: a %s is expected", s->key, s->kind == KIND_INT ? "whole number" : "text");
}

// --- sources

static void default_cache_dir(char *out, size_t size_bytes) {
	const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	if (xdg && xdg[0] == '/')
		snprintf(out, size_bytes, "%s/maskstore", xdg);
	else
		snprintf(out, size_bytes, "%s/.cache/maskstore", home && home[0] ? home : "/tmp");
}

void config_init(struct config *c) {
	*c = (struct config){.max_context = LIMIT_DEFAULT_CONTEXT_TOKENS, .kv_type = "f16", .store_budget_mb = LIMIT_STORE_BUDGET_MB, .prefetch = LIMIT_PREFETCH_BLOCKS, .strategy = "balanced", .speculate = "on", .deadline_ms = CONFIG_DEADLINE_UNSET};
	default_cache_dir(c->cache_dir, sizeof c->cache_dir);
}

static void note(struct buf *notes, const char *text) {
	if (notes)
		buf_appendf(notes, "%s\n", text);
}

static const struct setting *find_key(const char *key) {
	for (size_t i = 0; i < N_SETTINGS; i++)
		if (!strcmp(settings[i].key, key))
			return &settings[i];
	return NULL;
}

static void apply_object(struct config *c, json_t *object, struct buf *notes) {
	const char *key;
	json_t *value;
	json_object_foreach(object, key, value) {
		struct err_msg msg = {0};
		const struct setting *s = find_key(key);
		if (!s)
			err_set(&msg, ERR_ARG, "unknown setting \"%.80s\"", key);
		else if (set_from_json(c, s, value, &msg) == ERR_OK)
			continue;
		note(notes, msg.text);
	}
}

enum err config_apply_json(struct config *c, const char *json, size_t n_bytes, struct buf *notes, struct err_msg *msg) {
	json_error_t error;
	json_t *root = json_loadb(json, n_bytes, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
	if (!root)
		return err_set(msg, ERR_FORMAT, "settings are not JSON: line %d: %s", error.line, error.text);
	json_t *wrapped = json_object_get(root, "maskstore");
	json_t *object = wrapped ? wrapped : root;
	if (json_is_object(object))
		apply_object(c, object, notes);
	else if (!json_is_null(object))
		note(notes, "settings are not an object, ignored");
	json_decref(root);
	return ERR_OK;
}

static enum err read_file(const char *path, char **data, size_t *n_bytes, struct err_msg *msg) {
	FILE *f = fopen(path, "rbe");
	if (!f)
		return err_set(msg, ERR_IO, "%s: %s", path, strerror(errno));
	char *text = malloc(CONFIG_FILE_MAX_BYTES);
	size_t n = text ? fread(text, 1, CONFIG_FILE_MAX_BYTES, f) : 0;
	bool failed = !text || ferror(f) || n == CONFIG_FILE_MAX_BYTES;
	fclose(f);
	if (failed) {
		free(text);
		return err_set(msg, ERR_IO, "%s: cannot be read, or is larger than 1 MiB", path);
	}
	*data = text;
	*n_bytes = n;
	return ERR_OK;
}

enum err config_apply_file(struct config *c, const char *path, struct buf *notes, struct err_msg *msg) {
	char *data = NULL;
	size_t n_bytes = 0;
	enum err e = read_file(path, &data, &n_bytes, msg);
	if (e != ERR_OK)
		return e;
	e = config_apply_json(c, data, n_bytes, notes, msg);
	free(data);
	return e == ERR_OK ? ERR_OK : err_prefix(msg, e, "%s", path);
}

enum err config_apply_env(struct config *c, struct err_msg *msg) {
	for (size_t i = 0; i < N_SETTINGS; i++) {
		const char *value = getenv(settings[i].env);
		if (!value || !*value)
			continue;
		enum err e = set_from_text(c, &settings[i], value, msg);
		if (e != ERR_OK)
			return err_prefix(msg, e, "environment variable %s", settings[i].env);
	}
	const char *isa = getenv("MASKSTORE_ISA");
	snprintf(c->isa, sizeof c->isa, "%s", isa ? isa : "");
	return ERR_OK;
}

enum err config_apply_flag(struct config *c, const char *name, const char *value, struct err_msg *msg) {
	for (size_t i = 0; i < N_SETTINGS; i++)
		if (!strcmp(settings[i].flag, name))
			return set_from_text(c, &settings[i], value, msg);
	return err_set(msg, ERR_NOT_FOUND, "unknown flag --%s; see maskstore --help", name);
}

void config_resolve(struct config *c) {
	// A path that does not fit is left empty, and the model or log then reports that it cannot be opened.
	if (!c->model[0] && snprintf(c->model, sizeof c->model, "%.4000s/models/%s", c->cache_dir, DEFAULT_MODEL_FILE) < 0)
		c->model[0] = 0;
	if (!c->log[0] && snprintf(c->log, sizeof c->log, "%.4000s/log/requests.jsonl", c->cache_dir) < 0)
		c->log[0] = 0;
}

void config_describe(struct buf *out) {
	for (size_t i = 0; i < N_SETTINGS; i++) {
		const struct setting *s = &settings[i];
		buf_appendf(out, "  --%-15s %-26s %-13s %s\n", s->flag, s->env, s->key, s->help);
	}
}
