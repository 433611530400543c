// SPDX-License-Identifier: MIT
// What the decoder picked where: greedy decoding is a pure function of the tokens before, so a pick once made is made for good. Private to the complete room.
//
// A path is the prompt's tokens and those generated behind it. At a place (the end of a path) the pick under the bytes `must` that it has to continue is the best
// token of the set S(must): all tokens where `must` is empty, else those that agree with it (sampler_pick_healed). Where m is a beginning of m', S(m') lies in
// S(m), and the best of a set is the best of each subset that holds it (ties go to the lower id in both). So a pick remembered under m answers m' if it
// lies in S(m'): text typed as suggested, a second request at the same place, and text decoded past the cut need no decoder, and no answer is ever
// another than the decoder's.
//
// Memory is allocated at creation only: at most MEMO_ORIGINS paths as plain arrays ("origins"), each with a tree of what follows. The least recently used
// origin goes first. Compared are ids, never hashes. One thread at a time.
#ifndef MASKSTORE_COMPLETE_MEMO_H
#define MASKSTORE_COMPLETE_MEMO_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "model/tokenizer.h"

#define MEMO_ORIGINS 64
#define MEMO_MUST_BYTES 64 // a pick under more is not remembered

struct memo;

// For paths of at most capacity_tokens. The tokenizer is borrowed and must outlive the memo. ERR_NOMEM.
enum err memo_create(const struct tokenizer *t, int capacity_tokens, struct memo **out) ERR_MUST_CHECK;
// Accepts null.
void memo_destroy(struct memo *m);

// Goes to the end of tokens[n] (copied; n ≤ capacity_tokens).
void memo_go(struct memo *m, const token_id *tokens, size_t n);
// True if the pick here under must[must_bytes] is known: *token is what the decoder would pick, TOKEN_NONE where no token can continue.
bool memo_pick(struct memo *m, const char *must, size_t must_bytes, token_id *token);
// Remembers what the decoder picked here.
void memo_learn(struct memo *m, const char *must, size_t must_bytes, token_id token);
// Goes one token on. Past capacity_tokens nothing is known and nothing is learned.
void memo_step(struct memo *m, token_id token);

// Walks the structure: ERR_STATE if a node is lost, shared or in a loop. For tests.
enum err memo_check(const struct memo *m) ERR_MUST_CHECK;

#endif
