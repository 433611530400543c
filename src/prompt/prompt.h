// SPDX-License-Identifier: MIT
// From a cursor in a text to the tokens that the model sees. Pure: the same text, cursor, syntax, model and options give the same prompt.
//
// Default layout, anchored PSM (design.md §4):
//   FIM prefix, text from the cut to the anchor, FIM suffix, rest of the cursor's line and PROMPT_SUFFIX_LINES lines, FIM middle, text from the anchor to the cursor
// Where something is cut off at the start, imports and the signatures around the cut go before it.
// The anchor is the start of the cursor's line number rounded down to a multiple of PROMPT_ANCHOR_LINES. Without FIM tokens: text from the cut to
// the cursor. Trailing blanks, the partial word or fresh punctuation before the cursor are taken off and must be generated again (token healing;
// the exact rule is in heal.c).
#ifndef MASKSTORE_PROMPT_PROMPT_H
#define MASKSTORE_PROMPT_PROMPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "document/document.h"

#define PROMPT_ANCHOR_LINES 16
#define PROMPT_SUFFIX_LINES 8  // as good as 16 in 300 items, and half the price of a jump (docs/speed.md); 4 are worse
#define PROMPT_AFTER_LINES 16  // that stop rules look at
#define PROMPT_LINE_BYTES 65536 // more of one line is never looked at by stop rules
#define PROMPT_CUT_LINES 64 // the first line kept moves in steps of this many lines, so that the kept text stays byte-identical

enum prompt_mark { PROMPT_TEXT, PROMPT_BOS, PROMPT_FIM_PREFIX, PROMPT_FIM_SUFFIX, PROMPT_FIM_MIDDLE };

// A piece of the prompt: a special token, or text to be tokenised by itself.
struct prompt_segment {
	enum prompt_mark mark;
	size_t begin, end; // bytes in prompt.text, for PROMPT_TEXT
};
#define PROMPT_MAX_SEGMENTS 8

struct prompt {
	char *text;        // owned; all segments' bytes, line ends normalised to \n
	size_t text_bytes;
	struct prompt_segment segments[PROMPT_MAX_SEGMENTS];
	int n_segments;
	char *healed;      // owned; bytes just before the cursor that must be generated first (never holds a newline); may be empty
	size_t healed_bytes;
	// What stop rules need (complete/suggest.h), all with \n line ends:
	char *before;      // owned; the cursor's line up to the cursor (of a huge line the last PROMPT_LINE_BYTES)
	char *rest;        // owned; the cursor's line after the cursor (of a huge line the first PROMPT_LINE_BYTES)
	char *after;       // owned; the PROMPT_AFTER_LINES lines after the cursor's line, also where the prompt has no suffix (at most PROMPT_LINE_BYTES)
	bool single_line;  // stop at the first newline; else to the end of the block
	int block_indent;  // bytes of indentation of a statement in the wanted block (multi-line only)
	bool crlf;         // the document uses \r\n
	bool in_string;    // the cursor is inside a string literal (Python only)
};

// Where the anchor stands and how much follows the cursor's line. Zeros: the defaults above.
struct prompt_layout {
	int anchor_lines; // the anchor is the start of a line whose number is a multiple of this
	int suffix_lines;
};

struct prompt_options {
	struct prompt_layout layout;
	int budget_tokens;  // prompt tokens that fit (max_context minus what may be generated); a short window is a small budget: three parts
	                    // before the cursor to one after it
	bool has_fim;
	bool has_bos;
	const struct syntax_place *place; // where the cursor stands, if that is known without a tree; else null: by `syntax`
};

// Number of tokens of a text, given by the caller so that this room need not know the model.
typedef size_t prompt_count_tokens(void *user, const char *text, size_t n_bytes);

// Builds the prompt at byte `offset` of the snapshot. `syntax` may be null (not Python): then single lines only. The whole file when it
// fits the budget; else the prefix is cut at the start by whole lines in coarse steps, the suffix at the end. Never cuts the cursor's line unless
// that line alone exceeds the budget (then its nearest part is kept). There is always at least one segment that gives a token: without FIM tokens,
// BOS and text it is a line end. ERR_NOMEM.
enum err prompt_build(const struct snapshot *s, const struct syntax *syntax, size_t offset, const struct prompt_options *o,
                      prompt_count_tokens *count, void *user, struct prompt *out, struct err_msg *msg) ERR_MUST_CHECK;
// The prompt that later prompts of this text begin with, wherever the cursor is: marks and text from the cut that a cursor at `offset` has to the end of the
// file, or `ahead_lines` or a few more behind the cursor (0: to the end), or as much as the budget leaves a prefix. Only text and segments are filled. ERR_NOMEM.
enum err prompt_build_file(const struct snapshot *s, size_t offset, uint32_t ahead_lines, const struct prompt_options *o, prompt_count_tokens *count, void *user,
                           struct prompt *out, struct err_msg *msg) ERR_MUST_CHECK;
// Frees the owned memory; accepts a zeroed prompt.
void prompt_finish(struct prompt *p);

#endif
