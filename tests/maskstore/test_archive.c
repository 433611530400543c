// SPDX-License-Identifier: MIT
// The archive against a plain table: random puts, lookups, restores, damage and reopening, within budgets and with a failing allocator.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

#include "box.h"

// --- the model

enum place { ABSENT = 0, IN_RAM, ON_DISK, DAMAGED }; // DAMAGED: a file that looks like it and isn't

struct model {
	struct box box;
	enum place table[N_BLOCKS];
	uint64_t seed;
	bool exact; // budgets hold everything: what is in the table is there
	bool damage;
};

static uint32_t below(struct model *m, uint32_t n) {
	return draw(&m->seed, n);
}

// Waits for queued writes. Only then is the difference between RAM and disk certain.
static void settle(struct model *m) {
	assert_true(archive_flush(m->box.archive, 20000));
	assert_int_equal(m->box.lent, 0);
}

static void put_one(struct model *m) {
	int i = (int)below(m, N_BLOCKS);
	bool to_disk = m->box.options.dir && below(m, 4) != 0;
	enum place was = m->table[i];
	bool queued = box_put(&m->box, i, to_disk);
	if (m->exact)
		assert_int_equal(queued, was == ABSENT);
	if (queued || (was == IN_RAM && to_disk))
		m->table[i] = to_disk ? ON_DISK : IN_RAM; // from RAM it is written without its payload
}

static void look_one(struct model *m) {
	int i = (int)below(m, N_BLOCKS);
	bool has = archive_has(m->box.archive, &m->box.blocks[i].key);
	if (m->exact)
		assert_int_equal(has, m->table[i] != ABSENT);
	else if (has)
		assert_int_not_equal(m->table[i], ABSENT);
}

// Damage that a reader may have found out: the one that stopped a restore, and what other readers were at behind it.
static void look_at_damage(struct model *m, const int *path, size_t n) {
	for (size_t k = 0; k < n; k++)
		if (m->table[path[k]] == DAMAGED && !archive_has(m->box.archive, &m->box.blocks[path[k]].key))
			m->table[path[k]] = ABSENT;
}

static void restore_one(struct model *m) {
	int last = (int)below(m, N_BLOCKS), path[N_BLOCKS], got = box_restore(&m->box, last);
	size_t n = box_path(&m->box, last, path), there = 0;
	while (there < n && (m->table[path[there]] == IN_RAM || m->table[path[there]] == ON_DISK))
		there++;
	assert_in_range(got, 0, there); // -1 would be a wrong payload
	if (m->exact)
		assert_int_equal(got, there);
	if ((size_t)got == there && there < n && m->table[path[there]] == DAMAGED) {
		assert_false(archive_has(m->box.archive, &m->box.blocks[path[there]].key)); // found out and removed
		m->table[path[there]] = ABSENT;
	}
	look_at_damage(m, path, n);
}

// A chain that names one block wrongly stops before it.
static void restore_wrong(struct model *m) {
	int last = (int)below(m, N_BLOCKS), path[N_BLOCKS];
	size_t n = box_path(&m->box, last, path), wrong = below(m, (uint32_t)n);
	struct archive_block names[N_BLOCKS];
	for (size_t k = 0; k < n; k++)
		names[k] = m->box.blocks[path[k]];
	switch (below(m, 3)) {
	case 0: names[wrong].ids[below(m, KV_BLOCK_TOKENS)] ^= 4; break;
	case 1: names[wrong].parent.bytes[below(m, 32)] ^= 4; break;
	default: names[wrong].key.bytes[below(m, 32)] ^= 4; break;
	}
	size_t got = archive_restore(m->box.archive, names, (void *const *)m->box.back, n, NULL);
	assert_in_range(got, 0, wrong);
	look_at_damage(m, path, n);
}

static void reopen(struct model *m) {
	box_close(&m->box, 20000);
	assert_int_equal(m->box.lent, 0);
	assert_true(box_open(&m->box));
	if (below(m, 2))
		settle(m);
	for (int i = 0; i < N_BLOCKS; i++) {
		if (m->table[i] == IN_RAM)
			m->table[i] = ABSENT;
		if (m->table[i] == DAMAGED) { // what has no magic is removed by the scan, the rest when it is read
			settle(m);
			m->table[i] = archive_has(m->box.archive, &m->box.blocks[i].key) ? DAMAGED : ABSENT;
		}
	}
}

// Changes one byte, cuts, lengthens or removes a file. The archive holds no copies in RAM where this is done.
static void damage_one(struct model *m) {
	settle(m);
	int i = (int)below(m, N_BLOCKS);
	char path[512];
	struct stat st;
	box_file(&m->box, i, path);
	if (m->table[i] != ON_DISK || stat(path, &st))
		return;
	uint32_t at = below(m, (uint32_t)st.st_size);
	int fd = open(path, O_RDWR);
	uint8_t byte;
	assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
	byte ^= (uint8_t)(1 + below(m, 255));
	m->table[i] = DAMAGED;
	switch (below(m, 4)) {
	case 0: assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1); break;
	case 1: assert_int_equal(ftruncate(fd, (off_t)at), 0); break;
	case 2: assert_int_equal(ftruncate(fd, st.st_size + 1 + (off_t)below(m, 5000)), 0); break;
	default:
		assert_int_equal(unlink(path), 0);
		m->table[i] = ABSENT;
	}
	close(fd);
}

static void check_budgets(struct model *m) {
	struct archive_stats s;
	struct archive_folder_report r;
	struct err_msg msg;
	settle(m);
	archive_stats(m->box.archive, &s);
	assert_in_range(s.ram_bytes, 0, m->box.options.ram_budget_bytes);
	assert_int_equal(s.write_errors, 0);
	if (!m->box.options.dir)
		return;
	assert_int_equal(archive_folder_list(m->box.dir, &r, &msg), ERR_OK);
	assert_in_range(r.bytes, 0, m->box.options.disk_budget_bytes);
	assert_int_equal(r.temporary, 0);
	if (!m->damage) {
		assert_int_equal(r.bytes, s.disk_bytes);
		assert_int_equal(r.extents, s.disk_extents);
	}
}

static void run_model(struct model *m, int n_steps) {
	assert_true(box_open(&m->box));
	for (int step = 0; step < n_steps; step++) {
		uint32_t what = below(m, 100);
		if (what < 40)
			put_one(m);
		else if (what < 60)
			look_one(m);
		else if (what < 85)
			restore_one(m);
		else if (what < 88)
			restore_wrong(m);
		else if (what < 92 && m->damage)
			damage_one(m);
		else if (what < 94)
			check_budgets(m);
		else if (what == 99)
			reopen(m);
	}
	check_budgets(m);
	box_finish(&m->box);
	assert_int_equal(m->box.lent, 0);
}

#define MUCH (1u << 30)
#define EXTENTS 1024u // at least this long each: half of a block, deflated rest, header

static void run(bool on_disk, uint64_t disk_budget, uint64_t ram_budget, bool damage, uint64_t seed, int n_steps) {
	struct model m = {.seed = seed, .exact = ram_budget == MUCH, .damage = damage};
	box_init(&m.box, on_disk, disk_budget, ram_budget);
	run_model(&m, n_steps);
}

static void test_ram_only(void **state) {
	(void)state;
	run(false, 0, MUCH, false, 1, 3000);
}

static void test_disk_and_ram(void **state) {
	(void)state;
	for (uint64_t seed = 1; seed <= 3; seed++)
		run(true, MUCH, MUCH, false, seed, 2000);
}

static void test_small_ram(void **state) {
	(void)state;
	run(false, 0, 5 * EXTENTS, false, 2, 3000);
	run(false, 0, 0, false, 3, 500);
}

static void test_small_disk(void **state) {
	(void)state;
	for (uint64_t seed = 1; seed <= 3; seed++)
		run(true, 10 * EXTENTS, seed == 1 ? 0 : 4 * EXTENTS, false, seed, 2000);
	run(true, EXTENTS / 4, 0, false, 4, 500); // below one extent: nothing is ever written
}

static void test_damage(void **state) {
	(void)state;
	for (uint64_t seed = 1; seed <= 4; seed++)
		run(true, MUCH, 0, true, seed, 2000);
}

// Everything goes to disk and nothing stays in RAM, so the table knows exactly what is there, damage included.
static void test_exact_damage(void **state) {
	(void)state;
	struct model m = {.seed = 11, .damage = true};
	box_init(&m.box, true, MUCH, 0);
	assert_true(box_open(&m.box));
	for (int step = 0; step < 1500; step++) {
		int i = (int)below(&m, N_BLOCKS);
		m.exact = true;
		if (step % 3 == 0) {
			assert_int_equal(box_put(&m.box, i, true), m.table[i] == ABSENT);
			m.table[i] = m.table[i] == ABSENT ? ON_DISK : m.table[i];
			settle(&m);
		} else if (step % 3 == 1) {
			restore_one(&m);
		} else if (step % 9 == 2) {
			damage_one(&m);
		} else {
			look_one(&m);
		}
		if (step % 100 == 99)
			reopen(&m);
	}
	box_finish(&m.box);
}

// --- single behaviours

static void test_stats(void **state) {
	(void)state;
	struct box b;
	box_init(&b, true, MUCH, MUCH);
	assert_true(box_open(&b));
	for (int i = 0; i < 3; i++)
		assert_true(box_put(&b, i, i != 2)); // blocks 0, 1, 2 are a chain
	assert_true(archive_flush(b.archive, 20000));
	assert_int_equal(b.given_back, 3);
	assert_int_equal(box_restore(&b, 2), 3);
	struct archive_stats s;
	archive_stats(b.archive, &s);
	assert_int_equal(s.puts, 3);
	assert_int_equal(s.hits_ram, 3);
	assert_int_equal(s.hits_disk + s.misses, 0);
	assert_int_equal(s.waits, 1);
	assert_int_equal(s.ram_extents, 3);
	assert_int_equal(s.disk_extents, 2);
	assert_int_equal(s.raw_bytes, 3 * b.block_bytes);
	assert_true(s.packed_bytes > 0 && s.packed_bytes == s.ram_bytes);
	box_close(&b, 1000);
	assert_true(box_open(&b));
	assert_true(archive_flush(b.archive, 20000)); // the scan
	assert_int_equal(box_restore(&b, 2), 2);
	archive_stats(b.archive, &s);
	assert_int_equal(s.hits_disk, 2);
	assert_int_equal(s.misses, 1);
	assert_int_equal(s.disk_extents, 2);
	box_finish(&b);
}

// What is in RAM only goes to disk when a later put allows it, without another payload.
static void test_promotion(void **state) {
	(void)state;
	struct box b;
	box_init(&b, true, MUCH, MUCH);
	assert_true(box_open(&b));
	assert_true(box_put(&b, 0, false));
	assert_true(archive_flush(b.archive, 20000));
	char path[512];
	box_file(&b, 0, path);
	assert_int_not_equal(access(path, F_OK), 0);
	assert_false(box_put(&b, 0, false));
	assert_true(archive_flush(b.archive, 20000));
	assert_int_not_equal(access(path, F_OK), 0);
	assert_false(box_put(&b, 0, true));
	assert_true(archive_flush(b.archive, 20000));
	assert_int_equal(access(path, F_OK), 0);
	box_close(&b, 0);
	assert_true(box_open(&b));
	assert_int_equal(box_restore(&b, 0), 1);
	box_finish(&b);
}

// RAM holds the newest copies of what is on disk, until blocks that are nowhere else need the room.
static void test_what_ram_keeps(void **state) {
	(void)state;
	struct box b;
	struct archive_stats s;
	box_init(&b, true, MUCH, 4 * EXTENTS);
	assert_true(box_open(&b));
	for (int i = 0; i < 10; i++)
		assert_true(box_put(&b, i, true));
	assert_true(archive_flush(b.archive, 20000));
	archive_stats(b.archive, &s);
	uint64_t n_held = s.ram_extents;
	assert_in_range(n_held, 3, 5);
	const struct archive_block newest = b.blocks[9], oldest = b.blocks[0];
	assert_int_equal(archive_restore(b.archive, &newest, (void *const *)b.back, 1, NULL), 1);
	assert_int_equal(archive_restore(b.archive, &oldest, (void *const *)b.back, 1, NULL), 1);
	archive_stats(b.archive, &s);
	assert_int_equal(s.hits_ram, 1);
	assert_int_equal(s.hits_disk, 1);
	assert_int_equal(s.evictions, 0); // copies are no loss
	for (int i = 20; i < 20 + (int)n_held; i++)
		assert_true(box_put(&b, i, false));
	assert_true(box_put(&b, 30, true));
	assert_true(archive_flush(b.archive, 20000));
	for (int i = 20; i < 20 + (int)n_held; i++)
		assert_int_equal(archive_restore(b.archive, &b.blocks[i], (void *const *)b.back, 1, NULL), 1);
	archive_stats(b.archive, &s);
	assert_int_equal(s.hits_ram, 1 + n_held);
	assert_true(box_put(&b, 40, false)); // one of them has to go
	assert_true(archive_flush(b.archive, 20000));
	archive_stats(b.archive, &s);
	assert_int_equal(s.evictions, 1);
	box_finish(&b);
}

static void test_cancel(void **state) {
	(void)state;
	struct box b;
	box_init(&b, false, 0, MUCH);
	assert_true(box_open(&b));
	assert_true(box_put(&b, 0, false));
	_Atomic int cancel = 1;
	assert_int_equal(archive_restore(b.archive, b.blocks, (void *const *)b.back, 3, &cancel), 0);
	cancel = 0;
	assert_int_equal(archive_restore(b.archive, b.blocks, (void *const *)b.back, 3, &cancel), 1);
	assert_int_equal(archive_restore(b.archive, b.blocks, (void *const *)b.back, 0, NULL), 0);
	box_finish(&b);
}

// Closing without time gives every payload back, written or not.
static void test_close_gives_back(void **state) {
	(void)state;
	for (int round = 0; round < 20; round++) {
		struct box b;
		box_init(&b, true, MUCH, round % 2 ? MUCH : 0);
		assert_true(box_open(&b));
		uint64_t n = 0;
		for (int i = 0; i < N_BLOCKS; i++)
			n += box_put(&b, i, true);
		box_close(&b, 0);
		assert_int_equal(b.lent, 0);
		assert_int_equal(b.given_back, n);
		box_finish(&b);
	}
}

static void test_arguments(void **state) {
	(void)state;
	struct box b;
	box_init(&b, false, 0, MUCH);
	struct archive *a = (struct archive *)&b;
	struct err_msg msg;
	struct archive_options o = b.options;
	o.geometry.n_layer = 0;
	assert_int_equal(archive_open(&o, &a, &msg), ERR_ARG);
	o.geometry.n_layer = 1 << 20; // a block above the limit
	assert_int_equal(archive_open(&o, &a, &msg), ERR_ARG);
	assert_ptr_equal(a, &b);
	char *longer = malloc(8000);
	memset(longer, 'x', 7999);
	longer[7999] = 0;
	longer[0] = '/';
	b.options.dir = longer; // no path fits: RAM only
	assert_true(box_open(&b));
	assert_true(box_put(&b, 0, true));
	assert_int_equal(box_restore(&b, 0), 1);
	free(longer);
	archive_close(NULL, 0);
	box_finish(&b);
}

// --- threads

struct job {
	struct model model;
	struct box *box;
	pthread_t thread;
	bool ok;
};

static void *work(void *arg) {
	struct job *j = arg;
	uint8_t *back[N_BLOCKS];
	for (int i = 0; i < N_BLOCKS; i++)
		back[i] = malloc(j->box->block_bytes);
	j->ok = true;
	for (int step = 0; step < 400; step++) {
		int i = (int)below(&j->model, N_BLOCKS), path[N_BLOCKS];
		struct archive_stats s;
		switch (below(&j->model, 4)) {
		case 0: box_put(j->box, i, below(&j->model, 2) == 0); break;
		case 1: (void)archive_has(j->box->archive, &j->box->blocks[i].key); break;
		case 2: archive_stats(j->box->archive, &s); break;
		default: {
			struct archive_block names[N_BLOCKS];
			size_t n = box_path(j->box, i, path);
			for (size_t k = 0; k < n; k++)
				names[k] = j->box->blocks[path[k]];
			size_t got = archive_restore(j->box->archive, names, (void *const *)back, n, NULL);
			for (size_t k = 0; k < got; k++)
				j->ok = j->ok && box_same(j->box, path[k], back[k]);
		}
		}
	}
	for (int i = 0; i < N_BLOCKS; i++)
		free(back[i]);
	return NULL;
}

static void test_threads(void **state) {
	(void)state;
	for (int small = 0; small < 2; small++) {
		struct box b;
		struct job jobs[4];
		box_init(&b, true, small ? 12 * EXTENTS : MUCH, small ? 6 * EXTENTS : MUCH);
		assert_true(box_open(&b));
		for (int t = 0; t < 4; t++) {
			jobs[t] = (struct job){.model = {.seed = (uint64_t)t + 1}, .box = &b};
			assert_int_equal(pthread_create(&jobs[t].thread, NULL, work, &jobs[t]), 0);
		}
		for (int t = 0; t < 4; t++) {
			pthread_join(jobs[t].thread, NULL);
			assert_true(jobs[t].ok);
		}
		box_close(&b, 20000);
		assert_int_equal(b.lent, 0);
		box_finish(&b);
	}
}

// --- failing allocator: malloc, calloc and realloc of everything linked here fail now and then

#ifdef HAVE_WRAP
static _Atomic uint32_t fail_one_in, n_asked;

static bool fails(void) {
	uint32_t one_in = fail_one_in;
	return one_in && (atomic_fetch_add(&n_asked, 1) * 2654435761u >> 8) % one_in == 0;
}

void *__real_malloc(size_t n_bytes);
void *__real_calloc(size_t n, size_t n_bytes);
void *__real_realloc(void *p, size_t n_bytes);
void *__wrap_malloc(size_t n_bytes);
void *__wrap_calloc(size_t n, size_t n_bytes);
void *__wrap_realloc(void *p, size_t n_bytes);

void *__wrap_malloc(size_t n_bytes) {
	return fails() ? NULL : __real_malloc(n_bytes);
}

void *__wrap_calloc(size_t n, size_t n_bytes) {
	return fails() ? NULL : __real_calloc(n, n_bytes);
}

void *__wrap_realloc(void *p, size_t n_bytes) {
	return fails() ? NULL : __real_realloc(p, n_bytes);
}

static void test_failing_allocator(void **state) {
	(void)state;
	for (uint32_t one_in = 2; one_in < 40; one_in += 3) {
		struct box b;
		box_init(&b, true, 10 * EXTENTS, 5 * EXTENTS);
		uint64_t seed = one_in;
		fail_one_in = one_in;
		for (int step = 0; step < 300; step++) {
			if (!b.archive && !box_open(&b))
				continue;
			int i = (int)draw(&seed, N_BLOCKS);
			if (step % 3 == 2) {
				fail_one_in = 0; // box_same needs memory; the workers go on
				int got = box_restore(&b, i);
				fail_one_in = one_in;
				assert_int_not_equal(got, -1);
			} else {
				box_put(&b, i, step % 2 == 0);
			}
			if (step % 50 == 49)
				box_close(&b, 1000);
		}
		fail_one_in = 0;
		box_close(&b, 1000);
		assert_int_equal(b.lent, 0);
		struct archive_folder_report r;
		struct err_msg msg;
		assert_int_equal(archive_folder_verify(b.dir, false, &r, &msg), ERR_OK);
		assert_int_equal(r.corrupt + r.temporary, 0);
		box_finish(&b);
	}
}
#else
static void test_failing_allocator(void **state) {
	(void)state;
	skip(); // this linker has no --wrap
}
#endif

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ram_only),      cmocka_unit_test(test_disk_and_ram),     cmocka_unit_test(test_small_ram),
		cmocka_unit_test(test_small_disk),    cmocka_unit_test(test_damage),           cmocka_unit_test(test_exact_damage),
		cmocka_unit_test(test_stats),         cmocka_unit_test(test_promotion),        cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_what_ram_keeps),
		cmocka_unit_test(test_close_gives_back), cmocka_unit_test(test_arguments),     cmocka_unit_test(test_threads),
		cmocka_unit_test(test_failing_allocator),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
