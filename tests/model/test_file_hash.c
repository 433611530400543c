// SPDX-License-Identifier: MIT
// Hashes of model files: the value against a published one, remembered, and forgotten when the file or the memory is not what it was.
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "model/file_hash.h"

static char base[64], model[96], dir[96], line[160];

static void write_file(const char *path, const char *text, int mode) {
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, mode);
	assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && !close(fd));
}

static int set_up(void **state) {
	(void)state;
	snprintf(base, sizeof base, "/tmp/maskstore-hash-XXXXXX");
	if (!mkdtemp(base))
		return -1;
	snprintf(model, sizeof model, "%s/m.gguf", base);
	snprintf(dir, sizeof dir, "%s/cache/hashes", base); // neither is there yet
	write_file(model, "abc", 0644);
	struct stat st;
	assert_int_equal(stat(model, &st), 0);
	snprintf(line, sizeof line, "%s/%ju-%ju", dir, (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
	return 0;
}

static int tear_down(void **state) {
	(void)state;
	unlink(line);
	rmdir(dir);
	*strrchr(dir, '/') = 0;
	rmdir(dir);
	unlink(model);
	return rmdir(base);
}

static enum err hash_all(size_t step_bytes, uint8_t out[FILE_HASH_BYTES]) {
	struct file_hasher *h;
	bool done = false;
	enum err e = file_hasher_create(model, dir, &h);
	if (e)
		return e;
	while (!e && !done)
		e = file_hasher_step(h, step_bytes, &done, out);
	file_hasher_destroy(h);
	return e;
}

// FIPS 180-4's example: SHA-256("abc").
static const uint8_t ABC[FILE_HASH_BYTES] = {0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40, 0xde, 0x5d, 0xae, 0x22, 0x23,
                                             0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17, 0x7a, 0x9c, 0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad};

static void test_hash_and_memory(void **state) {
	(void)state;
	uint8_t out[FILE_HASH_BYTES] = {0};
	assert_int_equal(file_hash_recall(model, dir, out), ERR_NOT_FOUND);
	for (size_t step = 1; step < 5; step++) {
		assert_int_equal(hash_all(step, out), ERR_OK);
		assert_memory_equal(out, ABC, sizeof out);
	}
	memset(out, 0, sizeof out);
	assert_int_equal(file_hash_recall(model, dir, out), ERR_OK);
	assert_memory_equal(out, ABC, sizeof out);
	struct stat st;
	assert_int_equal(stat(line, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(file_hash_recall("/nonexistent", dir, out), ERR_IO);
}

static void test_a_changed_file_is_unknown(void **state) {
	(void)state;
	uint8_t out[FILE_HASH_BYTES];
	assert_int_equal(hash_all(100, out), ERR_OK);
	struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
	assert_int_equal(utimensat(AT_FDCWD, model, times, 0), 0);
	assert_int_equal(file_hash_recall(model, dir, out), ERR_NOT_FOUND);
	assert_int_equal(hash_all(100, out), ERR_OK);
	assert_int_equal(file_hash_recall(model, dir, out), ERR_OK);
	write_file(model, "abcd", 0644);
	assert_int_equal(utimensat(AT_FDCWD, model, times, 0), 0); // the same time, another size
	assert_int_equal(file_hash_recall(model, dir, out), ERR_NOT_FOUND);
	write_file(model, "abc", 0644);
}

static void test_spoilt_memory_is_no_hash(void **state) {
	(void)state;
	static const char *const bad[] = {"", "3", "3 4 zz\n", "-1 -1 00\n", "99999999999999999999999999 1 00\n", "\n", "3 1000000000000 ba7816bf\n"};
	uint8_t out[FILE_HASH_BYTES];
	assert_int_equal(hash_all(100, out), ERR_OK);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		write_file(line, bad[i], 0600);
		assert_int_equal(file_hash_recall(model, dir, out), ERR_NOT_FOUND);
	}
}

static void test_a_file_that_changes_meanwhile(void **state) {
	(void)state;
	struct file_hasher *h;
	bool done;
	uint8_t out[FILE_HASH_BYTES];
	assert_int_equal(file_hasher_create(model, dir, &h), ERR_OK);
	assert_int_equal(file_hasher_step(h, 2, &done, out), ERR_OK);
	assert_false(done);
	write_file(model, "abX", 0644);
	struct timespec times[2] = {{.tv_sec = 2000}, {.tv_sec = 2000}};
	assert_int_equal(utimensat(AT_FDCWD, model, times, 0), 0);
	enum err e = ERR_OK;
	while (!e && !done)
		e = file_hasher_step(h, 2, &done, out);
	assert_int_equal(e, ERR_STATE);
	file_hasher_destroy(h);
	assert_int_equal(file_hasher_create("/nonexistent", dir, &h), ERR_IO);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hash_and_memory), cmocka_unit_test(test_a_changed_file_is_unknown),
		cmocka_unit_test(test_spoilt_memory_is_no_hash), cmocka_unit_test(test_a_file_that_changes_meanwhile),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
