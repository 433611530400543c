// SPDX-License-Identifier: MIT
// The archive's folder: one file per block, `dir/<root key>/<block key>`, keys in hexadecimal.
//
// A file is written to a temporary name of its process and renamed. There is no fsync: after a power loss a file may be short or hold
// zeros, and its checksum says so. No locks and no index: what is there is what the folder says, so several servers may share it; each
// keeps its own count and scans the folder again when the budget is reached or a 32nd of it has been written, so that together they pass
// the budget by no more than a 32nd for each further server.
//
// Use. One number per file, its modification time, holds recency and frequency: with hits that lose half their worth every HALF_LIFE, the
// worth of hits at times t_i is 2^(T/H) in all, T = H · log2(Σ 2^(t_i/H)). So a hit now moves T to H · log2(2^(T/H) + 2^(now/H)): a first
// use gives T = now, a second right after it T = now + H, a fourth now + 2H. The lowest T goes first, at any time, without being updated.
// Within one cell of CELL the newest goes first: blocks of one chain are written and restored in order within a moment, and a block
// without the ones before it is worth nothing.
//
// Files are used by path on purpose: somebody may remove the folder while we run, and the next write makes it again.
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/folder.h"
#include "maskstore/archive_internal.h"

#define HALF_LIFE_US (12 * 3600 * 1000000.0) // half a working day: yesterday's file, opened often, outlives today's that was opened once
#define MAX_BONUS 8                          // in half-lives, so 255 hits at once; bounds what a wrong clock or file time can do
#define CELL_US (600 * INT64_C(1000000))

// --- paths

void disk_hex(const struct kv_key *key, char out[ARCHIVE_HEX_BYTES]) {
	static const char digits[] = "0123456789abcdef";
	for (size_t i = 0; i < sizeof key->bytes; i++) {
		out[2 * i] = digits[key->bytes[i] >> 4];
		out[2 * i + 1] = digits[key->bytes[i] & 15];
	}
	out[2 * sizeof key->bytes] = 0;
}

bool disk_path(const struct archive *a, const struct kv_key *key, char out[ARCHIVE_PATH_BYTES]) {
	char hex[ARCHIVE_HEX_BYTES];
	disk_hex(key, hex);
	int n = a->root_path ? snprintf(out, ARCHIVE_PATH_BYTES, "%s/%s", a->root_path, hex) : -1;
	return n > 0 && n < ARCHIVE_PATH_BYTES;
}

static bool temp_path(struct archive *a, char out[ARCHIVE_PATH_BYTES]) {
	int n = snprintf(out, ARCHIVE_PATH_BYTES, "%s/.%ld-%u.tmp", a->root_path, (long)getpid(), a->temp_counter++);
	return n > 0 && n < ARCHIVE_PATH_BYTES;
}

// --- one file

bool disk_exists(const struct archive *a, const struct kv_key *key) {
	char path[ARCHIVE_PATH_BYTES];
	return disk_path(a, key, path) && access(path, F_OK) == 0;
}

int disk_open(const struct archive *a, const struct kv_key *key) {
	char path[ARCHIVE_PATH_BYTES];
	if (!disk_path(a, key, path))
		return -1;
	return open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

void disk_read_ahead(const struct archive *a, const struct kv_key *key) {
	int fd = disk_open(a, key);
	if (fd < 0)
		return;
	(void)posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED); // a hint; what was begun goes on without the descriptor
	close(fd);
}

// Reads up to n_bytes from where `fd` stands; less at the file's end, or if it fails.
static size_t read_all(int fd, uint8_t *out, size_t n_bytes, bool *failed) {
	size_t n = 0;
	*failed = false;
	while (n < n_bytes) {
		ssize_t got = read(fd, out + n, n_bytes - n);
		if (got < 0 && errno == EINTR)
			continue;
		*failed = got < 0;
		if (got <= 0)
			break;
		n += (size_t)got;
	}
	return n;
}

size_t disk_read(int fd, uint8_t *out, size_t cap_bytes, bool *failed) {
	struct stat st;
	*failed = fstat(fd, &st) != 0;
	if (*failed || !S_ISREG(st.st_mode) || st.st_size <= 0 || (uint64_t)st.st_size > cap_bytes)
		return 0;
	size_t n = read_all(fd, out, (size_t)st.st_size, failed);
	return n == (size_t)st.st_size ? n : 0;
}

static int64_t now_us(void) {
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t); // as the file system's times
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

// T after one more use now.
static struct timespec used_again(struct timespec old) {
	int64_t now = now_us(), max = now + (int64_t)(MAX_BONUS * HALF_LIFE_US);
	int64_t t = old.tv_sec > max / 1000000 ? max : (int64_t)old.tv_sec * 1000000 + old.tv_nsec / 1000;
	double apart = fabs((double)(t - now)) / HALF_LIFE_US;
	int64_t sum = (t > now ? t : now) + (int64_t)(HALF_LIFE_US * log2(1 + exp2(-apart)));
	if (sum > max)
		sum = max;
	return (struct timespec){.tv_sec = (time_t)(sum / 1000000), .tv_nsec = (long)(sum % 1000000) * 1000};
}

void disk_touch_file(int fd) {
	struct stat st;
	if (fstat(fd, &st))
		return;
	const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, used_again(st.st_mtim)};
	(void)futimens(fd, times); // without it the block only looks less used
}

void disk_touch(const struct archive *a, const struct kv_key *key) {
	char path[ARCHIVE_PATH_BYTES];
	struct stat st;
	if (!disk_path(a, key, path) || lstat(path, &st))
		return;
	const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, used_again(st.st_mtim)};
	(void)utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW);
}

// Takes a removed file out of the counts. Other servers' files may be among them, so counts stop at 0.
static void forget(struct archive *a, uint64_t n_bytes) {
	struct archive_stats *s = &a->stats;
	s->disk_bytes -= n_bytes < s->disk_bytes ? n_bytes : s->disk_bytes;
	s->disk_extents -= s->disk_extents > 0;
}

void disk_remove(struct archive *a, const struct kv_key *key) {
	char path[ARCHIVE_PATH_BYTES];
	struct stat st;
	if (!disk_path(a, key, path))
		return;
	bool known = lstat(path, &st) == 0 && S_ISREG(st.st_mode);
	bool removed = unlink(path) == 0;
	pthread_mutex_lock(&a->lock);
	a->stats.corrupt++;
	if (known && removed)
		forget(a, (uint64_t)st.st_size);
	pthread_mutex_unlock(&a->lock);
}

// --- the budget

struct file_use {
	int64_t used_us;
	uint64_t n_bytes;
	char root[ARCHIVE_HEX_BYTES], name[ARCHIVE_HEX_BYTES];
};

struct file_list {
	struct file_use *files;
	size_t n, cap;
	uint64_t n_bytes;
	const struct archive *archive;
};

static bool collect(void *user, const struct folder_item *item) {
	struct file_list *l = user;
	if (item->kind != FOLDER_EXTENT)
		return !archive_stops(l->archive);
	if (l->n == l->cap) {
		size_t cap = l->cap ? 2 * l->cap : 256;
		struct file_use *more = realloc(l->files, cap * sizeof *more);
		if (!more)
			return false;
		l->files = more;
		l->cap = cap;
	}
	struct file_use *f = &l->files[l->n++];
	f->used_us = item->used_us;
	f->n_bytes = item->n_bytes;
	memcpy(f->root, item->root, sizeof f->root);
	memcpy(f->name, item->name, sizeof f->name);
	l->n_bytes += item->n_bytes;
	return !archive_stops(l->archive);
}

// Ascending by worth (see the top).
static int by_use(const void *left, const void *right) {
	const struct file_use *l = left, *r = right;
	int64_t cell_l = l->used_us / CELL_US, cell_r = r->used_us / CELL_US;
	if (cell_l != cell_r)
		return cell_l < cell_r ? -1 : 1;
	if (l->used_us != r->used_us)
		return l->used_us > r->used_us ? -1 : 1;
	return strcmp(l->name, r->name);
}

// Removes the least worthy files until the rest takes at most `target` bytes.
static uint64_t remove_least(struct archive *a, struct file_list *l, uint64_t target) {
	uint64_t n_removed = 0;
	qsort(l->files, l->n, sizeof *l->files, by_use);
	for (size_t i = 0; i < l->n && l->n_bytes > target; i++) {
		char path[ARCHIVE_PATH_BYTES];
		int n = snprintf(path, sizeof path, "%s/%s/%s", a->options.dir, l->files[i].root, l->files[i].name);
		if (n < 0 || n >= (int)sizeof path || (unlink(path) && errno != ENOENT))
			continue;
		l->n_bytes -= l->files[i].n_bytes;
		n_removed++;
	}
	return n_removed;
}

// Scans the folder and, if n_bytes more pass the budget, removes what is used least, a sixteenth of the budget more than needed.
// Out of memory or while closing, what was seen until then counts.
static void scan_for_room(struct archive *a, size_t n_bytes) {
	struct file_list l = {.archive = a};
	uint64_t budget = a->options.disk_budget_bytes, n_removed = 0;
	if (folder_walk(a->options.dir, collect, &l, NULL) == ERR_OK && l.n_bytes + n_bytes > budget) {
		uint64_t spare = budget / 16 + n_bytes;
		n_removed = remove_least(a, &l, spare < budget ? budget - spare : 0);
	}
	a->written_since_scan = 0;
	pthread_mutex_lock(&a->lock);
	a->stats.evictions += n_removed;
	a->stats.disk_bytes = l.n_bytes;
	a->stats.disk_extents = l.n - n_removed;
	pthread_mutex_unlock(&a->lock);
	free(l.files);
}

static bool make_room(struct archive *a, size_t n_bytes) {
	uint64_t budget = a->options.disk_budget_bytes;
	if (n_bytes > budget)
		return false;
	pthread_mutex_lock(&a->lock);
	uint64_t used = a->stats.disk_bytes;
	pthread_mutex_unlock(&a->lock);
	if (used + n_bytes <= budget && a->written_since_scan <= budget / 32)
		return true;
	scan_for_room(a, n_bytes);
	pthread_mutex_lock(&a->lock);
	used = a->stats.disk_bytes;
	pthread_mutex_unlock(&a->lock);
	return used + n_bytes <= budget;
}

// --- writing

static bool write_all(int fd, const uint8_t *data, size_t n_bytes) {
	while (n_bytes) {
		ssize_t put = write(fd, data, n_bytes);
		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return false;
		data += put;
		n_bytes -= (size_t)put;
	}
	return true;
}

// A new file of a name that nobody else uses; -1 if the folder can't be written.
static int open_temp(struct archive *a, char path[ARCHIVE_PATH_BYTES]) {
	for (int tries = 0; tries < 8; tries++) {
		if (!temp_path(a, path))
			return -1;
		int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd >= 0)
			return fd;
		if (errno == ENOENT && !folder_make(a->root_path)) // somebody removed the folder
			return -1;
		if (errno != ENOENT && errno != EEXIST)
			return -1;
	}
	return -1;
}

static bool write_file(struct archive *a, const char *path, const uint8_t *data, size_t n_bytes) {
	char temp[ARCHIVE_PATH_BYTES];
	int fd = open_temp(a, temp);
	if (fd < 0)
		return false;
	bool ok = write_all(fd, data, n_bytes);
	ok = close(fd) == 0 && ok;
	ok = ok && rename(temp, path) == 0;
	if (!ok)
		(void)unlink(temp);
	return ok;
}

static void count_write(struct archive *a, bool ok, bool fresh, size_t n_bytes) {
	a->failures = ok ? 0 : a->failures + 1;
	a->written_since_scan += ok ? n_bytes : 0;
	pthread_mutex_lock(&a->lock);
	a->stats.write_errors += !ok;
	a->stats.disk_off = a->stats.disk_off || a->failures >= ARCHIVE_MAX_FAILURES;
	if (ok && fresh) {
		a->stats.disk_bytes += n_bytes;
		a->stats.disk_extents++;
	}
	pthread_mutex_unlock(&a->lock);
}

bool disk_write(struct archive *a, const struct kv_key *key, const uint8_t *data, size_t n_bytes) {
	char path[ARCHIVE_PATH_BYTES];
	if (!disk_path(a, key, path) || !make_room(a, n_bytes))
		return false;
	bool fresh = access(path, F_OK) != 0;
	bool ok = write_file(a, path, data, n_bytes);
	count_write(a, ok, fresh, n_bytes);
	return ok;
}

// --- opening

struct cleaning {
	struct archive *archive;
	uint64_t n_bytes, n_extents;
	int64_t now_us;
};

// The format of a file by its first bytes.
static enum extent_check peek_file(const struct folder_item *item) {
	uint8_t head[16];
	int fd = openat(item->dir_fd, item->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return EXTENT_OK; // gone, not ours, no descriptor left: nothing is known against it
	bool failed = false;
	size_t n = item->n_bytes < EXTENT_HEADER_BYTES ? 0 : read_all(fd, head, sizeof head, &failed);
	close(fd);
	return failed ? EXTENT_OK : extent_peek(head, n);
}

static bool clean(void *user, const struct folder_item *item) {
	struct cleaning *c = user;
	bool useless = false;
	if (item->kind == FOLDER_TEMP)
		useless = item->used_us < c->now_us - (int64_t)ARCHIVE_TEMP_AGE_S * 1000000;
	else if (item->kind == FOLDER_EXTENT)
		useless = peek_file(item) != EXTENT_OK;
	if (useless)
		(void)unlinkat(item->dir_fd, item->name, 0);
	if (item->kind == FOLDER_EXTENT && !useless) {
		c->n_bytes += item->n_bytes;
		c->n_extents++;
	}
	return !archive_stops(c->archive);
}

void disk_prepare(struct archive *a) {
	if (!a->root_path)
		return;
	struct cleaning c = {.archive = a, .now_us = now_us()};
	bool made = folder_make(a->root_path) && access(a->root_path, W_OK | X_OK) == 0;
	enum err walked = folder_walk(a->options.dir, clean, &c, NULL);
	pthread_mutex_lock(&a->lock);
	a->stats.disk_bytes = c.n_bytes;
	a->stats.disk_extents = c.n_extents;
	if (!made || walked != ERR_OK) {
		a->stats.write_errors++;
		a->stats.disk_off = true;
	}
	pthread_mutex_unlock(&a->lock);
}
