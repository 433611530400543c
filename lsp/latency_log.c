// SPDX-License-Identifier: MIT
// The latency log. Several servers may share one file: lines are appended by single writes, and whoever finds the file too large
// renames it under a lock. No text of a document ever gets here.
#include "latency_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/folder.h"

#define RETRY_AFTER_US 10000000 // an unwritable folder costs one attempt in 10 s, not one a request

void latency_log_init(struct latency_log *l, const char *path, uint64_t max_bytes) {
	*l = (struct latency_log){.fd = -1, .max_bytes = max_bytes ? max_bytes : LATENCY_LOG_MAX_BYTES};
	if (path && *path)
		l->path = strdup(path);
}

static void close_file(struct latency_log *l) {
	if (l->fd >= 0)
		close(l->fd);
	l->fd = -1;
}

void latency_log_finish(struct latency_log *l) {
	close_file(l);
	free(l->path);
	buf_finish(&l->line);
	l->path = NULL;
}

// Makes the folders above the file; a failure shows when the file is opened.
static void make_folders(const char *path) {
	char *folder = strdup(path), *slash = folder ? strrchr(folder, '/') : NULL;
	if (slash) {
		*slash = 0;
		folder_make(folder);
	}
	free(folder);
}

static bool open_file(struct latency_log *l) {
	// O_NONBLOCK: a FIFO without a reader must not hold the loop.
	int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK;
	l->fd = open(l->path, flags, 0600);
	if (l->fd < 0 && errno == ENOENT) {
		make_folders(l->path);
		l->fd = open(l->path, flags, 0600);
	}
	return l->fd >= 0;
}

// Is our descriptor still the file of that name? Another server may have renamed it.
static bool is_current(const struct latency_log *l, struct stat *ours) {
	struct stat named;
	return !fstat(l->fd, ours) && !stat(l->path, &named) && named.st_ino == ours->st_ino && named.st_dev == ours->st_dev;
}

static void rotate(struct latency_log *l) {
	struct stat ours;
	if (!flock(l->fd, LOCK_EX | LOCK_NB) && is_current(l, &ours)) {
		struct buf old = {0};
		buf_appendf(&old, "%s.1", l->path);
		if (!old.failed)
			rename(l->path, old.data); // a failure leaves a longer file, and the next line tries again
		buf_finish(&old);
	}
	close_file(l);
}

static bool is_full(const struct latency_log *l) {
	struct stat ours;
	return !fstat(l->fd, &ours) && S_ISREG(ours.st_mode) && (uint64_t)ours.st_size >= l->max_bytes;
}

// Opens the file where that is needed; begins a new one where it is full.
static bool ready(struct latency_log *l) {
	struct stat ours;
	if (l->fd >= 0 && !is_current(l, &ours))
		close_file(l);
	if (l->fd < 0 && !open_file(l))
		return false;
	if (!is_full(l))
		return true;
	rotate(l);
	return open_file(l);
}

static void append_time(struct buf *b) {
	struct timespec now;
	struct tm tm;
	char text[32];
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
	buf_appendf(b, "{\"time\":\"%s.%03ldZ\"", text, now.tv_nsec / 1000000);
}

static void append_result(struct buf *b, const struct complete_result *r) {
	const struct complete_phases_us *p = &r->phases;
	buf_appendf(b, ",\"phases_us\":{\"queue\":%lld,\"load\":%lld,\"prompt\":%lld,\"tokenize\":%lld,\"prefill\":%lld,\"decode\":%lld,\"finish\":%lld}",
		(long long)p->queue, (long long)p->load, (long long)p->prompt, (long long)p->tokenize, (long long)p->prefill, (long long)p->decode,
		(long long)p->finish);
	buf_appendf(b, ",\"tokens\":{\"prompt\":%d,\"hit\":%d,\"new\":%d,\"generated\":%d}", r->prompt_tokens, r->hit_tokens, r->new_tokens,
		r->generated_tokens);
}

static void append_store(struct buf *b, const struct complete_result *r) {
	const struct maskstore_stats *s = &r->stats.store;
	const struct archive_stats *a = &r->stats.archive;
	buf_appendf(b, ",\"hits\":{\"timeline\":%d,\"tree\":%d,\"archive\":%d}", r->hit_tokens - r->tree_tokens - r->restored_tokens, r->tree_tokens,
		r->restored_tokens);
	buf_appendf(b, ",\"store\":{\"hot_bytes\":%llu,\"cached_bytes\":%llu,\"budget_bytes\":%llu,\"evicted\":%llu,\"copied\":%llu",
		(unsigned long long)s->n_hot * s->block_bytes, (unsigned long long)s->n_cached * s->block_bytes, (unsigned long long)s->budget_bytes,
		(unsigned long long)s->n_evicted, (unsigned long long)s->n_copied);
	buf_appendf(b, ",\"found_tokens\":%llu,\"restored_tokens\":%llu", (unsigned long long)s->hit_tokens, (unsigned long long)s->restored_tokens);
	buf_appendf(b, ",\"verified\":%llu,\"healed\":%llu", (unsigned long long)r->stats.n_verified, (unsigned long long)r->stats.n_healed);
	buf_appendf(b, ",\"archive_ram_bytes\":%llu,\"archive_disk_bytes\":%llu,\"raw_bytes\":%llu,\"packed_bytes\":%llu", (unsigned long long)a->ram_bytes,
		(unsigned long long)a->disk_bytes, (unsigned long long)a->raw_bytes, (unsigned long long)a->packed_bytes);
	buf_appendf(b, ",\"archive_hits_ram\":%llu,\"archive_hits_disk\":%llu,\"archive_misses\":%llu,\"archive_evicted\":%llu", (unsigned long long)a->hits_ram,
		(unsigned long long)a->hits_disk, (unsigned long long)a->misses, (unsigned long long)a->evictions);
	buf_appendf(b, ",\"waits\":%llu,\"wait_us\":%llu,\"corrupt\":%llu,\"write_errors\":%llu}", (unsigned long long)a->waits,
		(unsigned long long)a->wait_us, (unsigned long long)a->corrupt, (unsigned long long)a->write_errors);
}

static void append_loop(struct buf *b, const struct loop_time *t) {
	buf_append_str(b, ",\"loop\":{\"le_us\":[");
	for (int i = 0; i < LOOP_TIME_BUCKETS; i++)
		buf_appendf(b, i ? ",%llu" : "%llu", (unsigned long long)t->n[i]);
	buf_appendf(b, "],\"max_us\":%llu}", (unsigned long long)t->max_us);
}

static void append_entry(struct buf *b, const struct latency_entry *e) {
	static const struct complete_result nothing;
	const struct complete_result *r = e->result ? e->result : &nothing;
	append_time(b);
	buf_appendf(b, ",\"method\":\"%s\",\"id\":%s", e->method, e->id_json);
	// Where no token was made the reply is what the person waited for.
	buf_appendf(b, ",\"ttft_us\":%lld,\"total_us\":%lld", (long long)(r->generated_tokens > 0 ? r->ttft_us : e->total_us), (long long)e->total_us);
	append_result(b, r);
	buf_appendf(b, ",\"origin\":\"%s\",\"context\":\"%s\",\"evaluated\":%d,\"background_tokens\":%d", origin_name(r->origin),
		r->window ? "window" : "whole", r->evaluated_tokens, r->background_tokens);
	buf_appendf(b, ",\"draft\":{\"passes\":%d,\"proposed\":%d,\"accepted\":%d}", r->decode_passes, r->draft_proposed, r->draft_accepted);
	if (r->cancel_idle_us)
		buf_appendf(b, ",\"cancel_idle_us\":%lld,\"cancel_kind\":\"%s\"", (long long)r->cancel_idle_us, r->cancelled_softly ? "soft" : "hard");
	if (r->background_stop_us)
		buf_appendf(b, ",\"background_stop_us\":%lld", (long long)r->background_stop_us);
	append_store(b, r);
	if (e->loop)
		append_loop(b, e->loop);
	buf_appendf(b, ",\"outcome\":\"%s\",\"stop\":\"%s\"", e->outcome, stop_name(r->stop));
	buf_appendf(b, ",\"document_version\":%lld,\"document_bytes\":%zu,\"answer_bytes\":%zu", (long long)e->document_version, e->document_bytes,
		e->answer_bytes);
	buf_appendf(b, ",\"version\":\"%s\",\"strategy\":", MASKSTORE_VERSION);
	buf_append_json(b, e->strategy, strlen(e->strategy));
	buf_append_str(b, "}\n");
}

static bool fail(struct latency_log *l) {
	bool first = !l->failed_once;
	l->failed_once = true;
	l->retry_us = clock_us() + RETRY_AFTER_US;
	close_file(l);
	return !first;
}

bool latency_log_write(struct latency_log *l, const struct latency_entry *e) {
	if (!l->path || (l->retry_us && clock_us() < l->retry_us))
		return true;
	buf_clear(&l->line);
	append_entry(&l->line, e);
	if (l->line.failed || !ready(l))
		return fail(l);
	ssize_t n = write(l->fd, l->line.data, l->line.len_bytes);
	if (n != (ssize_t)l->line.len_bytes)
		return fail(l);
	l->retry_us = 0;
	return true;
}
