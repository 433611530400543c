// SPDX-License-Identifier: MIT
// See file_hash.h. The line of a model file: "<size> <mtime in ns> <hash in hexadecimal>\n", in <dir>/<device>-<inode>.
#include "model/file_hash.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/folder.h"

#define PATH_BYTES 4096
#define LINE_BYTES 160
#define READ_BYTES (256u << 10)

struct file_hasher {
	int fd;
	struct stat stat; // as it was opened
	SHA2_CTX sha;
	char dir[PATH_BYTES];
	uint8_t buffer[READ_BYTES];
};

static int64_t mtime_ns(const struct stat *st) {
	return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

static bool is_same(const struct stat *a, const struct stat *b) {
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size && mtime_ns(a) == mtime_ns(b);
}

static bool memory_path(char out[PATH_BYTES], const char *dir, const struct stat *st, const char *end) {
	int n = snprintf(out, PATH_BYTES, "%s/%ju-%ju%s", dir, (uintmax_t)st->st_dev, (uintmax_t)st->st_ino, end);
	return n > 0 && n < PATH_BYTES;
}

static bool parse_hex(const char *hex, uint8_t out[FILE_HASH_BYTES]) {
	for (int i = 0; i < FILE_HASH_BYTES; i++) {
		unsigned byte;
		if (sscanf(hex + 2 * i, "%2x", &byte) != 1)
			return false;
		out[i] = (uint8_t)byte;
	}
	return true;
}

// The line that lies below `dir` for a file, read whole. False if there is none or it is no such line.
static bool read_line(const char *dir, const struct stat *st, char line[LINE_BYTES]) {
	char path[PATH_BYTES];
	if (!memory_path(path, dir, st, ""))
		return false;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return false;
	ssize_t n = read(fd, line, LINE_BYTES - 1);
	close(fd);
	if (n <= 0 || line[n - 1] != '\n')
		return false;
	line[n] = 0;
	return true;
}

enum err file_hash_recall(const char *path, const char *dir, uint8_t out[FILE_HASH_BYTES]) {
	struct stat st;
	char line[LINE_BYTES], hex[2 * FILE_HASH_BYTES + 1];
	int64_t size, mtime;
	uint8_t hash[FILE_HASH_BYTES];
	if (stat(path, &st))
		return ERR_IO;
	if (!read_line(dir, &st, line) || sscanf(line, "%" SCNd64 " %" SCNd64 " %64[0-9a-f]", &size, &mtime, hex) != 3 ||
	    size != (int64_t)st.st_size || mtime != mtime_ns(&st) || strlen(hex) != 2 * FILE_HASH_BYTES || !parse_hex(hex, hash))
		return ERR_NOT_FOUND;
	memcpy(out, hash, sizeof hash);
	return ERR_OK;
}

// Best effort: without it the hash is computed again next time.
static void remember(const struct file_hasher *h, const uint8_t hash[FILE_HASH_BYTES]) {
	char temp[PATH_BYTES], path[PATH_BYTES], line[LINE_BYTES], end[32];
	snprintf(end, sizeof end, ".%ld", (long)getpid());
	if (!folder_make(h->dir) || !memory_path(temp, h->dir, &h->stat, end) || !memory_path(path, h->dir, &h->stat, ""))
		return;
	int n = snprintf(line, sizeof line, "%jd %" PRId64 " ", (intmax_t)h->stat.st_size, mtime_ns(&h->stat));
	for (int i = 0; i < FILE_HASH_BYTES; i++)
		n += snprintf(line + n, sizeof line - (size_t)n, "%02x", hash[i]);
	line[n++] = '\n';
	int fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return;
	bool written = write(fd, line, (size_t)n) == n;
	written = !close(fd) && written;
	if (!written || rename(temp, path))
		unlink(temp);
}

enum err file_hasher_create(const char *path, const char *dir, struct file_hasher **out) {
	struct file_hasher *h = malloc(sizeof *h);
	if (!h)
		return ERR_NOMEM;
	h->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (h->fd < 0 || fstat(h->fd, &h->stat) || (size_t)snprintf(h->dir, sizeof h->dir, "%s", dir) >= sizeof h->dir) {
		file_hasher_destroy(h);
		return ERR_IO;
	}
	SHA256Init(&h->sha);
	*out = h;
	return ERR_OK;
}

void file_hasher_destroy(struct file_hasher *h) {
	if (!h)
		return;
	if (h->fd >= 0)
		close(h->fd);
	free(h);
}

static enum err finish(struct file_hasher *h, uint8_t out[FILE_HASH_BYTES]) {
	struct stat now;
	if (fstat(h->fd, &now))
		return ERR_IO;
	if (!is_same(&now, &h->stat))
		return ERR_STATE;
	SHA256Final(out, &h->sha);
	remember(h, out);
	return ERR_OK;
}

enum err file_hasher_step(struct file_hasher *h, size_t max_bytes, bool *done, uint8_t out[FILE_HASH_BYTES]) {
	*done = false;
	while (max_bytes) {
		ssize_t n = read(h->fd, h->buffer, max_bytes < READ_BYTES ? max_bytes : READ_BYTES);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return ERR_IO;
		if (n == 0) {
			enum err e = finish(h, out);
			*done = e == ERR_OK;
			return e;
		}
		SHA256Update(&h->sha, h->buffer, (size_t)n);
		max_bytes -= (size_t)n;
	}
	return ERR_OK;
}
