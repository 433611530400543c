// SPDX-License-Identifier: MIT
// Private to archive*.c: what the front door (archive.c), the workers (archive_workers.c), the table of what is in RAM
// (archive_table.c) and the folder (archive_disk.c) share.
//
// An entry is a block that is queued, held in RAM, or being written. Callers add entries, only the writer changes or removes them; the
// readers use an entry's bytes outside the lock while they hold `readers`, and the writer frees bytes and gives payloads back only at 0.
//
// Threads: `lock` guards the table, the queue, jobs, stats and all fields of entries that are not said to be constant. No callback and no
// system call on files is made under it.
#ifndef MASKSTORE_ARCHIVE_INTERNAL_H
#define MASKSTORE_ARCHIVE_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "maskstore/archive.h"
#include "maskstore/extent.h"

#define ARCHIVE_QUEUE 1024         // payloads that may be borrowed at once: eight files of 4,000 tokens
#define ARCHIVE_MAX_PREFETCH 64    // files read ahead
#define ARCHIVE_READERS 2          // who waits for a restore uses no core meanwhile; more than two seldom wait for the CPU rather than for memory
#define ARCHIVE_JOB_BLOCKS 256     // of one job
#define ARCHIVE_TOUCHES 1024       // blocks whose use waits to be noted
#define ARCHIVE_PATH_BYTES 4096
#define ARCHIVE_HEX_BYTES 65       // a key in hexadecimal with its zero
#define ARCHIVE_TEMP_AGE_S 60      // a temporary file older than this belongs to nobody
#define ARCHIVE_MAX_FAILURES 3     // failed writes in a row after which writing is given up

struct entry {
	struct archive_block name;     // constant
	struct entry *in_bucket;       // next of its bucket
	struct entry *newer, *older;   // in the list of `on_disk`'s value, while bytes are held
	struct entry *queued;          // next in the queue
	bool in_queue;
	bool to_disk;                  // asked for and not yet tried
	bool on_disk;
	uint32_t readers;
	const void *payload;           // borrowed, until done
	archive_put_done *done;
	void *user;
	uint32_t block;
	uint8_t *bytes;                // owned: the extent
	size_t n_bytes;
};

struct entry_list {
	struct entry *newest, *oldest;
};

enum restored { RESTORED_NONE, RESTORED_RAM, RESTORED_DISK, RESTORED_MISS, RESTORED_CORRUPT };

// On the stack of who waits. Readers take one block after another; the job leaves the list with its last block or its first miss, and is finished when
// nobody works on it any more.
struct restore_job {
	const struct archive_block *blocks; // constant, as are payloads, n and cancel
	void *const *payloads;
	size_t n;                 // at most ARCHIVE_JOB_BLOCKS
	const _Atomic int *cancel;
	size_t n_taken, n_working;
	size_t n_restored;        // the first block that was not restored; n as long as there is none
	uint8_t results[ARCHIVE_JOB_BLOCKS]; // enum restored
	bool finished;
	struct restore_job *next;
};

struct reader {
	struct archive *archive;
	pthread_t thread;
	struct extent_codec *codec;
	uint8_t *buffer; // [extent_bytes + 1]
};

struct archive {
	struct archive_options options; // dir: own copy or null
	size_t block_bytes, extent_bytes; // of a block; most of an extent
	char *root_path;                // dir/<root key>; null: RAM only
	pthread_t writer;
	struct extent_codec *writer_codec;
	uint8_t *writer_buffer; // [extent_bytes + 1]
	struct reader readers[ARCHIVE_READERS];
	int n_readers;          // that run
	_Atomic int64_t close_at_us;    // queued writes after this are dropped
	_Atomic bool closing;           // set after close_at_us

	pthread_mutex_t lock;
	pthread_cond_t writer_wake, reader_wake, changed; // changed: job finished, writer idle, readers of an entry 0
	struct entry **buckets;
	size_t n_buckets;               // power of two
	struct entry_list ram_only, ram_copy; // by on_disk
	struct entry *queue_head, *queue_tail;
	size_t n_queued;
	struct kv_key touched[ARCHIVE_TOUCHES]; // ring: whose use the writer is to note, in order as for restores (archive_disk.c, Use)
	size_t first_touched, n_touched;
	bool writer_busy;               // also while the folder is scanned after opening
	struct restore_job *jobs, *last_job;
	struct archive_stats stats;

	// The writer's own.
	uint64_t written_since_scan;
	uint32_t temp_counter;
	int failures;
};

// --- archive_table.c: all under the lock

enum err table_init(struct archive *a) ERR_MUST_CHECK;
void table_finish(struct archive *a); // frees all entries
struct entry *table_find(const struct archive *a, const struct kv_key *key);
void table_add(struct archive *a, struct entry *e);
// Takes the entry out of table and list and frees it with its bytes.
void table_drop(struct archive *a, struct entry *e);
// Gives an entry its bytes (taken) and puts it in the list that fits.
void table_hold(struct archive *a, struct entry *e, uint8_t *bytes, size_t n_bytes);
// Moves an entry with bytes to the newest place of the list that fits `on_disk`.
void table_use(struct archive *a, struct entry *e, bool on_disk);
// Drops old entries until n_bytes more fit into the RAM budget: first those that are on disk too, then, if `all`, the others. False if they don't.
bool table_make_room(struct archive *a, size_t n_bytes, bool all);

void queue_push(struct archive *a, struct entry *e);
struct entry *queue_pop(struct archive *a);

// --- archive_workers.c

// Whether the archive closes and its time for flushing is over: the writer then stops what it does.
bool archive_stops(const struct archive *a);
void *archive_writer(void *arg);
void *archive_reader(void *arg); // a struct reader

// --- archive_disk.c

// The path of a block's file. False if it does not fit.
bool disk_path(const struct archive *a, const struct kv_key *key, char out[ARCHIVE_PATH_BYTES]);
void disk_hex(const struct kv_key *key, char out[ARCHIVE_HEX_BYTES]);
bool disk_exists(const struct archive *a, const struct kv_key *key);
// Asks the system to read a block's file ahead, if there is one.
void disk_read_ahead(const struct archive *a, const struct kv_key *key);
// Opens a block's file; -1 if there is none.
int disk_open(const struct archive *a, const struct kv_key *key);
// Reads a whole file of at most cap_bytes; 0 if it isn't a regular file, is larger, becomes shorter meanwhile, or can't be read now (*failed).
size_t disk_read(int fd, uint8_t *out, size_t cap_bytes, bool *failed);
// Remembers a use in the file's time.
void disk_touch_file(int fd);
void disk_touch(const struct archive *a, const struct kv_key *key);
// Removes a block's file that a check refused.
void disk_remove(struct archive *a, const struct kv_key *key);
// Writes an extent under its name, making room before. Writer only. False if it isn't there afterwards.
bool disk_write(struct archive *a, const struct kv_key *key, const uint8_t *data, size_t n_bytes);
// Makes the folder, removes what is of no use, counts the rest. Writer only, once.
void disk_prepare(struct archive *a);

// --- archive_folder.c

enum folder_kind { FOLDER_EXTENT, FOLDER_TEMP, FOLDER_ROOT };

struct folder_item {
	enum folder_kind kind;
	const char *root; // name of the root's folder
	const char *name; // of the file in it; of FOLDER_ROOT: of the folder in `dir`
	int dir_fd;       // of the folder that holds it
	uint64_t n_bytes;
	int64_t used_us;  // the file's time
};

// Calls `visit` for every extent and temporary file below `dir`, and for every root after its files, until it says false. Names that the
// archive does not make, and what is not a regular file, are passed over. ERR_IO; a missing folder is empty.
typedef bool folder_visit(void *user, const struct folder_item *item);
enum err folder_walk(const char *dir, folder_visit *visit, void *user, struct err_msg *msg) ERR_MUST_CHECK;

#endif
