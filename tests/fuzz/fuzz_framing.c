// SPDX-License-Identifier: MIT
// A stream of bytes as a client might send it: framing, pre-pass, JSON, classification. The first byte says in which pieces the rest
// arrives; the same stream in one piece must give the same events and messages. Aborts on a difference.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "lsp/framing.h"
#include "lsp/prepass.h"
#include "lsp/protocol.h"
#include "lsp/rpc.h"
#include "lsp/uri.h"

#define MAX_BODY_BYTES (1u << 16) // small, so that refused bodies are reached

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void check(bool ok, const char *what) {
	if (!ok) {
		fprintf(stderr, "broken: %s\n", what);
		abort();
	}
}

// What a method would read of it; the answers must be valid whatever came.
static void use(const struct rpc_message *m) {
	struct completion_params p;
	struct client_info c;
	struct text_change change;
	struct err_msg msg = {0};
	struct buf key = {0};
	if (!protocol_read_inline_completion(m->params, &p, &msg)) {
		uri_key(p.uri.text, p.uri.n_bytes, &key);
		check(!key.failed, "key");
	} else {
		check(msg.text[0], "an error without a text");
	}
	protocol_read_client(m->params, &c);
	if (protocol_read_change(json_array_get(json_object_get(m->params, "contentChanges"), 0), 0, &change, &msg) == ERR_OK)
		check(utf8_valid(change.text.text, change.text.n_bytes), "a text that is not UTF-8");
	buf_finish(&key);
}

static void take(const struct frame *f, struct buf *out) {
	char *body = malloc(f->n_bytes ? f->n_bytes : 1); // of exact size: the sanitizer sees a read beyond
	memcpy(body, f->body, f->n_bytes);
	struct rpc_message m;
	rpc_parse(body, f->n_bytes, &m);
	check(prepass_mend(body, f->n_bytes) == 0, "mending twice changes something");
	check((m.kind == RPC_INVALID) == (m.code != 0), "kind and code");
	check(m.method != NULL && (m.kind != RPC_REQUEST || m.id), "request without id");
	if (m.kind == RPC_REQUEST || m.kind == RPC_NOTIFICATION)
		use(&m);
	json_t *answer = m.kind == RPC_INVALID ? rpc_error(m.id, m.code, m.msg.text) : rpc_result(m.id, NULL);
	char *text = json_dumps(answer, JSON_COMPACT);
	check(text != NULL, "an answer that cannot be written");
	buf_appendf(out, "%d %d %s\n", m.kind, m.code, text);
	free(text);
	json_decref(answer);
	rpc_message_finish(&m);
	free(body);
}

static void run(const uint8_t *data, size_t n_bytes, size_t step, struct buf *out) {
	struct framing f;
	struct frame frame;
	enum framing_event e = FRAMING_MORE;
	framing_init(&f, MAX_BODY_BYTES);
	for (size_t at = 0; at < n_bytes && e != FRAMING_BROKEN; at += step) {
		check(framing_push(&f, (const char *)data + at, n_bytes - at < step ? n_bytes - at : step) == ERR_OK, "memory");
		while ((e = framing_next(&f, &frame)) == FRAMING_BODY || e == FRAMING_REFUSED) {
			if (e == FRAMING_BODY)
				take(&frame, out);
			else
				buf_append_str(out, "refused\n");
		}
	}
	buf_append_str(out, e == FRAMING_BROKEN ? "broken" : "more");
	framing_finish(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
	if (!n_bytes)
		return 0;
	struct buf pieces = {0}, whole = {0};
	run(data + 1, n_bytes - 1, (size_t)data[0] % 61 + 1, &pieces);
	run(data + 1, n_bytes - 1, n_bytes, &whole);
	check(pieces.len_bytes == whole.len_bytes && !memcmp(pieces.data, whole.data, whole.len_bytes), "pieces and whole differ");
	buf_finish(&pieces);
	buf_finish(&whole);
	return 0;
}
