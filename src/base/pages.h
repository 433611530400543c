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

// True if this system gives large pages to those who ask.
bool pages_large_on(void);
// Puts a copy of n_bytes at `at`, which is mapped for reading only, in its place, on large pages where the system has them free. Both are multiples of
// PAGES_LARGE_BYTES. Other threads may read there meanwhile. False if the system refuses; then nothing has changed.
bool pages_replace(void *at, size_t n_bytes);

#endif
