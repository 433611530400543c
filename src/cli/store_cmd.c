// SPDX-License-Identifier: MIT
// maskstore inspect store, maskstore store verify|clear: the archive's folder, without a server and beside one.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "cli/cli.h"
#include "maskstore/archive.h"

typedef struct archive_folder_report report;

static const char *store_dir(const struct cli *c, char out[CONFIG_TEXT_BYTES + 8]) {
	snprintf(out, CONFIG_TEXT_BYTES + 8, "%s/store", c->config.cache_dir);
	return out;
}

static void print_json(const char *dir, const report *r, const char *rest) {
	struct buf name = {0};
	buf_append_json(&name, dir, strlen(dir));
	printf("{\"folder\": %s, \"roots\": %" PRIu64 ", \"extents\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"temporary\": %" PRIu64 "%s}\n",
	       name.data ? name.data : "null", r->roots, r->extents, r->bytes, r->temporary, rest);
	buf_finish(&name);
}

// --- inspect store

int cli_inspect_store(const struct cli *c) {
	char dir[CONFIG_TEXT_BYTES + 8], rest[64];
	struct err_msg msg = {0};
	report r;
	if (c->n_words != 1)
		return cli_fail(ERR_ARG, &(struct err_msg){"inspect store takes no argument; the folder is store in --cache-dir"});
	enum err e = archive_folder_list(store_dir(c, dir), &r, &msg);
	if (e != ERR_OK)
		return cli_fail(e, &msg);
	uint64_t budget_mb = (uint64_t)c->config.store_budget_mb;
	if (c->json) {
		snprintf(rest, sizeof rest, ", \"budget_bytes\": %" PRIu64, budget_mb << 20);
		print_json(dir, &r, rest);
		return 0;
	}
	printf("folder          %s\n", dir);
	printf("models          %" PRIu64 " (a folder for each model, KV type and arithmetic)\n", r.roots);
	printf("blocks          %" PRIu64 " of 32 tokens, %.1f MB\n", r.extents, (double)r.bytes / 1e6);
	printf("budget          %" PRIu64 " MB\n", budget_mb);
	printf("being written   %" PRIu64 "\n", r.temporary);
	return 0;
}

// --- store verify, store clear

static int verify(const struct cli *c, const char *dir) {
	struct err_msg msg = {0};
	report r;
	bool removes = cli_option(c, "remove") != NULL;
	enum err e = archive_folder_verify(dir, removes, &r, &msg);
	if (e != ERR_OK)
		return cli_fail(e, &msg);
	uint64_t n_bad = r.corrupt + r.unknown_version;
	if (c->json) {
		char rest[128];
		snprintf(rest, sizeof rest, ", \"raw_bytes\": %" PRIu64 ", \"corrupt\": %" PRIu64 ", \"unknown_version\": %" PRIu64 ", \"removed\": %s",
		         r.raw_bytes, r.corrupt, r.unknown_version, removes ? "true" : "false");
		print_json(dir, &r, rest);
	} else {
		printf("%s: %" PRIu64 " blocks are whole, %.1f MB", dir, r.extents, (double)r.bytes / 1e6);
		if (r.bytes)
			printf(" for %.1f MB (%.3f)", (double)r.raw_bytes / 1e6, (double)r.raw_bytes / (double)r.bytes);
		printf("\n%" PRIu64 " corrupt, %" PRIu64 " of an unknown version, %" PRIu64 " temporary%s\n", r.corrupt, r.unknown_version, r.temporary,
		       !n_bad ? "" : removes ? "; removed" : "; a server passes over them, store verify --remove removes them");
	}
	return n_bad && !removes ? 1 : 0;
}

static int clear(const struct cli *c, const char *dir) {
	struct err_msg msg = {0};
	report r;
	enum err e = archive_folder_clear(dir, &r, &msg);
	if (e != ERR_OK)
		return cli_fail(e, &msg);
	if (c->json)
		print_json(dir, &r, "");
	else
		printf("%s: removed %" PRIu64 " blocks, %.1f MB\n", dir, r.extents, (double)r.bytes / 1e6);
	return 0;
}

int cli_store(const struct cli *c) {
	char dir[CONFIG_TEXT_BYTES + 8];
	if (c->n_words == 1 && !strcmp(c->words[0], "verify"))
		return verify(c, store_dir(c, dir));
	if (c->n_words == 1 && !strcmp(c->words[0], "clear"))
		return clear(c, store_dir(c, dir));
	return cli_fail(ERR_ARG, &(struct err_msg){"store takes one of: verify (--remove), clear"});
}
