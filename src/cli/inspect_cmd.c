// SPDX-License-Identifier: MIT
// maskstore inspect model|tokens|prompt: what the engine sees, for people and tests.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "cli/cli.h"
#include "prompt/prompt.h"

static enum err open_model(const struct cli *c, struct model **out, struct err_msg *msg) {
	return model_open(c->config.model, kernels_get(cpu_flags_up_to(c->config.isa)), out, msg);
}

// --- model

static int inspect_model(const struct cli *c) {
	struct model *m;
	struct err_msg msg = {0};
	enum err e = open_model(c, &m, &msg);
	if (e != ERR_OK)
		return cli_fail(e, &msg);
	const struct model_info *i = model_info(m);
	const struct fim_tokens *fim = tokenizer_fim(model_tokenizer(m));
	printf("file            %s\nname            %s\narchitecture    %s\n", i->path, i->name, i->arch);
	printf("layers          %d\nembedding       %d\nheads           %d (KV %d), head_dim %d\nffn             %d\nvocabulary      %d\n",
	       i->n_layer, i->n_embd, i->n_head, i->n_head_kv, i->head_dim, i->n_ff, i->n_vocab);
	printf("context         %d tokens\nrope            theta %g, %s pairs\nrms_eps         %g\n", i->n_ctx_train, (double)i->rope_theta,
	       i->rope_neox ? "half-split" : "adjacent", (double)i->rms_eps);
	printf("head            %s\nqkv bias        %s\ntiers           %s\n", i->tied_head ? "tied to the embedding" : "own matrix",
	       i->qkv_bias ? "yes" : "no", i->tiers_allowed ? "possible" : "exact attention only (head_dim is not a multiple of 32)");
	printf("weights         %.1f MB, %.1f MB read per token\n", (double)i->weight_bytes / 1e6, (double)i->weight_bytes_per_token / 1e6);
	printf("fim tokens      ");
	if (fim->middle == TOKEN_NONE)
		printf("none (prefix only)\n");
	else
		printf("prefix %d, suffix %d, middle %d\n", fim->prefix, fim->suffix, fim->middle);
	printf("kernels         %s\n", model_kernels(m)->name);
	model_close(m);
	return 0;
}

// --- tokens

static void print_ids(const struct token_list *l) {
	printf("[");
	for (size_t i = 0; i < l->n; i++)
		printf(i ? ",%d" : "%d", l->ids[i]);
	printf("]\n");
}

static bool round_trips(const struct tokenizer *t, const struct token_list *l, const char *text, size_t n_bytes) {
	size_t at = 0;
	for (size_t i = 0; i < l->n; i++) {
		size_t n;
		const char *bytes = tokenizer_bytes(t, l->ids[i], &n);
		if (n > n_bytes - at || memcmp(bytes, text + at, n))
			return false;
		at += n;
	}
	return at == n_bytes;
}

static enum err show_tokens(const struct cli *c, const struct tokenizer *t, const char *path, FILE *out, struct err_msg *msg) {
	char *text = NULL;
	size_t n_bytes = 0;
	struct token_list l = {0};
	enum err e = cli_read_file(path, &text, &n_bytes, msg);
	if (e == ERR_OK)
		e = tokenizer_encode(t, text, n_bytes, &l);
	if (e == ERR_OK && cli_option(c, "roundtrip") && !round_trips(t, &l, text, n_bytes))
		e = err_set(msg, ERR_FORMAT, "%s: decoding the ids does not give the file's bytes", path);
	if (e == ERR_OK && out) {
		printf("%zu %s\n", l.n, path);
		if (fwrite(l.ids, sizeof *l.ids, l.n, out) != l.n)
			e = err_set(msg, ERR_IO, "cannot write the ids: %s", strerror(errno));
	} else if (e == ERR_OK && !cli_option(c, "roundtrip")) {
		print_ids(&l);
	}
	token_list_finish(&l);
	free(text);
	return e;
}

static int inspect_tokens(const struct cli *c) {
	struct err_msg msg = {0};
	const char *out_path = cli_option(c, "out");
	if (c->n_words < 2 || !cli_option(c, "binary") != !out_path)
		return cli_fail(ERR_ARG, &(struct err_msg){"inspect tokens takes files, and --binary together with --out IDS"});
	struct model *m;
	enum err e = open_model(c, &m, &msg);
	if (e != ERR_OK)
		return cli_fail(e, &msg);
	FILE *out = out_path ? fopen(out_path, "wbe") : NULL;
	if (out_path && !out)
		e = err_set(&msg, ERR_IO, "%s: %s", out_path, strerror(errno));
	for (int i = 1; i < c->n_words && e == ERR_OK; i++)
		e = show_tokens(c, model_tokenizer(m), c->words[i], out, &msg);
	if (out && fclose(out) && e == ERR_OK)
		e = err_set(&msg, ERR_IO, "%s: %s", out_path, strerror(errno));
	model_close(m);
	return e == ERR_OK ? 0 : cli_fail(e, &msg);
}

// --- prompt

static size_t count_tokens(const struct tokenizer *t, const char *text, size_t n_bytes) {
	struct token_list l = {0};
	size_t n = tokenizer_encode(t, text, n_bytes, &l) == ERR_OK ? l.n : 0;
	token_list_finish(&l);
	return n;
}

static void print_segments(const struct tokenizer *t, const struct prompt *p) {
	static const char *const marks[] = {"", "<bos>", "<fim prefix>", "<fim suffix>", "<fim middle>"};
	for (int i = 0; i < p->n_segments; i++) {
		const struct prompt_segment *s = &p->segments[i];
		if (s->mark == PROMPT_TEXT)
			printf("--- %zu tokens\n%.*s\n", count_tokens(t, p->text + s->begin, s->end - s->begin), (int)(s->end - s->begin), p->text + s->begin);
		else
			printf("--- %s\n", marks[s->mark]);
	}
	printf("--- healed %zu bytes: \"%.*s\"; %s\n", p->healed_bytes, (int)p->healed_bytes, p->healed,
	       p->single_line ? "one line" : "to the end of the block");
}

static enum err show_prompt(const struct cli *c, const struct model *m, struct snapshot *s, size_t offset, struct err_msg *msg) {
	struct parser_worker *parser = NULL;
	struct prompt p = {0};
	struct engine_options o = cli_engine_options(c);
	enum err e = parser_worker_create(&parser);
	if (e == ERR_OK)
		e = complete_prompt(m, &o, parser, s, offset, NULL, &p, msg);
	if (e == ERR_OK)
		print_segments(model_tokenizer(m), &p);
	prompt_finish(&p);
	parser_worker_destroy(parser);
	return e;
}

static int inspect_prompt(const struct cli *c) {
	struct err_msg msg = {0};
	if (c->n_words != 2)
		return cli_fail(ERR_ARG, &(struct err_msg){"inspect prompt takes one FILE:LINE:COL"});
	struct snapshot *s;
	size_t offset;
	enum err e = cli_open_cursor(c->words[1], &s, &offset, &msg);
	if (e != ERR_OK)
		return cli_fail(e, &msg);
	struct model *m = NULL;
	e = open_model(c, &m, &msg);
	if (e == ERR_OK)
		e = show_prompt(c, m, s, offset, &msg);
	model_close(m);
	snapshot_unref(s);
	return e == ERR_OK ? 0 : cli_fail(e, &msg);
}

int cli_inspect(const struct cli *c) {
	static const struct {
		const char *name;
		int (*run)(const struct cli *);
	} views[] = {
		{"model", inspect_model}, {"tokens", inspect_tokens}, {"prompt", inspect_prompt},
		{"logits", cli_inspect_logits}, {"generate", cli_inspect_generate}, {"store", cli_inspect_store},
		{"layouts", cli_inspect_layouts},
	};
	for (size_t i = 0; c->n_words && i < sizeof views / sizeof views[0]; i++)
		if (!strcmp(views[i].name, c->words[0]))
			return views[i].run(c);
	return cli_fail(ERR_ARG, &(struct err_msg){"inspect takes one of: model, tokens, prompt, logits, generate, store, layouts"});
}
