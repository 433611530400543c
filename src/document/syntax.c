// SPDX-License-Identifier: MIT
// A parsed snapshot as other rooms hold it. Immutable, counted, any thread.
#include <stdlib.h>

#include "document/syntax.h"

void syntax_tree_free(void *tree) {
	if (tree)
		ts_tree_delete(tree);
}

enum err syntax_create(struct snapshot *s, struct syntax **out) {
	struct syntax *x = malloc(sizeof *x);
	if (!x)
		return ERR_NOMEM;
	atomic_init(&x->refs, 1);
	x->tree = ts_tree_copy(s->tree);
	x->text = snapshot_ref(s);
	*out = x;
	return ERR_OK;
}

void syntax_unref(struct syntax *x) {
	if (!x || atomic_fetch_sub_explicit(&x->refs, 1, memory_order_acq_rel) != 1)
		return;
	ts_tree_delete(x->tree);
	snapshot_unref(x->text);
	free(x);
}

char *syntax_dump(const struct syntax *x) {
	return ts_node_string(ts_tree_root_node(x->tree));
}
