// SPDX-License-Identifier: MIT
// The forward pass: token ids and KV blocks in, logits out. Private to the model room.
//
// A decoder owns scratch for one forward pass at a time over at most `max_tokens` tokens (a chunk). It knows positions and block
// tables, but neither timelines nor reuse: those are session.c's.
#ifndef MASKSTORE_MODEL_DECODER_H
#define MASKSTORE_MODEL_DECODER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/pool.h"
#include "maskstore/maskstore.h"
#include "model/model.h"
#include "model/session.h"

struct decoder;

struct decoder_options {
	int max_tokens;             // of one call
	int capacity_tokens;        // positions are below this
	enum activation activation;
	struct maskstore *store;    // borrowed
	struct pool *pool;          // borrowed
};

// One chunk: tokens[n_tokens] at positions first_pos, first_pos + 1, …; keys and values of all earlier positions lie in `blocks`.
struct decoder_chunk {
	const token_id *tokens;         // [n_tokens], ids within the vocabulary
	int n_tokens;                   // 1..max_tokens
	int first_pos;
	const block_id *blocks;         // [(first_pos + n_tokens + 31) / 32], pinned; slots of the chunk's positions are written
	const uint32_t *const *masks;   // null, or [n_tokens] as attention_args.mask
	float *logits;                  // [n_logits][n_vocab] of the last n_logits tokens
	int n_logits;                   // 0..n_tokens; with `each` at least 1
	session_each_logits *each;      // if not null, called with the logits of every position, using `logits` as the buffer
	void *each_user;
	const _Atomic int *cancel;      // may be null; once non-zero it stays so until the call returns
};

// Bytes that decoder_create allocates. Pure.
size_t decoder_bytes(const struct model *m, const struct decoder_options *o);
// ERR_NOMEM. The model, store and pool must outlive the decoder.
enum err decoder_create(const struct model *m, const struct decoder_options *o, struct decoder **out) ERR_MUST_CHECK;
// Accepts null.
void decoder_destroy(struct decoder *d);

// Evaluates a chunk. ERR_CANCELLED: the chunk's slots in the blocks hold finite rubbish, logits are unspecified. Same bits for any
// chunking and number of threads.
enum err decoder_forward(struct decoder *d, const struct decoder_chunk *c) ERR_MUST_CHECK;

#endif
