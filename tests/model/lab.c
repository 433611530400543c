// SPDX-License-Identifier: MIT
#include "lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cpu.h"

const struct tiny_options LAB_MODELS[] = {
	// GQA with biases, untied, every 32-block type, a float matrix among them; widths of k that are no multiple of 64
	{"qwen2", 2, 96, 6, 2, 16, 160, true, false, {DTYPE_Q5_0, DTYPE_Q8_0, DTYPE_Q4_1, DTYPE_F16}, 4, 1},
	// MHA, tied, pairs (2i, 2i + 1)
	{"llama", 3, 64, 2, 2, 32, 96, false, true, {DTYPE_Q4_0, DTYPE_Q5_1, DTYPE_Q8_0}, 3, 2},
	// MQA with a head size that is no multiple of 16, float weights only, rows that are no multiple of 32
	{"qwen2", 2, 40, 5, 1, 8, 56, true, true, {DTYPE_F32, DTYPE_BF16, DTYPE_F16}, 3, 3},
	// k-quants
	{"llama", 2, 256, 8, 4, 32, 256, false, false, {DTYPE_Q4_K, DTYPE_Q6_K, DTYPE_Q5_K}, 3, 4},
};
const int LAB_N_MODELS = sizeof LAB_MODELS / sizeof LAB_MODELS[0];

int lab_fewer(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return 10;
#else
	return kernels_get(cpu_flags()) == kernels_get(0) ? 10 : 1;
#endif
}

const char *lab_temp_path(void) {
	static char path[64];
	snprintf(path, sizeof path, "/tmp/maskstore-test-XXXXXX");
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
	return path;
}

void lab_open_file(struct lab *lab, const char *path) {
	struct err_msg msg = {""};
	*lab = (struct lab){0};
	for (int i = 0; i < 2; i++)
		if (model_open(path, kernels_get(i ? cpu_flags() : 0), &lab->models[i], &msg) != ERR_OK)
			fail_msg("%s", msg.text);
	for (int n = 1; n <= LAB_MAX_THREADS; n++)
		assert_int_equal(pool_create(n, &lab->pools[n]), ERR_OK);
}

void lab_open_tiny(struct lab *lab, const struct tiny_options *o) {
	const char *path = lab_temp_path();
	assert_true(tiny_write(path, o));
	lab_open_file(lab, path);
	unlink(path); // stays mapped
}

void lab_close(struct lab *lab) {
	for (int i = 0; i < 2; i++)
		model_close(lab->models[i]);
	for (int n = 1; n <= LAB_MAX_THREADS; n++)
		pool_destroy(lab->pools[n]);
}

void rig_open(struct rig *rig, const struct lab *lab, const struct rig_options *o) {
	struct err_msg msg = {""};
	const struct model *m = lab->models[!o->scalar];
	struct maskstore_geometry g = session_geometry(m, o->kv_type);
	int n_blocks = o->n_blocks ? o->n_blocks : (o->capacity_tokens + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS;
	*rig = (struct rig){0};
	if (maskstore_create(&g, (size_t)n_blocks * maskstore_block_bytes(&g), &rig->store, &msg) != ERR_OK)
		fail_msg("%s", msg.text);
	struct session_options so = {
		.capacity_tokens = o->capacity_tokens, .chunk_tokens = o->chunk_tokens, .activation = o->activation, .store = rig->store,
		.pool = lab->pools[o->n_threads], .share = o->share,
	};
	if (session_create(m, &so, &rig->session, &msg) != ERR_OK)
		fail_msg("%s", msg.text);
}

void rig_close(struct rig *rig) {
	session_destroy(rig->session);
	maskstore_clear(rig->store);
	struct err_msg msg = {""};
	if (maskstore_check(rig->store, &msg) != ERR_OK)
		fail_msg("%s", msg.text);
	struct maskstore_stats s;
	maskstore_stats(rig->store, &s);
	assert_int_equal(s.n_hot, 0);
	maskstore_destroy(rig->store);
}
