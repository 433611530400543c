// SPDX-License-Identifier: MIT
// Formatting of error messages. Stateless.
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum err err_set(struct err_msg *msg, enum err code, const char *format, ...) {
	if (msg) {
		va_list args;
		va_start(args, format);
		vsnprintf(msg->text, sizeof msg->text, format, args);
		va_end(args);
	}
	return code;
}

enum err err_prefix(struct err_msg *msg, enum err code, const char *format, ...) {
	if (!msg)
		return code;
	struct err_msg old = *msg;
	va_list args;
	va_start(args, format);
	int n = vsnprintf(msg->text, sizeof msg->text, format, args);
	va_end(args);
	if (n >= 0 && (size_t)n < sizeof msg->text)
		snprintf(msg->text + n, sizeof msg->text - (size_t)n, ": %.*s", (int)(sizeof msg->text - (size_t)n - 3), old.text);
	return code;
}

const char *err_name(enum err code) {
	switch (code) {
	case ERR_OK: return "ok";
	case ERR_IO: return "io";
	case ERR_FORMAT: return "format";
	case ERR_UNSUPPORTED: return "unsupported";
	case ERR_NOMEM: return "nomem";
	case ERR_LIMIT: return "limit";
	case ERR_ARG: return "argument";
	case ERR_CANCELLED: return "cancelled";
	case ERR_NOT_FOUND: return "not_found";
	case ERR_STATE: return "state";
	}
	return "unknown";
}
