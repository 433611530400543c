// SPDX-License-Identifier: MIT
// What the engine prepares before anybody asks: a file that was opened, and the place of the last edit once the person pauses (editors that ask only on demand
// send no request then; those that ask on each key stop the timer with it). Loop thread only.
#include "internal.h"

#define PAUSE_MS 400 // longer than between keys

static bool is_usable(const struct open_document *d, const struct snapshot *snap) {
	return d && d->text && !d->stale && snap && snapshot_bytes(snap) <= WORKSPACE_COMPLETION_MAX_BYTES;
}

static void fill(struct server *s, struct open_document *d, size_t offset, bool opened) {
	struct snapshot *snap = s->engine && !s->stopping && d && d->text ? document_snapshot(d->text) : NULL;
	if (is_usable(d, snap))
		engine_fill(s->engine, snap, offset, d->id, opened, d->may_archive);
	snapshot_unref(snap);
}

void prepare_opened(struct server *s, struct open_document *d) {
	fill(s, d, 0, true);
}

void prepare_all(struct server *s) {
	for (size_t i = 0; i < sizeof s->workspace.buckets / sizeof *s->workspace.buckets; i++)
		for (struct open_document *d = s->workspace.buckets[i]; d; d = d->next)
			prepare_opened(s, d);
}

static void paused(uv_timer_t *timer) {
	struct server *s = timer->data;
	fill(s, workspace_find_id(&s->workspace, s->prepare_document), s->prepare_offset, false);
}

void prepare_changed(struct server *s, struct open_document *d, size_t offset) {
	s->prepare_document = d->id;
	s->prepare_offset = offset;
	uv_timer_start(&s->prepare_timer, paused, PAUSE_MS, 0);
}

void prepare_asked(struct server *s) {
	uv_timer_stop(&s->prepare_timer);
}

void prepare_closed(struct server *s, uint64_t document_id) {
	if (s->engine)
		engine_fill_end(s->engine, document_id);
}
