// SPDX-License-Identifier: MIT
// Choosing the next token: greedy, or seeded sampling with temperature, top-k and top-p; optionally constrained to
// continue given bytes (token healing).
#ifndef MASKSTORE_MODEL_SAMPLER_H
#define MASKSTORE_MODEL_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "kernels/kernels.h"
#include "model/tokenizer.h"

struct sampler_options {
	float temperature; // 0: greedy
	int top_k;         // 0: all
	float top_p;       // 1: all
	uint64_t seed;     // same seed, same logits, same choices on every machine
};

struct sampler {
	struct sampler_options options;
	uint64_t state[2];   // of the generator
	struct sampler_slot { float p; token_id id; } *slots; // [n_vocab], owned; null while greedy
	int n_vocab;
};

// ERR_NOMEM; ERR_ARG for a negative temperature, top_p outside (0, 1].
enum err sampler_init(struct sampler *s, const struct sampler_options *o, int n_vocab, struct err_msg *msg) ERR_MUST_CHECK;
void sampler_finish(struct sampler *s);

// The next token by the options. logits[n_vocab].
token_id sampler_pick(struct sampler *s, const struct kernels *k, const float *logits);

// The best token (greedy) whose bytes are a non-empty prefix of `must`, or start with `must`; special tokens never match.
// TOKEN_NONE if no token can continue (cannot happen with a byte-complete vocabulary). must_bytes ≥ 1.
token_id sampler_pick_healed(const struct tokenizer *t, const float *logits, const char *must, size_t must_bytes);

// log(sum(exp(logits))) in double, for log-probabilities; O(n_vocab).
double sampler_logsumexp(const float *logits, int n_vocab);
// The two best ids, ties to the lower id. n_vocab ≥ 2.
void sampler_top2(const float *logits, int n_vocab, token_id *first, token_id *second);

#endif
