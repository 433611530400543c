// SPDX-License-Identifier: MIT
// Argument parsing: settings go to config.c, the rest are words and flags of the subcommand.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

// Flags of subcommands that are not settings.
static const struct flag {
	const char *name;
	bool takes_value;
} flags[] = {
	{"activations", true}, {"kv", true}, {"tokens", true}, {"at", true}, {"out", true}, {"chunk", true}, {"batch", true}, {"n", true},
	{"depth", true}, {"repeat", true}, {"top", true}, {"temperature-milli", true}, {"seed", true}, {"top-k", true}, {"binary", false}, {"roundtrip", false},
	{"remove", false}, {"layouts", true}, {"with-read", false}, {"with-dot", false},
};

static const char usage[] =
	"maskstore " MASKSTORE_VERSION ": code completion for Python in your editor, offline\n"
	"\n"
	"  maskstore serve [--stdio]              speak LSP on standard input and output (also without a subcommand)\n"
	"  maskstore complete FILE:LINE:COL       complete at a cursor (1-based, columns in characters)\n"
	"  maskstore inspect model                what the model file holds\n"
	"  maskstore inspect tokens FILE          token ids of a file  (--binary --out IDS, --roundtrip)\n"
	"  maskstore inspect prompt FILE:LINE:COL the prompt at a cursor, special tokens shown\n"
	"  maskstore inspect logits               --tokens IDS --at 1,33,512|all --out FILE  (--activations f32|q8, --kv f32|f16, --chunk N)\n"
	"  maskstore inspect generate             --tokens IDS --n 64   continuation, greedy  (--temperature-milli 800 --seed 1 --top-k 40)\n"
	"  maskstore inspect layouts              --layouts 16/16,8/4 FILE:LINE:COL…   answers with other anchors and suffixes (lines)\n"
	"  maskstore inspect store                what is kept on disk of files' keys and values\n"
	"  maskstore store verify                 read all of it and check it  (--remove: remove what is damaged)\n"
	"  maskstore store clear                  remove all of it\n"
	"  maskstore bench prefill                --n 512   tokens per second  (--with-dot: beside the int8 dot peak)\n"
	"  maskstore bench decode                 --depth 512 --n 64   (--with-read: beside the read bandwidth; --batch N: tokens a pass)\n"
	"  maskstore bench spec FILE:LINE:COL…    decoding with and without speculation at these places  (--n 64)\n"
	"  maskstore bench machine                read bandwidth, int8 dot peak, FMA peak\n"
	"  maskstore --version | --help\n"
	"\n"
	"Settings (flag, environment variable, JSON key of --config FILE and of the LSP configuration):\n";

static const char examples[] =
	"\n"
	"  --config FILE   settings as JSON (default: $XDG_CONFIG_HOME/maskstore/config.json)\n"
	"  --json          one JSON object on standard output (complete, bench, inspect store, store)\n"
	"\n"
	"Examples:\n"
	"  maskstore complete src/app.py:12:9 --json\n"
	"  maskstore serve --stdio --threads 4 --log /tmp/requests.jsonl\n"
	"  MASKSTORE_MAX_CONTEXT=4096 maskstore complete app.py:40:1\n";

void cli_help(void) {
	struct buf settings = {0};
	config_describe(&settings);
	printf("%s%s%s", usage, settings.data ? settings.data : "", examples);
	buf_finish(&settings);
}

const char *cli_option(const struct cli *c, const char *name) {
	for (int i = c->n_options - 1; i >= 0; i--)
		if (!strcmp(c->options[i].name, name))
			return c->options[i].value;
	return NULL;
}

bool cli_option_int(const struct cli *c, const char *name, long min, long max, long fallback, long *out) {
	const char *text = cli_option(c, name);
	*out = fallback;
	if (!text)
		return true;
	char *end;
	errno = 0;
	long value = strtol(text, &end, 10);
	if (errno || end == text || *end || value < min || value > max) {
		fprintf(stderr, "maskstore: --%s: \"%s\" is not a number from %ld to %ld\n", name, text, min, max);
		return false;
	}
	*out = value;
	return true;
}

// --- one argument

// Transport switches that editors append; this server only knows stdio, so they change nothing (LSP 3.17, "Implementation considerations").
static bool is_transport(const char *name) {
	return !strcmp(name, "stdio") || !strcmp(name, "pipe") || !strcmp(name, "socket") || !strcmp(name, "node-ipc") || !strcmp(name, "port");
}

static const struct flag *find_flag(const char *name) {
	for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
		if (!strcmp(flags[i].name, name))
			return &flags[i];
	return NULL;
}

struct arg {
	char name[64];
	const char *value; // null if there is no "=value"
};

static bool split_arg(const char *text, struct arg *out) {
	const char *name = text + 2, *eq = strchr(name, '=');
	size_t n = eq ? (size_t)(eq - name) : strlen(name);
	if (n >= sizeof out->name)
		return false;
	memcpy(out->name, name, n);
	out->name[n] = 0;
	out->value = eq ? eq + 1 : NULL;
	return true;
}

// "--name value" or "--name=value": the value, moving *i on; null with a message if there is none.
static const char *take_value(const struct arg *a, int argc, char **argv, int *i, struct err_msg *msg) {
	if (a->value)
		return a->value;
	if (*i + 1 < argc)
		return argv[++*i];
	err_set(msg, ERR_ARG, "--%s needs a value; see maskstore --help", a->name);
	return NULL;
}

static enum err add_option(struct cli *c, const struct flag *f, const char *value, struct err_msg *msg) {
	if (c->n_options == CLI_MAX_OPTIONS)
		return err_set(msg, ERR_ARG, "more than %d flags", CLI_MAX_OPTIONS);
	c->options[c->n_options++] = (struct cli_option){f->name, value};
	return ERR_OK;
}

static enum err parse_flag(struct cli *c, int argc, char **argv, int *i, struct err_msg *msg) {
	struct arg a;
	if (!split_arg(argv[*i], &a))
		return err_set(msg, ERR_ARG, "unknown flag %.60s…; see maskstore --help", argv[*i]);
	if (is_transport(a.name))
		return ERR_OK;
	if (!strcmp(a.name, "json")) {
		c->json = true;
		return ERR_OK;
	}
	const struct flag *f = find_flag(a.name);
	if (f && !f->takes_value)
		return add_option(c, f, "", msg);
	const char *value = take_value(&a, argc, argv, i, msg);
	if (!value)
		return ERR_ARG;
	if (!strcmp(a.name, "config"))
		return ERR_OK; // read before everything else
	if (!strcmp(a.name, "clientProcessId")) {
		c->client_process_id = strtol(value, NULL, 10);
		return ERR_OK;
	}
	if (f)
		return add_option(c, f, value, msg);
	return config_apply_flag(&c->config, a.name, value, msg) == ERR_OK ? ERR_OK : ERR_ARG;
}

static enum err parse_word(struct cli *c, const char *word, struct err_msg *msg) {
	if (c->n_words == CLI_MAX_WORDS)
		return err_set(msg, ERR_ARG, "more than %d arguments", CLI_MAX_WORDS);
	c->words[c->n_words++] = word;
	return ERR_OK;
}

// --- sources before the command line

static const char *config_path(int argc, char **argv) {
	for (int i = 1; i < argc; i++) {
		if (!strncmp(argv[i], "--config=", 9))
			return argv[i] + 9;
		if (!strcmp(argv[i], "--config") && i + 1 < argc)
			return argv[i + 1];
	}
	return NULL;
}

static enum err apply_config_file(struct cli *c, const char *path, struct err_msg *msg) {
	char fallback[CONFIG_TEXT_BYTES];
	if (!path) {
		const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
		snprintf(fallback, sizeof fallback, "%s%s/maskstore/config.json", xdg && xdg[0] ? xdg : home ? home : "", xdg && xdg[0] ? "" : "/.config");
		if (access(fallback, R_OK))
			return ERR_OK;
		path = fallback;
	}
	struct buf notes = {0};
	enum err e = config_apply_file(&c->config, path, &notes, msg);
	if (notes.len_bytes)
		fprintf(stderr, "maskstore: %s: %s", path, notes.data);
	buf_finish(&notes);
	return e;
}

static enum err apply_sources(struct cli *c, int argc, char **argv, struct err_msg *msg) {
	config_init(&c->config);
	enum err e = apply_config_file(c, config_path(argc, argv), msg);
	return e == ERR_OK ? config_apply_env(&c->config, msg) : e;
}

static bool parse_command(const char *word, enum cli_command *out) {
	static const char *const names[] = {"serve", "complete", "inspect", "bench", "store", "help", "version"};
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (!strcmp(names[i], word)) {
			*out = (enum cli_command)i;
			return true;
		}
	return false;
}

// --version and --help win over everything, wherever they stand.
static bool parse_info(int argc, char **argv, enum cli_command *out) {
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--version") || !strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
			*out = !strcmp(argv[i], "--version") ? CLI_VERSION : CLI_HELP;
			return true;
		}
	}
	return false;
}

enum err cli_parse(int argc, char **argv, struct cli *out, struct err_msg *msg) {
	*out = (struct cli){.command = CLI_SERVE};
	if (parse_info(argc, argv, &out->command))
		return ERR_OK;
	int first = 1;
	if (argc > 1 && argv[1][0] != '-') {
		if (!parse_command(argv[1], &out->command))
			return err_set(msg, ERR_ARG, "unknown subcommand \"%.40s\"; see maskstore --help", argv[1]);
		first = 2;
	}
	enum err e = apply_sources(out, argc, argv, msg);
	for (int i = first; i < argc && e == ERR_OK; i++)
		e = !strncmp(argv[i], "--", 2) ? parse_flag(out, argc, argv, &i, msg) : parse_word(out, argv[i], msg);
	config_resolve(&out->config);
	if (e == ERR_OK && out->command == CLI_SERVE && out->n_words)
		return err_set(msg, ERR_ARG, "serve takes no argument \"%.40s\"; see maskstore --help", out->words[0]);
	return e;
}
