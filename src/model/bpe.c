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

#include "base/buf.h"
#include "base/utf8.h"

#define MAX_PIECE_BYTES (1u << 30)
#define MIN_SCRATCH 256

struct bpe_symbol {
	int32_t prev, next; // -1: none
	token_id id;        // TOKEN_NONE: merged into an earlier symbol
};

struct bpe_candidate {
	uint64_t order; // (rank + 1) << 32 | index of the left symbol
	uint32_t slot;  // of the rule
};

// ---- rules ---------------------------------------------------------------------------------------------------------

static uint64_t make_pair(token_id left, token_id right) {
	return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static size_t first_slot(const struct bpe *b, uint64_t pair) {
	uint64_t h = pair * 0x9e3779b97f4a7c15u; // 2^64 / golden ratio: its high bits depend on all bits of the pair
	return (size_t)(h >> 32) & (b->n_slots - 1);
}

// The slot that holds the rule of this pair, or the empty one where it belongs.
static size_t find_slot(const struct bpe *b, uint64_t pair) {
	size_t i = first_slot(b, pair);
	while (b->rules[i].rank_plus_1 && b->rules[i].pair != pair)
		i = (i + 1) & (b->n_slots - 1);
	return i;
}

// A rule on its way from the file to its slot.
struct merge {
	struct gguf_str left, right;
	uint64_t left_hash, right_hash;
	uint64_t pair;
	token_id result;
};

// Parses "left right". The texts' alphabet has no blank, so the only one separates them.
static bool parse_merge(const struct vocab *v, struct gguf_str text, struct merge *m) {
	size_t n_left = 0;
	while (n_left < text.len_bytes && text.data[n_left] != ' ')
		n_left++;
	if (!n_left || n_left == text.len_bytes)
		return false;
	m->left = (struct gguf_str){text.data, n_left};
	m->right = (struct gguf_str){text.data + n_left + 1, text.len_bytes - n_left - 1};
	m->left_hash = vocab_hash(m->left.data, m->left.len_bytes);
	m->right_hash = vocab_hash(m->right.data, m->right.len_bytes);
	vocab_prefetch(v, m->left_hash);
	vocab_prefetch(v, m->right_hash);
	return true;
}

static bool is_joined(const struct vocab *v, token_id id, const struct merge *m) {
	struct gguf_str s = vocab_text(v, id);
	return s.len_bytes == m->left.len_bytes + m->right.len_bytes && !memcmp(s.data, m->left.data, m->left.len_bytes) &&
	       !memcmp(s.data + m->left.len_bytes, m->right.data, m->right.len_bytes);
}

// The token of both texts joined. Files list tokens in the order of the merges that make them, so it is mostly the one after the last.
static token_id find_joined(const struct vocab *v, const struct merge *m, token_id last, struct buf *joined) {
	if (!v->has_twins && last + 1 < v->n && is_joined(v, last + 1, m))
		return last + 1;
	buf_clear(joined);
	buf_append(joined, m->left.data, m->left.len_bytes);
	buf_append(joined, m->right.data, m->right.len_bytes);
	return joined->failed ? TOKEN_NONE : vocab_find(v, joined->data, joined->len_bytes);
}

static bool resolve_merge(struct bpe *b, const struct vocab *v, struct merge *m, token_id *last, struct buf *joined) {
	token_id left = vocab_find_hashed(v, m->left_hash, m->left.data, m->left.len_bytes);
	token_id right = vocab_find_hashed(v, m->right_hash, m->right.data, m->right.len_bytes);
	token_id result = find_joined(v, m, *last, joined);
	if (left == TOKEN_NONE || right == TOKEN_NONE || result == TOKEN_NONE)
		return false;
	if (v->special[left] || v->special[right] || v->special[result])
		return false;
	*last = m->result = result;
	m->pair = make_pair(left, right);
	__builtin_prefetch(&b->rules[first_slot(b, m->pair)], 1);
	return true;
}

#define BATCH 32 // slots of either table asked for ahead

static enum err add_rules(struct bpe *b, const struct vocab *v, struct gguf_strs texts, struct buf *joined, struct err_msg *msg) {
	struct merge batch[BATCH];
	token_id last = TOKEN_NONE;
	for (uint32_t rank = 0, n; texts.n_left; rank += n) {
		uint32_t n_good = 0;
		n = texts.n_left < BATCH ? (uint32_t)texts.n_left : BATCH;
		while (n_good < n && parse_merge(v, gguf_strs_next(&texts), &batch[n_good]))
			n_good++;
		for (uint32_t i = 0; i < n_good; i++)
			if (!resolve_merge(b, v, &batch[i], &last, joined))
				n_good = i; // ends the loop
		if (joined->failed)
			return err_set(msg, ERR_NOMEM, "no memory for the tokenizer");
		if (n_good < n)
			return err_set(msg, ERR_FORMAT, "merge %u of \"tokenizer.ggml.merges\" does not join two normal tokens into a third", rank + n_good);
		for (uint32_t i = 0; i < n; i++) {
			struct bpe_rule *r = &b->rules[find_slot(b, batch[i].pair)];
			if (!r->rank_plus_1)
				*r = (struct bpe_rule){batch[i].pair, rank + i + 1, batch[i].result};
		}
	}
	return ERR_OK;
}

static enum err read_rules(struct bpe *b, const struct gguf *g, const struct vocab *v, struct err_msg *msg) {
	struct gguf_strs texts;
	if (!gguf_get_strs(g, "tokenizer.ggml.merges", &texts))
		return err_set(msg, ERR_FORMAT, "\"tokenizer.ggml.merges\" is missing or not an array of strings");
	size_t n = texts.n_left;
	if (n > (1u << 28))
		return err_set(msg, ERR_FORMAT, "\"tokenizer.ggml.merges\" has %zu entries, which is absurd", n);
	b->n_slots = 2;
	while (b->n_slots < n + n / 2)
		b->n_slots *= 2;
	if (arena_init(&b->arena, b->n_slots * sizeof *b->rules) != ERR_OK)
		return err_set(msg, ERR_NOMEM, "no memory for the tokenizer");
	b->rules = arena_alloc(&b->arena, b->n_slots * sizeof *b->rules);
	struct buf joined = {0};
	enum err e = add_rules(b, v, texts, &joined, msg);
	buf_finish(&joined);
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
	arena_finish(&b->arena);
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
	if (b->rules[slot].rank_plus_1)
		push(s->heap, n_heap, (struct bpe_candidate){(uint64_t)b->rules[slot].rank_plus_1 << 32 | (uint32_t)left, (uint32_t)slot});
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
