// SPDX-License-Identifier: MIT
#include "typist.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../model/lab.h"
#include "base/cpu.h"
#include "model/gguf.h"

const char *act_name(enum act a) {
	static const char *const names[ACT_N] = {"type", "type_suggested", "accept", "newline", "backspace", "undo", "redo", "paste", "edit_above", "edit_below", "jump", "again"};
	return names[a];
}

void typist_init(struct typist *t, const char *text, size_t max_bytes, uint64_t seed) {
	*t = (struct typist){.seed = seed * 0x9E3779B97F4A7C15u + 1, .max_bytes = max_bytes};
	t->now.n = strlen(text);
	memcpy(t->now.text, text, t->now.n);
	t->now.cursor = t->now.n;
	t->states[0] = t->now;
}

static uint32_t draw(struct typist *t, uint32_t n) {
	return tiny_draw(&t->seed, n);
}

static void replace(struct typist_state *s, size_t begin, size_t end, const char *text, size_t n) {
	memmove(s->text + begin + n, s->text + end, s->n - end);
	memcpy(s->text + begin, text, n);
	s->n += n - (end - begin);
}

static bool insert(struct typist *t, size_t at, const char *text, size_t n) {
	if (!n || t->now.n + n > t->max_bytes)
		return false;
	replace(&t->now, at, at, text, n);
	if (at <= t->now.cursor)
		t->now.cursor += n;
	return true;
}

static bool erase(struct typist *t, size_t at, size_t n) {
	if (!n || at + n > t->now.n)
		return false;
	replace(&t->now, at, at + n, "", 0);
	if (t->now.cursor >= at + n)
		t->now.cursor -= n;
	return true;
}

static bool type_something(struct typist *t) {
	static const char letters[] = "abcdef abc_(). =:,0";
	char c = letters[draw(t, sizeof letters - 1)];
	return insert(t, t->now.cursor, &c, 1);
}

static bool type_newline(struct typist *t) {
	char text[64] = "\n";
	size_t begin = t->now.cursor, n = 1;
	while (begin && t->now.text[begin - 1] != '\n')
		begin--;
	while (begin < t->now.cursor && t->now.text[begin] == ' ' && n < 32)
		text[n++] = t->now.text[begin++]; // as editors indent
	return insert(t, t->now.cursor, text, n);
}

static bool paste(struct typist *t) {
	size_t n = t->now.n < 40 ? t->now.n : 8 + draw(t, 32), from = n < t->now.n ? draw(t, (uint32_t)(t->now.n - n)) : 0;
	char text[64];
	memcpy(text, t->now.text + from, n);
	return insert(t, t->now.cursor, text, n);
}

static bool edit(struct typist *t, size_t begin, size_t end) {
	if (begin >= end)
		return false;
	size_t at = begin + draw(t, (uint32_t)(end - begin));
	return draw(t, 2) ? insert(t, at, "b", 1) : erase(t, at, 1);
}

static bool jump(struct typist *t) {
	t->now.cursor = draw(t, (uint32_t)t->now.n + 1);
	return true;
}

static bool move_in_time(struct typist *t, int *from, int *to, int step) {
	if (!*from)
		return false;
	--*from;
	++*to;
	t->top += (uint64_t)(int64_t)step;
	t->now = t->states[t->top % TYPIST_STATES];
	return true;
}

static void remember(struct typist *t) {
	t->n_redo = 0;
	t->n_undo += t->n_undo < TYPIST_STATES - 1;
	t->states[++t->top % TYPIST_STATES] = t->now;
}

static bool act_on_text(struct typist *t, enum act a, const char *shown) {
	size_t cursor = t->now.cursor;
	switch (a) {
	case ACT_TYPE: return type_something(t);
	case ACT_TYPE_SUGGESTED: return *shown && insert(t, cursor, shown, 1);
	case ACT_ACCEPT: return insert(t, cursor, shown, strlen(shown));
	case ACT_NEWLINE: return type_newline(t);
	case ACT_BACKSPACE: return cursor && erase(t, cursor - 1, 1);
	case ACT_PASTE: return paste(t);
	case ACT_EDIT_ABOVE: return edit(t, 0, cursor);
	case ACT_EDIT_BELOW: return edit(t, cursor + 1, t->now.n);
	case ACT_JUMP: return jump(t);
	default: return false;
	}
}

bool typist_do(struct typist *t, enum act a, const char *shown) {
	if (a == ACT_AGAIN)
		return true;
	if (a == ACT_UNDO)
		return move_in_time(t, &t->n_undo, &t->n_redo, -1);
	if (a == ACT_REDO)
		return move_in_time(t, &t->n_redo, &t->n_undo, 1);
	bool done = act_on_text(t, a, shown);
	if (done)
		remember(t);
	return done;
}

enum act typist_act(struct typist *t, const char *shown) {
	static const enum act odds[] = {
		ACT_TYPE, ACT_TYPE, ACT_TYPE, ACT_TYPE, ACT_TYPE_SUGGESTED, ACT_TYPE_SUGGESTED, ACT_TYPE_SUGGESTED, ACT_TYPE_SUGGESTED, ACT_ACCEPT, ACT_NEWLINE,
		ACT_BACKSPACE, ACT_BACKSPACE, ACT_UNDO, ACT_UNDO, ACT_REDO, ACT_PASTE, ACT_EDIT_ABOVE, ACT_EDIT_BELOW, ACT_JUMP, ACT_AGAIN,
	};
	for (;;) {
		enum act a = odds[draw(t, sizeof odds / sizeof *odds)];
		if (typist_do(t, a, shown))
			return a;
	}
}

// --- the model

// The output rows of tokens that make no text are zeroed: their logits are 0, and some other one is nearly always above.
static void quieten(const char *path) {
	static const char text[] = "abcdef \n()=.:,_0";
	struct gguf *g;
	struct err_msg msg;
	assert_int_equal(gguf_open(path, &g, &msg), ERR_OK);
	const struct gguf_tensor *head = gguf_tensor_find(g, "output.weight"), *first = gguf_tensor_at(g, 0);
	assert_non_null(head);
	size_t row_bytes = head->size_bytes / TINY_VOCAB, end = 0;
	const char *base = first->data, *last_end = base;
	for (size_t i = 0; i < gguf_n_tensors(g); i++) {
		const struct gguf_tensor *x = gguf_tensor_at(g, i);
		if ((const char *)x->data + x->size_bytes > last_end)
			last_end = (const char *)x->data + x->size_bytes;
	}
	end = (size_t)(last_end - (const char *)head->data); // from the head to the end of the data, then up to 31 bytes of padding
	end = (end + 31) / 32 * 32;
	int fd = open(path, O_WRONLY);
	assert_true(fd >= 0);
	off_t at = (off_t)(gguf_file_bytes(g) - end);
	char *zeros = calloc(1, row_bytes);
	for (int id = 0; id < TINY_VOCAB; id++) {
		bool keep = id == 257 || (id < 256 && id && strchr(text, id));
		if (!keep)
			assert_int_equal(pwrite(fd, zeros, row_bytes, at + (off_t)((size_t)id * row_bytes)), row_bytes);
	}
	free(zeros);
	close(fd);
	gguf_close(g);
}

static const char *write_model(uint64_t seed, int n_layer, int n_embd, int n_ff) {
	const char *path = lab_temp_path();
	struct tiny_options o = {
		.arch = "qwen2", .n_layer = n_layer, .n_embd = n_embd, .n_head = 4, .n_head_kv = 2, .head_dim = 32, .n_ff = n_ff, .bias = true, .tied = false,
		.types = {DTYPE_Q8_0}, .n_types = 1, .seed = seed, .n_pairs = 3,
		.pairs = {{.key = "tokenizer.ggml.fim_pre_token_id", .kind = TINY_U32, .u32 = 258}, {.key = "tokenizer.ggml.fim_suf_token_id", .kind = TINY_U32, .u32 = 259},
		          {.key = "tokenizer.ggml.fim_mid_token_id", .kind = TINY_U32, .u32 = 260}},
	};
	assert_true(tiny_write(path, &o));
	quieten(path);
	return path;
}

const char *typist_model(uint64_t seed) {
	return write_model(seed, 2, 64, 96);
}

struct model *typist_open_model(uint64_t seed) {
	const char *path = typist_model(seed);
	struct model *m = NULL;
	struct err_msg msg;
	assert_int_equal(model_open(path, kernels_get(0), &m, &msg), ERR_OK);
	unlink(path);
	return m;
}

const char *typist_slow_model(uint64_t seed) {
	return write_model(seed, 2, 256, 2048);
}

const char *typist_slower_model(uint64_t seed) {
	return write_model(seed, 5, 512, 2048);
}

struct engine_options typist_options(const char *model_path) {
	return (struct engine_options){
		.model_path = model_path, .n_threads = 1, .max_context_tokens = 384, .max_new_tokens_line = 24, .max_new_tokens_block = 32,
		.activation = ACTIVATION_Q8, .kv_type = KV_F16, .cpu_flags = cpu_flags(), .strategy = "conservative",
	};
}

unsigned typist_slow_flags(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return cpu_flags();
#else
	return 0;
#endif
}
