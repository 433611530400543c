// SPDX-License-Identifier: MIT
// maskstore bench spec: the same completions decoded plainly and with speculation, each place by both in turn, so that a machine that becomes slower does so
// for both. Two completers, so that neither knows what the other decoded; both must give the same tokens.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "cli/cli.h"

struct side {
	struct completer *completer;
	token_id *ids; // [n] of the place at hand
	int64_t decode_us, cpu_us;
	long n_tokens, n_passes, n_proposed, n_accepted;
};

struct spec_bench {
	const struct cli *cli;
	struct parser_worker *parser;
	struct side plain, spec;
	long n;
	int n_places, n_different;
};

static int64_t cpu_us(void) {
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static enum err decode_place(struct spec_bench *b, struct side *s, struct snapshot *snapshot, size_t offset, bool count, struct err_msg *msg) {
	struct complete_result r;
	int64_t cpu_before = cpu_us();
	complete_run(s->completer, &(struct complete_request){.snapshot = snapshot, .offset = offset, .trigger = TRIGGER_INVOKED, .received_us = clock_us(),
		.exact = s->ids, .n_exact = (int)b->n}, &r);
	enum err e = r.err;
	if (e != ERR_OK)
		*msg = r.msg;
	else if (r.generated_tokens < b->n)
		e = err_set(msg, ERR_STATE, "only %d tokens at one of the places", r.generated_tokens);
	if (e == ERR_OK && count) {
		s->decode_us += r.phases.decode;
		s->cpu_us += cpu_us() - cpu_before;
		s->n_tokens += r.generated_tokens;
		s->n_passes += r.decode_passes;
		s->n_proposed += r.draft_proposed;
		s->n_accepted += r.draft_accepted;
	}
	complete_result_finish(&r);
	return e;
}

static enum err measure(struct spec_bench *b, struct snapshot *snapshot, size_t offset, bool count, struct err_msg *msg) {
	bool spec_first = b->n_places % 2;
	enum err e = decode_place(b, spec_first ? &b->spec : &b->plain, snapshot, offset, count, msg);
	if (e == ERR_OK)
		e = decode_place(b, spec_first ? &b->plain : &b->spec, snapshot, offset, count, msg);
	b->n_different += e == ERR_OK && memcmp(b->plain.ids, b->spec.ids, (size_t)b->n * sizeof(token_id));
	b->n_places += count;
	return e;
}

// To warm up, the file's start (or end) is decoded, uncounted: at the place itself the memo would know everything afterwards.
static enum err measure_place(struct spec_bench *b, const char *word, bool warm_up, struct err_msg *msg) {
	struct snapshot *snapshot;
	size_t offset;
	enum err e = cli_open_cursor(word, &snapshot, &offset, msg);
	if (e != ERR_OK)
		return e;
	if (warm_up)
		offset = offset ? 0 : snapshot_bytes(snapshot);
	e = measure(b, snapshot, offset, !warm_up, msg);
	snapshot_unref(snapshot);
	return e == ERR_OK ? e : err_prefix(msg, e, "%s", word);
}

static enum err side_open(struct spec_bench *b, struct side *s, enum speculation speculate, struct err_msg *msg) {
	struct engine_options o = cli_engine_options(b->cli);
	o.speculate = speculate;
	o.max_new_tokens_block = (int)b->n;
	s->ids = malloc((size_t)b->n * sizeof *s->ids);
	return s->ids ? completer_create(&o, b->parser, &s->completer, msg) : err_set(msg, ERR_NOMEM, "out of memory");
}

static void side_close(struct side *s) {
	completer_destroy(s->completer);
	free(s->ids);
}

static double rate(const struct side *s) {
	return (double)s->n_tokens * 1e6 / (double)s->decode_us;
}

static void print_figures(const struct spec_bench *b) {
	const struct side *p = &b->plain, *s = &b->spec;
	bool identical = !b->n_different;
	double ratio = rate(s) / rate(p);
	if (b->cli->json)
		printf("{\"bench\":\"spec\",\"places\":%d,\"tokens\":%ld,\"plain_tokens_per_s\":%.2f,\"spec_tokens_per_s\":%.2f,\"ratio\":%.4f,\"identical\":%s,"
		       "\"plain_passes\":%ld,\"spec_passes\":%ld,\"proposed\":%ld,\"accepted\":%ld,\"plain_cpu_s\":%.2f,\"spec_cpu_s\":%.2f}\n",
		       b->n_places, p->n_tokens, rate(p), rate(s), ratio, identical ? "true" : "false", p->n_passes, s->n_passes, s->n_proposed, s->n_accepted,
		       (double)p->cpu_us / 1e6, (double)s->cpu_us / 1e6);
	else
		printf("%d places, %ld tokens: %.1f tokens/s plain, %.1f with speculation (%.2f; %ld passes instead of %ld, %ld of %ld drafted tokens accepted)%s\n",
		       b->n_places, p->n_tokens, rate(p), rate(s), ratio, s->n_passes, p->n_passes, s->n_accepted, s->n_proposed,
		       identical ? "" : "; THE TOKENS DIFFER");
}

static enum err run_bench(struct spec_bench *b, struct err_msg *msg) {
	enum err e = parser_worker_create(&b->parser) == ERR_OK ? ERR_OK : err_set(msg, ERR_NOMEM, "out of memory");
	if (e == ERR_OK)
		e = side_open(b, &b->plain, SPECULATE_OFF, msg);
	if (e == ERR_OK)
		e = side_open(b, &b->spec, SPECULATE_ON, msg);
	if (e == ERR_OK)
		e = measure_place(b, b->cli->words[1], true, msg);
	for (int i = 1; i < b->cli->n_words && e == ERR_OK; i++)
		e = measure_place(b, b->cli->words[i], false, msg);
	return e;
}

int cli_bench_spec(const struct cli *c) {
	struct spec_bench b = {.cli = c};
	struct err_msg msg = {0};
	if (!cli_option_int(c, "n", 1, 4096, 64, &b.n))
		return CLI_EXIT_BAD_INPUT;
	enum err e = run_bench(&b, &msg);
	if (e == ERR_OK)
		print_figures(&b);
	side_close(&b.plain);
	side_close(&b.spec);
	parser_worker_destroy(b.parser);
	return e != ERR_OK ? cli_fail(e, &msg) : b.n_different ? 1 : 0;
}
