// SPDX-License-Identifier: MIT
// Work in the background on one document: what its next requests will need is evaluated before they come. Private to the complete room.
//
// Stages: the prompt at the cursor; that behind the suggestion last shown, as if it had been accepted; the file's text as one prefix from start to
// end, which every later prompt in the file begins with: all of it when the file was just opened, else what an edit has cost of it as far as jumps mostly go, soon if
// it is little, else in a long pause. Nothing is decoded and no answer depends on it: it only fills the store.
#ifndef MASKSTORE_COMPLETE_FILL_H
#define MASKSTORE_COMPLETE_FILL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "complete/complete.h"

enum fill_stage { FILL_PROMPT, FILL_ACCEPTED, FILL_FILE, FILL_FILE_LATER, FILL_DONE };

struct fill {
	struct fill *next;         // the engine's list
	struct snapshot *snapshot; // owned reference
	size_t offset;             // the cursor
	uint64_t document;
	enum fill_stage stage;
	bool whole;                // the file was just opened: all of it in FILL_FILE
	bool patient;              // FILL_PROMPT lacks much (an edit far above): it waits for a pause, or every key would be followed by a piece of it
	bool may_archive;
	int64_t due_us;            // not before
	size_t replaced_bytes;     // right of the cursor, that the suggestion takes the place of
	size_t shown_bytes;
	char shown[];              // the suggestion
};

// ERR_NOMEM gives null. Takes its own reference of the snapshot, copies `shown`.
struct fill *fill_create(struct snapshot *s, size_t offset, uint64_t document, const char *shown, size_t shown_bytes);
void fill_destroy(struct fill *f); // accepts null

// Does the stage at hand; `step_tokens` at a time, each of which is kept when *cancel becomes non-zero in the next. True when the stage is done (or can't be):
// f->stage is then the next one. False where it was interrupted or has become patient.
bool fill_run(struct completer *c, struct fill *f, int step_tokens, const _Atomic int *cancel);

#endif
