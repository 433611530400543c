// SPDX-License-Identifier: MIT
// A table of texts and their ids, the least recently used one replaced; short texts are not worth a place.
//
// A text is looked up whole, then in parts that are cut where the tokenizer would cut too. Where parts end depends on the lines there and not on what is before them, so a prompt
// with another anchor, or with an edit in it, is put together from parts that are known.
#include "complete/pieces.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define N_PIECES 1024
#define PART_MIN_BYTES 256
#define PART_LINES 8                // a part ends at about one line in so many
#define PART_LOOK_BYTES 8           // of a line decide whether a part ends there
#define PIECE_MIN_BYTES 64
#define PIECES_MAX_BYTES (4u << 20) // of texts and ids together; then the oldest go

struct piece {
	char *text;      // owned; null: free
	size_t n_bytes;
	uint64_t hash;
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

// FNV-1a, eight bytes at a time.
static uint64_t hash_of(const char *text, size_t n_bytes) {
	uint64_t h = 0xcbf29ce484222325u + n_bytes;
	for (size_t at = 0; at < n_bytes; at += 8) {
		uint64_t word = 0;
		memcpy(&word, text + at, n_bytes - at < 8 ? n_bytes - at : 8);
		h = (h ^ word) * 0x100000001b3u;
		h ^= h >> 32;
	}
	return h;
}

static struct piece *find(struct pieces *p, const char *text, size_t n_bytes, uint64_t hash) {
	for (int i = 0; i < N_PIECES && n_bytes >= PIECE_MIN_BYTES; i++) {
		struct piece *x = &p->table[i];
		if (x->hash != hash || !x->text || x->n_bytes != n_bytes || memcmp(x->text, text, n_bytes))
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

// Takes over the ids in `list` for this text; null if it isn't worth a place or memory is out.
static struct piece *remember(struct pieces *p, const char *text, size_t n_bytes, uint64_t hash, struct token_list *list) {
	char *copy = n_bytes >= PIECE_MIN_BYTES && n_bytes <= PIECES_MAX_BYTES / 4 ? malloc(n_bytes) : NULL;
	if (!copy)
		return NULL;
	memcpy(copy, text, n_bytes);
	struct piece *x = make_room(p, n_bytes + list->n * sizeof *list->ids);
	*x = (struct piece){.text = copy, .n_bytes = n_bytes, .hash = hash, .ids = list->ids, .n = list->n, .used = ++p->clock};
	p->used_bytes += piece_bytes(x);
	*list = (struct token_list){0};
	return x;
}

static enum err append(struct token_list *out, const token_id *ids, size_t n) {
	enum err e = ERR_OK;
	for (size_t i = 0; i < n && e == ERR_OK; i++)
		e = token_list_push(out, ids[i]);
	return e;
}

// Length of the first part: up to a line whose beginning has a certain hash, so that the same lines are cut alike wherever they stand.
static size_t part_bytes(const struct pieces *p, const char *text, size_t n_bytes) {
	for (size_t at = PART_MIN_BYTES; at + PART_LOOK_BYTES < n_bytes; at++) {
		const char *end = memchr(text + at, '\n', n_bytes - at);
		if (!end)
			return n_bytes;
		at = (size_t)(end - text);
		if (at + 1 + PART_LOOK_BYTES < n_bytes && hash_of(text + at + 1, PART_LOOK_BYTES) % PART_LINES == 0 && tokenizer_seam(p->tokenizer, text, n_bytes, at + 1))
			return at + 1;
	}
	return n_bytes;
}

static enum err encode_parts(struct pieces *p, const char *text, size_t n_bytes, struct token_list *out);

// The text's piece, made if it isn't there: *found. Null where it isn't worth a place: then `fresh`, which the caller finishes, holds the ids.
static enum err get(struct pieces *p, const char *text, size_t n_bytes, struct piece **found, struct token_list *fresh) {
	uint64_t hash = hash_of(text, n_bytes);
	*found = find(p, text, n_bytes, hash);
	if (*found)
		return ERR_OK;
	bool one_part = part_bytes(p, text, n_bytes) == n_bytes;
	enum err e = one_part ? tokenizer_encode(p->tokenizer, text, n_bytes, fresh) : encode_parts(p, text, n_bytes, fresh);
	if (e == ERR_OK)
		*found = remember(p, text, n_bytes, hash, fresh);
	return e;
}

enum err pieces_encode(struct pieces *p, const char *text, size_t n_bytes, struct token_list *out) {
	struct token_list fresh = {0};
	struct piece *x;
	enum err e = get(p, text, n_bytes, &x, &fresh);
	if (e == ERR_OK)
		e = append(out, x ? x->ids : fresh.ids, x ? x->n : fresh.n);
	token_list_finish(&fresh);
	return e;
}

// Appends the ids of the text part by part, from what is remembered where possible. A part has no parts.
static enum err encode_parts(struct pieces *p, const char *text, size_t n_bytes, struct token_list *out) {
	enum err e = ERR_OK;
	for (size_t n; n_bytes && e == ERR_OK; text += n, n_bytes -= n) {
		n = part_bytes(p, text, n_bytes);
		e = pieces_encode(p, text, n, out);
	}
	return e;
}

size_t pieces_count(struct pieces *p, const char *text, size_t n_bytes) {
	struct token_list fresh = {0};
	struct piece *x;
	enum err e = get(p, text, n_bytes, &x, &fresh);
	size_t n = e != ERR_OK ? SIZE_MAX / 4 : x ? x->n : fresh.n;
	token_list_finish(&fresh);
	return n;
}
