// SPDX-License-Identifier: MIT
// A growing byte buffer. Not thread-safe; one owner.
//
// `data` is always followed by a zero byte (not counted in len_bytes) once anything was appended, so text may be
// handed to C string functions if it holds no zero bytes. A failed allocation sets `failed` and drops the append;
// callers check `failed` once at the end instead of after each step.
#ifndef MASKSTORE_BASE_BUF_H
#define MASKSTORE_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
	char *data;        // owned; null while nothing was appended
	size_t len_bytes;  // bytes in use
	size_t cap_bytes;  // bytes allocated, the terminating zero included
	bool failed;       // an allocation failed; contents are incomplete
};

// Empties `b` without allocating. Also used as `struct buf b = {0}`.
void buf_init(struct buf *b);
// Frees the memory; `b` is as after buf_init.
void buf_finish(struct buf *b);
// Keeps the memory, sets the length to 0 and clears `failed`.
void buf_clear(struct buf *b);
// Makes room for `more_bytes` further bytes. False (and `failed`) if memory is out.
bool buf_reserve(struct buf *b, size_t more_bytes);
// Appends bytes (copied). `data` may be null if `n_bytes` is 0.
void buf_append(struct buf *b, const void *data, size_t n_bytes);
// Appends a C string without its zero.
void buf_append_str(struct buf *b, const char *text);
// Appends one byte.
void buf_append_char(struct buf *b, char c);
// Appends formatted text of any length.
void buf_appendf(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Appends `text` as a JSON string literal with its quotes: control characters, quotes and backslashes escaped,
// invalid UTF-8 replaced by U+FFFD, so that the result is always valid JSON.
void buf_append_json(struct buf *b, const char *text, size_t n_bytes);
// Removes `n_bytes` from the front (all if larger).
void buf_consume(struct buf *b, size_t n_bytes);

#endif
