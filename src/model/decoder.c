// SPDX-License-Identifier: MIT
// The forward pass of a pre-norm transformer with RoPE, grouped heads and SwiGLU (qwen2, llama).
//
// `decoder_forward` is the pass, top to bottom. Each line of it is one step: work split by tokens (`by_token`), then work split by rows,
// heads or queries (`by_row`), with a barrier after each part. For a single token the first part is so short that every thread does all of
// it on its own copy (struct lane) instead of waiting for another barrier: the same operations in the same order, so the same bits.
//
// Invariants: every number depends only on the tokens before it (kernels.h, ARITHMETIC), never on the split. Nothing is allocated.
// When `cancel` is seen after a matmul, nothing computed from it reaches a KV block.
// Threads: one caller; steps run on the pool. Thread i writes lane i, its token range or its rows, and nothing else.
#include "model/decoder.h"

#include <assert.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "model/weights.h"

#define ROW_UNIT 16 // rows of a matmul panel: threads get whole panels

// The residual stream and what is made of it before a matmul: shared (a chunk) or of one lane (a single token).
struct stream {
	float *x;              // [n_tokens][n_embd] residual
	float *h;              // [n_tokens][n_embd] normalised
	struct act_block *act; // [n_tokens][k/32] the next matmul's quantised input
	float *cos_sin;        // [n_tokens][head_dim/2][2] RoPE of the chunk's positions
};

// Scratch of one thread.
struct lane {
	struct stream own;      // for a single token
	void *matmul, *attention;
	const void **k_blocks, **v_blocks; // [blocks of the capacity]
	const float **q;        // [max_rows] attention rows
	float **out;            // [max_rows]
	int32_t *pos;           // [max_rows]
	const uint32_t **mask;  // [max_rows]
};

struct decoder {
	const struct model_info *info;
	const struct weights *w;
	const struct kernels *k;
	struct maskstore *store;
	struct pool *pool;
	enum activation activation;
	int max_tokens, max_rows; // tokens of a chunk, rows of an attention call
	enum kv_type kv_type;
	float scale;              // 1/sqrt(head_dim)

	struct stream shared;
	float *q, *k_new, *v_new; // [max_tokens][heads · head_dim] of the layer at hand
	float *attended;          // [max_tokens][n_head · head_dim]
	float *gate, *up;         // [max_tokens][n_ff]
	float *projected;         // [max_tokens][n_embd] what the next step adds to x
	struct lane *lanes;       // [pool_size]
	struct arena arena;       // owns all of these
};

// State of one call.
struct pass {
	struct decoder *d;
	const struct decoder_chunk *c;
	const struct layer_weights *l; // the layer at hand
	int i_layer;
	int first;  // tokens before this one in the chunk need no further work (last layer)
	int i_head, n_logits; // tokens whose logits are being computed: first, how many
	bool alone; // a single token
};

// ---- scratch ----

// Carves an arena, or only adds sizes up while base is null.
struct carver {
	struct arena *arena;
	size_t n_bytes;
};

static void *carve(struct carver *c, size_t n, size_t elem_bytes) {
	c->n_bytes += arena_size(n * elem_bytes);
	return c->arena ? arena_alloc(c->arena, n * elem_bytes) : NULL;
}

static int max_k(const struct model_info *i) {
	int k = i->n_embd > i->n_ff ? i->n_embd : i->n_ff;
	return k > i->n_head * i->head_dim ? k : i->n_head * i->head_dim;
}

static int attention_rows(const struct model_info *i) {
	int group = i->n_head / i->n_head_kv;
	return group > KERNELS_ATTENTION_MAX_ROWS ? group : KERNELS_ATTENTION_MAX_ROWS;
}

static void carve_stream(struct carver *c, const struct model_info *i, int n_tokens, struct stream *s) {
	size_t n = (size_t)n_tokens;
	s->x = carve(c, n * (size_t)i->n_embd, sizeof(float));
	s->h = carve(c, n * (size_t)i->n_embd, sizeof(float));
	s->act = carve(c, n * (size_t)((max_k(i) + 31) / 32), sizeof(struct act_block));
	s->cos_sin = carve(c, n * (size_t)i->head_dim, sizeof(float));
}

static void carve_lane(struct carver *c, const struct model_info *i, int capacity_tokens, struct lane *l) {
	size_t n_blocks = ((size_t)capacity_tokens + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS;
	size_t n_rows = (size_t)attention_rows(i);
	carve_stream(c, i, 1, &l->own);
	l->matmul = carve(c, kernels_matmul_scratch_bytes(max_k(i)), 1);
	l->attention = carve(c, kernels_attention_scratch_bytes(i->head_dim, (int)n_rows), 1);
	l->k_blocks = carve(c, n_blocks, sizeof(void *));
	l->v_blocks = carve(c, n_blocks, sizeof(void *));
	l->q = carve(c, n_rows, sizeof(float *));
	l->out = carve(c, n_rows, sizeof(float *));
	l->pos = carve(c, n_rows, sizeof(int32_t));
	l->mask = carve(c, n_rows, sizeof(uint32_t *));
}

// Lays all scratch out; with a null arena only its size is computed (and *d holds no pointers).
static size_t carve_all(struct arena *arena, const struct model_info *i, const struct decoder_options *o, struct decoder *d) {
	struct carver c = {.arena = arena};
	size_t n = (size_t)o->max_tokens, n_q = (size_t)(i->n_head * i->head_dim), n_kv = (size_t)(i->n_head_kv * i->head_dim);
	carve_stream(&c, i, o->max_tokens, &d->shared);
	d->q = carve(&c, n * n_q, sizeof(float));
	d->k_new = carve(&c, n * n_kv, sizeof(float));
	d->v_new = carve(&c, n * n_kv, sizeof(float));
	d->attended = carve(&c, n * n_q, sizeof(float));
	d->gate = carve(&c, n * (size_t)i->n_ff, sizeof(float));
	d->up = carve(&c, n * (size_t)i->n_ff, sizeof(float));
	d->projected = carve(&c, n * (size_t)i->n_embd, sizeof(float));
	int n_threads = pool_size(o->pool);
	d->lanes = carve(&c, (size_t)n_threads, sizeof d->lanes[0]);
	struct lane unused;
	for (int t = 0; t < n_threads; t++)
		carve_lane(&c, i, o->capacity_tokens, arena ? &d->lanes[t] : &unused);
	return c.n_bytes;
}

size_t decoder_bytes(const struct model *m, const struct decoder_options *o) {
	struct decoder unused;
	return carve_all(NULL, model_info(m), o, &unused);
}

enum err decoder_create(const struct model *m, const struct decoder_options *o, struct decoder **out) {
	struct decoder *d = calloc(1, sizeof *d);
	if (!d)
		return ERR_NOMEM;
	const struct model_info *i = model_info(m);
	*d = (struct decoder){
		.info = i, .w = model_weights(m), .k = model_kernels(m), .store = o->store, .pool = o->pool, .activation = o->activation,
		.max_tokens = o->max_tokens, .max_rows = attention_rows(i), .kv_type = maskstore_geometry(o->store)->kv_type,
		.scale = (float)(1.0 / sqrt((double)i->head_dim)),
	};
	enum err e = arena_init(&d->arena, decoder_bytes(m, o));
	if (e != ERR_OK) {
		free(d);
		return e;
	}
	carve_all(&d->arena, i, o, d);
	*out = d;
	return ERR_OK;
}

void decoder_destroy(struct decoder *d) {
	if (!d)
		return;
	arena_finish(&d->arena);
	free(d);
}

// ---- parts that several steps share ----

static bool cancelled(const struct pass *p) {
	return p->c->cancel && atomic_load_explicit(p->c->cancel, memory_order_relaxed);
}

static struct stream *stream_of(const struct pass *p, int i_thread) {
	return p->alone ? &p->d->lanes[i_thread].own : &p->d->shared;
}

// Tokens of a by-token step for one thread: all (one) on the thread's own copy, or its part of the chunk.
static void token_range(const struct pass *p, int i_thread, int n_threads, int *begin, int *end) {
	*begin = 0;
	*end = 1;
	if (p->alone)
		return;
	pool_split(p->c->n_tokens - p->first, 1, i_thread, n_threads, begin, end);
	*begin += p->first;
	*end += p->first;
}

// Quantises one token's input of a matmul. Widths that are no multiple of 32 occur only with float weights, which don't look at it.
static void quantize_token(const struct pass *p, const struct stream *s, const float *x, int t, int k) {
	if (p->d->activation == ACTIVATION_Q8 && k % 32 == 0)
		p->d->k->quantize(x, s->act + (size_t)t * (size_t)(k / 32), k);
}

// y[t][row] for tokens [first, first + n) and rows [begin, end): x and act are [tokens of the chunk][k], y [tokens of the chunk][y_stride].
static void multiply(const struct pass *p, const struct weight *w, int begin, int end, const struct stream *s, const float *x, int first, int n,
                     float *y, size_t y_stride, int i_thread) {
	const struct kernels *k = p->d->k;
	void *scratch = p->d->lanes[i_thread].matmul;
	float *to = y + (size_t)first * y_stride;
	if (begin == end)
		return;
	if (p->d->activation == ACTIVATION_Q8 && dtype_info(w->type).quantised)
		k->matmul(w, begin, end, s->act + (size_t)first * (size_t)(w->k / 32), n, to, y_stride, scratch, p->c->cancel);
	else
		k->matmul_f32(w, begin, end, x + (size_t)first * (size_t)w->k, n, to, y_stride, scratch, p->c->cancel);
}

struct step {
	struct pass *pass;
	pool_task *by_token, *by_row;
};

static void run_both(void *arg, int i_thread, int n_threads) {
	struct step *s = arg;
	s->by_token(s->pass, i_thread, n_threads);
	s->by_row(s->pass, i_thread, n_threads);
}

// Runs a step (either part may be null). False when the call is cancelled.
static bool run(struct pass *p, pool_task *by_token, pool_task *by_row) {
	struct step both = {p, by_token, by_row};
	if (by_token && by_row && p->alone) {
		pool_run(p->d->pool, run_both, &both);
		return !cancelled(p);
	}
	if (by_token)
		pool_run(p->d->pool, by_token, p);
	if (by_row && !cancelled(p))
		pool_run(p->d->pool, by_row, p);
	return !cancelled(p);
}

// ---- steps, in the order of the pass ----

// Angles as transformers computes them: position times frequency in f32; sine and cosine of that in double, rounded.
static void rope_angles(const struct pass *p, int pos, float *cos_sin) {
	int half = p->d->info->head_dim / 2;
	for (int i = 0; i < half; i++) {
		double angle = (double)((float)pos * p->d->w->inv_freq[i]);
		cos_sin[2 * i] = (float)cos(angle);
		cos_sin[2 * i + 1] = (float)sin(angle);
	}
}

static void embed(void *arg, int i_thread, int n_threads) {
	const struct pass *p = arg;
	const struct model_info *i = p->d->info;
	struct stream *s = stream_of(p, i_thread);
	int begin, end;
	token_range(p, i_thread, n_threads, &begin, &end);
	for (int t = begin; t < end && !cancelled(p); t++) {
		p->d->k->dequantize_row(&p->d->w->token_embd, p->c->tokens[t], s->x + (size_t)t * (size_t)i->n_embd);
		rope_angles(p, p->c->first_pos + t, s->cos_sin + (size_t)t * (size_t)i->head_dim);
	}
}

// x += what the last step left, if it did; h = norm(x); act = quantised h.
static void normalise(const struct pass *p, const float *weight, bool add, int i_thread, int n_threads) {
	const struct decoder *d = p->d;
	int n_embd = d->info->n_embd, begin, end;
	struct stream *s = stream_of(p, i_thread);
	token_range(p, i_thread, n_threads, &begin, &end);
	for (int t = begin; t < end && !cancelled(p); t++) {
		size_t at = (size_t)t * (size_t)n_embd;
		if (add)
			d->k->add(s->x + at, d->projected + at, n_embd);
		d->k->rms_norm(s->x + at, weight, s->h + at, n_embd, d->info->rms_eps);
		quantize_token(p, s, s->h + at, t, n_embd);
	}
}

static void normalise_attention(void *arg, int i_thread, int n_threads) {
	const struct pass *p = arg;
	normalise(p, p->l->attn_norm, p->i_layer > 0, i_thread, n_threads);
}

// Heads [begin, end) of q, k or v: rows, bias, rotation.
static void project_heads(const struct pass *p, const struct weight *w, const float *bias, int begin, int end, bool rotate, float *y, int i_thread) {
	const struct decoder *d = p->d;
	int dim = d->info->head_dim;
	const struct stream *s = stream_of(p, i_thread);
	multiply(p, w, begin * dim, end * dim, s, s->h, 0, p->c->n_tokens, y, (size_t)w->n_rows, i_thread);
	for (int t = 0; t < p->c->n_tokens && !cancelled(p); t++) {
		for (int head = begin; head < end; head++) {
			float *row = y + (size_t)t * (size_t)w->n_rows + (size_t)head * (size_t)dim;
			if (bias)
				d->k->add(row, bias + (size_t)head * (size_t)dim, dim);
			if (rotate)
				d->k->rope(row, s->cos_sin + (size_t)t * (size_t)dim, dim, d->info->rope_neox);
		}
	}
}

static void store_head(const struct pass *p, int head) {
	const struct decoder *d = p->d;
	size_t dim = (size_t)d->info->head_dim, stride = (size_t)d->info->n_head_kv * dim;
	for (int t = 0; t < p->c->n_tokens && !cancelled(p); t++) {
		int pos = p->c->first_pos + t;
		block_id block = p->c->blocks[pos / KV_BLOCK_TOKENS];
		size_t at = (size_t)t * stride + (size_t)head * dim;
		d->k->kv_store(d->kv_type, (int)dim, pos % KV_BLOCK_TOKENS, d->k_new + at, d->v_new + at, maskstore_k(d->store, block, p->i_layer, head),
		               maskstore_v(d->store, block, p->i_layer, head));
	}
}

static int at_least(int a, int b) {
	return a > b ? a : b;
}

static int at_most(int a, int b) {
	return a < b ? a : b;
}

// Heads are the units of the split, so that a thread rotates and stores what it has just computed: first those of q, then two (k and v)
// for each KV head, which belongs to the thread that has the first of them.
static void project_qkv(void *arg, int i_thread, int n_threads) {
	const struct pass *p = arg;
	const struct decoder *d = p->d;
	const struct layer_weights *l = p->l;
	int n_head = d->info->n_head, begin, end;
	pool_split(n_head + 2 * d->info->n_head_kv, 1, i_thread, n_threads, &begin, &end);
	project_heads(p, &l->q, l->q_bias, at_most(begin, n_head), at_most(end, n_head), true, d->q, i_thread);
	int kv_begin = (at_least(begin - n_head, 0) + 1) / 2, kv_end = (at_least(end - n_head, 0) + 1) / 2;
	project_heads(p, &l->k, l->k_bias, kv_begin, kv_end, true, d->k_new, i_thread);
	project_heads(p, &l->v, l->v_bias, kv_begin, kv_end, false, d->v_new, i_thread);
	for (int head = kv_begin; head < kv_end && !cancelled(p); head++) // a cancelled matmul leaves rubbish
		store_head(p, head);
}

// Attention rows: query heads [head, head + n_heads) of one KV head, for tokens [first, first + n).
static void attend_rows(const struct pass *p, int kv_head, int head, int n_heads, int first, int n, struct lane *l) {
	const struct decoder *d = p->d;
	size_t dim = (size_t)d->info->head_dim, stride = (size_t)d->info->n_head * dim;
	int last_block = (p->c->first_pos + first + n - 1) / KV_BLOCK_TOKENS;
	for (int b = 0; b <= last_block; b++) {
		l->k_blocks[b] = maskstore_k(d->store, p->c->blocks[b], p->i_layer, kv_head);
		l->v_blocks[b] = maskstore_v(d->store, p->c->blocks[b], p->i_layer, kv_head);
	}
	int n_rows = 0;
	for (int t = first; t < first + n; t++) {
		for (int h = head; h < head + n_heads; h++, n_rows++) {
			l->q[n_rows] = d->q + (size_t)t * stride + (size_t)h * dim;
			l->out[n_rows] = d->attended + (size_t)t * stride + (size_t)h * dim;
			l->pos[n_rows] = p->c->first_pos + t;
			l->mask[n_rows] = p->c->masks ? p->c->masks[t] : NULL;
		}
	}
	d->k->attention(&(struct attention_args){
		.kv_type = d->kv_type, .head_dim = d->info->head_dim, .n_rows = n_rows, .scale = d->scale, .q = l->q, .out = l->out, .pos = l->pos,
		.k_blocks = l->k_blocks, .v_blocks = l->v_blocks, .mask = p->c->masks ? l->mask : NULL, .scratch = l->attention, .cancel = p->c->cancel,
	});
}

// Items are (KV head, group of tokens, part of the query heads); query heads are split only where threads would idle otherwise. Groups are of nearly
// equal size, and every other head takes them in reverse, since later ones look at more positions.
static void attend(void *arg, int i_thread, int n_threads) {
	const struct pass *p = arg;
	const struct model_info *i = p->d->info;
	int heads = i->n_head / i->n_head_kv; // query heads that share a KV head
	int n_tokens = p->c->n_tokens - p->first, most = p->d->max_rows / heads;
	int n_groups = (n_tokens + most - 1) / most;
	int n_parts = (n_threads + i->n_head_kv * n_groups - 1) / (i->n_head_kv * n_groups);
	n_parts = at_most(n_parts, heads);
	int n_items = i->n_head_kv * n_groups * n_parts;
	for (int item = i_thread; item < n_items && !cancelled(p); item += n_threads) {
		int part = item % n_parts, group = item / n_parts % n_groups, kv_head = item / n_parts / n_groups;
		int begin, end, first, last;
		pool_split(heads, 1, part, n_parts, &begin, &end);
		pool_split(n_tokens, 1, kv_head % 2 ? n_groups - 1 - group : group, n_groups, &first, &last);
		attend_rows(p, kv_head, kv_head * heads + begin, end - begin, p->first + first, last - first, &p->d->lanes[i_thread]);
	}
}

static void quantize_stage(const struct pass *p, const float *x, int k, int i_thread, int n_threads) {
	int begin, end;
	token_range(p, i_thread, n_threads, &begin, &end);
	for (int t = begin; t < end && !cancelled(p); t++)
		quantize_token(p, stream_of(p, i_thread), x + (size_t)t * (size_t)k, t, k);
}

static void quantize_attended(void *arg, int i_thread, int n_threads) {
	const struct pass *p = arg;
	quantize_stage(p, p->d->attended, p->d->info->n_head * p->d->info->head_dim, i_thread, n_threads);
}

static void quantize_gated(void *arg, int i_thread, int n_threads) {
	const struct pass *p = arg;
	quantize_stage(p, p->d->gate, p->d->info->n_ff, i_thread, n_threads);
}

// projected = w · x over this thread's rows.
static void project(const struct pass *p, const struct weight *w, const float *x, int i_thread, int n_threads) {
	int begin, end;
	pool_split(w->n_rows, ROW_UNIT, i_thread, n_threads, &begin, &end);
	multiply(p, w, begin, end, stream_of(p, i_thread), x, p->first, p->c->n_tokens - p->first, p->d->projected, (size_t)w->n_rows, i_thread);
}

static void project_output(void *arg, int i_thread, int n_threads) {
	const struct pass *p = arg;
	project(p, &p->l->o, p->d->attended, i_thread, n_threads);
}

static void project_down(void *arg, int i_thread, int n_threads) {
	const struct pass *p = arg;
	project(p, &p->l->down, p->d->gate, i_thread, n_threads);
}

static void normalise_ffn(void *arg, int i_thread, int n_threads) {
	const struct pass *p = arg;
	normalise(p, p->l->ffn_norm, true, i_thread, n_threads);
}

// gate = silu(gate · h) * (up · h) over this thread's rows of both.
static void gate_up(void *arg, int i_thread, int n_threads) {
	const struct pass *p = arg;
	const struct decoder *d = p->d;
	const struct stream *s = stream_of(p, i_thread);
	int n_ff = d->info->n_ff, n = p->c->n_tokens - p->first, begin, end;
	pool_split(n_ff, ROW_UNIT, i_thread, n_threads, &begin, &end);
	multiply(p, &p->l->gate, begin, end, s, s->h, p->first, n, d->gate, (size_t)n_ff, i_thread);
	multiply(p, &p->l->up, begin, end, s, s->h, p->first, n, d->up, (size_t)n_ff, i_thread);
	for (int t = p->first; t < p->c->n_tokens && begin < end && !cancelled(p); t++) {
		size_t at = (size_t)t * (size_t)n_ff + (size_t)begin;
		d->k->swiglu(d->gate + at, d->up + at, d->gate + at, end - begin);
	}
}

static void normalise_output(void *arg, int i_thread, int n_threads) {
	const struct pass *p = arg;
	normalise(p, p->d->w->output_norm, true, i_thread, n_threads);
}

// Logits of n_logits tokens from i_head on, as one product. The first one's row offset is taken off, so that `logits` begins with it.
static void head(void *arg, int i_thread, int n_threads) {
	const struct pass *p = arg;
	const struct weight *w = &p->d->w->head;
	const struct stream *s = stream_of(p, i_thread);
	struct stream one = {.act = s->act + (size_t)p->i_head * (size_t)(w->k / 32)};
	int begin, end;
	pool_split(w->n_rows, ROW_UNIT, i_thread, n_threads, &begin, &end);
	multiply(p, w, begin, end, &one, s->h + (size_t)p->i_head * (size_t)w->k, 0, p->n_logits, p->c->logits, (size_t)w->n_rows, i_thread);
}

// Logits of every token, each handed to the caller; those of the last one stay.
static bool head_each(struct pass *p) {
	if (!run(p, normalise_output, NULL))
		return false;
	p->n_logits = 1;
	for (p->i_head = 0; p->i_head < p->c->n_tokens; p->i_head++) {
		if (!run(p, NULL, head))
			return false;
		p->c->each(p->c->each_user, (size_t)(p->c->first_pos + p->i_head), p->c->logits);
	}
	return true;
}

enum err decoder_forward(struct decoder *d, const struct decoder_chunk *c) {
	assert(c->n_tokens >= 1 && c->n_tokens <= d->max_tokens && c->n_logits <= c->n_tokens && (!c->each || c->n_logits));
	struct pass p = {.d = d, .c = c, .alone = c->n_tokens == 1};
	if (!run(&p, embed, NULL))
		return ERR_CANCELLED;
	for (p.i_layer = 0; p.i_layer < d->info->n_layer; p.i_layer++) {
		p.l = &d->w->layers[p.i_layer];
		if (!run(&p, normalise_attention, project_qkv))
			return ERR_CANCELLED;
		// Past the last layer's keys and values only tokens whose logits are wanted go on.
		if (p.i_layer == d->info->n_layer - 1 && !c->each)
			p.first = c->n_tokens - c->n_logits;
		if (p.i_layer == d->info->n_layer - 1 && !c->n_logits)
			return ERR_OK;
		if (!run(&p, NULL, attend) || !run(&p, quantize_attended, project_output) || !run(&p, normalise_ffn, gate_up) ||
		    !run(&p, quantize_gated, project_down))
			return ERR_CANCELLED;
	}
	if (c->each)
		return head_each(&p) ? ERR_OK : ERR_CANCELLED;
	p.n_logits = c->n_logits;
	p.i_head = c->n_tokens - c->n_logits;
	return run(&p, normalise_output, head) ? ERR_OK : ERR_CANCELLED;
}
