// SPDX-License-Identifier: MIT
// A table of texts and their ids, the least recently used one replaced; short texts are not worth a place.
#include "complete/pieces.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define N_PIECES 192                // some prompts of 50 pieces
#define PIECE_MIN_BYTES 64
#define PIECES_MAX_BYTES (4u << 20) // of texts and ids together; then the oldest go

struct piece {
	char *text;      // owned; null: free
	size_t n_bytes;
	token_id *ids;   // owned
	size_t n;
	uint64_t used;
};

struct pieces {
	const struct tokenizer *tokenizer;
	struct piece table[N_PIECES];
	size_t used_bytes;
	uint64_t clock;
};

enum err pieces_create(const struct tokenizer *t, struct pieces **out) {
	struct pieces *p = calloc(1, sizeof *p);
	if (!p)
		return ERR_NOMEM;
	p->tokenizer = t;
	*out = p;
	return ERR_OK;
}

static size_t piece_bytes(const struct piece *x) {
	return x->n_bytes + x->n * sizeof *x->ids;
}

static void drop(struct pieces *p, struct piece *x) {
	p->used_bytes -= piece_bytes(x);
	free(x->text);
	free(x->ids);
	*x = (struct piece){0};
}

void pieces_destroy(struct pieces *p) {
	for (int i = 0; p && i < N_PIECES; i++)
		if (p->table[i].text)
			drop(p, &p->table[i]);
	free(p);
}

static struct piece *find(struct pieces *p, const char *text, size_t n_bytes) {
	for (int i = 0; i < N_PIECES; i++) {
		struct piece *x = &p->table[i];
		if (!x->text || x->n_bytes != n_bytes || memcmp(x->text, text, n_bytes))
			continue;
		x->used = ++p->clock;
		return x;
	}
	return NULL;
}

// A free place, others dropped for it where needed.
static struct piece *make_room(struct pieces *p, size_t n_bytes) {
	for (;;) {
		struct piece *oldest = NULL, *empty = NULL;
		for (int i = 0; i < N_PIECES; i++) {
			struct piece *x = &p->table[i];
			if (!x->text)
				empty = x;
			else if (!oldest || x->used < oldest->used)
				oldest = x;
		}
		if (empty && (p->used_bytes + n_bytes <= PIECES_MAX_BYTES || !oldest))
			return empty;
		drop(p, oldest);
	}
}

// Tokenises and remembers. Null if memory is out, or if the text is not worth it: then `list` holds the ids.
static struct piece *add(struct pieces *p, const char *text, size_t n_bytes, struct token_list *list, enum err *e) {
	*e = tokenizer_encode(p->tokenizer, text, n_bytes, list);
	if (*e != ERR_OK || n_bytes < PIECE_MIN_BYTES || n_bytes > PIECES_MAX_BYTES / 4)
		return NULL;
	char *copy = malloc(n_bytes);
	if (!copy)
		return NULL;
	memcpy(copy, text, n_bytes);
	struct piece *x = make_room(p, n_bytes + list->n * sizeof *list->ids);
	*x = (struct piece){.text = copy, .n_bytes = n_bytes, .ids = list->ids, .n = list->n, .used = ++p->clock};
	p->used_bytes += piece_bytes(x);
	*list = (struct token_list){0};
	return x;
}

enum err pieces_encode(struct pieces *p, const char *text, size_t n_bytes, struct token_list *out) {
	enum err e = ERR_OK;
	struct token_list fresh = {0};
	struct piece *x = n_bytes >= PIECE_MIN_BYTES ? find(p, text, n_bytes) : NULL;
	if (!x)
		x = add(p, text, n_bytes, &fresh, &e);
	const token_id *ids = x ? x->ids : fresh.ids;
	size_t n = x ? x->n : fresh.n;
	for (size_t i = 0; i < n && e == ERR_OK; i++)
		e = token_list_push(out, ids[i]);
	token_list_finish(&fresh);
	return e;
}

size_t pieces_count(struct pieces *p, const char *text, size_t n_bytes) {
	enum err e = ERR_OK;
	struct token_list fresh = {0};
	struct piece *x = n_bytes >= PIECE_MIN_BYTES ? find(p, text, n_bytes) : NULL;
	if (!x)
		x = add(p, text, n_bytes, &fresh, &e);
	size_t n = e != ERR_OK ? SIZE_MAX / 4 : x ? x->n : fresh.n;
	token_list_finish(&fresh);
	return n;
}
