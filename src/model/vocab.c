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

// The 68 bytes that do not stand for themselves, in ascending order, are the characters from 256 on: 0..32, 127..160, 173.
#define CHAR_127 (256 + 33)
#define CHAR_173 (CHAR_127 + 34)

static bool stands_for_itself(uint32_t c) {
	return (c >= 33 && c <= 126) || (c >= 161 && c <= 172) || (c >= 174 && c <= 255);
}

uint32_t byte_to_char(uint8_t byte) {
	if (stands_for_itself(byte))
		return byte;
	return byte == 173 ? CHAR_173 : byte < 127 ? 256u + byte : CHAR_127 + byte - 127u;
}

// The byte behind a character of the alphabet, or -1.
static int char_to_byte(uint32_t c) {
	if (c < 256)
		return stands_for_itself(c) ? (int)c : -1;
	if (c < CHAR_127)
		return (int)c - 256;
	return c < CHAR_173 ? (int)c - CHAR_127 + 127 : c == CHAR_173 ? 173 : -1;
}

// As utf8_decode; what the alphabet adds to ASCII has two bytes each.
static size_t decode_char(const char *text, size_t n_bytes, uint32_t *c) {
	uint8_t lead = (uint8_t)text[0], next = n_bytes > 1 ? (uint8_t)text[1] : 0;
	if (lead < 0xc2 || lead > 0xc5 || (next & 0xc0) != 0x80)
		return utf8_decode(text, n_bytes, c);
	*c = (lead & 0x1fu) << 6 | (next & 0x3fu);
	return 2;
}

size_t text_to_bytes(struct gguf_str text, char *out) {
	size_t n = 0;
	for (size_t at = 0; at < text.len_bytes;) {
		uint32_t c = (uint8_t)text.data[at];
		size_t len = c < 0x80 ? 1 : decode_char(text.data + at, text.len_bytes - at, &c);
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

// ---- hash table ----------------------------------------------------------------------------------------------------

static uint64_t load_4(const char *text) {
	uint32_t w;
	memcpy(&w, text, sizeof w);
	return w;
}

static uint64_t load_8(const char *text) {
	uint64_t w;
	memcpy(&w, text, sizeof w);
	return w;
}

// A text of 1 to 8 bytes as one word that differs for any two of one length: loads of fixed size that overlap.
static uint64_t load_rest(const char *text, size_t n) {
	if (n >= 4)
		return load_4(text) | load_4(text + n - 4) << 32;
	return (uint64_t)(uint8_t)text[0] | (uint64_t)(uint8_t)text[n / 2] << 8 | (uint64_t)(uint8_t)text[n - 1] << 16;
}

static uint64_t mix(uint64_t h, uint64_t word) {
	h = (h ^ word) * 0x9e3779b97f4a7c15u; // 2^64 / golden ratio: the upper bits depend on all
	return h ^ h >> 32;
}

uint64_t vocab_hash(const char *text, size_t n_bytes) {
	uint64_t h = n_bytes;
	size_t at = 0;
	for (; n_bytes - at > 8; at += 8)
		h = mix(h, load_8(text + at));
	return at < n_bytes ? mix(h, load_rest(text + at, n_bytes - at)) : h;
}

// The slot that holds this text, or the empty one where it belongs.
static struct vocab_slot *find_slot(const struct vocab *v, uint64_t hash, const char *text, size_t n_bytes) {
	for (size_t i = (size_t)hash;; i++) {
		struct vocab_slot *slot = &v->slots[i & (v->n_slots - 1)];
		if (!slot->id_plus_1)
			return slot;
		if (slot->tag != hash >> 32)
			continue;
		struct gguf_str s = vocab_text(v, (token_id)slot->id_plus_1 - 1);
		if (s.len_bytes == n_bytes && memcmp(s.data, text, n_bytes) == 0)
			return slot;
	}
}

token_id vocab_find_hashed(const struct vocab *v, uint64_t hash, const char *text, size_t n_bytes) {
	return (token_id)find_slot(v, hash, text, n_bytes)->id_plus_1 - 1; // none is 0: TOKEN_NONE
}

token_id vocab_find(const struct vocab *v, const char *text, size_t n_bytes) {
	return vocab_find_hashed(v, vocab_hash(text, n_bytes), text, n_bytes);
}

static void add_text(struct vocab *v, token_id id, uint64_t hash) {
	struct gguf_str s = vocab_text(v, id);
	struct vocab_slot *slot = find_slot(v, hash, s.data, s.len_bytes);
	if (slot->id_plus_1)
		v->has_twins = true; // the first one stays
	else
		*slot = (struct vocab_slot){(uint32_t)(hash >> 32), (uint32_t)id + 1};
}

// ---- reading -------------------------------------------------------------------------------------------------------

static enum err no_memory(struct err_msg *msg) {
	return err_set(msg, ERR_NOMEM, "no memory for the tokenizer");
}

// Makes room for a vocabulary whose texts have n_text_bytes in all.
static enum err make_tables(struct vocab *v, size_t n_text_bytes, struct err_msg *msg) {
	size_t n = (size_t)v->n;
	v->n_slots = 2;
	while (v->n_slots < n + n / 2)
		v->n_slots *= 2;
	size_t slots_bytes = v->n_slots * sizeof *v->slots, at_bytes = (n + 1) * sizeof *v->text.at;
	if (arena_init(&v->arena, arena_size(slots_bytes) + arena_size(at_bytes) + arena_size(n * sizeof *v->special) + arena_size(n_text_bytes + 1)))
		return no_memory(msg);
	v->slots = arena_alloc(&v->arena, slots_bytes);
	v->text.at = arena_alloc(&v->arena, at_bytes);
	v->special = arena_alloc(&v->arena, n * sizeof *v->special);
	v->text.data = arena_alloc(&v->arena, n_text_bytes + 1);
	return ERR_OK;
}

#define BATCH 32 // slots asked for ahead

// Copies the texts and enters them into the hash table.
static void copy_texts(struct vocab *v, struct gguf_strs texts) {
	uint64_t hashes[BATCH];
	for (token_id first = 0; first < v->n; first += BATCH) {
		token_id end = v->n - first < BATCH ? v->n : first + BATCH;
		for (token_id id = first; id < end; id++) {
			struct gguf_str s = gguf_strs_next(&texts);
			uint32_t at = v->text.at[id];
			v->text.at[id + 1] = at + (uint32_t)s.len_bytes;
			memcpy(v->text.data + at, s.data, s.len_bytes);
			hashes[id - first] = vocab_hash(s.data, s.len_bytes);
			vocab_prefetch(v, hashes[id - first]);
		}
		for (token_id id = first; id < end; id++)
			add_text(v, id, hashes[id - first]);
	}
}

static enum err read_texts(struct vocab *v, const struct gguf *g, struct err_msg *msg) {
	struct gguf_strs texts;
	if (!gguf_get_strs(g, "tokenizer.ggml.tokens", &texts))
		return err_set(msg, ERR_FORMAT, "\"tokenizer.ggml.tokens\" is not an array of strings");
	size_t total = 0;
	for (struct gguf_strs walk = texts; walk.n_left;)
		total += gguf_strs_next(&walk).len_bytes; // within the file: cannot overflow
	if (total > UINT32_MAX)
		return err_set(msg, ERR_FORMAT, "\"tokenizer.ggml.tokens\" holds %zu bytes of text, which is absurd", total);
	enum err e = make_tables(v, total, msg);
	if (!e)
		copy_texts(v, texts);
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
	return e;
}

void vocab_finish(struct vocab *v) {
	arena_finish(&v->arena);
	*v = (struct vocab){0};
}
