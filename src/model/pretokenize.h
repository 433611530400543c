// SPDX-License-Identifier: MIT
// Cuts text into the pieces inside which byte-level BPE may merge, as the tokenizers of two model families do.
//
// Private to the model room. Pure.
#ifndef MASKSTORE_MODEL_PRETOKENIZE_H
#define MASKSTORE_MODEL_PRETOKENIZE_H

#include <stdbool.h>
#include <stddef.h>

enum pretokenizer {
	PRETOKENIZER_QWEN2,
	PRETOKENIZER_SMOLLM,
};

// Length in bytes of the first piece of text[n_bytes], n_bytes ≥ 1; at least 1. Calling it again on the rest gives all pieces, provided
// that `text` starts at a piece and ends where the whole text ends. Time is proportional to the piece and a run of blanks after it.
size_t pretokenize_next(enum pretokenizer kind, const char *text, size_t n_bytes);

// Whether text[n_bytes] surely has the same pieces when it is cut at byte `at` (0 < at < n_bytes): false says nothing. True at the starts of most lines with qwen2, of some
// with smollm. Looks at the characters around `at` only.
bool pretokenize_seam(enum pretokenizer kind, const char *text, size_t n_bytes, size_t at);

#endif
