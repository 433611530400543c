// SPDX-License-Identifier: MIT
// The list of fills that wait for a quiet moment. Private to the complete room; all functions under the engine's lock, none blocks.
#ifndef MASKSTORE_COMPLETE_BACKGROUND_H
#define MASKSTORE_COMPLETE_BACKGROUND_H

#include <stdbool.h>
#include <stdint.h>

#include "complete/fill.h"

#define BACKGROUND_MAX 16 // documents; the one least recently added goes

// Zeroed: empty. One fill a document, the newest first.
struct background {
	struct fill *list;
	struct fill *running;    // taken, not given back
	bool outdated;           // the running one has been replaced or ended
	_Atomic int cancel;      // read by the running one
	int64_t interrupt_us;    // when the running one was told to stop; 0: not
	int64_t stop_us;         // that the last one told so took to stop; taken by the request it stopped for
	int64_t request_us;      // when the last request came or ended
};

void background_finish(struct background *b);
// Takes the fill over, in the place of the document's older one, whose `whole` it keeps.
void background_put(struct background *b, struct fill *f);
void background_end(struct background *b, uint64_t document);
// A request has come: whatever runs stops.
void background_interrupt(struct background *b, int64_t now_us);
// When the next fill is due, INT64_MAX if there is none.
int64_t background_due_us(const struct background *b);
// The first fill that is due, now running; null if none is.
struct fill *background_take(struct background *b, int64_t now_us);
// Gives it back: it waits for its next stage's time, or is destroyed.
void background_return(struct background *b, struct fill *f, int64_t now_us);
// Tokens that a fill should do at a time.
int background_step_tokens(const struct background *b, int64_t now_us);

#endif
