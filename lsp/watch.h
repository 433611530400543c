// SPDX-License-Identifier: MIT
// Is the client's process still there? Any thread; no state.
#ifndef MASKSTORE_LSP_WATCH_H
#define MASKSTORE_LSP_WATCH_H

#include <stdbool.h>
#include <stdint.h>

// False only if no such process exists, or only its remains (a zombie). A process that we may not signal is alive. pid ≤ 0: true, as there
// is nothing to watch (kill would take such numbers for process groups).
bool watch_process_alive(int64_t pid);

#endif
