// SPDX-License-Identifier: MIT
// The command line: arguments to one struct, one file a subcommand. Exit codes: 0 done, 1 failed while working, 2 bad input.
#ifndef MASKSTORE_CLI_CLI_H
#define MASKSTORE_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "complete/complete.h"
#include "config.h"

#define CLI_MAX_WORDS 1024
#define CLI_MAX_OPTIONS 32
#define CLI_EXIT_BAD_INPUT 2

enum cli_command { CLI_SERVE, CLI_COMPLETE, CLI_INSPECT, CLI_BENCH, CLI_STORE, CLI_HELP, CLI_VERSION };

struct cli {
	enum cli_command command;
	struct config config;
	bool json;
	long client_process_id;
	const char *words[CLI_MAX_WORDS];   // positional arguments after the subcommand, borrowed from argv
	int n_words;
	struct cli_option {
		const char *name;  // without dashes
		const char *value; // "" for switches
	} options[CLI_MAX_OPTIONS];           // flags of the subcommand itself
	int n_options;
};

// Reads defaults, configuration file, environment and argv in that order. ERR_ARG with a reason and the fix.
enum err cli_parse(int argc, char **argv, struct cli *out, struct err_msg *msg) ERR_MUST_CHECK;
// Value of a subcommand's flag, or null.
const char *cli_option(const struct cli *c, const char *name);
// The same as a number in [min, max]; `fallback` if absent. Prints the reason and exits the caller's way: returns false on a bad value.
bool cli_option_int(const struct cli *c, const char *name, long min, long max, long fallback, long *out);
// --help text on standard output.
void cli_help(void);

// Prints "maskstore: <text>" on standard error and returns CLI_EXIT_BAD_INPUT or 1 by the kind of error.
int cli_fail(enum err e, const struct err_msg *msg);
// Options of the engine from settings (flags of oracles included: --activations, --kv).
struct engine_options cli_engine_options(const struct cli *c);
// Whole file into a malloc'ed buffer. ERR_IO, ERR_LIMIT (above DOCUMENT_MAX_BYTES) with a reason.
enum err cli_read_file(const char *path, char **data, size_t *n_bytes, struct err_msg *msg) ERR_MUST_CHECK;
// Token ids from a file of little-endian int32. `out` is malloc'ed.
enum err cli_read_ids(const char *path, token_id **out, size_t *n, struct err_msg *msg) ERR_MUST_CHECK;
// A cursor FILE:LINE:COL (1-based, columns in characters) with the file's text: snapshot (one reference) and byte offset.
enum err cli_open_cursor(const char *text, struct snapshot **snapshot, size_t *offset, struct err_msg *msg) ERR_MUST_CHECK;

// Subcommands; each returns the exit status.
int cli_complete(const struct cli *c);
int cli_inspect(const struct cli *c);
int cli_inspect_logits(const struct cli *c);   // logits and generate: for oracles
int cli_inspect_generate(const struct cli *c);
int cli_inspect_layouts(const struct cli *c);  // answers of several prompt layouts
int cli_inspect_store(const struct cli *c);
int cli_bench(const struct cli *c);
int cli_bench_spec(const struct cli *c);       // plain decoding beside speculation
int cli_store(const struct cli *c);

#endif
