// SPDX-License-Identifier: MIT
// From the settings of a person to the options of the engine, the same for the server and the command line.
#ifndef MASKSTORE_ENGINE_SETTINGS_H
#define MASKSTORE_ENGINE_SETTINGS_H

#include "complete/complete.h"
#include "config.h"

// Texts of `c` are borrowed. The deadline is by trigger where none was set; the chunk is the session's default.
struct engine_options engine_settings(const struct config *c);

#endif
