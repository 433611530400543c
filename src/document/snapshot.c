// SPDX-License-Identifier: MIT
// Immutable texts made of counted chunks.
//
// Invariants: no chunk is empty or larger than CHUNK_MAX_BYTES; none ends inside a UTF-8 sequence or between \r and \n; before[] holds the
// sums of counts, so every mapping is a binary search and a walk over one chunk. Nothing changes after construction but the
// reference counts and the syntax fields. Cost of a splice: the touched chunks and one pointer and one count for each other chunk.
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "document/internal.h"

static bool is_tail(int byte) {
	return byte >= 0 && (byte & 0xc0) == 0x80;
}

// --- chunks

static void chunk_unref(struct chunk *c) {
	if (atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) == 1)
		free(c);
}

static void chunk_count(struct chunk *c) {
	const unsigned char *s = (const unsigned char *)c->text;
	uint32_t n = c->n.bytes, lf = 0, cr = 0, pairs = 0, starts = 0, astral = 0;
	for (uint32_t i = 0; i < n; i++) {
		lf += s[i] == '\n';
		cr += s[i] == '\r';
		starts += (s[i] & 0xc0) != 0x80;
		astral += s[i] >= 0xf0;
	}
	if (cr)
		for (uint32_t i = 0; i + 1 < n; i++)
			pairs += s[i] == '\r' && s[i + 1] == '\n';
	c->n = (struct counts){n, lf + cr - pairs, starts + astral, starts};
	c->bare_cr = cr > pairs;
}

static struct chunk *chunk_create(const char *text, uint32_t n_bytes) {
	struct chunk *c = malloc(sizeof *c + n_bytes);
	if (!c)
		return NULL;
	atomic_init(&c->refs, 1);
	c->n.bytes = n_bytes;
	memcpy(c->text, text, n_bytes);
	chunk_count(c);
	return c;
}

// Would a cut between the last of tail[n_tail] and `next` split a character or a line end?
static bool cut_splits(const char *tail, size_t n_tail, int next) {
	if (!n_tail || next < 0)
		return false;
	if (tail[n_tail - 1] == '\r' && next == '\n')
		return true;
	if (!is_tail(next))
		return false;
	for (size_t back = 1; back <= 3 && back <= n_tail; back++) {
		unsigned char c = (unsigned char)tail[n_tail - back];
		if (!is_tail(c))
			return (c >= 0xf0 ? 4u : c >= 0xe0 ? 3u : c >= 0xc0 ? 2u : 1u) > back;
	}
	return false;
}

// --- splice

// The run of chunks [i, j) of the old text that is made anew.
struct span {
	uint32_t i, j;
	size_t left, right; // bytes of the old text kept in front of and behind the new text
};

static void span_measure(const struct snapshot *old, size_t begin, size_t end, struct span *p) {
	p->left = begin - old->before[p->i].bytes;
	p->right = old->before[p->j].bytes - end;
}

// Widens the run until its edges are clean cuts and it isn't tiny.
static struct span span_find(const struct snapshot *old, size_t begin, size_t end, const char *text, size_t n_bytes) {
	struct span p = {0};
	if (old->n_chunks) {
		p.i = snapshot_chunk_of(old, begin);
		p.j = snapshot_chunk_of(old, end) + 1;
	}
	for (;;) {
		span_measure(old, begin, end, &p);
		size_t total = p.left + n_bytes + p.right;
		int first = p.left ? snapshot_byte(old, begin - p.left) : n_bytes ? (unsigned char)text[0] : snapshot_byte(old, end);
		const struct chunk *prev = p.i ? old->chunks[p.i - 1] : NULL;
		if (prev && (total < CHUNK_MIN_BYTES || cut_splits(prev->text, prev->n.bytes, first))) {
			p.i--;
			continue;
		}
		if (p.j == old->n_chunks)
			return p;
		char tail[4];
		size_t n_tail = 0;
		for (size_t back = total < 3 ? total : 3; back > 0; back--) {
			size_t at = total - back; // in left + text + right
			int c = at < p.left ? snapshot_byte(old, begin - p.left + at) : at < p.left + n_bytes ? text[at - p.left] :
			        snapshot_byte(old, end + at - p.left - n_bytes);
			tail[n_tail++] = (char)c;
		}
		if (total >= CHUNK_MIN_BYTES && !cut_splits(tail, n_tail, old->chunks[p.j]->text[0] & 0xff))
			return p;
		p.j++;
	}
}

// Cuts text[n_bytes] into chunks and appends them. False if memory is out.
static bool chunks_cut(struct snapshot *s, const char *text, size_t n_bytes) {
	while (n_bytes) {
		size_t n = n_bytes;
		if (n > CHUNK_MAX_BYTES) {
			n = CHUNK_TARGET_BYTES;
			while (n > CHUNK_TARGET_BYTES - 8 && cut_splits(text, n, text[n] & 0xff))
				n--;
		}
		struct chunk *c = chunk_create(text, (uint32_t)n);
		if (!c)
			return false;
		s->chunks[s->n_chunks++] = c;
		text += n;
		n_bytes -= n;
	}
	return true;
}

static void chunks_share(struct snapshot *s, const struct snapshot *old, uint32_t i, uint32_t j) {
	for (; i < j; i++) {
		atomic_fetch_add_explicit(&old->chunks[i]->refs, 1, memory_order_relaxed);
		s->chunks[s->n_chunks++] = old->chunks[i];
	}
}

static void counts_sum(struct snapshot *s) {
	struct counts sum = {0};
	for (uint32_t i = 0; i < s->n_chunks; i++) {
		s->before[i] = sum;
		const struct counts *n = &s->chunks[i]->n;
		sum.bytes += n->bytes;
		sum.lines += n->lines;
		sum.utf16 += n->utf16;
		sum.utf32 += n->utf32;
	}
	s->before[s->n_chunks] = sum;
}

static struct snapshot *snapshot_alloc(size_t max_chunks, bool python) {
	struct snapshot *s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	s->chunks = malloc((max_chunks + 1) * sizeof *s->chunks);
	s->before = malloc((max_chunks + 1) * sizeof *s->before);
	if (!s->chunks || !s->before || pthread_mutex_init(&s->lock, NULL))
		goto no_lock;
	pthread_condattr_t monotonic;
	if (pthread_condattr_init(&monotonic))
		goto no_cond;
	int failed = pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) || pthread_cond_init(&s->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	if (failed)
		goto no_cond;
	atomic_init(&s->refs, 1);
	s->python = python;
	s->before[0] = (struct counts){0};
	return s;
no_cond:
	pthread_mutex_destroy(&s->lock);
no_lock:
	free(s->chunks);
	free(s->before);
	free(s);
	return NULL;
}

struct snapshot *snapshot_splice(const struct snapshot *old, size_t begin, size_t end, const char *text, size_t n_bytes, bool python) {
	static const struct counts none[1];
	static const struct snapshot empty = {.before = (struct counts *)none};
	if (!old)
		old = &empty;
	struct span p = span_find(old, begin, end, text, n_bytes);
	size_t total = p.left + n_bytes + p.right;
	struct snapshot *s = snapshot_alloc(old->n_chunks + total / (CHUNK_TARGET_BYTES - 8) + 2, python);
	char *middle = malloc(total ? total : 1);
	if (!s || !middle)
		goto fail;
	snapshot_read(old, begin - p.left, begin, middle);
	if (n_bytes)
		memcpy(middle + p.left, text, n_bytes);
	snapshot_read(old, end, end + p.right, middle + p.left + n_bytes);
	chunks_share(s, old, 0, p.i);
	bool ok = chunks_cut(s, middle, total);
	if (ok)
		chunks_share(s, old, p.j, old->n_chunks);
	counts_sum(s);
	if (!ok)
		goto fail;
	free(middle);
	return s;
fail:
	free(middle);
	snapshot_unref(s);
	return NULL;
}

struct snapshot *snapshot_create(const char *text, size_t n_bytes, bool python) {
	return snapshot_splice(NULL, 0, 0, text, n_bytes, python);
}

struct snapshot *snapshot_ref(struct snapshot *s) {
	atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
	return s;
}

void snapshot_unref(struct snapshot *s) {
	if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
		return;
	for (uint32_t i = 0; i < s->n_chunks; i++)
		chunk_unref(s->chunks[i]);
	free(s->chunks);
	free(s->before);
	syntax_tree_free(s->tree);
	chain_unref(s->chain);
	pthread_cond_destroy(&s->changed);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

// --- reading

size_t snapshot_bytes(const struct snapshot *s) {
	return s->before[s->n_chunks].bytes;
}

bool snapshot_is_python(const struct snapshot *s) {
	return s->python;
}

uint32_t snapshot_chunk_of(const struct snapshot *s, size_t offset) {
	uint32_t low = 0, high = s->n_chunks;
	while (high - low > 1) {
		uint32_t mid = low + (high - low) / 2;
		if (s->before[mid].bytes <= offset)
			low = mid;
		else
			high = mid;
	}
	return low;
}

const char *snapshot_chunk_at(const struct snapshot *s, size_t offset, size_t *len_bytes) {
	if (offset >= snapshot_bytes(s)) {
		*len_bytes = 0;
		return "";
	}
	uint32_t c = snapshot_chunk_of(s, offset);
	size_t inside = offset - s->before[c].bytes;
	*len_bytes = s->chunks[c]->n.bytes - inside;
	return s->chunks[c]->text + inside;
}

void snapshot_read(const struct snapshot *s, size_t begin, size_t end, char *out) {
	while (begin < end) {
		size_t len;
		const char *run = snapshot_chunk_at(s, begin, &len);
		if (!len)
			return;
		if (len > end - begin)
			len = end - begin;
		memcpy(out, run, len);
		out += len;
		begin += len;
	}
}

int snapshot_byte(const struct snapshot *s, size_t offset) {
	size_t len;
	const char *run = snapshot_chunk_at(s, offset, &len);
	return len ? (unsigned char)run[0] : -1;
}

size_t snapshot_char_start(const struct snapshot *s, size_t offset) {
	for (size_t back = 0; back <= 3 && back <= offset; back++)
		if (!is_tail(snapshot_byte(s, offset - back)))
			return offset - back;
	return offset;
}
