// SPDX-License-Identifier: MIT
// Private to the document room: a lexical walk over Python lines, right also for half-typed code that no parser accepts.
#ifndef MASKSTORE_DOCUMENT_SCAN_H
#define MASKSTORE_DOCUMENT_SCAN_H

#include "document/internal.h"

#define SCAN_MAX_BLOCKS 64 // deeper nesting is folded into the last one

// A header line that ended in ':' and what was seen of its body so far.
struct scan_block {
	size_t begin;      // start of the header's logical line, indentation left out
	size_t decorated;  // start of its first decorator, else begin
	uint32_t indent, body_indent; // bytes of leading blanks of the header and of its first statement
	uint32_t n_statements;
	bool definition;   // def or class
	bool doc;          // the first statement is a string by itself
};

struct scan {
	const struct snapshot *s;
	const char *run;          // current run of bytes
	size_t run_begin, run_end;
	size_t at;                // next byte
	// Lexical state.
	char quote;               // quote character of the string at hand, or 0
	bool triple, comment, backslash;
	uint32_t depth;           // open brackets
	// The logical line at hand.
	bool open;                // one has begun and not ended
	size_t begin;
	uint32_t indent;
	bool header, definition, decorator; // by its first word
	bool only_string;
	char last;                // last significant byte outside of strings (a quote for a string), 0 at the start
	size_t decorators;        // start of the decorator lines just above, SIZE_MAX if none
	uint32_t decorators_indent;
	// Blocks open at the logical line at hand.
	struct scan_block blocks[SCAN_MAX_BLOCKS];
	int n_blocks;
	uint32_t unit;            // last step of indentation seen in the top-level statement at hand, 0 if none yet
};

// Starts at `begin`, which must be the start of a line outside of strings and brackets.
void scan_begin(struct scan *sc, const struct snapshot *s, size_t begin);
// Walks up to byte `stop` (at most the end of the text); may stop inside a line and go on later.
void scan_until(struct scan *sc, size_t stop);
// Byte at an offset, -1 outside.
int scan_byte(struct scan *sc, size_t offset);
// True if the next line begins inside a statement: brackets or a string are open, or a backslash ended the last one.
bool scan_continues(const struct scan *sc);
// True if the logical line so far is the header of a block: keyword first, ':' last, all brackets and strings closed.
bool scan_at_header(const struct scan *sc);
// Drops the blocks that a statement at this indentation is not part of.
void scan_pop(struct scan *sc, uint32_t indent);

#endif
