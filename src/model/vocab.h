// SPDX-License-Identifier: MIT
// The token table of a GGUF file: texts, kinds, and the way from a text to its id. Private to the model room.
#ifndef MASKSTORE_MODEL_VOCAB_H
#define MASKSTORE_MODEL_VOCAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "model/gguf.h"
#include "model/tokenizer.h"

// Strings laid end to end: string i is data[at[i]] .. data[at[i + 1]].
struct string_table {
	char *data;
	uint32_t *at; // [n + 1]
};

// A hash table's slot; zeroed: empty.
struct vocab_slot {
	uint32_t tag; // upper half of the text's hash
	uint32_t id_plus_1;
};

struct vocab {
	int n;
	struct string_table text; // as written in the file
	bool *special;            // [n]: not part of text (control, user-defined, unused, unknown)
	struct vocab_slot *slots; // hash table of ids by text
	size_t n_slots;           // a power of two, at least one and a half times n
	bool has_twins;           // some text stands there twice
	struct arena arena;       // owns all of these
};

// Reads tokenizer.ggml.tokens and tokenizer.ggml.token_type (missing: all are normal). On failure vocab_finish is still to be called.
// ERR_FORMAT for missing or broken tables, ERR_NOMEM.
enum err vocab_init(struct vocab *v, const struct gguf *g, struct err_msg *msg) ERR_MUST_CHECK;
void vocab_finish(struct vocab *v);

// The token's text, borrowed. id in [0, n).
static inline struct gguf_str vocab_text(const struct vocab *v, token_id id) {
	uint32_t begin = v->text.at[id], end = v->text.at[id + 1];
	return (struct gguf_str){v->text.data + begin, end - begin};
}
// The first token with this text, or TOKEN_NONE.
token_id vocab_find(const struct vocab *v, const char *text, size_t n_bytes);
// The same in three steps, for who looks up many: the table is larger than a cache, so its slots are asked for ahead.
uint64_t vocab_hash(const char *text, size_t n_bytes);
static inline void vocab_prefetch(const struct vocab *v, uint64_t hash) {
	__builtin_prefetch(&v->slots[hash & (v->n_slots - 1)]);
}
token_id vocab_find_hashed(const struct vocab *v, uint64_t hash, const char *text, size_t n_bytes);

// Byte-level BPE writes each byte as a character: printable ones as themselves (Latin-1), the others as U+0100 and up.
uint32_t byte_to_char(uint8_t byte);
// Writes the bytes that a token's text stands for to out[n_bytes] and returns their number; a text with characters outside
// that alphabet stands for itself.
size_t text_to_bytes(struct gguf_str text, char *out);

#endif
