// SPDX-License-Identifier: MIT
// Private to the prompt room: token healing and the choice of what part of the text is kept.
#ifndef MASKSTORE_PROMPT_INTERNAL_H
#define MASKSTORE_PROMPT_INTERNAL_H

#include "base/buf.h"
#include "prompt/prompt.h"

// Bytes at the end of before[n_bytes] (a line up to the cursor) that are taken off the prompt and generated again. Pure.
size_t heal_length(const char *before, size_t n_bytes);

// Byte offsets in the document: cut ≤ anchor ≤ heal ≤ cursor ≤ suffix_end.
struct window {
	size_t cut, anchor, heal, cursor, suffix_end;
};

// Chooses the window for the budget. ERR_NOMEM.
enum err window_choose(const struct snapshot *s, size_t cursor, size_t n_healed, const struct prompt_options *o, prompt_count_tokens *count,
                       void *user, struct window *out) ERR_MUST_CHECK;

// The part of the file that prefixes of prompts with a cursor around here are taken from, as prompt_build_file says. ERR_NOMEM.
enum err window_file(const struct snapshot *s, size_t cursor, uint32_t ahead_lines, const struct prompt_options *o, prompt_count_tokens *count, void *user,
                     size_t *begin, size_t *end);

// Appends [begin, end) with all line ends as \n.
void text_append(struct buf *b, const struct snapshot *s, size_t begin, size_t end);

#endif
