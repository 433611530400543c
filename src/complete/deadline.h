// SPDX-License-Identifier: MIT
// A watchdog thread that sets a flag when a time has come, so that kernels need to read only one flag.
#ifndef MASKSTORE_COMPLETE_DEADLINE_H
#define MASKSTORE_COMPLETE_DEADLINE_H

#include <stdint.h>

#include "base/err.h"

struct deadline;

// Starts the thread, parked. ERR_NOMEM.
enum err deadline_create(struct deadline **out) ERR_MUST_CHECK;
// Joins the thread. Accepts null.
void deadline_destroy(struct deadline *d);
// At clock_us() ≥ when_us, changes *flag from 0 to `value` (another value is left alone). Replaces an earlier arming. `flag` must live
// until deadline_disarm. One arming thread at a time.
void deadline_arm(struct deadline *d, int64_t when_us, _Atomic int *flag, int value);
// After this returns the flag is not touched any more.
void deadline_disarm(struct deadline *d);

#endif
