// SPDX-License-Identifier: MIT
// The folder without a server: walking, verifying, counting, clearing.
//
// Only names that the archive makes are looked at (64 hexadecimal digits; ".<digits>-<digits>.tmp"), only regular files, and no link is
// followed: whatever else lies there is left alone. A server may run on the folder at the same time; a file that goes away is passed over.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "maskstore/archive_internal.h"

// --- walking

static bool is_key_name(const char *name) {
	return strspn(name, "0123456789abcdef") == ARCHIVE_HEX_BYTES - 1 && !name[ARCHIVE_HEX_BYTES - 1];
}

static bool is_temp_name(const char *name) {
	size_t n = name[0] == '.' ? 1 + strspn(name + 1, "0123456789-") : 0;
	return n > 1 && !strcmp(name + n, ".tmp");
}

// Opens a folder's stream from a descriptor (taken). Null if that fails.
static DIR *open_stream(int fd) {
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (fd >= 0 && !d)
		close(fd);
	return d;
}

static bool visit_file(DIR *d, const char *root, const char *name, folder_visit *visit, void *user) {
	bool key = is_key_name(name);
	struct stat st;
	if ((!key && !is_temp_name(name)) || fstatat(dirfd(d), name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
		return true;
	// A time that does not fit is that of a file nobody can have used.
	int64_t s = st.st_mtim.tv_sec < 0 || st.st_mtim.tv_sec > INT64_MAX / 2000000 ? 0 : st.st_mtim.tv_sec;
	const struct folder_item item = {
		.kind = key ? FOLDER_EXTENT : FOLDER_TEMP, .root = root, .name = name, .dir_fd = dirfd(d), .n_bytes = (uint64_t)st.st_size,
		.used_us = s * 1000000 + st.st_mtim.tv_nsec / 1000,
	};
	return visit(user, &item);
}

static bool walk_root(DIR *top, const char *root, folder_visit *visit, void *user) {
	DIR *d = open_stream(openat(dirfd(top), root, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
	if (!d)
		return true; // no folder, gone, or not ours to read
	bool going = true;
	for (const struct dirent *entry; going && (entry = readdir(d));)
		going = visit_file(d, root, entry->d_name, visit, user);
	closedir(d);
	const struct folder_item item = {.kind = FOLDER_ROOT, .root = root, .name = root, .dir_fd = dirfd(top)};
	return going && visit(user, &item);
}

enum err folder_walk(const char *dir, folder_visit *visit, void *user, struct err_msg *msg) {
	DIR *top = open_stream(open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	if (!top)
		return errno == ENOENT ? ERR_OK : err_set(msg, ERR_IO, "%s: %s", dir, strerror(errno));
	bool going = true;
	for (const struct dirent *entry; going && (entry = readdir(top));)
		if (is_key_name(entry->d_name))
			going = walk_root(top, entry->d_name, visit, user);
	closedir(top);
	return ERR_OK;
}

// --- verifying

struct verifying {
	struct archive_folder_report report;
	bool remove_bad;
	int64_t now_us;
	struct extent_codec *codec;
	size_t codec_bytes; // the largest block that it takes
	uint8_t *buffer;
	size_t buffer_bytes;
	bool no_memory;
};

static bool grow_buffer(struct verifying *v, size_t n_bytes) {
	if (n_bytes <= v->buffer_bytes)
		return true;
	uint8_t *more = realloc(v->buffer, n_bytes);
	if (!more)
		return false;
	v->buffer = more;
	v->buffer_bytes = n_bytes;
	return true;
}

static bool grow_codec(struct verifying *v, size_t block_bytes) {
	if (block_bytes <= v->codec_bytes)
		return true;
	extent_codec_destroy(v->codec);
	v->codec = NULL;
	v->codec_bytes = 0;
	if (extent_codec_create(block_bytes, &v->codec, NULL) != ERR_OK)
		return false;
	v->codec_bytes = block_bytes;
	return true;
}

// Everything but the planes: checksum, sizes, and that the name of the file is the key of the parent and ids inside.
static enum extent_check check_name(const struct folder_item *item, const struct extent_info *info) {
	struct kv_key key;
	char hex[ARCHIVE_HEX_BYTES];
	kv_key_next(&info->name.parent, info->name.ids, &key);
	disk_hex(&key, hex);
	return kv_key_equal(&key, &info->name.key) && !strcmp(hex, item->name) ? EXTENT_OK : EXTENT_CORRUPT;
}

static enum extent_check check_data(struct verifying *v, const struct folder_item *item, size_t n_bytes) {
	struct extent_info info;
	enum extent_check check = extent_read(v->buffer, n_bytes, &info);
	if (check == EXTENT_OK)
		check = check_name(item, &info);
	if (check != EXTENT_OK)
		return check;
	if (!grow_codec(v, info.block_bytes)) {
		v->no_memory = true;
		return EXTENT_OK;
	}
	check = extent_unpack(v->codec, v->buffer, &info, NULL);
	if (check == EXTENT_OK)
		v->report.raw_bytes += info.block_bytes;
	return check;
}

// *unreadable: the system didn't give it, which says nothing about what is in it.
static enum extent_check check_file(struct verifying *v, const struct folder_item *item, bool *unreadable) {
	*unreadable = false;
	if (item->n_bytes > extent_max_bytes(EXTENT_MAX_BLOCK_BYTES))
		return EXTENT_CORRUPT;
	if (!grow_buffer(v, (size_t)item->n_bytes)) {
		v->no_memory = true;
		return EXTENT_OK;
	}
	int fd = openat(item->dir_fd, item->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	*unreadable = fd < 0;
	if (*unreadable)
		return EXTENT_CORRUPT;
	size_t n_bytes = disk_read(fd, v->buffer, v->buffer_bytes, unreadable);
	close(fd);
	return n_bytes && !*unreadable ? check_data(v, item, n_bytes) : EXTENT_CORRUPT;
}

static bool verify_temp(struct verifying *v, const struct folder_item *item) {
	v->report.temporary++;
	// A fresh one belongs to a server that is writing it.
	return item->used_us < v->now_us - (int64_t)ARCHIVE_TEMP_AGE_S * 1000000;
}

static bool verify_item(void *user, const struct folder_item *item) {
	struct verifying *v = user;
	if (item->kind == FOLDER_ROOT) {
		v->report.roots++;
		return true;
	}
	bool useless;
	if (item->kind == FOLDER_TEMP) {
		useless = verify_temp(v, item);
	} else {
		bool unreadable;
		enum extent_check check = check_file(v, item, &unreadable);
		if (check == EXTENT_CORRUPT && faccessat(item->dir_fd, item->name, F_OK, AT_SYMLINK_NOFOLLOW) && errno == ENOENT)
			return true; // a server removed it
		v->report.unreadable += unreadable;
		if (unreadable)
			return true;
		v->report.corrupt += check == EXTENT_CORRUPT;
		v->report.unknown_version += check == EXTENT_UNKNOWN_VERSION;
		useless = check != EXTENT_OK;
		v->report.extents += !useless;
		v->report.bytes += useless ? 0 : item->n_bytes;
	}
	if (useless && v->remove_bad)
		(void)unlinkat(item->dir_fd, item->name, 0);
	return !v->no_memory;
}

enum err archive_folder_verify(const char *dir, bool remove_bad, struct archive_folder_report *out, struct err_msg *msg) {
	struct verifying v = {.remove_bad = remove_bad, .now_us = (int64_t)time(NULL) * 1000000};
	enum err e = folder_walk(dir, verify_item, &v, msg);
	extent_codec_destroy(v.codec);
	free(v.buffer);
	if (e == ERR_OK && v.no_memory)
		return err_set(msg, ERR_NOMEM, "%s: no memory for the largest extent", dir);
	if (e == ERR_OK)
		*out = v.report;
	return e;
}

// --- counting, clearing

static bool list_item(void *user, const struct folder_item *item) {
	struct archive_folder_report *r = user;
	r->roots += item->kind == FOLDER_ROOT;
	r->extents += item->kind == FOLDER_EXTENT;
	r->temporary += item->kind == FOLDER_TEMP;
	r->bytes += item->kind == FOLDER_EXTENT ? item->n_bytes : 0;
	return true;
}

enum err archive_folder_list(const char *dir, struct archive_folder_report *out, struct err_msg *msg) {
	struct archive_folder_report report = {0};
	enum err e = folder_walk(dir, list_item, &report, msg);
	if (e == ERR_OK)
		*out = report;
	return e;
}

struct clearing {
	struct archive_folder_report report;
	int failed; // errno of the first file that could not be removed
};

static bool clear_item(void *user, const struct folder_item *item) {
	struct clearing *c = user;
	if (item->kind == FOLDER_ROOT) {
		(void)unlinkat(item->dir_fd, item->name, AT_REMOVEDIR); // stays if something else lies in it
		return list_item(&c->report, item);
	}
	if (unlinkat(item->dir_fd, item->name, 0) == 0)
		return list_item(&c->report, item);
	if (errno != ENOENT && !c->failed)
		c->failed = errno;
	return true;
}

enum err archive_folder_clear(const char *dir, struct archive_folder_report *out, struct err_msg *msg) {
	struct clearing c = {.failed = 0};
	enum err e = folder_walk(dir, clear_item, &c, msg);
	if (e != ERR_OK)
		return e;
	*out = c.report;
	return c.failed ? err_set(msg, ERR_IO, "%s: not everything could be removed: %s", dir, strerror(c.failed)) : ERR_OK;
}
