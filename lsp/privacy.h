// SPDX-License-Identifier: MIT
// Whether keys and values of a document may be written to disk (they tell what was in it): not of files that git ignores, not of names that look like
// secrets, not of what is no file. Loop thread only.
#ifndef MASKSTORE_LSP_PRIVACY_H
#define MASKSTORE_LSP_PRIVACY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct privacy_check; // a question to git that is on its way

struct privacy {
	uv_loop_t *loop;               // borrowed
	struct privacy_check *checks;  // running
};

// Called on the loop, at most once for a question: later, or before privacy_ask returns. Not called where git has not answered by privacy_finish.
typedef void privacy_answer(void *user, uint64_t document_id, bool may_write);

// True if a path's name, or a folder's on its way, looks like a secret: ".env", keys, certificates, "secrets.py", ".ssh/". Pure.
bool privacy_is_secret_name(const char *path);

void privacy_init(struct privacy *p, uv_loop_t *loop);
// Finds out for the document of a URI (key of uri_key): by its name at once; else by `git check-ignore`. A file of no repository may be written; where there is a
// repository and git does not answer, it may not.
void privacy_ask(struct privacy *p, const char *uri_key, size_t n_bytes, uint64_t document_id, privacy_answer *answer, void *user);
// Ends what is running; call before the loop's handles are closed.
void privacy_stop(struct privacy *p);
// Frees; call after the loop has closed all handles.
void privacy_finish(struct privacy *p);

#endif
