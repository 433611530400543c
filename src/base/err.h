// SPDX-License-Identifier: MIT
// Errors: one enum for the whole program and a message for the person who will read it.
//
// A fallible function returns `enum err` (ERR_OK or negative) and, where it takes a `struct err_msg *`, fills it
// with one line that names the thing, the reason and, where there is one, the fix. Out-parameters are untouched on
// failure. The message pointer may always be null. Leaf code neither logs nor exits.
#ifndef MASKSTORE_BASE_ERR_H
#define MASKSTORE_BASE_ERR_H

enum err {
	ERR_OK = 0,
	ERR_IO = -1,          // the operating system refused (open, read, write, map, spawn)
	ERR_FORMAT = -2,      // bytes from outside are not what they claim to be
	ERR_UNSUPPORTED = -3, // valid, but not something this build can do
	ERR_NOMEM = -4,       // memory or a memory budget is exhausted
	ERR_LIMIT = -5,       // a stated limit is exceeded
	ERR_ARG = -6,         // a wrong argument, flag or setting from the caller or the person
	ERR_CANCELLED = -7,   // the cancel flag was seen
	ERR_NOT_FOUND = -8,   // the named thing does not exist
	ERR_STATE = -9,       // not possible in this state (not loaded, already closed)
};

// Marks functions whose result must be looked at.
#define ERR_MUST_CHECK __attribute__((warn_unused_result))

// One line for a person, always terminated, cut at the end if too long.
struct err_msg {
	char text[512];
};

// Writes the formatted text to `msg` (may be null) and returns `code`, so that callers can `return err_set(…)`.
enum err err_set(struct err_msg *msg, enum err code, const char *format, ...) __attribute__((format(printf, 3, 4)));

// Puts formatted text and ": " before what `msg` already says. Returns `code`.
enum err err_prefix(struct err_msg *msg, enum err code, const char *format, ...) __attribute__((format(printf, 3, 4)));

// Short lower-case name of a code ("io", "format", …), static storage.
const char *err_name(enum err code);

#endif
