// SPDX-License-Identifier: MIT
// Monotonic time.
#ifndef MASKSTORE_BASE_CLOCK_H
#define MASKSTORE_BASE_CLOCK_H

#include <stdint.h>

// Microseconds on CLOCK_MONOTONIC. Any thread.
int64_t clock_us(void);

#endif
