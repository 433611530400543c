// SPDX-License-Identifier: MIT
// Choosing the next token.
//
// Sampling follows the order temperature, top-k, top-p. All arithmetic is float and double additions and products in a fixed order
// and kernels_exp, and the generator is integer, so that one seed gives one text on every machine. Tokens are taken off a
// heap only as far as top-k and top-p reach. A NaN never wins; ties go to the lower id. One sampler, one thread.
#include "model/sampler.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/scalar.h"

// ---- generator: xoroshiro128+ (Blackman and Vigna 2018), seeded by splitmix64 --------------------------------------

static uint64_t splitmix64(uint64_t *x) {
	uint64_t z = (*x += 0x9e3779b97f4a7c15u);
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static uint64_t rotate(uint64_t x, int k) {
	return x << k | x >> (64 - k);
}

static uint64_t next_random(uint64_t state[2]) {
	uint64_t a = state[0], b = state[1], sum = a + b;
	b ^= a;
	state[0] = rotate(a, 24) ^ b ^ b << 16;
	state[1] = rotate(b, 37);
	return sum;
}

// Uniform in [0, 1), 53 bits.
static double next_uniform(uint64_t state[2]) {
	return (double)(next_random(state) >> 11) * 0x1p-53;
}

// ---- sampling ------------------------------------------------------------------------------------------------------

enum err sampler_init(struct sampler *s, const struct sampler_options *o, int n_vocab, struct err_msg *msg) {
	if (!(o->temperature >= 0) || isinf(o->temperature))
		return err_set(msg, ERR_ARG, "the temperature is %g; it must be 0 (greedy) or more", (double)o->temperature);
	if (!(o->top_p > 0 && o->top_p <= 1))
		return err_set(msg, ERR_ARG, "top_p is %g; it must be above 0 and at most 1", (double)o->top_p);
	if (o->top_k < 0 || n_vocab < 1)
		return err_set(msg, ERR_ARG, "top_k is %d; it must be 0 (all) or more", o->top_k);
	struct sampler_slot *slots = NULL;
	if (o->temperature > 0) {
		slots = malloc((size_t)n_vocab * sizeof *slots);
		if (!slots)
			return err_set(msg, ERR_NOMEM, "no memory to sample from %d tokens", n_vocab);
	}
	uint64_t seed = o->seed;
	*s = (struct sampler){.options = *o, .slots = slots, .n_vocab = n_vocab};
	s->state[0] = splitmix64(&seed);
	s->state[1] = splitmix64(&seed);
	return ERR_OK;
}

void sampler_finish(struct sampler *s) {
	free(s->slots);
	s->slots = NULL;
}

static bool before(struct sampler_slot a, struct sampler_slot b) {
	return a.p > b.p || (a.p == b.p && a.id < b.id);
}

// Moves slots[at] down to its place in the heap slots[n], the first in order on top.
static void sift(struct sampler_slot *slots, int n, int at) {
	struct sampler_slot moved = slots[at];
	for (int child; (child = 2 * at + 1) < n; at = child) {
		child += child + 1 < n && before(slots[child + 1], slots[child]);
		if (!before(slots[child], moved))
			break;
		slots[at] = slots[child];
	}
	slots[at] = moved;
}

// Fills the slots with exp((logit - max) / temperature), in (0, 1] for the best; returns their number (without NaN and -inf).
static int weigh(struct sampler *s, const float *logits, float max) {
	int n = 0;
	for (token_id id = 0; id < s->n_vocab; id++)
		if (logits[id] > -INFINITY) // false for NaN
			s->slots[n++] = (struct sampler_slot){logits[id] == max ? 1.0f : kernels_exp((logits[id] - max) / s->options.temperature), id};
	return n;
}

static double sum(const struct sampler_slot *slots, int n) {
	double total = 0;
	for (int i = 0; i < n; i++)
		total += (double)slots[i].p;
	return total;
}

// Sorts the first tokens to the back of the slots, best last, until top-k or top-p has enough; returns where they begin.
static int select_best(struct sampler *s, int n) {
	for (int i = n / 2; i-- > 0;)
		sift(s->slots, n, i);
	int k = s->options.top_k > 0 && s->options.top_k < n ? s->options.top_k : n;
	int begin = n;
	double total = k < n ? 0 : sum(s->slots, n), kept = 0;
	for (int taken = 0; taken < k && (k < n || kept < (double)s->options.top_p * total); taken++) {
		struct sampler_slot top = s->slots[0];
		s->slots[0] = s->slots[--begin];
		sift(s->slots, begin, 0);
		s->slots[begin] = top;
		kept += (double)top.p;
	}
	return begin;
}

// Of the k best, sorted best last, how many from the back top-p keeps.
static int cut_top_p(const struct sampler *s, int begin, int n) {
	double total = sum(s->slots + begin, n - begin), kept = 0;
	int at = n;
	while (at > begin && kept < (double)s->options.top_p * total)
		kept += (double)s->slots[--at].p;
	return at;
}

token_id sampler_pick(struct sampler *s, const struct kernels *k, const float *logits) {
	token_id best = k->argmax(logits, s->n_vocab);
	if (s->options.temperature <= 0 || !isfinite(logits[best]))
		return best;
	int n = weigh(s, logits, logits[best]), begin = 0;
	bool top_k = s->options.top_k > 0 && s->options.top_k < n;
	if (top_k || s->options.top_p < 1)
		begin = select_best(s, n);
	if (top_k && s->options.top_p < 1)
		begin = cut_top_p(s, begin, n);
	double mark = next_uniform(s->state) * sum(s->slots + begin, n - begin);
	for (int i = n; i-- > begin;) {
		mark -= (double)s->slots[i].p;
		if (mark < 0)
			return s->slots[i].id;
	}
	return best; // rounding left a crumb
}

// ---- other choices -------------------------------------------------------------------------------------------------

static bool continues(const char *bytes, size_t n_bytes, const char *must, size_t must_bytes) {
	size_t n = n_bytes < must_bytes ? n_bytes : must_bytes;
	return n > 0 && memcmp(bytes, must, n) == 0;
}

static bool is_better(const float *logits, token_id id, token_id best) {
	return !isnan(logits[id]) && (best == TOKEN_NONE || logits[id] > logits[best] || (logits[id] == logits[best] && id < best));
}

// The better of `best` and the tokens that begin with these bytes and agree with `must`.
static token_id best_of_beginning(const struct tokenizer *t, const float *logits, int second, const char *must, size_t must_bytes, token_id best) {
	size_t n, n_bytes;
	const token_id *ids = tokenizer_beginning(t, (uint8_t)must[0], second, &n);
	for (size_t i = 0; i < n; i++) {
		if (!is_better(logits, ids[i], best))
			continue;
		const char *bytes = tokenizer_bytes(t, ids[i], &n_bytes);
		if (continues(bytes, n_bytes, must, must_bytes))
			best = ids[i];
	}
	return best;
}

token_id sampler_pick_healed(const struct tokenizer *t, const float *logits, const char *must, size_t must_bytes) {
	if (!must_bytes)
		return TOKEN_NONE;
	token_id best = best_of_beginning(t, logits, -1, must, must_bytes, TOKEN_NONE);
	int begin = must_bytes > 1 ? (uint8_t)must[1] : 0, end = must_bytes > 1 ? begin + 1 : 256;
	for (int second = begin; second < end; second++)
		best = best_of_beginning(t, logits, second, must, must_bytes, best);
	return best;
}

double sampler_logsumexp(const float *logits, int n_vocab) {
	double max = -INFINITY, total = 0;
	for (int i = 0; i < n_vocab; i++)
		if ((double)logits[i] > max)
			max = (double)logits[i];
	if (isinf(max))
		return max;
	for (int i = 0; i < n_vocab; i++)
		if (!isnan(logits[i]))
			total += exp((double)logits[i] - max);
	return max + log(total);
}

void sampler_top2(const float *logits, int n_vocab, token_id *first, token_id *second) {
	token_id a = 0, b = TOKEN_NONE; // b: best of the others
	for (token_id id = 1; id < n_vocab; id++) {
		if (logits[id] > logits[a] || (isnan(logits[a]) && !isnan(logits[id]))) {
			b = a;
			a = id;
		} else if (b == TOKEN_NONE || logits[id] > logits[b] || (isnan(logits[b]) && !isnan(logits[id]))) {
			b = id;
		}
	}
	*first = a;
	*second = b;
}
