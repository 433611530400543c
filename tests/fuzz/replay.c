// SPDX-License-Identifier: MIT
// Runs a fuzz target on given files, or on all files of given folders: the corpus as a regression test, with any compiler.
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static int n_run;

static void run_file(const char *path) {
	FILE *f = fopen(path, "rb");
	struct stat st;
	if (!f || fstat(fileno(f), &st) != 0) {
		perror(path);
		exit(1);
	}
	size_t n = (size_t)st.st_size;
	uint8_t *data = malloc(n ? n : 1);
	if (!data || fread(data, 1, n, f) != n) {
		perror(path);
		exit(1);
	}
	fclose(f);
	LLVMFuzzerTestOneInput(data, n);
	free(data);
	n_run++;
}

static void run_folder(const char *path, DIR *dir) {
	char full[4096];
	for (struct dirent *entry; (entry = readdir(dir));) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(full, sizeof full, "%s/%s", path, entry->d_name);
		run_file(full);
	}
}

int main(int argc, char **argv) {
	for (int i = 1; i < argc; i++) {
		DIR *dir = opendir(argv[i]);
		if (dir) {
			run_folder(argv[i], dir);
			closedir(dir);
		} else {
			run_file(argv[i]);
		}
	}
	printf("%d inputs\n", n_run);
	return n_run ? 0 : 1; // an empty corpus checks nothing
}
