// SPDX-License-Identifier: MIT
// An open document: its current snapshot, its version, and the chain of its parses.
//
// Invariants: `now` always holds the text after the last edit that succeeded. Owner: one thread; snapshots that were given out live on their own.
// An edit never changes a snapshot: it makes the next one, which shares all chunks but the touched ones.
#include <stdlib.h>

#include "document/internal.h"

struct document {
	struct snapshot *now; // counted
	struct chain *chain;  // counted; null if not Python
	int64_t version;
	bool python;
};

// Makes `next` the successor of the current text in the chain of parses.
static void link_next(struct document *d, struct snapshot *next) {
	if (d->chain) {
		next->chain = chain_ref(d->chain);
		next->seq = d->now ? d->now->seq + 1 : 0;
	}
}

enum err document_create(const char *text, size_t n_bytes, bool python, int64_t version, struct document **out, struct err_msg *msg) {
	if (n_bytes > DOCUMENT_MAX_BYTES)
		return err_set(msg, ERR_LIMIT, "the document has %zu MB, more than %u", n_bytes >> 20, DOCUMENT_MAX_BYTES >> 20);
	struct document *d = calloc(1, sizeof *d);
	if (!d)
		return err_set(msg, ERR_NOMEM, "no memory for a document");
	d->python = python;
	d->version = version;
	struct snapshot *s = snapshot_create(text, n_bytes, python);
	if (python)
		d->chain = chain_create();
	if (!s || (python && !d->chain)) {
		snapshot_unref(s);
		document_destroy(d);
		return err_set(msg, ERR_NOMEM, "no memory for a document of %zu bytes", n_bytes);
	}
	link_next(d, s);
	d->now = s;
	*out = d;
	return ERR_OK;
}

void document_destroy(struct document *d) {
	if (!d)
		return;
	snapshot_unref(d->now);
	chain_unref(d->chain);
	free(d);
}

enum err document_edit(struct document *d, struct position start, struct position end, enum pos_encoding enc, const char *text, size_t n_bytes) {
	size_t a = snapshot_offset(d->now, start, enc), b = snapshot_offset(d->now, end, enc);
	if (a > b) {
		size_t swap = a;
		a = b;
		b = swap;
	}
	if (n_bytes > DOCUMENT_MAX_BYTES || snapshot_bytes(d->now) - (b - a) + n_bytes > DOCUMENT_MAX_BYTES)
		return ERR_LIMIT;
	struct snapshot *next = snapshot_splice(d->now, a, b, text, n_bytes, d->python);
	if (!next)
		return ERR_NOMEM;
	link_next(d, next);
	if (d->chain)
		chain_record(d->chain, d->now, next, a, b, a + n_bytes);
	snapshot_unref(d->now);
	d->now = next;
	return ERR_OK;
}

enum err document_replace(struct document *d, const char *text, size_t n_bytes) {
	if (n_bytes > DOCUMENT_MAX_BYTES)
		return ERR_LIMIT;
	struct snapshot *next = snapshot_create(text, n_bytes, d->python);
	if (!next)
		return ERR_NOMEM;
	link_next(d, next);
	if (d->chain)
		chain_break(d->chain, next->seq);
	snapshot_unref(d->now);
	d->now = next;
	return ERR_OK;
}

void document_set_version(struct document *d, int64_t version) {
	d->version = version;
}

int64_t document_version(const struct document *d) {
	return d->version;
}

bool document_is_python(const struct document *d) {
	return d->python;
}

struct snapshot *document_snapshot(struct document *d) {
	return snapshot_ref(d->now);
}

struct chain *document_chain(const struct document *d) {
	return d->chain;
}
