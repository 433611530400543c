// SPDX-License-Identifier: MIT
#include "engine_settings.h"

#include <string.h>

#include "base/cpu.h"
#include "defaults.h"

struct engine_options engine_settings(const struct config *c) {
	int max = c->max_new_tokens;
	return (struct engine_options){
		.model_path = c->model,
		.n_threads = c->threads,
		.max_context_tokens = c->max_context,
		.deadline_ms = c->deadline_ms == CONFIG_DEADLINE_UNSET ? DEADLINE_BY_TRIGGER : c->deadline_ms,
		.max_new_tokens_line = max ? max : LIMIT_NEW_TOKENS_LINE,
		.max_new_tokens_block = max ? max : LIMIT_NEW_TOKENS_BLOCK,
		.activation = ACTIVATION_Q8,
		.kv_type = strcmp(c->kv_type, "bf16") ? KV_F16 : KV_BF16,
		.kv_budget_bytes = (size_t)c->kv_budget_mb << 20,
		.cache_dir = c->cache_dir,
		.archive_budget_bytes = (uint64_t)c->store_budget_mb << 20,
		.prefetch_blocks = c->prefetch,
		.speculate = strcmp(c->speculate, "on") ? SPECULATE_OFF : SPECULATE_ON,
		.cpu_flags = cpu_flags_up_to(c->isa),
		.strategy = c->strategy,
	};
}
