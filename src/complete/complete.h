// SPDX-License-Identifier: MIT
// The spine: from a request (snapshot, cursor) to a suggestion. complete_run reads as the data flow, one call a step.
//
// Threads: an engine owns one decode thread; the loop thread submits and cancels; answers come on the decode thread through the request's callback. Snapshots
// cross threads because they are immutable. The CLI calls complete_run directly on its own thread.
#ifndef MASKSTORE_COMPLETE_COMPLETE_H
#define MASKSTORE_COMPLETE_COMPLETE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "complete/suggest.h"
#include "document/document.h"
#include "maskstore/archive.h"
#include "model/model.h"
#include "model/session.h"

// deadline_ms: 2,500 ms for automatic requests, 10 s for invoked ones.
#define DEADLINE_BY_TRIGGER (-1)

// Tokens that are easy to guess are decoded several at a time (complete/draft.h): the same text, sooner. ALWAYS: whatever it costs, for tests.
enum speculation { SPECULATE_OFF, SPECULATE_ON, SPECULATE_ALWAYS };

struct engine_options {
	const char *model_path;   // copied
	int n_threads;            // 0: all cores
	int max_context_tokens;   // prompt and answer together; cut to what the model was trained for
	int deadline_ms;          // from receipt, over everything; 0: none; DEADLINE_BY_TRIGGER
	int max_new_tokens_line;  // caps on generated tokens
	int max_new_tokens_block;
	int chunk_tokens;         // prefill chunk; 0: the session's default
	enum activation activation;
	enum kv_type kv_type;
	unsigned cpu_flags;
	enum speculation speculate;
	size_t kv_budget_bytes;   // memory for keys and values; 0: four contexts, at most a quarter of the machine's
	const char *cache_dir;    // copied; the archive is below it; null: no archive
	uint64_t archive_budget_bytes; // on disk; 0: no archive
	int prefetch_blocks;      // files that the archive reads ahead
	struct prompt_layout layout; // zeros: the defaults
	const char *strategy;     // "conservative", "balanced", "aggressive": all run exact in this version (the log says so)
};

enum complete_trigger { TRIGGER_INVOKED = 1, TRIGGER_AUTOMATIC = 2 };

enum outcome { OUTCOME_SHOWN, OUTCOME_EMPTY, OUTCOME_CANCELLED, OUTCOME_SUPERSEDED, OUTCOME_FAILED };
const char *outcome_name(enum outcome o);

// Who made the tokens of an answer: nobody, the memo alone (complete/memo.h), or the decoder for some or all of them.
enum answer_origin { ORIGIN_NONE, ORIGIN_MEMO, ORIGIN_DECODER };
const char *origin_name(enum answer_origin o);

struct complete_phases_us {
	int64_t queue, load, prompt, tokenize, prefill, decode, finish;
};

struct completer_stats {
	struct maskstore_stats store;
	struct archive_stats archive; // zeros without one
	uint64_t n_verified, n_healed; // blocks computed again; of these, different
};

struct complete_result {
	enum outcome outcome;
	enum err err;            // for OUTCOME_FAILED
	struct err_msg msg;
	struct suggestion suggestion; // valid for OUTCOME_SHOWN; text uses the document's line ends
	enum stop_reason stop;
	int64_t ttft_us;         // from receipt to the first generated token, or to the end where none was made
	int64_t total_us;        // from receipt to the end of finish
	struct complete_phases_us phases;
	// Of the prompt's tokens, `hit` needed no evaluation and `new` were evaluated (in a request that ended early the rest is neither); `generated` are the
	// answer's, from the memo or the decoder; `evaluated` is the decoder's whole work: new ones and those generated that it had to read.
	int prompt_tokens, hit_tokens, new_tokens, generated_tokens, evaluated_tokens;
	// Of the decoder's passes behind the prompt: how many, drafted tokens that they evaluated on trial, and how many of these became the answer's.
	int decode_passes, draft_proposed, draft_accepted;
	// Of `hit`: from another branch of the store's tree, and from its archive; the rest was this timeline's.
	int tree_tokens, restored_tokens;
	struct completer_stats stats; // at the end of the request
	enum answer_origin origin;
	int64_t cancel_idle_us;  // from a cancel or a newer request to the decode thread's being free; 0 if it ran to its end
	int64_t background_stop_us; // that work in the background took to stop for it; 0 if there was none
	bool cancelled_softly;   // it was let finish a chunk or a token
	bool window;             // a short window stood in for the whole prompt
	int background_tokens;   // evaluated between the request before this one and it, for nobody in particular
};
void complete_result_finish(struct complete_result *r);

struct complete_request {
	struct snapshot *snapshot;   // borrowed during complete_run
	size_t offset;               // cursor, bytes
	enum complete_trigger trigger;
	uint64_t document;           // > 0: its keys and values are prepared when the request is done (engine_fill)
	bool may_archive;            // keys and values of this document may be written to disk, as far as is known now
	int64_t received_us;         // clock_us at receipt
	_Atomic int *cancel;         // enum complete_cancel, may be null; complete_run itself sets CANCEL_DEADLINE at the deadline
	const _Atomic int *stop;     // may be null; once non-zero the request ends as superseded at the next boundary of a prefill chunk or a token
	token_id *exact;             // for measurements, may be null: [n_exact] gets the ids of so many tokens (at most max_new_tokens_block), whatever stop rules say; an
	int n_exact;                 // end token counts as any other
};

// Values of a request's cancel flag: 0 while it should run.
enum complete_cancel { CANCEL_NONE = 0, CANCEL_CLIENT = 1, CANCEL_SUPERSEDED = 2, CANCEL_DEADLINE = 3 };

// The prompt at byte `offset` of a snapshot, as complete_run builds it; waits for the syntax tree of exactly this snapshot. Any thread. `cancel` may
// be null. On success *out is finished by the caller. ERR_CANCELLED, ERR_NOMEM: *out untouched.
enum err complete_prompt(const struct model *m, const struct engine_options *options, struct parser_worker *parser, struct snapshot *s,
                         size_t offset, const _Atomic int *cancel, struct prompt *out, struct err_msg *msg) ERR_MUST_CHECK;

struct completer; // model + store + session + pool: what complete_run needs. One thread at a time.

// Loads the model and allocates KV (lazily touched). Errors as model_open, with a message for the person. May take seconds.
enum err completer_create(const struct engine_options *o, struct parser_worker *parser, struct completer **out, struct err_msg *msg) ERR_MUST_CHECK;
void completer_destroy(struct completer *c);
// What the person should know, such as a context cut to the memory; "" if nothing.
const char *completer_notice(const struct completer *c);
// Another layout of the prompts from now on (copied), for comparisons. What was remembered stays: it is known by tokens.
void completer_set_layout(struct completer *c, const struct prompt_layout *l);
const struct model *completer_model(const struct completer *c);
struct session *completer_session(struct completer *c);
// The session's store and the pool its kernels run on: for benches, between two calls of the session.
struct maskstore *completer_store(struct completer *c);
struct pool *completer_pool(struct completer *c);

// Runs one request to its end on this thread. Never fails without filling `out` (outcome and message). out is overwritten.
void complete_run(struct completer *c, const struct complete_request *r, struct complete_result *out);

// What is done while nobody waits, for the timeline at hand and that of the last request: the model file's hash in slices, the archive, the timeline at rest into the archive (`may_archive`: the document
// that it came from may be written to disk), now and then a block computed again and compared. Ends soon after *cancel becomes non-zero.
void completer_rest(struct completer *c, bool may_archive, const _Atomic int *cancel);

void completer_stats(struct completer *c, struct completer_stats *out);

// --- engine: a queue and the decode thread

struct engine;
// Called exactly once per submitted request: on the decode thread, or, for requests that leave the queue because of engine_submit, engine_cancel or
// engine_destroy, on the thread that called those, before they return. `user` as given. The result is borrowed during the call. Must not call
// the engine.
typedef void engine_done(void *user, const struct complete_result *result);
// Called once on the decode thread when loading ends (err ERR_OK or the reason). With ERR_OK `msg` is empty or what the person should know.
typedef void engine_loaded(void *user, enum err err, const struct err_msg *msg, const struct model_info *info);

// Starts the decode thread, which loads the model first. Returns at once.
enum err engine_create(const struct engine_options *o, struct parser_worker *parser, engine_loaded *loaded, void *user, struct engine **out) ERR_MUST_CHECK;
// Cancels all (each is answered as OUTCOME_CANCELLED), joins the thread. Accepts null.
void engine_destroy(struct engine *e);

// Queues a request and returns its ticket (> 0), or 0 when the queue is full or memory is out (then `done` is not called).
// `doc` identifies the document: an automatic request supersedes queued and running automatic ones of the same document
// (OUTCOME_SUPERSEDED; queued ones are answered before this returns; the running one stops within 50 ms, or, where the new one is a few
// characters off in the same 16 lines, behind the prefill chunk or token at hand, whose work the new one then finds done). Invoked requests (trigger 1) are never superseded. References of the snapshot are taken by the engine.
// While the model is loading requests wait; if loading failed they end at once as OUTCOME_FAILED.
// r->cancel is ignored: the engine has its own flag.
uint64_t engine_submit(struct engine *e, const struct complete_request *r, uint64_t doc, engine_done *done, void *user);
// Prepares a document in the background, at the lowest priority (any request stops it within 10 ms): `opened` with its whole text from start to end, else
// with the prompt at `offset`, and then with what an edit has cost of the rest. Takes the place of an earlier fill of this document; each request with a
// `document` is followed by one of itself. Takes its own reference of the snapshot. Results never depend on it.
void engine_fill(struct engine *e, struct snapshot *s, size_t offset, uint64_t document, bool opened, bool may_archive);
// Ends what is done in the background for a document (it was closed).
void engine_fill_end(struct engine *e, uint64_t document);
// Whether nothing is queued, running or waiting for its time, rest and what waits for a long pause apart. For tests and measurements.
bool engine_is_quiet(struct engine *e);
// Cancels one: a queued one is answered at once (on the decode thread or the caller's: `done` runs on the caller's thread in that
// case, before this returns), a running one stops within 50 ms. Unknown tickets are ignored. True if it was found.
bool engine_cancel(struct engine *e, uint64_t ticket);
// From now on keys and values of this document may be written to disk. Matters only for the document of the last request; later ones say it themselves.
void engine_allow_archive(struct engine *e, uint64_t document);

#endif
