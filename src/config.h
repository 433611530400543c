// SPDX-License-Identifier: MIT
// Settings: one table of names, read in this order, later ones win:
//   built-in defaults < JSON file < environment (MASKSTORE_…) < command line < LSP configuration.
// docs/configuration.md is the same table for people; a test compares the two.
#ifndef MASKSTORE_CONFIG_H
#define MASKSTORE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define CONFIG_TEXT_BYTES 4096
#define CONFIG_DEADLINE_UNSET (-1)

struct config {
	char model[CONFIG_TEXT_BYTES];     // path; empty: the default model in the cache folder
	char cache_dir[CONFIG_TEXT_BYTES]; // default $XDG_CACHE_HOME/maskstore or ~/.cache/maskstore
	char log[CONFIG_TEXT_BYTES];       // latency log path; empty: <cache_dir>/log/requests.jsonl while serving
	int threads;                       // 0: all cores
	int max_context;                   // tokens, default 8192
	int deadline_ms;                   // 0: none; CONFIG_DEADLINE_UNSET: what suits the kind of request
	int max_new_tokens;                // 0: by kind of completion
	int kv_budget_mb;                  // memory for keys and values; 0: four contexts, at most a quarter of the machine's
	int store_budget_mb;               // archive on disk, default 2048; 0: none
	int prefetch;                      // files that the archive reads ahead, default 2
	char kv_type[16];                  // f16 | bf16
	char strategy[16];                 // conservative | balanced | aggressive
	char speculate[8];                 // on | off
	char isa[16];                      // MASKSTORE_ISA: scalar | avx2 | avx512 | amx; empty: the best this CPU has
};

// Built-in defaults (cache folder from the environment).
void config_init(struct config *c);
// Settings from a JSON object in text. Unknown keys and wrong types keep the old value; each is named once in `notes` (one line each,
// may be null). ERR_FORMAT only if the text is not JSON; any JSON value is accepted (null and non-objects change nothing).
// LSP sends its settings through here too: the object may be wrapped as {"maskstore": {…}}.
enum err config_apply_json(struct config *c, const char *json, size_t n_bytes, struct buf *notes, struct err_msg *msg) ERR_MUST_CHECK;
// Reads a JSON file. ERR_IO, ERR_FORMAT with the path in `msg`.
enum err config_apply_file(struct config *c, const char *path, struct buf *notes, struct err_msg *msg) ERR_MUST_CHECK;
// MASKSTORE_MODEL, MASKSTORE_CACHE_DIR, MASKSTORE_THREADS, … ERR_ARG naming variable and value.
enum err config_apply_env(struct config *c, struct err_msg *msg) ERR_MUST_CHECK;
// One command-line flag: `name` without dashes ("max-context"), its value. ERR_NOT_FOUND for an unknown name, ERR_ARG for a bad value.
enum err config_apply_flag(struct config *c, const char *name, const char *value, struct err_msg *msg) ERR_MUST_CHECK;
// Fills what depends on other settings (default model path, log path). Never fails.
void config_resolve(struct config *c);
// The table, for --help and the documentation test: appends one line a setting.
void config_describe(struct buf *out);

#endif
