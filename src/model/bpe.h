// SPDX-License-Identifier: MIT
// Byte-pair merging inside one piece of text. Private to the model room.
#ifndef MASKSTORE_MODEL_BPE_H
#define MASKSTORE_MODEL_BPE_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "model/vocab.h"

// A merge rule in its hash slot; zeroed: empty.
struct bpe_rule {
	uint64_t pair;        // left id << 32 | right id
	uint32_t rank_plus_1; // its place in the file
	token_id result;
};

struct bpe {
	token_id byte_token[256]; // TOKEN_NONE where the vocabulary has no token for the byte
	struct bpe_rule *rules;   // hash table
	size_t n_slots;           // a power of two
	struct arena arena;       // owns it
};

// Memory for merging, grown as needed; start from {0}. One thread at a time.
struct bpe_scratch {
	struct bpe_symbol *symbols; // owned [cap]
	struct bpe_candidate *heap; // owned [3 * cap]
	size_t cap;
};

// Reads tokenizer.ggml.merges. On failure bpe_finish is still to be called. ERR_FORMAT for merges that are missing, not two texts, or of
// texts that are no normal tokens; ERR_NOMEM.
enum err bpe_init(struct bpe *b, const struct gguf *g, const struct vocab *v, struct err_msg *msg) ERR_MUST_CHECK;
void bpe_finish(struct bpe *b);

// Appends the ids of one piece: merges of the lowest rank first, the leftmost first among equals. O(n log n). Bytes without a token are
// left out (as the reference does). ERR_NOMEM, ERR_LIMIT above 1 GiB.
enum err bpe_encode(const struct bpe *b, const char *piece, size_t n_bytes, struct bpe_scratch *s, struct token_list *out) ERR_MUST_CHECK;
void bpe_scratch_finish(struct bpe_scratch *s);

#endif
