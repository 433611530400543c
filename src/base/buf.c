// SPDX-License-Identifier: MIT
// Growing byte buffer: capacity doubles, a failed allocation is remembered instead of reported at each call.
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

#define BUF_MIN_BYTES 64

void buf_init(struct buf *b) {
	*b = (struct buf){0};
}

void buf_finish(struct buf *b) {
	free(b->data);
	buf_init(b);
}

void buf_clear(struct buf *b) {
	b->len_bytes = 0;
	b->failed = false;
	if (b->data)
		b->data[0] = 0;
}

bool buf_reserve(struct buf *b, size_t more_bytes) {
	if (more_bytes < b->cap_bytes - b->len_bytes)
		return true;
	if (more_bytes > SIZE_MAX / 4 - b->len_bytes) {
		b->failed = true;
		return false;
	}
	size_t cap = b->cap_bytes ? b->cap_bytes : BUF_MIN_BYTES;
	while (cap <= b->len_bytes + more_bytes)
		cap *= 2;
	char *data = realloc(b->data, cap);
	if (!data) {
		b->failed = true;
		return false;
	}
	b->data = data;
	b->cap_bytes = cap;
	return true;
}

void buf_append(struct buf *b, const void *data, size_t n_bytes) {
	if (!buf_reserve(b, n_bytes))
		return;
	if (n_bytes)
		memcpy(b->data + b->len_bytes, data, n_bytes);
	b->len_bytes += n_bytes;
	b->data[b->len_bytes] = 0;
}

void buf_append_str(struct buf *b, const char *text) {
	buf_append(b, text, strlen(text));
}

void buf_append_char(struct buf *b, char c) {
	buf_append(b, &c, 1);
}

void buf_appendf(struct buf *b, const char *format, ...) {
	va_list args;
	va_start(args, format);
	int n = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (n < 0) {
		b->failed = true;
		return;
	}
	if (!buf_reserve(b, (size_t)n))
		return;
	va_start(args, format);
	vsnprintf(b->data + b->len_bytes, (size_t)n + 1, format, args);
	va_end(args);
	b->len_bytes += (size_t)n;
}

static void append_json_byte(struct buf *b, char c) {
	switch (c) {
	case '"': buf_append_str(b, "\\\""); break;
	case '\\': buf_append_str(b, "\\\\"); break;
	case '\n': buf_append_str(b, "\\n"); break;
	case '\r': buf_append_str(b, "\\r"); break;
	case '\t': buf_append_str(b, "\\t"); break;
	default:
		if ((unsigned char)c < 0x20 || c == 0x7f)
			buf_appendf(b, "\\u%04x", (unsigned)(unsigned char)c);
		else
			buf_append_char(b, c);
	}
}

void buf_append_json(struct buf *b, const char *text, size_t n_bytes) {
	buf_append_char(b, '"');
	for (size_t i = 0; i < n_bytes;) {
		size_t n = utf8_sequence(text + i, n_bytes - i);
		if (n == 0) {
			buf_append_str(b, "\xef\xbf\xbd");
			i++;
		} else if (n == 1) {
			append_json_byte(b, text[i++]);
		} else {
			buf_append(b, text + i, n);
			i += n;
		}
	}
	buf_append_char(b, '"');
}

void buf_consume(struct buf *b, size_t n_bytes) {
	if (n_bytes > b->len_bytes)
		n_bytes = b->len_bytes;
	if (!n_bytes)
		return;
	memmove(b->data, b->data + n_bytes, b->len_bytes - n_bytes);
	b->len_bytes -= n_bytes;
	b->data[b->len_bytes] = 0;
}
