// SPDX-License-Identifier: MIT
// Large zeroed memory straight from the system, on large pages where it offers them: a fault for each 4 KB costs more than zeroing them.
#ifndef MASKSTORE_BASE_PAGES_H
#define MASKSTORE_BASE_PAGES_H

#include <stdbool.h>
#include <stddef.h>

// What a large page holds on x86-64 and on ARM with pages of 4 KB. A range below it is not worth a mapping of its own.
#define PAGES_LARGE_BYTES ((size_t)2 << 20)

// n_bytes ≥ 1 of addresses that read as zeros and become resident when they are first written, a large page at a time where the system can; aligned
// to PAGES_LARGE_BYTES. Null where addresses are out. Free with pages_free and the same size. Any thread.
void *pages_alloc(size_t n_bytes);
// Accepts null.
void pages_free(void *p, size_t n_bytes);

// The first n_bytes of a file, read-only, aligned to PAGES_LARGE_BYTES, so that the system can map large pages of its cache as such; it is asked to read the file into
// large pages (Linux does where the file is not in its cache yet; else they stay as small as they were read). Null with errno set if it cannot be mapped. The file may be
// closed. Free with pages_unmap_file and the same size. Any thread.
const void *pages_map_file(int fd, size_t n_bytes);
// Accepts null.
void pages_unmap_file(const void *p, size_t n_bytes);

#endif
