// SPDX-License-Identifier: MIT
// The front door of the archive: opening and closing, the queue of puts, waiting for restores.
//
// Callers never touch zlib or file contents; archive_put and archive_has ask at most whether one file exists (a few microseconds). The
// workers stand in archive_workers.c, the table of what is in RAM in archive_table.c, files in archive_disk.c. Threads: archive_internal.h.
#include "maskstore/archive.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/thread.h"
#include "maskstore/archive_internal.h"

// --- opening

static void set_root_path(struct archive *a, const char *dir) {
	char hex[ARCHIVE_HEX_BYTES];
	disk_hex(&a->options.root, hex);
	size_t n_dir = strlen(dir);
	char *path = malloc(n_dir + 1 + sizeof hex);
	char *copy = strdup(dir);
	// What is left of a path must hold "/", a key or a temporary name, and the zero.
	if (!path || !copy || n_dir + 2 * sizeof hex + 2 > ARCHIVE_PATH_BYTES || !n_dir) {
		free(path);
		free(copy);
		return;
	}
	memcpy(path, dir, n_dir);
	path[n_dir] = '/';
	memcpy(path + n_dir + 1, hex, sizeof hex);
	a->root_path = path;
	a->options.dir = copy;
}

static enum err make_buffers(struct archive *a, struct err_msg *msg) {
	enum err e = table_init(a);
	if (e == ERR_OK)
		e = extent_codec_create(a->block_bytes, &a->writer_codec, msg);
	a->writer_buffer = malloc(a->extent_bytes + 1);
	if (e == ERR_OK && !a->writer_buffer)
		e = ERR_NOMEM;
	for (int i = 0; i < ARCHIVE_READERS && e == ERR_OK; i++) {
		struct reader *r = &a->readers[i];
		r->archive = a;
		e = extent_codec_create(a->block_bytes, &r->codec, msg);
		r->buffer = malloc(a->extent_bytes + 1);
		if (e == ERR_OK && !r->buffer)
			e = ERR_NOMEM;
	}
	return e;
}

static void init_locks(struct archive *a) {
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->writer_wake, NULL);
	pthread_cond_init(&a->reader_wake, NULL);
	thread_cond_init(&a->changed); // waited for with a limit
}

static void free_archive(struct archive *a) {
	table_finish(a);
	extent_codec_destroy(a->writer_codec);
	free(a->writer_buffer);
	for (int i = 0; i < ARCHIVE_READERS; i++) {
		extent_codec_destroy(a->readers[i].codec);
		free(a->readers[i].buffer);
	}
	free(a->root_path);
	free((char *)(uintptr_t)a->options.dir); // own copy
	pthread_cond_destroy(&a->changed);
	pthread_cond_destroy(&a->reader_wake);
	pthread_cond_destroy(&a->writer_wake);
	pthread_mutex_destroy(&a->lock);
	free(a);
}

// Tells the workers that run to end, and waits for them.
static void stop_readers(struct archive *a) {
	pthread_mutex_lock(&a->lock);
	a->closing = true;
	pthread_cond_broadcast(&a->reader_wake);
	pthread_mutex_unlock(&a->lock);
	while (a->n_readers)
		pthread_join(a->readers[--a->n_readers].thread, NULL);
}

static void stop_writer(struct archive *a) {
	pthread_mutex_lock(&a->lock);
	a->closing = true;
	pthread_cond_signal(&a->writer_wake);
	pthread_mutex_unlock(&a->lock);
	pthread_join(a->writer, NULL);
}

// One reader is enough to go on.
static enum err start_workers(struct archive *a) {
	a->writer_busy = true; // until the folder is scanned
	for (int i = 0; i < ARCHIVE_READERS && thread_start(&a->readers[i].thread, archive_reader, &a->readers[i]) == ERR_OK; i++)
		a->n_readers++;
	if (a->n_readers && thread_start(&a->writer, archive_writer, a) == ERR_OK)
		return ERR_OK;
	stop_readers(a);
	return ERR_NOMEM;
}

enum err archive_open(const struct archive_options *o, struct archive **out, struct err_msg *msg) {
	size_t block_bytes = maskstore_block_bytes(&o->geometry);
	if (!block_bytes || block_bytes > EXTENT_MAX_BLOCK_BYTES)
		return err_set(msg, ERR_ARG, "KV blocks of %d layers x %d heads x %d can't be archived", o->geometry.n_layer, o->geometry.n_head_kv,
		               o->geometry.head_dim);
	struct archive *a = calloc(1, sizeof *a);
	if (!a)
		return err_set(msg, ERR_NOMEM, "no memory for the archive");
	a->options = *o;
	a->options.dir = NULL;
	int prefetch = o->prefetch_blocks < 1 ? 1 : o->prefetch_blocks;
	a->options.prefetch_blocks = prefetch > ARCHIVE_MAX_PREFETCH ? ARCHIVE_MAX_PREFETCH : prefetch;
	a->block_bytes = block_bytes;
	a->extent_bytes = extent_max_bytes(block_bytes);
	init_locks(a);
	if (o->dir)
		set_root_path(a, o->dir);
	a->stats.disk_off = !a->root_path;
	enum err e = make_buffers(a, msg);
	if (e == ERR_OK)
		e = start_workers(a);
	if (e == ERR_OK) {
		*out = a;
		return ERR_OK;
	}
	free_archive(a);
	return e == ERR_NOMEM ? err_set(msg, e, "no memory for the archive") : e;
}

void archive_close(struct archive *a, int flush_ms) {
	if (!a)
		return;
	a->close_at_us = clock_us() + (int64_t)(flush_ms > 0 ? flush_ms : 0) * 1000;
	stop_writer(a);
	stop_readers(a);
	assert(!a->jobs && !a->n_queued);
	free_archive(a);
}

// --- puts

bool archive_has(struct archive *a, const struct kv_key *key) {
	pthread_mutex_lock(&a->lock);
	bool found = table_find(a, key) != NULL;
	pthread_mutex_unlock(&a->lock);
	return found || disk_exists(a, key);
}

// A block that was put for RAM only and may go to disk now. If its extent is there, it is queued with that; else its own turn in the queue
// is to come, or the writer has it and sees the wish when it is done. Caller holds the lock.
static void promote(struct archive *a, struct entry *e) {
	if (e->on_disk || e->to_disk || a->stats.disk_off || (e->bytes && a->n_queued == ARCHIVE_QUEUE))
		return;
	e->to_disk = true;
	if (!e->bytes || e->in_queue)
		return;
	queue_push(a, e);
	pthread_cond_signal(&a->writer_wake);
}

static bool known_locked(struct archive *a, const struct kv_key *key, bool to_disk) {
	struct entry *there = table_find(a, key);
	if (there && to_disk)
		promote(a, there);
	return there != NULL;
}

static bool known(struct archive *a, const struct kv_key *key, bool to_disk) {
	pthread_mutex_lock(&a->lock);
	bool found = known_locked(a, key, to_disk);
	pthread_mutex_unlock(&a->lock);
	return found;
}

// Queues a new entry (taken), if there is none of its name. Caller holds the lock.
static bool enqueue(struct archive *a, struct entry *e) {
	bool there = known_locked(a, &e->name.key, e->to_disk);
	bool useless = a->options.ram_budget_bytes == 0 && (!e->to_disk || a->stats.disk_off);
	if (there || useless || a->closing || a->n_queued == ARCHIVE_QUEUE) {
		free(e);
		return false;
	}
	table_add(a, e);
	queue_push(a, e);
	a->stats.puts++;
	pthread_cond_signal(&a->writer_wake);
	return true;
}

bool archive_put(struct archive *a, const struct archive_block *b, const void *payload, bool to_disk, archive_put_done *done,
                 void *user, uint32_t block) {
	// In this order: what leaves the table for the disk is found there.
	if (known(a, &b->key, to_disk) || disk_exists(a, &b->key))
		return false;
	struct entry *e = calloc(1, sizeof *e);
	if (!e)
		return false;
	e->name = *b;
	e->to_disk = to_disk;
	e->payload = payload;
	e->done = done;
	e->user = user;
	e->block = block;
	pthread_mutex_lock(&a->lock);
	bool queued = enqueue(a, e);
	pthread_mutex_unlock(&a->lock);
	return queued;
}

void archive_touch(struct archive *a, const struct kv_key *key) {
	pthread_mutex_lock(&a->lock);
	if (a->n_touched < ARCHIVE_TOUCHES && !a->closing && a->root_path) {
		a->touched[(a->first_touched + a->n_touched++) % ARCHIVE_TOUCHES] = *key;
		pthread_cond_signal(&a->writer_wake);
	}
	pthread_mutex_unlock(&a->lock);
}

// --- restores

// Counts what a finished job has given. Caller holds the lock.
static void count_job(struct archive *a, const struct restore_job *job) {
	for (size_t i = 0; i < job->n_restored; i++) {
		a->stats.hits_ram += job->results[i] == RESTORED_RAM;
		a->stats.hits_disk += job->results[i] == RESTORED_DISK;
	}
	a->stats.misses += job->n_restored < job->n && job->results[job->n_restored] != RESTORED_NONE;
}

// Hands a job to the readers and waits for it. Enters and leaves with the lock held.
static void run_job(struct archive *a, struct restore_job *job) {
	assert(!a->closing);
	if (a->last_job)
		a->last_job->next = job;
	else
		a->jobs = job;
	a->last_job = job;
	pthread_cond_broadcast(&a->reader_wake);
	while (!job->finished)
		pthread_cond_wait(&a->changed, &a->lock);
	count_job(a, job);
}

size_t archive_restore(struct archive *a, const struct archive_block *blocks, void *const *payloads, size_t n, const _Atomic int *cancel) {
	size_t n_restored = 0;
	bool going = n > 0;
	if (!going)
		return 0;
	int64_t begin_us = clock_us();
	pthread_mutex_lock(&a->lock);
	while (going) {
		size_t n_job = n - n_restored < ARCHIVE_JOB_BLOCKS ? n - n_restored : ARCHIVE_JOB_BLOCKS;
		struct restore_job job = {.blocks = blocks + n_restored, .payloads = payloads + n_restored, .n = n_job, .n_restored = n_job, .cancel = cancel};
		run_job(a, &job);
		n_restored += job.n_restored;
		going = job.n_restored == n_job && n_restored < n;
	}
	a->stats.waits++;
	a->stats.wait_us += (uint64_t)(clock_us() - begin_us);
	pthread_mutex_unlock(&a->lock);
	return n_restored;
}

// --- looking

void archive_stats(struct archive *a, struct archive_stats *out) {
	pthread_mutex_lock(&a->lock);
	*out = a->stats;
	pthread_mutex_unlock(&a->lock);
}

bool archive_flush(struct archive *a, int timeout_ms) {
	int64_t end_us = clock_us() + (int64_t)timeout_ms * 1000;
	struct timespec end = {.tv_sec = (time_t)(end_us / 1000000), .tv_nsec = (long)(end_us % 1000000) * 1000};
	pthread_mutex_lock(&a->lock);
	int timed_out = 0;
	while ((a->n_queued || a->n_touched || a->writer_busy) && timed_out != ETIMEDOUT)
		timed_out = pthread_cond_timedwait(&a->changed, &a->lock, &end);
	bool idle = !a->n_queued && !a->n_touched && !a->writer_busy;
	pthread_mutex_unlock(&a->lock);
	return idle;
}
