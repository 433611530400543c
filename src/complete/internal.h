// SPDX-License-Identifier: MIT
// Private to the complete room: what the steps of one request share (complete.c lays them in order).
#ifndef MASKSTORE_COMPLETE_INTERNAL_H
#define MASKSTORE_COMPLETE_INTERNAL_H

#include "base/buf.h"
#include "base/pool.h"
#include "complete/complete.h"
#include "complete/deadline.h"
#include "complete/draft.h"
#include "complete/memo.h"
#include "complete/pace.h"
#include "complete/pieces.h"

struct completer {
	struct engine_options options; // model_path and cache_dir are not kept
	struct parser_worker *parser;  // borrowed
	struct model *model;
	struct pool *pool;
	struct maskstore *store;
	struct session *session;
	struct memo *memo;
	struct draft *draft; // null: no speculation
	struct pieces *pieces;
	struct deadline *deadline;
	struct rest *rest; // store.c's
	struct err_msg notice; // what the person should know of how it was created; empty: nothing
	struct pace pace;            // of prefill
	int window_tokens;           // of the windows since the last whole prompt: their cut must stand still; 0: none
	int n_lost;                  // prefills in a row that were cancelled before anything was kept of them
	int background_tokens;       // evaluated by fills since the last request
	struct token_list last;      // the last request's prompt, if it was whole
	int context_tokens;
};

// What one run passes from step to step; lives on complete_run's stack.
struct run {
	struct completer *c;
	const struct complete_request *request;
	_Atomic int *cancel;
	int64_t soft_us;      // from this time on a block ends with its line; 0: never
	struct complete_result *out;
	struct prompt prompt;
	struct token_list tokens; // the prompt's, then those generated
	size_t n_evaluated;   // of these, that the session holds, with logits behind the last; 0 before the decoder was asked
	size_t n_held;        // with those that it has read on trial; 0: none
	struct buf text;      // generated behind the cursor, healed bytes left out
	int max_new_tokens;
};

// --- context.c

// Tokens of prompt and answer together.
int completer_context_tokens(const struct model *m, const struct engine_options *o);
// The prompt at a cursor as complete_prompt gives it; window_tokens > 0: within so many.
enum err context_prompt(struct completer *c, struct snapshot *s, size_t offset, int window_tokens, const _Atomic int *cancel, struct prompt *out,
                        struct err_msg *msg) ERR_MUST_CHECK;
// A prompt's ids, in the place of what `out` holds. ERR_NOMEM, ERR_LIMIT.
enum err context_encode(struct completer *c, const struct prompt *p, struct token_list *out, struct err_msg *msg) ERR_MUST_CHECK;
// The ids of the whole prompt at a cursor, of the file as one prefix, of the file as far as a jump from the cursor may go, or a little way; without waiting for syntax, which
// decides no token. Errors as above.
enum context_kind { CONTEXT_PROMPT, CONTEXT_FILE, CONTEXT_AROUND, CONTEXT_NEAR };
enum err context_tokens(struct completer *c, struct snapshot *s, size_t offset, enum context_kind kind, struct token_list *out) ERR_MUST_CHECK;

// Goes back to the last request's timeline after a fill has left it, if nothing but its last token must be evaluated. True if it did.
bool context_return(struct completer *c, const _Atomic int *cancel);

// --- generate.c

// Greedy decoding behind the run's tokens until a stop rule speaks; the text is cut to what the rule keeps. What the memo knows is not
// computed: the prompt is evaluated only when a pick is unknown. Fills counts, phases.prefill, ttft_us, stop and origin. ERR_CANCELLED,
// ERR_NOMEM; the text made so far stays.
enum err generate(struct run *r, struct err_msg *msg) ERR_MUST_CHECK;

// --- store.c

// Creates store and session, and opens the archive if the model's hash is known. Wants model, pool and context_tokens; store_close undoes it, also half-way.
enum err store_open(struct completer *c, const char *model_path, struct err_msg *msg) ERR_MUST_CHECK;
void store_close(struct completer *c);

#endif
