// SPDX-License-Identifier: MIT
// Limits and defaults of the whole program that are not a room's own business.
#ifndef MASKSTORE_DEFAULTS_H
#define MASKSTORE_DEFAULTS_H

#define LIMIT_DEFAULT_CONTEXT_TOKENS 8192 // spec §2: max_context
#define LIMIT_MIN_CONTEXT_TOKENS 256      // below this no useful prompt fits beside an answer
#define LIMIT_NEW_TOKENS_LINE 64          // Tabby's and cursortab's cap for one line (completion-anchors.md b)
#define LIMIT_NEW_TOKENS_BLOCK 192        // Copilot allows 200 for several lines
#define LIMIT_DEADLINE_AUTOMATIC_MS 2500  // what somebody who types still waits for
#define LIMIT_DEADLINE_INVOKED_MS 10000
#define LIMIT_STORE_BUDGET_MB 2048        // of the archive on disk
#define LIMIT_PREFETCH_BLOCKS 2           // spec §2: MS_PREFETCH
#define LIMIT_QUEUE 256                   // requests waiting for the decode thread

#endif
