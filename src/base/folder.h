// SPDX-License-Identifier: MIT
// Folders on disk.
#ifndef MASKSTORE_BASE_FOLDER_H
#define MASKSTORE_BASE_FOLDER_H

#include <stdbool.h>

#define FOLDER_PATH_BYTES 4096

// Makes a folder and what is missing above it, for this user alone (0700). True if it is there in the end. Any thread.
bool folder_make(const char *path);

#endif
