// SPDX-License-Identifier: MIT
// Parsing of snapshots: a worker thread, waiting callers, and the chain that makes parses incremental.
//
// Whoever first claims a snapshot parses it: the worker when document_parse_async queued it and nobody was faster, else the caller that
// needs the tree now. A tree is a pure function of its text, which costs two things. tree-sitter's incremental parse may choose another
// repair than a fresh one when the text has syntax errors, so an incremental tree with errors is thrown away and the text is parsed afresh.
// And a parse that a timeout stopped may choose another repair after it is resumed (seen with 0.20.7), so a parse runs in one go; the cancel
// flag is polled whenever it reads READ_BYTES more of the text.
//
// Locks: worker.lock guards the queue, snapshot.lock its state, chain.lock its tree and edits; none is held while another is taken or while parsing.
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/thread.h"
#include "document/syntax.h"

#define POLL_US 2000 // a cancelled request must let go within 2 ms
#define READ_BYTES 1024 // 0.1 to 0.5 ms of parsing
#define CHAIN_MAX_EDITS 1024 // beyond this a fresh parse is as good

const TSLanguage *tree_sitter_python(void);

// --- chain

struct chain {
	atomic_uint refs;
	pthread_mutex_t lock;
	TSTree *tree;      // owned; tree of text `tree_seq`, or null
	uint64_t tree_seq;
	uint64_t base;     // edits[i] leads from text base + i to base + i + 1; base ≤ tree_seq where there is a tree
	TSInputEdit *edits; // owned [CHAIN_MAX_EDITS]
	size_t n_edits;
};

struct chain *chain_create(void) {
	struct chain *c = calloc(1, sizeof *c);
	if (!c)
		return NULL;
	c->edits = malloc(CHAIN_MAX_EDITS * sizeof *c->edits);
	if (!c->edits || pthread_mutex_init(&c->lock, NULL)) {
		free(c->edits);
		free(c);
		return NULL;
	}
	atomic_init(&c->refs, 1);
	return c;
}

struct chain *chain_ref(struct chain *c) {
	atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
	return c;
}

void chain_unref(struct chain *c) {
	if (!c || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1)
		return;
	syntax_tree_free(c->tree);
	pthread_mutex_destroy(&c->lock);
	free(c->edits);
	free(c);
}

void chain_break(struct chain *c, uint64_t seq) {
	pthread_mutex_lock(&c->lock);
	TSTree *tree = c->tree;
	c->tree = NULL;
	c->base = seq;
	c->n_edits = 0;
	pthread_mutex_unlock(&c->lock);
	syntax_tree_free(tree);
}

static TSPoint point_at(const struct snapshot *s, size_t offset) {
	uint32_t row = snapshot_line_of(s, offset);
	return (TSPoint){row, (uint32_t)(offset - snapshot_line_start(s, row))};
}

void chain_record(struct chain *c, const struct snapshot *old, const struct snapshot *now, size_t begin, size_t end, size_t new_end) {
	// Whether the parser sees a \r as a line end depends on the byte behind it.
	if (begin && snapshot_byte(old, begin - 1) == '\r')
		begin--;
	TSInputEdit e = {(uint32_t)begin, (uint32_t)end, (uint32_t)new_end, point_at(old, begin), point_at(old, end), point_at(now, new_end)};
	pthread_mutex_lock(&c->lock);
	bool fits = c->n_edits < CHAIN_MAX_EDITS && now->seq == c->base + c->n_edits + 1;
	if (fits)
		c->edits[c->n_edits++] = e;
	pthread_mutex_unlock(&c->lock);
	if (!fits)
		chain_break(c, now->seq);
}

// A copy of the chain's tree with the edits up to text `seq` applied, or null.
static TSTree *chain_take(struct chain *c, uint64_t seq) {
	TSTree *tree = NULL;
	TSInputEdit *edits = NULL;
	size_t n = 0;
	pthread_mutex_lock(&c->lock);
	if (c->tree && c->tree_seq <= seq && seq <= c->base + c->n_edits) {
		n = (size_t)(seq - c->tree_seq);
		edits = malloc((n + 1) * sizeof *edits);
		if (edits) {
			memcpy(edits, c->edits + (c->tree_seq - c->base), n * sizeof *edits);
			tree = ts_tree_copy(c->tree);
		}
	}
	pthread_mutex_unlock(&c->lock);
	for (size_t i = 0; tree && i < n; i++)
		ts_tree_edit(tree, &edits[i]);
	free(edits);
	return tree;
}

// Keeps a copy of the tree for the next parse and forgets the edits that led to it.
static void chain_put(struct chain *c, const TSTree *tree, uint64_t seq) {
	TSTree *drop = ts_tree_copy(tree);
	pthread_mutex_lock(&c->lock);
	if (seq >= c->base && seq <= c->base + c->n_edits && !(c->tree && c->tree_seq >= seq)) {
		TSTree *old = c->tree;
		size_t n = (size_t)(seq - c->base);
		memmove(c->edits, c->edits + n, (c->n_edits - n) * sizeof *c->edits);
		c->n_edits -= n;
		c->base = c->tree_seq = seq;
		c->tree = drop;
		drop = old;
	}
	pthread_mutex_unlock(&c->lock);
	syntax_tree_free(drop);
}

// --- one parse

struct reader {
	const struct snapshot *s;
	const _Atomic int *cancel;
	size_t stop;             // what the parser looks at, of its own thread
	char lines[READ_BYTES];  // a run whose bare \r became \n, which is what ends a line for the grammar
};

static bool reader_cancelled(const struct reader *r) {
	return r->cancel && atomic_load_explicit(r->cancel, memory_order_relaxed);
}

static const char *reader_read(void *payload, uint32_t offset, TSPoint at, uint32_t *n_bytes) {
	(void)at;
	struct reader *r = payload;
	if (reader_cancelled(r))
		r->stop = 1;
	size_t len;
	const char *run = snapshot_chunk_at(r->s, offset, &len);
	if (len > READ_BYTES) {
		size_t cut = snapshot_char_start(r->s, offset + READ_BYTES) - offset;
		len = cut ? cut : READ_BYTES;
	}
	*n_bytes = (uint32_t)len;
	if (!len || !r->s->chunks[snapshot_chunk_of(r->s, offset)]->bare_cr)
		return run;
	for (size_t i = 0; i < len; i++)
		r->lines[i] = run[i] == '\r' && snapshot_byte(r->s, offset + i + 1) != '\n' ? '\n' : run[i];
	return r->lines;
}

#ifdef HAVE_TS_CANCELLATION_FLAG
static TSTree *parse(TSParser *p, const TSTree *old, struct reader *r) {
	ts_parser_reset(p);
	ts_parser_set_cancellation_flag(p, &r->stop);
	TSTree *tree = ts_parser_parse(p, old, (TSInput){.payload = r, .read = reader_read, .encoding = TSInputEncodingUTF8});
	ts_parser_set_cancellation_flag(p, NULL);
	return tree;
}
#else
static bool poll_cancel(TSParseState *state) {
	return reader_cancelled(state->payload);
}

static TSTree *parse(TSParser *p, const TSTree *old, struct reader *r) {
	TSInput input = {.payload = r, .read = reader_read, .encoding = TSInputEncodingUTF8};
	ts_parser_reset(p);
	return ts_parser_parse_with_options(p, old, input, (TSParseOptions){.payload = r, .progress_callback = poll_cancel});
}
#endif

// The tree of the snapshot, or null when cancelled.
static TSTree *parse_snapshot(TSParser *p, const struct snapshot *s, const _Atomic int *cancel) {
	struct reader r = {.s = s, .cancel = cancel};
	TSTree *old = s->chain ? chain_take(s->chain, s->seq) : NULL;
	TSTree *tree = parse(p, old, &r);
	if (tree && old && ts_node_has_error(ts_tree_root_node(tree))) {
		ts_tree_delete(tree);
		tree = parse(p, NULL, &r);
	}
	syntax_tree_free(old);
	if (tree && s->chain)
		chain_put(s->chain, tree, s->seq);
	return tree;
}

// --- claims

// Ends a claim: with a tree the snapshot is done, without one anybody may try again.
static void settle(struct snapshot *s, TSTree *tree) {
	pthread_mutex_lock(&s->lock);
	s->tree = tree;
	s->state = tree ? SYNTAX_DONE : SYNTAX_NONE;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

// Waits a slice for the state to change.
static void wait_slice(struct snapshot *s) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_nsec += POLL_US * 1000;
	if (t.tv_nsec >= 1000000000) {
		t.tv_sec++;
		t.tv_nsec -= 1000000000;
	}
	pthread_cond_timedwait(&s->changed, &s->lock, &t);
}

enum err snapshot_syntax(struct snapshot *s, struct parser_worker *w, const _Atomic int *cancel, struct syntax **out) {
	(void)w; // whoever waits for the tree parses it rather than sit behind other documents in the queue
	if (!s->python)
		return ERR_UNSUPPORTED;
	bool cancelled = false;
	pthread_mutex_lock(&s->lock);
	while (s->state == SYNTAX_RUNNING && !cancelled) {
		wait_slice(s);
		cancelled = cancel && atomic_load_explicit(cancel, memory_order_relaxed);
	}
	bool mine = !cancelled && s->state != SYNTAX_DONE;
	if (mine)
		s->state = SYNTAX_RUNNING;
	pthread_mutex_unlock(&s->lock);
	if (mine) {
		TSParser *p = ts_parser_new();
		TSTree *tree = p && ts_parser_set_language(p, tree_sitter_python()) ? parse_snapshot(p, s, cancel) : NULL;
		if (p)
			ts_parser_delete(p);
		settle(s, tree);
		cancelled = !tree;
	}
	if (cancelled)
		return ERR_CANCELLED;
	return syntax_create(s, out);
}

// --- worker thread

struct parser_worker {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t work;
	struct snapshot **queue; // owned array, counted elements, oldest first
	size_t n_queue, cap_queue;
	_Atomic int stop;        // also the cancel flag of the parse in progress
	TSParser *parser;
};

// The next queued snapshot (a reference), or null when the worker is to stop.
static struct snapshot *queue_pop(struct parser_worker *w) {
	struct snapshot *s = NULL;
	pthread_mutex_lock(&w->lock);
	while (!w->n_queue && !atomic_load(&w->stop))
		pthread_cond_wait(&w->work, &w->lock);
	if (!atomic_load(&w->stop)) {
		s = w->queue[0];
		memmove(w->queue, w->queue + 1, --w->n_queue * sizeof *w->queue);
	}
	pthread_mutex_unlock(&w->lock);
	return s;
}

static void *worker_main(void *arg) {
	struct parser_worker *w = arg;
	struct snapshot *s;
	while ((s = queue_pop(w))) {
		pthread_mutex_lock(&s->lock);
		bool mine = s->state == SYNTAX_QUEUED;
		if (mine)
			s->state = SYNTAX_RUNNING;
		pthread_mutex_unlock(&s->lock);
		if (mine)
			settle(s, parse_snapshot(w->parser, s, &w->stop));
		snapshot_unref(s);
	}
	return NULL;
}

enum err parser_worker_create(struct parser_worker **out) {
	struct parser_worker *w = calloc(1, sizeof *w);
	if (!w)
		return ERR_NOMEM;
	w->parser = ts_parser_new();
	if (!w->parser || !ts_parser_set_language(w->parser, tree_sitter_python()))
		goto no_parser;
	if (pthread_mutex_init(&w->lock, NULL))
		goto no_parser;
	if (pthread_cond_init(&w->work, NULL))
		goto no_cond;
	if (thread_start(&w->thread, worker_main, w))
		goto no_thread;
	*out = w;
	return ERR_OK;
no_thread:
	pthread_cond_destroy(&w->work);
no_cond:
	pthread_mutex_destroy(&w->lock);
no_parser:
	if (w->parser)
		ts_parser_delete(w->parser);
	free(w);
	return ERR_NOMEM;
}

// A queued snapshot that will not be parsed: back to none, reference dropped.
static void unqueue(struct snapshot *s) {
	pthread_mutex_lock(&s->lock);
	if (s->state == SYNTAX_QUEUED)
		s->state = SYNTAX_NONE;
	pthread_mutex_unlock(&s->lock);
	snapshot_unref(s);
}

void parser_worker_destroy(struct parser_worker *w) {
	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	atomic_store(&w->stop, 1);
	pthread_cond_signal(&w->work);
	pthread_mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	for (size_t i = 0; i < w->n_queue; i++)
		unqueue(w->queue[i]);
	free(w->queue);
	pthread_cond_destroy(&w->work);
	pthread_mutex_destroy(&w->lock);
	ts_parser_delete(w->parser);
	free(w);
}

// Puts the snapshot (taken) into the queue, in the place of an older text of its chain if there is one; returns what is to be unqueued.
static struct snapshot *queue_put(struct parser_worker *w, struct snapshot *s) {
	struct snapshot *drop = NULL;
	pthread_mutex_lock(&w->lock);
	size_t i = 0;
	while (i < w->n_queue && w->queue[i]->chain != s->chain)
		i++;
	if (i < w->n_queue) {
		drop = w->queue[i];
	} else if (w->n_queue == w->cap_queue) {
		size_t cap = w->cap_queue ? 2 * w->cap_queue : 16;
		struct snapshot **more = realloc(w->queue, cap * sizeof *more);
		if (more) {
			w->queue = more;
			w->cap_queue = cap;
		}
	}
	if (i < w->cap_queue) {
		w->queue[i] = s;
		w->n_queue += i == w->n_queue;
	} else {
		drop = s;
	}
	pthread_cond_signal(&w->work);
	pthread_mutex_unlock(&w->lock);
	return drop;
}

void document_parse_async(struct document *d, struct parser_worker *w) {
	if (!w || !document_is_python(d))
		return;
	struct snapshot *s = document_snapshot(d);
	pthread_mutex_lock(&s->lock);
	bool fresh = s->state == SYNTAX_NONE;
	if (fresh)
		s->state = SYNTAX_QUEUED;
	pthread_mutex_unlock(&s->lock);
	struct snapshot *drop = fresh ? queue_put(w, s) : NULL;
	if (!fresh)
		snapshot_unref(s);
	if (drop)
		unqueue(drop);
}
