// SPDX-License-Identifier: MIT
// A fixed hash table with chains: editors hold hundreds of documents open, not millions.
#include "workspace.h"

#include <stdlib.h>
#include <string.h>

#include "uri.h"

#define N_BUCKETS (sizeof((struct workspace *)0)->buckets / sizeof(struct open_document *))

// FNV-1a, 64 bit (public domain constants).
static size_t bucket_of(const char *key, size_t n_bytes) {
	uint64_t h = 0xcbf29ce484222325u;
	for (size_t i = 0; i < n_bytes; i++)
		h = (h ^ (unsigned char)key[i]) * 0x100000001b3u;
	return (size_t)(h ^ h >> 32) % N_BUCKETS;
}

void workspace_init(struct workspace *w) {
	*w = (struct workspace){0};
}

static void drop(struct open_document *d) {
	document_destroy(d->text);
	free(d->key);
	free(d);
}

void workspace_finish(struct workspace *w) {
	for (size_t i = 0; i < N_BUCKETS; i++) {
		while (w->buckets[i]) {
			struct open_document *d = w->buckets[i];
			w->buckets[i] = d->next;
			drop(d);
		}
	}
	w->n_open = 0;
}

// The link that points at the entry, or at the chain's end. *key_out is the key, for the caller to finish.
static struct open_document **find_link(const struct workspace *w, const char *uri, size_t n_bytes, struct buf *key) {
	uri_key(uri, n_bytes, key);
	if (key->failed)
		return NULL;
	struct open_document **link = (struct open_document **)&w->buckets[bucket_of(key->data, key->len_bytes)];
	while (*link && ((*link)->key_bytes != key->len_bytes || (key->len_bytes && memcmp((*link)->key, key->data, key->len_bytes))))
		link = &(*link)->next;
	return link;
}

struct open_document *workspace_find(const struct workspace *w, const char *uri, size_t n_bytes) {
	struct buf key = {0};
	struct open_document **link = find_link(w, uri, n_bytes, &key);
	buf_finish(&key);
	return link ? *link : NULL;
}

struct open_document *workspace_find_id(const struct workspace *w, uint64_t id) {
	for (size_t i = 0; i < N_BUCKETS; i++)
		for (struct open_document *d = w->buckets[i]; d; d = d->next)
			if (d->id == id)
				return d;
	return NULL;
}

static struct open_document *create(struct buf *key) {
	struct open_document *d = calloc(1, sizeof *d);
	if (!d)
		return NULL;
	d->key = key->data;
	d->key_bytes = key->len_bytes;
	buf_init(key);
	return d;
}

enum err workspace_open(struct workspace *w, const char *uri, size_t n_bytes, struct open_document **out) {
	struct buf key = {0};
	struct open_document **link = find_link(w, uri, n_bytes, &key);
	if (link && !*link) {
		*link = create(&key);
		w->n_open += *link != NULL;
	}
	buf_finish(&key);
	if (!link || !*link)
		return ERR_NOMEM;
	struct open_document *d = *link;
	document_destroy(d->text);
	d->text = NULL;
	d->stale = d->told_large = d->may_archive = false;
	d->id = ++w->last_id;
	*out = d;
	return ERR_OK;
}

bool workspace_close(struct workspace *w, const char *uri, size_t n_bytes) {
	struct buf key = {0};
	struct open_document **link = find_link(w, uri, n_bytes, &key);
	buf_finish(&key);
	if (!link || !*link)
		return false;
	struct open_document *d = *link;
	*link = d->next;
	drop(d);
	w->n_open--;
	return true;
}
