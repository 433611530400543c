// SPDX-License-Identifier: MIT
// kill(pid, 0) tells whether a process exists; /proc (where there is one) tells a zombie from a living process.
#include "watch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

// State letter of /proc/<pid>/stat, 0 if unknown. The name in parentheses may hold anything, so the last ')' counts.
static char process_state(pid_t pid) {
	char path[64], text[512];
	snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	ssize_t n = read(fd, text, sizeof text - 1);
	close(fd);
	text[n > 0 ? n : 0] = 0;
	const char *end = strrchr(text, ')');
	return end && end[1] == ' ' ? end[2] : 0;
}

bool watch_process_alive(int64_t pid) {
	if (pid <= 0 || pid != (pid_t)pid)
		return true;
	if (kill((pid_t)pid, 0) && errno == ESRCH)
		return false;
	char state = process_state((pid_t)pid);
	return state != 'Z' && state != 'X';
}
