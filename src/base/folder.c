// SPDX-License-Identifier: MIT
#include "base/folder.h"

#include <string.h>
#include <sys/stat.h>

bool folder_make(const char *path) {
	char part[FOLDER_PATH_BYTES];
	size_t n = strlen(path);
	if (!n || n >= sizeof part)
		return false;
	memcpy(part, path, n + 1);
	for (char *slash = part; (slash = strchr(slash + 1, '/'));) {
		*slash = 0;
		mkdir(part, 0700); // most exist already, some may not be written; what counts is the last
		*slash = '/';
	}
	mkdir(part, 0700);
	struct stat st;
	return !stat(part, &st) && S_ISDIR(st.st_mode);
}
