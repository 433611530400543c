// SPDX-License-Identifier: MIT
// The base protocol's frames: header lines, an empty line, then Content-Length bytes. An incremental parser over bytes cut anywhere.
//
// Needs no event loop, so tests and the fuzz target drive it from a buffer. One owner, not thread-safe.
#ifndef MASKSTORE_LSP_FRAMING_H
#define MASKSTORE_LSP_FRAMING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define FRAMING_MAX_HEADER_BYTES (8u << 10)
#define FRAMING_MAX_BODY_BYTES (64u << 20)  // larger bodies are read over
#define FRAMING_MAX_SKIP_BYTES (1u << 30)   // a length above this is taken for a broken header

enum framing_event {
	FRAMING_MORE,    // no whole frame is there yet
	FRAMING_BODY,    // `body` is a message
	FRAMING_REFUSED, // one frame was read over (too large, or a foreign charset); `note` says why; the stream goes on
	FRAMING_BROKEN,  // the header cannot be understood, so where the next frame starts is unknown; `note` says why. Stays so for ever
};

struct frame {
	char *body;       // borrowed until the next framing_push or framing_next; may be changed in place
	size_t n_bytes;
	struct err_msg note;
};

struct framing {
	struct buf in;
	size_t begin;          // first byte of `in` not yet consumed
	size_t max_body_bytes;
	size_t body_bytes;     // of the frame whose header was read
	size_t skip_bytes;     // bytes of a refused body still to be thrown away
	bool in_body;
	bool foreign_charset;
	bool broken;
	struct err_msg note;   // why it is broken
};

// max_body_bytes: FRAMING_MAX_BODY_BYTES outside tests.
void framing_init(struct framing *f, size_t max_body_bytes);
void framing_finish(struct framing *f);
// Appends received bytes (copied; those of a body that is being read over are dropped at once). ERR_NOMEM.
enum err framing_push(struct framing *f, const char *data, size_t n_bytes) ERR_MUST_CHECK;
// The next event in what was pushed. Call until FRAMING_MORE or FRAMING_BROKEN.
enum framing_event framing_next(struct framing *f, struct frame *out);
// Appends a frame with this body to `out`.
void framing_wrap(struct buf *out, const char *body, size_t n_bytes);

#endif
