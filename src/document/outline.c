// SPDX-License-Identifier: MIT
#include "document/syntax.h"

struct syntax_place syntax_at(const struct syntax *x, size_t offset) {
	(void)offset;
	return (struct syntax_place){.block_end = snapshot_bytes(x->text), .definition_begin = SIZE_MAX};
}
