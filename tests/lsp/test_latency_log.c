// SPDX-License-Identifier: MIT
// R84, R85: one valid line a request, rotation, two writers, failures that nobody feels.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "lsp/latency_log.h"

struct folder {
	char path[64];
	char log[128], old[160];
};

static void make_folder(struct folder *f) {
	strcpy(f->path, "/tmp/maskstore-log-XXXXXX");
	assert_non_null(mkdtemp(f->path));
	snprintf(f->log, sizeof f->log, "%s/a/b/requests.jsonl", f->path);
	snprintf(f->old, sizeof f->old, "%s.1", f->log);
}

static void remove_folder(struct folder *f) {
	char name[128];
	unlink(f->log);
	unlink(f->old);
	snprintf(name, sizeof name, "%s/a/b", f->path);
	rmdir(name);
	snprintf(name, sizeof name, "%s/a", f->path);
	rmdir(name);
	assert_int_equal(rmdir(f->path), 0);
}

static struct latency_entry entry(const struct complete_result *r) {
	return (struct latency_entry){.method = "textDocument/completion", .id_json = "\"a\\\"b\"", .document_version = 3, .document_bytes = 100,
		.answer_bytes = 7, .strategy = "conservative", .outcome = "shown", .result = r, .total_us = 900};
}

// Lines of a file, each checked to be a JSON object; -1 if there is no file.
static int count_lines(const char *path, json_t **last) {
	FILE *f = fopen(path, "r");
	if (!f)
		return -1;
	char line[4096];
	int n = 0;
	while (fgets(line, sizeof line, f)) {
		json_t *j = json_loads(line, 0, NULL);
		assert_true(json_is_object(j));
		n++;
		if (last) {
			json_decref(*last);
			*last = json_incref(j);
		}
		json_decref(j);
	}
	fclose(f);
	return n;
}

static json_int_t number(json_t *j, const char *a, const char *b) {
	json_t *v = json_object_get(j, a);
	return json_integer_value(b ? json_object_get(v, b) : v);
}

static void line_has_the_fields(void **state) {
	(void)state;
	struct folder f;
	struct latency_log l;
	struct complete_result r = {.outcome = OUTCOME_SHOWN, .ttft_us = 500, .phases = {.queue = 1, .prefill = 5, .finish = 7}, .prompt_tokens = 10, .hit_tokens = 4,
		.new_tokens = 6, .generated_tokens = 2};
	struct latency_entry e = entry(&r);
	json_t *j = NULL;
	make_folder(&f);
	latency_log_init(&l, f.log, 0);
	assert_true(latency_log_write(&l, &e));
	assert_int_equal(count_lines(f.log, &j), 1); // flushed: read while the log is open
	assert_string_equal(json_string_value(json_object_get(j, "id")), "a\"b");
	assert_string_equal(json_string_value(json_object_get(j, "method")), "textDocument/completion");
	assert_string_equal(json_string_value(json_object_get(j, "outcome")), "shown");
	assert_non_null(json_string_value(json_object_get(j, "stop")));
	assert_int_equal(number(j, "ttft_us", NULL), 500);
	assert_int_equal(number(j, "total_us", NULL), 900);
	assert_int_equal(number(j, "phases_us", "prefill"), 5);
	assert_int_equal(number(j, "tokens", "hit"), 4);
	r.generated_tokens = 0; // no token: the reply is what was waited for
	assert_true(latency_log_write(&l, &e));
	e.result = NULL;
	assert_true(latency_log_write(&l, &e));
	assert_int_equal(count_lines(f.log, &j), 3);
	assert_int_equal(number(j, "ttft_us", NULL), 900);
	struct stat st;
	assert_int_equal(stat(f.log, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	json_decref(j);
	latency_log_finish(&l);
	remove_folder(&f);
}

static void rotates(void **state) {
	(void)state;
	struct folder f;
	struct latency_log l;
	struct latency_entry e = entry(NULL);
	make_folder(&f);
	latency_log_init(&l, f.log, 4000);
	struct stat st;
	for (int i = 0; i < 100; i++) {
		assert_true(latency_log_write(&l, &e));
		assert_int_equal(stat(f.log, &st), 0);
		assert_true(st.st_size < 6000);
	}
	assert_true(count_lines(f.old, NULL) >= 4);
	assert_int_equal(stat(f.old, &st), 0);
	assert_true(st.st_size < 6000);
	latency_log_finish(&l);
	remove_folder(&f);
}

// Two servers with one file: every line is in one of the two files, until a second rotation.
static void two_writers(void **state) {
	(void)state;
	struct folder f;
	struct latency_log a, b;
	struct latency_entry e = entry(NULL);
	make_folder(&f);
	latency_log_init(&a, f.log, 8000);
	latency_log_init(&b, f.log, 8000);
	int n = 0;
	while (count_lines(f.old, NULL) < 0 || n % 2) {
		assert_true(latency_log_write(n % 2 ? &a : &b, &e));
		n++;
		assert_true(n < 1000);
	}
	assert_true(latency_log_write(&b, &e));
	n++;
	assert_int_equal(count_lines(f.log, NULL) + count_lines(f.old, NULL), n);
	latency_log_finish(&a);
	latency_log_finish(&b);
	remove_folder(&f);
}

static void failures_are_told_once(void **state) {
	(void)state;
	struct latency_log l;
	struct latency_entry e = entry(NULL);
	const char *paths[] = {"/proc/self/none/x.jsonl", "/dev/null/x.jsonl"};
	for (int i = 0; i < 2; i++) {
		latency_log_init(&l, paths[i], 0);
		assert_false(latency_log_write(&l, &e));
		for (int k = 0; k < 10; k++)
			assert_true(latency_log_write(&l, &e));
		latency_log_finish(&l);
	}
	latency_log_init(&l, "/dev/full", 0);
	assert_false(latency_log_write(&l, &e));
	latency_log_finish(&l);
	latency_log_init(&l, "", 0);
	assert_true(latency_log_write(&l, &e));
	latency_log_finish(&l);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(line_has_the_fields), cmocka_unit_test(rotates), cmocka_unit_test(two_writers), cmocka_unit_test(failures_are_told_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
