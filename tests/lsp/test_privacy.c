// SPDX-License-Identifier: MIT
// What may be written: names, a real git repository with an ignored file, files of no repository, a missing git, ending while git runs.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lsp/privacy.h"

static char folder[64];

static int set_up(void **state) {
	(void)state;
	char command[512];
	snprintf(folder, sizeof folder, "/tmp/maskstore-privacy-XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	snprintf(command, sizeof command, "cd %s && mkdir -p repo/sub plain broken/.git && git init -q repo && printf 'local_*.py\\nsub/\\n' > repo/.gitignore", folder);
	return system(command);
}

static int tear_down(void **state) {
	(void)state;
	char command[128];
	snprintf(command, sizeof command, "rm -rf %s", folder);
	return system(command);
}

static void test_names(void **state) {
	(void)state;
	static const char *const secret[] = {"/a/.env", "/a/.env.local", "/a/prod.env", "/a/.ssh/config.py", "/a/server.pem", "/a/x.KEY", "/a/id_rsa",
	                                     "/a/secrets.py", "/a/Credentials.json", "/a/passwords.py", "/a/.netrc", "/a/.aws/x.py"};
	static const char *const fine[] = {"/a/main.py", "/a/environment.py", "/a/keys.py", "/a/my.ssh.py", "/a/tokenizer.py", "/env/app.py", "/a/pem.py", "/a/monkey.py"};
	for (size_t i = 0; i < sizeof secret / sizeof secret[0]; i++)
		if (!privacy_is_secret_name(secret[i]))
			fail_msg("%s", secret[i]);
	for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++)
		if (privacy_is_secret_name(fine[i]))
			fail_msg("%s", fine[i]);
}

struct heard {
	int n;
	uint64_t id;
	bool may_write;
};

static void hear(void *user, uint64_t document_id, bool may_write) {
	struct heard *h = user;
	*h = (struct heard){h->n + 1, document_id, may_write};
}

// Asks and runs the loop until it is empty.
static bool ask(const char *name) {
	uv_loop_t loop;
	struct privacy p;
	struct heard h = {0};
	char uri[256];
	uv_loop_init(&loop);
	privacy_init(&p, &loop);
	snprintf(uri, sizeof uri, *name == '/' ? "file://%s%s" : "%.0s%s", folder, name);
	privacy_ask(&p, uri, strlen(uri), 42, hear, &h);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(h.n, 1);
	assert_int_equal(h.id, 42);
	assert_null(p.checks);
	privacy_stop(&p);
	privacy_finish(&p);
	assert_int_equal(uv_loop_close(&loop), 0);
	return h.may_write;
}

static void test_git_decides(void **state) {
	(void)state;
	assert_true(ask("/repo/main.py"));
	assert_true(ask("/repo/with space & 'quote'.py"));
	assert_false(ask("/repo/local_settings.py"));
	assert_false(ask("/repo/sub/module.py"));
	assert_false(ask("/repo/.env"));
	assert_true(ask("/plain/main.py"));       // no repository
	assert_false(ask("/broken/main.py"));     // a repository that git cannot read
	assert_true(ask("/plain/new/folder/x.py")); // a folder that does not exist yet
	assert_false(ask("untitled:Untitled-1"));
	assert_false(ask("vscode-notebook-cell:/x.py"));
}

static void test_without_git(void **state) {
	(void)state;
	char *path = strdup(getenv("PATH"));
	setenv("PATH", "/nonexistent", 1);
	bool in_repo = ask("/repo/main.py"), plain = ask("/plain/main.py");
	setenv("PATH", path, 1);
	free(path);
	assert_false(in_repo);
	assert_true(plain);
}

static void test_ending_while_git_runs(void **state) {
	(void)state;
	uv_loop_t loop;
	struct privacy p;
	struct heard h = {0};
	char uri[256];
	uv_loop_init(&loop);
	privacy_init(&p, &loop);
	snprintf(uri, sizeof uri, "file://%s/repo/main.py", folder);
	for (uint64_t i = 0; i < 3; i++)
		privacy_ask(&p, uri, strlen(uri), i, hear, &h);
	privacy_stop(&p);
	uv_run(&loop, UV_RUN_DEFAULT);
	privacy_finish(&p);
	assert_int_equal(uv_loop_close(&loop), 0);
	assert_int_equal(h.n, 0);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names), cmocka_unit_test(test_git_decides), cmocka_unit_test(test_without_git),
		cmocka_unit_test(test_ending_while_git_runs),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
