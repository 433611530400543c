// SPDX-License-Identifier: MIT
// SHA-256 of a model file: seconds of work, so it is done in slices while nobody waits, and remembered by device, inode, size and time.
//
// The memory is one file of one line for each model below a folder (mode 0600, renamed into place). It is a hint: a line that does not fit the model
// file as it is now counts for nothing. Whoever can write there can also write the store that the hash names.
// Threads: a hasher belongs to one thread at a time; the rest is re-entrant.
#ifndef MASKSTORE_MODEL_FILE_HASH_H
#define MASKSTORE_MODEL_FILE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define FILE_HASH_BYTES 32

// The hash of `path` as remembered below `dir`. ERR_NOT_FOUND if it is not, or the file changed; ERR_IO if the model file cannot be read.
enum err file_hash_recall(const char *path, const char *dir, uint8_t out[FILE_HASH_BYTES]) ERR_MUST_CHECK;

struct file_hasher;
// Opens the file. ERR_IO, ERR_NOMEM.
enum err file_hasher_create(const char *path, const char *dir, struct file_hasher **out) ERR_MUST_CHECK;
void file_hasher_destroy(struct file_hasher *h); // accepts null
// Reads up to max_bytes more. *done: the whole file was read, out is filled and the hash was remembered (as far as the folder can be written).
// ERR_IO; ERR_STATE if the file changed meanwhile.
enum err file_hasher_step(struct file_hasher *h, size_t max_bytes, bool *done, uint8_t out[FILE_HASH_BYTES]) ERR_MUST_CHECK;

#endif
