// SPDX-License-Identifier: MIT
// Byte-pair merging: symbols in a linked list, candidate merges in a binary heap.
//
// The order is that of the reference (`tokenizers`): always the candidate of the lowest rank, the leftmost among equals. A merge
// makes its neighbours' candidates stale; they are told from live ones when they come up, because a live candidate's rule
// must still match the two symbols that stand there. A piece of n bytes pushes fewer than 3n candidates, so the heap
// never grows while merging.
#include "model/bpe.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

#define MAX_PIECE_BYTES (1u << 30)
#define MIN_SCRATCH 256

struct bpe_symbol {
	int32_t prev, next; // -1: none
	token_id id;        // TOKEN_NONE: merged into an earlier symbol
};

struct bpe_candidate {
	uint64_t order; // rank << 32 | index of the left symbol
	uint32_t slot;  // of the rule
};

// ---- rules ---------------------------------------------------------------------------------------------------------

static uint64_t make_pair(token_id left, token_id right) {
	return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

// The slot that holds the rule of this pair, or the empty one where it belongs.
static size_t find_slot(const struct bpe *b, uint64_t pair) {
	uint64_t h = pair * 0x9e3779b97f4a7c15u; // 2^64 / golden ratio: its high bits depend on all bits of the pair
	size_t i = (size_t)(h >> 32);
	while (b->rules[i & (b->n_slots - 1)].rank != BPE_NO_RANK && b->rules[i & (b->n_slots - 1)].pair != pair)
		i++;
	return i & (b->n_slots - 1);
}

// Parses "left right" and stores the rule. The texts' alphabet has no blank, so the only one separates them.
static bool add_rule(struct bpe *b, const struct vocab *v, struct gguf_str text, uint32_t rank, char *joined) {
	const char *blank = text.len_bytes ? memchr(text.data, ' ', text.len_bytes) : NULL;
	if (!blank || blank == text.data)
		return false;
	size_t n_left = (size_t)(blank - text.data), n_right = text.len_bytes - n_left - 1;
	memcpy(joined, text.data, n_left);
	memcpy(joined + n_left, blank + 1, n_right);
	token_id left = vocab_find(v, text.data, n_left), right = vocab_find(v, blank + 1, n_right);
	token_id result = vocab_find(v, joined, n_left + n_right);
	if (left == TOKEN_NONE || right == TOKEN_NONE || result == TOKEN_NONE)
		return false;
	if (v->special[left] || v->special[right] || v->special[result])
		return false;
	struct bpe_rule *r = &b->rules[find_slot(b, make_pair(left, right))];
	if (r->rank == BPE_NO_RANK)
		*r = (struct bpe_rule){make_pair(left, right), rank, result};
	return true;
}

static enum err add_rules(struct bpe *b, const struct vocab *v, const struct gguf_str *texts, size_t n, struct err_msg *msg) {
	size_t longest = 0;
	for (size_t i = 0; i < n; i++)
		longest = texts[i].len_bytes > longest ? texts[i].len_bytes : longest;
	char *joined = malloc(longest + 1);
	if (!joined)
		return err_set(msg, ERR_NOMEM, "no memory for the tokenizer");
	enum err e = ERR_OK;
	for (size_t i = 0; !e && i < n; i++)
		if (!add_rule(b, v, texts[i], (uint32_t)i, joined))
			e = err_set(msg, ERR_FORMAT, "merge %zu of \"tokenizer.ggml.merges\" does not join two normal tokens into a third", i);
	free(joined);
	return e;
}

static enum err read_rules(struct bpe *b, const struct gguf *g, const struct vocab *v, struct err_msg *msg) {
	enum gguf_type type;
	size_t n;
	if (!gguf_get_array(g, "tokenizer.ggml.merges", &type, &n) || type != GGUF_STRING)
		return err_set(msg, ERR_FORMAT, "\"tokenizer.ggml.merges\" is missing or not an array of strings");
	if (n > (1u << 28))
		return err_set(msg, ERR_FORMAT, "\"tokenizer.ggml.merges\" has %zu entries, which is absurd", n);
	b->n_slots = 2;
	while (b->n_slots < n + n / 2)
		b->n_slots *= 2;
	b->rules = malloc(b->n_slots * sizeof *b->rules);
	struct gguf_str *texts = malloc((n ? n : 1) * sizeof *texts);
	enum err e = ERR_OK;
	if (!b->rules || !texts)
		e = err_set(msg, ERR_NOMEM, "no memory for the tokenizer");
	for (size_t i = 0; !e && i < b->n_slots; i++)
		b->rules[i].rank = BPE_NO_RANK;
	if (!e && gguf_get_str_array(g, "tokenizer.ggml.merges", texts, n))
		e = add_rules(b, v, texts, n, msg);
	free(texts);
	return e;
}

enum err bpe_init(struct bpe *b, const struct gguf *g, const struct vocab *v, struct err_msg *msg) {
	*b = (struct bpe){0};
	for (int byte = 0; byte < 256; byte++) {
		char text[4];
		token_id id = vocab_find(v, text, utf8_encode(byte_to_char((uint8_t)byte), text));
		b->byte_token[byte] = id != TOKEN_NONE && !v->special[id] ? id : TOKEN_NONE;
	}
	return read_rules(b, g, v, msg);
}

void bpe_finish(struct bpe *b) {
	free(b->rules);
	b->rules = NULL;
}

// ---- merging -------------------------------------------------------------------------------------------------------

static void push(struct bpe_candidate *heap, size_t *n, struct bpe_candidate c) {
	size_t at = (*n)++;
	for (; at > 0 && heap[(at - 1) / 2].order > c.order; at = (at - 1) / 2)
		heap[at] = heap[(at - 1) / 2];
	heap[at] = c;
}

static struct bpe_candidate pop(struct bpe_candidate *heap, size_t *n) {
	struct bpe_candidate top = heap[0], last = heap[--*n];
	size_t at = 0;
	for (size_t child; (child = 2 * at + 1) < *n; at = child) {
		child += child + 1 < *n && heap[child + 1].order < heap[child].order;
		if (heap[child].order >= last.order)
			break;
		heap[at] = heap[child];
	}
	heap[at] = last;
	return top;
}

// Pushes the merge of symbol `left` with its successor, if there is a rule.
static void propose(const struct bpe *b, struct bpe_scratch *s, size_t *n_heap, int32_t left) {
	if (left < 0 || s->symbols[left].next < 0)
		return;
	size_t slot = find_slot(b, make_pair(s->symbols[left].id, s->symbols[s->symbols[left].next].id));
	if (b->rules[slot].rank != BPE_NO_RANK)
		push(s->heap, n_heap, (struct bpe_candidate){(uint64_t)b->rules[slot].rank << 32 | (uint32_t)left, (uint32_t)slot});
}

static void merge_all(const struct bpe *b, struct bpe_scratch *s, int32_t n_symbols) {
	struct bpe_symbol *symbols = s->symbols;
	size_t n_heap = 0;
	for (int32_t i = 0; i + 1 < n_symbols; i++)
		propose(b, s, &n_heap, i);
	while (n_heap) {
		struct bpe_candidate c = pop(s->heap, &n_heap);
		const struct bpe_rule *rule = &b->rules[c.slot];
		struct bpe_symbol *left = &symbols[(uint32_t)c.order];
		int32_t right = left->next;
		if (left->id == TOKEN_NONE || right < 0 || make_pair(left->id, symbols[right].id) != rule->pair)
			continue; // stale
		left->id = rule->result;
		left->next = symbols[right].next;
		symbols[right].id = TOKEN_NONE;
		if (left->next >= 0)
			symbols[left->next].prev = (int32_t)(left - symbols);
		propose(b, s, &n_heap, left->prev);
		propose(b, s, &n_heap, (int32_t)(left - symbols));
	}
}

static enum err reserve(struct bpe_scratch *s, size_t n) {
	if (n > MAX_PIECE_BYTES)
		return ERR_LIMIT;
	if (n <= s->cap)
		return ERR_OK;
	size_t cap = n < MIN_SCRATCH ? MIN_SCRATCH : n + n / 2;
	bpe_scratch_finish(s);
	s->symbols = malloc(cap * sizeof *s->symbols);
	s->heap = malloc(3 * cap * sizeof *s->heap);
	if (!s->symbols || !s->heap)
		return ERR_NOMEM;
	s->cap = cap;
	return ERR_OK;
}

void bpe_scratch_finish(struct bpe_scratch *s) {
	free(s->symbols);
	free(s->heap);
	*s = (struct bpe_scratch){0};
}

enum err bpe_encode(const struct bpe *b, const char *piece, size_t n_bytes, struct bpe_scratch *s, struct token_list *out) {
	enum err e = reserve(s, n_bytes);
	if (e)
		return e;
	int32_t n = 0;
	for (size_t i = 0; i < n_bytes; i++) {
		token_id id = b->byte_token[(uint8_t)piece[i]];
		if (id == TOKEN_NONE)
			continue;
		s->symbols[n] = (struct bpe_symbol){n - 1, n + 1, id};
		n++;
	}
	if (n == 0)
		return ERR_OK;
	s->symbols[n - 1].next = -1;
	merge_all(b, s, n);
	for (int32_t i = 0; !e && i >= 0; i = s->symbols[i].next)
		e = token_list_push(out, s->symbols[i].id);
	return e;
}
