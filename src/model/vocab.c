// SPDX-License-Identifier: MIT
// The token table. Sizes are bounded by the file's, since every token has at least a length in it. Immutable once built.
#include "model/vocab.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

// Far above published vocabularies (262,144), low enough that ids and offsets cannot overflow.
#define MAX_VOCAB (1 << 22)

// Values of tokenizer.ggml.token_type (llama.cpp's enum llama_token_type); 2 to 6 are unknown, control, user-defined, unused, byte.
enum { TYPE_UNDEFINED = 0, TYPE_NORMAL = 1, TYPE_LAST = 6 };

#define CHAR_END 324 // first character above the byte alphabet: 256 + the 68 bytes that do not stand for themselves

static bool stands_for_itself(uint32_t c) {
	return (c >= 33 && c <= 126) || (c >= 161 && c <= 172) || (c >= 174 && c <= 255);
}

uint32_t byte_to_char(uint8_t byte) {
	if (stands_for_itself(byte))
		return byte;
	uint32_t c = 256;
	for (uint32_t b = 0; b < byte; b++)
		c += !stands_for_itself(b);
	return c;
}

// The byte behind a character of the alphabet, or -1.
static int char_to_byte(uint32_t c) {
	if (c < 256)
		return stands_for_itself(c) ? (int)c : -1;
	if (c >= CHAR_END)
		return -1;
	uint32_t left = c - 256;
	for (int b = 0; b < 256; b++)
		if (!stands_for_itself((uint32_t)b) && left-- == 0)
			return b;
	return -1;
}

size_t text_to_bytes(struct gguf_str text, char *out) {
	size_t n = 0;
	for (size_t at = 0; at < text.len_bytes;) {
		uint32_t c = 0;
		size_t len = utf8_decode(text.data + at, text.len_bytes - at, &c);
		int byte = len ? char_to_byte(c) : -1;
		if (byte < 0) {
			memcpy(out, text.data, text.len_bytes);
			return text.len_bytes;
		}
		out[n++] = (char)byte;
		at += len;
	}
	return n;
}

struct gguf_str vocab_text(const struct vocab *v, token_id id) {
	uint32_t begin = v->text.at[id], end = v->text.at[id + 1];
	return (struct gguf_str){v->text.data + begin, end - begin};
}

// FNV-1a.
static uint64_t hash(const char *text, size_t n_bytes) {
	uint64_t h = 0xcbf29ce484222325u;
	for (size_t i = 0; i < n_bytes; i++)
		h = (h ^ (uint8_t)text[i]) * 0x100000001b3u;
	return h ^ h >> 32;
}

// The slot that holds this text, or the empty one where it belongs.
static token_id *find_slot(const struct vocab *v, const char *text, size_t n_bytes) {
	for (size_t i = (size_t)hash(text, n_bytes);; i++) {
		token_id *slot = &v->slots[i & (v->n_slots - 1)];
		if (*slot == TOKEN_NONE)
			return slot;
		struct gguf_str s = vocab_text(v, *slot);
		if (s.len_bytes == n_bytes && memcmp(s.data, text, n_bytes) == 0)
			return slot;
	}
}

token_id vocab_find(const struct vocab *v, const char *text, size_t n_bytes) {
	return *find_slot(v, text, n_bytes);
}

static enum err no_memory(struct err_msg *msg) {
	return err_set(msg, ERR_NOMEM, "no memory for the tokenizer");
}

static enum err copy_texts(struct vocab *v, const struct gguf_str *texts, struct err_msg *msg) {
	size_t total = 0;
	for (int i = 0; i < v->n; i++)
		total += texts[i].len_bytes; // within the file: cannot overflow
	if (total > UINT32_MAX)
		return err_set(msg, ERR_FORMAT, "\"tokenizer.ggml.tokens\" holds %zu bytes of text, which is absurd", total);
	v->text.data = malloc(total + 1);
	v->text.at = malloc(((size_t)v->n + 1) * sizeof *v->text.at);
	if (!v->text.data || !v->text.at)
		return no_memory(msg);
	uint32_t at = 0;
	for (int i = 0; i < v->n; i++) {
		v->text.at[i] = at;
		if (texts[i].len_bytes)
			memcpy(v->text.data + at, texts[i].data, texts[i].len_bytes);
		at += (uint32_t)texts[i].len_bytes;
	}
	v->text.at[v->n] = at;
	return ERR_OK;
}

static enum err read_texts(struct vocab *v, const struct gguf *g, struct err_msg *msg) {
	struct gguf_str *texts = malloc((size_t)v->n * sizeof *texts);
	if (!texts)
		return no_memory(msg);
	enum err e = gguf_get_str_array(g, "tokenizer.ggml.tokens", texts, (size_t)v->n)
	                     ? copy_texts(v, texts, msg)
	                     : err_set(msg, ERR_FORMAT, "\"tokenizer.ggml.tokens\" is not an array of strings");
	free(texts);
	return e;
}

static enum err check_types(struct vocab *v, const int32_t *types, struct err_msg *msg) {
	for (int i = 0; i < v->n; i++) {
		if (types[i] < TYPE_UNDEFINED || types[i] > TYPE_LAST)
			return err_set(msg, ERR_FORMAT, "\"tokenizer.ggml.token_type\" says %d for token %d (0 to %d allowed)", (int)types[i], i,
			               TYPE_LAST);
		v->special[i] = types[i] > TYPE_NORMAL;
	}
	return ERR_OK;
}

static enum err read_types(struct vocab *v, const struct gguf *g, struct err_msg *msg) {
	v->special = calloc((size_t)v->n, sizeof *v->special);
	if (!v->special)
		return no_memory(msg);
	if (!gguf_has(g, "tokenizer.ggml.token_type"))
		return ERR_OK;
	int32_t *types = malloc((size_t)v->n * sizeof *types);
	if (!types)
		return no_memory(msg);
	enum err e = gguf_get_i32_array(g, "tokenizer.ggml.token_type", types, (size_t)v->n)
	                     ? check_types(v, types, msg)
	                     : err_set(msg, ERR_FORMAT, "\"tokenizer.ggml.token_type\" is not an array of %d 32-bit integers, one a token", v->n);
	free(types);
	return e;
}

static enum err index_texts(struct vocab *v, struct err_msg *msg) {
	v->n_slots = 2;
	while (v->n_slots < 2 * (size_t)v->n)
		v->n_slots *= 2;
	v->slots = malloc(v->n_slots * sizeof *v->slots);
	if (!v->slots)
		return no_memory(msg);
	for (size_t i = 0; i < v->n_slots; i++)
		v->slots[i] = TOKEN_NONE;
	for (token_id id = 0; id < v->n; id++) {
		struct gguf_str s = vocab_text(v, id);
		token_id *slot = find_slot(v, s.data, s.len_bytes);
		if (*slot == TOKEN_NONE)
			*slot = id;
	}
	return ERR_OK;
}

enum err vocab_init(struct vocab *v, const struct gguf *g, struct err_msg *msg) {
	enum gguf_type type;
	size_t n;
	*v = (struct vocab){0};
	if (!gguf_get_array(g, "tokenizer.ggml.tokens", &type, &n))
		return err_set(msg, ERR_FORMAT, "\"tokenizer.ggml.tokens\" is missing: the file has no vocabulary");
	if (n == 0 || n > MAX_VOCAB)
		return err_set(msg, ERR_FORMAT, "\"tokenizer.ggml.tokens\" has %zu tokens (1 to %d allowed)", n, MAX_VOCAB);
	v->n = (int)n;
	enum err e = read_texts(v, g, msg);
	if (!e)
		e = read_types(v, g, msg);
	if (!e)
		e = index_texts(v, msg);
	return e;
}

void vocab_finish(struct vocab *v) {
	free(v->text.data);
	free(v->text.at);
	free(v->special);
	free(v->slots);
	*v = (struct vocab){0};
}
