// SPDX-License-Identifier: MIT
// The method table: sorted, so that every entry is found; unknown names are not.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lsp/internal.h"

static void sorted_and_found(void **state) {
	(void)state;
	assert_true(n_methods > 10);
	for (size_t i = 0; i < n_methods; i++) {
		if (i)
			assert_true(strcmp(methods[i - 1].name, methods[i].name) < 0);
		assert_ptr_equal(methods_find(methods[i].name), &methods[i]);
		assert_non_null(methods[i].handle);
	}
}

static void unknown_names(void **state) {
	(void)state;
	const char *names[] = {"", "a", "$/", "textDocument/hover", "zzz", "initialize "};
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		assert_null(methods_find(names[i]));
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(sorted_and_found), cmocka_unit_test(unknown_names)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
