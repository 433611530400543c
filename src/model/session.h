// SPDX-License-Identifier: MIT
// A session: one token timeline on a shared model. Owns KV blocks of a mask store, logits and scratch.
//
// One call takes the whole token list (session_sync), keeps the longest common prefix with what is already evaluated, takes what follows from
// the store if it is there (other branches, other sessions; options.share), evaluates the rest, and says how much was reused.
// Single-threaded: one caller at a time; kernels run on the pool.
//
// Determinism: the same tokens give the same logits, bit for bit, whatever was reused, at any number of threads, any chunk size
// and any kernel set (kernels.h, ARITHMETIC).
//
// Cancellation: `cancel` may be set to non-zero by any thread at any time; every worker reads it at least every 2 ms of its own
// work. The call then returns ERR_CANCELLED and the session holds a valid shorter prefix (whole chunks already evaluated).
#ifndef MASKSTORE_MODEL_SESSION_H
#define MASKSTORE_MODEL_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/pool.h"
#include "maskstore/maskstore.h"
#include "model/model.h"

struct session;

enum activation { ACTIVATION_Q8 = 0, ACTIVATION_F32 = 1 };

struct session_options {
	int capacity_tokens;        // longest timeline, ≤ SESSION_MAX_TOKENS
	int chunk_tokens;           // prefill chunk, 1..SESSION_MAX_CHUNK; 0: the default
	enum activation activation; // F32 is the reference mode
	struct maskstore *store;    // borrowed, must outlive the session; its geometry fits the model
	struct pool *pool;          // borrowed, must outlive the session; one session at a time uses it
	bool share;                 // publish blocks in the store's tree and look there; all sharing sessions of a store have the same model and
	                            // activation (the caller's duty). Off while a custom mask is set
};
#define SESSION_MAX_TOKENS (1 << 20)
#define SESSION_MAX_CHUNK 1024
#define SESSION_DEFAULT_CHUNK 256
#define SESSION_MAX_GUESS 8 // a pass of so many tokens still costs less than two of one; its logits take 5 MB where 152,000 tokens are known

struct session_sync_result {
	int hit_tokens;      // taken from what was there: this timeline, the store, its archive
	int tree_tokens;     // of these, from another branch of the store's tree
	int restored_tokens; // of these, from the archive
	int new_tokens;      // evaluated in this call
};

// Geometry of the store that sessions of `m` need. Pure.
struct maskstore_geometry session_geometry(const struct model *m, enum kv_type kv_type);
// Bytes that session_create will allocate beside KV blocks. Pure.
size_t session_scratch_bytes(const struct model *m, const struct session_options *o);

// ERR_ARG (options out of range), ERR_NOMEM.
enum err session_create(const struct model *m, const struct session_options *o, struct session **out, struct err_msg *msg) ERR_MUST_CHECK;
// Releases and frees its blocks. Accepts null.
void session_destroy(struct session *s);

// Makes the timeline equal to tokens[n] (1 ≤ n ≤ capacity), with logits valid for the last of them: at least the last token is
// evaluated unless the timeline already equals it with valid logits. On ERR_CANCELLED and ERR_NOMEM (store budget) the
// timeline is a valid prefix of tokens; ERR_ARG (n, an id out of range) changes nothing. `result` (may be null) is also filled
// on ERR_CANCELLED. `cancel` may be null.
enum err session_sync(struct session *s, const token_id *tokens, size_t n, const _Atomic int *cancel,
                      struct session_sync_result *result, struct err_msg *msg) ERR_MUST_CHECK;

// How many of tokens[n] a session_sync would take from what is there. Changes nothing.
size_t session_probe(const struct session *s, const token_id *tokens, size_t n);

// A softer `cancel` for the next session_sync calls (null: none): looked at behind each chunk but the last, so that a call always gets on. Borrowed until the
// next session_set_stop.
void session_set_stop(struct session *s, const _Atomic int *stop);

// Hands the timeline's full blocks to the store's archive (no effect without one). Returns how many are still to come: the archive takes as
// much as its queue holds.
int session_archive(struct session *s, bool to_disk);

enum session_verdict { VERDICT_NONE = 0, VERDICT_SAME, VERDICT_DIFFERENT };
// Computes one full block of the timeline again, the `i`th modulo their number, and compares its bytes. DIFFERENT: memory or disk has corrupted
// it; it and all that follow it are condemned in the store, and the timeline is cut before it. NONE: there is no full block, or it was cancelled, or no
// block was free. Only with `share`.
enum session_verdict session_verify(struct session *s, unsigned i, const _Atomic int *cancel);

// Appends one token and evaluates it. Errors as session_sync.
enum err session_step(struct session *s, token_id token, const _Atomic int *cancel, struct err_msg *msg) ERR_MUST_CHECK;

// Appends tokens[n] (1..SESSION_MAX_GUESS) that may turn out wrong and evaluates them in one pass, with logits behind each (session_logits_after): the same bits
// as n steps. What is wrong is taken back by session_rewind, without evaluating anything. With `share` nothing of it is published before the next
// call that changes the session; session_sync drops what of it is not wanted, other calls take it as meant. Errors as session_step, which leave the timeline as it was.
enum err session_guess(struct session *s, const token_id *tokens, size_t n, const _Atomic int *cancel, struct err_msg *msg) ERR_MUST_CHECK;

// Shortens the timeline to its first n tokens (n ≤ length). Logits become invalid unless n is the length or within the last session_guess. Blocks are
// freed, or stay in the store for later (share).
void session_rewind(struct session *s, size_t n);

// Logits [n_vocab] after the last token, valid until the next call that changes the session; null when not valid.
const float *session_logits(const struct session *s);
// The same behind the first n tokens of the timeline, which are there for each token of the last session_guess, else for the last token only; null elsewhere.
const float *session_logits_after(const struct session *s, size_t n);

// Calls `each` with the logits of every newly evaluated position during the next session_sync calls (null: off). Slow; for oracles.
typedef void session_each_logits(void *user, size_t position, const float *logits /*[n_vocab]*/);
void session_set_each(struct session *s, session_each_logits *each, void *user);

// The timeline: ids borrowed until the next change.
const token_id *session_tokens(const struct session *s, size_t *n);

// A custom mask: one bitmap per query position (bit p of words: position p visible; the own position must be, else
// session_sync returns ERR_ARG), asked for position by position: the callback returns a bitmap of (position/32 + 1)
// words valid during the call, or null for plain causal.
// Applies to positions evaluated from now on; changes require session_rewind(0). Padding masks are such masks.
typedef const uint32_t *session_mask(void *user, size_t position);
void session_set_mask(struct session *s, session_mask *mask, void *user);

#endif
