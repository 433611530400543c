// SPDX-License-Identifier: MIT
// The tokenizer: vocabulary, merge rules and special tokens of a GGUF file put together.
//
// Encoding cuts the text into pieces (pretokenize.c) and merges bytes inside each (bpe.c). No normalisation; special tokens
// are never recognised in text. Immutable after creation; scratch memory belongs to each call.
#include "model/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "model/bpe.h"
#include "model/fim.h"
#include "model/pretokenize.h"
#include "model/vocab.h"

struct tokenizer {
	enum pretokenizer pre;
	struct vocab vocab;
	struct bpe bpe;
	struct string_table bytes; // what each token stands for; nothing for special ones
	token_id *by_beginning;    // [n]: ids in the order of beginning_of, ascending in each
	uint32_t *beginning_at;    // [N_BEGINNINGS + 1]: where each begins
	bool *ends;                // [n]
	struct arena arena;        // owns the tables above
	struct fim_tokens fim;
	token_id bos;
};

void token_list_finish(struct token_list *l) {
	free(l->ids);
	*l = (struct token_list){0};
}

enum err token_list_push(struct token_list *l, token_id id) {
	if (l->n == l->cap) {
		size_t cap = l->cap ? 2 * l->cap : 256;
		token_id *ids = cap > SIZE_MAX / sizeof *ids ? NULL : realloc(l->ids, cap * sizeof *ids);
		if (!ids)
			return ERR_NOMEM;
		l->ids = ids;
		l->cap = cap;
	}
	l->ids[l->n++] = id;
	return ERR_OK;
}

// Names as llama.cpp writes them; those in one group have the same regular expressions there.
static enum err find_pretokenizer(const struct gguf *g, enum pretokenizer *out, struct err_msg *msg) {
	static const struct {
		const char *name;
		enum pretokenizer pre;
	} known[] = {{"qwen2", PRETOKENIZER_QWEN2}, {"deepseek-r1-qwen", PRETOKENIZER_QWEN2}, {"smollm", PRETOKENIZER_SMOLLM}};
	struct gguf_str s;
	if (!gguf_get_str(g, "tokenizer.ggml.model", &s) || s.len_bytes != 4 || memcmp(s.data, "gpt2", 4) != 0)
		return err_set(msg, ERR_UNSUPPORTED, "\"tokenizer.ggml.model\" is not \"gpt2\" (byte-level BPE); use a Qwen2.5-Coder or SmolLM2 model");
	if (!gguf_get_str(g, "tokenizer.ggml.pre", &s))
		return err_set(msg, ERR_UNSUPPORTED, "\"tokenizer.ggml.pre\" is missing, so its way to split words is unknown; use a file of a current converter");
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (s.len_bytes == strlen(known[i].name) && memcmp(s.data, known[i].name, s.len_bytes) == 0) {
			*out = known[i].pre;
			return ERR_OK;
		}
	return err_set(msg, ERR_UNSUPPORTED, "\"tokenizer.ggml.pre\" is none of \"qwen2\" and \"smollm\"; use a Qwen2.5-Coder or SmolLM2 model");
}

#define N_BEGINNINGS (256 * 257)

static enum err make_tables(struct tokenizer *t, struct err_msg *msg) {
	size_t n = (size_t)t->vocab.n, n_text_bytes = t->vocab.text.at[n];
	size_t bytes_bytes = n_text_bytes + 1; // bytes are never more than their text
	size_t at_bytes = (n + 1) * sizeof *t->bytes.at, ids_bytes = (n + 1) * sizeof *t->by_beginning;
	size_t beginnings_bytes = (N_BEGINNINGS + 2) * sizeof *t->beginning_at, ends_bytes = n * sizeof *t->ends;
	if (arena_init(&t->arena, arena_size(bytes_bytes) + arena_size(at_bytes) + arena_size(ids_bytes) + arena_size(beginnings_bytes) + arena_size(ends_bytes)))
		return err_set(msg, ERR_NOMEM, "no memory for the tokenizer");
	t->bytes.data = arena_alloc(&t->arena, bytes_bytes);
	t->bytes.at = arena_alloc(&t->arena, at_bytes);
	t->by_beginning = arena_alloc(&t->arena, ids_bytes);
	t->beginning_at = arena_alloc(&t->arena, beginnings_bytes);
	t->ends = arena_alloc(&t->arena, ends_bytes);
	return ERR_OK;
}

// Decodes all tokens once, so that looking one up costs nothing.
static void build_bytes(struct tokenizer *t) {
	int n = t->vocab.n;
	uint32_t at = 0;
	for (token_id id = 0; id < n; id++) {
		t->bytes.at[id] = at;
		if (!t->vocab.special[id])
			at += (uint32_t)text_to_bytes(vocab_text(&t->vocab, id), t->bytes.data + at);
	}
	t->bytes.at[n] = at;
}

// --- byte trie: a token of one byte is (byte, -1), a longer one (byte, next byte)

static size_t beginning_of(uint8_t first, int second) {
	return (size_t)first * 257 + (size_t)(second + 1);
}

// N_BEGINNINGS for a token without bytes.
static size_t beginning_of_token(const struct tokenizer *t, token_id id) {
	uint32_t at = t->bytes.at[id], n_bytes = t->bytes.at[id + 1] - at;
	const uint8_t *bytes = (const uint8_t *)t->bytes.data + at;
	return n_bytes ? beginning_of(bytes[0], n_bytes > 1 ? bytes[1] : -1) : N_BEGINNINGS;
}

// Counts, then places: a sort that keeps ids ascending.
static void build_trie(struct tokenizer *t) {
	uint32_t *at = t->beginning_at + 1; // one ahead while placing, so that in the end each is where it begins
	for (token_id id = 0; id < t->vocab.n; id++)
		at[beginning_of_token(t, id)]++;
	for (size_t i = N_BEGINNINGS + 1, sum = 0, n; i-- > 0; at[i] = (uint32_t)((size_t)t->vocab.n - sum)) {
		n = at[i];
		sum += n;
	}
	for (token_id id = 0; id < t->vocab.n; id++)
		t->by_beginning[at[beginning_of_token(t, id)]++] = id;
}

const token_id *tokenizer_beginning(const struct tokenizer *t, uint8_t first, int second, size_t *n) {
	size_t i = beginning_of(first, second);
	*n = t->beginning_at[i + 1] - t->beginning_at[i];
	return t->by_beginning + t->beginning_at[i];
}

static enum err find_specials(struct tokenizer *t, const struct gguf *g, struct err_msg *msg) {
	enum err e = fim_find(&t->vocab, g, &t->fim, t->ends, msg);
	bool add_bos = false;
	t->bos = TOKEN_NONE;
	if (!e && gguf_get_bool(g, "tokenizer.ggml.add_bos_token", &add_bos) && add_bos)
		e = special_id(&t->vocab, g, "tokenizer.ggml.bos_token_id", &t->bos, msg);
	return e;
}

static enum err build(struct tokenizer *t, const struct gguf *g, struct err_msg *msg) {
	enum err e = find_pretokenizer(g, &t->pre, msg);
	if (!e)
		e = vocab_init(&t->vocab, g, msg);
	if (!e)
		e = make_tables(t, msg);
	if (!e)
		e = find_specials(t, g, msg); // before the rules: they may not use special tokens
	if (!e)
		e = bpe_init(&t->bpe, g, &t->vocab, msg);
	if (e)
		return e;
	build_bytes(t);
	build_trie(t);
	return ERR_OK;
}

enum err tokenizer_create(const struct gguf *g, struct tokenizer **out, struct err_msg *msg) {
	struct tokenizer *t = calloc(1, sizeof *t);
	enum err e = t ? build(t, g, msg) : err_set(msg, ERR_NOMEM, "no memory for the tokenizer");
	if (e) {
		tokenizer_destroy(t);
		return err_prefix(msg, e, "%s", gguf_path(g));
	}
	*out = t;
	return ERR_OK;
}

void tokenizer_destroy(struct tokenizer *t) {
	if (!t)
		return;
	vocab_finish(&t->vocab);
	bpe_finish(&t->bpe);
	arena_finish(&t->arena);
	free(t);
}

bool tokenizer_seam(const struct tokenizer *t, const char *text, size_t n_bytes, size_t at) {
	return pretokenize_seam(t->pre, text, n_bytes, at);
}

enum err tokenizer_encode(const struct tokenizer *t, const char *text, size_t n_bytes, struct token_list *out) {
	struct bpe_scratch scratch = {0};
	enum err e = ERR_OK;
	for (size_t at = 0; !e && at < n_bytes;) {
		size_t n = pretokenize_next(t->pre, text + at, n_bytes - at);
		e = bpe_encode(&t->bpe, text + at, n, &scratch, out);
		at += n;
	}
	bpe_scratch_finish(&scratch);
	return e;
}

static bool known(const struct tokenizer *t, token_id id) {
	return id >= 0 && id < t->vocab.n;
}

const char *tokenizer_bytes(const struct tokenizer *t, token_id id, size_t *len_bytes) {
	*len_bytes = known(t, id) ? t->bytes.at[id + 1] - t->bytes.at[id] : 0;
	return known(t, id) ? t->bytes.data + t->bytes.at[id] : "";
}

const char *tokenizer_text(const struct tokenizer *t, token_id id, size_t *len_bytes) {
	struct gguf_str s = known(t, id) ? vocab_text(&t->vocab, id) : (struct gguf_str){"", 0};
	*len_bytes = s.len_bytes;
	return s.data;
}

int tokenizer_n_vocab(const struct tokenizer *t) {
	return t->vocab.n;
}

bool tokenizer_is_special(const struct tokenizer *t, token_id id) {
	return known(t, id) && t->vocab.special[id];
}

bool tokenizer_is_end(const struct tokenizer *t, token_id id) {
	return known(t, id) && t->ends[id];
}

token_id tokenizer_bos(const struct tokenizer *t) {
	return t->bos;
}

const struct fim_tokens *tokenizer_fim(const struct tokenizer *t) {
	return &t->fim;
}
