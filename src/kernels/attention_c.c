// SPDX-License-Identifier: MIT
// Scalar reference: KV blocks and attention over them, row by row, in the order of struct attention_args. No state.
//
// Scratch: scaled query [head_dim], unit output [head_dim], weights [KV_UNIT_TOKENS].
#include <stdatomic.h>

#include "kernels/scalar.h"
#include "kernels/sets.h"

// Result of one row over one unit, and of a row so far.
struct partial {
	float max, sum;
	float *out; // [head_dim]
};

static float load_kv(enum kv_type type, const void *block, size_t i) {
	if (type == KV_F32)
		return ((const float *)block)[i];
	const uint8_t *p = (const uint8_t *)block + 2 * i;
	return type == KV_F16 ? load_f16(p) : bf16_to_f32(load_u16(p));
}

static void store_kv(enum kv_type type, void *block, size_t i, float value) {
	if (type == KV_F32) {
		((float *)block)[i] = value;
		return;
	}
	uint16_t h = type == KV_F16 ? f32_to_f16(value) : f32_to_bf16(value);
	memcpy((uint8_t *)block + 2 * i, &h, sizeof h);
}

void kv_store_scalar(enum kv_type type, int head_dim, int slot, const float *k, const float *v, void *k_block,
                     void *v_block) {
	for (int d = 0; d < head_dim; d++) {
		store_kv(type, k_block, (size_t)d * KV_BLOCK_TOKENS + (size_t)slot, k[d]);
		store_kv(type, v_block, (size_t)slot * (size_t)head_dim + (size_t)d, v[d]);
	}
}

static float score(const struct attention_args *a, const float *q, int p) {
	const void *block = a->k_blocks[p / KV_BLOCK_TOKENS];
	float sum = 0;
	for (int d = 0; d < a->head_dim; d++)
		sum = fmaf(q[d], load_kv(a->kv_type, block, (size_t)(d * KV_BLOCK_TOKENS + p % KV_BLOCK_TOKENS)), sum);
	return sum;
}

// Turns scores of positions p0 … p0 + n - 1 into weights. False if none is visible.
static bool softmax_unit(const struct attention_args *a, int r, int p0, int n, float *w, struct partial *u) {
	bool any = false;
	u->max = -INFINITY;
	for (int i = 0; i < n; i++) {
		if (!position_visible(a, r, p0 + i))
			continue;
		any = true;
		u->max = w[i] > u->max ? w[i] : u->max;
	}
	float l[8] = {0};
	for (int i = 0; i < n; i++) {
		w[i] = position_visible(a, r, p0 + i) ? kernels_exp(w[i] - u->max) : 0;
		l[i % 8] += w[i];
	}
	u->sum = ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]));
	return any;
}

static void weigh_values(const struct attention_args *a, const float *w, int p0, int n, float *out) {
	for (int d = 0; d < a->head_dim; d++)
		out[d] = 0;
	for (int p = p0; p < p0 + n; p++) {
		const void *block = a->v_blocks[p / KV_BLOCK_TOKENS];
		size_t slot = (size_t)(p % KV_BLOCK_TOKENS);
		for (int d = 0; d < a->head_dim; d++)
			out[d] = fmaf(w[p - p0], load_kv(a->kv_type, block, slot * (size_t)a->head_dim + (size_t)d), out[d]);
	}
}

static void merge(struct partial *all, const struct partial *u, int head_dim) {
	float max = u->max > all->max ? u->max : all->max;
	float scale_all = kernels_exp(all->max - max), scale_u = kernels_exp(u->max - max);
	all->max = max;
	all->sum = fmaf(all->sum, scale_all, u->sum * scale_u);
	for (int d = 0; d < head_dim; d++)
		all->out[d] = fmaf(all->out[d], scale_all, u->out[d] * scale_u);
}

// Positions of the unit at p0 that row r looks at: whole groups of 8 with a position ≤ pos, invisible ones at weight 0.
static int unit_positions(int pos, int p0) {
	int n = (pos - p0 + 8) / 8 * 8;
	return n < KV_UNIT_TOKENS ? n : KV_UNIT_TOKENS;
}

static void attend_row(const struct attention_args *a, int r) {
	float *q = a->scratch, *unit_out = q + a->head_dim, *w = unit_out + a->head_dim;
	for (int d = 0; d < a->head_dim; d++)
		q[d] = a->q[r][d] * a->scale;
	struct partial all = {.out = a->out[r]};
	bool first = true;
	for (int p0 = 0; p0 <= a->pos[r]; p0 += KV_UNIT_TOKENS) {
		int n = unit_positions(a->pos[r], p0);
		for (int i = 0; i < n; i++)
			w[i] = score(a, q, p0 + i);
		struct partial u = {.out = first ? all.out : unit_out};
		if (!softmax_unit(a, r, p0, n, w, &u))
			continue;
		weigh_values(a, w, p0, n, u.out);
		if (first)
			all = u;
		else
			merge(&all, &u, a->head_dim);
		first = false;
	}
	for (int d = 0; d < a->head_dim; d++)
		a->out[r][d] = all.out[d] / all.sum;
}

void attention_scalar(const struct attention_args *a) {
	for (int r = 0; r < a->n_rows; r++) {
		if (a->cancel && atomic_load_explicit(a->cancel, memory_order_relaxed))
			return;
		attend_row(a, r);
	}
}
