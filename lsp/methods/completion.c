// SPDX-License-Identifier: MIT
// textDocument/inlineCompletion and textDocument/completion: read the parameters and hand over to requests.c.
#include "../internal.h"

typedef enum err reader(json_t *params, struct completion_params *out, struct err_msg *msg);

static void submit(struct server *s, const struct rpc_message *m, reader *read, int64_t received_us) {
	struct completion_params p;
	struct err_msg msg;
	if (read(m->params, &p, &msg))
		requests_refuse(s, m->id, m->method, msg.text, received_us);
	else
		requests_submit(s, m, m->method, &p, received_us);
}

void method_inline_completion(struct server *s, const struct rpc_message *m, int64_t received_us) {
	submit(s, m, protocol_read_inline_completion, received_us);
}

void method_completion(struct server *s, const struct rpc_message *m, int64_t received_us) {
	submit(s, m, protocol_read_completion, received_us);
}
