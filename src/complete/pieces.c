// SPDX-License-Identifier: MIT
// A table of texts and their ids, the least recently used one replaced; short texts are not worth a place.
//
// A text is looked up whole, then in parts that are cut where the tokenizer would cut too. Where parts end depends on the lines there and not on what is before them, so a prompt
// with another anchor, or with an edit in it, is put together from parts that are known.
#include "complete/pieces.h"

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

static struct piece *find(struct pieces *p, const char *text, size_t n_bytes) {
	uint64_t hash = hash_of(text, n_bytes);
	if (n_bytes < PIECE_MIN_BYTES)
		return NULL;
	for (int i = 0; i < N_PIECES; i++) {
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

// Takes over the ids in `list` for this text, unless it isn't worth a place or memory is out.
static void remember(struct pieces *p, const char *text, size_t n_bytes, struct token_list *list) {
	char *copy = n_bytes >= PIECE_MIN_BYTES && n_bytes <= PIECES_MAX_BYTES / 4 ? malloc(n_bytes) : NULL;
	if (!copy)
		return;
	memcpy(copy, text, n_bytes);
	struct piece *x = make_room(p, n_bytes + list->n * sizeof *list->ids);
	*x = (struct piece){.text = copy, .n_bytes = n_bytes, .hash = hash_of(text, n_bytes), .ids = list->ids, .n = list->n, .used = ++p->clock};
	p->used_bytes += piece_bytes(x);
	*list = (struct token_list){0};
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

// Appends the ids of the text, part by part, from what is remembered where possible.
static enum err encode_parts(struct pieces *p, const char *text, size_t n_bytes, struct token_list *out) {
	enum err e = ERR_OK;
	for (size_t n; n_bytes && e == ERR_OK; text += n, n_bytes -= n) {
		n = part_bytes(p, text, n_bytes);
		struct piece *x = find(p, text, n);
		if (x) {
			e = append(out, x->ids, x->n);
			continue;
		}
		struct token_list fresh = {0};
		e = tokenizer_encode(p->tokenizer, text, n, &fresh);
		if (e == ERR_OK)
			e = append(out, fresh.ids, fresh.n);
		if (e == ERR_OK)
			remember(p, text, n, &fresh);
		token_list_finish(&fresh);
	}
	return e;
}

enum err pieces_encode(struct pieces *p, const char *text, size_t n_bytes, struct token_list *out) {
	struct piece *x = find(p, text, n_bytes);
	if (x)
		return append(out, x->ids, x->n);
	struct token_list fresh = {0};
	enum err e = encode_parts(p, text, n_bytes, &fresh);
	if (e == ERR_OK)
		e = append(out, fresh.ids, fresh.n);
	if (e == ERR_OK && !find(p, text, n_bytes)) // it may be one part
		remember(p, text, n_bytes, &fresh);
	token_list_finish(&fresh);
	return e;
}

size_t pieces_count(struct pieces *p, const char *text, size_t n_bytes) {
	struct piece *x = find(p, text, n_bytes);
	if (x)
		return x->n;
	struct token_list list = {0};
	size_t n = pieces_encode(p, text, n_bytes, &list) == ERR_OK ? list.n : SIZE_MAX / 4;
	token_list_finish(&list);
	return n;
}
