// SPDX-License-Identifier: MIT
// Memory and system calls that fail now and then, put by the linker (--wrap) in the place of the real ones in one test program. What is in the C library
// itself (fopen, opendir) calls the real ones.
//
// Counted by one number over all threads, so that a single thread's failures repeat; with workers only their rate does.
#ifndef MASKSTORE_TESTS_FAILING_H
#define MASKSTORE_TESTS_FAILING_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

enum failing_kind { FAILING_MEMORY, FAILING_READS, FAILING_WRITES, N_FAILING };

static _Atomic uint32_t failing_one_in[N_FAILING]; // 0: never
static _Atomic uint32_t failing_n_asked, failing_n_failed;

static bool failing_now(enum failing_kind kind) {
	uint32_t one_in = failing_one_in[kind];
	bool now = one_in && (atomic_fetch_add(&failing_n_asked, 1) * 2654435761u >> 8) % one_in == 0;
	failing_n_failed += now;
	return now;
}

// Sets errno to one of what a disk says.
static bool failing_disk(enum failing_kind kind) {
	static const int reads[] = {EIO, EMFILE, EACCES}, writes[] = {ENOSPC, EIO, EROFS, EDQUOT};
	if (!failing_now(kind))
		return false;
	uint32_t i = failing_n_failed;
	errno = kind == FAILING_READS ? reads[i % 3] : writes[i % 4];
	return true;
}

#define FAILING_WRAP(type, name, ...) \
	type __real_##name(__VA_ARGS__);  \
	type __wrap_##name(__VA_ARGS__);  \
	type __wrap_##name(__VA_ARGS__)

FAILING_WRAP(void *, malloc, size_t n) {
	return failing_now(FAILING_MEMORY) ? NULL : __real_malloc(n);
}

FAILING_WRAP(void *, calloc, size_t n, size_t n_bytes) {
	return failing_now(FAILING_MEMORY) ? NULL : __real_calloc(n, n_bytes);
}

FAILING_WRAP(void *, realloc, void *p, size_t n) {
	return failing_now(FAILING_MEMORY) ? NULL : __real_realloc(p, n);
}

FAILING_WRAP(void *, aligned_alloc, size_t align, size_t n) {
	return failing_now(FAILING_MEMORY) ? NULL : __real_aligned_alloc(align, n);
}

// Files of 64-bit offsets have names of their own where `long` might be shorter; both forms are wrapped.
#define FAILING_OPEN(name)                                                                                                  \
	int __real_##name(const char *path, int flags, ...);                                                                   \
	int __wrap_##name(const char *path, int flags, ...);                                                                   \
	int __wrap_##name(const char *path, int flags, ...) {                                                                  \
		va_list rest;                                                                                                       \
		va_start(rest, flags);                                                                                              \
		mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;                                                           \
		va_end(rest);                                                                                                       \
		return failing_disk(flags & O_CREAT ? FAILING_WRITES : FAILING_READS) ? -1 : __real_##name(path, flags, mode);      \
	}
FAILING_OPEN(open)
FAILING_OPEN(open64)

#define FAILING_OPENAT(name)                                                                         \
	int __real_##name(int dir, const char *path, int flags, ...);                                   \
	int __wrap_##name(int dir, const char *path, int flags, ...);                                   \
	int __wrap_##name(int dir, const char *path, int flags, ...) {                                  \
		return failing_disk(FAILING_READS) ? -1 : __real_##name(dir, path, flags, 0);               \
	}
FAILING_OPENAT(openat)
FAILING_OPENAT(openat64)

FAILING_WRAP(ssize_t, read, int fd, void *out, size_t n) {
	if (failing_disk(FAILING_READS))
		return -1;
	return __real_read(fd, out, n > 1 && failing_now(FAILING_READS) ? n / 2 : n); // short, which is no error
}

FAILING_WRAP(ssize_t, write, int fd, const void *data, size_t n) {
	if (failing_disk(FAILING_WRITES))
		return -1;
	return __real_write(fd, data, n > 1 && failing_now(FAILING_WRITES) ? n / 2 : n);
}

// The descriptor is gone in any case.
FAILING_WRAP(int, close, int fd) {
	int result = __real_close(fd);
	return failing_disk(FAILING_WRITES) ? -1 : result;
}

FAILING_WRAP(int, rename, const char *from, const char *to) {
	return failing_disk(FAILING_WRITES) ? -1 : __real_rename(from, to);
}

FAILING_WRAP(int, mkdir, const char *path, mode_t mode) {
	return failing_disk(FAILING_WRITES) ? -1 : __real_mkdir(path, mode);
}

FAILING_WRAP(int, futimens, int fd, const struct timespec times[2]) {
	return failing_disk(FAILING_WRITES) ? -1 : __real_futimens(fd, times);
}

FAILING_WRAP(int, access, const char *path, int mode) {
	return failing_disk(FAILING_READS) ? -1 : __real_access(path, mode);
}

FAILING_WRAP(DIR *, fdopendir, int fd) {
	return failing_disk(FAILING_READS) ? NULL : __real_fdopendir(fd);
}

#endif
