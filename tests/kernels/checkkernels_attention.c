// SPDX-License-Identifier: MIT
// checkkernels: storing K and V, and attention over blocks.
#include <math.h>

#include "tests/kernels/check.h"

#define MAX_ROWS KERNELS_ATTENTION_MAX_ROWS
#define MAX_BLOCKS 40

// --- kv_store

// One token into blocks that hold the mark; everything but its values must keep it.
static void store(struct check *c, int s, enum kv_type type, int d, int slot, const float *k, const float *v) {
	size_t n_bytes = (size_t)(d * KV_BLOCK_TOKENS * kv_type_bytes(type)), align = (size_t)kv_type_bytes(type);
	c->set = c->sets[s];
	void *kb = check_place(c, s ? SLOT_OUT : SLOT_EXPECTED, n_bytes, align);
	void *vb = check_place(c, s ? SLOT_OUT_2 : SLOT_EXPECTED_2, n_bytes, align);
	c->set->kv_store(type, d, slot, k, v, kb, vb);
	check_bytes(c, SLOT_EXPECTED, s ? SLOT_OUT : SLOT_EXPECTED);
	check_bytes(c, SLOT_EXPECTED_2, s ? SLOT_OUT_2 : SLOT_EXPECTED_2);
}

// The scalar set itself: an element not of this token keeps the mark.
static void check_others_kept(struct check *c, enum kv_type type, int d, int slot) {
	const uint8_t *kb = c->regions[SLOT_EXPECTED].at, *vb = c->regions[SLOT_EXPECTED_2].at;
	int size = kv_type_bytes(type);
	for (int i = 0; i < d * KV_BLOCK_TOKENS * size; i++)
		if ((i / size % KV_BLOCK_TOKENS != slot && kb[i] != CHECK_MARK) || (i / size / d != slot && vb[i] != CHECK_MARK)) {
			check_fail(c, "wrote byte %d of another token", i);
			return;
		}
}

static void run_kv_store(struct check *c) {
	struct rng *g = &c->rng;
	enum kv_type type = (enum kv_type)(c->round % 3);
	int d = 8 * rng_between(g, 1, 32), slot = rng_below(g, KV_BLOCK_TOKENS);
	check_shape(c, "type %d, head_dim %d, slot %d", (int)type, d, slot);
	float *k = check_place(c, SLOT_A, sizeof *k * (size_t)d, sizeof *k), *v = check_place(c, SLOT_B, sizeof *v * (size_t)d, sizeof *v);
	bool any_bits = one_in(g, 2);
	for (int i = 0; i < d; i++) {
		k[i] = any_bits ? f32_from_bits((uint32_t)rng_next(g)) : rng_float(g) * 4;
		v[i] = any_bits ? f32_from_bits((uint32_t)rng_next(g)) : rng_float(g) * 4;
	}
	check_freeze(c, SLOT_A);
	check_freeze(c, SLOT_B);
	for (int s = 0; s < c->n_sets; s++) {
		store(c, s, type, d, slot, k, v);
		if (!s)
			check_others_kept(c, type, d, slot);
	}
}

// Every 16-bit value as a float, its tie with the next and the neighbours of that: 256 at a time, K one of them, V another.
static void run_kv_store_all(struct check *c) {
	enum { D = 256 };
	enum kv_type type = c->round % 2 ? KV_BF16 : KV_F16;
	for (uint32_t first = 0; first < 65536; first += D) {
		float *kv[2];
		for (int which = 0; which < 4; which += 2) {
			for (int j = 0; j < 2; j++) {
				kv[j] = check_place(c, j ? SLOT_B : SLOT_A, sizeof(float) * D, sizeof(float));
				for (uint32_t i = 0; i < D; i++) {
					uint16_t h = (uint16_t)(first + i), up = (uint16_t)(h + 1);
					float x = type == KV_F16 ? f16_to_f32(h) : bf16_to_f32(h), next = type == KV_F16 ? f16_to_f32(up) : bf16_to_f32(up);
					float tie = x * 0.5f + next * 0.5f;
					kv[j][i] = (const float[]){x, tie, nextafterf(tie, x), nextafterf(tie, next)}[which + j];
				}
			}
			check_shape(c, "type %d, values %04x to %04x, variant %d", (int)type, (unsigned)first, (unsigned)first + D - 1, which);
			for (int s = 0; s < c->n_sets; s++)
				store(c, s, type, D, (int)(first / D % KV_BLOCK_TOKENS), kv[0], kv[1]);
		}
	}
}

// --- attention

struct scene {
	enum kv_type type;
	int d, n_rows, n_blocks;
	size_t stride; // between rows of q and of out
	float scale;
	int32_t *pos;
	const float *q[MAX_ROWS];
	const void *k[MAX_BLOCKS], *v[MAX_BLOCKS];
	const uint32_t *mask[MAX_ROWS];
	bool masked;
};

// A finite element of any bits, or (tame) one of common size.
static void put_element(struct rng *g, enum kv_type type, uint8_t *p, bool tame) {
	float x = rng_float(g) * 3;
	uint16_t h = (uint16_t)rng_next(g);
	if (type == KV_F32) {
		memcpy(p, &x, 4);
		return;
	}
	if (tame)
		h = type == KV_F16 ? f32_to_f16(x) : f32_to_bf16(x);
	else if (type == KV_F16)
		h = (h & 0x7c00) == 0x7c00 ? (uint16_t)(h & 0xfbff) : h;
	else
		h = (uint16_t)((h & 0x807f) | rng_between(g, 90, 140) << 7); // scores must not overflow
	memcpy(p, &h, 2);
}

// Blocks of K or V in random order, one behind another.
static void place_blocks(struct check *c, struct scene *s, enum slot slot, const void **blocks) {
	struct rng *g = &c->rng;
	size_t block_bytes = (size_t)(s->d * KV_BLOCK_TOKENS * kv_type_bytes(s->type));
	size_t size = (size_t)kv_type_bytes(s->type), n_bytes = block_bytes * (size_t)s->n_blocks;
	uint8_t *data = check_place(c, slot, n_bytes, size);
	bool tame = !one_in(g, 4);
	for (size_t i = 0; i < n_bytes; i += size)
		put_element(g, s->type, data + i, tame);
	for (int b = 0; b < s->n_blocks; b++)
		blocks[b] = data + (size_t)b * block_bytes;
	for (int b = s->n_blocks - 1; b > 0; b--) {
		int other = rng_below(g, b + 1);
		const void *swap = blocks[b];
		blocks[b] = blocks[other];
		blocks[other] = swap;
	}
	check_freeze(c, slot);
}

// Positions ascending with equal ones among them: `heads` rows a token, as the decoder asks, or anything.
static void make_rows(struct check *c, struct scene *s, int last) {
	struct rng *g = &c->rng;
	int heads = rng_between(g, 1, 9), tokens = one_in(g, 2) ? 1 : rng_between(g, 1, 30);
	s->n_rows = heads * tokens < MAX_ROWS ? heads * tokens : MAX_ROWS;
	s->pos = check_place(c, SLOT_D, sizeof *s->pos * (size_t)s->n_rows, sizeof *s->pos);
	bool neighbours = !one_in(g, 4);
	int at = last;
	for (int r = s->n_rows - 1; r >= 0; r--) {
		s->pos[r] = at;
		int step = neighbours ? (s->n_rows - r) % heads == 0 : rng_below(g, 3) ? 0 : rng_below(g, 90);
		at = at - step < 0 ? 0 : at - step;
	}
	check_freeze(c, SLOT_D);
}

// Bitmaps that end with the word of the row's position; at least one position is visible, whole units may be hidden.
static void make_masks(struct check *c, struct scene *s) {
	struct rng *g = &c->rng;
	size_t n_words = (size_t)s->pos[s->n_rows - 1] / 32 + 1;
	uint32_t *words = check_place(c, SLOT_E, sizeof *words * n_words * (size_t)s->n_rows, sizeof *words);
	memset(words, 0, sizeof *words * n_words * (size_t)s->n_rows);
	uint32_t *bits = words + n_words * (size_t)s->n_rows;
	for (int r = 0; r < s->n_rows; r++) {
		size_t n = (size_t)s->pos[r] / 32 + 1;
		s->mask[r] = NULL;
		if (one_in(g, 4))
			continue;
		bits -= n; // the first row's ends at the end of the buffer
		int density = rng_below(g, 4);
		for (size_t i = 0; i < n; i++)
			bits[i] = density == 0 || i / 8 % 2 == (size_t)(density == 1) ? 0 : (uint32_t)(density == 2 ? rng_next(g) : rng_next(g) & rng_next(g));
		int seen = rng_below(g, s->pos[r] + 1);
		bits[seen / 32] |= 1u << (seen % 32);
		s->mask[r] = bits;
	}
	check_freeze(c, SLOT_E);
}

static void make_scene(struct check *c, struct scene *s) {
	struct rng *g = &c->rng;
	s->type = (enum kv_type)(c->round % 3);
	s->d = (const int[]){64, 64, 128, 8 * rng_between(g, 1, 16), 8 * rng_between(g, 1, 32)}[rng_below(g, 5)];
	int last = one_in(g, 3) ? rng_below(g, 40) : one_in(g, 3) ? rng_below(g, 1200) : rng_below(g, 520);
	make_rows(c, s, last);
	s->n_blocks = s->pos[s->n_rows - 1] / KV_BLOCK_TOKENS + 1;
	s->scale = one_in(g, 4) ? 0.01f : 1.0f / sqrtf((float)s->d);
	s->stride = (size_t)(s->d + (one_in(g, 2) ? 0 : rng_below(g, 9)));
	size_t n_q = (size_t)(s->n_rows - 1) * s->stride + (size_t)s->d;
	float *q = check_place(c, SLOT_A, sizeof *q * n_q, sizeof *q);
	check_fill_floats(g, q, n_q, 2, false);
	check_freeze(c, SLOT_A);
	for (int r = 0; r < s->n_rows; r++)
		s->q[r] = q + (size_t)r * s->stride;
	place_blocks(c, s, SLOT_B, s->k);
	place_blocks(c, s, SLOT_C, s->v);
	s->masked = one_in(g, 2);
	if (s->masked)
		make_masks(c, s);
	check_shape(c, "type %d, head_dim %d, %d rows at %d to %d%s", (int)s->type, s->d, s->n_rows, s->pos[0], s->pos[s->n_rows - 1],
	            s->masked ? ", masked" : "");
}

// Copies of the pointer arrays stand between guard pages too.
static const void *const *place_pointers(struct check *c, enum slot slot, const void *const *k, const void *const *v, int n) {
	const void **p = check_place(c, slot, sizeof *p * 2 * (size_t)n, sizeof *p);
	memcpy(p, v, sizeof *p * (size_t)n);
	memcpy(p + n, k, sizeof *p * (size_t)n);
	check_freeze(c, slot);
	return p;
}

// Rows [begin, begin + n) into out[n].
static void attend(struct check *c, const struct scene *s, int begin, int n, float *const *out, const void *const *blocks, const _Atomic int *cancel) {
	struct attention_args a = {
		.kv_type = s->type, .head_dim = s->d, .n_rows = n, .scale = s->scale, .q = s->q + begin, .out = out, .pos = s->pos + begin,
		.k_blocks = blocks + s->n_blocks, .v_blocks = blocks, .mask = s->masked ? s->mask + begin : NULL,
		.scratch = check_scratch(c, kernels_attention_scratch_bytes(s->d, n)), .cancel = cancel};
	c->set->attention(&a);
	check_margins(c, SLOT_SCRATCH);
}

// What lies between the rows of out keeps the mark, and so does what lies beside them.
static void check_gaps(struct check *c, const struct scene *s, enum slot slot) {
	const struct region *r = &c->regions[slot];
	check_margins(c, slot);
	for (size_t i = 0; i < r->n_bytes; i++)
		if (i / sizeof(float) % s->stride >= (size_t)s->d && r->at[i] != CHECK_MARK) {
			check_fail(c, "wrote between the rows of out, byte %zu", i);
			return;
		}
}

static void run_attention(struct check *c) {
	static struct scene s;
	make_scene(c, &s);
	size_t n_out = (size_t)(s.n_rows - 1) * s.stride + (size_t)s.d;
	const void *const *blocks = place_pointers(c, SLOT_F, s.k, s.v, s.n_blocks);
	const _Atomic int idle = 0, raised = 1;
	const _Atomic int *cancel = one_in(&c->rng, 2) ? NULL : &idle;
	bool cancelled = one_in(&c->rng, 20);
	for (int i = 0; i < c->n_sets; i++) {
		c->set = c->sets[i];
		enum slot slot = i ? SLOT_OUT : SLOT_EXPECTED;
		float *out = check_place(c, slot, sizeof *out * n_out, sizeof *out), *rows[MAX_ROWS];
		for (int r = 0; r < s.n_rows; r++)
			rows[r] = out + (size_t)r * s.stride;
		int cut = i && s.n_rows > 1 && one_in(&c->rng, 3) ? rng_between(&c->rng, 1, s.n_rows - 1) : s.n_rows; // rows in two calls
		attend(c, &s, 0, cut, rows, blocks, cancel);
		if (cut < s.n_rows)
			attend(c, &s, cut, s.n_rows - cut, rows + cut, blocks, cancel);
		check_gaps(c, &s, slot);
		check_floats(c, (const float *)(const void *)c->regions[SLOT_EXPECTED].at, out, n_out);
		if (i && cancelled) {
			attend(c, &s, 0, s.n_rows, rows, blocks, &raised); // rows are unspecified then, their surroundings are not
			check_gaps(c, &s, slot);
		}
	}
}

// --- attention's conversions of all finite 16-bit values

// Rows of the scene that see one position of its only block each, from `first`: a weight of 1, so the result is V there.
static bool check_values(struct check *c, const struct scene *s, int first, int n) {
	float *out = check_place(c, SLOT_OUT, sizeof *out * (size_t)(n * s->d), sizeof *out), *rows[KV_BLOCK_TOKENS];
	for (int r = 0; r < n; r++)
		rows[r] = out + r * s->d;
	const void *const *blocks = place_pointers(c, SLOT_F, s->k, s->v, 1);
	attend(c, s, first, n, rows, blocks, NULL);
	for (int i = 0; i < n * s->d; i++) {
		uint16_t h = ((const uint16_t *)s->v[0])[first * s->d + i];
		float value = s->type == KV_F16 ? f16_to_f32(h) : bf16_to_f32(h);
		if (out[i] != value) {
			check_fail(c, "%04x became %a with %d rows", (unsigned)h, (double)out[i], n);
			return false;
		}
	}
	return true;
}

// All finite values as V, a block at a time; with few rows and many, since sets convert in two places.
static void run_attention_values(struct check *c) {
	enum { D = 64, N = KV_BLOCK_TOKENS };
	static struct scene s;
	s = (struct scene){.type = c->round % 2 ? KV_BF16 : KV_F16, .d = D, .n_blocks = 1, .stride = D, .scale = 0.125f, .masked = true};
	uint16_t *k = check_place(c, SLOT_B, sizeof *k * D * N, sizeof *k);
	for (int i = 0; i < D * N; i++)
		k[i] = (uint16_t)(i % 97); // tiny
	s.k[0] = k;
	float *q = check_place(c, SLOT_A, sizeof *q * D, sizeof *q);
	check_fill_floats(&c->rng, q, D, 1, false);
	s.pos = check_place(c, SLOT_D, sizeof *s.pos * N, sizeof *s.pos);
	uint32_t *bits = check_place(c, SLOT_E, sizeof *bits * N, sizeof *bits);
	for (int r = 0; r < N; r++) {
		s.q[r] = q;
		s.pos[r] = N - 1;
		bits[r] = 1u << r;
		s.mask[r] = bits + r;
	}
	check_shape(c, "all finite values of type %d as V", (int)s.type);
	uint32_t top = s.type == KV_F16 ? 0x7c00 : 0x7f80;
	for (uint32_t first = 0; first < 65536; first += D * N) {
		uint16_t *v = check_place(c, SLOT_C, sizeof *v * D * N, sizeof *v);
		for (uint32_t i = 0; i < D * N; i++)
			v[i] = ((first + i) & 0x7fff) < top ? (uint16_t)(first + i) : 0;
		s.v[0] = v;
		for (int i = 0; i < c->n_sets; i++) {
			c->set = c->sets[i];
			bool right = check_values(c, &s, 0, N);
			for (int r = 0; r < N && right; r += 4)
				right = check_values(c, &s, r, 4);
			if (!right)
				return;
		}
	}
}

const struct check_function check_attention[] = {
	{"kv_store", 600, run_kv_store}, {"kv_store_all", 2, run_kv_store_all}, {"attention", 240, run_attention},
	{"attention_values", 2, run_attention_values}, {0},
};
