// SPDX-License-Identifier: MIT
// Tokenizer: ids as the `tokenizers` library gives them (bpe_cases.txt, made by tools/oracle/make_bpe_cases.py), round trips, special
// tokens, and what broken vocabularies get.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf_bytes.h"
#include "model/pretokenize.h"
#include "model/tokenizer.h"

static const char *data_path(const char *name) {
	static char path[1024];
	const char *folder = getenv("MASKSTORE_TEST_DATA");
	snprintf(path, sizeof path, "%s/%s", folder ? folder : "tests/model", name);
	return path;
}

static struct tokenizer *open_tokenizer(const char *name) {
	struct gguf *g;
	struct tokenizer *t = NULL;
	struct err_msg msg = {""};
	if (gguf_open(data_path(name), &g, &msg) || tokenizer_create(g, &t, &msg))
		fail_msg("%s", msg.text);
	gguf_close(g); // the tokenizer keeps nothing of it
	return t;
}

static struct token_list encode(const struct tokenizer *t, const char *text, size_t n_bytes) {
	struct token_list l = {0};
	assert_int_equal(tokenizer_encode(t, text, n_bytes, &l), ERR_OK);
	return l;
}

static void assert_round_trip(const struct tokenizer *t, const char *text, size_t n_bytes) {
	struct token_list l = encode(t, text, n_bytes);
	size_t at = 0;
	for (size_t i = 0; i < l.n; i++) {
		size_t len;
		const char *bytes = tokenizer_bytes(t, l.ids[i], &len);
		assert_true(len > 0 && len <= n_bytes - at);
		assert_memory_equal(text + at, bytes, len);
		at += len;
	}
	assert_int_equal(at, n_bytes);
	token_list_finish(&l);
}

// ---- against the library -------------------------------------------------------------------------------------------

static size_t unhex(char *hex) {
	size_t n = 0;
	for (; hex[2 * n] && hex[2 * n] != ' '; n++) {
		unsigned byte;
		assert_int_equal(sscanf(hex + 2 * n, "%2x", &byte), 1);
		hex[n] = (char)byte;
	}
	return n;
}

static void check_case(const struct tokenizer *t, int line, char *hex) {
	char *ids = strchr(hex, ' ');
	assert_non_null(ids);
	size_t n_bytes = unhex(hex);
	struct token_list l = encode(t, hex, n_bytes);
	for (size_t i = 0; i < l.n; i++) {
		long want = strtol(ids, &ids, 10);
		if (want != l.ids[i])
			fail_msg("case %d: token %zu is %d, the library says %ld", line, i, (int)l.ids[i], want);
	}
	if (ids[strspn(ids, " \n")])
		fail_msg("case %d: the library has more tokens:%s", line, ids);
	token_list_finish(&l);
}

static void gives_the_librarys_ids(void **state) {
	(void)state;
	struct tokenizer *qwen2 = open_tokenizer("bpe_qwen2.gguf"), *smollm = open_tokenizer("bpe_smollm.gguf");
	FILE *f = fopen(data_path("bpe_cases.txt"), "r");
	assert_non_null(f);
	static char line[1 << 16];
	int n = 0;
	for (; fgets(line, sizeof line, f); n++) {
		bool is_qwen2 = strncmp(line, "qwen2 ", 6) == 0;
		check_case(is_qwen2 ? qwen2 : smollm, n + 1, line + (is_qwen2 ? 6 : 7));
	}
	assert_int_equal(n, 136);
	fclose(f);
	tokenizer_destroy(qwen2);
	tokenizer_destroy(smollm);
}

// ---- any bytes -----------------------------------------------------------------------------------------------------

static uint32_t draw(uint32_t *state) {
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

static void round_trips_any_bytes(void **state) {
	(void)state;
	static const char bits[] = " \n\r\t'a1\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x98\x80\xC0\xFF\x80\xED\xA0";
	uint32_t seed = 3;
	for (int kind = 0; kind < 2; kind++) {
		struct tokenizer *t = open_tokenizer(kind ? "bpe_smollm.gguf" : "bpe_qwen2.gguf");
		for (int i = 0; i < 600; i++) {
			char text[100];
			size_t n = draw(&seed) % sizeof text;
			for (size_t j = 0; j < n; j++) {
				uint32_t r = draw(&seed);
				text[j] = i % 2 ? (char)r : bits[r % (sizeof bits - 1)];
			}
			assert_round_trip(t, text, n);
		}
		tokenizer_destroy(t);
	}
}

// Without an O(n log n) merge these would take hours.
static void bears_long_runs(void **state) {
	(void)state;
	enum { N = 1 << 20 };
	static const char fills[] = "a \n=\xFF";
	struct tokenizer *t = open_tokenizer("bpe_qwen2.gguf");
	char *text = malloc(N);
	assert_non_null(text);
	for (size_t i = 0; i < sizeof fills - 1; i++) {
		memset(text, fills[i], N);
		assert_round_trip(t, text, N);
	}
	for (int i = 0; i < N; i++)
		text[i] = (char)('a' + i * 7 % 26);
	assert_round_trip(t, text, N);
	free(text);
	tokenizer_destroy(t);
}

static void appends_to_the_list(void **state) {
	(void)state;
	struct tokenizer *t = open_tokenizer("bpe_qwen2.gguf");
	struct token_list l = {0};
	assert_int_equal(token_list_push(&l, 7), ERR_OK);
	assert_int_equal(tokenizer_encode(t, "x", 1, &l), ERR_OK);
	assert_int_equal(tokenizer_encode(t, "", 0, &l), ERR_OK);
	assert_true(l.n == 2 && l.ids[0] == 7 && l.ids[1] == 'x');
	token_list_finish(&l);
	tokenizer_destroy(t);
}

// ---- special tokens ------------------------------------------------------------------------------------------------

static token_id id_of(const struct tokenizer *t, const char *text) {
	for (token_id id = 0; id < tokenizer_n_vocab(t); id++) {
		size_t n;
		const char *s = tokenizer_text(t, id, &n);
		if (n == strlen(text) && memcmp(s, text, n) == 0)
			return id;
	}
	return TOKEN_NONE;
}

static void finds_special_tokens(void **state) {
	(void)state;
	struct tokenizer *t = open_tokenizer("bpe_qwen2.gguf");
	const struct fim_tokens *fim = tokenizer_fim(t);
	assert_int_equal(fim->prefix, id_of(t, "<|fim_prefix|>"));
	assert_int_equal(fim->suffix, id_of(t, "<|fim_suffix|>"));
	assert_int_equal(fim->middle, id_of(t, "<|fim_middle|>"));
	assert_int_equal(fim->pad, id_of(t, "<|fim_pad|>"));
	assert_int_equal(fim->repo, id_of(t, "<|repo_name|>"));
	assert_int_equal(fim->file_sep, id_of(t, "<|file_sep|>"));
	assert_int_equal(tokenizer_bos(t), TOKEN_NONE); // add_bos_token is not set
	int n_ends = 0;
	for (token_id id = 0; id < tokenizer_n_vocab(t); id++)
		n_ends += tokenizer_is_end(t, id);
	assert_int_equal(n_ends, 8);
	size_t len;
	tokenizer_bytes(t, fim->prefix, &len);
	assert_true(tokenizer_is_special(t, fim->prefix) && len == 0);
	assert_false(tokenizer_is_special(t, 'a') || tokenizer_is_end(t, 'a'));
	tokenizer_destroy(t);

	t = open_tokenizer("bpe_smollm.gguf");
	fim = tokenizer_fim(t);
	assert_true(fim->prefix == TOKEN_NONE && fim->suffix == TOKEN_NONE && fim->middle == TOKEN_NONE);
	assert_int_equal(fim->file_sep, id_of(t, "<file_sep>"));
	assert_true(tokenizer_is_end(t, id_of(t, "<|im_end|>")));
	tokenizer_destroy(t);
}

static void is_silent_about_unknown_ids(void **state) {
	(void)state;
	struct tokenizer *t = open_tokenizer("bpe_smollm.gguf");
	static const token_id outside[] = {-1, INT32_MIN, INT32_MAX};
	size_t n = 9;
	for (int i = 0; i < 3; i++) {
		assert_non_null(tokenizer_bytes(t, outside[i], &n));
		assert_int_equal(n, 0);
		assert_non_null(tokenizer_text(t, outside[i], &n));
		assert_int_equal(n, 0);
		assert_false(tokenizer_is_special(t, outside[i]) || tokenizer_is_end(t, outside[i]));
	}
	tokenizer_destroy(t);
}

static void reads_no_special_tokens_in_text(void **state) {
	(void)state;
	struct tokenizer *t = open_tokenizer("bpe_qwen2.gguf");
	static const char text[] = "<|fim_prefix|>a<|endoftext|><|im_end|>";
	struct token_list l = encode(t, text, strlen(text));
	for (size_t i = 0; i < l.n; i++)
		assert_false(tokenizer_is_special(t, l.ids[i]));
	token_list_finish(&l);
	assert_round_trip(t, text, strlen(text));
	tokenizer_destroy(t);
}

// ---- made-up vocabularies ------------------------------------------------------------------------------------------

struct made {
	const char *model, *pre;
	const char *tokens[12]; // until null
	uint32_t types[12];
	const char *merges[4];
	struct { const char *key; uint32_t id; } ids[4];
	bool add_bos, byte_types, no_merges;
	int n_types; // 0: as many as tokens; -1: the key is missing
};

static int count(const char *const *list) {
	int n = 0;
	while (list[n])
		n++;
	return n;
}

static void write_made(struct gguf_bytes *b, const struct made *m) {
	int n = count(m->tokens), n_types = m->n_types ? m->n_types : n, n_ids = 0;
	while (n_ids < 4 && m->ids[n_ids].key)
		n_ids++;
	gguf_begin(b, 3, 0, (uint64_t)(3 + (m->pre != NULL) + (n_types > 0) + !m->no_merges + n_ids - (m->tokens[0] == NULL)));
	gguf_put_pair_str(b, "tokenizer.ggml.model", m->model ? m->model : "gpt2");
	if (m->pre)
		gguf_put_pair_str(b, "tokenizer.ggml.pre", m->pre);
	if (n)
		gguf_put_array(b, "tokenizer.ggml.tokens", GGUF_STRING, (uint64_t)n);
	for (int i = 0; i < n; i++)
		gguf_put_str(b, m->tokens[i]);
	if (n_types > 0)
		gguf_put_array(b, "tokenizer.ggml.token_type", m->byte_types ? GGUF_U8 : GGUF_I32, (uint64_t)n_types);
	for (int i = 0; i < n_types; i++)
		m->byte_types ? gguf_put(b, "\1", 1) : gguf_put_u32(b, m->types[i] ? m->types[i] : 1);
	if (!m->no_merges)
		gguf_put_array(b, "tokenizer.ggml.merges", GGUF_STRING, (uint64_t)count(m->merges));
	for (int i = 0; !m->no_merges && m->merges[i]; i++)
		gguf_put_str(b, m->merges[i]);
	for (int i = 0; i < n_ids; i++)
		gguf_put_pair_u32(b, m->ids[i].key, m->ids[i].id);
	gguf_put_key(b, "tokenizer.ggml.add_bos_token", GGUF_BOOL);
	gguf_put(b, m->add_bos ? "\1" : "\0", 1);
}

static enum err make(const struct made *m, struct tokenizer **out, struct err_msg *msg) {
	struct gguf_bytes b;
	void *copy;
	struct gguf *g;
	write_made(&b, m);
	*out = NULL;
	if (gguf_open_copy(b.data, b.n_bytes, &copy, &g, msg))
		fail_msg("%s", msg->text);
	enum err e = tokenizer_create(g, out, msg);
	gguf_close(g);
	free(copy);
	gguf_free(&b);
	return e;
}

static struct tokenizer *make_good(const struct made *m) {
	struct tokenizer *t;
	struct err_msg msg = {""};
	if (make(m, &t, &msg))
		fail_msg("%s", msg.text);
	return t;
}

static void refuses_broken_vocabularies(void **state) {
	(void)state;
	static const struct {
		struct made made;
		enum err code;
		const char *says;
	} cases[] = {
		{{.model = "llama", .pre = "qwen2", .tokens = {"a"}}, ERR_UNSUPPORTED, "tokenizer.ggml.model"},
		{{.pre = "llama-bpe", .tokens = {"a"}}, ERR_UNSUPPORTED, "tokenizer.ggml.pre"},
		{{.tokens = {"a"}}, ERR_UNSUPPORTED, "\"tokenizer.ggml.pre\" is missing"},
		{{.pre = "qwen2"}, ERR_FORMAT, "\"tokenizer.ggml.tokens\" is missing"},
		{{.pre = "qwen2", .tokens = {"a", "b"}, .n_types = 1}, ERR_FORMAT, "token_type"},
		{{.pre = "qwen2", .tokens = {"a", "b"}, .byte_types = true}, ERR_FORMAT, "token_type"},
		{{.pre = "qwen2", .tokens = {"a", "b"}, .types = {1, 7}}, ERR_FORMAT, "says 7 for token 1"},
		{{.pre = "qwen2", .tokens = {"a", "b"}, .no_merges = true}, ERR_FORMAT, "merges\" is missing"},
		{{.pre = "qwen2", .tokens = {"a", "b"}, .merges = {"a b"}}, ERR_FORMAT, "merge 0"},
		{{.pre = "qwen2", .tokens = {"a", "b", "ab"}, .merges = {"a b", "a c"}}, ERR_FORMAT, "merge 1"},
		{{.pre = "qwen2", .tokens = {"a", "b", "ab"}, .merges = {"ab"}}, ERR_FORMAT, "merge 0"},
		{{.pre = "qwen2", .tokens = {"a", "b", "ab"}, .merges = {" ab"}}, ERR_FORMAT, "merge 0"},
		{{.pre = "qwen2", .tokens = {"a", "b", "ab"}, .types = {1, 1, 3}, .merges = {"a b"}}, ERR_FORMAT, "merge 0"},
		{{.pre = "qwen2", .tokens = {"a", "b"}, .ids = {{"tokenizer.ggml.eos_token_id", 2}}}, ERR_FORMAT, "eos_token_id"},
		{{.pre = "qwen2", .tokens = {"a", "b"}, .ids = {{"tokenizer.ggml.fim_mid_token_id", 1u << 31}}}, ERR_FORMAT, "fim_mid_token_id"},
		{{.pre = "qwen2", .tokens = {"a", "b"}, .ids = {{"tokenizer.ggml.padding_token_id", UINT32_MAX}}}, ERR_FORMAT, "padding_token_id"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct tokenizer *t;
		struct err_msg msg = {""};
		enum err e = make(&cases[i].made, &t, &msg);
		if (e != cases[i].code || !strstr(msg.text, cases[i].says) || strncmp(msg.text, "test.gguf: ", 11) != 0 || t)
			fail_msg("case %zu: code %d, says \"%s\"", i, e, msg.text);
	}
}

static void finds_fim_by_key(void **state) {
	(void)state;
	const struct made m = {.pre = "qwen2", .tokens = {"a", "P", "S", "M", "<fim_prefix>", "<fim_suffix>", "<fim_middle>", "E"}, .types = {1, 3, 3, 3, 3, 3, 3, 3},
	                       .ids = {{"tokenizer.ggml.prefix_token_id", 1}, {"tokenizer.ggml.fim_suf_token_id", 2}, {"tokenizer.ggml.fim_mid_token_id", 3}, {"tokenizer.ggml.eot_token_id", 7}}};
	struct tokenizer *t = make_good(&m);
	const struct fim_tokens *fim = tokenizer_fim(t);
	assert_true(fim->prefix == 1 && fim->suffix == 2 && fim->middle == 3 && fim->pad == TOKEN_NONE);
	assert_true(tokenizer_is_end(t, 3) && tokenizer_is_end(t, 7) && !tokenizer_is_end(t, 0));
	tokenizer_destroy(t);
}

static void finds_fim_by_text(void **state) {
	(void)state;
	static const char *const spellings[][3] = {
		{"<fim_prefix>", "<fim_suffix>", "<fim_middle>"}, {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},
		{"\xE2\x96\x81<PRE>", "\xE2\x96\x81<SUF>", "\xE2\x96\x81<MID>"}, {"[PREFIX]", "[SUFFIX]", "[MIDDLE]"},
		{"<\xEF\xBD\x9C" "fim\xE2\x96\x81" "begin\xEF\xBD\x9C>", "<\xEF\xBD\x9C" "fim\xE2\x96\x81" "hole\xEF\xBD\x9C>", "<\xEF\xBD\x9C" "fim\xE2\x96\x81" "end\xEF\xBD\x9C>"},
	};
	for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
		const char *const *s = spellings[i];
		struct tokenizer *t = make_good(&(struct made){.pre = "smollm", .tokens = {"x", s[2], s[0], s[1]}, .types = {1, 4, 3, 3}});
		const struct fim_tokens *fim = tokenizer_fim(t);
		assert_true(fim->prefix == 2 && fim->suffix == 3 && fim->middle == 1);
		tokenizer_destroy(t);
	}
}

static void takes_plain_text_for_no_special_token(void **state) {
	(void)state;
	// Of normal type: only the spelling with bars counts; two of three make no template.
	struct tokenizer *t = make_good(&(struct made){.pre = "qwen2", .tokens = {"[PREFIX]", "[SUFFIX]", "[MIDDLE]", "</s>", "<|fim_prefix|>", "<|fim_suffix|>"}});
	assert_int_equal(tokenizer_fim(t)->prefix, TOKEN_NONE);
	assert_int_equal(tokenizer_fim(t)->middle, TOKEN_NONE);
	assert_false(tokenizer_is_special(t, 0) || tokenizer_is_end(t, 3));
	tokenizer_destroy(t);
	t = make_good(&(struct made){.pre = "qwen2", .tokens = {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "a"}, .n_types = -1});
	assert_int_equal(tokenizer_fim(t)->middle, 2);
	assert_true(tokenizer_is_special(t, 0));
	tokenizer_destroy(t);
}

static void puts_bos_where_wanted(void **state) {
	(void)state;
	struct made m = {.pre = "smollm", .tokens = {"a", "<s>"}, .types = {1, 3}, .ids = {{"tokenizer.ggml.bos_token_id", 1}}, .add_bos = true};
	struct tokenizer *t = make_good(&m);
	assert_int_equal(tokenizer_bos(t), 1);
	tokenizer_destroy(t);
	m.ids[0].key = NULL;
	t = make_good(&m);
	assert_int_equal(tokenizer_bos(t), TOKEN_NONE);
	tokenizer_destroy(t);
}

// A vocabulary without a token for each byte cannot say everything: what it lacks is left out.
static void leaves_out_bytes_without_token(void **state) {
	(void)state;
	struct tokenizer *t = make_good(&(struct made){.pre = "smollm", .tokens = {"<s>", "a", "b", "ab"}, .types = {3, 1, 1, 1}, .merges = {"a b"}});
	struct token_list l = encode(t, "ab c\xFF" "ba", 7);
	assert_int_equal(l.n, 3);
	assert_true(l.ids[0] == 3 && l.ids[1] == 2 && l.ids[2] == 1);
	token_list_finish(&l);
	tokenizer_destroy(t);
}

// Lowest rank first, then leftmost; a text outside the byte alphabet stands for itself.
static void merges_in_order(void **state) {
	(void)state;
	struct tokenizer *t = make_good(&(struct made){.pre = "qwen2", .tokens = {"a", "b", "c", "bc", "ab", "aa", "\xE4\xB8\xAD"}, .merges = {"b c", "a b", "a a"}});
	struct token_list l = encode(t, "abcaaab", 7); // b c first, then a b at the end, then a a
	static const token_id want[] = {0, 3, 5, 4};
	assert_int_equal(l.n, 4);
	assert_memory_equal(l.ids, want, sizeof want);
	token_list_finish(&l);
	size_t n;
	assert_memory_equal(tokenizer_bytes(t, 6, &n), "\xE4\xB8\xAD", 3);
	assert_int_equal(n, 3);
	tokenizer_destroy(t);
}

// Ends of the pieces of text[begin, end) in `ends`; their number.
static size_t piece_ends(enum pretokenizer kind, const char *text, size_t begin, size_t end, size_t *ends) {
	size_t n = 0;
	for (size_t at = begin; at < end; ends[n++] = at)
		at += pretokenize_next(kind, text + at, end - at);
	return n;
}

// Cut at a seam, a text has the same pieces.
static void seams_change_nothing(void **state) {
	(void)state;
	static const char *const BITS[] = {"\n", "\n\n", "\r\n", "\r", " ", "    ", "\t", "x", "def", "12", "'s", "(", "):", "#", "\"", "\xc3\xa9", "\xe2\x80\xa8", "\xc2\xa0", "\xff", "\v", "\f", "=", "_"};
	uint32_t seed = 3;
	int n_seams[2] = {0};
	for (int i = 0; i < 40000; i++) {
		enum pretokenizer kind = i % 2 ? PRETOKENIZER_SMOLLM : PRETOKENIZER_QWEN2;
		char text[80] = "";
		size_t whole[80], parts[80];
		for (uint32_t k = draw(&seed) % 16; k--;)
			strcat(text, BITS[draw(&seed) % (sizeof BITS / sizeof *BITS)]);
		size_t n = strlen(text), n_whole = piece_ends(kind, text, 0, n, whole);
		for (size_t at = 1; at < n; at++) {
			if (!pretokenize_seam(kind, text, n, at))
				continue;
			size_t n_parts = piece_ends(kind, text, 0, at, parts);
			n_parts += piece_ends(kind, text, at, n, parts + n_parts);
			if (n_whole != n_parts || memcmp(whole, parts, n_whole * sizeof *whole))
				fail_msg("%s: other pieces when cut at byte %zu of \"%s\"", i % 2 ? "smollm" : "qwen2", at, text);
			n_seams[i % 2]++;
		}
	}
	print_message("%d seams with qwen2, %d with smollm\n", n_seams[0], n_seams[1]);
	assert_true(n_seams[0] > 5000 && n_seams[1] > 500);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gives_the_librarys_ids), cmocka_unit_test(round_trips_any_bytes), cmocka_unit_test(bears_long_runs), cmocka_unit_test(appends_to_the_list),
		cmocka_unit_test(finds_special_tokens), cmocka_unit_test(is_silent_about_unknown_ids), cmocka_unit_test(reads_no_special_tokens_in_text),
		cmocka_unit_test(refuses_broken_vocabularies), cmocka_unit_test(finds_fim_by_key), cmocka_unit_test(finds_fim_by_text),
		cmocka_unit_test(takes_plain_text_for_no_special_token), cmocka_unit_test(puts_bos_where_wanted), cmocka_unit_test(leaves_out_bytes_without_token),
		cmocka_unit_test(merges_in_order), cmocka_unit_test(seams_change_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
