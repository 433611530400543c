// SPDX-License-Identifier: MIT
// Guesses at the tokens to come: what followed the last tokens where they stood before, in this prompt and answer, in earlier answers, and in the prompts of
// other files. Private to the complete room.
//
// generate.c evaluates a guess together with the token at hand in one pass, which reads the weights once (session_guess), and keeps what the decoder picks itself:
// a draft never decides a token. How many tokens are worth a pass follows from two things that are measured as decoding goes on: how often such a guess
// was right, by the length of the match, and what a pass of so many tokens takes beside a pass of one.
// The idea is prompt lookup decoding (Saxena 2023) with the longest match of a suffix index; the rule for the length is the expected number of tokens a unit of time.
//
// Memory is allocated at creation only. One thread at a time.
#ifndef MASKSTORE_COMPLETE_DRAFT_H
#define MASKSTORE_COMPLETE_DRAFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/tokenizer.h"

#define DRAFT_MAX_TOKENS 7 // one less than SESSION_MAX_GUESS

struct draft;

// For timelines of at most capacity_tokens. The tokenizer is borrowed and must outlive the draft. `always`: all that can be proposed is worth it. ERR_NOMEM.
enum err draft_create(const struct tokenizer *t, int capacity_tokens, bool always, struct draft **out) ERR_MUST_CHECK;
// Accepts null.
void draft_destroy(struct draft *d);

// Goes to the end of tokens[n] (n ≤ capacity_tokens), of which n_prompt are a prompt and the rest picked behind it. Where the timeline only goes on from the last call
// this costs a comparison and a step a token, and what was proposed then is compared with what came; else what changed is indexed again.
void draft_go(struct draft *d, const token_id *tokens, size_t n_prompt, size_t n);
// Proposes up to `max` ≤ DRAFT_MAX_TOKENS tokens to follow, and returns how many are worth evaluating with the token before them: 0 for none. `one_line`: nothing from the
// first token with a line end on. Special tokens are never proposed.
int draft_propose(struct draft *d, bool one_line, int max, token_id *out /*[max]*/);
// A pass of n_tokens (1..DRAFT_MAX_TOKENS + 1) took so long.
void draft_measure(struct draft *d, int n_tokens, int64_t us);

// Walks the index: ERR_STATE if a token is missing from it, or something that is gone is in it. For tests.
enum err draft_check(const struct draft *d) ERR_MUST_CHECK;

#endif
