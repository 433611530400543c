// SPDX-License-Identifier: MIT
// Byte-level BPE tokenizer built from GGUF metadata (tokenizer.ggml.*), pre-tokenisers `qwen2` and `smollm`.
//
// Immutable after creation; any thread may use it (scratch is on the caller's side). Never applies Unicode normalisation.
// Text is bytes: invalid UTF-8 is kept and round-trips exactly. Special tokens are never recognised in text.
#ifndef MASKSTORE_MODEL_TOKENIZER_H
#define MASKSTORE_MODEL_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/gguf.h"

struct tokenizer;

typedef int32_t token_id;
#define TOKEN_NONE (-1)

// Fill-in-the-middle tokens, each TOKEN_NONE where the model has none. Found by GGUF keys
// (tokenizer.ggml.{prefix,suffix,middle,fim_pre,fim_suf,fim_mid…}_token_id), else by token text (completion-anchors.md d).
struct fim_tokens {
	token_id prefix, suffix, middle; // all three or none
	token_id pad, repo, file_sep;
};

// A growing list of ids, owned by the caller; free with token_list_finish.
struct token_list {
	token_id *ids;
	size_t n;
	size_t cap;
};
void token_list_finish(struct token_list *l);
// Appends one id. ERR_NOMEM.
enum err token_list_push(struct token_list *l, token_id id) ERR_MUST_CHECK;

// Builds from an open file (needed only during the call; strings are copied). ERR_UNSUPPORTED for another tokenizer model or
// pre-tokeniser, ERR_FORMAT for broken tables (ids out of range, wrong element types, merges of unknown tokens).
enum err tokenizer_create(const struct gguf *g, struct tokenizer **out, struct err_msg *msg) ERR_MUST_CHECK;
void tokenizer_destroy(struct tokenizer *t);

// Appends the ids of `text[n_bytes]` to `out`. A byte that the vocabulary has no token for is left out, as the reference does (SmolLM2 lacks
// 21, mostly such as UTF-8 never has; Qwen2.5 none). ERR_NOMEM, ERR_LIMIT for a single word above 1 GiB.
enum err tokenizer_encode(const struct tokenizer *t, const char *text, size_t n_bytes, struct token_list *out) ERR_MUST_CHECK;
// Whether the ids of text[n_bytes] surely are those of its first `at` bytes (0 < at < n_bytes) and of the rest, one after the other; false says nothing. Cheap.
bool tokenizer_seam(const struct tokenizer *t, const char *text, size_t n_bytes, size_t at);

// Bytes of a token, borrowed for the tokenizer's life: the raw bytes of normal tokens, nothing (len 0) for special tokens
// and ids out of range.
const char *tokenizer_bytes(const struct tokenizer *t, token_id id, size_t *len_bytes);
// The first two levels of a byte trie: ids, ascending, of tokens that are the one byte `first` (second < 0), or begin with the two bytes. Borrowed.
const token_id *tokenizer_beginning(const struct tokenizer *t, uint8_t first, int second, size_t *n);
// The token's text as written in the file (for messages and inspect), borrowed.
const char *tokenizer_text(const struct tokenizer *t, token_id id, size_t *len_bytes);

int tokenizer_n_vocab(const struct tokenizer *t);
// Control, user-defined, unused and unknown tokens: never part of text.
bool tokenizer_is_special(const struct tokenizer *t, token_id id);
// Tokens that end generation: EOS, EOT, end-of-turn texts, and all FIM tokens.
bool tokenizer_is_end(const struct tokenizer *t, token_id id);
// The token to put first if the model wants one (tokenizer.ggml.add_bos_token), else TOKEN_NONE.
token_id tokenizer_bos(const struct tokenizer *t);
const struct fim_tokens *tokenizer_fim(const struct tokenizer *t);

#endif
