// SPDX-License-Identifier: MIT
// Background prefill, stage by stage. Each stage is a token list; what the store lacks of it is evaluated in steps.
//
// Threads: the completer's. `cancel` is raised by whoever submits a request; every kernel worker reads it within 2 ms.
#include "complete/fill.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "complete/internal.h"

#define FILE_SOON_MAX_TOKENS 256     // of a file that was filled before: more than this waits for a long pause, or until the cursor goes there
#define PROMPT_SOON_MAX_TOKENS 400   // a jump in a file that is there costs less; what costs more follows an edit far above
#define SEAM_TOKENS 4                // at the end of a text, that are others where it goes on
#define ACCEPTED_MAX_BYTES (1u << 20) // a larger text is not copied for a guess

struct fill *fill_create(struct snapshot *s, size_t offset, uint64_t document, const char *shown, size_t shown_bytes) {
	struct fill *f = calloc(1, sizeof *f + shown_bytes);
	if (!f)
		return NULL;
	f->snapshot = snapshot_ref(s);
	f->offset = offset;
	f->document = document;
	f->shown_bytes = shown_bytes;
	if (shown_bytes)
		memcpy(f->shown, shown, shown_bytes);
	return f;
}

void fill_destroy(struct fill *f) {
	if (!f)
		return;
	snapshot_unref(f->snapshot);
	free(f);
}

// False only when interrupted: what cannot be done (no memory, everything pinned) is as good as done.
static bool evaluate(struct completer *c, const struct token_list *t, int step_tokens, const _Atomic int *cancel) {
	enum err e = ERR_OK;
	for (size_t have; e == ERR_OK && (have = session_probe(c->session, t->ids, t->n)) < t->n;) {
		size_t n = t->n - have > (size_t)step_tokens ? have + (size_t)step_tokens : t->n;
		struct session_sync_result r = {0};
		int64_t since = clock_us();
		e = session_sync(c->session, t->ids, n, cancel, &r, NULL);
		c->background_tokens += r.new_tokens;
		if (e == ERR_OK && !r.restored_tokens)
			pace_measure(&c->pace, have, (size_t)r.new_tokens, clock_us() - since);
		if (e == ERR_OK && !r.new_tokens)
			break;
	}
	return e != ERR_CANCELLED;
}

// At most max_tokens, or nothing (*too_many).
static bool run_prompt(struct completer *c, struct snapshot *s, size_t offset, size_t max_tokens, int step_tokens, const _Atomic int *cancel, bool *too_many) {
	struct token_list t = {0};
	bool done = context_tokens(c, s, offset, CONTEXT_PROMPT, &t) != ERR_OK;
	*too_many = !done && t.n - session_probe(c->session, t.ids, t.n) > max_tokens;
	if (!done && !*too_many)
		done = evaluate(c, &t, step_tokens, cancel);
	token_list_finish(&t);
	return done;
}

static bool run_cursor(struct completer *c, struct fill *f, int step_tokens, const _Atomic int *cancel) {
	bool too_many;
	bool done = run_prompt(c, f->snapshot, f->offset, f->whole || f->patient ? SIZE_MAX : PROMPT_SOON_MAX_TOKENS, step_tokens, cancel, &too_many);
	f->patient |= too_many;
	return done;
}

// The text as it will be if the suggestion is taken.
static struct snapshot *accepted(const struct fill *f, size_t *offset) {
	size_t n = snapshot_bytes(f->snapshot), rest = f->offset + f->replaced_bytes;
	if (!f->shown_bytes || n > ACCEPTED_MAX_BYTES || rest > n)
		return NULL;
	char *text = malloc(n + f->shown_bytes + 1);
	if (!text)
		return NULL;
	snapshot_read(f->snapshot, 0, f->offset, text);
	memcpy(text + f->offset, f->shown, f->shown_bytes);
	*offset = f->offset + f->shown_bytes;
	snapshot_read(f->snapshot, rest, n, text + *offset);
	struct snapshot *s = snapshot_create(text, *offset + n - rest, false);
	free(text);
	return s;
}

static bool run_accepted(struct completer *c, const struct fill *f, int step_tokens, const _Atomic int *cancel) {
	size_t offset;
	struct snapshot *s = accepted(f, &offset);
	bool too_many, done = !s || run_prompt(c, s, offset, SIZE_MAX, step_tokens, cancel, &too_many);
	snapshot_unref(s);
	return done;
}

// Whether the file is there to a little behind the cursor: then a jump that needs nothing more causes nothing more.
static bool is_near_there(struct completer *c, const struct fill *f) {
	struct token_list t = {0};
	bool there = context_tokens(c, f->snapshot, f->offset, CONTEXT_NEAR, &t) != ERR_OK || session_probe(c->session, t.ids, t.n) + SEAM_TOKENS >= t.n;
	token_list_finish(&t);
	return there;
}

// What the archive has of it is restored on the way.
static bool run_file(struct completer *c, const struct fill *f, int step_tokens, const _Atomic int *cancel) {
	struct token_list t = {0};
	bool done = true;
	if (!f->whole && is_near_there(c, f))
		return true;
	if (context_tokens(c, f->snapshot, f->offset, f->whole ? CONTEXT_FILE : CONTEXT_AROUND, &t) == ERR_OK) {
		size_t have = session_probe(c->session, t.ids, t.n);
		if (f->whole || f->stage == FILL_FILE_LATER || t.n - have <= FILE_SOON_MAX_TOKENS)
			done = evaluate(c, &t, step_tokens, cancel);
	}
	token_list_finish(&t);
	return done;
}

bool fill_run(struct completer *c, struct fill *f, int step_tokens, const _Atomic int *cancel) {
	bool done = true;
	switch (f->stage) {
	case FILL_PROMPT: done = run_cursor(c, f, step_tokens, cancel); break;
	case FILL_ACCEPTED: done = run_accepted(c, f, step_tokens, cancel); break;
	case FILL_FILE:
	case FILL_FILE_LATER: done = run_file(c, f, step_tokens, cancel); break;
	case FILL_DONE: break;
	}
	if (done && f->stage != FILL_DONE)
		f->stage++;
	return done;
}
