// SPDX-License-Identifier: MIT
// One JSON line for each completion request, written before its response. Format: docs/latency-log.md. Loop thread only.
#ifndef MASKSTORE_LSP_LATENCY_LOG_H
#define MASKSTORE_LSP_LATENCY_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "complete/complete.h"
#include "loop_time.h"

#define LATENCY_LOG_MAX_BYTES (8u << 20) // then the file becomes <path>.1 and a new one is begun

struct latency_entry {
	const char *method;
	const char *id_json;     // the id as JSON text
	int64_t document_version;
	size_t document_bytes;
	size_t answer_bytes;
	const char *strategy;
	const char *outcome;
	const struct complete_result *result; // null where the engine was not asked
	int64_t total_us;        // receipt to now
	const struct loop_time *loop; // null: not told
};

struct latency_log {
	char *path;              // owned; null: no log
	int fd;                  // -1: not open
	int64_t retry_us;        // after a failure, not before this time
	uint64_t max_bytes;
	bool failed_once;
	struct buf line;
};

// Copies the path. Nothing is opened yet. max_bytes 0: LATENCY_LOG_MAX_BYTES.
void latency_log_init(struct latency_log *l, const char *path, uint64_t max_bytes);
void latency_log_finish(struct latency_log *l);
// Appends one line, by one write. A failure is remembered and tried again some seconds later; it never matters to the request.
// False the first time that a failure is seen (for one notice to the person), else true.
bool latency_log_write(struct latency_log *l, const struct latency_entry *e);

#endif
