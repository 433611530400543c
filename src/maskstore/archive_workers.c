// SPDX-License-Identifier: MIT
// The workers: the writer scans, packs and writes; the readers restore, several blocks of one job at a time.
//
// Why apart: somebody waits for a restore, nobody for a write. The writer runs at nice 10 (Linux gives each thread its own), so that packing
// takes from a decode that runs beside it about a tenth of one core; a thread can't lower its nice value again without privilege, and a
// write may block for seconds on a busy disk, so restores have threads of their own at normal priority and never wait behind a write.
//
// Neither allocates per block, but for the copy that the writer keeps in RAM. Cost on one core of the machine in docs/speed.md: see there.
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/resource.h>
#endif

#include "base/clock.h"
#include "maskstore/archive_internal.h"

#define WRITER_NICE 10

bool archive_stops(const struct archive *a) {
	return a->closing && clock_us() >= a->close_at_us;
}

// --- writer

// The extent of an entry: packed now, or what is in RAM already. Null if zlib failed.
static const uint8_t *pack(struct archive *a, const struct entry *e, size_t *n_bytes) {
	if (e->bytes) {
		*n_bytes = e->n_bytes;
		return e->bytes;
	}
	*n_bytes = extent_pack(a->writer_codec, &a->options.geometry, &e->name, e->payload, a->writer_buffer);
	return *n_bytes ? a->writer_buffer : NULL;
}

// A copy of a packed extent for RAM; null if the budget is smaller or memory is out. Made without the lock: it takes 0.1 ms.
static uint8_t *copy_for_ram(const struct archive *a, const uint8_t *data, size_t n_bytes) {
	uint8_t *copy = n_bytes <= a->options.ram_budget_bytes ? malloc(n_bytes) : NULL;
	if (copy)
		memcpy(copy, data, n_bytes);
	return copy;
}

// Keeps the copy (taken, may be null) if there is room. Caller holds the lock.
static void keep_in_ram(struct archive *a, struct entry *e, uint8_t *copy, size_t n_bytes) {
	bool ram_only = !e->to_disk || a->stats.disk_off;
	if (copy && table_make_room(a, n_bytes, ram_only))
		table_hold(a, e, copy, n_bytes);
	else
		free(copy);
}

// Ends the borrowing of an entry's payload: waits for a restore that copies it, then tells the owner. Enters and leaves with the lock held.
static void give_back(struct archive *a, struct entry *e) {
	if (!e->payload)
		return;
	while (e->readers)
		pthread_cond_wait(&a->changed, &a->lock);
	e->payload = NULL;
	archive_put_done *done = e->done;
	pthread_mutex_unlock(&a->lock);
	done(e->user, e->block);
	pthread_mutex_lock(&a->lock);
}

// Caller holds the lock.
static void drop_when_unread(struct archive *a, struct entry *e) {
	while (e->readers)
		pthread_cond_wait(&a->changed, &a->lock);
	table_drop(a, e);
}

// Packs, keeps in RAM, gives the payload back, writes. Enters and leaves with the lock held.
static void write_entry(struct archive *a, struct entry *e) {
	bool fresh = !e->bytes, asked = e->to_disk, to_disk = asked && !a->stats.disk_off;
	pthread_mutex_unlock(&a->lock);
	size_t n_bytes;
	const uint8_t *data = pack(a, e, &n_bytes); // the writer alone frees payloads and bytes
	uint8_t *copy = data && fresh ? copy_for_ram(a, data, n_bytes) : NULL;
	pthread_mutex_lock(&a->lock);
	if (data && fresh) {
		a->stats.raw_bytes += a->block_bytes;
		a->stats.packed_bytes += n_bytes;
		keep_in_ram(a, e, copy, n_bytes);
	}
	give_back(a, e);
	if (data && to_disk) {
		pthread_mutex_unlock(&a->lock);
		bool written = disk_write(a, &e->name.key, data, n_bytes);
		pthread_mutex_lock(&a->lock);
		table_use(a, e, written);
	}
	if (asked)
		e->to_disk = false;
	else if (e->to_disk && e->bytes && !e->in_queue) // asked for while it was packed
		queue_push(a, e);
	if (!e->bytes)
		drop_when_unread(a, e);
}

// Closing without time left: tells the owners of what is still queued. Caller holds the lock.
static void drop_queue(struct archive *a) {
	for (struct entry *e; (e = queue_pop(a));) {
		give_back(a, e);
		e->to_disk = false;
		if (!e->bytes)
			drop_when_unread(a, e);
	}
}

// Enters and leaves with the lock held.
static void touch_one(struct archive *a) {
	struct kv_key key = a->touched[a->first_touched];
	a->first_touched = (a->first_touched + 1) % ARCHIVE_TOUCHES;
	a->n_touched--;
	pthread_mutex_unlock(&a->lock);
	disk_touch(a, &key);
	pthread_mutex_lock(&a->lock);
}

void *archive_writer(void *arg) {
	struct archive *a = arg;
#ifdef __linux__
	(void)setpriority(PRIO_PROCESS, 0, WRITER_NICE); // of this thread; a refusal changes nothing that matters
#endif
	disk_prepare(a);
	pthread_mutex_lock(&a->lock);
	for (;;) {
		struct entry *e = archive_stops(a) ? NULL : queue_pop(a);
		if (e) {
			a->writer_busy = true;
			write_entry(a, e);
			continue;
		}
		if (a->closing)
			break;
		if (a->n_touched) {
			a->writer_busy = true;
			touch_one(a);
			continue;
		}
		a->writer_busy = false;
		pthread_cond_broadcast(&a->changed);
		pthread_cond_wait(&a->writer_wake, &a->lock);
	}
	drop_queue(a);
	a->writer_busy = false;
	pthread_cond_broadcast(&a->changed);
	pthread_mutex_unlock(&a->lock);
	return NULL;
}

// --- readers

static bool same_name(const struct archive_block *a, const struct archive_block *b) {
	return kv_key_equal(&a->key, &b->key) && kv_key_equal(&a->parent, &b->parent) && !memcmp(a->ids, b->ids, sizeof a->ids);
}

// Whether an extent that is whole is of this archive's geometry and named by its own key.
static bool belongs(const struct archive *a, const struct extent_info *info) {
	const struct maskstore_geometry *g = &a->options.geometry, *h = &info->geometry;
	struct kv_key key;
	kv_key_next(&info->name.parent, info->name.ids, &key);
	return g->n_layer == h->n_layer && g->n_head_kv == h->n_head_kv && g->head_dim == h->head_dim && g->kv_type == h->kv_type &&
	       info->element_bytes == kv_type_bytes(g->kv_type) && info->block_bytes == a->block_bytes && kv_key_equal(&key, &info->name.key);
}

static enum restored unpack(struct reader *r, const struct archive_block *b, const uint8_t *data, size_t n_bytes, void *payload) {
	struct extent_info info;
	if (extent_read(data, n_bytes, &info) != EXTENT_OK || !belongs(r->archive, &info) || !kv_key_equal(&info.name.key, &b->key))
		return RESTORED_CORRUPT;
	if (!same_name(&info.name, b))
		return RESTORED_MISS; // asked with a name that does not fit its key: nothing is wrong with the extent
	return extent_unpack(r->codec, data, &info, payload) == EXTENT_OK ? RESTORED_RAM : RESTORED_CORRUPT;
}

// From the table: a payload that is still queued, or an extent in RAM.
static enum restored restore_from_ram(struct reader *reader, const struct archive_block *b, void *payload) {
	struct archive *a = reader->archive;
	pthread_mutex_lock(&a->lock);
	struct entry *e = table_find(a, &b->key);
	if (!e || (!e->payload && !e->bytes)) {
		pthread_mutex_unlock(&a->lock);
		return RESTORED_MISS;
	}
	e->readers++;
	const void *queued = e->payload;
	bool on_disk = e->on_disk;
	if (e->bytes)
		table_use(a, e, on_disk);
	pthread_mutex_unlock(&a->lock);
	enum restored r = RESTORED_RAM;
	if (!queued)
		r = unpack(reader, b, e->bytes, e->n_bytes, payload);
	else if (same_name(&e->name, b))
		memcpy(payload, queued, a->block_bytes);
	else
		r = RESTORED_MISS;
	if (r == RESTORED_RAM && on_disk)
		disk_touch(a, &b->key);
	pthread_mutex_lock(&a->lock);
	if (--e->readers == 0)
		pthread_cond_broadcast(&a->changed);
	pthread_mutex_unlock(&a->lock);
	return r;
}

static enum restored restore_from_disk(struct reader *reader, const struct archive_block *b, int fd, void *payload) {
	struct archive *a = reader->archive;
	bool failed;
	size_t n_bytes = disk_read(fd, reader->buffer, a->extent_bytes, &failed);
	if (failed)
		return RESTORED_MISS; // says nothing about the file
	enum restored r = n_bytes ? unpack(reader, b, reader->buffer, n_bytes, payload) : RESTORED_CORRUPT;
	if (r == RESTORED_CORRUPT)
		disk_remove(a, &b->key);
	else if (r == RESTORED_RAM)
		disk_touch_file(fd);
	return r == RESTORED_RAM ? RESTORED_DISK : r;
}

static bool in_ram(struct archive *a, const struct kv_key *key) {
	pthread_mutex_lock(&a->lock);
	struct entry *e = table_find(a, key);
	bool found = e && (e->payload || e->bytes);
	pthread_mutex_unlock(&a->lock);
	return found;
}

// Before block i: the file at the prefetch depth, and before the first all up to there.
static void read_ahead(struct archive *a, const struct restore_job *job, size_t i) {
	size_t depth = (size_t)a->options.prefetch_blocks;
	for (size_t at = i ? i + depth : 1; at < job->n && at <= i + depth; at++)
		if (!in_ram(a, &job->blocks[at].key))
			disk_read_ahead(a, &job->blocks[at].key);
}

static enum restored restore_block(struct reader *reader, const struct archive_block *b, void *payload) {
	enum restored r = restore_from_ram(reader, b, payload);
	int fd = r == RESTORED_RAM ? -1 : disk_open(reader->archive, &b->key);
	if (fd < 0)
		return r;
	r = restore_from_disk(reader, b, fd, payload);
	close(fd);
	return r;
}

// Takes the first job off the list; those who work on it end it. Caller holds the lock.
static void leave_list(struct archive *a, const struct restore_job *job) {
	if (a->jobs != job)
		return; // done before
	a->jobs = job->next;
	if (!a->jobs)
		a->last_job = NULL;
}

// Notes how block i ended. From the moment a job is finished its owner may be gone. Caller holds the lock.
static void end_block(struct archive *a, struct restore_job *job, size_t i, enum restored r) {
	job->results[i] = (uint8_t)r;
	if (r != RESTORED_RAM && r != RESTORED_DISK && i < job->n_restored) {
		job->n_restored = i;
		leave_list(a, job);
	}
	if (--job->n_working || a->jobs == job)
		return;
	job->finished = true;
	pthread_cond_broadcast(&a->changed);
}

// The next block of the first job. Enters and leaves with the lock held.
static void work_on(struct reader *reader, struct restore_job *job) {
	struct archive *a = reader->archive;
	size_t i = job->n_taken++;
	enum restored r = RESTORED_NONE;
	job->n_working++;
	if (job->n_taken == job->n)
		leave_list(a, job);
	if (!a->closing && !(job->cancel && *job->cancel)) {
		pthread_mutex_unlock(&a->lock);
		read_ahead(a, job, i);
		r = restore_block(reader, &job->blocks[i], job->payloads[i]);
		pthread_mutex_lock(&a->lock);
	}
	end_block(a, job, i, r);
}

void *archive_reader(void *arg) {
	struct reader *reader = arg;
	struct archive *a = reader->archive;
	pthread_mutex_lock(&a->lock);
	while (a->jobs || !a->closing) {
		if (a->jobs)
			work_on(reader, a->jobs);
		else
			pthread_cond_wait(&a->reader_wake, &a->lock);
	}
	pthread_mutex_unlock(&a->lock);
	return NULL;
}
