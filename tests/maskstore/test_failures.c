// SPDX-License-Identifier: MIT
// The whole store (pool, tree, archive) under memory and a disk that fail at random, against a plain array.
//
// The array: of a block only its key counts, and its payload is a function of the key. So whatever is found or restored can be checked, and what must
// not be lost is known. A failure may make a call fail (ERR_NOMEM), or a block be missed; it may never give wrong bytes, break an invariant, leave a
// temporary file, or make the archive forget a good file.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>


#include "box.h"
#include "failing.h"

#ifdef HAVE_WRAP
#define N_LINES 3 // timelines at once
#define MAX_LENGTH 12
#define N_POOL 16 // blocks of the store: fewer than three timelines and the archive's queue can want

struct line {
	int path[N_BLOCKS]; // of the box's blocks, from the root
	block_id blocks[MAX_LENGTH];
	int n;
};

struct world {
	struct box box;
	struct maskstore *store;
	struct line lines[N_LINES];
	uint64_t seed;
	uint8_t *want;
	unsigned n_found, n_restored;
};

static uint32_t below(struct world *w, uint32_t n) {
	return draw(&w->seed, n);
}

static bool holds(struct world *w, block_id id, int i) {
	fill_payload(&w->box.blocks[i].key, 2, w->want, w->box.block_bytes);
	return !memcmp(maskstore_k(w->store, id, 0, 0), w->want, w->box.block_bytes);
}

static void check(struct world *w) {
	struct err_msg msg = {""};
	if (maskstore_check(w->store, &msg) != ERR_OK)
		fail_msg("%s", msg.text);
}

static void leave(struct world *w, struct line *l) {
	while (l->n)
		maskstore_drop(w->store, l->blocks[--l->n]);
}

// Computes what follows, as a session would.
static void evaluate(struct world *w, struct line *l, int n) {
	while (l->n < n) {
		const struct archive_block *b = &w->box.blocks[l->path[l->n]];
		block_id id;
		if (maskstore_alloc(w->store, &id) != ERR_OK)
			return;
		fill_payload(&b->key, 2, maskstore_k(w->store, id, 0, 0), w->box.block_bytes);
		maskstore_publish(w->store, &id, l->n ? l->blocks[l->n - 1] : BLOCK_NONE, b->ids, KV_BLOCK_TOKENS);
		assert_true(holds(w, id, l->path[l->n]));
		l->blocks[l->n++] = id;
	}
}

static void go_to(struct world *w, struct line *l, int last) {
	int32_t ids[MAX_LENGTH * KV_BLOCK_TOKENS];
	leave(w, l);
	int n = (int)box_path(&w->box, last, l->path);
	n = n > MAX_LENGTH ? MAX_LENGTH : n;
	for (int i = 0; i < n; i++)
		memcpy(ids + i * KV_BLOCK_TOKENS, w->box.blocks[l->path[i]].ids, sizeof w->box.blocks[0].ids);
	l->n = maskstore_find(w->store, BLOCK_NONE, ids, n * KV_BLOCK_TOKENS, l->blocks) / KV_BLOCK_TOKENS;
	w->n_found += (unsigned)l->n;
	int got = maskstore_restore(w->store, l->n ? l->blocks[l->n - 1] : BLOCK_NONE, ids + l->n * KV_BLOCK_TOKENS, (n - l->n) * KV_BLOCK_TOKENS,
	                            l->blocks + l->n, NULL);
	l->n += got / KV_BLOCK_TOKENS;
	w->n_restored += (unsigned)(got / KV_BLOCK_TOKENS);
	for (int i = 0; i < l->n; i++)
		assert_true(holds(w, l->blocks[i], l->path[i]));
	evaluate(w, l, n);
}

static void close_archive(struct world *w, int flush_ms) {
	box_close(&w->box, flush_ms);
	maskstore_set_archive(w->store, NULL, &w->box.options.root);
}

static void open_archive(struct world *w) {
	if (!w->box.archive && box_open(&w->box))
		maskstore_set_archive(w->store, w->box.archive, &w->box.options.root);
}

static void copy_one(struct world *w, const struct line *l) {
	block_id copy;
	if (!l->n || maskstore_copy(w->store, l->blocks[l->n - 1], &copy) != ERR_OK)
		return;
	assert_true(holds(w, copy, l->path[l->n - 1]));
	maskstore_drop(w->store, copy);
}

static void step(struct world *w) {
	struct line *l = &w->lines[below(w, N_LINES)];
	uint32_t what = below(w, 100);
	if (what < 45)
		go_to(w, l, (int)below(w, N_BLOCKS));
	else if (what < 85)
		for (int i = 0; i < l->n; i++)
			(void)maskstore_archive(w->store, l->blocks[i], below(w, 4) > 0);
	else if (what < 90)
		copy_one(w, l);
	else if (what < 94)
		maskstore_clear(w->store);
	else if (what < 96)
		leave(w, l);
	else if (what < 98)
		close_archive(w, what == 96 ? 0 : 2000);
	open_archive(w);
	check(w);
}

static void begin(struct world *w, uint64_t seed) {
	struct err_msg msg;
	*w = (struct world){.seed = seed};
	box_init(&w->box, true, 1u << 30, 4096);
	w->want = malloc(w->box.block_bytes);
	assert_non_null(w->want);
	assert_int_equal(maskstore_create(&TINY, N_POOL * w->box.block_bytes, &w->store, &msg), ERR_OK);
}

static void set_failing(uint32_t memory, uint32_t reads, uint32_t writes) {
	failing_one_in[FAILING_MEMORY] = memory;
	failing_one_in[FAILING_READS] = reads;
	failing_one_in[FAILING_WRITES] = writes;
}

// With everything working again: the folder holds whole blocks only, and each comes back as it was, to a store that has nothing else.
static void settle_and_look(struct world *w) {
	struct archive_folder_report r = {0};
	struct err_msg msg;
	for (int i = 0; i < N_LINES; i++)
		leave(w, &w->lines[i]);
	close_archive(w, 20000);
	assert_int_equal(archive_folder_verify(w->box.dir, false, &r, &msg), ERR_OK);
	assert_int_equal(r.corrupt + r.unknown_version + r.temporary, 0);
	maskstore_clear(w->store);
	open_archive(w);
	assert_non_null(w->box.archive);
	assert_true(archive_flush(w->box.archive, 20000));
	for (int i = 0; i < N_BLOCKS; i++) {
		int path[N_BLOCKS];
		char file[512];
		size_t n = box_path(&w->box, i, path), there = 0;
		for (box_file(&w->box, path[0], file); there < n && !access(file, F_OK); there++)
			if (there + 1 < n)
				box_file(&w->box, path[there + 1], file);
		assert_int_equal(box_restore(&w->box, i), there);
	}
	check(w);
}

static void end(struct world *w) {
	close_archive(w, 0);
	maskstore_destroy(w->store);
	box_finish(&w->box);
	free(w->want);
}

static void run(uint64_t seed, uint32_t memory, uint32_t reads, uint32_t writes, int n_steps) {
	struct world w;
	begin(&w, seed);
	uint32_t before = failing_n_failed;
	set_failing(memory, reads, writes);
	for (int i = 0; i < n_steps; i++)
		step(&w);
	set_failing(0, 0, 0);
	assert_true(failing_n_failed > before + 10); // it really failed
	assert_true(w.n_found);                      // and really went on
	settle_and_look(&w);
	end(&w);
}

static void test_failing_memory(void **state) {
	(void)state;
	for (uint64_t seed = 1; seed <= 6; seed++)
		run(seed, (uint32_t)seed * 3, 0, 0, 1500);
}

static void test_failing_writes(void **state) {
	(void)state;
	for (uint64_t seed = 11; seed <= 16; seed++)
		run(seed, 0, 0, (uint32_t)(seed - 9) * 2, 1500);
}

static void test_failing_everything(void **state) {
	(void)state;
	for (uint64_t seed = 21; seed <= 26; seed++)
		run(seed, 17, (uint32_t)(seed - 17), (uint32_t)(seed - 15), 1500);
}

// Reads that fail are misses and nothing else: no file goes away, and what was missed is there the next time.
static void test_failing_reads(void **state) {
	(void)state;
	struct world w;
	uint64_t n_unreadable = 0;
	begin(&w, 31);
	open_archive(&w);
	for (int i = 0; i < N_BLOCKS; i++)
		assert_true(box_put(&w.box, i, true));
	assert_true(archive_flush(w.box.archive, 20000));
	for (uint32_t one_in = 2; one_in < 12; one_in++) {
		set_failing(0, one_in, 0);
		for (int i = 0; i < 200; i++)
			step(&w);
		struct archive_folder_report r = {0};
		enum err e = archive_folder_verify(w.box.dir, true, &r, NULL); // `store verify --remove` leaves what it can't read
		assert_true(e == ERR_OK || e == ERR_IO);
		assert_int_equal(r.corrupt + r.unknown_version, 0);
		n_unreadable += r.unreadable;
		set_failing(0, 0, 0);
		for (int i = 0; i < N_BLOCKS; i++) {
			char file[512];
			box_file(&w.box, i, file);
			assert_int_equal(access(file, F_OK), 0);
		}
	}
	assert_true(w.n_restored && n_unreadable);
	settle_and_look(&w);
	end(&w);
}

// With AddressSanitizer a refused allocation is null too, as everywhere else.
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
	return "allocator_may_return_null=1";
}

// A store for which there are no addresses, and tables for which there is no memory.
static void test_creating_fails(void **state) {
	(void)state;
	struct maskstore *ms = NULL;
	struct archive *a = NULL;
	struct err_msg msg = {""};
	assert_int_equal(maskstore_create(&TINY, (size_t)1 << 55, &ms, &msg), ERR_NOMEM);
	assert_true(msg.text[0]);
	set_failing(1, 0, 0);
	enum err store = maskstore_create(&TINY, 1 << 20, &ms, &msg);
	enum err archive = archive_open(&(struct archive_options){.geometry = TINY, .ram_budget_bytes = 1 << 20}, &a, &msg);
	set_failing(0, 0, 0);
	assert_int_equal(store, ERR_NOMEM);
	assert_int_equal(archive, ERR_NOMEM);
	assert_null(ms);
	assert_null(a);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_failing_memory), cmocka_unit_test(test_failing_writes), cmocka_unit_test(test_failing_reads),
		cmocka_unit_test(test_failing_everything), cmocka_unit_test(test_creating_fails),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void) {
	return 77; // this linker has no --wrap
}
#endif
