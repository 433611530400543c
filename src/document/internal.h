// SPDX-License-Identifier: MIT
// Private to the document room: the shape of chunks, snapshots and the chain that links a document's parses.
#ifndef MASKSTORE_DOCUMENT_INTERNAL_H
#define MASKSTORE_DOCUMENT_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "document/document.h"

// An edit copies the chunks that it touches and a snapshot copies one pointer a chunk; 4 to 8 KB keeps both small (2,000 pointers for 10 MB).
#define CHUNK_MAX_BYTES 8192u
#define CHUNK_TARGET_BYTES 6144u
#define CHUNK_MIN_BYTES 1024u // smaller ones are merged with a neighbour when touched

// Sums over bytes, so that they hold however the text is cut: a code point is a byte that is no UTF-8 tail, a UTF-16 unit more is a byte ≥ 0xf0.
// A \r is a line end unless a \n follows; chunks never split \r\n, so this adds up too.
struct counts {
	uint32_t bytes, lines, utf16, utf32;
};

struct chunk { // immutable once made
	atomic_uint refs;
	struct counts n;
	bool bare_cr; // holds a \r that is a line end by itself
	char text[];
};

struct chain;

enum syntax_state { SYNTAX_NONE, SYNTAX_QUEUED, SYNTAX_RUNNING, SYNTAX_DONE };

struct snapshot {
	atomic_uint refs;
	bool python;
	uint32_t n_chunks;
	struct chunk **chunks; // owned array, counted elements
	struct counts *before; // [n_chunks + 1]: sums of all chunks in front; the last is the whole text
	// Syntax: guarded by `lock`, except that `tree` never changes once the state is SYNTAX_DONE.
	struct chain *chain;   // counted; null for a snapshot without a document
	uint64_t seq;          // number of edits before this text in its chain
	pthread_mutex_t lock;
	pthread_cond_t changed;
	enum syntax_state state;
	void *tree;            // owned TSTree
};

// --- snapshot.c

// A new text: old[0, begin) + text[n_bytes] + old[end, …). `old` may be null (empty). The result has one reference and no chain. Null if
// memory is out.
struct snapshot *snapshot_splice(const struct snapshot *old, size_t begin, size_t end, const char *text, size_t n_bytes, bool python);
// Index of the chunk that holds the byte (the last chunk for the end of text; 0 if there is none).
uint32_t snapshot_chunk_of(const struct snapshot *s, size_t offset);
// The byte at an offset, or -1 outside of the text.
int snapshot_byte(const struct snapshot *s, size_t offset);

// --- chain (worker.c): what an incremental parse needs from one snapshot of a document to the next

// Null if memory is out.
struct chain *chain_create(void);
struct chain *chain_ref(struct chain *c);
void chain_unref(struct chain *c); // accepts null
// Notes that text `seq` came from `old` (text seq - 1) by replacing [begin, end) by what is now [begin, new_end) in `now`. Loop thread.
void chain_record(struct chain *c, const struct snapshot *old, const struct snapshot *now, size_t begin, size_t end, size_t new_end);
// Forgets the last tree, as after a whole new text.
void chain_break(struct chain *c, uint64_t seq);
// Frees a TSTree (accepts null); here so that snapshot.c need not see tree-sitter.
void syntax_tree_free(void *tree);
// The chain of a document (borrowed), for the parser worker.
struct chain *document_chain(const struct document *d);

#endif
