// SPDX-License-Identifier: MIT
// The cold mask archive: full blocks at rest as zlib extents, in RAM and on disk, packed and written by one worker thread at low priority,
// restored by others that never wait for a write.
//
// An extent is one block: header (magic, format version, key, parent key, 32 token ids, sizes), payload split into byte planes
// (mantissa planes raw, the top plane deflated with Z_HUFFMAN_ONLY; docs in extent.h), CRC-32 over all of it. On disk an extent is
// one file, named by its key below a folder named by the root key; it is written to a temporary name and renamed, so a file that has
// its name is whole, or its checksum says that it isn't. Nothing read from disk is trusted: magic, version, sizes, key, parent, ids
// and checksum must fit, else it is a miss and the file is removed.
//
// The folder is shared by servers: no locks, no index file. Use is remembered in the files' times, so the least recently used goes
// first, with a bonus for hits that halves with time (archive_disk.c). Files are 0600, folders 0700.
//
// Threads: all functions may be called from any thread; callbacks run on the writing worker. Zlib runs on the workers only. Nobody may be
// inside a function of an archive that is being closed.
#ifndef MASKSTORE_ARCHIVE_H
#define MASKSTORE_ARCHIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "maskstore/key.h"
#include "maskstore/maskstore.h"

struct archive;

struct archive_options {
	struct maskstore_geometry geometry;
	struct kv_key root;         // blocks of other roots are another folder's
	const char *dir;            // copied; folder of all roots; null: RAM only
	uint64_t disk_budget_bytes; // of the whole of `dir`, all roots together
	uint64_t ram_budget_bytes;  // compressed extents kept in RAM (blocks that may not go to disk, and the most recent ones)
	int prefetch_blocks;        // MS_PREFETCH: files that are read ahead of the block that is restored, 1..64 (clamped)
};

// What names a block and lets a hit be checked.
struct archive_block {
	struct kv_key key, parent;
	int32_t ids[KV_BLOCK_TOKENS];
};

struct archive_stats { // a consistent snapshot
	uint64_t ram_bytes, ram_extents;
	uint64_t disk_bytes, disk_extents;   // as far as known: the folder is scanned in the background after opening
	uint64_t raw_bytes, packed_bytes;    // of all extents written since opening: their quotient is the compression ratio
	uint64_t puts, hits_ram, hits_disk, misses;
	uint64_t waits, wait_us;             // restores that somebody had to wait for, and how long altogether
	uint64_t corrupt;                    // extents refused by a check and removed
	uint64_t evictions;                  // extents removed for the budget
	uint64_t write_errors;               // disk full, read-only, …: then the archive goes on in RAM
	bool disk_off;                       // writing was given up until the next opening
};

// Starts the workers; the writing one makes the folder, removes what is of no use (temporary files older than a minute, unknown versions) and
// counts what is there. A folder that cannot be made or written is no error: the archive then works in RAM and says so in stats.
// ERR_NOMEM, ERR_ARG (geometry).
enum err archive_open(const struct archive_options *o, struct archive **out, struct err_msg *msg) ERR_MUST_CHECK;
// Finishes queued writes for at most `flush_ms`, drops the rest, joins the workers. Accepts null.
void archive_close(struct archive *a, int flush_ms);

// Whether a block is there, as far as can be told without reading it (RAM table, else the file's existence). May be wrong in both
// directions for an instant; archive_restore tells.
bool archive_has(struct archive *a, const struct kv_key *key);

// Called on the writing worker, with no lock held, when the payload is no longer needed (packed, refused or dropped).
typedef void archive_put_done(void *user, uint32_t block);
// Queues a full block's payload [block_bytes] to be packed; borrowed until `done` is called with `block`. False, without calling `done`,
// if it is there already, the queue is full or memory is out. `to_disk`: else it is kept in RAM only. The key must be kv_key_next of parent
// and ids. Until it is packed a queued block is restored from the payload itself. A block that is there in RAM only and may go to disk
// by this call is written from RAM.
bool archive_put(struct archive *a, const struct archive_block *b, const void *payload, bool to_disk, archive_put_done *done,
                 void *user, uint32_t block);

// Says that a block which is there is used without being restored (it stays in the store's memory), so that its file does not look unused. Returns at
// once; the writer notes it in the file's time when nothing is to be written. Forgotten where too many wait.
void archive_touch(struct archive *a, const struct kv_key *key);

// One restore in order: asks for a chain of blocks, then waits for them one after another.
// `payloads[i]` [block_bytes, aligned to 4] receives block i. Several are restored at a time, and files are read ahead up to the prefetch depth. Stops at the first block that is
// missing, corrupt, or does not name the parent and ids that are asked for, and returns how many were restored (0..n). Stops early
// when *cancel becomes non-zero (may be null). Payloads past the count are unspecified but written by nobody after the return.
size_t archive_restore(struct archive *a, const struct archive_block *blocks, void *const *payloads, size_t n, const _Atomic int *cancel);

void archive_stats(struct archive *a, struct archive_stats *out);
// Waits until all queued writes and touches are done (tests, exit). False after timeout_ms.
bool archive_flush(struct archive *a, int timeout_ms);

// --- the folder without a server (maskstore store verify|clear, inspect store)

struct archive_folder_report {
	uint64_t roots, extents, bytes;
	uint64_t raw_bytes; // before packing; 0 where contents are not read
	uint64_t corrupt, unknown_version, temporary;
	uint64_t unreadable; // files that the system did not let read: left alone
};
// Reads every extent of the folder and checks it; `remove_bad` removes what is corrupt, unknown, or temporary and older than a minute (a
// younger one may be in use). `extents`, `bytes` and `raw_bytes` count what is good. ERR_IO if the folder can't be read, ERR_NOMEM; a missing folder is empty. Streams: memory for one extent.
enum err archive_folder_verify(const char *dir, bool remove_bad, struct archive_folder_report *out, struct err_msg *msg) ERR_MUST_CHECK;
// Counts without reading contents.
enum err archive_folder_list(const char *dir, struct archive_folder_report *out, struct err_msg *msg) ERR_MUST_CHECK;
// Removes every extent and temporary file below the folder, and folders of roots that are empty then; nothing else. The report counts what
// was removed. ERR_IO if something could not be removed (the report is filled).
enum err archive_folder_clear(const char *dir, struct archive_folder_report *out, struct err_msg *msg) ERR_MUST_CHECK;

#endif
