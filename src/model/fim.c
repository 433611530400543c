// SPDX-License-Identifier: MIT
// Special tokens by metadata key, else by their text (converters write no FIM keys today: completion-anchors.md d).
//
// A text counts only if the file says that the token is no normal one, or if it is spelled as no text is (with a bar inside its
// brackets): vocabularies hold plain tokens such as "[MIDDLE]" or "</s>" that were learnt from text.
//
// The order of the parts is not found here: prompts are built prefix first, which Codestral and Mellum were not trained on.
#include "model/fim.h"

#include <string.h>

// FIM spellings, one family a row: prefix, suffix, middle.
static const char *const fim_texts[][3] = {
	{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},          // Qwen2.5-Coder, Qwen3-Coder, CodeGemma, Granite 4
	{"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},                // StarCoder, StarCoder2, Granite code, Refact, CodeQwen
	{"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},                // SantaCoder
	{"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},          // DeepSeek-Coder: the hole stands before the suffix
	{"▁<PRE>", "▁<SUF>", "▁<MID>"},                                  // CodeLlama
	{"<PRE>", "<SUF>", "<MID>"},                                     // CodeLlama, converted without the blank
	{"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"},       // GLM
	{"<|prefix|>", "<|suffix|>", "<|middle|>"},                      // Falcon
	{"[PREFIX]", "[SUFFIX]", "[MIDDLE]"},                            // Codestral
};
static const char *const pad_texts[] = {"<|fim_pad|>", "<fim_pad>", "<fim-pad>"};
static const char *const repo_texts[] = {"<|repo_name|>", "<repo_name>", "<reponame>"};
static const char *const file_texts[] = {"<|file_sep|>", "<file_sep>", "<|file_separator|>", "<filename>"};
static const char *const end_texts[] = {
	"<|endoftext|>", "<|end_of_text|>", "<|im_end|>", "<|im_start|>", "<|eot_id|>", "<|eom_id|>", "<|EOT|>", "<EOT>", "▁<EOT>", "<end_of_turn>", "</s>", "<eos>",
	"<｜end▁of▁sentence｜>",
};
#define COUNT(a) (sizeof(a) / sizeof *(a))

// Keys that hold a token's id; all are checked.
enum key { KEY_EOS, KEY_EOT, KEY_EOM, KEY_PRE, KEY_SUF, KEY_MID, KEY_PAD, KEY_REP, KEY_SEP, KEY_OLD_PRE, KEY_OLD_SUF, KEY_OLD_MID, KEY_OTHERS, N_KEYS = KEY_OTHERS + 6 };
static const char *const keys[N_KEYS] = {
	[KEY_EOS] = "tokenizer.ggml.eos_token_id", [KEY_EOT] = "tokenizer.ggml.eot_token_id", [KEY_EOM] = "tokenizer.ggml.eom_token_id",
	[KEY_PRE] = "tokenizer.ggml.fim_pre_token_id", [KEY_SUF] = "tokenizer.ggml.fim_suf_token_id",
	[KEY_MID] = "tokenizer.ggml.fim_mid_token_id", [KEY_PAD] = "tokenizer.ggml.fim_pad_token_id",
	[KEY_REP] = "tokenizer.ggml.fim_rep_token_id", [KEY_SEP] = "tokenizer.ggml.fim_sep_token_id",
	[KEY_OLD_PRE] = "tokenizer.ggml.prefix_token_id", [KEY_OLD_SUF] = "tokenizer.ggml.suffix_token_id",
	[KEY_OLD_MID] = "tokenizer.ggml.middle_token_id",
	[KEY_OTHERS] = "tokenizer.ggml.bos_token_id", "tokenizer.ggml.unknown_token_id", "tokenizer.ggml.padding_token_id",
	"tokenizer.ggml.seperator_token_id", "tokenizer.ggml.cls_token_id", "tokenizer.ggml.mask_token_id",
};

enum err special_id(const struct vocab *v, const struct gguf *g, const char *key, token_id *out, struct err_msg *msg) {
	uint32_t id;
	*out = TOKEN_NONE;
	if (!gguf_has(g, key))
		return ERR_OK;
	if (!gguf_get_u32(g, key, &id) || id >= (uint32_t)v->n)
		return err_set(msg, ERR_FORMAT, "\"%s\" is not the id of one of the %d tokens", key, v->n);
	*out = (token_id)id;
	return ERR_OK;
}

static token_id find_text(struct vocab *v, const char *text) {
	token_id id = vocab_find(v, text, strlen(text));
	if (id == TOKEN_NONE)
		return id;
	if (strncmp(text, "<|", 2) == 0 || strncmp(text, "<｜", strlen("<｜")) == 0)
		v->special[id] = true;
	return v->special[id] ? id : TOKEN_NONE;
}

// The first of some texts that is there; all that are there end a text.
static token_id find_texts(struct vocab *v, const char *const *texts, size_t n, bool *ends) {
	token_id first = TOKEN_NONE;
	for (size_t i = 0; i < n; i++) {
		token_id id = find_text(v, texts[i]);
		if (id == TOKEN_NONE)
			continue;
		ends[id] = true;
		if (first == TOKEN_NONE)
			first = id;
	}
	return first;
}

static token_id or_else(token_id a, token_id b) {
	return a != TOKEN_NONE ? a : b;
}

// Prefix, suffix and middle, all or none.
static void find_template(struct vocab *v, const token_id *ids, struct fim_tokens *fim) {
	token_id t[3] = {or_else(ids[KEY_PRE], ids[KEY_OLD_PRE]), or_else(ids[KEY_SUF], ids[KEY_OLD_SUF]),
	                 or_else(ids[KEY_MID], ids[KEY_OLD_MID])};
	for (size_t row = 0; row < COUNT(fim_texts) && (t[0] < 0 || t[1] < 0 || t[2] < 0); row++)
		for (int i = 0; i < 3; i++)
			t[i] = find_text(v, fim_texts[row][i]);
	bool all = t[0] >= 0 && t[1] >= 0 && t[2] >= 0;
	fim->prefix = all ? t[0] : TOKEN_NONE;
	fim->suffix = all ? t[1] : TOKEN_NONE;
	fim->middle = all ? t[2] : TOKEN_NONE;
}

enum err fim_find(struct vocab *v, const struct gguf *g, struct fim_tokens *fim, bool *ends, struct err_msg *msg) {
	token_id ids[N_KEYS];
	for (int i = 0; i < N_KEYS; i++) {
		enum err e = special_id(v, g, keys[i], &ids[i], msg);
		if (e)
			return e;
	}
	find_template(v, ids, fim);
	fim->pad = or_else(ids[KEY_PAD], find_texts(v, pad_texts, COUNT(pad_texts), ends));
	fim->repo = or_else(ids[KEY_REP], find_texts(v, repo_texts, COUNT(repo_texts), ends));
	fim->file_sep = or_else(ids[KEY_SEP], find_texts(v, file_texts, COUNT(file_texts), ends));
	find_texts(v, end_texts, COUNT(end_texts), ends);
	token_id found[] = {ids[KEY_EOS], ids[KEY_EOT], ids[KEY_EOM], fim->prefix, fim->suffix, fim->middle, fim->pad, fim->repo, fim->file_sep};
	for (size_t i = 0; i < COUNT(found); i++)
		if (found[i] != TOKEN_NONE)
			ends[found[i]] = true;
	return ERR_OK;
}
