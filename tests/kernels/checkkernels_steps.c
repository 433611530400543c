// SPDX-License-Identifier: MIT
// checkkernels: norms, sums, gates, rotations and the largest value.
#include "tests/kernels/check.h"

static int random_n(struct rng *g) {
	return one_in(g, 4) ? rng_between(g, 1, 5000) : rng_between(g, 1, 70);
}

static float *place_floats(struct check *c, enum slot slot, int n, float scale, bool wild) {
	float *x = check_place(c, slot, sizeof *x * (size_t)n, sizeof *x);
	check_fill_floats(&c->rng, x, (size_t)n, scale, wild);
	return x;
}

// A place for the set's n outputs, holding a copy of `from` if given (for work in place).
static float *place_out(struct check *c, int s, int n, const float *from) {
	float *y = check_place(c, s ? SLOT_OUT : SLOT_EXPECTED, sizeof *y * (size_t)n, sizeof *y);
	if (from)
		memcpy(y, from, sizeof *y * (size_t)n);
	return y;
}

static void compare_out(struct check *c, int s, int n) {
	enum slot out = s ? SLOT_OUT : SLOT_EXPECTED;
	check_margins(c, out);
	check_floats(c, (const float *)(const void *)c->regions[SLOT_EXPECTED].at, (const float *)(const void *)c->regions[out].at, (size_t)n);
}

static void run_rms_norm(struct check *c) {
	struct rng *g = &c->rng;
	int n = random_n(g);
	bool wild = one_in(g, 5), in_place = one_in(g, 2);
	float eps = one_in(g, 2) ? 1e-6f : 1e-5f;
	check_shape(c, "n %d%s", n, in_place ? ", in place" : "");
	float *x = place_floats(c, SLOT_A, n, one_in(g, 3) ? 200 : 3, wild), *w = place_floats(c, SLOT_B, n, 2, wild);
	check_freeze(c, SLOT_A);
	check_freeze(c, SLOT_B);
	for (int s = 0; s < c->n_sets; s++) {
		c->set = c->sets[s];
		float *y = place_out(c, s, n, s && in_place ? x : NULL);
		c->set->rms_norm(s && in_place ? y : x, w, y, n, eps);
		compare_out(c, s, n);
	}
}

static void run_add(struct check *c) {
	int n = random_n(&c->rng);
	check_shape(c, "n %d", n);
	float *x = place_floats(c, SLOT_A, n, 3, one_in(&c->rng, 3)), *y = place_floats(c, SLOT_B, n, 5, one_in(&c->rng, 3));
	check_freeze(c, SLOT_A);
	check_freeze(c, SLOT_B);
	for (int s = 0; s < c->n_sets; s++) {
		c->set = c->sets[s];
		c->set->add(place_out(c, s, n, x), y, n);
		compare_out(c, s, n);
	}
}

static void run_swiglu(struct check *c) {
	struct rng *g = &c->rng;
	int n = random_n(g);
	bool in_place = one_in(g, 2);
	check_shape(c, "n %d%s", n, in_place ? ", in place" : "");
	float *gate = place_floats(c, SLOT_A, n, one_in(g, 2) ? 100 : 8, one_in(g, 2)), *up = place_floats(c, SLOT_B, n, 2, one_in(g, 4));
	for (int i = 0; i < 8 && one_in(g, 2); i++) // around the ends of exp's range
		gate[rng_below(g, n)] = -((const float[]){EXP_MIN, EXP_MAX}[i % 2]) * (1 + rng_float(g) * 1e-6f);
	check_freeze(c, SLOT_A);
	check_freeze(c, SLOT_B);
	for (int s = 0; s < c->n_sets; s++) {
		c->set = c->sets[s];
		float *y = place_out(c, s, n, s && in_place ? gate : NULL);
		c->set->swiglu(s && in_place ? y : gate, up, y, n);
		compare_out(c, s, n);
	}
}

static void run_rope(struct check *c) {
	struct rng *g = &c->rng;
	int d = one_in(g, 3) ? 2 * rng_between(g, 1, 70) : 8 * rng_between(g, 1, 32); // heads are multiples of 8; rope needs an even number only
	bool neox = one_in(g, 2);
	check_shape(c, "head_dim %d%s", d, neox ? ", neox" : "");
	float *x = place_floats(c, SLOT_A, d, 3, one_in(g, 6)), *cos_sin = place_floats(c, SLOT_B, d, 1, false);
	check_freeze(c, SLOT_A);
	check_freeze(c, SLOT_B);
	for (int s = 0; s < c->n_sets; s++) {
		c->set = c->sets[s];
		c->set->rope(place_out(c, s, d, x), cos_sin, d, neox);
		compare_out(c, s, d);
	}
}

static void run_argmax(struct check *c) {
	struct rng *g = &c->rng;
	int n = random_n(g), kind = rng_below(g, 5);
	check_shape(c, "n %d, kind %d", n, kind);
	float *x = place_floats(c, SLOT_A, n, 5, kind == 1);
	for (int i = 0; i < n; i++) // many ties, of zeros with both signs too; nothing but NaN and -inf; NaN among numbers
		x[i] = kind == 2                   ? (float)(rng_below(g, 5) - 4) * (one_in(g, 2) ? 1.0f : 0.0f)
		       : kind == 3                 ? (one_in(g, 20) ? -INFINITY : NAN)
		       : kind == 4 && one_in(g, 4) ? NAN
		                                   : x[i];
	check_freeze(c, SLOT_A);
	int expected = 0;
	for (int s = 0; s < c->n_sets; s++) {
		c->set = c->sets[s];
		int got = c->set->argmax(x, n);
		expected = s ? expected : got;
		if (got != expected)
			check_fail(c, "%d, expected %d", got, expected);
	}
}

const struct check_function check_steps[] = {
	{"rms_norm", 400, run_rms_norm}, {"add", 300, run_add}, {"swiglu", 400, run_swiglu}, {"rope", 400, run_rope}, {"argmax", 600, run_argmax}, {0},
};
