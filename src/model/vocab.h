// SPDX-License-Identifier: MIT
// The token table of a GGUF file: texts, kinds, and the way from a text to its id. Private to the model room.
#ifndef MASKSTORE_MODEL_VOCAB_H
#define MASKSTORE_MODEL_VOCAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/gguf.h"
#include "model/tokenizer.h"

// Strings laid end to end: string i is data[at[i]] .. data[at[i + 1]].
struct string_table {
	char *data;   // owned
	uint32_t *at; // owned [n + 1]
};

struct vocab {
	int n;
	struct string_table text; // as written in the file
	bool *special;            // owned [n]: not part of text (control, user-defined, unused, unknown)
	token_id *slots;          // owned hash table of ids by text, TOKEN_NONE where empty
	size_t n_slots;           // a power of two, at least twice n
};

// Reads tokenizer.ggml.tokens and tokenizer.ggml.token_type (missing: all are normal). On failure vocab_finish is still to be called.
// ERR_FORMAT for missing or broken tables, ERR_NOMEM.
enum err vocab_init(struct vocab *v, const struct gguf *g, struct err_msg *msg) ERR_MUST_CHECK;
void vocab_finish(struct vocab *v);

// The token's text, borrowed. id in [0, n).
struct gguf_str vocab_text(const struct vocab *v, token_id id);
// The first token with this text, or TOKEN_NONE.
token_id vocab_find(const struct vocab *v, const char *text, size_t n_bytes);

// Byte-level BPE writes each byte as a character: printable ones as themselves (Latin-1), the others as U+0100 and up.
uint32_t byte_to_char(uint8_t byte);
// Writes the bytes that a token's text stands for to out[n_bytes] and returns their number; a text with characters outside
// that alphabet stands for itself.
size_t text_to_bytes(struct gguf_str text, char *out);

#endif
