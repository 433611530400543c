// SPDX-License-Identifier: MIT
// A tokenizer that remembers: pieces of text that come again and again (all of a prompt but the line that is typed in) are tokenised once. Private to the complete
// room. Texts are compared byte by byte, so the ids are always the tokenizer's. One thread.
#ifndef MASKSTORE_COMPLETE_PIECES_H
#define MASKSTORE_COMPLETE_PIECES_H

#include <stddef.h>

#include "base/err.h"
#include "model/tokenizer.h"

struct pieces;

// The tokenizer is borrowed. ERR_NOMEM.
enum err pieces_create(const struct tokenizer *t, struct pieces **out) ERR_MUST_CHECK;
void pieces_destroy(struct pieces *p); // accepts null

// As tokenizer_encode.
enum err pieces_encode(struct pieces *p, const char *text, size_t n_bytes, struct token_list *out) ERR_MUST_CHECK;
// Number of ids; huge when memory is out, so that it fits no budget.
size_t pieces_count(struct pieces *p, const char *text, size_t n_bytes);

#endif
