// SPDX-License-Identifier: MIT
// Makes a mapped file's weights resident on a thread beside, so that neither loading nor the first pass over them waits for faults. Private to the model room.
#ifndef MASKSTORE_MODEL_PREFETCH_H
#define MASKSTORE_MODEL_PREFETCH_H

#include <stddef.h>

struct prefetch;

// Starts on data[n_bytes], which must stay mapped until prefetch_stop. Null if there is no thread or memory for it: then pages come as they are touched.
struct prefetch *prefetch_start(const void *data, size_t n_bytes);
// Ends it, finished or not, within a few milliseconds where the file is in the page cache. Accepts null.
void prefetch_stop(struct prefetch *p);

#endif
