// SPDX-License-Identifier: MIT
// Binds GGUF tensors to the decoder's weights, each shape checked against the hyper-parameters.
//
// Names and shapes: ggml's docs/gguf.md ("Standardized tensor names") and llama.cpp's loaders of `qwen2` and `llama`. A tensor that
// is in the file but not bound would be ignored by the forward pass and give wrong text, so it is refused.
// Invariant: after weights_bind every pointer in struct weights covers exactly the shape in its comment, so that the decoder
// checks nothing. Threads: one at load; immutable afterwards.
#include "model/weights.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAX_VOCAB (1 << 22)

// What binding needs everywhere.
struct binder {
	const struct gguf *g;
	const struct kernels *k;
	struct model_info *info;
	struct weights *w;
	struct err_msg *msg;
	size_t n_bound; // tensors of the file bound so far
};

static const struct gguf_tensor *find(const struct binder *b, const char *name) {
	return gguf_tensor_find(b->g, name);
}

static enum err missing(const struct binder *b, const char *name) {
	return err_set(b->msg, ERR_FORMAT, "%s: tensor %s is missing", gguf_path(b->g), name);
}

static enum err check_shape(const struct binder *b, const char *name, const struct gguf_tensor *t, int k, int n_rows) {
	if (t->dims[0] == (uint64_t)k && t->dims[1] == (uint64_t)n_rows && t->dims[2] == 1 && t->dims[3] == 1)
		return ERR_OK;
	return err_set(b->msg, ERR_FORMAT, "%s: tensor %s has shape %llu x %llu, the hyper-parameters need %d x %d", gguf_path(b->g), name,
	               (unsigned long long)t->dims[0], (unsigned long long)t->dims[1], k, n_rows);
}

// A matrix in place. Rows of quantised types are whole blocks, and a block holds whole 32-value activation blocks.
static enum err bind_matrix(struct binder *b, const char *name, int k, int n_rows, struct weight *out) {
	const struct gguf_tensor *t = find(b, name);
	if (!t)
		return missing(b, name);
	enum err e = check_shape(b, name, t, k, n_rows);
	if (e != ERR_OK)
		return e;
	struct dtype_info d = dtype_info(t->type);
	if (!d.name || k % d.block_elems)
		return err_set(b->msg, ERR_FORMAT, "%s: tensor %s: rows of %d values are not whole blocks of its type", gguf_path(b->g), name, k);
	if (t->size_bytes < dtype_row_bytes(t->type, k) * (size_t)n_rows)
		return err_set(b->msg, ERR_FORMAT, "%s: tensor %s is shorter than its shape", gguf_path(b->g), name);
	*out = (struct weight){.data = t->data, .type = t->type, .n_rows = n_rows, .k = k};
	b->n_bound++;
	return ERR_OK;
}

// A vector, converted to f32.
static enum err bind_vector(struct binder *b, const char *name, int n, const float **out) {
	struct weight w;
	enum err e = bind_matrix(b, name, n, 1, &w);
	if (e != ERR_OK)
		return e;
	float *v = arena_alloc(&b->w->arena, (size_t)n * sizeof *v);
	if (!v)
		return err_set(b->msg, ERR_NOMEM, "%s: no memory for the tensor %s", gguf_path(b->g), name);
	b->k->dequantize_row(&w, 0, v);
	*out = v;
	return ERR_OK;
}

static enum err bind_bias(struct binder *b, int i_layer, const char *part, int n, const float **out) {
	char name[64];
	snprintf(name, sizeof name, "blk.%d.attn_%s.bias", i_layer, part);
	return bind_vector(b, name, n, out);
}

static enum err bind_biases(struct binder *b, int i_layer, struct layer_weights *l) {
	const struct model_info *i = b->info;
	if (!i->qkv_bias)
		return ERR_OK; // a bias here would stay unbound and be refused at the end
	enum err e = bind_bias(b, i_layer, "q", i->n_head * i->head_dim, &l->q_bias);
	if (e == ERR_OK)
		e = bind_bias(b, i_layer, "k", i->n_head_kv * i->head_dim, &l->k_bias);
	if (e == ERR_OK)
		e = bind_bias(b, i_layer, "v", i->n_head_kv * i->head_dim, &l->v_bias);
	return e;
}

static enum err bind_layer(struct binder *b, int i_layer, struct layer_weights *l) {
	const struct model_info *i = b->info;
	int n_q = i->n_head * i->head_dim, n_kv = i->n_head_kv * i->head_dim;
	const struct {
		const char *part;
		int k, n_rows;
		struct weight *out;
	} matrices[] = {
		{"attn_q", i->n_embd, n_q, &l->q},     {"attn_k", i->n_embd, n_kv, &l->k},
		{"attn_v", i->n_embd, n_kv, &l->v},    {"attn_output", n_q, i->n_embd, &l->o},
		{"ffn_gate", i->n_embd, i->n_ff, &l->gate}, {"ffn_up", i->n_embd, i->n_ff, &l->up},
		{"ffn_down", i->n_ff, i->n_embd, &l->down},
	};
	char name[64];
	for (size_t m = 0; m < sizeof matrices / sizeof matrices[0]; m++) {
		snprintf(name, sizeof name, "blk.%d.%s.weight", i_layer, matrices[m].part);
		enum err e = bind_matrix(b, name, matrices[m].k, matrices[m].n_rows, matrices[m].out);
		if (e != ERR_OK)
			return e;
	}
	snprintf(name, sizeof name, "blk.%d.attn_norm.weight", i_layer);
	enum err e = bind_vector(b, name, i->n_embd, &l->attn_norm);
	if (e != ERR_OK)
		return e;
	snprintf(name, sizeof name, "blk.%d.ffn_norm.weight", i_layer);
	e = bind_vector(b, name, i->n_embd, &l->ffn_norm);
	return e == ERR_OK ? bind_biases(b, i_layer, l) : e;
}

// Frequencies as transformers computes them in f32: 1 / theta^(2i/d), divided by the file's factors where it has some
// (Llama 3 long-context files; llama.cpp does the same).
static enum err bind_frequencies(struct binder *b) {
	int half = b->info->head_dim / 2;
	float *inv_freq = arena_alloc(&b->w->arena, (size_t)half * sizeof *inv_freq);
	if (!inv_freq)
		return err_set(b->msg, ERR_NOMEM, "%s: no memory for RoPE", gguf_path(b->g));
	const float *factors = NULL;
	if (find(b, "rope_freqs.weight")) {
		enum err e = bind_vector(b, "rope_freqs.weight", half, &factors);
		if (e != ERR_OK)
			return e;
	}
	for (int i = 0; i < half; i++) {
		float exponent = (float)(2 * i) / (float)b->info->head_dim;
		inv_freq[i] = 1.0f / (float)pow((double)b->info->rope_theta, (double)exponent);
		if (factors)
			inv_freq[i] /= factors[i];
		if (!isfinite(inv_freq[i]))
			return err_set(b->msg, ERR_FORMAT, "%s: the RoPE frequencies are not finite", gguf_path(b->g));
	}
	b->w->inv_freq = inv_freq;
	return ERR_OK;
}

static enum err bind_outer(struct binder *b) {
	struct model_info *i = b->info;
	enum err e = bind_matrix(b, "token_embd.weight", i->n_embd, i->n_vocab, &b->w->token_embd);
	if (e == ERR_OK)
		e = bind_vector(b, "output_norm.weight", i->n_embd, &b->w->output_norm);
	if (e == ERR_OK)
		e = bind_frequencies(b);
	if (e != ERR_OK)
		return e;
	i->tied_head = !find(b, "output.weight");
	if (!i->tied_head)
		return bind_matrix(b, "output.weight", i->n_embd, i->n_vocab, &b->w->head);
	b->w->head = b->w->token_embd;
	return ERR_OK;
}

static size_t matrix_bytes(const struct weight *w) {
	return dtype_row_bytes(w->type, w->k) * (size_t)w->n_rows;
}

static void count_bytes(struct binder *b) {
	struct model_info *i = b->info;
	i->weight_bytes = 0;
	for (size_t t = 0; t < gguf_n_tensors(b->g); t++)
		i->weight_bytes += gguf_tensor_at(b->g, t)->size_bytes;
	i->weight_bytes_per_token = i->weight_bytes - (i->tied_head ? 0 : matrix_bytes(&b->w->token_embd));
}

// A tensor that nothing bound, for the message: one whose name is of no known form, or one of a layer past the last.
static enum err refuse_rest(const struct binder *b) {
	static const char *const known[] = {"token_embd.weight", "output_norm.weight", "output.weight", "rope_freqs.weight"};
	static const char *const parts[] = {"attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down"};
	for (size_t t = 0; t < gguf_n_tensors(b->g); t++) {
		struct gguf_str n = gguf_tensor_at(b->g, t)->name;
		bool bound = false;
		for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
			bound |= n.len_bytes == strlen(known[i]) && !memcmp(n.data, known[i], n.len_bytes);
		char name[96], part[96];
		int layer = -1;
		snprintf(name, sizeof name, "%.*s", (int)(n.len_bytes < 90 ? n.len_bytes : 90), n.data);
		if (!bound && sscanf(name, "blk.%d.%90[a-z_]", &layer, part) == 2 && layer >= 0 && layer < b->info->n_layer) {
			bool bias = strlen(name) > 5 && !strcmp(name + strlen(name) - 5, ".bias");
			for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
				bound |= !strcmp(part, parts[i]) && (!bias || (b->info->qkv_bias && i >= 1 && i <= 3));
		}
		if (!bound)
			return err_set(b->msg, ERR_UNSUPPORTED, "%s: tensor %s is not part of a %s model that maskstore knows", gguf_path(b->g), name,
			               b->info->arch);
	}
	return err_set(b->msg, ERR_FORMAT, "%s: tensors occur twice", gguf_path(b->g));
}

static size_t vectors_bytes(const struct model_info *i) {
	size_t per_layer = 2 * arena_size((size_t)i->n_embd * sizeof(float));
	if (i->qkv_bias)
		per_layer += arena_size((size_t)i->n_head * (size_t)i->head_dim * sizeof(float)) +
		             2 * arena_size((size_t)i->n_head_kv * (size_t)i->head_dim * sizeof(float));
	return per_layer * (size_t)i->n_layer + arena_size(sizeof(struct layer_weights) * (size_t)i->n_layer) +
	       arena_size((size_t)i->n_embd * sizeof(float)) + 2 * arena_size((size_t)i->head_dim * sizeof(float));
}

static enum err bind_all(struct binder *b) {
	enum err e = bind_outer(b);
	for (int i = 0; e == ERR_OK && i < b->info->n_layer; i++)
		e = bind_layer(b, i, &b->w->layers[i]);
	if (e == ERR_OK && b->n_bound != gguf_n_tensors(b->g))
		e = refuse_rest(b);
	return e;
}

enum err weights_bind(const struct gguf *g, const struct kernels *k, struct model_info *info, struct weights *out, struct err_msg *msg) {
	struct weights w = {0};
	struct binder b = {.g = g, .k = k, .info = info, .w = &w, .msg = msg};
	const struct gguf_tensor *embd = find(&b, "token_embd.weight");
	if (!embd)
		return missing(&b, "token_embd.weight");
	if (embd->dims[1] < 1 || embd->dims[1] > MAX_VOCAB)
		return err_set(msg, ERR_FORMAT, "%s: tensor token_embd.weight has %llu rows", gguf_path(g), (unsigned long long)embd->dims[1]);
	info->n_vocab = (int)embd->dims[1];
	enum err e = check_shape(&b, "token_embd.weight", embd, info->n_embd, info->n_vocab);
	if (e != ERR_OK)
		return e;
	info->qkv_bias = find(&b, "blk.0.attn_q.bias") != NULL;
	// Before any size is trusted: a file with fewer tensors than layers cannot be complete.
	if ((size_t)info->n_layer * 9 > gguf_n_tensors(g))
		return err_set(msg, ERR_FORMAT, "%s: %zu tensors are too few for %d blocks: some are missing", gguf_path(g), gguf_n_tensors(g), info->n_layer);
	if (arena_init(&w.arena, vectors_bytes(info)) != ERR_OK)
		return err_set(msg, ERR_NOMEM, "%s: no memory for its vectors", gguf_path(g));
	w.layers = arena_alloc(&w.arena, sizeof w.layers[0] * (size_t)info->n_layer);
	e = bind_all(&b);
	if (e != ERR_OK) {
		arena_finish(&w.arena);
		return e;
	}
	count_bytes(&b);
	*out = w;
	return ERR_OK;
}

void weights_finish(struct weights *w) {
	arena_finish(&w->arena);
}
