// SPDX-License-Identifier: MIT
// maskstore inspect store, maskstore store verify|clear: the archive's folder, without a server and beside one.
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

// --- the last server's figures: the newest line of the latency log that has them (docs/latency-log.md). A server beside writes on, line by line.

#define LOG_END_BYTES ((size_t)64 << 10) // many lines

struct last_stats {
	char time[32];
	char object[2048]; // {"key":number,…}; empty: none found
};

// The end of the log as a string, to be freed; null if it is no regular file or has nothing. Never waits for a pipe.
static char *read_log_end(const char *path) {
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char *text = NULL;
	if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode))
		text = malloc(LOG_END_BYTES + 1);
	off_t begin = text && st.st_size > (off_t)LOG_END_BYTES ? st.st_size - (off_t)LOG_END_BYTES : 0;
	ssize_t n = text ? pread(fd, text, LOG_END_BYTES, begin) : -1;
	if (fd >= 0)
		close(fd);
	if (n <= 0) {
		free(text);
		return NULL;
	}
	text[n] = 0;
	return text;
}

// Copies what follows `mark` up to `end`, if it has only these characters: the file may hold anything.
static bool copy_field(const char *line, const char *mark, const char *allowed, char end, char *out, size_t size_bytes) {
	const char *at = strstr(line, mark);
	size_t n = at ? strspn(at + strlen(mark), allowed) : 0;
	if (!n || at[strlen(mark) + n] != end || n + 1 > size_bytes)
		return false;
	memcpy(out, at + strlen(mark), n);
	out[n] = 0;
	return true;
}

static void find_last_stats(const char *path, struct last_stats *out) {
	char *text = read_log_end(path), *end = text ? strrchr(text, '\n') : NULL;
	out->object[0] = 0;
	while (end && !out->object[0]) {
		*end = 0;
		char *before = strrchr(text, '\n'), *line = before ? before + 1 : text;
		if (!copy_field(line, "{\"time\":\"", "0123456789-T:.Z", '"', out->time, sizeof out->time) ||
		    !copy_field(line, ",\"store\":{", "abcdefghijklmnopqrstuvwxyz_\":,0123456789", '}', out->object, sizeof out->object))
			out->object[0] = 0;
		end = before;
	}
	free(text);
}

static void print_last_stats(const struct last_stats *last) {
	printf("last request    %s (the store of the server that answered it, since its start)\n", last->object[0] ? last->time : "none in the log");
	for (const char *at = last->object; *at;) {
		size_t n = strcspn(at, ",");
		const char *colon = memchr(at, ':', n);
		if (colon && colon > at + 2)
			printf("  %-21.*s %.*s\n", (int)(colon - at - 2), at + 1, (int)(at + n - colon - 1), colon + 1);
		at += n + (at[n] == ',');
	}
}

// --- inspect store

int cli_inspect_store(const struct cli *c) {
	char dir[CONFIG_TEXT_BYTES + 8], rest[sizeof(struct last_stats) + 128];
	struct err_msg msg = {0};
	struct last_stats last;
	report r;
	if (c->n_words != 1)
		return cli_fail(ERR_ARG, &(struct err_msg){"inspect store takes no argument; the folder is store in --cache-dir"});
	enum err e = archive_folder_list(store_dir(c, dir), &r, &msg);
	if (e != ERR_OK)
		return cli_fail(e, &msg);
	uint64_t budget_mb = (uint64_t)c->config.store_budget_mb;
	find_last_stats(c->config.log, &last);
	if (c->json) {
		int n = snprintf(rest, sizeof rest, ", \"budget_bytes\": %" PRIu64, budget_mb << 20);
		if (last.object[0])
			snprintf(rest + n, sizeof rest - (size_t)n, ", \"last_request\": {\"time\": \"%s\", \"store\": {%s}}", last.time, last.object);
		print_json(dir, &r, rest);
		return 0;
	}
	printf("folder          %s\n", dir);
	printf("models          %" PRIu64 " (a folder for each model, KV type and arithmetic)\n", r.roots);
	printf("blocks          %" PRIu64 " of 32 tokens, %.1f MB\n", r.extents, (double)r.bytes / 1e6);
	printf("budget          %" PRIu64 " MB\n", budget_mb);
	printf("being written   %" PRIu64 "\n", r.temporary);
	print_last_stats(&last);
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
		char rest[192];
		snprintf(rest, sizeof rest, ", \"raw_bytes\": %" PRIu64 ", \"corrupt\": %" PRIu64 ", \"unknown_version\": %" PRIu64 ", \"unreadable\": %" PRIu64 ", \"removed\": %s",
		         r.raw_bytes, r.corrupt, r.unknown_version, r.unreadable, removes ? "true" : "false");
		print_json(dir, &r, rest);
	} else {
		printf("%s: %" PRIu64 " blocks are whole, %.1f MB", dir, r.extents, (double)r.bytes / 1e6);
		if (r.bytes)
			printf(" for %.1f MB (%.3f)", (double)r.raw_bytes / 1e6, (double)r.raw_bytes / (double)r.bytes);
		printf("\n%" PRIu64 " corrupt, %" PRIu64 " of an unknown version, %" PRIu64 " temporary%s\n", r.corrupt, r.unknown_version, r.temporary,
		       !n_bad ? "" : removes ? "; removed" : "; a server passes over them, store verify --remove removes them");
	}
	if (r.unreadable)
		fprintf(stderr, "maskstore: %" PRIu64 " files in %s can't be read: check their permissions and the disk\n", r.unreadable, dir);
	return r.unreadable || (n_bad && !removes) ? 1 : 0;
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
