// SPDX-License-Identifier: MIT
// Sampler: greedy ties, limits of top-k and top-p, frequencies, reproducible seeds, healed choice.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "model/sampler.h"

enum { N = 5 };
// Probabilities .5 .3 .15 .05 0, in another order.
static const float logits[N] = {-2.9957323f, -0.6931472f, -1.8971200f, -INFINITY, -1.2039728f};
static const double probability[N] = {0.05, 0.5, 0.15, 0, 0.3};

static struct sampler start(struct sampler_options o, int n_vocab) {
	struct sampler s;
	struct err_msg msg = {""};
	assert_int_equal(sampler_init(&s, &o, n_vocab, &msg), ERR_OK);
	return s;
}

static void draw_many(struct sampler_options o, const float *from, int n_draws, int counts[N]) {
	struct sampler s = start(o, N);
	const struct kernels *k = kernels_get(0);
	memset(counts, 0, N * sizeof *counts);
	for (int i = 0; i < n_draws; i++) {
		token_id id = sampler_pick(&s, k, from);
		assert_true(id >= 0 && id < N);
		counts[id]++;
	}
	sampler_finish(&s);
}

static void greedy_takes_the_best(void **state) {
	(void)state;
	static const float ties[N] = {1, 7, 7, NAN, 2};
	struct sampler s = start((struct sampler_options){.top_p = 1}, N);
	assert_int_equal(sampler_pick(&s, kernels_get(0), logits), 1);
	assert_int_equal(sampler_pick(&s, kernels_get(0), ties), 1);
	assert_null(s.slots);
	sampler_finish(&s);
}

// The seeds are fixed, so the counts are; they must lie within five standard deviations.
static void assert_frequencies(const int counts[N], const double p[N], int n) {
	for (int i = 0; i < N; i++) {
		double wide = 5 * sqrt(n * p[i] * (1 - p[i]));
		if (fabs(counts[i] - n * p[i]) > wide)
			fail_msg("token %d: drawn %d times, expected %.0f +- %.0f", i, counts[i], n * p[i], wide);
	}
}

static void draws_by_probability(void **state) {
	(void)state;
	int counts[N];
	draw_many((struct sampler_options){.temperature = 1, .top_p = 1, .seed = 1}, logits, 20000, counts);
	assert_frequencies(counts, probability, 20000);
}

static void temperature_flattens(void **state) {
	(void)state;
	int counts[N];
	double p[N], total = 0; // at temperature 2: square roots
	for (int i = 0; i < N; i++)
		total += p[i] = sqrt(probability[i]);
	for (int i = 0; i < N; i++)
		p[i] /= total;
	draw_many((struct sampler_options){.temperature = 2, .top_p = 1, .seed = 2}, logits, 20000, counts);
	assert_frequencies(counts, p, 20000);
}

static void top_k_keeps_the_best(void **state) {
	(void)state;
	int counts[N];
	static const double p[N] = {0, 0.5 / 0.8, 0, 0, 0.3 / 0.8};
	draw_many((struct sampler_options){.temperature = 1, .top_p = 1, .top_k = 2, .seed = 3}, logits, 20000, counts);
	assert_frequencies(counts, p, 20000);
	draw_many((struct sampler_options){.temperature = 1, .top_p = 1, .top_k = 1, .seed = 3}, logits, 100, counts);
	assert_int_equal(counts[1], 100);
}

static void top_p_keeps_enough(void **state) {
	(void)state;
	int counts[N];
	static const double p[N] = {0, 0.5 / 0.95, 0.15 / 0.95, 0, 0.3 / 0.95};
	// .5 + .3 are below .9, so the third is needed
	draw_many((struct sampler_options){.temperature = 1, .top_p = 0.9f, .seed = 4}, logits, 20000, counts);
	assert_frequencies(counts, p, 20000);
	draw_many((struct sampler_options){.temperature = 1, .top_p = 0.4f, .seed = 4}, logits, 100, counts);
	assert_int_equal(counts[1], 100);
	// of the two best, .5 is .625: enough for .6, not for .7
	draw_many((struct sampler_options){.temperature = 1, .top_p = 0.6f, .top_k = 2, .seed = 4}, logits, 100, counts);
	assert_int_equal(counts[1], 100);
	draw_many((struct sampler_options){.temperature = 1, .top_p = 0.7f, .top_k = 2, .seed = 4}, logits, 100, counts);
	assert_true(counts[4] > 0 && counts[1] + counts[4] == 100);
}

static void nan_never_wins(void **state) {
	(void)state;
	static const float broken[N] = {NAN, 0, NAN, 0, -INFINITY}, hopeless[N] = {NAN, NAN, NAN, NAN, NAN};
	static const struct sampler_options all = {.temperature = 1, .top_p = 1}, some = {.temperature = 1, .top_p = 0.9f, .top_k = 3};
	int counts[N];
	draw_many(all, broken, 200, counts);
	assert_int_equal(counts[1] + counts[3], 200);
	draw_many(some, broken, 200, counts);
	assert_int_equal(counts[1] + counts[3], 200);
	draw_many(some, hopeless, 1, counts); // some token, no crash
}

static void seeds_decide(void **state) {
	(void)state;
	enum { N_VOCAB = 3000, N_DRAWS = 200 };
	static float many[N_VOCAB];
	token_id drawn[3][N_DRAWS];
	for (int i = 0; i < N_VOCAB; i++)
		many[i] = (float)(i * 7919 % N_VOCAB) / 400.0f;
	for (int run = 0; run < 3; run++) {
		struct sampler s = start((struct sampler_options){.temperature = 0.8f, .top_p = 0.95f, .top_k = 500, .seed = run == 2 ? 6 : 5}, N_VOCAB);
		const struct kernels *k = kernels_get(run ? cpu_flags() : 0); // any kernel set: same choices
		for (int i = 0; i < N_DRAWS; i++)
			drawn[run][i] = sampler_pick(&s, k, many);
		sampler_finish(&s);
	}
	assert_memory_equal(drawn[0], drawn[1], sizeof drawn[0]);
	assert_memory_not_equal(drawn[0], drawn[2], sizeof drawn[0]);
	// What seed 5 draws, from a separate implementation of splitmix64 and xoroshiro128+ in Python: choices must not change between versions.
	static const token_id want[] = {4, 1, 1, 0, 2, 1, 4, 1, 1, 2, 1, 1, 1, 1, 1, 4};
	struct sampler s = start((struct sampler_options){.temperature = 1, .top_p = 1, .seed = 5}, N);
	for (size_t i = 0; i < sizeof want / sizeof *want; i++)
		assert_int_equal(sampler_pick(&s, kernels_get(0), logits), want[i]);
	sampler_finish(&s);
}

static void refuses_wrong_options(void **state) {
	(void)state;
	static const struct sampler_options wrong[] = {
		{.temperature = -1, .top_p = 1}, {.temperature = NAN, .top_p = 1}, {.temperature = INFINITY, .top_p = 1}, {.top_p = 0}, {.top_p = 1.5f}, {.top_p = NAN}, {.top_p = 1, .top_k = -1},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct sampler s;
		struct err_msg msg = {""};
		assert_int_equal(sampler_init(&s, &wrong[i], N, &msg), ERR_ARG);
		assert_true(msg.text[0]);
	}
}

static void sums_and_ranks(void **state) {
	(void)state;
	token_id a, b;
	assert_true(fabs(sampler_logsumexp(logits, N)) < 1e-6); // the probabilities add up to 1
	static const float large[2] = {1000, 1000}, none[2] = {-INFINITY, -INFINITY};
	assert_true(fabs(sampler_logsumexp(large, 2) - 1000.6931471805599) < 1e-9);
	assert_true(isinf(sampler_logsumexp(none, 2)));
	sampler_top2(logits, N, &a, &b);
	assert_true(a == 1 && b == 4);
	static const float ties[N] = {1, 3, 2, 3, 3}, falling[N] = {5, 4, 3, 2, 1}, broken[N] = {NAN, NAN, 1, 2, NAN};
	sampler_top2(ties, N, &a, &b);
	assert_true(a == 1 && b == 3);
	sampler_top2(falling, N, &a, &b);
	assert_true(a == 0 && b == 1);
	sampler_top2(broken, N, &a, &b);
	assert_true(a == 3 && b == 2);
}

// ---- healing -------------------------------------------------------------------------------------------------------

static void heals(void **state) {
	(void)state;
	struct gguf *g;
	struct tokenizer *t;
	struct err_msg msg = {""};
	char path[1024];
	snprintf(path, sizeof path, "%s/bpe_qwen2.gguf", getenv("MASKSTORE_TEST_DATA") ? getenv("MASKSTORE_TEST_DATA") : "tests/model");
	if (gguf_open(path, &g, &msg) || tokenizer_create(g, &t, &msg))
		fail_msg("%s", msg.text);
	gguf_close(g);
	int n = tokenizer_n_vocab(t);
	float *l = calloc((size_t)n, sizeof *l);
	assert_non_null(l);
	static const char *const musts[] = {"    ", "re", "self.", "x", "\xE4\xB8", " "};
	uint32_t seed = 1;
	for (int round = 0; round < 60; round++) {
		const char *must = musts[round % 6];
		size_t n_must = strlen(must);
		for (int i = 0; i < n; i++)
			l[i] = (float)((seed = seed * 1664525u + 1013904223u) >> (round % 4 ? 8 : 29)); // each fourth round full of ties
		token_id want = TOKEN_NONE; // the rule, word for word
		for (token_id id = 0; id < n; id++) {
			size_t len;
			const char *bytes = tokenizer_bytes(t, id, &len);
			bool prefix_of_must = len > 0 && len <= n_must && memcmp(bytes, must, len) == 0;
			bool starts_with_must = len >= n_must && memcmp(bytes, must, n_must) == 0;
			if ((prefix_of_must || starts_with_must) && (want == TOKEN_NONE || l[id] > l[want]))
				want = id;
		}
		assert_int_not_equal(want, TOKEN_NONE);
		assert_int_equal(sampler_pick_healed(t, l, must, n_must), want);
	}
	for (int i = 0; i < n; i++)
		l[i] = NAN;
	assert_int_equal(sampler_pick_healed(t, l, "x", 1), TOKEN_NONE);
	free(l);
	tokenizer_destroy(t);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(greedy_takes_the_best), cmocka_unit_test(draws_by_probability), cmocka_unit_test(temperature_flattens), cmocka_unit_test(top_k_keeps_the_best),
		cmocka_unit_test(top_p_keeps_enough), cmocka_unit_test(nan_never_wins), cmocka_unit_test(seeds_decide), cmocka_unit_test(refuses_wrong_options),
		cmocka_unit_test(sums_and_ranks), cmocka_unit_test(heals),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
