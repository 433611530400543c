// SPDX-License-Identifier: MIT
// The list of fills. Times: a cursor's prompt is wanted at once, or in a pause if it lacks much; the state behind a suggestion when somebody stops to look at it; what an edit has cost of the
// rest of a file when they stop to think, or, if it is much, when they seem to read. A file just opened is wanted at once too.
#include "complete/background.h"

#include <stdatomic.h>
#include <stddef.h>

#define PROMPT_WAIT_US 30000       // a cancelled request is mostly followed by the next at once
#define ACCEPTED_WAIT_US 300000    // longer than between keys
#define FILE_WAIT_US 2000000
#define FILE_LATER_WAIT_US 20000000 // may take a minute of all cores
#define TYPING_US 2000000          // so long after a request small steps are kept from the next one
#define TYPING_STEP_TOKENS 16
#define QUIET_STEP_TOKENS 128

void background_finish(struct background *b) {
	while (b->list) {
		struct fill *f = b->list;
		b->list = f->next;
		fill_destroy(f);
	}
}

static int64_t due_us(const struct background *b, const struct fill *f, int64_t now_us) {
	switch (f->stage) {
	case FILL_PROMPT: return b->request_us + (f->patient ? FILE_WAIT_US : PROMPT_WAIT_US);
	case FILL_ACCEPTED: return f->shown_bytes ? b->request_us + ACCEPTED_WAIT_US : now_us;
	case FILL_FILE: return f->whole ? now_us : b->request_us + FILE_WAIT_US;
	case FILL_FILE_LATER: return b->request_us + FILE_LATER_WAIT_US;
	case FILL_DONE: break;
	}
	return now_us;
}

// Unlinks the document's fill.
static struct fill *unlink_document(struct background *b, uint64_t document) {
	struct fill **link = &b->list;
	while (*link && (*link)->document != document)
		link = &(*link)->next;
	struct fill *f = *link;
	if (f)
		*link = f->next;
	return f;
}

static void push(struct background *b, struct fill *f, int64_t now_us) {
	f->due_us = due_us(b, f, now_us);
	f->next = b->list;
	b->list = f;
	int n = 0;
	for (struct fill **link = &b->list; *link; link = &(*link)->next)
		if (++n > BACKGROUND_MAX) {
			fill_destroy(*link);
			*link = NULL;
			return;
		}
}

static bool is_running(const struct background *b, uint64_t document) {
	return b->running && b->running->document == document && !b->outdated;
}

void background_put(struct background *b, struct fill *f) {
	struct fill *old = unlink_document(b, f->document);
	f->whole |= (old && old->whole) || (is_running(b, f->document) && b->running->whole);
	fill_destroy(old);
	if (is_running(b, f->document)) {
		b->outdated = true;
		atomic_store(&b->cancel, 1);
	}
	push(b, f, 0);
}

void background_end(struct background *b, uint64_t document) {
	fill_destroy(unlink_document(b, document));
	if (is_running(b, document)) {
		b->outdated = true;
		atomic_store(&b->cancel, 1);
	}
}

void background_interrupt(struct background *b, int64_t now_us) {
	if (b->running && !b->interrupt_us)
		b->interrupt_us = now_us;
	atomic_store(&b->cancel, 1);
}

int64_t background_due_us(const struct background *b) {
	int64_t first = INT64_MAX;
	for (const struct fill *f = b->list; f; f = f->next)
		first = f->due_us < first ? f->due_us : first;
	return first;
}

struct fill *background_take(struct background *b, int64_t now_us) {
	struct fill **link = &b->list;
	while (*link && (*link)->due_us > now_us)
		link = &(*link)->next;
	struct fill *f = *link;
	if (!f)
		return NULL;
	*link = f->next;
	b->running = f;
	b->outdated = false;
	b->interrupt_us = 0;
	atomic_store(&b->cancel, 0);
	return f;
}

void background_return(struct background *b, struct fill *f, int64_t now_us) {
	bool outdated = b->outdated;
	b->stop_us = b->interrupt_us ? now_us - b->interrupt_us : 0;
	b->running = NULL;
	b->outdated = false;
	if (outdated || f->stage == FILL_DONE)
		fill_destroy(f);
	else
		push(b, f, now_us);
}

int background_step_tokens(const struct background *b, int64_t now_us) {
	return now_us - b->request_us < TYPING_US ? TYPING_STEP_TOKENS : QUIET_STEP_TOKENS;
}
