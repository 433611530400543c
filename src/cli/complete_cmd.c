// SPDX-License-Identifier: MIT
// maskstore complete FILE:LINE:COL
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h"

static double ms(int64_t us) {
	return (double)us / 1000;
}

static void print_json(const struct cli *c, const struct complete_result *r, const struct model_info *info) {
	struct buf b = {0};
	const struct complete_phases_us *p = &r->phases;
	buf_append_str(&b, "{\"text\":");
	buf_append_json(&b, r->suggestion.text ? r->suggestion.text : "", r->suggestion.text_bytes);
	buf_appendf(&b, ",\"stop\":\"%s\",\"ttft_ms\":%.3f,\"total_ms\":%.3f", stop_name(r->stop), ms(r->ttft_us), ms(r->total_us));
	buf_appendf(&b, ",\"phases_ms\":{\"load\":%.3f,\"prompt\":%.3f,\"tokenize\":%.3f,\"prefill\":%.3f,\"decode\":%.3f,\"finish\":%.3f}",
	            ms(p->load), ms(p->prompt), ms(p->tokenize), ms(p->prefill), ms(p->decode), ms(p->finish));
	buf_appendf(&b, ",\"tokens\":{\"prompt\":%d,\"hit\":%d,\"new\":%d,\"generated\":%d},\"model\":", r->prompt_tokens, r->hit_tokens,
	            r->new_tokens, r->generated_tokens);
	buf_append_json(&b, info->name, strlen(info->name));
	buf_appendf(&b, ",\"strategy\":\"%s\"}", c->config.strategy);
	printf("%s\n", b.data);
	buf_finish(&b);
}

static void print_text(const struct complete_result *r) {
	const struct complete_phases_us *p = &r->phases;
	printf("%.*s\n", (int)r->suggestion.text_bytes, r->suggestion.text ? r->suggestion.text : "");
	fprintf(stderr, "\nload %.0f ms, prompt %.1f, tokenize %.1f, prefill %.0f (%d tokens), decode %.0f (%d tokens), finish %.1f;"
	        " first token after %.0f ms, total %.0f ms; stopped by %s\n",
	        ms(p->load), ms(p->prompt), ms(p->tokenize), ms(p->prefill), r->new_tokens, ms(p->decode), r->generated_tokens,
	        ms(p->finish), ms(r->ttft_us), ms(r->total_us), stop_name(r->stop));
}

static int run_and_print(const struct cli *c, struct completer *completer, struct snapshot *s, size_t offset, int64_t start_us) {
	struct complete_result r;
	int64_t load_us = clock_us() - start_us;
	if (*completer_notice(completer))
		fprintf(stderr, "maskstore: %s\n", completer_notice(completer));
	struct complete_request request = {.snapshot = s, .offset = offset, .trigger = TRIGGER_INVOKED, .received_us = start_us};
	complete_run(completer, &request, &r);
	r.phases.load = load_us;
	int status = 0;
	if (r.outcome == OUTCOME_FAILED)
		status = cli_fail(r.err, &r.msg);
	else if (c->json)
		print_json(c, &r, model_info(completer_model(completer)));
	else
		print_text(&r);
	complete_result_finish(&r);
	return status;
}

static int complete_at(const struct cli *c, struct snapshot *s, size_t offset, int64_t start_us) {
	struct parser_worker *parser = NULL;
	struct completer *completer = NULL;
	struct err_msg msg = {"out of memory"};
	enum err e = parser_worker_create(&parser);
	if (e == ERR_OK) {
		struct engine_options o = cli_engine_options(c);
		e = completer_create(&o, parser, &completer, &msg);
	}
	if (e == ERR_OK && !model_info(completer_model(completer))->tiers_allowed)
		fprintf(stderr, "maskstore: head_dim %d of this model is not a multiple of %d: exact attention only\n",
		        model_info(completer_model(completer))->head_dim, MASKSTORE_GRANULARITY);
	int status = e == ERR_OK ? run_and_print(c, completer, s, offset, start_us) : cli_fail(e, &msg);
	completer_destroy(completer);
	parser_worker_destroy(parser);
	return status;
}

int cli_complete(const struct cli *c) {
	int64_t start_us = clock_us();
	struct err_msg msg = {0};
	if (c->n_words != 1)
		return cli_fail(ERR_ARG, &(struct err_msg){"complete takes one FILE:LINE:COL, for example: maskstore complete app.py:12:5"});
	struct snapshot *s;
	size_t offset;
	enum err e = cli_open_cursor(c->words[0], &s, &offset, &msg);
	if (e != ERR_OK)
		return cli_fail(e, &msg);
	int status = complete_at(c, s, offset, start_us);
	snapshot_unref(s);
	return status;
}
