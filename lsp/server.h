// SPDX-License-Identifier: MIT
// The LSP front end: one process, one client, stdio.
#ifndef MASKSTORE_LSP_SERVER_H
#define MASKSTORE_LSP_SERVER_H

#include "config.h"

struct server_options {
	struct config config;     // copied
	long client_process_id;   // from --clientProcessId, 0 if none
};

// Serves on standard input and output until exit, EOF or the client's death. Standard output is moved to a private descriptor first and
// descriptor 1 pointed at standard error, so that no library can write into the stream. Returns the process's exit status.
int server_run(const struct server_options *o);

#endif
