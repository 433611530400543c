// SPDX-License-Identifier: MIT
// R45, R49: the table of open documents.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lsp/workspace.h"

static struct open_document *find(struct workspace *w, const char *uri) {
	return workspace_find(w, uri, strlen(uri));
}

static struct open_document *open_one(struct workspace *w, const char *uri) {
	struct open_document *d = NULL;
	assert_int_equal(workspace_open(w, uri, strlen(uri), &d), ERR_OK);
	return d;
}

static void open_find_close(void **state) {
	(void)state;
	struct workspace w;
	workspace_init(&w);
	assert_null(find(&w, "file:///a.py"));
	struct open_document *d = open_one(&w, "file:///c%3A/a.py");
	assert_ptr_equal(find(&w, "file:///C:/a.py"), d);
	assert_true(workspace_close(&w, "file:///c:/a.py", strlen("file:///c:/a.py")));
	assert_false(workspace_close(&w, "file:///c:/a.py", strlen("file:///c:/a.py")));
	assert_null(find(&w, "file:///c%3A/a.py"));
	workspace_finish(&w);
}

static void opening_again_empties(void **state) {
	(void)state;
	struct workspace w;
	workspace_init(&w);
	struct open_document *d = open_one(&w, "");
	uint64_t id = d->id;
	assert_int_equal(document_create("x", 1, false, 1, &d->text, NULL), ERR_OK);
	d->stale = d->told_large = true;
	assert_ptr_equal(open_one(&w, ""), d);
	assert_null(d->text);
	assert_false(d->stale || d->told_large);
	assert_true(d->id > id);
	assert_int_equal(w.n_open, 1);
	workspace_finish(&w);
}

static void many_documents(void **state) {
	(void)state;
	struct workspace w;
	char uri[64];
	workspace_init(&w);
	for (int i = 0; i < 5000; i++) {
		snprintf(uri, sizeof uri, "file:///%d.py", i);
		open_one(&w, uri);
	}
	for (int i = 0; i < 5000; i += 2) {
		snprintf(uri, sizeof uri, "file:///%d.py", i);
		assert_true(workspace_close(&w, uri, strlen(uri)));
	}
	assert_int_equal(w.n_open, 2500);
	for (int i = 0; i < 5000; i++) {
		snprintf(uri, sizeof uri, "file:///%d.py", i);
		assert_int_equal(find(&w, uri) != NULL, i % 2);
	}
	workspace_finish(&w);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(open_find_close), cmocka_unit_test(opening_again_empties), cmocka_unit_test(many_documents),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
