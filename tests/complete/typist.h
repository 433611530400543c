// SPDX-License-Identifier: MIT
// Somebody who types, seeded: keys, typos, undo, pastes, jumps, edits above and below, suggestions taken over or typed out. And a tiny random model
// whose answers look like text, so that there is something to take over.
#ifndef MASKSTORE_TESTS_TYPIST_H
#define MASKSTORE_TESTS_TYPIST_H

#include <stddef.h>
#include <stdint.h>

#include "complete/complete.h"

#define TYPIST_BYTES 4096
#define TYPIST_STATES 16

enum act {
	ACT_TYPE, ACT_TYPE_SUGGESTED, ACT_ACCEPT, ACT_NEWLINE, ACT_BACKSPACE, ACT_UNDO, ACT_REDO, ACT_PASTE, ACT_EDIT_ABOVE, ACT_EDIT_BELOW, ACT_JUMP, ACT_AGAIN,
	ACT_N,
};
const char *act_name(enum act a);

struct typist_state {
	char text[TYPIST_BYTES];
	size_t n, cursor;
};

struct typist {
	struct typist_state now, states[TYPIST_STATES]; // states: a ring, for undo and redo
	int n_undo, n_redo;
	uint64_t top;      // states[top % TYPIST_STATES] is the present
	uint64_t seed;
	size_t max_bytes;
};

void typist_init(struct typist *t, const char *text, size_t max_bytes, uint64_t seed);
// Does something. `shown` is what was suggested last ("" for nothing; it stands for a pure insertion).
enum act typist_act(struct typist *t, const char *shown);
// Does exactly this; false if it is not possible here (nothing to undo, nothing suggested).
bool typist_do(struct typist *t, enum act a, const char *shown);

// Writes a tiny random FIM model that answers mostly with letters, blanks, punctuation and line ends; fails the test if it can't. `path` is a new
// temporary file (static buffer) that the caller unlinks.
const char *typist_model(uint64_t seed);
// Opens that model with scalar kernels; the file is gone when this returns. Close with model_close.
struct model *typist_open_model(uint64_t seed);
// typist_model, about a hundred times slower with scalar kernels (options.cpu_flags 0): a prefill of some hundred tokens takes a second or more.
const char *typist_slow_model(uint64_t seed);
const char *typist_slower_model(uint64_t seed);
// options.cpu_flags that make them slow: none, but under sanitizers, where all kernels are, the machine's.
unsigned typist_slow_flags(void);
// Engine options for it: a context of 384 tokens, one thread, no deadline.
struct engine_options typist_options(const char *model_path);

#endif
