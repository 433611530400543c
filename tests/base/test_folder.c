// SPDX-License-Identifier: MIT
// Making folders: nested, twice, below a file, too long, empty.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/folder.h"

static void makes_what_is_missing(void **state) {
	(void)state;
	char base[] = "/tmp/maskstore-folder-XXXXXX", path[128], file[128];
	assert_non_null(mkdtemp(base));
	snprintf(path, sizeof path, "%s/a/b/c", base);
	assert_true(folder_make(path));
	assert_true(folder_make(path));
	struct stat st;
	assert_int_equal(stat(path, &st), 0);
	assert_true(S_ISDIR(st.st_mode) && (st.st_mode & 0777) == 0700);
	snprintf(file, sizeof file, "%s/a/b/c/file", base);
	FILE *f = fopen(file, "w");
	assert_non_null(f);
	fclose(f);
	char below[160];
	snprintf(below, sizeof below, "%s/d", file);
	assert_false(folder_make(below));
	assert_false(folder_make(file));
	unlink(file);
	rmdir(path);
	*strrchr(path, '/') = 0;
	rmdir(path);
	*strrchr(path, '/') = 0;
	rmdir(path);
	assert_int_equal(rmdir(base), 0);
}

static void refuses_absurd_paths(void **state) {
	(void)state;
	static char path[FOLDER_PATH_BYTES + 10];
	assert_false(folder_make(""));
	memset(path, 'x', sizeof path - 1);
	assert_false(folder_make(path));
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(makes_what_is_missing), cmocka_unit_test(refuses_absurd_paths)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
