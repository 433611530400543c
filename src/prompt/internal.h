// SPDX-License-Identifier: MIT
// Private to the prompt room: token healing and the choice of what part of the text is kept.
#ifndef MASKSTORE_PROMPT_INTERNAL_H
#define MASKSTORE_PROMPT_INTERNAL_H

#include "base/buf.h"
#include "prompt/prompt.h"

// Bytes at the end of before[n_bytes] (a line up to the cursor) that are taken off the prompt and generated again. Pure.
size_t heal_length(const char *before, size_t n_bytes);

// Whole lines [begin, end).
struct line_range {
	uint32_t begin, end;
};

#define HEAD_MAX_RANGES 48
// What stays of the text above a cut, top down.
struct head {
	struct line_range lines[HEAD_MAX_RANGES];
	int n;
};

// Import statements, and signatures of the definitions that line `cut_line` is in. Pure.
void head_find(const struct snapshot *s, uint32_t cut_line, struct head *imports, struct head *signatures);

// Byte offsets in the document: cut ≤ anchor ≤ heal ≤ cursor ≤ suffix_end.
struct window {
	size_t cut, anchor, heal, cursor, suffix_end;
	struct head head; // goes before the cut
};

// Chooses the window for the budget. ERR_NOMEM.
enum err window_choose(const struct snapshot *s, size_t cursor, size_t n_healed, const struct prompt_options *o, prompt_count_tokens *count,
                       void *user, struct window *out) ERR_MUST_CHECK;

// The part of the file that prefixes of prompts with a cursor around here are taken from, as prompt_build_file says. ERR_NOMEM.
enum err window_file(const struct snapshot *s, size_t cursor, uint32_t ahead_lines, const struct prompt_options *o, prompt_count_tokens *count, void *user,
                     struct head *head, size_t *begin, size_t *end) ERR_MUST_CHECK;

// Appends [begin, end) with all line ends as \n.
void text_append(struct buf *b, const struct snapshot *s, size_t begin, size_t end);

#endif
