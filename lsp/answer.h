// SPDX-License-Identifier: MIT
// From a suggestion to the items of the two completion methods. Pure.
#ifndef MASKSTORE_LSP_ANSWER_H
#define MASKSTORE_LSP_ANSWER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "document/document.h"
#include "protocol.h"

struct answer_place {
	const struct snapshot *snapshot; // the version that was asked about
	size_t offset;                   // cursor, bytes
	enum pos_encoding encoding;
	bool as_is_insertion;            // the client knows insertTextMode asIs
	bool has_selected;               // a menu item is selected: the answer must extend it
	struct lsp_range selected_range;
	struct text_ref selected_text;
};

struct answer_text {
	const char *text;      // as it is to be inserted, with the document's line ends; may be empty
	size_t n_bytes;
	size_t replace_bytes;  // right of the cursor
};

// New references. An empty, blank or unfitting text gives an empty list, incomplete for completion. (Null would leave older ghost text standing in
// Neovim 0.12: it is for requests that a newer one has overtaken.)
// C null: memory is out.
json_t *answer_inline(const struct answer_place *p, const struct answer_text *t) ERR_MUST_CHECK;
json_t *answer_list(const struct answer_place *p, const struct answer_text *t) ERR_MUST_CHECK;

#endif
