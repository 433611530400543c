// SPDX-License-Identifier: MIT
// The engine: a queue of requests in front of one decode thread.
//
// Invariants (under `lock`): a request is in exactly one place: queued (in the list), running (`running`), or answered and freed. Whoever
// takes a request out of the list answers it, outside the lock. `running` is only set and cleared by the decode thread; its flag may be raised by
// anyone who holds the lock. First in, first out; fills (background.h) only while no request waits, rest (completer_rest) only while no fill is due.
// Threads: submit and cancel from one owner (the loop); the decode thread loads the model, runs requests and answers them.
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "complete/background.h"
#include "complete/internal.h"
#include "defaults.h"

#define NEAR_BYTES 256 // a request so far off still shares its prompt's beginning with the one before

#define REST_US 2000000 // without a request or fill before the completer rests

struct queued {
	struct queued *next;
	struct complete_request request; // snapshot referenced, cancel and stop → flags below
	_Atomic int cancel, stop;
	int64_t cancel_us;       // when it was first told to end; 0: never; under the lock
	bool ended;              // its document was closed: no fill after it; under the lock
	uint64_t ticket;
	uint64_t doc;
	engine_done *done;
	void *user;
};

struct engine {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool stop;
	struct queued *head, **tail;
	int n_queued;
	struct queued *running;
	struct background background;
	uint64_t last_ticket;
	struct engine_options options; // model_path owned
	struct parser_worker *parser;
	engine_loaded *loaded;
	void *loaded_user;
	_Atomic int rest_cancel;     // ends completer_rest: a request came, or the end
	bool rested;                 // decode thread only: nothing happened since the last rest
	bool may_archive;            // decode thread only: of the last document worked on
	uint64_t document;           // decode thread only: the last one worked on
	uint64_t asked;              // decode thread only: that of the last request
	bool asked_may_archive;
	uint64_t allowed;            // under the lock: the last document that engine_allow_archive named
	int64_t idle_us;             // decode thread only: since when
	struct completer *completer; // decode thread only
	enum err load_err;           // decode thread only
	struct err_msg load_msg;
};

static void queued_destroy(struct queued *q) {
	snapshot_unref(q->request.snapshot);
	free(q);
}

// Answers a request that never ran.
static void answer_unrun(struct queued *q, enum outcome outcome) {
	struct complete_result r = {.outcome = outcome, .err = ERR_CANCELLED, .stop = STOP_CANCELLED};
	r.total_us = r.ttft_us = r.phases.queue = clock_us() - q->request.received_us;
	q->done(q->user, &r);
	queued_destroy(q);
}

static void answer_unrun_list(struct queued *list, enum outcome outcome) {
	while (list) {
		struct queued *next = list->next;
		answer_unrun(list, outcome);
		list = next;
	}
}

// --- decode thread

static void answer_failed(struct engine *e, struct queued *q) {
	struct complete_result r = {.outcome = OUTCOME_FAILED, .err = e->load_err, .msg = e->load_msg};
	r.total_us = r.ttft_us = r.phases.queue = clock_us() - q->request.received_us;
	q->done(q->user, &r);
}

// What the document's next requests will need.
static void fill_after(struct engine *e, const struct queued *q, const struct complete_result *r) {
	const struct complete_request *request = &q->request;
	bool answered = r->outcome == OUTCOME_SHOWN || r->outcome == OUTCOME_EMPTY;
	if (!request->document || r->outcome == OUTCOME_SUPERSEDED || r->outcome == OUTCOME_FAILED)
		return;
	bool shown = r->outcome == OUTCOME_SHOWN;
	struct fill *f = fill_create(request->snapshot, request->offset, request->document, r->suggestion.text, shown ? r->suggestion.text_bytes : 0);
	if (!f)
		return;
	f->replaced_bytes = r->suggestion.replace_bytes;
	f->may_archive = request->may_archive;
	f->stage = answered && !r->window && r->stop != STOP_DEADLINE ? FILL_ACCEPTED : FILL_PROMPT;
	pthread_mutex_lock(&e->lock);
	e->background.request_us = clock_us();
	if (q->ended)
		fill_destroy(f);
	else
		background_put(&e->background, f);
	pthread_mutex_unlock(&e->lock);
}

static void run_request(struct engine *e, struct queued *q) {
	if (!e->completer) {
		answer_failed(e, q);
		return;
	}
	struct complete_result r;
	e->rested = false;
	e->may_archive = q->request.may_archive;
	e->document = e->asked = q->request.document;
	e->asked_may_archive = q->request.may_archive;
	complete_run(e->completer, &q->request, &r);
	pthread_mutex_lock(&e->lock);
	r.cancel_idle_us = q->cancel_us ? clock_us() - q->cancel_us : 0;
	r.background_stop_us = e->background.stop_us;
	e->background.stop_us = 0;
	pthread_mutex_unlock(&e->lock);
	r.cancelled_softly = r.cancel_idle_us && !atomic_load(&q->cancel);
	fill_after(e, q, &r);
	q->done(q->user, &r);
	complete_result_finish(&r);
	e->idle_us = clock_us();
}

// One stage of a fill, or a part of it. Lock held, but not during the work.
static void run_fill(struct engine *e, struct fill *f, int step_tokens) {
	pthread_mutex_unlock(&e->lock);
	e->rested = false;
	e->may_archive = f->may_archive;
	e->document = f->document;
	fill_run(e->completer, f, step_tokens, &e->background.cancel);
	e->idle_us = clock_us();
	pthread_mutex_lock(&e->lock);
	background_return(&e->background, f, e->idle_us);
}

static void rest(struct engine *e) {
	atomic_store(&e->rest_cancel, 0);
	pthread_mutex_unlock(&e->lock);
	completer_rest(e->completer, e->may_archive, &e->rest_cancel);
	if (e->asked && context_return(e->completer, &e->rest_cancel)) {
		e->document = e->asked;
		e->may_archive = e->asked_may_archive;
		completer_rest(e->completer, e->may_archive, &e->rest_cancel);
	}
	e->rested = true;
	pthread_mutex_lock(&e->lock);
}

// Does what is due while no request is there, or waits for a change or the next thing to be due. Lock held, but not during the work.
static void wait_or_work(struct engine *e) {
	if (e->document && e->allowed == e->document && !e->may_archive) {
		e->may_archive = true;
		e->asked_may_archive |= e->asked == e->document;
		e->rested = false;
	}
	int64_t now = clock_us(), due = background_due_us(&e->background), rest_due = e->rested ? INT64_MAX : e->idle_us + REST_US;
	struct fill *f = e->completer ? background_take(&e->background, now) : NULL;
	if (f) {
		run_fill(e, f, background_step_tokens(&e->background, now));
		return;
	}
	if (e->completer && rest_due <= now) {
		rest(e);
		return;
	}
	due = due < rest_due ? due : rest_due;
	if (!e->completer || due == INT64_MAX) {
		pthread_cond_wait(&e->changed, &e->lock);
		return;
	}
	struct timespec until = {.tv_sec = due / 1000000, .tv_nsec = due % 1000000 * 1000};
	pthread_cond_timedwait(&e->changed, &e->lock, &until);
}

// Takes the first request off the queue and makes it the running one; null when the engine stops.
static struct queued *next_request(struct engine *e) {
	pthread_mutex_lock(&e->lock);
	while (!e->stop && !e->head)
		wait_or_work(e);
	struct queued *q = e->stop ? NULL : e->head;
	if (q) {
		e->head = q->next;
		if (!e->head)
			e->tail = &e->head;
		e->n_queued--;
		e->running = q;
	}
	pthread_mutex_unlock(&e->lock);
	return q;
}

static void *decode_thread(void *arg) {
	struct engine *e = arg;
	e->load_err = completer_create(&e->options, e->parser, &e->completer, &e->load_msg);
	if (e->completer)
		err_set(&e->load_msg, ERR_OK, "%s", completer_notice(e->completer));
	e->loaded(e->loaded_user, e->load_err, &e->load_msg, e->completer ? model_info(completer_model(e->completer)) : NULL);
	for (struct queued *q; (q = next_request(e));) {
		run_request(e, q);
		pthread_mutex_lock(&e->lock);
		e->running = NULL;
		pthread_mutex_unlock(&e->lock);
		queued_destroy(q);
	}
	completer_destroy(e->completer);
	return NULL;
}

// --- owner's side

enum err engine_create(const struct engine_options *o, struct parser_worker *parser, engine_loaded *loaded, void *user,
                       struct engine **out) {
	struct engine *e = calloc(1, sizeof *e);
	char *path = strdup(o->model_path);
	if (!e || !path) {
		free(e);
		free(path);
		return ERR_NOMEM;
	}
	e->options = *o;
	e->options.model_path = path;
	e->parser = parser;
	e->loaded = loaded;
	e->loaded_user = user;
	e->tail = &e->head;
	pthread_mutex_init(&e->lock, NULL);
	thread_cond_init(&e->changed);
	enum err err = thread_start(&e->thread, decode_thread, e);
	if (err != ERR_OK) {
		pthread_cond_destroy(&e->changed);
		pthread_mutex_destroy(&e->lock);
		free(path);
		free(e);
		return err;
	}
	*out = e;
	return ERR_OK;
}

void engine_destroy(struct engine *e) {
	if (!e)
		return;
	pthread_mutex_lock(&e->lock);
	e->stop = true;
	struct queued *list = e->head;
	e->head = NULL;
	e->tail = &e->head;
	e->n_queued = 0;
	if (e->running)
		atomic_store(&e->running->cancel, CANCEL_CLIENT);
	atomic_store(&e->rest_cancel, 1);
	background_interrupt(&e->background, clock_us());
	pthread_cond_signal(&e->changed);
	pthread_mutex_unlock(&e->lock);
	answer_unrun_list(list, OUTCOME_CANCELLED);
	pthread_join(e->thread, NULL);
	background_finish(&e->background);
	pthread_cond_destroy(&e->changed);
	pthread_mutex_destroy(&e->lock);
	free((char *)e->options.model_path);
	free(e);
}

static bool is_superseded(const struct queued *old, const struct queued *q) {
	return old->doc == q->doc && old->request.trigger == TRIGGER_AUTOMATIC && q->request.trigger == TRIGGER_AUTOMATIC;
}

static uint32_t anchor_block(const struct complete_request *r) {
	return snapshot_line_of(r->snapshot, r->offset) / PROMPT_ANCHOR_LINES;
}

static bool is_within(size_t a, size_t b, size_t distance) {
	return a < b ? b - a <= distance : a - b <= distance;
}

// Whether what `old` still evaluates is most likely the beginning of what q needs: the next key, or a few.
static bool is_near(const struct complete_request *old, const struct complete_request *q) {
	return is_within(old->offset, q->offset, NEAR_BYTES) && is_within(snapshot_bytes(old->snapshot), snapshot_bytes(q->snapshot), NEAR_BYTES) &&
	       anchor_block(old) == anchor_block(q);
}

// Notes when a request was first told to end. Lock held.
static void note_cancel(struct queued *q) {
	if (!q->cancel_us)
		q->cancel_us = clock_us();
}

// Ends the running request for q's sake: near it softly, so that repeated keys can't keep a prefill from getting on. Lock held.
static void supersede_running(struct engine *e, const struct queued *q) {
	int none = CANCEL_NONE;
	note_cancel(e->running);
	if (is_near(&e->running->request, &q->request))
		atomic_store(&e->running->stop, 1);
	else
		atomic_compare_exchange_strong(&e->running->cancel, &none, CANCEL_SUPERSEDED);
}

// Unlinks queued requests that q supersedes; returns them as a list. Lock held.
static struct queued *unlink_superseded(struct engine *e, const struct queued *q) {
	struct queued *out = NULL, **link = &e->head;
	while (*link) {
		struct queued *old = *link;
		if (!is_superseded(old, q)) {
			link = &old->next;
			continue;
		}
		*link = old->next;
		old->next = out;
		out = old;
		e->n_queued--;
	}
	e->tail = link;
	return out;
}

static struct queued *queued_create(const struct complete_request *r, uint64_t doc, engine_done *done, void *user) {
	struct queued *q = calloc(1, sizeof *q);
	if (!q)
		return NULL;
	q->request = *r;
	q->request.snapshot = snapshot_ref(r->snapshot);
	q->request.cancel = &q->cancel;
	q->request.stop = &q->stop;
	q->doc = doc;
	q->done = done;
	q->user = user;
	return q;
}

uint64_t engine_submit(struct engine *e, const struct complete_request *r, uint64_t doc, engine_done *done, void *user) {
	struct queued *q = queued_create(r, doc, done, user);
	if (!q)
		return 0;
	pthread_mutex_lock(&e->lock);
	struct queued *superseded = unlink_superseded(e, q);
	if (e->running && is_superseded(e->running, q))
		supersede_running(e, q);
	uint64_t ticket = 0;
	if (e->n_queued < LIMIT_QUEUE && !e->stop) {
		ticket = q->ticket = ++e->last_ticket;
		*e->tail = q;
		e->tail = &q->next;
		e->n_queued++;
		atomic_store(&e->rest_cancel, 1);
		background_interrupt(&e->background, clock_us());
		e->background.request_us = clock_us();
		pthread_cond_signal(&e->changed);
	}
	pthread_mutex_unlock(&e->lock);
	if (!ticket)
		queued_destroy(q);
	answer_unrun_list(superseded, OUTCOME_SUPERSEDED);
	return ticket;
}

// Unlinks one queued request, or null. Lock held.
static struct queued *unlink_ticket(struct engine *e, uint64_t ticket) {
	struct queued **link = &e->head;
	while (*link && (*link)->ticket != ticket)
		link = &(*link)->next;
	struct queued *q = *link;
	if (!q)
		return NULL;
	*link = q->next;
	if (!q->next)
		e->tail = link;
	e->n_queued--;
	return q;
}

bool engine_cancel(struct engine *e, uint64_t ticket) {
	pthread_mutex_lock(&e->lock);
	struct queued *q = unlink_ticket(e, ticket);
	bool running = e->running && e->running->ticket == ticket;
	if (running) {
		atomic_store(&e->running->cancel, CANCEL_CLIENT);
		note_cancel(e->running);
	}
	pthread_mutex_unlock(&e->lock);
	if (q)
		answer_unrun(q, OUTCOME_CANCELLED);
	return q || running;
}

void engine_fill(struct engine *e, struct snapshot *s, size_t offset, uint64_t document, bool opened, bool may_archive) {
	struct fill *f = fill_create(s, offset, document, NULL, 0);
	if (!f)
		return;
	f->whole = opened;
	f->may_archive = may_archive;
	f->stage = opened ? FILL_FILE : FILL_PROMPT;
	pthread_mutex_lock(&e->lock);
	background_put(&e->background, f);
	pthread_cond_signal(&e->changed);
	pthread_mutex_unlock(&e->lock);
}

void engine_fill_end(struct engine *e, uint64_t document) {
	pthread_mutex_lock(&e->lock);
	background_end(&e->background, document);
	for (struct queued *q = e->head; q; q = q->next)
		q->ended |= q->request.document == document;
	if (e->running)
		e->running->ended |= e->running->request.document == document;
	pthread_mutex_unlock(&e->lock);
}

bool engine_is_quiet(struct engine *e) {
	pthread_mutex_lock(&e->lock);
	bool quiet = !e->head && !e->running && !e->background.running;
	for (const struct fill *f = e->background.list; f; f = f->next)
		quiet &= f->stage == FILL_FILE_LATER;
	pthread_mutex_unlock(&e->lock);
	return quiet;
}

void engine_allow_archive(struct engine *e, uint64_t document) {
	pthread_mutex_lock(&e->lock);
	e->allowed = document;
	pthread_cond_signal(&e->changed);
	pthread_mutex_unlock(&e->lock);
}
