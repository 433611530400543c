// SPDX-License-Identifier: MIT
// Document URIs: one lookup key for the spellings that editors use for the same document. Pure. The client's own string is what replies echo.
#ifndef MASKSTORE_LSP_URI_H
#define MASKSTORE_LSP_URI_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

// Appends the key of uri[n_bytes] to `key`: scheme and drive letter in lower case, percent-escapes decoded where that cannot change the
// meaning (all but %2F, %25 and %00, which keep upper-case hex digits). Any bytes are accepted; nothing is looked up on disk.
void uri_key(const char *uri, size_t n_bytes, struct buf *key);
// True if the URI's path ends in .py or .pyi.
bool uri_is_python(const char *uri, size_t n_bytes);

#endif
