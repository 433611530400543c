// SPDX-License-Identifier: MIT
// A small GGUF writer (format: ggml's docs/gguf.md, version 3). Tensors are random; quantised blocks are random bytes whose
// scales are set so that the weights' deviation is about 1/sqrt(k).
#include "tiny_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"

#define ALIGNMENT 32
#define MAX_TENSORS 64

// Numbers of value types in the file (docs/gguf.md).
enum { KIND_U32 = 4, KIND_I32 = 5, KIND_F32 = 6, KIND_BOOL = 7, KIND_STR = 8, KIND_ARRAY = 9 };

struct tensor {
	char name[64];
	int k, n_rows, n_dims;
	enum dtype type;
	float mean, deviation;
};

struct writer {
	const struct tiny_options *o;
	struct buf pairs;
	uint64_t n_pairs;
	struct tensor tensors[MAX_TENSORS];
	int n_tensors, turn;
	uint64_t seed;
};

uint32_t tiny_draw(uint64_t *state, uint32_t n) { // xorshift64*
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return (uint32_t)((*state * 0x2545F4914F6CDD1DULL) >> 33) % n;
}

// Roughly normal, deviation 1.
static float draw_normal(uint64_t *state) {
	float sum = 0;
	for (int i = 0; i < 12; i++)
		sum += (float)tiny_draw(state, 1 << 20) / (float)(1 << 20);
	return sum - 6.0f;
}

static void put_u32(struct buf *b, uint32_t v) {
	buf_append(b, &v, sizeof v);
}

static void put_u64(struct buf *b, uint64_t v) {
	buf_append(b, &v, sizeof v);
}

static void put_f32(struct buf *b, float v) {
	buf_append(b, &v, sizeof v);
}

static void put_str(struct buf *b, const char *text, size_t n) {
	put_u64(b, n);
	buf_append(b, text, n);
}

// Starts a pair unless a fault replaces it.
static bool start_pair(struct writer *w, const char *key, uint32_t kind) {
	for (int i = 0; i < w->o->n_pairs; i++)
		if (!strcmp(w->o->pairs[i].key, key))
			return false;
	put_str(&w->pairs, key, strlen(key));
	put_u32(&w->pairs, kind);
	w->n_pairs++;
	return true;
}

static void pair_u32(struct writer *w, const char *key, uint32_t v) {
	if (start_pair(w, key, KIND_U32))
		put_u32(&w->pairs, v);
}

static void pair_f32(struct writer *w, const char *key, float v) {
	if (start_pair(w, key, KIND_F32))
		put_f32(&w->pairs, v);
}

static void pair_str(struct writer *w, const char *key, const char *v) {
	if (start_pair(w, key, KIND_STR))
		put_str(&w->pairs, v, strlen(v));
}

static void put_fault_pairs(struct writer *w) {
	for (int i = 0; i < w->o->n_pairs; i++) {
		const struct tiny_pair *p = &w->o->pairs[i];
		if (p->kind == TINY_OMIT)
			continue;
		static const uint32_t kinds[] = {KIND_U32, KIND_F32, KIND_STR, KIND_ARRAY};
		put_str(&w->pairs, p->key, strlen(p->key));
		put_u32(&w->pairs, kinds[p->kind]);
		w->n_pairs++;
		if (p->kind == TINY_U32) {
			put_u32(&w->pairs, p->u32);
		} else if (p->kind == TINY_F32) {
			put_f32(&w->pairs, p->f32);
		} else if (p->kind == TINY_STR) {
			put_str(&w->pairs, p->text, strlen(p->text));
		} else {
			put_u32(&w->pairs, KIND_U32);
			put_u64(&w->pairs, 1);
			put_u32(&w->pairs, p->u32);
		}
	}
}

// GPT-2's printable stand-in of a byte.
static size_t byte_letter(int byte, char out[4]) {
	bool plain = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
	int n_before = byte; // bytes below that have no letter of their own
	if (!plain) {
		n_before = 0;
		for (int b = 0; b < byte; b++)
			n_before += !((b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE);
		n_before += 256;
	}
	return utf8_encode((uint32_t)n_before, out);
}

static void put_tokenizer(struct writer *w) {
	static const char *const specials[] = {"<|endoftext|>", "<|im_end|>", "<|fim_pad|>", "<|file_sep|>"};
	bool qwen = !strcmp(w->o->arch, "qwen2");
	pair_str(w, "tokenizer.ggml.model", "gpt2");
	pair_str(w, "tokenizer.ggml.pre", qwen ? "qwen2" : "smollm");
	if (start_pair(w, "tokenizer.ggml.tokens", KIND_ARRAY)) {
		put_u32(&w->pairs, KIND_STR);
		put_u64(&w->pairs, TINY_VOCAB);
		for (int b = 0; b < 256; b++) {
			char letter[4];
			put_str(&w->pairs, letter, byte_letter(b, letter));
		}
		put_str(&w->pairs, "in", 2);
		for (int i = 0; i < 4; i++)
			put_str(&w->pairs, specials[i], strlen(specials[i]));
	}
	if (start_pair(w, "tokenizer.ggml.token_type", KIND_ARRAY)) {
		put_u32(&w->pairs, KIND_I32);
		put_u64(&w->pairs, TINY_VOCAB);
		for (int i = 0; i < TINY_VOCAB; i++)
			put_u32(&w->pairs, i < 257 ? 1 : 3);
	}
	if (start_pair(w, "tokenizer.ggml.merges", KIND_ARRAY)) {
		put_u32(&w->pairs, KIND_STR);
		put_u64(&w->pairs, 1);
		put_str(&w->pairs, "i n", 3);
	}
	pair_u32(w, "tokenizer.ggml.eos_token_id", 257);
}

static void put_metadata(struct writer *w) {
	const struct tiny_options *o = w->o;
	const struct {
		const char *suffix;
		int value;
	} counts[] = {
		{"block_count", o->n_layer},          {"embedding_length", o->n_embd},       {"feed_forward_length", o->n_ff},
		{"attention.head_count", o->n_head},  {"attention.head_count_kv", o->n_head_kv}, {"context_length", 4096},
		{"attention.key_length", o->head_dim}, {"attention.value_length", o->head_dim},
	};
	char key[96];
	pair_str(w, "general.architecture", o->arch);
	pair_str(w, "general.name", "tiny");
	for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
		snprintf(key, sizeof key, "%s.%s", o->arch, counts[i].suffix);
		pair_u32(w, key, (uint32_t)counts[i].value);
	}
	snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", o->arch);
	pair_f32(w, key, 1e-6f);
	snprintf(key, sizeof key, "%s.rope.freq_base", o->arch);
	pair_f32(w, key, 10000.0f);
	put_tokenizer(w);
	put_fault_pairs(w);
}

static void add_tensor(struct writer *w, const char *name, struct tensor t) {
	if (w->o->omit_tensor && !strcmp(name, w->o->omit_tensor))
		return;
	if (w->o->short_tensor && !strcmp(name, w->o->short_tensor))
		*(t.n_dims == 1 ? &t.k : &t.n_rows) -= 1;
	snprintf(t.name, sizeof t.name, "%s", name);
	w->tensors[w->n_tensors++] = t;
}

static void add_matrix(struct writer *w, const char *name, int k, int n_rows, float deviation) {
	enum dtype type = w->o->types[w->turn++ % w->o->n_types];
	add_tensor(w, name, (struct tensor){.k = k, .n_rows = n_rows, .n_dims = 2, .type = type, .deviation = deviation});
}

static void add_vector(struct writer *w, const char *name, int n, float mean, float deviation) {
	add_tensor(w, name, (struct tensor){.k = n, .n_rows = 1, .n_dims = 1, .type = DTYPE_F32, .mean = mean, .deviation = deviation});
}

static void add_layer(struct writer *w, int i) {
	const struct tiny_options *o = w->o;
	int n_q = o->n_head * o->head_dim, n_kv = o->n_head_kv * o->head_dim;
	float d_embd = 1.0f / sqrtf((float)o->n_embd);
	const struct {
		const char *part;
		int k, n_rows;
		float deviation;
	} matrices[] = {
		{"attn_q", o->n_embd, n_q, 2 * d_embd},  {"attn_k", o->n_embd, n_kv, 2 * d_embd},
		{"attn_v", o->n_embd, n_kv, d_embd},     {"attn_output", n_q, o->n_embd, 1.0f / sqrtf((float)n_q)},
		{"ffn_gate", o->n_embd, o->n_ff, d_embd}, {"ffn_up", o->n_embd, o->n_ff, d_embd},
		{"ffn_down", o->n_ff, o->n_embd, 1.0f / sqrtf((float)o->n_ff)},
	};
	char name[64];
	for (size_t m = 0; m < sizeof matrices / sizeof matrices[0]; m++) {
		snprintf(name, sizeof name, "blk.%d.%s.weight", i, matrices[m].part);
		add_matrix(w, name, matrices[m].k, matrices[m].n_rows, matrices[m].deviation);
		snprintf(name, sizeof name, "blk.%d.%s.bias", i, matrices[m].part);
		if (o->bias && m < 3)
			add_vector(w, name, matrices[m].n_rows, 0.0f, 0.5f);
	}
	snprintf(name, sizeof name, "blk.%d.attn_norm.weight", i);
	add_vector(w, name, o->n_embd, 1.0f, 0.1f);
	snprintf(name, sizeof name, "blk.%d.ffn_norm.weight", i);
	add_vector(w, name, o->n_embd, 1.0f, 0.1f);
}

static void add_tensors(struct writer *w) {
	const struct tiny_options *o = w->o;
	add_matrix(w, "token_embd.weight", o->n_embd, TINY_VOCAB, 1.0f);
	for (int i = 0; i < o->n_layer; i++)
		add_layer(w, i);
	add_vector(w, "output_norm.weight", o->n_embd, 1.0f, 0.1f);
	if (!o->tied)
		add_matrix(w, "output.weight", o->n_embd, TINY_VOCAB, 1.0f / sqrtf((float)o->n_embd));
	if (o->extra_tensor)
		add_vector(w, o->extra_tensor, o->extra_n, 2.0f, 0.0f);
}

static size_t tensor_bytes(const struct tensor *t) {
	return dtype_row_bytes(t->type, t->k) * (size_t)t->n_rows;
}

static size_t aligned(size_t n) {
	return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

// f16 bits of a normal positive value, truncated.
static uint16_t half_bits(float v) {
	uint32_t bits;
	memcpy(&bits, &v, sizeof bits);
	uint32_t sign = bits >> 16 & 0x8000;
	int exponent = (int)(bits >> 23 & 255) - 127 + 15;
	if (exponent < 1)
		return (uint16_t)sign;
	return (uint16_t)(sign | (uint32_t)exponent << 10 | (bits >> 13 & 1023));
}

static void put_half(uint8_t *to, float v) {
	uint16_t bits = half_bits(v);
	memcpy(to, &bits, sizeof bits);
}

// Scales of a block of random codes: where they lie, and which value gives the codes (and their minimum) unit deviation.
static const struct scale_rule {
	enum dtype type;
	int d_at, m_at;         // offsets; -1: none
	float codes_deviation;  // of the decoded integers
	float m_ratio;          // minimum over scale
} SCALES[] = {
	{DTYPE_Q4_0, 0, -1, 4.6f, 0},   {DTYPE_Q4_1, 0, 2, 4.6f, -7.5f},   {DTYPE_Q5_0, 0, -1, 9.2f, 0}, {DTYPE_Q5_1, 0, 2, 9.2f, -15.5f},
	{DTYPE_Q8_0, 0, -1, 74.0f, 0},  {DTYPE_Q4_K, 0, 2, 160.0f, 7.5f},  {DTYPE_Q5_K, 0, 2, 320.0f, 15.5f}, {DTYPE_Q6_K, 208, -1, 1360.0f, 0},
};

static void fill_block(const struct tensor *t, uint8_t *block, int n_bytes, uint64_t *seed) {
	const struct scale_rule *s = SCALES;
	while (s->type != t->type)
		s++;
	for (int i = 0; i < n_bytes; i++) {
		block[i] = (uint8_t)tiny_draw(seed, 256);
		if (t->type == DTYPE_Q8_0 && block[i] == 128)
			block[i] = 129; // quantisers never write -128
	}
	float d = t->deviation / s->codes_deviation * (0.5f + (float)tiny_draw(seed, 1000) / 1000.0f);
	put_half(block + s->d_at, d);
	if (s->m_at >= 0)
		put_half(block + s->m_at, d * s->m_ratio);
}

static void fill_floats(const struct tensor *t, uint8_t *to, uint64_t *seed) {
	for (size_t i = 0; i < (size_t)t->k * (size_t)t->n_rows; i++) {
		float v = t->mean + t->deviation * draw_normal(seed);
		uint32_t bits;
		memcpy(&bits, &v, sizeof bits);
		uint16_t high = (uint16_t)(bits >> 16);
		if (t->type == DTYPE_F32)
			memcpy(to + 4 * i, &v, 4);
		else if (t->type == DTYPE_F16)
			put_half(to + 2 * i, v);
		else
			memcpy(to + 2 * i, &high, 2);
	}
}

static void fill_tensor(const struct tensor *t, uint8_t *to, uint64_t *seed) {
	struct dtype_info d = dtype_info(t->type);
	if (!d.quantised) {
		fill_floats(t, to, seed);
		return;
	}
	for (size_t at = 0; at < tensor_bytes(t); at += (size_t)d.block_bytes)
		fill_block(t, to + at, d.block_bytes, seed);
}

static void put_header(struct writer *w, struct buf *b) {
	buf_append(b, "GGUF", 4);
	put_u32(b, 3);
	put_u64(b, (uint64_t)w->n_tensors);
	put_u64(b, w->n_pairs);
	buf_append(b, w->pairs.data, w->pairs.len_bytes);
	size_t offset = 0;
	for (int i = 0; i < w->n_tensors; i++) {
		const struct tensor *t = &w->tensors[i];
		put_str(b, t->name, strlen(t->name));
		put_u32(b, (uint32_t)t->n_dims);
		put_u64(b, (uint64_t)t->k);
		if (t->n_dims == 2)
			put_u64(b, (uint64_t)t->n_rows);
		put_u32(b, t->type);
		put_u64(b, offset);
		offset = aligned(offset + tensor_bytes(t));
	}
}

static void put_padding(struct buf *b) {
	static const char zeros[ALIGNMENT];
	buf_append(b, zeros, aligned(b->len_bytes) - b->len_bytes);
}

bool tiny_write(const char *path, const struct tiny_options *o) {
	struct writer w = {.o = o, .seed = o->seed * 0x9E3779B97F4A7C15ULL + 1};
	struct buf b = {0};
	put_metadata(&w);
	add_tensors(&w);
	put_header(&w, &b);
	put_padding(&b);
	for (int i = 0; i < w.n_tensors; i++) {
		size_t n_bytes = tensor_bytes(&w.tensors[i]);
		if (!buf_reserve(&b, n_bytes))
			break;
		fill_tensor(&w.tensors[i], (uint8_t *)b.data + b.len_bytes, &w.seed);
		b.len_bytes += n_bytes;
		put_padding(&b);
	}
	FILE *f = b.failed ? NULL : fopen(path, "wb");
	bool ok = f && fwrite(b.data, 1, b.len_bytes, f) == b.len_bytes;
	if (f && fclose(f) != 0)
		ok = false;
	buf_finish(&b);
	buf_finish(&w.pairs);
	return ok;
}
