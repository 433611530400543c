// SPDX-License-Identifier: MIT
// initialize, initialized, shutdown, exit. initialize is answered at once; the model loads afterwards, on the engine's thread.
#include <string.h>

#include "../internal.h"
#include "../watch.h"

#define CONFIGURATION_WAIT_MS 1000 // a client that does not answer workspace/configuration holds the model back no longer

static void watched(uv_timer_t *timer) {
	struct server *s = timer->data;
	if (!watch_process_alive(s->client.process_id) || !watch_process_alive(s->flag_process_id))
		server_stop(s, s->life == LIFE_SHUT_DOWN ? 0 : 1);
}

// A pid that is not there at the start belongs to another machine or container: watching it would end us at once.
static void start_watch(struct server *s) {
	if (!watch_process_alive(s->client.process_id))
		s->client.process_id = 0;
	if (!watch_process_alive(s->flag_process_id))
		s->flag_process_id = 0;
	if (s->client.process_id > 0 || s->flag_process_id > 0)
		uv_timer_start(&s->watch_timer, watched, SERVER_WATCH_MS, SERVER_WATCH_MS);
}

void method_initialize(struct server *s, const struct rpc_message *m, int64_t received_us) {
	(void)received_us;
	if (s->life != LIFE_NEW) {
		server_send_error(s, m->id, RPC_INVALID_REQUEST, "initialize was received before");
		return;
	}
	protocol_read_client(m->params, &s->client);
	s->life = LIFE_INITIALIZED;
	server_send_result(s, m->id, protocol_initialize_result(&s->client));
	configuration_apply(s, json_object_get(m->params, "initializationOptions"));
	start_watch(s);
}

static void waited_for_configuration(uv_timer_t *timer) {
	model_start(timer->data);
}

void method_initialized(struct server *s, const struct rpc_message *m, int64_t received_us) {
	(void)m;
	(void)received_us;
	if (s->client.configuration && !s->engine_tried) {
		configuration_ask(s);
		uv_timer_start(&s->config_timer, waited_for_configuration, CONFIGURATION_WAIT_MS, 0);
	} else {
		model_start(s);
	}
}

void method_shutdown(struct server *s, const struct rpc_message *m, int64_t received_us) {
	(void)received_us;
	s->life = LIFE_SHUT_DOWN;
	uv_timer_stop(&s->config_timer);
	requests_cancel_all(s);
	server_send_result(s, m->id, NULL);
}

void method_exit(struct server *s, const struct rpc_message *m, int64_t received_us) {
	(void)m;
	(void)received_us;
	server_stop(s, s->life == LIFE_SHUT_DOWN ? 0 : 1);
}

void method_cancel(struct server *s, const struct rpc_message *m, int64_t received_us) {
	(void)received_us;
	requests_cancel(s, json_object_get(m->params, "id"));
}
