// SPDX-License-Identifier: MIT
// Private to the document room: the parts of it that see tree-sitter.
#ifndef MASKSTORE_DOCUMENT_SYNTAX_H
#define MASKSTORE_DOCUMENT_SYNTAX_H

#include <tree_sitter/api.h>

#include "document/internal.h"

struct syntax {
	atomic_uint refs;
	TSTree *tree;          // owned copy
	struct snapshot *text; // counted
};

// The syntax of a snapshot whose state is SYNTAX_DONE. ERR_NOMEM.
enum err syntax_create(struct snapshot *s, struct syntax **out) ERR_MUST_CHECK;

#endif
