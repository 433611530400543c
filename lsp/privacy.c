// SPDX-License-Identifier: MIT
// The name decides first; then git is asked, which knows all its rules. Git runs with nothing but an exit status: 0 ignored, 1 not ignored, 128 no repository or
// an error. A hostile repository's settings must not run anything, so the one that could for this command (a file watcher) is switched off.
//
// Invariants: a check is on the list from its creation until privacy_finish or its handle is closed; `answer` is null once it was called.
#include "privacy.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/buf.h"

struct privacy_check {
	uv_process_t process; // first: the handle is the check
	struct privacy *owner;
	struct privacy_check *next;
	uint64_t document_id;
	privacy_answer *answer;
	void *user;
	char path[];
};

// --- names

static bool ends_with(const char *text, const char *end) {
	size_t n = strlen(text), m = strlen(end);
	return n >= m && !strcasecmp(text + n - m, end);
}

static bool is_secret_part(const char *name, size_t n_bytes) {
	static const char *const folders[] = {".ssh", ".gnupg", ".aws", ".kube", ".azure"};
	for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
		if (strlen(folders[i]) == n_bytes && !strncasecmp(name, folders[i], n_bytes))
			return true;
	return false;
}

bool privacy_is_secret_name(const char *path) {
	static const char *const begins[] = {".env", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "secret", "credential", "password", "passwd",
	                                     ".netrc", "_netrc", ".pgpass", ".pypirc", ".npmrc", ".htpasswd", ".git-credentials"};
	static const char *const ends[] = {".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".asc", ".gpg", ".env"};
	const char *name = path;
	for (const char *slash; (slash = strchr(name, '/')); name = slash + 1)
		if (is_secret_part(name, (size_t)(slash - name)))
			return true;
	for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++)
		if (!strncasecmp(name, begins[i], strlen(begins[i])))
			return true;
	for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
		if (ends_with(name, ends[i]))
			return true;
	return false;
}

// --- git

// Whether a folder on the way to `path` holds ".git".
static bool is_in_repository(const char *path) {
	struct buf b = {0};
	bool found = false;
	for (size_t n = strlen(path); n && !found; n--) {
		if (path[n - 1] != '/')
			continue;
		struct stat st;
		buf_clear(&b);
		buf_append(&b, path, n);
		buf_append(&b, ".git", sizeof ".git");
		found = !b.failed && !stat(b.data, &st);
	}
	buf_finish(&b);
	return found;
}

static void give_answer(struct privacy_check *c, bool may_write) {
	privacy_answer *answer = c->answer;
	c->answer = NULL;
	if (answer)
		answer(c->user, c->document_id, may_write);
}

static void closed(uv_handle_t *handle) {
	struct privacy_check *c = (struct privacy_check *)handle, **link = &c->owner->checks;
	while (*link && *link != c)
		link = &(*link)->next;
	if (*link)
		*link = c->next;
	free(c);
}

static void exited(uv_process_t *process, int64_t status, int signal) {
	struct privacy_check *c = (struct privacy_check *)process;
	if (status == 0 && !signal)
		give_answer(c, false);
	else if (status == 1 && !signal)
		give_answer(c, true);
	else
		give_answer(c, !is_in_repository(c->path));
	if (!uv_is_closing((uv_handle_t *)process))
		uv_close((uv_handle_t *)process, closed);
}

static int spawn_git(struct privacy_check *c) {
	char *folder = strdup(c->path), *slash = folder ? strrchr(folder, '/') : NULL;
	if (!slash) {
		free(folder);
		return UV_ENOMEM;
	}
	slash[slash == folder] = 0;
	const char *args[] = {"git", "-c", "core.fsmonitor=false", "check-ignore", "-q", "--", c->path, NULL};
	uv_stdio_container_t none[3] = {{.flags = UV_IGNORE}, {.flags = UV_IGNORE}, {.flags = UV_IGNORE}};
	uv_process_options_t o = {.exit_cb = exited, .file = "git", .args = (char **)args, .cwd = folder, .stdio_count = 3, .stdio = none};
	int e = uv_spawn(c->owner->loop, &c->process, &o);
	free(folder);
	return e;
}

void privacy_ask(struct privacy *p, const char *uri_key, size_t n_bytes, uint64_t document_id, privacy_answer *answer, void *user) {
	static const char scheme[] = "file://";
	size_t n_scheme = sizeof scheme - 1;
	if (n_bytes <= n_scheme || memcmp(uri_key, scheme, n_scheme) || uri_key[n_scheme] != '/' || memchr(uri_key, 0, n_bytes)) {
		answer(user, document_id, false);
		return;
	}
	struct privacy_check *c = calloc(1, sizeof *c + n_bytes - n_scheme + 1);
	if (!c)
		return;
	*c = (struct privacy_check){.owner = p, .next = p->checks, .document_id = document_id, .answer = answer, .user = user};
	memcpy(c->path, uri_key + n_scheme, n_bytes - n_scheme);
	if (privacy_is_secret_name(c->path)) {
		give_answer(c, false);
		free(c);
		return;
	}
	p->checks = c;
	if (spawn_git(c)) {
		give_answer(c, !is_in_repository(c->path));
		uv_close((uv_handle_t *)&c->process, closed); // a handle even where the spawn failed
	}
}

void privacy_init(struct privacy *p, uv_loop_t *loop) {
	*p = (struct privacy){.loop = loop};
}

void privacy_stop(struct privacy *p) {
	for (struct privacy_check *c = p->checks; c; c = c->next) {
		c->answer = NULL;
		if (uv_is_closing((uv_handle_t *)&c->process))
			continue;
		uv_process_kill(&c->process, SIGKILL);
		uv_close((uv_handle_t *)&c->process, closed);
	}
}

void privacy_finish(struct privacy *p) {
	while (p->checks) {
		struct privacy_check *next = p->checks->next;
		free(p->checks);
		p->checks = next;
	}
}
