// SPDX-License-Identifier: MIT
// The draft source: token arrays indexed by their tokens and pairs of neighbours, and the rule for how much of what they say is worth a try.
//
// An index holds for each pair of neighbouring tokens, and for each token, a chain of the places where it stands, the latest first. A timeline changes at its end only, so a
// token is taken off its chain as it was put on it, and a key typed costs a few steps. Timelines are kept for the last few files; what is
// generated goes into one more index when its timeline is left, with the tokens it stood behind.
//
// Invariants: ids[0..n) are on their chains, each behind all later places of its kind, and nothing else is. `proposal` continues the end of the timeline at hand, or is empty.
// Cost of a look-up: at most LOOK_AT places an index; half a microsecond on the default model, and 20 to 50 to index a prompt of 600 tokens (docs/speed.md).
// Threads: the completer's.
#include "complete/draft.h"

#include <stdlib.h>
#include <string.h>

#define N_TIMELINES 4       // files
#define HISTORY_TOKENS 8192 // of earlier answers; the older half goes when it is full
#define HISTORY_BEFORE 8    // tokens of the prompt that go there with an answer
#define MAX_MATCH 16        // longer ones are as good
#define LOOK_AT 64          // places of a pair, the latest: common pairs have hundreds
#define HASH_BITS 14
#define SAME_FILE_SHARE 4   // a prompt that begins like a timeline for this part of it is one of the same file
#define NONE (-1)

#define TRUST_STEP 0.02f    // of the moving averages: a hundred tokens back counts little
#define COST_STEP 0.1f
#define EXTRA_RELAX 0.0005f // back to 1 where nothing is tried, so that bad measurements are not for ever; a try that does not pay comes once in a hundred passes

struct grams {
	token_id *ids; // [capacity]
	struct chain {
		int32_t *prev; // [capacity] the place before of the same hash, or NONE
		int32_t *head; // [1 << HASH_BITS] its last place
	} pairs, singles;
	int n, capacity;
	uint64_t used;
};

struct draft {
	const struct tokenizer *tokenizer;
	bool always;
	struct grams timelines[N_TIMELINES], history;
	struct grams *at;  // the timeline at hand
	int n_prompt;      // tokens of it that are its prompt
	uint64_t clock;
	token_id proposal[DRAFT_MAX_TOKENS];
	int n_proposal, i_proposal; // tokens, and how many of them have come
	int match;                  // tokens before that matched
	float trust[MAX_MATCH + 1]; // by length of the match: how often the next token was right
	float one_us;               // a pass of one; 0: not measured yet
	float extra;                // what further tokens take here, as a multiple of EXTRA
};

// Where nothing is measured yet: shares of right tokens by length of match (15 places with the default model), and the time of further tokens
// by the tokens of a pass, in passes of one, which is about what kernels for few tokens reach (docs/speed.md, Speculation).
static const float TRUST[MAX_MATCH + 1] = {0, .45f, .45f, .60f, .70f, .70f, .85f, .85f, .85f, .85f, .85f, .85f, .85f, .85f, .85f, .85f, .95f};
static const float EXTRA[DRAFT_MAX_TOKENS + 2] = {0, 0, .2f, .35f, .5f, .65f, .8f, .9f, 1.0f};

// --- an index

static uint32_t hash_pair(token_id a, token_id b) {
	uint32_t h = (uint32_t)a * 0x9E3779B1u ^ (uint32_t)b * 0x85EBCA77u;
	return (h ^ h >> 15) * 0x2C1B3C6Du >> (32 - HASH_BITS);
}

static bool chain_create(struct chain *c, int capacity) {
	c->prev = malloc((size_t)capacity * sizeof *c->prev);
	c->head = malloc(sizeof *c->head << HASH_BITS);
	if (c->head)
		memset(c->head, 0xff, sizeof *c->head << HASH_BITS); // NONE everywhere
	return c->prev && c->head;
}

static void chain_put(struct chain *c, uint32_t hash, int i) {
	c->prev[i] = c->head[hash];
	c->head[hash] = i;
}

// Takes off what was put on last.
static void chain_take(struct chain *c, uint32_t hash, int i) {
	c->head[hash] = c->prev[i];
}

static bool grams_create(struct grams *g, int capacity) {
	g->capacity = capacity;
	g->ids = malloc((size_t)capacity * sizeof *g->ids);
	return g->ids && chain_create(&g->pairs, capacity) && chain_create(&g->singles, capacity);
}

static void grams_destroy(struct grams *g) {
	free(g->ids);
	free(g->pairs.prev);
	free(g->pairs.head);
	free(g->singles.prev);
	free(g->singles.head);
}

// What stands in front of the first token makes a pair with it too.
static uint32_t pair_hash(const struct grams *g, int i) {
	return hash_pair(i ? g->ids[i - 1] : NONE, g->ids[i]);
}

static uint32_t single_hash(const struct grams *g, int i) {
	return hash_pair(g->ids[i], g->ids[i]);
}

static void grams_push(struct grams *g, token_id token) {
	int i = g->n++;
	g->ids[i] = token;
	chain_put(&g->pairs, pair_hash(g, i), i);
	chain_put(&g->singles, single_hash(g, i), i);
}

static void grams_cut(struct grams *g, int n) {
	for (int i = g->n - 1; i >= n; i--) {
		chain_take(&g->pairs, pair_hash(g, i), i);
		chain_take(&g->singles, single_hash(g, i), i);
	}
	g->n = n;
}

// Makes room for n tokens by forgetting the older half.
static void grams_forget(struct grams *g, int n) {
	if (g->n + n <= g->capacity)
		return;
	int begin = g->n / 2, n_kept = g->n - begin;
	grams_cut(g, 0);
	for (int i = 0; i < n_kept; i++)
		grams_push(g, g->ids[begin + i]);
}

static int common_prefix(const struct grams *g, const token_id *tokens, size_t n) {
	int max = (size_t)g->n < n ? g->n : (int)n, i = 0;
	if (!memcmp(g->ids, tokens, (size_t)max * sizeof *tokens))
		return max;
	while (g->ids[i] == tokens[i])
		i++;
	return i;
}

// How many tokens up to place i are those before the end of `end`.
static int match_at(const struct grams *g, int i, const struct grams *end) {
	int k = 0, max = i + 1 < end->n ? i + 1 : end->n;
	max = max < MAX_MATCH ? max : MAX_MATCH;
	while (k < max && g->ids[i - k] == end->ids[end->n - 1 - k])
		k++;
	return k;
}

// The latest place with the longest match for the end of `end` that is longer than *match, or NONE.
static int grams_find(const struct grams *g, const struct grams *end, int *match) {
	int best = NONE, n_left = LOOK_AT;
	int32_t i = g->pairs.head[pair_hash(end, end->n - 1)];
	for (; i != NONE && n_left-- && *match < MAX_MATCH; i = g->pairs.prev[i]) {
		int k = i + 1 < g->n ? match_at(g, i, end) : 0;
		if (k > 1 && k > *match) {
			*match = k;
			best = i;
		}
	}
	return best;
}

// The latest place of the last token before it, or NONE.
static int grams_find_last(const struct grams *g) {
	int32_t i = g->singles.prev[g->n - 1];
	while (i != NONE && g->ids[i] != g->ids[g->n - 1])
		i = g->singles.prev[i];
	return i;
}

// --- life

enum err draft_create(const struct tokenizer *t, int capacity_tokens, bool always, struct draft **out) {
	struct draft *d = calloc(1, sizeof *d);
	if (!d)
		return ERR_NOMEM;
	d->tokenizer = t;
	d->always = always;
	bool ok = grams_create(&d->history, HISTORY_TOKENS);
	for (int i = 0; i < N_TIMELINES && ok; i++)
		ok = grams_create(&d->timelines[i], capacity_tokens);
	if (!ok) {
		draft_destroy(d);
		return ERR_NOMEM;
	}
	d->at = &d->timelines[0];
	memcpy(d->trust, TRUST, sizeof TRUST);
	d->extra = 1;
	*out = d;
	return ERR_OK;
}

void draft_destroy(struct draft *d) {
	if (!d)
		return;
	grams_destroy(&d->history);
	for (int i = 0; i < N_TIMELINES; i++)
		grams_destroy(&d->timelines[i]);
	free(d);
}

// --- timelines

// The timeline at hand is left at n tokens: what was generated behind its prompt is kept.
static void remember(struct draft *d, int n) {
	struct grams *g = d->at;
	if (n >= g->n || d->n_prompt >= g->n)
		return;
	int begin = d->n_prompt > HISTORY_BEFORE ? d->n_prompt - HISTORY_BEFORE : 0;
	int end = g->n - begin < HISTORY_TOKENS / 2 ? g->n : begin + HISTORY_TOKENS / 2;
	grams_forget(&d->history, end - begin);
	for (int i = begin; i < end; i++)
		grams_push(&d->history, g->ids[i]);
}

// The timeline that begins like tokens[n], or else the one that was left the longest ago.
static struct grams *choose(struct draft *d, const token_id *tokens, size_t n) {
	struct grams *best = NULL, *oldest = &d->timelines[0];
	int best_common = (int)(n / SAME_FILE_SHARE);
	for (int i = 0; i < N_TIMELINES; i++) {
		struct grams *g = &d->timelines[i];
		int common = common_prefix(g, tokens, n);
		if (common > best_common) {
			best = g;
			best_common = common;
		}
		if (g->used < oldest->used)
			oldest = g;
	}
	return best ? best : oldest;
}

static void go_elsewhere(struct draft *d, const token_id *tokens, size_t n) {
	struct grams *g = choose(d, tokens, n);
	int common = common_prefix(g, tokens, n);
	remember(d, g == d->at ? common : 0);
	grams_cut(g, common);
	g->used = ++d->clock;
	d->at = g;
	d->n_proposal = d->i_proposal = 0;
}

// The next token came: was it the one that would have been proposed?
static void learn(struct draft *d, token_id token) {
	if (d->i_proposal == d->n_proposal)
		return;
	bool right = d->proposal[d->i_proposal] == token;
	float *trust = &d->trust[d->match < MAX_MATCH ? d->match : MAX_MATCH];
	*trust += TRUST_STEP * ((right ? 1.0f : 0.0f) - *trust);
	d->match++;
	d->i_proposal++;
	if (!right)
		d->n_proposal = d->i_proposal = 0;
}

void draft_go(struct draft *d, const token_id *tokens, size_t n_prompt, size_t n) {
	if (d->n_prompt != (int)n_prompt || common_prefix(d->at, tokens, n) < d->at->n)
		go_elsewhere(d, tokens, n);
	d->n_prompt = (int)n_prompt;
	for (size_t i = (size_t)d->at->n; i < n; i++) {
		learn(d, tokens[i]);
		grams_push(d->at, tokens[i]);
	}
}

// --- proposals

// Fills the proposal with what follows the longest match; of equally long ones, in this timeline, in earlier answers, in other files. A single
// token is looked for in this timeline only.
static void look_up(struct draft *d) {
	const struct grams *from = d->at;
	d->match = d->n_proposal = d->i_proposal = 0;
	if (d->at->n < 1)
		return;
	int place = grams_find(d->at, d->at, &d->match), other = grams_find(&d->history, d->at, &d->match);
	if (other != NONE) {
		from = &d->history;
		place = other;
	}
	for (int i = 0; i < N_TIMELINES; i++) {
		other = &d->timelines[i] == d->at ? NONE : grams_find(&d->timelines[i], d->at, &d->match);
		if (other != NONE) {
			from = &d->timelines[i];
			place = other;
		}
	}
	if (place == NONE) {
		place = grams_find_last(d->at);
		d->match = 1;
	}
	if (place == NONE)
		return;
	for (int i = place + 1; i < from->n && d->n_proposal < DRAFT_MAX_TOKENS && !tokenizer_is_special(d->tokenizer, from->ids[i]); i++)
		d->proposal[d->n_proposal++] = from->ids[i];
}

static bool ends_line(const struct draft *d, token_id token) {
	size_t n;
	const char *bytes = tokenizer_bytes(d->tokenizer, token, &n);
	return memchr(bytes, '\n', n) != NULL;
}

// The number of tokens whose pass is expected to give the most tokens a unit of time.
static int best_length(const struct draft *d, int max) {
	float tokens = 1, all_right = 1, best_rate = 1; // of a pass of one
	int best = 0;
	for (int k = 1; k <= max; k++) {
		int match = d->match + k - 1;
		all_right *= d->trust[match < MAX_MATCH ? match : MAX_MATCH];
		tokens += all_right;
		float cost = 1 + d->extra * EXTRA[k + 1];
		if (tokens > best_rate * cost) {
			best_rate = tokens / cost;
			best = k;
		}
	}
	return best;
}

int draft_propose(struct draft *d, bool one_line, int max, token_id *out) {
	look_up(d);
	int n = d->n_proposal < max ? d->n_proposal : max;
	for (int i = 0; i < n && one_line; i++)
		if (ends_line(d, d->proposal[i]))
			n = i;
	n = d->always ? n : best_length(d, n);
	memcpy(out, d->proposal, (size_t)n * sizeof *out);
	return n;
}

void draft_measure(struct draft *d, int n_tokens, int64_t us) {
	if (n_tokens == 1) {
		d->one_us += d->one_us > 0 ? COST_STEP * ((float)us - d->one_us) : (float)us;
		d->extra += EXTRA_RELAX * (1 - d->extra);
	} else if (d->one_us > 0) {
		float change = ((float)us / d->one_us - 1) / EXTRA[n_tokens] - d->extra, most = d->extra > 0.5f ? d->extra : 0.5f;
		d->extra += COST_STEP * (change > most ? most : change < -most ? -most : change); // a pass that was interrupted says little
	}
}

// --- tests

static bool chain_ok(const struct grams *g, const struct chain *c, uint32_t hash_of(const struct grams *, int)) {
	int n_on_chains = 0;
	for (uint32_t h = 0; h < 1u << HASH_BITS; h++)
		for (int32_t i = c->head[h]; i != NONE; i = c->prev[i], n_on_chains++)
			if (i < 0 || i >= g->n || c->prev[i] >= i || hash_of(g, i) != h)
				return false;
	return n_on_chains == g->n;
}

static bool grams_ok(const struct grams *g) {
	return chain_ok(g, &g->pairs, pair_hash) && chain_ok(g, &g->singles, single_hash);
}

enum err draft_check(const struct draft *d) {
	bool ok = grams_ok(&d->history);
	for (int i = 0; i < N_TIMELINES; i++)
		ok = ok && grams_ok(&d->timelines[i]);
	return ok ? ERR_OK : ERR_STATE;
}
