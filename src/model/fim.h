// SPDX-License-Identifier: MIT
// Finds the tokens with a meaning of their own: fill-in-the-middle, and those that end a text. Private to the model room.
#ifndef MASKSTORE_MODEL_FIM_H
#define MASKSTORE_MODEL_FIM_H

#include "base/err.h"
#include "model/gguf.h"
#include "model/vocab.h"

// Fills *fim (see struct fim_tokens) and sets ends[v->n] for each token that ends generation; marks what it finds by a spelling that no
// text has as special in `v`. ERR_FORMAT for a special id in the metadata that is outside the vocabulary.
enum err fim_find(struct vocab *v, const struct gguf *g, struct fim_tokens *fim, bool *ends, struct err_msg *msg) ERR_MUST_CHECK;

// The token named by a metadata key: TOKEN_NONE if the key is missing. ERR_FORMAT as above.
enum err special_id(const struct vocab *v, const struct gguf *g, const char *key, token_id *out, struct err_msg *msg) ERR_MUST_CHECK;

#endif
