// SPDX-License-Identifier: MIT
// What the archive holds in RAM: a hash table by key with two lists by last use, and the queue of what is to be written.
//
// Invariants: an entry with bytes is in exactly one list, `ram_copy` if it is on disk too, else `ram_only`; ram_bytes is the sum of the
// bytes in both and never above the budget. An entry without bytes has a payload that is queued or packed, or is being written.
// Everything here is called with the archive's lock held.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "maskstore/archive_internal.h"

#define MAX_BUCKETS (1u << 16)

enum err table_init(struct archive *a) {
	size_t n_entries = ARCHIVE_QUEUE + a->options.ram_budget_bytes / a->block_bytes;
	a->n_buckets = 1024;
	while (a->n_buckets < n_entries && a->n_buckets < MAX_BUCKETS)
		a->n_buckets *= 2;
	a->buckets = calloc(a->n_buckets, sizeof *a->buckets);
	return a->buckets ? ERR_OK : ERR_NOMEM;
}

void table_finish(struct archive *a) {
	for (size_t i = 0; a->buckets && i < a->n_buckets; i++)
		while (a->buckets[i])
			table_drop(a, a->buckets[i]);
	free(a->buckets);
}

static struct entry **bucket_of(const struct archive *a, const struct kv_key *key) {
	uint64_t hash;
	memcpy(&hash, key->bytes, sizeof hash);
	return &a->buckets[hash & (a->n_buckets - 1)];
}

struct entry *table_find(const struct archive *a, const struct kv_key *key) {
	struct entry *e = *bucket_of(a, key);
	while (e && !kv_key_equal(&e->name.key, key))
		e = e->in_bucket;
	return e;
}

void table_add(struct archive *a, struct entry *e) {
	struct entry **bucket = bucket_of(a, &e->name.key);
	e->in_bucket = *bucket;
	*bucket = e;
}

static struct entry_list *list_of(struct archive *a, const struct entry *e) {
	return e->on_disk ? &a->ram_copy : &a->ram_only;
}

static void unlink_entry(struct archive *a, struct entry *e) {
	struct entry_list *l = list_of(a, e);
	*(e->newer ? &e->newer->older : &l->newest) = e->older;
	*(e->older ? &e->older->newer : &l->oldest) = e->newer;
	e->newer = e->older = NULL;
}

static void link_newest(struct archive *a, struct entry *e) {
	struct entry_list *l = list_of(a, e);
	e->newer = NULL;
	e->older = l->newest;
	*(l->newest ? &l->newest->newer : &l->oldest) = e;
	l->newest = e;
}

void table_drop(struct archive *a, struct entry *e) {
	assert(e->readers == 0);
	struct entry **at = bucket_of(a, &e->name.key);
	while (*at != e)
		at = &(*at)->in_bucket;
	*at = e->in_bucket;
	if (e->bytes) {
		unlink_entry(a, e);
		a->stats.ram_bytes -= e->n_bytes;
		a->stats.ram_extents--;
		free(e->bytes);
	}
	free(e);
}

void table_hold(struct archive *a, struct entry *e, uint8_t *bytes, size_t n_bytes) {
	assert(!e->bytes && bytes);
	e->bytes = bytes;
	e->n_bytes = n_bytes;
	a->stats.ram_bytes += n_bytes;
	a->stats.ram_extents++;
	link_newest(a, e);
}

void table_use(struct archive *a, struct entry *e, bool on_disk) {
	if (e->bytes)
		unlink_entry(a, e);
	e->on_disk = on_disk;
	if (e->bytes)
		link_newest(a, e);
}

// Drops from the oldest of one list on, but not what is being read or waits to be written.
static void drop_old(struct archive *a, struct entry_list *l, size_t n_bytes) {
	struct entry *e = l->oldest;
	while (e && a->stats.ram_bytes + n_bytes > a->options.ram_budget_bytes) {
		struct entry *newer = e->newer;
		if (!e->readers && !e->to_disk) {
			a->stats.evictions += !e->on_disk;
			table_drop(a, e);
		}
		e = newer;
	}
}

bool table_make_room(struct archive *a, size_t n_bytes, bool all) {
	if (n_bytes > a->options.ram_budget_bytes)
		return false;
	drop_old(a, &a->ram_copy, n_bytes);
	if (all)
		drop_old(a, &a->ram_only, n_bytes);
	return a->stats.ram_bytes + n_bytes <= a->options.ram_budget_bytes;
}

void queue_push(struct archive *a, struct entry *e) {
	e->queued = NULL;
	e->in_queue = true;
	if (a->queue_tail)
		a->queue_tail->queued = e;
	else
		a->queue_head = e;
	a->queue_tail = e;
	a->n_queued++;
}

struct entry *queue_pop(struct archive *a) {
	struct entry *e = a->queue_head;
	if (!e)
		return NULL;
	a->queue_head = e->queued;
	if (!a->queue_head)
		a->queue_tail = NULL;
	e->queued = NULL;
	e->in_queue = false;
	a->n_queued--;
	return e;
}
