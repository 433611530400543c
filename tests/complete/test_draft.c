// SPDX-License-Identifier: MIT
// Drafts: the index against a plain search, the rule for their length, and answers with speculation beside those without, token for token.
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "../model/lab.h"
#include "base/clock.h"
#include "complete/draft.h"
#include "typist.h"

static struct model *tiny; // for its tokenizer

static int open_tiny(void **state) {
	(void)state;
	tiny = typist_open_model(1);
	return 0;
}

static int close_tiny(void **state) {
	(void)state;
	model_close(tiny);
	return 0;
}

// --- the source alone

// The latest place of the longest match (up to 16 tokens) of the end: a plain search.
static int search(const token_id *ids, int n, int *match) {
	int place = -1;
	*match = 0;
	for (int i = n - 2; i >= 0; i--) {
		int k = 0;
		while (k < 16 && k <= i && ids[i - k] == ids[n - 1 - k])
			k++;
		if (k > *match) {
			*match = k;
			place = i;
		}
	}
	return place;
}

static void proposes_what_followed_the_longest_match(void **state) {
	(void)state;
	enum { CAPACITY = 300 };
	struct draft *d;
	token_id ids[CAPACITY] = {0};
	uint64_t seed = 11;
	int n = 0, n_proposed = 0;
	assert_int_equal(draft_create(model_tokenizer(tiny), CAPACITY, true, &d), ERR_OK);
	for (int round = 0; round < 20000 / lab_fewer(); round++) {
		// One timeline that is cut and goes on; it keeps more than a quarter, so that it stays the same one. Answers have no length, so that there is no history.
		int keep = n - (int)tiny_draw(&seed, (uint32_t)(n / 4) + 1);
		for (n = keep; n < CAPACITY && n < keep + 1 + (int)tiny_draw(&seed, 30); n++)
			ids[n] = (token_id)('a' + tiny_draw(&seed, 12) * (tiny_draw(&seed, 3) > 0));
		if (n == CAPACITY)
			n = CAPACITY / 2;
		token_id got[DRAFT_MAX_TOKENS];
		int max = 1 + (int)tiny_draw(&seed, DRAFT_MAX_TOKENS), match;
		draft_go(d, ids, (size_t)n, (size_t)n);
		int n_got = draft_propose(d, false, max, got), place = n < 1 ? -1 : search(ids, n, &match);
		int want = place < 0 ? 0 : n - 1 - place < max ? n - 1 - place : max;
		assert_int_equal(n_got, want);
		if (want)
			assert_memory_equal(got, ids + place + 1, (size_t)want * sizeof *got);
		n_proposed += want;
		if (round % 500 == 0)
			assert_int_equal(draft_check(d), ERR_OK);
	}
	assert_true(n_proposed > 0);
	assert_int_equal(draft_check(d), ERR_OK);
	draft_destroy(d);
	draft_destroy(NULL);
}

static void put(token_id *ids, int *n, const char *text) {
	while (*text)
		ids[(*n)++] = (token_id)*text++;
}

static int propose_text(struct draft *d, bool one_line, char *out) {
	token_id got[DRAFT_MAX_TOKENS];
	int n = draft_propose(d, one_line, DRAFT_MAX_TOKENS, got);
	for (int i = 0; i < n; i++)
		out[i] = (char)got[i];
	out[n] = 0;
	return n;
}

// An answer of before, after an edit above it; another file; ends of lines; special tokens.
static void knows_answers_and_files_of_before(void **state) {
	(void)state;
	struct draft *d;
	token_id ids[200];
	char text[DRAFT_MAX_TOKENS + 1];
	int n = 0, n_prompt;
	assert_int_equal(draft_create(model_tokenizer(tiny), 200, true, &d), ERR_OK);
	put(ids, &n, "0123456789 first(x");
	n_prompt = n;
	put(ids, &n, "yz).answer");
	draft_go(d, ids, (size_t)n_prompt, (size_t)n);
	n = 4;
	put(ids, &n, "edited first(x"); // the same file, edited above
	draft_go(d, ids, (size_t)n, (size_t)n);
	assert_int_equal(propose_text(d, false, text), 7);
	assert_string_equal(text, "yz).ans");
	n = 0;
	put(ids, &n, "ABCDEFGH other file\nxy zz9");
	draft_go(d, ids, (size_t)n, (size_t)n);
	n = 0;
	put(ids, &n, "a third one: other f");
	draft_go(d, ids, (size_t)n, (size_t)n);
	assert_int_equal(propose_text(d, false, text), 7);
	assert_string_equal(text, "ile\nxy ");
	assert_int_equal(propose_text(d, true, text), 3);
	assert_string_equal(text, "ile");
	put(ids, &n, "ab");
	ids[n++] = 260; // the middle token
	put(ids, &n, "zzb zzab"); // as before the middle token
	draft_go(d, ids, (size_t)n, (size_t)n);
	assert_int_equal(propose_text(d, false, text), 0);
	assert_int_equal(draft_check(d), ERR_OK);
	draft_destroy(d);
}

// Goes on by n tokens of `next`, as decoding does; returns how many were read on trial.
static int decode(struct draft *d, token_id *ids, int *n, int n_prompt, int n_tokens, uint64_t *seed, int64_t us_per_token) {
	int n_read = 0;
	for (int end = *n + n_tokens; *n < end; (*n)++) {
		token_id got[DRAFT_MAX_TOKENS];
		draft_go(d, ids, (size_t)n_prompt, (size_t)*n);
		int k = draft_propose(d, false, DRAFT_MAX_TOKENS, got);
		draft_measure(d, 1 + k, 1000 + us_per_token * k);
		if (k)
			draft_measure(d, 1, 1000); // passes of one are there in between
		n_read += k;
		ids[*n] = seed ? (token_id)('a' + tiny_draw(seed, 3)) : ids[*n - 5];
	}
	return n_read;
}

static void drafts_only_where_it_pays(void **state) {
	(void)state;
	struct draft *d;
	static token_id ids[9000];
	uint64_t seed = 4;
	int n = 0, n_prompt;
	put(ids, &n, "abcdeabcde");
	n_prompt = n;
	assert_int_equal(draft_create(model_tokenizer(tiny), 9000, false, &d), ERR_OK);
	assert_true(decode(d, ids, &n, n_prompt, 400, NULL, 50) > 400 * 4);         // it repeats itself, and a further token is cheap
	assert_true(decode(d, ids, &n, n_prompt, 400, NULL, 1500) < 400);           // a further token costs more than a pass of one: it stops
	assert_true(decode(d, ids, &n, n_prompt, 400, NULL, 1500) < 60);            // and tries now and then
	n = n_prompt;
	decode(d, ids, &n, n_prompt, 1500, &seed, 300);                             // nothing repeats but by chance (3 letters)
	assert_true(decode(d, ids, &n, n_prompt, 1000, &seed, 700) < 100);
	n = n_prompt;
	decode(d, ids, &n, n_prompt, 3000, NULL, 50);                               // both come back
	assert_true(decode(d, ids, &n, n_prompt, 400, NULL, 50) > 400 * 4);
	draft_destroy(d);
}

// --- whole answers

struct pair {
	struct parser_worker *parser;
	struct completer *with, *without;
	int n_cases, n_stops[STOP_SOFT_DEADLINE + 1];
	long n_tokens, n_passes[2], n_proposed, n_accepted;
};

static void pair_open(struct pair *p, struct engine_options o, enum speculation speculation) {
	struct err_msg msg;
	*p = (struct pair){0};
	assert_int_equal(parser_worker_create(&p->parser), ERR_OK);
	o.speculate = speculation;
	if (completer_create(&o, p->parser, &p->with, &msg) != ERR_OK)
		fail_msg("%s", msg.text);
	o.speculate = SPECULATE_OFF;
	if (completer_create(&o, p->parser, &p->without, &msg) != ERR_OK)
		fail_msg("%s", msg.text);
}

static void pair_close(struct pair *p) {
	completer_destroy(p->with);
	completer_destroy(p->without);
	parser_worker_destroy(p->parser);
	print_message("%d cases, %ld tokens, %ld passes instead of %ld, %ld of %ld accepted\n", p->n_cases, p->n_tokens, p->n_passes[0], p->n_passes[1],
		p->n_accepted, p->n_proposed);
}

static void ask(struct completer *c, const struct typist_state *s, struct complete_request r, struct complete_result *out) {
	r.snapshot = snapshot_create(s->text, s->n, true);
	assert_non_null(r.snapshot);
	r.offset = s->cursor;
	r.received_us = clock_us();
	complete_run(c, &r, out);
	snapshot_unref(r.snapshot);
}

// Asks both and compares; `shown` is the answer as far as it is a pure insertion.
static void ask_both(struct pair *p, const struct typist_state *s, char *shown, size_t shown_size) {
	struct complete_result a, b;
	enum complete_trigger trigger = p->n_cases % 3 ? TRIGGER_AUTOMATIC : TRIGGER_INVOKED;
	ask(p->with, s, (struct complete_request){.trigger = trigger}, &a);
	ask(p->without, s, (struct complete_request){.trigger = trigger}, &b);
	assert_true(a.outcome == OUTCOME_SHOWN || a.outcome == OUTCOME_EMPTY);
	assert_int_equal(a.outcome, b.outcome);
	assert_int_equal(a.stop, b.stop);
	assert_int_equal(a.generated_tokens, b.generated_tokens);
	assert_int_equal(a.prompt_tokens, b.prompt_tokens);
	assert_int_equal(a.suggestion.text_bytes, b.suggestion.text_bytes);
	assert_int_equal(a.suggestion.replace_bytes, b.suggestion.replace_bytes);
	if (b.suggestion.text_bytes)
		assert_memory_equal(a.suggestion.text, b.suggestion.text, b.suggestion.text_bytes);
	assert_true(a.draft_accepted <= a.draft_proposed && !b.draft_proposed && !b.draft_accepted);
	snprintf(shown, shown_size, "%s", a.suggestion.text_bytes && !a.suggestion.replace_bytes ? a.suggestion.text : "");
	p->n_cases++;
	p->n_stops[a.stop]++;
	p->n_tokens += a.generated_tokens;
	p->n_passes[0] += a.decode_passes;
	p->n_passes[1] += b.decode_passes;
	p->n_proposed += a.draft_proposed;
	p->n_accepted += a.draft_accepted;
	complete_result_finish(&a);
	complete_result_finish(&b);
}

static void *cancel_soon(void *arg) {
	_Atomic int *flag = arg;
	static _Atomic unsigned n;
	struct timespec t = {.tv_nsec = (long)(atomic_fetch_add(&n, 1) * 7919u % 1500u * 1000u)};
	nanosleep(&t, NULL);
	atomic_store(flag, CANCEL_CLIENT);
	return NULL;
}

// Only the one that speculates is asked, and stopped in the middle: by a cancel or, softly, by a newer request.
static void ask_and_stop(struct pair *p, const struct typist_state *s) {
	struct complete_result r;
	pthread_t thread;
	_Atomic int flag = CANCEL_NONE;
	assert_int_equal(pthread_create(&thread, NULL, cancel_soon, &flag), 0);
	struct complete_request request = {.trigger = TRIGGER_AUTOMATIC};
	if (p->n_cases % 2)
		request.cancel = &flag;
	else
		request.stop = &flag;
	ask(p->with, s, request, &r);
	pthread_join(thread, NULL);
	complete_result_finish(&r);
}

static void type_at_random(struct pair *p, const char *text, int n_keys, uint64_t seed) {
	struct typist t;
	char shown[2048] = "";
	typist_init(&t, text, 800, seed);
	for (int i = 0; i < n_keys; i++) {
		typist_act(&t, shown);
		if (i % 4 == 0)
			ask_and_stop(p, &t.now);
		ask_both(p, &t.now, shown, sizeof shown);
	}
}

static const char program[] = "def ab(c):\n    return c\n\n\nclass Ed:\n    def fa(self):\n        self.a = 0\n        ";

static void answers_are_the_same(void **state) {
	(void)state;
	int n_stops[STOP_SOFT_DEADLINE + 1] = {0}, n_kinds = 0;
	for (uint64_t seed = 1; seed <= 6; seed++) {
		const char *path = typist_model(seed);
		struct engine_options o = typist_options(path);
		struct pair p;
		o.n_threads = 1 + (int)(seed % 2);
		pair_open(&p, o, seed == 6 ? SPECULATE_ON : SPECULATE_ALWAYS);
		type_at_random(&p, program, 400 / lab_fewer(), seed);
		assert_true(seed == 6 || (p.n_accepted > 0 && p.n_accepted < p.n_proposed));
		for (int i = 0; i <= STOP_SOFT_DEADLINE; i++)
			n_stops[i] += p.n_stops[i];
		pair_close(&p);
		unlink(path);
	}
	for (int i = 0; i <= STOP_SOFT_DEADLINE; i++) {
		n_kinds += n_stops[i] > 0;
		if (n_stops[i])
			print_message("%s: %d\n", stop_name((enum stop_reason)i), n_stops[i]);
	}
	assert_true(n_kinds >= 4);
}

// Long stretches over the end of a context, a budget with no block to spare, and ends that count as any token.
static void exact_tokens_are_the_same(void **state) {
	(void)state;
	enum { N = 150 };
	for (uint64_t seed = 1; seed <= 8; seed++) {
		const char *path = typist_model(seed);
		struct engine_options o = typist_options(path);
		struct pair p;
		struct typist t;
		token_id a[N], b[N];
		o.max_new_tokens_block = N;
		pair_open(&p, o, SPECULATE_ALWAYS);
		typist_init(&t, program, 800, seed);
		for (int i = 0; i < 20; i++) {
			struct complete_result with, without;
			ask(p.with, &t.now, (struct complete_request){.trigger = TRIGGER_INVOKED, .exact = a, .n_exact = N}, &with);
			ask(p.without, &t.now, (struct complete_request){.trigger = TRIGGER_INVOKED, .exact = b, .n_exact = N}, &without);
			assert_int_equal(with.generated_tokens, N);
			assert_int_equal(without.generated_tokens, N);
			assert_memory_equal(a, b, sizeof a);
			p.n_cases++;
			p.n_tokens += N;
			p.n_passes[0] += with.decode_passes;
			p.n_passes[1] += without.decode_passes;
			p.n_proposed += with.draft_proposed;
			p.n_accepted += with.draft_accepted;
			complete_result_finish(&with);
			complete_result_finish(&without);
			typist_act(&t, "");
		}
		assert_true(p.n_accepted > 0);
		pair_close(&p);
		unlink(path);
	}
}

static void answers_of_a_real_model(void **state) {
	(void)state;
	char path[4096];
	const char *given = getenv("MASKSTORE_TEST_MODEL"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	if (given)
		snprintf(path, sizeof path, "%s", given);
	else
		snprintf(path, sizeof path, "%s%s/maskstore/models/SmolLM2-135M-Instruct.Q4_1.gguf", xdg ? xdg : home ? home : "", xdg ? "" : "/.cache");
	if (access(path, R_OK) || lab_fewer() > 1)
		skip();
	struct engine_options o = typist_options(path);
	struct pair p;
	o.n_threads = 2;
	o.max_context_tokens = 1024;
	pair_open(&p, o, SPECULATE_ALWAYS);
	type_at_random(&p, "import os\n\n\ndef size_of(path):\n    \"\"\"Size of a file in bytes.\"\"\"\n    return os.path.", 60, 5);
	assert_true(p.n_accepted > 0);
	pair_close(&p);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(proposes_what_followed_the_longest_match),
		cmocka_unit_test(knows_answers_and_files_of_before),
		cmocka_unit_test(drafts_only_where_it_pays),
		cmocka_unit_test(answers_are_the_same),
		cmocka_unit_test(exact_tokens_are_the_same),
		cmocka_unit_test(answers_of_a_real_model),
	};
	return cmocka_run_group_tests(tests, open_tiny, close_tiny);
}
