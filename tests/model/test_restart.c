// SPDX-License-Identifier: MIT
// Sessions on a store with an archive: the same bits whether tokens were evaluated, kept, evicted and restored, or restored after a restart;
// and blocks whose bytes went bad are found and computed again.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lab.h"
#include "maskstore/archive.h"

#define CAPACITY 400
#define N_TEXT 300
#define LOGITS_BYTES (TINY_VOCAB * sizeof(float))

static struct lab lab;
static char folder[64];

// One life of a server: store, archive, session.
struct life {
	struct maskstore *store;
	struct archive *archive;
	struct session *session;
};

static int set_up(void **state) {
	(void)state;
	lab_open_tiny(&lab, &LAB_MODELS[1]);
	snprintf(folder, sizeof folder, "/tmp/maskstore-restart-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state) {
	(void)state;
	struct archive_folder_report report;
	lab_close(&lab);
	enum err e = archive_folder_clear(folder, &report, NULL);
	rmdir(folder);
	return e;
}

static void begin(struct life *l, enum kv_type kv_type, int n_threads, int chunk_tokens, int n_blocks) {
	const struct model *m = lab.models[1];
	struct maskstore_geometry g = session_geometry(m, kv_type);
	struct kv_facts facts = {.model_hash = {1, 2, 3}, .geometry = &g, .rope_theta = 10000, .arithmetic_id = KERNELS_ARITHMETIC};
	struct archive_options ao = {.geometry = g, .dir = folder, .disk_budget_bytes = 1 << 30, .ram_budget_bytes = 1 << 20, .prefetch_blocks = 2};
	kv_key_root(&facts, &ao.root);
	assert_int_equal(maskstore_create(&g, (size_t)n_blocks * maskstore_block_bytes(&g), &l->store, NULL), ERR_OK);
	assert_int_equal(archive_open(&ao, &l->archive, NULL), ERR_OK);
	maskstore_set_archive(l->store, l->archive, &ao.root);
	struct session_options so = {.capacity_tokens = CAPACITY, .chunk_tokens = chunk_tokens, .store = l->store, .pool = lab.pools[n_threads], .share = true};
	assert_int_equal(session_create(m, &so, &l->session, NULL), ERR_OK);
}

static void end(struct life *l) {
	session_destroy(l->session);
	archive_close(l->archive, 10000);
	struct err_msg msg = {""};
	if (maskstore_check(l->store, &msg) != ERR_OK)
		fail_msg("%s", msg.text);
	maskstore_destroy(l->store);
}

static struct session_sync_result sync_ok(struct life *l, const token_id *tokens, int n) {
	struct session_sync_result r = {0};
	struct err_msg msg = {""};
	size_t probed = session_probe(l->session, tokens, (size_t)n);
	if (session_sync(l->session, tokens, (size_t)n, NULL, &r, &msg) != ERR_OK)
		fail_msg("%s", msg.text);
	assert_true((size_t)r.hit_tokens == probed || (size_t)r.hit_tokens == probed - 1);
	return r;
}

static void cold_logits(enum kv_type kv_type, const token_id *tokens, int n, float *out) {
	struct rig rig;
	rig_open(&rig, &lab, &(struct rig_options){.n_threads = 1, .chunk_tokens = 256, .capacity_tokens = n, .kv_type = kv_type});
	assert_int_equal(session_sync(rig.session, tokens, (size_t)n, NULL, NULL, NULL), ERR_OK);
	memcpy(out, session_logits(rig.session), LOGITS_BYTES);
	rig_close(&rig);
}

static void test_restored_is_bit_equal(void **state) {
	(void)state;
	static const int chunks[] = {1, 7, 32, 256};
	for (int i = 0; i < 12; i++) {
		enum kv_type kv_type = (enum kv_type)(i % 3);
		token_id text[N_TEXT];
		float cold[TINY_VOCAB];
		uint64_t seed = 40 + (uint64_t)i;
		struct life l;
		for (int k = 0; k < N_TEXT; k++)
			text[k] = (token_id)tiny_draw(&seed, TINY_VOCAB);
		cold_logits(kv_type, text, N_TEXT, cold);

		begin(&l, kv_type, 1 + i % 2, chunks[i / 3], 20);
		assert_int_equal(sync_ok(&l, text, N_TEXT).restored_tokens, 0);
		assert_memory_equal(session_logits(l.session), cold, LOGITS_BYTES);
		assert_int_equal(session_archive(l.session, true), 0);
		end(&l);

		begin(&l, kv_type, 2 - i % 2, chunks[3 - i / 3], 20);
		struct session_sync_result r = sync_ok(&l, text, N_TEXT);
		assert_int_equal(r.restored_tokens, N_TEXT / 32 * 32);
		assert_int_equal(r.new_tokens, N_TEXT % 32);
		assert_memory_equal(session_logits(l.session), cold, LOGITS_BYTES);

		// Pushed out of RAM by another text, then back from the archive.
		struct maskstore_stats before, after;
		maskstore_stats(l.store, &before);
		token_id other[CAPACITY];
		for (int round = 0; round < 3; round++) {
			for (int k = 0; k < CAPACITY; k++)
				other[k] = (token_id)tiny_draw(&seed, TINY_VOCAB);
			assert_int_equal(sync_ok(&l, other, CAPACITY).hit_tokens, 0);
		}
		maskstore_stats(l.store, &after);
		assert_true(after.n_evicted > before.n_evicted);
		r = sync_ok(&l, text, N_TEXT);
		assert_true(r.restored_tokens >= 32);
		assert_int_equal(r.new_tokens, N_TEXT - r.hit_tokens);
		assert_true(r.new_tokens <= 32);
		assert_memory_equal(session_logits(l.session), cold, LOGITS_BYTES);
		end(&l);
	}
}

// A partial match in RAM gives way to the whole block at rest.
static void test_archive_beats_a_partial_match(void **state) {
	(void)state;
	token_id text[N_TEXT], other[N_TEXT];
	uint64_t seed = 99;
	struct life l;
	for (int k = 0; k < N_TEXT; k++)
		text[k] = (token_id)tiny_draw(&seed, TINY_VOCAB);
	begin(&l, KV_F16, 2, 64, 30);
	sync_ok(&l, text, N_TEXT);
	session_archive(l.session, true);
	end(&l);
	begin(&l, KV_F16, 2, 64, 30);
	memcpy(other, text, sizeof text);
	for (int k = 10; k < N_TEXT; k++)
		other[k] = (token_id)tiny_draw(&seed, TINY_VOCAB);
	assert_int_equal(sync_ok(&l, other, 50).restored_tokens, 0);
	struct session_sync_result r = sync_ok(&l, text, N_TEXT);
	assert_int_equal(r.hit_tokens, N_TEXT / 32 * 32);
	assert_int_equal(r.restored_tokens, N_TEXT / 32 * 32);
	float cold[TINY_VOCAB];
	cold_logits(KV_F16, text, N_TEXT, cold);
	assert_memory_equal(session_logits(l.session), cold, LOGITS_BYTES);
	end(&l);
}

static void test_bad_bytes_are_healed(void **state) {
	(void)state;
	token_id text[N_TEXT];
	float cold[TINY_VOCAB];
	uint64_t seed = 7;
	struct life l;
	for (int k = 0; k < N_TEXT; k++)
		text[k] = (token_id)tiny_draw(&seed, TINY_VOCAB);
	cold_logits(KV_F16, text, N_TEXT, cold);
	begin(&l, KV_F16, 2, 20, 30);
	sync_ok(&l, text, N_TEXT);
	for (unsigned i = 0; i < 9; i++)
		assert_int_equal(session_verify(l.session, i, NULL), VERDICT_SAME);
	assert_memory_equal(session_logits(l.session), cold, LOGITS_BYTES); // undisturbed
	_Atomic int cancel = 1;
	assert_int_equal(session_verify(l.session, 0, &cancel), VERDICT_NONE);
	block_id path[N_TEXT / 32 + 1];
	assert_int_equal(maskstore_find(l.store, BLOCK_NONE, text, N_TEXT, path), N_TEXT);
	((uint8_t *)maskstore_k(l.store, path[3], 0, 0))[5] ^= 0x10;
	for (int b = 0; b <= N_TEXT / 32; b++)
		maskstore_drop(l.store, path[b]);
	assert_int_equal(session_verify(l.session, 2, NULL), VERDICT_SAME);
	assert_int_equal(session_verify(l.session, 3, NULL), VERDICT_DIFFERENT);
	size_t n;
	session_tokens(l.session, &n);
	assert_int_equal(n, 96);
	assert_int_equal(sync_ok(&l, text, N_TEXT).hit_tokens, 96);
	assert_memory_equal(session_logits(l.session), cold, LOGITS_BYTES);
	end(&l);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_restored_is_bit_equal), cmocka_unit_test(test_archive_beats_a_partial_match),
		cmocka_unit_test(test_bad_bytes_are_healed),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
