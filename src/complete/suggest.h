// SPDX-License-Identifier: MIT
// From decoded text to what is shown: stop rules while decoding, trimming and overlap rules afterwards.
// Facts: completion-anchors.md c4–c6; design.md §4. Pure functions over text.
#ifndef MASKSTORE_COMPLETE_SUGGEST_H
#define MASKSTORE_COMPLETE_SUGGEST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "prompt/prompt.h"

enum stop_reason {
	STOP_NONE = 0, STOP_END_TOKEN, STOP_LINE, STOP_REST_OF_LINE, STOP_BLOCK_END, STOP_NEXT_LINE, STOP_REPETITION, STOP_BLANK_LINE,
	STOP_MAX_TOKENS, STOP_DEADLINE, STOP_CONTEXT, STOP_CANCELLED, STOP_HEALING, STOP_SOFT_DEADLINE,
};
// Lower-case name for logs ("end_token", "line", …), static.
const char *stop_name(enum stop_reason r);

// Called after each token. `text[n_bytes]` is everything generated so far behind the cursor (healed bytes left out). Returns a reason when decoding should
// end, and sets *keep_bytes to the bytes of text that stay (≤ n_bytes); else STOP_NONE.
enum stop_reason suggest_stop(const struct prompt *p, const char *text, size_t n_bytes, size_t *keep_bytes);

// The final text (LF line ends) and which part of the rest of the line it replaces.
struct suggestion {
	char *text;            // owned; empty when nothing should be shown
	size_t text_bytes;
	size_t replace_bytes;  // bytes of prompt.rest, right of the cursor, that the text replaces (0: pure insertion)
};
// Trims blanks, drops overlap with the rest of the line and the following lines, drops whitespace-only and repeated text.
// Cuts an incomplete UTF-8 sequence at the end; drops text that is not valid UTF-8. ERR_NOMEM.
enum err suggest_finish(const struct prompt *p, const char *text, size_t n_bytes, struct suggestion *out) ERR_MUST_CHECK;
void suggestion_finish(struct suggestion *s);

#endif
