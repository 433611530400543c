// SPDX-License-Identifier: MIT
// The forward pass against a naive one in double precision: architectures, head groupings, masks, activation modes; and the
// promise that threads, chunks and kernel sets change no bit.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lab.h"
#include "model/weights.h"

#define N_TOKENS 300 // more than one KV unit of 256

// ---- the naive forward pass ----

// y[n][n_rows] = x[n][k] · w
static void naive_multiply(const struct kernels *k, const struct weight *w, const double *x, int n, double *y) {
	float *row = malloc((size_t)w->k * sizeof *row);
	for (int r = 0; r < w->n_rows; r++) {
		k->dequantize_row(w, r, row);
		for (int t = 0; t < n; t++) {
			double sum = 0;
			for (int i = 0; i < w->k; i++)
				sum += (double)row[i] * x[t * w->k + i];
			y[t * w->n_rows + r] = sum;
		}
	}
	free(row);
}

static void naive_norm(const double *x, const float *weight, double *y, int n, float eps) {
	double sum = 0;
	for (int i = 0; i < n; i++)
		sum += x[i] * x[i];
	for (int i = 0; i < n; i++)
		y[i] = x[i] / sqrt(sum / n + (double)eps) * (double)weight[i];
}

static void naive_rope(double *x, int dim, int pos, double theta, bool neox) {
	for (int i = 0; i < dim / 2; i++) {
		double angle = pos * pow(theta, -2.0 * i / dim);
		double *a = neox ? &x[i] : &x[2 * i], *b = neox ? &x[i + dim / 2] : &x[2 * i + 1];
		double a0 = *a, b0 = *b;
		*a = a0 * cos(angle) - b0 * sin(angle);
		*b = a0 * sin(angle) + b0 * cos(angle);
	}
}

// visible[query][key], or null for causal. keys and values of one layer: [n][n_head_kv · dim]
static void naive_attention(const struct model_info *i, const double *q, const double *k, const double *v, int pos, const bool *visible, double *out) {
	int dim = i->head_dim;
	size_t stride = (size_t)(i->n_head_kv * dim);
	double *w = malloc((size_t)(pos + 1) * sizeof *w);
	for (int h = 0; h < i->n_head; h++) {
		size_t kv = (size_t)(h / (i->n_head / i->n_head_kv) * dim);
		double max = -INFINITY, sum = 0;
		for (int p = 0; p <= pos; p++) {
			w[p] = -INFINITY;
			if (visible && !visible[p])
				continue;
			w[p] = 0;
			for (int d = 0; d < dim; d++)
				w[p] += q[h * dim + d] * k[(size_t)p * stride + kv + (size_t)d] / sqrt((double)dim);
			max = fmax(max, w[p]);
		}
		for (int p = 0; p <= pos; p++)
			sum += w[p] = exp(w[p] - max);
		for (int d = 0; d < dim; d++) {
			out[h * dim + d] = 0;
			for (int p = 0; p <= pos; p++)
				out[h * dim + d] += w[p] / sum * v[(size_t)p * stride + kv + (size_t)d];
		}
	}
	free(w);
}

static void add_bias(double *x, const float *bias, int n_rows, int n) {
	for (int i = 0; bias && i < n * n_rows; i++)
		x[i] += (double)bias[i % n_rows];
}

static void add_all(double *x, const double *y, int n) {
	for (int i = 0; i < n; i++)
		x[i] += y[i];
}

// Memory of a naive pass over n tokens.
struct naive {
	const struct model_info *i;
	const struct kernels *k;
	int n, n_q, n_kv;
	const bool *visible;
	double *x, *h, *q, *keys, *values, *attended, *gate, *up, *out;
};

static void naive_norms(const struct naive *f, const float *weight) {
	for (int t = 0; t < f->n; t++)
		naive_norm(f->x + t * f->i->n_embd, weight, f->h + t * f->i->n_embd, f->i->n_embd, f->i->rms_eps);
}

static void naive_layer(const struct naive *f, const struct layer_weights *w) {
	const struct model_info *i = f->i;
	naive_norms(f, w->attn_norm);
	naive_multiply(f->k, &w->q, f->h, f->n, f->q);
	naive_multiply(f->k, &w->k, f->h, f->n, f->keys);
	naive_multiply(f->k, &w->v, f->h, f->n, f->values);
	add_bias(f->q, w->q_bias, f->n_q, f->n);
	add_bias(f->keys, w->k_bias, f->n_kv, f->n);
	add_bias(f->values, w->v_bias, f->n_kv, f->n);
	for (int t = 0; t < f->n; t++) {
		for (int head = 0; head < i->n_head; head++)
			naive_rope(f->q + t * f->n_q + head * i->head_dim, i->head_dim, t, (double)i->rope_theta, i->rope_neox);
		for (int head = 0; head < i->n_head_kv; head++)
			naive_rope(f->keys + t * f->n_kv + head * i->head_dim, i->head_dim, t, (double)i->rope_theta, i->rope_neox);
	}
	for (int t = 0; t < f->n; t++)
		naive_attention(i, f->q + t * f->n_q, f->keys, f->values, t, f->visible ? f->visible + t * f->n : NULL, f->attended + t * f->n_q);
	naive_multiply(f->k, &w->o, f->attended, f->n, f->h);
	add_all(f->x, f->h, f->n * i->n_embd);
	naive_norms(f, w->ffn_norm);
	naive_multiply(f->k, &w->gate, f->h, f->n, f->gate);
	naive_multiply(f->k, &w->up, f->h, f->n, f->up);
	for (int e = 0; e < f->n * i->n_ff; e++)
		f->gate[e] = f->gate[e] / (1 + exp(-f->gate[e])) * f->up[e];
	naive_multiply(f->k, &w->down, f->gate, f->n, f->h);
	add_all(f->x, f->h, f->n * i->n_embd);
}

static double *zeros(int n, int width) {
	double *p = calloc((size_t)n * (size_t)width, sizeof *p);
	assert_non_null(p);
	return p;
}

// Logits [n][n_vocab] of all positions. visible[n][n] or null.
static void naive_forward(const struct model *m, const token_id *tokens, int n, const bool *visible, float *logits) {
	const struct model_info *i = model_info(m);
	const struct weights *w = model_weights(m);
	struct naive f = {.i = i, .k = model_kernels(m), .n = n, .n_q = i->n_head * i->head_dim, .n_kv = i->n_head_kv * i->head_dim, .visible = visible};
	double **const parts[] = {&f.x, &f.h, &f.q, &f.attended, &f.keys, &f.values, &f.gate, &f.up, &f.out};
	const int widths[] = {i->n_embd, i->n_embd, f.n_q, f.n_q, f.n_kv, f.n_kv, i->n_ff, i->n_ff, i->n_vocab};
	for (int p = 0; p < 9; p++)
		*parts[p] = zeros(n, widths[p]);
	float *row = calloc((size_t)i->n_embd, sizeof *row);
	for (int t = 0; t < n; t++) {
		f.k->dequantize_row(&w->token_embd, tokens[t], row);
		for (int e = 0; e < i->n_embd; e++)
			f.x[t * i->n_embd + e] = (double)row[e];
	}
	for (int l = 0; l < i->n_layer; l++)
		naive_layer(&f, &w->layers[l]);
	naive_norms(&f, w->output_norm);
	naive_multiply(f.k, &w->head, f.h, n, f.out);
	for (int e = 0; e < n * i->n_vocab; e++)
		logits[e] = (float)f.out[e];
	for (int p = 0; p < 9; p++)
		free(*parts[p]);
	free(row);
}

// ---- running ours ----

struct masks {
	const bool *visible; // [n][n]
	int n;
	uint32_t bits[N_TOKENS][(N_TOKENS + 31) / 32];
};

static const uint32_t *mask_of(void *user, size_t pos) {
	struct masks *m = user;
	memset(m->bits[pos], 0, sizeof m->bits[pos]);
	for (int p = 0; p <= (int)pos; p++)
		if (m->visible[(int)pos * m->n + p])
			m->bits[pos][p / 32] |= 1u << (p % 32);
	return m->bits[pos];
}

struct collected {
	float *logits; // [n][n_vocab]
	int n_vocab, n_calls;
};

static void collect(void *user, size_t pos, const float *logits) {
	struct collected *c = user;
	memcpy(c->logits + pos * (size_t)c->n_vocab, logits, (size_t)c->n_vocab * sizeof *logits);
	c->n_calls++;
}

// Logits of all positions by one cold run.
static void our_forward(const struct lab *lab, const struct rig_options *o, const token_id *tokens, int n, const bool *visible, float *logits) {
	struct rig rig;
	struct err_msg msg = {""};
	struct masks *masks = calloc(1, sizeof *masks);
	struct collected c = {.logits = logits, .n_vocab = model_info(lab->models[0])->n_vocab};
	masks->visible = visible;
	masks->n = n;
	rig_open(&rig, lab, o);
	session_set_each(rig.session, collect, &c);
	if (visible)
		session_set_mask(rig.session, mask_of, masks);
	struct session_sync_result result = {0};
	if (session_sync(rig.session, tokens, (size_t)n, NULL, &result, &msg) != ERR_OK)
		fail_msg("%s", msg.text);
	assert_int_equal(result.hit_tokens, 0);
	assert_int_equal(result.new_tokens, n);
	assert_int_equal(c.n_calls, n);
	assert_memory_equal(session_logits(rig.session), logits + (size_t)(n - 1) * (size_t)c.n_vocab, (size_t)c.n_vocab * sizeof *logits);
	rig_close(&rig);
	free(masks);
}

static const struct rig_options EXACT = {.n_threads = 2, .chunk_tokens = 64, .capacity_tokens = N_TOKENS, .activation = ACTIVATION_F32, .kv_type = KV_F32};

static void draw_tokens(token_id *tokens, int n, uint64_t seed) {
	for (int i = 0; i < n; i++)
		tokens[i] = (token_id)tiny_draw(&seed, TINY_VOCAB);
}

static float max_difference(const float *a, const float *b, size_t n) {
	float max = 0;
	for (size_t i = 0; i < n; i++) {
		float d = fabsf(a[i] - b[i]);
		if (!(d <= max)) // a NaN sticks
			max = d;
	}
	return max;
}

static double cosine(const float *a, const float *b, size_t n) {
	double ab = 0, aa = 0, bb = 0;
	for (size_t i = 0; i < n; i++) {
		ab += (double)a[i] * (double)b[i];
		aa += (double)a[i] * (double)a[i];
		bb += (double)b[i] * (double)b[i];
	}
	return ab / sqrt(aa * bb);
}

#define N_LOGITS ((size_t)N_TOKENS * TINY_VOCAB)

struct logits {
	float naive[N_LOGITS], ours[N_LOGITS], other[N_LOGITS];
};

static void test_against_naive(void **state) {
	struct logits *l = *state;
	for (int i = 0; i < LAB_N_MODELS; i++) {
		struct lab lab;
		token_id tokens[N_TOKENS];
		lab_open_tiny(&lab, &LAB_MODELS[i]);
		draw_tokens(tokens, N_TOKENS, (uint64_t)i + 1);
		naive_forward(lab.models[0], tokens, N_TOKENS, NULL, l->naive);
		our_forward(&lab, &EXACT, tokens, N_TOKENS, NULL, l->ours);
		float d = max_difference(l->naive, l->ours, N_LOGITS);
		struct rig_options q8 = EXACT;
		q8.activation = ACTIVATION_Q8;
		q8.kv_type = KV_F16;
		our_forward(&lab, &q8, tokens, N_TOKENS, NULL, l->other);
		double c = cosine(l->naive, l->other, N_LOGITS);
		print_message("model %d: f32 max difference %.2e, q8 cosine %.5f\n", i, (double)d, c);
		assert_true(d <= 1e-3f);
		assert_true(c >= 0.99);
		lab_close(&lab);
	}
}

// Any mask: random holes, and padding on the left.
static void draw_mask(bool *visible, int n, int n_padding, uint64_t seed) {
	for (int t = 0; t < n; t++)
		for (int p = 0; p < n; p++) {
			bool hole = n_padding ? t >= n_padding && p < n_padding : tiny_draw(&seed, 3) == 0;
			if (n_padding && t < n_padding)
				hole = true; // padding sees only itself
			visible[t * n + p] = p == t || (p < t && !hole);
		}
}

static void test_masks_against_naive(void **state) {
	struct logits *l = *state;
	bool *visible = malloc(N_TOKENS * N_TOKENS);
	for (int i = 0; i < LAB_N_MODELS; i++) {
		struct lab lab;
		token_id tokens[N_TOKENS];
		lab_open_tiny(&lab, &LAB_MODELS[i]);
		draw_tokens(tokens, N_TOKENS, (uint64_t)i + 10);
		for (int n_padding = 0; n_padding <= 45; n_padding += 45) {
			draw_mask(visible, N_TOKENS, n_padding, (uint64_t)i + 20);
			naive_forward(lab.models[0], tokens, N_TOKENS, visible, l->naive);
			our_forward(&lab, &EXACT, tokens, N_TOKENS, visible, l->ours);
			assert_true(max_difference(l->naive, l->ours, N_LOGITS) <= 1e-3f);
		}
		// The causal run differs from the masked one, so the mask did something.
		our_forward(&lab, &EXACT, tokens, N_TOKENS, NULL, l->other);
		assert_true(max_difference(l->ours, l->other, N_LOGITS) > 0.01f);
		lab_close(&lab);
	}
	free(visible);
}

// RoPE is relative: a left-padded sequence gives (nearly) the logits of the sequence alone.
static void test_padding_is_relative(void **state) {
	struct logits *l = *state;
	bool *visible = malloc(N_TOKENS * N_TOKENS);
	enum { PAD = 37 };
	for (int i = 0; i < LAB_N_MODELS; i++) {
		struct lab lab;
		token_id tokens[N_TOKENS];
		lab_open_tiny(&lab, &LAB_MODELS[i]);
		draw_tokens(tokens, N_TOKENS, (uint64_t)i + 30);
		draw_mask(visible, N_TOKENS, PAD, 1);
		our_forward(&lab, &EXACT, tokens, N_TOKENS, visible, l->ours);
		our_forward(&lab, &EXACT, tokens + PAD, N_TOKENS - PAD, NULL, l->other);
		assert_true(max_difference(l->ours + PAD * TINY_VOCAB, l->other, (N_TOKENS - PAD) * TINY_VOCAB) <= 1e-3f);
		lab_close(&lab);
	}
	free(visible);
}

// Every position's logits, with and without a mask, in both modes: threads, chunks and kernel sets change no bit.
static void test_same_bits(void **state) {
	struct logits *l = *state;
	bool *visible = malloc(N_TOKENS * N_TOKENS);
	static const int chunks[] = {1, 7, 32, 256};
	draw_mask(visible, N_TOKENS, 0, 5);
	int n_models = lab_fewer() > 1 ? 2 : LAB_N_MODELS; // the first two are the small ones
	for (int i = 0; i < n_models; i++) {
		struct lab lab;
		token_id tokens[N_TOKENS];
		lab_open_tiny(&lab, &LAB_MODELS[i]);
		draw_tokens(tokens, N_TOKENS, (uint64_t)i + 40);
		// Each model takes one of the four variants, unless all are asked for: the scalar kernels are slow.
		bool full = getenv("MASKSTORE_FULL") != NULL;
		for (int variant = full ? 0 : i % 4; variant < 4; variant += full ? 1 : 4) {
			const bool *v = variant & 1 ? visible : NULL;
			struct rig_options o = {.scalar = true, .n_threads = 1, .chunk_tokens = 100, .capacity_tokens = N_TOKENS,
			                        .activation = variant & 2 ? ACTIVATION_F32 : ACTIVATION_Q8};
			our_forward(&lab, &o, tokens, N_TOKENS, v, l->ours);
			for (int c = 0; c < 4; c++) {
				o.chunk_tokens = chunks[c];
				o.n_threads = 1 + (c + variant) % LAB_MAX_THREADS;
				o.scalar = c == 3;
				our_forward(&lab, &o, tokens, N_TOKENS, v, l->other);
				assert_memory_equal(l->ours, l->other, N_LOGITS * sizeof l->ours[0]);
			}
		}
		lab_close(&lab);
	}
	free(visible);
}

// Llama 3 files divide the frequencies by factors: with all of them 2, position p is rotated like position p/2.
static void test_rope_factors(void **state) {
	struct logits *l = *state;
	struct tiny_options o = LAB_MODELS[1];
	struct lab plain, halved;
	token_id tokens[N_TOKENS];
	lab_open_tiny(&plain, &o);
	o.extra_tensor = "rope_freqs.weight";
	o.extra_n = o.head_dim / 2;
	lab_open_tiny(&halved, &o);
	draw_tokens(tokens, N_TOKENS, 50);
	for (int i = 0; i < o.head_dim / 2; i++) {
		float whole = model_weights(plain.models[0])->inv_freq[i];
		assert_true(model_weights(halved.models[0])->inv_freq[i] == whole / 2);
	}
	our_forward(&plain, &EXACT, tokens, N_TOKENS, NULL, l->ours);
	our_forward(&halved, &EXACT, tokens, N_TOKENS, NULL, l->other);
	assert_true(max_difference(l->ours, l->other, N_LOGITS) > 0.01f);
	lab_close(&plain);
	lab_close(&halved);
}

static int set_up(void **state) {
	*state = calloc(1, sizeof(struct logits));
	return *state ? 0 : -1;
}

static int tear_down(void **state) {
	free(*state);
	return 0;
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_against_naive), cmocka_unit_test(test_masks_against_naive), cmocka_unit_test(test_padding_is_relative),
		cmocka_unit_test(test_same_bits), cmocka_unit_test(test_rope_factors),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
