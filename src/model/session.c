// SPDX-License-Identifier: MIT
// One timeline of tokens: which prefix is kept, which blocks hold it, and chunk by chunk the rest.
//
// With `share` every evaluated block is published in the store's tree at once, and a timeline that leaves its blocks only drops its
// pins: the branch stays there until the budget needs it, so coming back to it (undo, another file) evaluates nothing.
//
// Invariants: tokens[0..n) are evaluated; their keys and values lie in blocks[0..n_blocks), n_blocks = ceil(n/32) between calls, each
// pinned once by this session and, with `share`, published. Slots that are published are written by nobody: the tail is copied first (own_tail). The last n_guessed tokens are not
// published yet. Row i of `logits` belongs to position logits_begin + i, a row for each position from there to n, or none at all. A failed chunk leaves n where it was, so the
// timeline is always a valid prefix; slots past n hold old finite values that attention never sees.
// Threads: one caller at a time; the forward pass runs on the pool.
#include "model/session.h"

#include <assert.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "model/decoder.h"

struct session {
	const struct model *model;
	struct maskstore *store;
	int capacity_tokens, chunk_tokens;
	bool share;
	struct decoder *decoder;

	token_id *tokens;         // [capacity_tokens]
	int n_tokens;
	block_id *blocks;         // [ceil(capacity_tokens/32)]
	int n_blocks;
	int n_guessed;
	float *logits;            // [guess_of][n_vocab]
	int logits_begin, n_logits;
	const uint32_t **masks;   // [pass_of] bitmaps of the chunk at hand
	struct arena arena;       // owns the five arrays above

	const _Atomic int *stop;
	session_each_logits *each;
	void *each_user;
	session_mask *mask;
	void *mask_user;
};

struct maskstore_geometry session_geometry(const struct model *m, enum kv_type kv_type) {
	const struct model_info *i = model_info(m);
	return (struct maskstore_geometry){.n_layer = i->n_layer, .n_head_kv = i->n_head_kv, .head_dim = i->head_dim, .kv_type = kv_type};
}

static int blocks_for(int n_tokens) {
	return (n_tokens + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS;
}

static int chunk_of(const struct session_options *o) {
	int chunk = o->chunk_tokens ? o->chunk_tokens : SESSION_DEFAULT_CHUNK;
	return chunk < o->capacity_tokens ? chunk : o->capacity_tokens;
}

static int guess_of(const struct session_options *o) {
	return SESSION_MAX_GUESS < o->capacity_tokens ? SESSION_MAX_GUESS : o->capacity_tokens;
}

// Tokens of the longest pass.
static int pass_of(const struct session_options *o) {
	return chunk_of(o) > guess_of(o) ? chunk_of(o) : guess_of(o);
}

static size_t logits_bytes(const struct model *m, const struct session_options *o) {
	return (size_t)guess_of(o) * (size_t)model_info(m)->n_vocab * sizeof(float);
}

static struct decoder_options decoder_options_of(const struct session_options *o) {
	return (struct decoder_options){
		.max_tokens = pass_of(o), .capacity_tokens = o->capacity_tokens, .activation = o->activation, .store = o->store, .pool = o->pool,
	};
}

static size_t own_bytes(const struct model *m, const struct session_options *o) {
	return arena_size((size_t)o->capacity_tokens * sizeof(token_id)) + arena_size((size_t)blocks_for(o->capacity_tokens) * sizeof(block_id)) +
	       arena_size(logits_bytes(m, o)) + arena_size((size_t)pass_of(o) * sizeof(uint32_t *));
}

size_t session_scratch_bytes(const struct model *m, const struct session_options *o) {
	struct decoder_options d = decoder_options_of(o);
	return own_bytes(m, o) + decoder_bytes(m, &d);
}

static enum err check_options(const struct model *m, const struct session_options *o, struct err_msg *msg) {
	if (o->capacity_tokens < 1 || o->capacity_tokens > SESSION_MAX_TOKENS)
		return err_set(msg, ERR_ARG, "a context of %d tokens is not between 1 and %d", o->capacity_tokens, SESSION_MAX_TOKENS);
	if (o->chunk_tokens < 0 || o->chunk_tokens > SESSION_MAX_CHUNK)
		return err_set(msg, ERR_ARG, "a chunk of %d tokens is not between 1 and %d", o->chunk_tokens, SESSION_MAX_CHUNK);
	const struct maskstore_geometry *g = maskstore_geometry(o->store);
	struct maskstore_geometry need = session_geometry(m, g->kv_type);
	if (g->n_layer != need.n_layer || g->n_head_kv != need.n_head_kv || g->head_dim != need.head_dim)
		return err_set(msg, ERR_ARG, "the KV store was made for another model");
	return ERR_OK;
}

enum err session_create(const struct model *m, const struct session_options *o, struct session **out, struct err_msg *msg) {
	enum err e = check_options(m, o, msg);
	if (e != ERR_OK)
		return e;
	struct session *s = calloc(1, sizeof *s);
	if (!s)
		return err_set(msg, ERR_NOMEM, "no memory for a session");
	struct decoder_options d = decoder_options_of(o);
	s->model = m;
	s->store = o->store;
	s->capacity_tokens = o->capacity_tokens;
	s->chunk_tokens = chunk_of(o);
	s->share = o->share;
	if (arena_init(&s->arena, own_bytes(m, o)) != ERR_OK || decoder_create(m, &d, &s->decoder) != ERR_OK) {
		session_destroy(s);
		return err_set(msg, ERR_NOMEM, "no memory for %zu bytes of session scratch: lower the context size", session_scratch_bytes(m, o));
	}
	s->tokens = arena_alloc(&s->arena, (size_t)o->capacity_tokens * sizeof *s->tokens);
	s->blocks = arena_alloc(&s->arena, (size_t)blocks_for(o->capacity_tokens) * sizeof *s->blocks);
	s->logits = arena_alloc(&s->arena, logits_bytes(m, o));
	s->masks = arena_alloc(&s->arena, (size_t)pass_of(o) * sizeof *s->masks);
	assert(s->tokens && s->blocks && s->logits && s->masks);
	*out = s;
	return ERR_OK;
}

// Leaves the blocks past what n_tokens need, the last one first.
static void trim_blocks(struct session *s) {
	while (s->n_blocks > blocks_for(s->n_tokens))
		maskstore_drop(s->store, s->blocks[--s->n_blocks]);
}

static bool is_sharing(const struct session *s) {
	return s->share && !s->mask;
}

void session_destroy(struct session *s) {
	if (!s)
		return;
	s->n_tokens = 0;
	trim_blocks(s);
	decoder_destroy(s->decoder);
	arena_finish(&s->arena);
	free(s);
}

static enum err reserve_blocks(struct session *s, int n_tokens, struct err_msg *msg) {
	while (s->n_blocks < blocks_for(n_tokens)) {
		if (maskstore_alloc(s->store, &s->blocks[s->n_blocks]) != ERR_OK)
			return err_set(msg, ERR_NOMEM, "the KV budget is used up at %d tokens: raise it or shorten the context", s->n_blocks * KV_BLOCK_TOKENS);
		s->n_blocks++;
	}
	return ERR_OK;
}

// Makes the slots from n_tokens on the session's own: a published tail that goes on differently is copied.
static enum err own_tail(struct session *s, struct err_msg *msg) {
	int slot = s->n_tokens % KV_BLOCK_TOKENS;
	if (slot == 0)
		return ERR_OK;
	block_id *tail = &s->blocks[s->n_tokens / KV_BLOCK_TOKENS], copy;
	if (maskstore_is_writable(s->store, *tail, slot))
		return ERR_OK;
	if (maskstore_copy(s->store, *tail, &copy) != ERR_OK)
		return err_set(msg, ERR_NOMEM, "the KV budget is used up at %d tokens: raise it or shorten the context", s->n_tokens);
	maskstore_drop(s->store, *tail);
	*tail = copy;
	return ERR_OK;
}

// Tells the store which tokens the blocks of [first, n_tokens) hold.
static void publish(struct session *s, int first) {
	for (int b = first / KV_BLOCK_TOKENS; b < blocks_for(s->n_tokens); b++) {
		int begin = b * KV_BLOCK_TOKENS, n = s->n_tokens - begin < KV_BLOCK_TOKENS ? s->n_tokens - begin : KV_BLOCK_TOKENS;
		maskstore_publish(s->store, &s->blocks[b], b ? s->blocks[b - 1] : BLOCK_NONE, s->tokens + begin, n);
	}
}

// What is left of a guess is meant.
static void settle(struct session *s) {
	if (s->n_guessed && is_sharing(s))
		publish(s, s->n_tokens - s->n_guessed);
	s->n_guessed = 0;
}

static int at_least_0(int n) {
	return n > 0 ? n : 0;
}

void session_rewind(struct session *s, size_t n) {
	assert(n <= (size_t)s->n_tokens);
	s->n_guessed = at_least_0(s->n_guessed - (s->n_tokens - (int)n));
	s->n_logits = at_least_0(s->n_logits - (s->n_tokens - (int)n));
	s->n_tokens = (int)n;
	trim_blocks(s);
	settle(s);
}

// Asks for the bitmaps of the chunk at the end of the timeline.
static enum err collect_masks(struct session *s, int n, struct err_msg *msg) {
	for (int t = 0; t < n; t++) {
		size_t pos = (size_t)(s->n_tokens + t);
		s->masks[t] = s->mask(s->mask_user, pos);
		if (s->masks[t] && !(s->masks[t][pos / 32] >> (pos % 32) & 1u))
			return err_set(msg, ERR_ARG, "the mask hides position %zu from itself", pos);
	}
	return ERR_OK;
}

// Evaluates tokens[n] at the end of the timeline, which holds no guess; n ≤ chunk_tokens. Logits are wanted of the last n_logits of them.
static enum err evaluate_chunk(struct session *s, const token_id *tokens, int n, int n_logits, const _Atomic int *cancel, struct err_msg *msg) {
	enum err e = own_tail(s, msg);
	if (e == ERR_OK)
		e = reserve_blocks(s, s->n_tokens + n, msg);
	if (e == ERR_OK && s->mask)
		e = collect_masks(s, n, msg);
	if (e != ERR_OK)
		return e;
	s->n_logits = 0;
	e = decoder_forward(s->decoder, &(struct decoder_chunk){
		.tokens = tokens, .n_tokens = n, .first_pos = s->n_tokens, .blocks = s->blocks, .masks = s->mask ? s->masks : NULL,
		.logits = s->logits, .n_logits = n_logits || !s->each ? n_logits : 1, .each = n_logits > 1 ? NULL : s->each, .each_user = s->each_user,
		.cancel = cancel,
	});
	if (e != ERR_OK)
		return err_set(msg, e, "cancelled");
	memmove(s->tokens + s->n_tokens, tokens, (size_t)n * sizeof *tokens);
	s->n_tokens += n;
	s->n_logits = n_logits;
	s->logits_begin = s->n_tokens - n_logits;
	s->n_guessed = n;
	return ERR_OK;
}

// Evaluates tokens[n_tokens of the timeline … n) chunk by chunk.
static enum err evaluate_rest(struct session *s, const token_id *tokens, int n, const _Atomic int *cancel, struct err_msg *msg) {
	enum err e = ERR_OK;
	while (e == ERR_OK && s->n_tokens < n) {
		int rest = n - s->n_tokens;
		int chunk = rest < s->chunk_tokens ? rest : s->chunk_tokens;
		e = evaluate_chunk(s, tokens + s->n_tokens, chunk, chunk == rest, cancel, msg);
		settle(s);
		if (e == ERR_OK && s->n_tokens < n && s->stop && atomic_load_explicit(s->stop, memory_order_relaxed))
			e = err_set(msg, ERR_CANCELLED, "stopped between chunks");
	}
	trim_blocks(s);
	return e;
}

static enum err check_tokens(const struct session *s, const token_id *tokens, size_t n, struct err_msg *msg) {
	int n_vocab = model_info(s->model)->n_vocab;
	for (size_t i = 0; i < n; i++)
		if (tokens[i] < 0 || tokens[i] >= n_vocab)
			return err_set(msg, ERR_ARG, "token %d is outside the vocabulary of %d", (int)tokens[i], n_vocab);
	return ERR_OK;
}

static int common_prefix(const struct session *s, const token_id *tokens, int n) {
	int max = n < s->n_tokens ? n : s->n_tokens;
	int i = 0;
	while (i < max && s->tokens[i] == tokens[i])
		i++;
	return i;
}

// The timeline's last full block within its first n tokens.
static block_id block_before(const struct session *s, int n) {
	return n >= KV_BLOCK_TOKENS ? s->blocks[n / KV_BLOCK_TOKENS - 1] : BLOCK_NONE;
}

static int block_floor(int n) {
	return n / KV_BLOCK_TOKENS * KV_BLOCK_TOKENS;
}

// The timeline becomes tokens[n], whose blocks are pinned in s->blocks.
static void extend_to(struct session *s, const token_id *tokens, int n) {
	memmove(s->tokens + s->n_tokens, tokens + s->n_tokens, (size_t)(n - s->n_tokens) * sizeof *tokens);
	s->n_tokens = n;
	s->n_blocks = blocks_for(n);
	s->n_logits = 0;
}

// Goes over to the branch of the store's tree, or its archive, that shares more of tokens[n] than the timeline does with its first `hit`.
// Returns the new hit.
static int adopt(struct session *s, const token_id *tokens, int n, int hit, const _Atomic int *cancel, struct session_sync_result *from) {
	int begin = block_floor(hit);
	block_id parent = block_before(s, begin);
	if (begin + maskstore_probe(s->store, parent, tokens + begin, n - begin) <= hit)
		return hit;
	session_rewind(s, (size_t)begin);
	int found = maskstore_find(s->store, parent, tokens + begin, n - begin, s->blocks + begin / KV_BLOCK_TOKENS);
	from->tree_tokens = begin + found - hit > 0 ? begin + found - hit : 0;
	extend_to(s, tokens, begin + found);
	begin = block_floor(s->n_tokens);
	if (begin + KV_BLOCK_TOKENS > n)
		return s->n_tokens;
	block_id tail = begin < s->n_tokens ? s->blocks[begin / KV_BLOCK_TOKENS] : BLOCK_NONE; // matches in part: replaced if a whole one comes
	int restored = maskstore_restore(s->store, block_before(s, begin), tokens + begin, n - begin, s->blocks + begin / KV_BLOCK_TOKENS, cancel);
	if (!restored && tail != BLOCK_NONE)
		s->blocks[begin / KV_BLOCK_TOKENS] = tail;
	if (!restored)
		return s->n_tokens;
	if (tail != BLOCK_NONE)
		maskstore_drop(s->store, tail);
	s->n_tokens = begin;
	extend_to(s, tokens, begin + restored);
	from->restored_tokens = restored;
	return s->n_tokens;
}

size_t session_probe(const struct session *s, const token_id *tokens, size_t n) {
	if (n > (size_t)s->capacity_tokens)
		n = (size_t)s->capacity_tokens;
	int hit = common_prefix(s, tokens, (int)n);
	if (!is_sharing(s))
		return (size_t)hit;
	int n_published = s->n_tokens - s->n_guessed;
	int begin = block_floor(hit < n_published ? hit : n_published), found = begin + maskstore_probe(s->store, block_before(s, begin), tokens + begin, (int)n - begin);
	return (size_t)(found > hit ? found : hit);
}

enum err session_sync(struct session *s, const token_id *tokens, size_t n, const _Atomic int *cancel, struct session_sync_result *result,
                      struct err_msg *msg) {
	if (n < 1 || n > (size_t)s->capacity_tokens)
		return err_set(msg, ERR_ARG, "%zu tokens do not fit a context of %d", n, s->capacity_tokens);
	enum err e = check_tokens(s, tokens, n, msg);
	if (e != ERR_OK)
		return e;
	int hit = common_prefix(s, tokens, (int)n);
	struct session_sync_result from = {0};
	int n_sure = s->n_tokens - s->n_guessed;
	if (s->n_guessed)
		session_rewind(s, (size_t)(hit > n_sure ? hit : n_sure));
	if (is_sharing(s) && hit < (int)n)
		hit = adopt(s, tokens, (int)n, hit, cancel, &from);
	if (hit == (int)n && !session_logits_after(s, n))
		hit--; // the last token again, for its logits
	session_rewind(s, (size_t)hit);
	e = evaluate_rest(s, tokens, (int)n, cancel, msg);
	if (result)
		*result = (struct session_sync_result){.hit_tokens = hit, .tree_tokens = from.tree_tokens, .restored_tokens = from.restored_tokens, .new_tokens = s->n_tokens - hit};
	return e;
}

enum err session_step(struct session *s, token_id token, const _Atomic int *cancel, struct err_msg *msg) {
	if (s->n_tokens == s->capacity_tokens)
		return err_set(msg, ERR_ARG, "the context of %d tokens is full", s->capacity_tokens);
	enum err e = check_tokens(s, &token, 1, msg);
	if (e != ERR_OK)
		return e;
	settle(s);
	e = evaluate_chunk(s, &token, 1, 1, cancel, msg);
	settle(s);
	trim_blocks(s);
	return e;
}

enum err session_guess(struct session *s, const token_id *tokens, size_t n, const _Atomic int *cancel, struct err_msg *msg) {
	if (n < 1 || n > SESSION_MAX_GUESS || n > (size_t)(s->capacity_tokens - s->n_tokens))
		return err_set(msg, ERR_ARG, "a guess of %zu tokens does not fit a context of %d", n, s->capacity_tokens);
	enum err e = check_tokens(s, tokens, n, msg);
	if (e != ERR_OK)
		return e;
	settle(s);
	e = evaluate_chunk(s, tokens, (int)n, (int)n, cancel, msg);
	trim_blocks(s);
	return e;
}

int session_archive(struct session *s, bool to_disk) {
	int n_left = 0;
	settle(s);
	for (int b = 0; is_sharing(s) && b < s->n_tokens / KV_BLOCK_TOKENS; b++)
		n_left += !maskstore_archive(s->store, s->blocks[b], to_disk);
	return n_left;
}

// Evaluates the tokens of block b into `fresh`, as a chunk or several.
static enum err evaluate_again(struct session *s, int b, block_id fresh, const _Atomic int *cancel) {
	block_id kept = s->blocks[b];
	int begin = b * KV_BLOCK_TOKENS, n = s->chunk_tokens < KV_BLOCK_TOKENS ? s->chunk_tokens : KV_BLOCK_TOKENS;
	enum err e = ERR_OK;
	s->blocks[b] = fresh;
	for (int at = 0; e == ERR_OK && at < KV_BLOCK_TOKENS; at += n) {
		int rest = KV_BLOCK_TOKENS - at < n ? KV_BLOCK_TOKENS - at : n;
		e = decoder_forward(s->decoder, &(struct decoder_chunk){.tokens = s->tokens + begin + at, .n_tokens = rest, .first_pos = begin + at,
		                                                        .blocks = s->blocks, .cancel = cancel});
	}
	s->blocks[b] = kept;
	return e;
}

enum session_verdict session_verify(struct session *s, unsigned i, const _Atomic int *cancel) {
	int n_full = s->n_tokens / KV_BLOCK_TOKENS;
	block_id fresh;
	settle(s);
	if (!is_sharing(s) || !n_full || maskstore_alloc(s->store, &fresh) != ERR_OK)
		return VERDICT_NONE;
	int b = (int)(i % (unsigned)n_full);
	enum session_verdict verdict = VERDICT_NONE;
	if (evaluate_again(s, b, fresh, cancel) == ERR_OK)
		verdict = maskstore_is_equal(s->store, fresh, s->blocks[b]) ? VERDICT_SAME : VERDICT_DIFFERENT;
	maskstore_drop(s->store, fresh);
	if (verdict != VERDICT_DIFFERENT)
		return verdict;
	maskstore_condemn(s->store, s->blocks[b]);
	session_rewind(s, (size_t)(b * KV_BLOCK_TOKENS));
	return verdict;
}

const float *session_logits(const struct session *s) {
	return session_logits_after(s, (size_t)s->n_tokens);
}

const float *session_logits_after(const struct session *s, size_t n) {
	size_t first = (size_t)s->logits_begin + 1;
	bool held = n >= first && n < first + (size_t)s->n_logits;
	return held ? s->logits + (n - first) * (size_t)model_info(s->model)->n_vocab : NULL;
}

void session_set_stop(struct session *s, const _Atomic int *stop) {
	s->stop = stop;
}

void session_set_each(struct session *s, session_each_logits *each, void *user) {
	s->each = each;
	s->each_user = user;
}

const token_id *session_tokens(const struct session *s, size_t *n) {
	*n = (size_t)s->n_tokens;
	return s->tokens;
}

void session_set_mask(struct session *s, session_mask *mask, void *user) {
	s->mask = mask;
	s->mask_user = user;
}
