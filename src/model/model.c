// SPDX-License-Identifier: MIT
// Opens a model: file, hyper-parameters, weights, tokenizer.
//
// Hyper-parameters are read by the names of ggml's docs/gguf.md, `<arch>.…`. Everything that would change the arithmetic and
// that the decoder does not do (experts, sliding windows, scaled RoPE, partial rotation) is refused with a reason, never ignored.
// Invariants after model_open: every count in model_info is ≥ 1 and small enough that products of two of them fit an int;
// n_head is a multiple of n_head_kv; head_dim is a multiple of 8. Threads: one at load; immutable afterwards.
#include "model/model.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "maskstore/maskstore.h"
#include "model/gguf.h"
#include "model/prefetch.h"
#include "model/weights.h"

// Far above any model that fits a computer of today, low enough that products stay in an int.
#define MAX_LAYERS 1024
#define MAX_WIDTH (1 << 17)  // n_embd and n_head · head_dim
#define MAX_FF (1 << 20)
#define MAX_HEAD_DIM 1024
#define HEAD_DIM_UNIT 8      // lanes of the attention kernels

struct model {
	struct model_info info;
	struct weights weights;
	struct gguf *gguf;
	struct tokenizer *tokenizer;
	const struct kernels *kernels;
	struct prefetch *prefetch; // owned; null: none asked for
	char *name; // owned, behind info.name
};

// Reads of `<arch>.<suffix>`.
struct reader {
	const struct gguf *g;
	const char *arch;
	struct err_msg *msg;
};

static const char *key_of(const struct reader *r, const char *suffix, char key[96]) {
	snprintf(key, 96, "%s.%s", r->arch, suffix);
	return key;
}

// A count in 1..max. Where it is missing: `fallback`, or an error if that is 0.
static enum err read_count(const struct reader *r, const char *suffix, int max, int fallback, int *out) {
	char key[96];
	uint32_t v = 0;
	if (!gguf_get_u32(r->g, key_of(r, suffix, key), &v)) {
		enum gguf_type type;
		size_t n;
		if (gguf_get_array(r->g, key, &type, &n))
			return err_set(r->msg, ERR_UNSUPPORTED, "%s: %s differs by layer, which maskstore cannot do", gguf_path(r->g), key);
		if (!fallback)
			return err_set(r->msg, ERR_FORMAT, "%s: %s is missing or no number", gguf_path(r->g), key);
		*out = fallback;
		return ERR_OK;
	}
	if (v < 1 || v > (uint32_t)max)
		return err_set(r->msg, ERR_FORMAT, "%s: %s is %u, must be 1 to %d", gguf_path(r->g), key, v, max);
	*out = (int)v;
	return ERR_OK;
}

// A positive finite number. Where it is missing: `fallback`, or an error if that is 0.
static enum err read_positive(const struct reader *r, const char *suffix, float fallback, float *out) {
	char key[96];
	float v = fallback;
	if (!gguf_get_f32(r->g, key_of(r, suffix, key), &v) && fallback == 0.0f)
		return err_set(r->msg, ERR_FORMAT, "%s: %s is missing or no number", gguf_path(r->g), key);
	if (!isfinite(v) || v <= 0.0f)
		return err_set(r->msg, ERR_FORMAT, "%s: %s is %g, must be above 0", gguf_path(r->g), key, (double)v);
	*out = v;
	return ERR_OK;
}

static bool str_is(struct gguf_str s, const char *text) {
	return s.len_bytes == strlen(text) && !memcmp(s.data, text, s.len_bytes);
}

static enum err read_arch(const struct gguf *g, struct model_info *info, struct err_msg *msg) {
	struct gguf_str arch;
	if (!gguf_get_str(g, "general.architecture", &arch))
		return err_set(msg, ERR_FORMAT, "%s: general.architecture is missing", gguf_path(g));
	info->arch = str_is(arch, "qwen2") ? "qwen2" : str_is(arch, "llama") ? "llama" : NULL;
	if (!info->arch)
		return err_set(msg, ERR_UNSUPPORTED, "%s: architecture \"%.*s\" is not supported: use a qwen2 or llama model", gguf_path(g),
		               (int)(arch.len_bytes < 64 ? arch.len_bytes : 64), arch.data);
	info->rope_neox = info->arch[0] == 'q'; // llama files have their q and k rows permuted for pairs (2i, 2i + 1)
	return ERR_OK;
}

static enum err read_sizes(const struct reader *r, struct model_info *i) {
	enum err e = read_count(r, "block_count", MAX_LAYERS, 0, &i->n_layer);
	if (e == ERR_OK)
		e = read_count(r, "embedding_length", MAX_WIDTH, 0, &i->n_embd);
	if (e == ERR_OK)
		e = read_count(r, "feed_forward_length", MAX_FF, 0, &i->n_ff);
	if (e == ERR_OK)
		e = read_count(r, "attention.head_count", MAX_WIDTH, 0, &i->n_head);
	if (e == ERR_OK)
		e = read_count(r, "attention.head_count_kv", MAX_WIDTH, i->n_head, &i->n_head_kv);
	if (e == ERR_OK)
		e = read_count(r, "context_length", INT32_MAX, INT32_MAX, &i->n_ctx_train);
	return e;
}

static enum err read_heads(const struct reader *r, struct model_info *i) {
	const char *path = gguf_path(r->g);
	if (i->n_head % i->n_head_kv)
		return err_set(r->msg, ERR_FORMAT, "%s: %d heads cannot share %d KV heads evenly", path, i->n_head, i->n_head_kv);
	int even = i->n_embd % i->n_head ? 0 : i->n_embd / i->n_head;
	char key[96];
	if (!even && !gguf_get_u32(r->g, key_of(r, "attention.key_length", key), &(uint32_t){0}))
		return err_set(r->msg, ERR_FORMAT, "%s: %d values cannot be shared by %d heads evenly, and %s is missing", path, i->n_embd, i->n_head, key);
	int value_dim = 0;
	enum err e = read_count(r, "attention.key_length", MAX_HEAD_DIM, even <= MAX_HEAD_DIM ? even : 0, &i->head_dim);
	if (e == ERR_OK)
		e = read_count(r, "attention.value_length", MAX_HEAD_DIM, i->head_dim, &value_dim);
	if (e != ERR_OK)
		return e;
	if (value_dim != i->head_dim)
		return err_set(r->msg, ERR_UNSUPPORTED, "%s: keys of %d and values of %d differ in size, which maskstore cannot do", path, i->head_dim, value_dim);
	if (i->head_dim % HEAD_DIM_UNIT)
		return err_set(r->msg, ERR_UNSUPPORTED, "%s: head size %d is not a multiple of %d, which the attention kernels need", path, i->head_dim, HEAD_DIM_UNIT);
	if ((long long)i->n_head * i->head_dim > MAX_WIDTH)
		return err_set(r->msg, ERR_FORMAT, "%s: %d heads of %d are impossible", path, i->n_head, i->head_dim);
	i->tiers_allowed = i->head_dim % MASKSTORE_GRANULARITY == 0;
	return ERR_OK;
}

static enum err read_rope(const struct reader *r, struct model_info *i) {
	const char *path = gguf_path(r->g);
	int n_rot = 0;
	enum err e = read_count(r, "rope.dimension_count", MAX_HEAD_DIM, i->head_dim, &n_rot);
	if (e == ERR_OK)
		e = read_positive(r, "rope.freq_base", 10000.0f, &i->rope_theta);
	if (e != ERR_OK)
		return e;
	if (n_rot != i->head_dim)
		return err_set(r->msg, ERR_UNSUPPORTED, "%s: RoPE on %d of %d values is not supported", path, n_rot, i->head_dim);
	char key[96];
	struct gguf_str type;
	if (gguf_get_str(r->g, key_of(r, "rope.scaling.type", key), &type) && !str_is(type, "none") && !str_is(type, "linear"))
		return err_set(r->msg, ERR_UNSUPPORTED, "%s: RoPE scaling \"%.*s\" is not supported", path, (int)(type.len_bytes < 64 ? type.len_bytes : 64), type.data);
	float factor = 1.0f;
	if ((gguf_get_f32(r->g, key_of(r, "rope.scaling.factor", key), &factor) || gguf_get_f32(r->g, key_of(r, "rope.scale_linear", key), &factor)) &&
	    factor != 1.0f)
		return err_set(r->msg, ERR_UNSUPPORTED, "%s: RoPE scaling by %g is not supported", path, (double)factor);
	return ERR_OK;
}

static enum err refuse_experts(const struct reader *r) {
	char key[96];
	uint32_t n = 0;
	if (gguf_get_u32(r->g, key_of(r, "expert_count", key), &n) && n > 0)
		return err_set(r->msg, ERR_UNSUPPORTED, "%s: mixtures of experts are not supported", gguf_path(r->g));
	return ERR_OK;
}

static enum err read_info(const struct gguf *g, struct model_info *info, struct err_msg *msg) {
	info->path = gguf_path(g);
	enum err e = read_arch(g, info, msg);
	if (e != ERR_OK)
		return e;
	struct reader r = {.g = g, .arch = info->arch, .msg = msg};
	e = refuse_experts(&r);
	if (e == ERR_OK)
		e = read_sizes(&r, info);
	if (e == ERR_OK)
		e = read_heads(&r, info);
	if (e == ERR_OK)
		e = read_rope(&r, info);
	if (e == ERR_OK)
		e = read_positive(&r, "attention.layer_norm_rms_epsilon", 0.0f, &info->rms_eps);
	return e;
}

// general.name as a C string, or the file's name.
static char *copy_name(const struct gguf *g) {
	struct gguf_str name;
	if (gguf_get_str(g, "general.name", &name) && name.len_bytes && name.len_bytes < 256)
		return strndup(name.data, name.len_bytes);
	const char *slash = strrchr(gguf_path(g), '/');
	return strdup(slash ? slash + 1 : gguf_path(g));
}

// From the first tensor's data to the end of the last one's.
static struct prefetch *prefetch_tensors(const struct gguf *g) {
	uintptr_t begin = UINTPTR_MAX, end = 0;
	for (size_t i = 0; i < gguf_n_tensors(g); i++) {
		const struct gguf_tensor *t = gguf_tensor_at(g, i);
		uintptr_t at = (uintptr_t)t->data;
		begin = at < begin ? at : begin;
		end = at + t->size_bytes > end ? at + t->size_bytes : end;
	}
	return begin < end ? prefetch_start((const void *)begin, end - begin) : NULL;
}

static enum err build(struct model *m, bool prefetch, struct err_msg *msg) {
	enum err e = read_info(m->gguf, &m->info, msg);
	if (e == ERR_OK && prefetch)
		m->prefetch = prefetch_tensors(m->gguf);
	if (e == ERR_OK)
		e = weights_bind(m->gguf, m->kernels, &m->info, &m->weights, msg);
	if (e == ERR_OK)
		e = tokenizer_create(m->gguf, &m->tokenizer, msg);
	if (e != ERR_OK)
		return e;
	if (tokenizer_n_vocab(m->tokenizer) != m->info.n_vocab)
		return err_set(msg, ERR_FORMAT, "%s: %d tokens, but token_embd.weight has %d rows", gguf_path(m->gguf), tokenizer_n_vocab(m->tokenizer),
		               m->info.n_vocab);
	m->name = copy_name(m->gguf);
	if (!m->name)
		return err_set(msg, ERR_NOMEM, "%s: no memory for its name", gguf_path(m->gguf));
	m->info.name = m->name;
	return ERR_OK;
}

static enum err open_model(const char *path, const struct kernels *k, bool prefetch, struct model **out, struct err_msg *msg) {
	struct model *m = calloc(1, sizeof *m);
	if (!m)
		return err_set(msg, ERR_NOMEM, "%s: no memory for a model", path);
	m->kernels = k;
	enum err e = gguf_open(path, &m->gguf, msg);
	if (e == ERR_OK)
		e = build(m, prefetch, msg);
	if (e != ERR_OK) {
		model_close(m);
		return e;
	}
	*out = m;
	return ERR_OK;
}

enum err model_open(const char *path, const struct kernels *k, struct model **out, struct err_msg *msg) {
	return open_model(path, k, false, out, msg);
}

enum err model_open_prefetching(const char *path, const struct kernels *k, struct model **out, struct err_msg *msg) {
	return open_model(path, k, true, out, msg);
}

void model_close(struct model *m) {
	if (!m)
		return;
	prefetch_stop(m->prefetch);
	tokenizer_destroy(m->tokenizer);
	weights_finish(&m->weights);
	if (m->gguf)
		gguf_close(m->gguf);
	free(m->name);
	free(m);
}

const struct model_info *model_info(const struct model *m) {
	return &m->info;
}

const struct tokenizer *model_tokenizer(const struct model *m) {
	return m->tokenizer;
}

const struct kernels *model_kernels(const struct model *m) {
	return m->kernels;
}

const struct weights *model_weights(const struct model *m) {
	return &m->weights;
}
