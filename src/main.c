// SPDX-License-Identifier: MIT
// maskstore: arguments to a subcommand.
#include <stdio.h>

#include "cli/cli.h"
#include "lsp/server.h"

static int serve(const struct cli *c) {
	struct server_options o = {.config = c->config, .client_process_id = c->client_process_id};
	return server_run(&o);
}

int main(int argc, char **argv) {
	struct cli c;
	struct err_msg msg = {0};
	enum err e = cli_parse(argc, argv, &c, &msg);
	if (e != ERR_OK) {
		cli_fail(e, &msg);
		return CLI_EXIT_BAD_INPUT;
	}
	switch (c.command) {
	case CLI_SERVE: return serve(&c);
	case CLI_COMPLETE: return cli_complete(&c);
	case CLI_INSPECT: return cli_inspect(&c);
	case CLI_BENCH: return cli_bench(&c);
	case CLI_STORE: return cli_store(&c);
	case CLI_HELP: cli_help(); return 0;
	case CLI_VERSION: printf("maskstore %s\n", MASKSTORE_VERSION); return 0;
	}
	return CLI_EXIT_BAD_INPUT;
}
