// SPDX-License-Identifier: MIT
// Open documents: text, versions, positions, immutable snapshots, and their syntax trees.
//
// A document belongs to the loop thread. Its text is a vector of counted, immutable chunks (a few KB each; never splitting a UTF-8
// sequence or a \r\n pair), so an edit copies only the touched chunks and a snapshot costs a copy of the vector. Text is any bytes;
// callers hand in valid UTF-8 but nothing here breaks without it. Line ends are \n, \r\n and bare \r; U+2028, form feed
// and vertical tab end no line. A BOM is ordinary text. Offsets are bytes.
#ifndef MASKSTORE_DOCUMENT_DOCUMENT_H
#define MASKSTORE_DOCUMENT_DOCUMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct document;
struct snapshot; // immutable text at one version, counted; any thread
struct syntax;   // immutable tree of one snapshot, counted; any thread

enum pos_encoding { POS_UTF16 = 0, POS_UTF8 = 1, POS_UTF32 = 2 };
// Zero-based, `character` in units of the encoding in use.
struct position {
	uint32_t line;
	uint32_t character;
};

#define DOCUMENT_MAX_BYTES (64u << 20) // larger texts are refused with ERR_LIMIT; above 20 MB completion may be refused by callers

// --- document (one owner thread)

// Copies the text. `python` decides whether syntax is parsed. ERR_NOMEM, ERR_LIMIT.
enum err document_create(const char *text, size_t n_bytes, bool python, int64_t version, struct document **out, struct err_msg *msg) ERR_MUST_CHECK;
void document_destroy(struct document *d);
// Replaces the text between two positions (clamped: character past the end → end of line, before its line end; line past the end → end of
// document; inside a unit pair → start of that character; reversed → swapped). ERR_NOMEM, ERR_LIMIT: text unchanged.
enum err document_edit(struct document *d, struct position start, struct position end, enum pos_encoding enc, const char *text, size_t n_bytes) ERR_MUST_CHECK;
// Replaces the whole text.
enum err document_replace(struct document *d, const char *text, size_t n_bytes) ERR_MUST_CHECK;
void document_set_version(struct document *d, int64_t version);
int64_t document_version(const struct document *d);
bool document_is_python(const struct document *d);
// The current text as a snapshot (one more reference for the caller; the same object until the next edit).
struct snapshot *document_snapshot(struct document *d);

// --- snapshot (any thread)

struct snapshot *snapshot_ref(struct snapshot *s);
void snapshot_unref(struct snapshot *s); // accepts null
// A snapshot of given text without a document (CLI, tests). Null if memory is out.
struct snapshot *snapshot_create(const char *text, size_t n_bytes, bool python);
size_t snapshot_bytes(const struct snapshot *s);
uint32_t snapshot_lines(const struct snapshot *s); // number of line ends + 1
bool snapshot_is_python(const struct snapshot *s);
// Copies [begin, end) to out[end - begin].
void snapshot_read(const struct snapshot *s, size_t begin, size_t end, char *out);
// Borrowed run of bytes at `offset` (up to the end of its chunk): pointer and length; length 0 at the end.
const char *snapshot_chunk_at(const struct snapshot *s, size_t offset, size_t *len_bytes);
// Offset of the first byte of a line (line ≤ snapshot_lines - 1, else the end of text).
size_t snapshot_line_start(const struct snapshot *s, uint32_t line);
// Offset of the line's end, before its \n, \r\n or \r.
size_t snapshot_line_end(const struct snapshot *s, uint32_t line);
// Line that holds an offset (an offset inside \r\n belongs to the line it ends).
uint32_t snapshot_line_of(const struct snapshot *s, size_t offset);
// Conversions, clamped as in document_edit. Round trip is exact for character starts.
size_t snapshot_offset(const struct snapshot *s, struct position p, enum pos_encoding enc);
struct position snapshot_position(const struct snapshot *s, size_t offset, enum pos_encoding enc);
// Largest start ≤ offset of a character (offset itself if there is none within 3 bytes, as in text that is not UTF-8).
size_t snapshot_char_start(const struct snapshot *s, size_t offset);
// True if the first line end in the text is \r\n.
bool snapshot_crlf(const struct snapshot *s);

// --- syntax: a worker thread parses snapshots and polls for cancelling within 2 ms (a KB of text); a parse is never paused and resumed,
// since tree-sitter then chooses other repairs of broken code than in one go

struct parser_worker;
// Starts the thread. ERR_NOMEM.
enum err parser_worker_create(struct parser_worker **out) ERR_MUST_CHECK;
// Cancels what is queued and joins. Accepts null.
void parser_worker_destroy(struct parser_worker *w);
// Queues a parse of this snapshot for this document's chain (incremental on the chain's last tree; a newer snapshot of the same document
// replaces an older one that is still queued). Loop thread; returns at once. No-op for texts that are not Python and without a worker.
void document_parse_async(struct document *d, struct parser_worker *w);
// The tree of exactly this snapshot (one reference for the caller): waits until it is parsed, parses it now if nobody queued it, gives
// up with ERR_CANCELLED when *cancel becomes non-zero (polled every 2 ms), ERR_UNSUPPORTED for texts that are not Python. The tree equals a
// parse from scratch.
enum err snapshot_syntax(struct snapshot *s, struct parser_worker *w, const _Atomic int *cancel, struct syntax **out) ERR_MUST_CHECK;
void syntax_unref(struct syntax *x); // accepts null

// What the prompt and the stop rules ask about a cursor.
struct syntax_place {
	bool in_string;        // inside a string literal
	bool in_comment;
	bool empty_block;      // the enclosing block has no statement yet (or only a docstring), or the line above opens one and nothing
	                       // indented deeper follows: a whole block is wanted
	uint32_t block_indent; // columns (bytes of leading blanks) a statement in the enclosing block has
	size_t block_begin;    // bytes of the innermost enclosing definition or compound statement; 0 / text size at top level
	size_t block_end;
	size_t definition_begin; // innermost enclosing def/class (decorators included), SIZE_MAX at top level
};
// Pure. offset ≤ snapshot_bytes.
struct syntax_place syntax_at(const struct syntax *x, size_t offset);
// The place without a tree, where every tree would say the same of it: false where that isn't sure (a definition's line above begins inside brackets or a
// string). Filled are in_string, in_comment, empty_block and block_indent. Costs a walk over the text above the cursor, about a millisecond for 200 KB. Pure.
bool snapshot_place_early(const struct snapshot *s, size_t offset, struct syntax_place *out);
// S-expression for tests and inspect, malloc'ed; null if memory is out.
char *syntax_dump(const struct syntax *x);

#endif
