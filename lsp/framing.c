// SPDX-License-Identifier: MIT
// Frames from bytes. The header is looked at only when it is whole (or too long), a body only when all of it is there; both are handed out
// in place. Memory: one buffer that grows with what really arrived, never with what a header announces.
#include "framing.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define KEEP_CAPACITY_BYTES (256u << 10) // a larger buffer is given back once it is empty

struct header {
	bool has_length;
	bool foreign_charset;
	uint64_t length;
};

void framing_init(struct framing *f, size_t max_body_bytes) {
	*f = (struct framing){.max_body_bytes = max_body_bytes};
}

void framing_finish(struct framing *f) {
	buf_finish(&f->in);
}

static size_t smaller(size_t a, size_t b) {
	return a < b ? a : b;
}

// Moves what is left to the front, so that offsets stay small.
static void compact(struct framing *f) {
	buf_consume(&f->in, f->begin);
	f->begin = 0;
	if (!f->in.len_bytes && f->in.cap_bytes > KEEP_CAPACITY_BYTES)
		buf_finish(&f->in);
}

enum err framing_push(struct framing *f, const char *data, size_t n_bytes) {
	if (f->broken)
		return ERR_OK;
	size_t skip = f->begin == f->in.len_bytes ? smaller(f->skip_bytes, n_bytes) : 0;
	f->skip_bytes -= skip;
	compact(f);
	buf_append(&f->in, data + skip, n_bytes - skip);
	return f->in.failed ? ERR_NOMEM : ERR_OK;
}

// Length of the header block with its empty line, 0 if it is not whole. Line ends are CRLF; a bare LF is understood too.
static size_t header_length(const char *p, size_t n) {
	size_t line = 0;
	for (size_t i = 0; i < n; i++) {
		if (p[i] != '\n')
			continue;
		size_t len = i - line;
		if (len == 0 || (len == 1 && p[line] == '\r'))
			return i + 1;
		line = i + 1;
	}
	return 0;
}

static bool blank(char c) {
	return c == ' ' || c == '\t' || c == '\r';
}

static void trim(const char **p, size_t *n) {
	for (; *n && blank(**p); ++*p, --*n)
		;
	for (; *n && blank((*p)[*n - 1]); --*n)
		;
}

static bool same_word(const char *p, size_t n, const char *word) {
	return n == strlen(word) && !strncasecmp(p, word, n);
}

static enum err parse_length(const char *p, size_t n, struct header *h, struct err_msg *msg) {
	uint64_t value = 0;
	if (!n || n > 18)
		return err_set(msg, ERR_FORMAT, "Content-Length is not a usable number");
	for (size_t i = 0; i < n; i++) {
		if (p[i] < '0' || p[i] > '9')
			return err_set(msg, ERR_FORMAT, "Content-Length is not a number");
		value = value * 10 + (uint64_t)(p[i] - '0');
	}
	if (h->has_length && value != h->length)
		return err_set(msg, ERR_FORMAT, "two different Content-Length headers");
	h->has_length = true;
	h->length = value;
	return ERR_OK;
}

// "application/vscode-jsonrpc; charset=utf-8": true unless a charset other than utf-8 (or utf8) is named.
static bool charset_known(const char *p, size_t n) {
	static const char name[] = "charset=";
	for (size_t i = 0; i + sizeof name - 1 <= n; i++) {
		if (strncasecmp(p + i, name, sizeof name - 1))
			continue;
		const char *value = p + i + sizeof name - 1;
		const char *end = memchr(value, ';', (size_t)(p + n - value));
		size_t len = (size_t)((end ? end : p + n) - value);
		trim(&value, &len);
		if (len >= 2 && value[0] == '"' && value[len - 1] == '"') {
			value++;
			len -= 2;
		}
		return same_word(value, len, "utf-8") || same_word(value, len, "utf8");
	}
	return true;
}

static enum err parse_line(const char *p, size_t n, struct header *h, struct err_msg *msg) {
	const char *colon = memchr(p, ':', n);
	if (!colon)
		return err_set(msg, ERR_FORMAT, "a header line without a colon");
	const char *value = colon + 1;
	size_t n_name = (size_t)(colon - p), n_value = n - n_name - 1;
	trim(&p, &n_name);
	trim(&value, &n_value);
	if (same_word(p, n_name, "Content-Length"))
		return parse_length(value, n_value, h, msg);
	if (same_word(p, n_name, "Content-Type") && !charset_known(value, n_value))
		h->foreign_charset = true;
	return ERR_OK;
}

static enum err parse_header(const char *p, size_t n, struct header *h, struct err_msg *msg) {
	const char *end = p + n;
	while (p < end) {
		const char *lf = memchr(p, '\n', (size_t)(end - p));
		size_t len = (size_t)((lf ? lf : end) - p);
		if (len && p[len - 1] == '\r')
			len--;
		enum err e = len ? parse_line(p, len, h, msg) : ERR_OK;
		if (e)
			return e;
		p = lf ? lf + 1 : end;
	}
	if (!h->has_length)
		return err_set(msg, ERR_FORMAT, "a header without Content-Length");
	if (h->length > FRAMING_MAX_SKIP_BYTES)
		return err_set(msg, ERR_LIMIT, "Content-Length %llu is absurd", (unsigned long long)h->length);
	return ERR_OK;
}

static enum framing_event broken(struct framing *f, struct frame *out) {
	f->broken = true;
	out->note = f->note;
	return FRAMING_BROKEN;
}

// Reads a header if a whole one is there: FRAMING_BODY means that f->body_bytes is known now.
static enum framing_event read_header(struct framing *f, struct frame *out) {
	const char *p = f->in.data + f->begin;
	size_t left = f->in.len_bytes - f->begin;
	size_t n = left ? header_length(p, smaller(left, FRAMING_MAX_HEADER_BYTES)) : 0;
	if (!n && left < FRAMING_MAX_HEADER_BYTES)
		return FRAMING_MORE;
	if (!n) {
		err_set(&f->note, ERR_LIMIT, "a header of more than %u bytes", FRAMING_MAX_HEADER_BYTES);
		return broken(f, out);
	}
	struct header h = {0};
	if (parse_header(p, n, &h, &f->note))
		return broken(f, out);
	f->begin += n;
	f->body_bytes = (size_t)h.length;
	f->foreign_charset = h.foreign_charset;
	f->in_body = true;
	return FRAMING_BODY;
}

// Starts to read over a body that is too large.
static enum framing_event refuse_large(struct framing *f, struct frame *out) {
	size_t here = smaller(f->in.len_bytes - f->begin, f->body_bytes);
	err_set(&out->note, ERR_LIMIT, "a message of %zu bytes was left out: the limit is %zu bytes", f->body_bytes, f->max_body_bytes);
	f->begin += here;
	f->skip_bytes = f->body_bytes - here;
	f->in_body = false;
	return FRAMING_REFUSED;
}

enum framing_event framing_next(struct framing *f, struct frame *out) {
	if (f->broken)
		return broken(f, out);
	if (f->skip_bytes)
		return FRAMING_MORE;
	if (!f->in_body) {
		enum framing_event e = read_header(f, out);
		if (e != FRAMING_BODY)
			return e;
	}
	if (f->body_bytes > f->max_body_bytes)
		return refuse_large(f, out);
	if (f->in.len_bytes - f->begin < f->body_bytes)
		return FRAMING_MORE;
	out->body = f->in.data + f->begin;
	out->n_bytes = f->body_bytes;
	f->begin += f->body_bytes;
	f->in_body = false;
	if (!f->foreign_charset)
		return FRAMING_BODY;
	err_set(&out->note, ERR_UNSUPPORTED, "a message in a charset other than utf-8 was left out");
	return FRAMING_REFUSED;
}

void framing_wrap(struct buf *out, const char *body, size_t n_bytes) {
	buf_appendf(out, "Content-Length: %zu\r\n\r\n", n_bytes);
	buf_append(out, body, n_bytes);
}
