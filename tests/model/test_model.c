// SPDX-License-Identifier: MIT
// Opening models: what is read from good files, and what each fault of a file is answered with.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lab.h"
#include "model/weights.h"

static const struct tiny_options GOOD = {"llama", 2, 64, 4, 2, 32, 96, false, false, {DTYPE_Q8_0}, 1, 9};

static enum err open_with(const struct tiny_options *o, struct model **out, struct err_msg *msg) {
	const char *path = lab_temp_path();
	assert_true(tiny_write(path, o));
	enum err e = model_open(path, kernels_get(0), out, msg);
	if (e != ERR_OK)
		assert_non_null(strstr(msg->text, path)); // names the file
	unlink(path);
	return e;
}

static void test_good_files(void **state) {
	(void)state;
	for (int i = 0; i < LAB_N_MODELS; i++) {
		const struct tiny_options *o = &LAB_MODELS[i];
		struct model *m = NULL;
		struct err_msg msg = {""};
		if (open_with(o, &m, &msg) != ERR_OK)
			fail_msg("%s", msg.text);
		const struct model_info *info = model_info(m);
		assert_string_equal(info->arch, o->arch);
		assert_string_equal(info->name, "tiny");
		assert_int_equal(info->n_layer, o->n_layer);
		assert_int_equal(info->n_embd, o->n_embd);
		assert_int_equal(info->n_head, o->n_head);
		assert_int_equal(info->n_head_kv, o->n_head_kv);
		assert_int_equal(info->head_dim, o->head_dim);
		assert_int_equal(info->n_ff, o->n_ff);
		assert_int_equal(info->n_vocab, TINY_VOCAB);
		assert_int_equal(info->n_ctx_train, 4096);
		assert_int_equal(info->tied_head, o->tied);
		assert_int_equal(info->qkv_bias, o->bias);
		assert_int_equal(info->rope_neox, !strcmp(o->arch, "qwen2"));
		assert_int_equal(info->tiers_allowed, o->head_dim % 32 == 0);
		assert_true(info->rope_theta == 10000.0f && info->rms_eps == 1e-6f);
		const struct weights *w = model_weights(m);
		size_t embd_bytes = dtype_row_bytes(w->token_embd.type, o->n_embd) * TINY_VOCAB;
		assert_int_equal(info->weight_bytes - info->weight_bytes_per_token, o->tied ? 0 : embd_bytes);
		assert_int_equal(w->head.data == w->token_embd.data, o->tied);
		assert_int_equal(w->layers[1].q_bias != NULL, o->bias);
		assert_non_null(model_tokenizer(m));
		model_close(m);
	}
	model_close(NULL);
}

struct fault {
	const char *what;
	struct tiny_options change; // fields that are set replace those of GOOD
	enum err expected;
	const char *says;
};

#define PAIR_U32(k, v) .n_pairs = 1, .pairs = {{.key = k, .kind = TINY_U32, .u32 = v}}
#define PAIR_F32(k, v) .n_pairs = 1, .pairs = {{.key = k, .kind = TINY_F32, .f32 = v}}
#define PAIR_STR(k, v) .n_pairs = 1, .pairs = {{.key = k, .kind = TINY_STR, .text = v}}
#define PAIR_ARRAY(k, v) .n_pairs = 1, .pairs = {{.key = k, .kind = TINY_U32_ARRAY, .u32 = v}}
#define NO_PAIR(k) .n_pairs = 1, .pairs = {{.key = k, .kind = TINY_OMIT}}

static const struct fault FAULTS[] = {
	{"another architecture", {PAIR_STR("general.architecture", "mllama")}, ERR_UNSUPPORTED, "\"mllama\""},
	{"no architecture", {NO_PAIR("general.architecture")}, ERR_FORMAT, "general.architecture"},
	{"no head count", {NO_PAIR("llama.attention.head_count")}, ERR_FORMAT, "llama.attention.head_count is missing"},
	{"head count 0", {PAIR_U32("llama.attention.head_count", 0)}, ERR_FORMAT, "llama.attention.head_count is 0"},
	{"heads by layer", {PAIR_ARRAY("llama.attention.head_count_kv", 2)}, ERR_UNSUPPORTED, "differs by layer"},
	{"2^31 blocks", {PAIR_U32("llama.block_count", 1u << 31)}, ERR_FORMAT, "llama.block_count is 2147483648"},
	{"one block more", {PAIR_U32("llama.block_count", 3)}, ERR_FORMAT, "missing"},
	{"one block less", {PAIR_U32("llama.block_count", 1)}, ERR_UNSUPPORTED, "tensor blk.1."},
	{"block count as text", {PAIR_STR("llama.block_count", "2")}, ERR_FORMAT, "llama.block_count is missing or no number"},
	{"width 2^32-1", {PAIR_U32("llama.embedding_length", UINT32_MAX)}, ERR_FORMAT, "llama.embedding_length"},
	{"width doubled", {PAIR_U32("llama.embedding_length", 128)}, ERR_FORMAT, "token_embd.weight has shape 64 x 261"},
	{"feed-forward halved", {PAIR_U32("llama.feed_forward_length", 48)}, ERR_FORMAT, "ffn_gate.weight has shape 64 x 96"},
	{"heads that do not divide", {PAIR_U32("llama.attention.head_count_kv", 3)}, ERR_FORMAT, "4 heads cannot share 3"},
	{"more KV heads than heads", {PAIR_U32("llama.attention.head_count_kv", 8)}, ERR_FORMAT, "4 heads cannot share 8"},
	{"keys of another size", {PAIR_U32("llama.attention.key_length", 64)}, ERR_UNSUPPORTED, "differ in size"},
	{"head size 12", {.n_pairs = 2, .pairs = {{.key = "llama.attention.key_length", .kind = TINY_U32, .u32 = 12},
	                                          {.key = "llama.attention.value_length", .kind = TINY_U32, .u32 = 12}}},
	 ERR_UNSUPPORTED, "head size 12 is not a multiple of 8"},
	{"no head size, uneven", {.n_pairs = 3, .pairs = {{.key = "llama.attention.key_length", .kind = TINY_OMIT},
	                                                  {.key = "llama.attention.head_count", .kind = TINY_U32, .u32 = 6},
	                                                  {.key = "llama.attention.head_count_kv", .kind = TINY_U32, .u32 = 6}}},
	 ERR_FORMAT, "64 values cannot be shared by 6 heads"},
	{"no epsilon", {NO_PAIR("llama.attention.layer_norm_rms_epsilon")}, ERR_FORMAT, "rms_epsilon"},
	{"negative epsilon", {PAIR_F32("llama.attention.layer_norm_rms_epsilon", -1.0f)}, ERR_FORMAT, "rms_epsilon is -1"},
	{"theta 0", {PAIR_F32("llama.rope.freq_base", 0.0f)}, ERR_FORMAT, "llama.rope.freq_base is 0"},
	{"half rotation", {PAIR_U32("llama.rope.dimension_count", 16)}, ERR_UNSUPPORTED, "16 of 32"},
	{"yarn", {PAIR_STR("llama.rope.scaling.type", "yarn")}, ERR_UNSUPPORTED, "\"yarn\""},
	{"linear scaling", {PAIR_F32("llama.rope.scaling.factor", 2.0f)}, ERR_UNSUPPORTED, "scaling by 2"},
	{"old linear scaling", {PAIR_F32("llama.rope.scale_linear", 4.0f)}, ERR_UNSUPPORTED, "scaling by 4"},
	{"experts", {PAIR_U32("llama.expert_count", 8)}, ERR_UNSUPPORTED, "mixtures of experts"},
	{"no embedding", {.omit_tensor = "token_embd.weight"}, ERR_FORMAT, "token_embd.weight is missing"},
	{"no norm", {.omit_tensor = "blk.1.ffn_norm.weight"}, ERR_FORMAT, "blk.1.ffn_norm.weight is missing"},
	{"no matrix", {.omit_tensor = "blk.0.attn_k.weight"}, ERR_FORMAT, "blk.0.attn_k.weight is missing"},
	{"a row too few", {.short_tensor = "blk.1.ffn_up.weight"}, ERR_FORMAT, "blk.1.ffn_up.weight has shape 64 x 95"},
	{"a norm too short", {.short_tensor = "output_norm.weight"}, ERR_FORMAT, "output_norm.weight has shape 63 x 1"},
	{"a token too few", {.short_tensor = "token_embd.weight"}, ERR_FORMAT, "shape 64 x 261"},
	{"tensor of another model", {.extra_tensor = "blk.0.attn_q_norm.weight", .extra_n = 32}, ERR_UNSUPPORTED, "blk.0.attn_q_norm.weight"},
	{"bias that is not applied", {.extra_tensor = "blk.0.attn_output.bias", .extra_n = 64}, ERR_UNSUPPORTED, "blk.0.attn_output.bias"},
	{"bias in one layer", {.extra_tensor = "blk.1.attn_q.bias", .extra_n = 128}, ERR_UNSUPPORTED, "blk.1.attn_q.bias"},
	{"bias of q alone", {.extra_tensor = "blk.0.attn_q.bias", .extra_n = 128}, ERR_FORMAT, "blk.0.attn_k.bias is missing"},
	{"rope factors of another size", {.extra_tensor = "rope_freqs.weight", .extra_n = 8}, ERR_FORMAT, "rope_freqs.weight has shape 8"},
};

static void test_faults(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof FAULTS / sizeof FAULTS[0]; i++) {
		const struct fault *f = &FAULTS[i];
		struct tiny_options o = GOOD;
		struct model *m = NULL;
		struct err_msg msg = {""};
		o.n_pairs = f->change.n_pairs;
		memcpy(o.pairs, f->change.pairs, sizeof o.pairs);
		o.omit_tensor = f->change.omit_tensor;
		o.short_tensor = f->change.short_tensor;
		o.extra_tensor = f->change.extra_tensor;
		o.extra_n = f->change.extra_n;
		enum err e = open_with(&o, &m, &msg);
		if (e != f->expected || !strstr(msg.text, f->says))
			fail_msg("%s: %s: \"%s\"", f->what, err_name(e), msg.text);
		assert_null(m);
	}
}

// Settings that are there but change nothing are accepted.
static void test_harmless_pairs(void **state) {
	(void)state;
	struct tiny_options o = GOOD;
	struct model *m = NULL;
	struct err_msg msg = {""};
	o.n_pairs = 4;
	o.pairs[0] = (struct tiny_pair){.key = "llama.rope.scaling.type", .kind = TINY_STR, .text = "linear"};
	o.pairs[1] = (struct tiny_pair){.key = "llama.rope.scaling.factor", .kind = TINY_F32, .f32 = 1.0f};
	o.pairs[2] = (struct tiny_pair){.key = "llama.rope.dimension_count", .kind = TINY_U32, .u32 = 32};
	o.pairs[3] = (struct tiny_pair){.key = "general.name", .kind = TINY_OMIT};
	if (open_with(&o, &m, &msg) != ERR_OK)
		fail_msg("%s", msg.text);
	assert_non_null(strstr(model_info(m)->name, "maskstore-test-")); // the file's name
	model_close(m);
}

static void test_missing_file(void **state) {
	(void)state;
	struct model *m = NULL;
	struct err_msg msg = {""};
	assert_int_equal(model_open("/nonexistent/model.gguf", kernels_get(0), &m, &msg), ERR_IO);
	assert_non_null(strstr(msg.text, "/nonexistent/model.gguf"));
	assert_null(m);
}

// Resident pages of this process that belong to mapped files, or 0.
static size_t file_pages(void) {
	size_t shared = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	if (!f || fscanf(f, "%*u %*u %zu", &shared) != 1)
		shared = 0;
	if (f)
		(void)fclose(f);
	return shared;
}

// The thread beside ends whenever the model is closed, and left alone makes the weights resident.
static void test_prefetching(void **state) {
	(void)state;
	struct tiny_options wide = GOOD;
	wide.n_embd = 512;
	wide.n_head = 32;
	wide.n_ff = 4096;
	const char *path = lab_temp_path();
	assert_true(tiny_write(path, &wide));
	struct model *m = NULL;
	struct err_msg msg = {""};
	for (int i = 0; i < 50; i++) {
		assert_int_equal(model_open_prefetching(path, kernels_get(0), &m, &msg), ERR_OK);
		model_close(m);
	}
	size_t before = file_pages();
	assert_int_equal(model_open_prefetching(path, kernels_get(0), &m, &msg), ERR_OK);
#ifdef __linux__
	size_t n_pages = model_info(m)->weight_bytes / 4096, n_tries = before ? 5000 : 0;
	assert_true(n_pages > 2000); // else the pages of the tokenizer's tables would count
	while (n_tries && file_pages() < before + n_pages * 9 / 10) {
		usleep(1000);
		n_tries--;
	}
	assert_true(!before || n_tries); // nothing here has read the weights
#endif
	model_close(m);
	unlink(path);
	assert_int_equal(model_open_prefetching("/nonexistent/model.gguf", kernels_get(0), &m, &msg), ERR_IO);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good_files), cmocka_unit_test(test_faults), cmocka_unit_test(test_harmless_pairs), cmocka_unit_test(test_missing_file),
		cmocka_unit_test(test_prefetching),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
