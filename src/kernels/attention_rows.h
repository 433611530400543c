// SPDX-License-Identifier: MIT
// What the vector sets' attention has in common: how far a row looks into a unit, and its running maximum and sum (struct attention_args). Pure.
#ifndef MASKSTORE_KERNELS_ATTENTION_ROWS_H
#define MASKSTORE_KERNELS_ATTENTION_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/kernels.h"
#include "kernels/scalar.h"
#include "kernels/sets.h"

// One row over one unit, and so far.
struct row_state {
	float max, sum;
	float scale_all, scale_unit; // factors of the merge at hand
	int32_t started;             // a unit has been merged
	int32_t visible;             // this unit holds a visible position
};
_Static_assert(sizeof(struct row_state) <= ATTENTION_STATE_BYTES, "scratch is sized by this");

// Positions of the unit at p0 that a row at `pos` looks at: whole groups of 8.
static inline int unit_positions(int pos, int p0) {
	int n = (pos - p0 + 8) / 8 * 8;
	return n < KV_UNIT_TOKENS ? n : KV_UNIT_TOKENS;
}

// Whole groups of 8 positions, of those that row r looks at from p0, that it sees without looking at lanes.
static inline int plain_positions(const struct attention_args *a, int r, int p0) {
	int n = (a->pos[r] - p0 + 1) / 8 * 8;
	return a->mask && a->mask[r] ? 0 : n < KV_UNIT_TOKENS ? n : KV_UNIT_TOKENS;
}

// Takes a unit's maximum and sum into the row's, and sets the factors by which its output is merged. `any`: a position is visible.
static inline void row_state_add(struct row_state *state, float max, float sum, bool any) {
	state->visible = any;
	if (!any)
		return;
	if (!state->started) {
		state->max = max;
		state->sum = sum;
		return;
	}
	float larger = max > state->max ? max : state->max;
	state->scale_all = kernels_exp(state->max - larger);
	state->scale_unit = kernels_exp(max - larger);
	state->max = larger;
	state->sum = fmaf(state->sum, state->scale_all, sum * state->scale_unit);
}

#endif
