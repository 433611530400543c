// SPDX-License-Identifier: MIT
// checkkernels: quantisation, products with quantised and float activations, dequantisation.
#include "tests/kernels/check.h"

// A product: what it is given, and the part of it that is asked for.
struct product {
	struct weight w;
	int begin, end, n_tokens;
	size_t stride; // of y, in floats
	size_t y_floats;
	const struct act_block *act; // or
	const float *x;
	bool split; // asked for in four parts
};

// --- inputs

// Some scales zero (whole blocks of zeros), now and then infinite or NaN.
static void spoil_scales(struct rng *g, const struct weight *w, uint8_t *data, bool wild) {
	struct dtype_info info = dtype_info(w->type);
	int offset[2];
	scale_offsets(w->type, offset);
	size_t n_bytes = dtype_row_bytes(w->type, w->k) * (size_t)w->n_rows;
	for (uint8_t *b = data; info.quantised && b < data + n_bytes; b += info.block_bytes)
		for (int j = 0; j < 2 && offset[j] >= 0; j++) {
			if (one_in(g, 12))
				put_f16(b + offset[j], one_in(g, 2) ? 0.0f : -0.0f);
			else if (wild && one_in(g, 60))
				put_f16(b + offset[j], (const float[]){INFINITY, -INFINITY, NAN, 65504.0f}[rng_below(g, 4)]);
		}
}

// A weight matrix between guard pages, read-only.
static struct weight place_weight(struct check *c, enum dtype type, int n_rows, int k, bool wild) {
	enum fill fill = one_in(&c->rng, 2) ? FILL_RANDOM : (enum fill)rng_below(&c->rng, FILL_EXTREMES + 1);
	struct weight w = make_weight(&c->rng, type, n_rows, k, fill);
	size_t n_bytes = dtype_row_bytes(type, k) * (size_t)n_rows;
	uint8_t *data = check_place(c, SLOT_A, n_bytes, 2);
	memcpy(data, w.data, n_bytes);
	free((void *)w.data);
	spoil_scales(&c->rng, &w, data, wild);
	check_freeze(c, SLOT_A);
	w.data = data;
	return w;
}

// One block of 32 activations: random, of one value, zero, with the largest codes, or with a value that is none.
static void fill_block(struct rng *g, float *x, bool wild) {
	int kind = rng_below(g, wild ? 7 : 6);
	float scale = one_in(g, 10) ? 1e4f : 1.0f;
	for (int i = 0; i < 32; i++)
		x[i] = kind == 0 ? 0.0f : kind == 1 ? (rng_next(g) % 2 ? scale : -scale) : kind == 2 ? scale : rng_float(g) * scale;
	if (kind == 6)
		x[rng_below(g, 32)] = (const float[]){INFINITY, -INFINITY, NAN}[rng_below(g, 3)];
}

// Activation blocks in SLOT_B as the scalar set quantises them, read-only.
static const struct act_block *place_act(struct check *c, int n_tokens, int k, bool wild) {
	size_t n = (size_t)n_tokens * (size_t)k / 32;
	struct act_block *act = check_place(c, SLOT_B, n * sizeof *act, sizeof(float));
	for (size_t i = 0; i < n; i++) {
		float x[32];
		fill_block(&c->rng, x, wild && one_in(&c->rng, 30));
		scalar_set()->quantize(x, &act[i], 32);
	}
	check_freeze(c, SLOT_B);
	return act;
}

static const float *place_x(struct check *c, size_t n, bool wild) {
	float *x = check_place(c, SLOT_B, n * sizeof *x, sizeof *x);
	check_fill_floats(&c->rng, x, n, 2, wild);
	check_freeze(c, SLOT_B);
	return x;
}

// --- quantize

static void run_quantize(struct check *c) {
	struct rng *g = &c->rng;
	int n_blocks = rng_between(g, 1, 40);
	check_shape(c, "k %d", 32 * n_blocks);
	float *x = check_place(c, SLOT_A, sizeof *x * 32 * (size_t)n_blocks, sizeof *x);
	for (int b = 0; b < n_blocks; b++) {
		float scale = f32_from_bits((uint32_t)rng_between(g, 1, 254) << 23); // any exponent
		check_fill_floats(g, x + 32 * b, 32, scale, one_in(g, 10));
		if (one_in(g, 4)) // values on half steps
			for (int i = 0; i < 32; i++)
				x[32 * b + i] = i == 9 ? 127.0f : (float)(rng_below(g, 253) - 126) + 0.5f;
		else if (one_in(g, 8))
			fill_block(g, x + 32 * b, true);
	}
	check_freeze(c, SLOT_A);
	for (int s = 0; s < c->n_sets; s++) {
		c->set = c->sets[s];
		enum slot out = s ? SLOT_OUT : SLOT_EXPECTED;
		struct act_block *act = check_place(c, out, sizeof *act * (size_t)n_blocks, sizeof(float));
		c->set->quantize(x, act, 32 * n_blocks);
		check_bytes(c, SLOT_EXPECTED, out);
	}
}

// --- products

static size_t y_floats(const struct product *p) {
	return (size_t)(p->n_tokens - 1) * p->stride + (size_t)p->w.n_rows;
}

// Rows [begin, end) of tokens [token, token + n).
static void run_part(const struct kernels *set, const struct product *p, int begin, int end, int token, int n, float *y, void *scratch,
                     const _Atomic int *cancel) {
	size_t at = (size_t)token * (size_t)p->w.k;
	float *yt = y + (size_t)token * p->stride;
	if (p->x)
		set->matmul_f32(&p->w, begin, end, p->x + at, n, yt, p->stride, scratch, cancel);
	else
		set->matmul(&p->w, begin, end, p->act + at / 32, n, yt, p->stride, scratch, cancel);
}

static void run_product(struct check *c, const struct product *p, float *y, const _Atomic int *cancel) {
	void *scratch = check_scratch(c, kernels_matmul_scratch_bytes(p->w.k));
	if (!p->split || p->n_tokens < 2 || p->end - p->begin < 2) {
		run_part(c->set, p, p->begin, p->end, 0, p->n_tokens, y, scratch, cancel);
	} else {
		int token = rng_between(&c->rng, 1, p->n_tokens - 1), row = rng_between(&c->rng, p->begin + 1, p->end - 1);
		run_part(c->set, p, p->begin, row, 0, token, y, scratch, cancel);
		run_part(c->set, p, row, p->end, 0, token, y, scratch, cancel);
		run_part(c->set, p, p->begin, row, token, p->n_tokens - token, y, scratch, cancel);
		run_part(c->set, p, row, p->end, token, p->n_tokens - token, y, scratch, cancel);
	}
	check_margins(c, SLOT_SCRATCH);
}

// Rows that were not asked for, and what lies between the rows of y, still hold the mark.
static bool check_untouched(struct check *c, const struct product *p, const float *y) {
	uint32_t mark = CHECK_MARK * 0x01010101u;
	for (size_t i = 0; i < y_floats(p); i++) {
		int row = (int)(i % p->stride);
		if ((row < p->begin || row >= p->end) && f32_bits(y[i]) != mark) {
			check_fail(c, "wrote row %d of token %zu", row, i / p->stride);
			return false;
		}
	}
	return true;
}

static void check_product(struct check *c, struct product *p) {
	bool never = one_in(&c->rng, 2), cancelled = one_in(&c->rng, 20);
	const _Atomic int idle = 0, raised = 1;
	for (int s = 0; s < c->n_sets; s++) {
		c->set = c->sets[s];
		enum slot out = s ? SLOT_OUT : SLOT_EXPECTED;
		float *y = check_place(c, out, sizeof *y * y_floats(p), sizeof *y);
		p->split = s && one_in(&c->rng, 3);
		run_product(c, p, y, never ? NULL : &idle);
		check_margins(c, out);
		if (check_untouched(c, p, y))
			check_floats(c, (const float *)(const void *)c->regions[SLOT_EXPECTED].at, y, y_floats(p));
		if (!cancelled || !s)
			continue;
		y = check_place(c, out, sizeof *y * y_floats(p), sizeof *y); // given rows are unspecified then, others are not
		run_product(c, p, y, &raised);
		check_margins(c, out);
		check_untouched(c, p, y);
	}
}

// Rows, tokens and k around the sizes at which sets change their ways: 8, 16 and 32 rows, 4 to 16 tokens, 128 tokens, 1,280 k.
static struct product random_shape(struct check *c, enum dtype type, int k_step, int max_k) {
	struct rng *g = &c->rng;
	int n_rows = one_in(g, 4) ? rng_between(g, 1, 150) : rng_between(g, 1, 40);
	int n_tokens = one_in(g, 6) ? rng_between(g, 1, 290) : one_in(g, 2) ? rng_between(g, 1, 40) : rng_between(g, 1, 9);
	int most = 1500000 / (n_rows * n_tokens);
	int k = k_step * rng_between(g, 1, (most < k_step ? k_step : most > max_k ? max_k : most) / k_step);
	int begin = one_in(g, 2) ? 0 : rng_below(g, n_rows), end = one_in(g, 2) ? n_rows : rng_between(g, begin + 1, n_rows);
	struct product p = {.w = {NULL, type, n_rows, k}, .begin = begin, .end = end, .n_tokens = n_tokens};
	p.stride = (size_t)(n_rows + (one_in(g, 2) ? 0 : rng_below(g, 20)));
	check_shape(c, "%s, rows %d..%d of %d, k %d, %d tokens, stride %zu", dtype_info(type).name, begin, end, n_rows, k, n_tokens, p.stride);
	return p;
}

static void run_matmul(struct check *c) {
	enum dtype type = all_types[N_FLOAT_TYPES + c->round % (N_TYPES - N_FLOAT_TYPES)];
	int step = dtype_info(type).block_elems > 32 ? dtype_info(type).block_elems : 32;
	struct product p = random_shape(c, type, step, one_in(&c->rng, 8) ? 5120 : 1536);
	bool wild = one_in(&c->rng, 4);
	p.w = place_weight(c, type, p.w.n_rows, p.w.k, wild);
	p.act = place_act(c, p.n_tokens, p.w.k, wild);
	check_product(c, &p);
}

static void run_matmul_f32(struct check *c) {
	enum dtype type = all_types[c->round % N_TYPES];
	struct product p = random_shape(c, type, dtype_info(type).block_elems, 700);
	bool wild = one_in(&c->rng, 4);
	p.w = place_weight(c, type, p.w.n_rows, p.w.k, wild);
	p.x = place_x(c, (size_t)p.n_tokens * (size_t)p.w.k, wild);
	check_product(c, &p);
}

static void run_dequantize_row(struct check *c) {
	struct rng *g = &c->rng;
	enum dtype type = all_types[c->round % N_TYPES];
	int n_rows = rng_between(g, 1, 9), k = dtype_info(type).block_elems * rng_between(g, 1, 2 + 600 / dtype_info(type).block_elems);
	int row = rng_below(g, n_rows);
	check_shape(c, "%s, row %d of %d, k %d", dtype_info(type).name, row, n_rows, k);
	struct weight w = place_weight(c, type, n_rows, k, one_in(g, 4));
	for (int s = 0; s < c->n_sets; s++) {
		c->set = c->sets[s];
		enum slot out = s ? SLOT_OUT : SLOT_EXPECTED;
		float *y = check_place(c, out, sizeof *y * (size_t)k, sizeof *y);
		c->set->dequantize_row(&w, row, y);
		check_margins(c, out);
		check_floats(c, (const float *)(const void *)c->regions[SLOT_EXPECTED].at, y, (size_t)k);
	}
}

// --- all values of 16 bits

#define ALL_K 16 // values of a row; infinities and NaN fill whole rows of their own

// All 65,536 values of a type in ascending order, as [65536/ALL_K][ALL_K].
static struct weight place_all_values(struct check *c, enum dtype type) {
	uint16_t *data = check_place(c, SLOT_A, 65536 * sizeof *data, 2);
	for (uint32_t h = 0; h < 65536; h++)
		data[h] = (uint16_t)h;
	check_freeze(c, SLOT_A);
	return (struct weight){data, type, 65536 / ALL_K, ALL_K};
}

static float definition(enum dtype type, uint32_t h) {
	return type == DTYPE_F16 ? f16_to_f32((uint16_t)h) : bf16_to_f32((uint16_t)h);
}

// Through dequantize_row, where every value must be its definition (tests/kernels/test_scalar.c has that one against IEEE 754).
static void check_all_rows(struct check *c, const struct weight *w) {
	for (int row = 0; row < w->n_rows; row++) {
		float *y = check_place(c, SLOT_OUT, ALL_K * sizeof *y, sizeof *y), expected[ALL_K];
		for (int i = 0; i < ALL_K; i++)
			expected[i] = definition(w->type, (uint32_t)(row * ALL_K + i));
		c->set->dequantize_row(w, row, y);
		if (!check_floats(c, expected, y, ALL_K))
			return;
	}
}

// Through matmul_f32 with the unit vectors: token t of a row of finite values gives its value t (zeros lose their sign).
static void check_all_products(struct check *c, const struct weight *w) {
	float *x = check_place(c, SLOT_B, ALL_K * ALL_K * sizeof *x, sizeof *x);
	for (int i = 0; i < ALL_K * ALL_K; i++)
		x[i] = i / ALL_K == i % ALL_K ? 1.0f : 0.0f;
	check_freeze(c, SLOT_B);
	float *y = check_place(c, SLOT_OUT, 65536 * sizeof *y, sizeof *y);
	c->set->matmul_f32(w, 0, w->n_rows, x, ALL_K, y, (size_t)w->n_rows, check_scratch(c, kernels_matmul_scratch_bytes(ALL_K)), NULL);
	for (uint32_t h = 0; h < 65536; h++) {
		float value = definition(w->type, h), got = y[h % ALL_K * (uint32_t)w->n_rows + h / ALL_K];
		bool finite = value - value == 0;
		if (finite ? got != value : got == got) {
			check_fail(c, "%04x became %a", (unsigned)h, (double)got);
			return;
		}
	}
}

static void run_all_values(struct check *c) {
	enum dtype type = c->round % 2 ? DTYPE_BF16 : DTYPE_F16;
	check_shape(c, "all values of %s", dtype_info(type).name);
	struct weight w = place_all_values(c, type);
	for (int s = 0; s < c->n_sets; s++) {
		c->set = c->sets[s];
		check_all_rows(c, &w);
		check_all_products(c, &w);
	}
}

const struct check_function check_products[] = {
	{"quantize", 400, run_quantize},           {"matmul", 480, run_matmul}, {"matmul_f32", 220, run_matmul_f32},
	{"dequantize_row", 220, run_dequantize_row}, {"all_values", 2, run_all_values}, {0},
};
