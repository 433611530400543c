// SPDX-License-Identifier: MIT
// A loaded model: immutable, shared by sessions, resident once (weights are read from the mapped file, or from copies that have taken its place).
#ifndef MASKSTORE_MODEL_MODEL_H
#define MASKSTORE_MODEL_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "kernels/kernels.h"
#include "model/tokenizer.h"

struct model;

// Hyper-parameters, in the names of GGUF and the papers.
struct model_info {
	const char *arch;   // "qwen2" or "llama"
	const char *name;   // general.name, or the file name
	const char *path;
	int n_layer, n_embd, n_head, n_head_kv, head_dim, n_ff, n_vocab;
	int n_ctx_train;
	float rope_theta, rms_eps;
	bool rope_neox;     // qwen2: pairs (i, i + d/2); llama files: pairs (2i, 2i + 1)
	bool tied_head;     // output head = token embedding
	bool qkv_bias;
	bool tiers_allowed; // head_dim is a multiple of MASKSTORE_GRANULARITY; else exact attention only (one notice by the caller)
	uint64_t weight_bytes;         // all tensors
	uint64_t weight_bytes_per_token; // read per decoded token (embedding table left out unless tied)
};

// Maps and checks the file, builds the tokenizer and RoPE table. Errors as gguf_open, plus ERR_UNSUPPORTED for another
// architecture, ERR_FORMAT for missing tensors or shapes that do not fit; `msg` names file, field, reason and fix.
// `k` is the kernel set all sessions of the model use.
enum err model_open(const char *path, const struct kernels *k, struct model **out, struct err_msg *msg) ERR_MUST_CHECK;
// The same for who is going to evaluate: from the beginning of the call until model_close a thread beside makes the weights resident.
enum err model_open_prefetching(const char *path, const struct kernels *k, struct model **out, struct err_msg *msg) ERR_MUST_CHECK;
// All sessions must be destroyed before. Accepts null.
void model_close(struct model *m);
const struct model_info *model_info(const struct model *m);
const struct tokenizer *model_tokenizer(const struct model *m);
const struct kernels *model_kernels(const struct model *m);

#endif
