// SPDX-License-Identifier: MIT
// The open documents, found by their URI's key. Loop thread only.
#ifndef MASKSTORE_LSP_WORKSPACE_H
#define MASKSTORE_LSP_WORKSPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "document/document.h"

// Larger documents get no completion (one message each); they stay in step all the same.
#define WORKSPACE_COMPLETION_MAX_BYTES (20u << 20)

struct open_document {
	char *key;             // owned; uri_key of its URI
	size_t key_bytes;
	uint64_t id;           // > 0, never used again after close
	struct document *text; // owned; null if it could not be held
	bool stale;            // our text may differ from the editor's: no answers until a whole text arrives
	bool may_archive;      // privacy.h said so
	bool told_large;       // the message about its size was shown
	struct open_document *next;
};

struct workspace {
	struct open_document *buckets[256];
	uint64_t last_id;
	size_t n_open;
};

void workspace_init(struct workspace *w);
void workspace_finish(struct workspace *w);
// Null if it is not open. Borrowed until the document is closed.
struct open_document *workspace_find(const struct workspace *w, const char *uri, size_t n_bytes);
// By id; null if it was closed. Walks all.
struct open_document *workspace_find_id(const struct workspace *w, uint64_t id);
// Opens an entry without text, or empties the one that is there (under a new id). ERR_NOMEM.
enum err workspace_open(struct workspace *w, const char *uri, size_t n_bytes, struct open_document **out) ERR_MUST_CHECK;
// False if it was not open.
bool workspace_close(struct workspace *w, const char *uri, size_t n_bytes);

#endif
