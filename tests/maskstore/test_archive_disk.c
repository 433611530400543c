// SPDX-License-Identifier: MIT
// The archive's folder: what files look like, damage to any byte, hostile files, crashes, full and read-only disks, several servers, what
// goes first, and the functions that work without a server.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "box.h"
#include "maskstore/internal.h"

#define MUCH (1u << 30)

static struct archive_stats stats_of(struct box *b) {
	struct archive_stats s;
	archive_stats(b->archive, &s);
	return s;
}

static struct archive_folder_report verify(const struct box *b, bool remove_bad) {
	struct archive_folder_report r;
	struct err_msg msg = {""};
	if (archive_folder_verify(b->dir, remove_bad, &r, &msg) != ERR_OK)
		fail_msg("%s", msg.text);
	return r;
}

static void open_settled(struct box *b) {
	assert_true(box_open(b));
	assert_true(archive_flush(b->archive, 20000));
}

static void put_settled(struct box *b, int i) {
	assert_true(box_put(b, i, true));
	assert_true(archive_flush(b->archive, 20000));
}

// A box whose chain 0, 1, 2 is on disk and nothing in RAM. Closed.
static void make_chain(struct box *b) {
	box_init(b, true, MUCH, 0);
	open_settled(b);
	for (int i = 0; i < 3; i++)
		put_settled(b, i);
	box_close(b, 1000);
}

static size_t read_file(const char *path, uint8_t *out, size_t cap) {
	int fd = open(path, O_RDONLY);
	ssize_t n = read(fd, out, cap);
	close(fd);
	return n > 0 ? (size_t)n : 0;
}

static void write_file(const char *path, const uint8_t *data, size_t n_bytes) {
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_int_equal(write(fd, data, n_bytes), n_bytes);
	close(fd);
}

static void test_files_are_private(void **state) {
	(void)state;
	struct box b;
	mode_t old = umask(0);
	make_chain(&b);
	umask(old);
	char path[512];
	struct stat st;
	for (int i = 0; i < 3; i++) {
		box_file(&b, i, path);
		assert_int_equal(stat(path, &st), 0);
		assert_int_equal(st.st_mode & 07777, 0600);
	}
	*strrchr(path, '/') = 0;
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	struct archive_folder_report r = verify(&b, false);
	assert_int_equal(r.roots, 1);
	assert_int_equal(r.extents, 3);
	assert_int_equal(r.raw_bytes, 3 * b.block_bytes);
	assert_int_equal(r.corrupt + r.unknown_version + r.temporary, 0);
	box_finish(&b);
}

// Every byte of a file, flipped: a miss, and the file is gone and can be written again.
static void test_every_byte(void **state) {
	(void)state;
	struct box b;
	make_chain(&b);
	uint8_t data[4096], bad[4096];
	char path[512];
	box_file(&b, 1, path);
	size_t n = read_file(path, data, sizeof data);
	assert_in_range(n, 512, sizeof data - 1);
	open_settled(&b);
	for (size_t i = 0; i < n; i++) {
		memcpy(bad, data, n);
		bad[i] ^= (uint8_t)(1 + i % 255);
		write_file(path, bad, n);
		assert_int_equal(box_restore(&b, 2), 1);
		assert_int_not_equal(access(path, F_OK), 0);
		assert_int_equal(stats_of(&b).corrupt, i + 1);
	}
	put_settled(&b, 1);
	assert_int_equal(box_restore(&b, 2), 3);
	box_finish(&b);
}

// A crash of the machine may leave any prefix under a final or a temporary name, and blocks of zeros.
static void test_cut_at_every_length(void **state) {
	(void)state;
	struct box b;
	make_chain(&b);
	uint8_t data[4096], part[4096];
	char path[512], temp[600];
	box_file(&b, 1, path);
	size_t n = read_file(path, data, sizeof data);
	snprintf(temp, sizeof temp, "%.*s/.1-2.tmp", (int)(strrchr(path, '/') - path), path);
	for (size_t cut = 0; cut < n; cut += cut < 260 ? 1 : 7) {
		memcpy(part, data, cut);
		if (cut & 1) // its length is known already, its last bytes aren't
			memset(part + cut / 2, 0, n - cut / 2);
		write_file(path, part, cut & 1 ? n : cut);
		write_file(temp, part, cut);
		open_settled(&b);
		assert_int_equal(box_restore(&b, 2), 1);
		put_settled(&b, 1);
		assert_int_equal(box_restore(&b, 2), 3);
		box_close(&b, 1000);
		assert_int_equal(verify(&b, false).corrupt, 0);
	}
	assert_int_equal(access(temp, F_OK), 0); // fresh, so perhaps in use
	const struct timespec hour_ago[2] = {{.tv_sec = time(NULL) - 3600}, {.tv_sec = time(NULL) - 3600}};
	assert_int_equal(utimensat(AT_FDCWD, temp, hour_ago, 0), 0);
	open_settled(&b);
	assert_int_not_equal(access(temp, F_OK), 0);
	box_finish(&b);
}

// Makes the checksum right after a change: CRC-32 bit by bit, by no library of the thing under test.
static void sign(uint8_t *data, size_t n_bytes) {
	uint32_t crc = UINT32_MAX;
	for (size_t i = 0; i < n_bytes; i++) {
		if (i >= 12 && i < 16)
			continue;
		crc ^= data[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
	}
	for (int i = 0; i < 4; i++)
		data[12 + i] = (uint8_t)(~crc >> (8 * i));
}

// Things that are no extents of ours under names that are.
static void test_hostile_files(void **state) {
	(void)state;
	for (int kind = 0; kind < 8; kind++) {
		struct box b;
		make_chain(&b);
		char path[512], other[512], outside[600];
		uint8_t data[4096];
		box_file(&b, 1, path);
		box_file(&b, 2, other);
		snprintf(outside, sizeof outside, "%s/outside", b.dir);
		size_t n = read_file(path, data, sizeof data);
		open_settled(&b); // the scan is over: what comes now is found by reading
		assert_int_equal(unlink(path), 0);
		switch (kind) {
		case 0: assert_int_equal(mkdir(path, 0700), 0); break;
		case 1: assert_int_equal(mkfifo(path, 0600), 0); break;
		case 2: // a link to the very extent
			write_file(outside, data, n);
			assert_int_equal(symlink(outside, path), 0);
			break;
		case 3: assert_int_equal(symlink("/dev/zero", path), 0); break;
		case 4: // much too large
			write_file(path, data, n);
			assert_int_equal(truncate(path, (off_t)1 << 40), 0);
			break;
		case 5: // another block's extent
			n = read_file(other, data, sizeof data);
			write_file(path, data, n);
			break;
		case 6: { // whole and of the right key, but of another geometry
			struct extent_codec *c;
			struct err_msg msg;
			struct maskstore_geometry g = {.n_layer = 2, .n_head_kv = 1, .head_dim = 4, .kv_type = KV_F16};
			assert_int_equal(extent_codec_create(b.block_bytes, &c, &msg), ERR_OK);
			n = extent_pack(c, &g, &b.blocks[1], b.back[0], data);
			write_file(path, data, n);
			extent_codec_destroy(c);
			break;
		}
		default: // of the right key and bytes, but with ids that don't make the key
			data[130] ^= 1;
			sign(data, n);
			write_file(path, data, n);
		}
		assert_int_equal(box_restore(&b, 2), 1);
		if (kind >= 4)
			assert_int_not_equal(access(path, F_OK), 0);
		box_close(&b, 0);
		open_settled(&b);
		assert_int_equal(box_restore(&b, 0), 1);
		assert_true(box_restore(&b, 2) <= 1);
		box_finish(&b);
	}
}

static void test_opening_cleans(void **state) {
	(void)state;
	struct box b;
	make_chain(&b);
	uint8_t data[4096];
	char path[512], foreign[600];
	box_file(&b, 1, path);
	size_t n = read_file(path, data, sizeof data);
	data[8] = 2; // another format version
	write_file(path, data, n);
	snprintf(foreign, sizeof foreign, "%.*s/notes.txt", (int)(strrchr(path, '/') - path), path);
	write_file(foreign, data, 3);
	const struct timespec hour_ago[2] = {{.tv_sec = time(NULL) - 3600}, {.tv_sec = time(NULL) - 3600}};
	assert_int_equal(utimensat(AT_FDCWD, foreign, hour_ago, 0), 0);
	assert_int_equal(verify(&b, false).unknown_version, 1);
	open_settled(&b);
	assert_int_not_equal(access(path, F_OK), 0);
	assert_int_equal(access(foreign, F_OK), 0);
	assert_int_equal(stats_of(&b).disk_extents, 2);
	box_finish(&b);
}

// --- other processes: they leave with 0 if all went well

static int wait_for(pid_t child) {
	int status = -1;
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

// Killed at any moment while it writes: what is there afterwards is whole.
static void test_kill(void **state) {
	(void)state;
	struct box b;
	box_init(&b, true, MUCH, 0);
	uint64_t seed = 3;
	for (int round = 0; round < 25; round++) {
		pid_t child = fork();
		if (child == 0) {
			if (!box_open(&b))
				_exit(1);
			for (int i = 0; i < N_BLOCKS; i++)
				box_put(&b, i, true);
			archive_flush(b.archive, 20000);
			pause();
		}
		const struct timespec nap = {.tv_nsec = 200000 * (long)draw(&seed, 25)};
		nanosleep(&nap, NULL);
		kill(child, SIGKILL);
		assert_int_equal(wait_for(child), 1000 + SIGKILL);
		struct archive_folder_report r = verify(&b, false);
		assert_int_equal(r.corrupt + r.unknown_version, 0);
		open_settled(&b);
		for (int i = 0; i < N_BLOCKS; i += 5)
			assert_int_not_equal(box_restore(&b, i), -1);
		box_close(&b, 0);
		if (round % 8 == 7) {
			struct err_msg msg;
			assert_int_equal(archive_folder_clear(b.dir, &r, &msg), ERR_OK);
		}
	}
	box_finish(&b);
}

// What a server without a usable disk must do: say so, give up writing after a few tries, and go on in RAM.
static int live_in_ram(struct box *b) {
	if (!box_open(b) || !archive_flush(b->archive, 20000))
		return 2;
	for (int i = 0; i < 12; i++)
		if (!box_put(b, i, true) || !archive_flush(b->archive, 20000))
			return 3;
	for (int i = 0; i < 12; i++) {
		int path[N_BLOCKS];
		if (box_restore(b, i) != (int)box_path(b, i, path))
			return 4;
	}
	struct archive_stats s = stats_of(b);
	if (!s.disk_off || s.write_errors < 1 || s.write_errors > ARCHIVE_MAX_FAILURES || s.ram_extents != 12 || s.disk_extents)
		return 5;
	box_close(b, 1000);
	return b->lent ? 6 : 0;
}

// Every write of a file fails after n bytes, as on a full disk.
static int with_full_disk(struct box *b, rlim_t n_bytes) {
	const struct rlimit limit = {n_bytes, n_bytes};
	signal(SIGXFSZ, SIG_IGN);
	return setrlimit(RLIMIT_FSIZE, &limit) ? 7 : live_in_ram(b);
}

static void test_full_disk(void **state) {
	(void)state;
	static const rlim_t limits[] = {0, 1, 255, 256, 257, 600};
	for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
		struct box b;
		box_init(&b, true, MUCH, MUCH);
		pid_t child = fork();
		if (child == 0)
			_exit(with_full_disk(&b, limits[i]));
		assert_int_equal(wait_for(child), 0);
		struct archive_folder_report r = verify(&b, false);
		assert_int_equal(r.extents + r.corrupt + r.temporary, 0); // nothing half-written stays
		box_finish(&b);
	}
}

static void test_read_only_folder(void **state) {
	(void)state;
	struct box b;
	make_chain(&b);
	b.options.ram_budget_bytes = MUCH;
	char root[512];
	box_file(&b, 0, root);
	*strrchr(root, '/') = 0;
	for (int i = 0; i < 3; i++) {
		char path[512];
		box_file(&b, i, path);
		assert_int_equal(unlink(path), 0);
	}
	assert_int_equal(chmod(b.dir, 0755), 0);
	assert_int_equal(chmod(root, 0555), 0);
	pid_t child = fork();
	if (child == 0) // root may write anywhere: become nobody
		_exit(geteuid() == 0 && setuid(65534) ? 8 : live_in_ram(&b));
	assert_int_equal(wait_for(child), 0);
	assert_int_equal(chmod(root, 0700), 0);
	box_finish(&b);
}

static void test_folder_that_cannot_be(void **state) {
	(void)state;
	struct box b;
	box_init(&b, true, MUCH, MUCH);
	char file[256];
	snprintf(file, sizeof file, "%s/file", b.dir);
	write_file(file, (const uint8_t *)"x", 1);
	char below[300];
	snprintf(below, sizeof below, "%s/store", file);
	b.options.dir = below;
	assert_int_equal(live_in_ram(&b), 0);
	box_finish(&b);
}

// Somebody removes the folder while a server runs.
static void test_folder_removed(void **state) {
	(void)state;
	struct box b;
	box_init(&b, true, MUCH, 0);
	open_settled(&b);
	put_settled(&b, 0);
	struct archive_folder_report r;
	struct err_msg msg;
	assert_int_equal(archive_folder_clear(b.dir, &r, &msg), ERR_OK);
	assert_int_equal(r.extents, 1);
	assert_int_equal(box_restore(&b, 0), 0);
	remove_folder(b.dir);
	put_settled(&b, 0);
	assert_int_equal(box_restore(&b, 0), 1);
	assert_int_equal(stats_of(&b).write_errors, 0);
	box_finish(&b);
}

static int serve_at_random(struct box *b, uint64_t seed, int n_steps) {
	for (int step = 0; step < n_steps; step++) {
		if (!b->archive && !box_open(b))
			return 2;
		int i = (int)draw(&seed, N_BLOCKS);
		uint32_t what = draw(&seed, 100);
		if (what < 50)
			box_put(b, i, true);
		else if (what < 70)
			(void)archive_has(b->archive, &b->blocks[i].key);
		else if (what < 97 && box_restore(b, i) < 0)
			return 3;
		else if (what == 99)
			box_close(b, 100);
	}
	if (b->archive && (stats_of(b).corrupt || stats_of(b).write_errors))
		return 4; // another server's files are whole, and a shared folder is no error
	box_close(b, 20000);
	return b->lent ? 5 : 0;
}

// A server takes notice of what another one wrote before the two together pass the budget by much.
static void test_two_servers_share_the_budget(void **state) {
	(void)state;
	struct box a, b;
	box_init(&a, true, 30 * 1024, 0);
	box_init(&b, true, 30 * 1024, 0);
	b.options.dir = a.dir;
	open_settled(&a);
	open_settled(&b);
	for (int i = 0; i < 24; i++)
		put_settled(&b, i);
	for (int i = 24; i < N_BLOCKS; i++) {
		put_settled(&a, i);
		struct archive_folder_report r;
		struct err_msg msg;
		assert_int_equal(archive_folder_list(a.dir, &r, &msg), ERR_OK);
		assert_in_range(r.bytes, 1, a.options.disk_budget_bytes + a.options.disk_budget_bytes / 32 + 1024);
	}
	box_finish(&b);
	box_finish(&a);
}

// Servers on one folder, within a budget that makes them remove each other's files: a few seconds, MASKSTORE_FULL=1 half a minute,
// MASKSTORE_ARCHIVE_STEPS as long as you like.
static void test_several_servers(void **state) {
	(void)state;
	const char *more = getenv("MASKSTORE_ARCHIVE_STEPS");
	int n_steps = more ? (int)strtol(more, NULL, 10) : getenv("MASKSTORE_FULL") ? 300000 : 10000;
	struct box b;
	box_init(&b, true, 20 * 1024, 0);
	pid_t children[3];
	for (int c = 0; c < 3; c++) {
		children[c] = fork();
		if (children[c] == 0)
			_exit(serve_at_random(&b, (uint64_t)c + 1, n_steps));
	}
	for (int c = 0; c < 3; c++)
		assert_int_equal(wait_for(children[c]), 0);
	struct archive_folder_report r = verify(&b, false);
	assert_int_equal(r.corrupt + r.unknown_version + r.temporary, 0);
	assert_true(r.extents > 0);
	assert_in_range(r.bytes, 1, b.options.disk_budget_bytes + 2 * (b.options.disk_budget_bytes / 32 + 1024)); // archive_disk.c, at the top
	box_finish(&b);
}

// --- what goes first

static void set_used(const struct box *b, int i, long hours_ago) {
	char path[512];
	box_file(b, i, path);
	const struct timespec t[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = time(NULL) - hours_ago * 3600}};
	assert_int_equal(utimensat(AT_FDCWD, path, t, 0), 0);
}

static bool on_disk(const struct box *b, int i) {
	char path[512];
	box_file(b, i, path);
	return access(path, F_OK) == 0;
}

// Blocks 0 to 9 of ascending age, as many as fit; each restore of one counts as a use.
static void test_least_used_goes_first(void **state) {
	(void)state;
	struct box b;
	make_chain(&b);
	char path[512];
	struct stat st;
	box_file(&b, 0, path);
	assert_int_equal(stat(path, &st), 0);
	b.options.disk_budget_bytes = (uint64_t)st.st_size * 10 + 300;
	open_settled(&b);
	for (int i = 3; i < 10; i++)
		put_settled(&b, i);
	for (int i = 0; i < 10; i++)
		set_used(&b, i, 100 - 10 * i); // 0 is the oldest
	assert_int_equal(box_restore(&b, 0), 1); // now it isn't
	put_settled(&b, 10);
	assert_true(on_disk(&b, 0) && on_disk(&b, 10));
	assert_false(on_disk(&b, 1)); // the least recently used one
	assert_true(on_disk(&b, 9));
	box_finish(&b);
}

static int64_t used_at(const struct box *b, int i) {
	char path[512];
	struct stat st;
	box_file(b, i, path);
	assert_int_equal(stat(path, &st), 0);
	return (int64_t)st.st_mtim.tv_sec;
}

// Hits add half-lives by their logarithm, fade, and never pass eight half-lives.
static void test_hits_fade(void **state) {
	(void)state;
	const int64_t half_life_s = 12 * 3600, now = (int64_t)time(NULL);
	struct box b;
	make_chain(&b);
	open_settled(&b);
	assert_in_range(used_at(&b, 0) - now + 100, 0, 200); // one use, by writing
	assert_int_equal(box_restore(&b, 0), 1);
	assert_in_range(used_at(&b, 0) - now, half_life_s - 100, half_life_s + 100);
	for (int i = 0; i < 2; i++)
		assert_int_equal(box_restore(&b, 0), 1);
	assert_in_range(used_at(&b, 0) - now, 2 * half_life_s - 100, 2 * half_life_s + 100);
	for (int i = 0; i < 600; i++)
		assert_int_equal(box_restore(&b, 0), 1);
	assert_in_range(used_at(&b, 0) - now, 8 * half_life_s - 100, 8 * half_life_s + 100);
	set_used(&b, 0, 24 * 30); // a use of a month ago is worth nothing beside one of now
	assert_int_equal(box_restore(&b, 0), 1);
	assert_in_range(used_at(&b, 0) - now + 100, 0, 200);
	set_used(&b, 0, -24 * 365 * 20); // a time from the future is no more than eight half-lives
	assert_int_equal(box_restore(&b, 0), 1);
	assert_in_range(used_at(&b, 0) - now, 8 * half_life_s - 100, 8 * half_life_s + 100);
	box_finish(&b);
}

// What stays in the store's memory is never restored; that it is used reaches its file all the same, once an hour.
static void test_use_in_memory_counts(void **state) {
	(void)state;
	const int64_t now = (int64_t)time(NULL);
	struct box b;
	make_chain(&b);
	open_settled(&b);
	struct maskstore *ms = NULL;
	struct err_msg msg;
	assert_int_equal(maskstore_create(&TINY, 4 * b.block_bytes, &ms, &msg), ERR_OK);
	maskstore_set_archive(ms, b.archive, &b.options.root);
	block_id id;
	assert_int_equal(maskstore_restore(ms, BLOCK_NONE, b.blocks[0].ids, KV_BLOCK_TOKENS, &id, NULL), KV_BLOCK_TOKENS);
	set_used(&b, 0, 24 * 30);
	assert_true(maskstore_archive(ms, id, true));
	assert_true(archive_flush(b.archive, 20000));
	assert_true(used_at(&b, 0) < now - 3600); // it has just been restored: nothing to tell
	ms->blocks[id].told_us -= 2 * 3600 * INT64_C(1000000);
	assert_true(maskstore_archive(ms, id, false)); // a document that may not be written tells nothing
	assert_true(archive_flush(b.archive, 20000));
	assert_true(used_at(&b, 0) < now - 3600);
	assert_true(maskstore_archive(ms, id, true));
	assert_true(archive_flush(b.archive, 20000));
	assert_in_range(used_at(&b, 0) - now + 100, 0, 200);
	set_used(&b, 0, 24 * 30);
	assert_true(maskstore_archive(ms, id, true)); // once an hour
	for (int i = 0; i < 3000; i++)
		archive_touch(b.archive, &b.blocks[N_BLOCKS - 1].key); // not there; more than wait at once
	assert_true(archive_flush(b.archive, 20000));
	assert_true(used_at(&b, 0) < now - 3600);
	for (int i = 0; i < 3; i++) { // in the order of the calls, so that a chain is not without its beginning first
		set_used(&b, i, 24 * 30);
		archive_touch(b.archive, &b.blocks[i].key);
	}
	assert_true(archive_flush(b.archive, 20000));
	for (int i = 0; i < 2; i++) {
		struct stat st[2];
		for (int k = 0; k < 2; k++) {
			char path[512];
			box_file(&b, i + k, path);
			assert_int_equal(stat(path, &st[k]), 0);
		}
		assert_true(st[0].st_mtim.tv_sec < st[1].st_mtim.tv_sec || (st[0].st_mtim.tv_sec == st[1].st_mtim.tv_sec && st[0].st_mtim.tv_nsec <= st[1].st_mtim.tv_nsec));
	}
	maskstore_drop(ms, id);
	box_close(&b, 0);
	maskstore_destroy(ms);
	box_finish(&b);
}

// Of a chain written in one go the end goes first: without its beginning it would be worth nothing.
static void test_chain_loses_its_end(void **state) {
	(void)state;
	struct box b;
	make_chain(&b);
	char path[512];
	struct stat st;
	box_file(&b, 0, path);
	assert_int_equal(stat(path, &st), 0);
	b.options.disk_budget_bytes = (uint64_t)st.st_size * 4 + 300;
	open_settled(&b);
	const time_t cell = (time(NULL) - 7200) / 600 * 600; // all three in one cell of ten minutes
	for (int i = 0; i < 3; i++) {
		box_file(&b, i, path);
		const struct timespec t[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = cell + 1, .tv_nsec = 1000000 * (i + 1)}};
		assert_int_equal(utimensat(AT_FDCWD, path, t, 0), 0);
	}
	put_settled(&b, 3);
	put_settled(&b, 4);
	assert_true(on_disk(&b, 0) && on_disk(&b, 3) && on_disk(&b, 4));
	assert_false(on_disk(&b, 2));
	box_finish(&b);
}

// --- without a server

static void test_folder_functions(void **state) {
	(void)state;
	struct box b;
	make_chain(&b);
	struct archive_folder_report r;
	struct err_msg msg = {""};
	char path[512], missing[300];
	uint8_t data[4096];
	box_file(&b, 1, path);
	size_t n = read_file(path, data, sizeof data);
	data[n - 1] ^= 1;
	write_file(path, data, n);
	assert_int_equal(archive_folder_list(b.dir, &r, &msg), ERR_OK);
	assert_int_equal(r.extents, 3);
	r = verify(&b, false);
	assert_int_equal(r.extents, 2);
	assert_int_equal(r.corrupt, 1);
	assert_int_equal(access(path, F_OK), 0);
	r = verify(&b, true);
	assert_int_equal(r.corrupt, 1);
	assert_int_not_equal(access(path, F_OK), 0);
	assert_int_equal(verify(&b, true).corrupt, 0);
	assert_int_equal(archive_folder_clear(b.dir, &r, &msg), ERR_OK);
	assert_int_equal(r.extents, 2);
	assert_int_equal(archive_folder_list(b.dir, &r, &msg), ERR_OK);
	assert_int_equal(r.extents + r.roots, 0);
	snprintf(missing, sizeof missing, "%s/missing", b.dir);
	assert_int_equal(archive_folder_list(missing, &r, &msg), ERR_OK);
	assert_int_equal(r.extents, 0);
	write_file(missing, data, 1);
	assert_int_equal(archive_folder_list(missing, &r, &msg), ERR_IO);
	assert_non_null(strstr(msg.text, "missing"));
	box_finish(&b);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_files_are_private),     cmocka_unit_test(test_every_byte),       cmocka_unit_test(test_cut_at_every_length),
		cmocka_unit_test(test_hostile_files),         cmocka_unit_test(test_opening_cleans),   cmocka_unit_test(test_kill),
		cmocka_unit_test(test_full_disk),             cmocka_unit_test(test_read_only_folder), cmocka_unit_test(test_folder_that_cannot_be),
		cmocka_unit_test(test_folder_removed),        cmocka_unit_test(test_several_servers),  cmocka_unit_test(test_two_servers_share_the_budget), cmocka_unit_test(test_least_used_goes_first),
		cmocka_unit_test(test_hits_fade), cmocka_unit_test(test_use_in_memory_counts),            cmocka_unit_test(test_chain_loses_its_end), cmocka_unit_test(test_folder_functions),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
