// SPDX-License-Identifier: MIT
// Weights of a decoder, bound to the tensors of an open GGUF file: private to the model room.
//
// Matrices point into the mapped file. Vectors (norms, biases, frequencies: well under 1 MB) are converted to f32 and owned.
#ifndef MASKSTORE_MODEL_WEIGHTS_H
#define MASKSTORE_MODEL_WEIGHTS_H

#include "base/arena.h"
#include "base/err.h"
#include "kernels/kernels.h"
#include "model/gguf.h"
#include "model/model.h"

struct layer_weights {
	const float *attn_norm;      // [n_embd]
	struct weight q, k, v;       // [n_head·head_dim][n_embd], k and v [n_head_kv·head_dim][n_embd]
	const float *q_bias, *k_bias, *v_bias; // [rows], all null without bias
	struct weight o;             // [n_embd][n_head·head_dim]
	const float *ffn_norm;       // [n_embd]
	struct weight gate, up;      // [n_ff][n_embd]
	struct weight down;          // [n_embd][n_ff]
};

struct weights {
	struct weight token_embd;    // [n_vocab][n_embd]
	struct weight head;          // [n_vocab][n_embd]; token_embd if tied
	const float *output_norm;    // [n_embd]
	const float *inv_freq;       // [head_dim/2] angle of RoPE per position
	struct layer_weights *layers; // [n_layer]
	struct arena arena;          // owns the vectors and `layers`
};

// Checks that the file holds exactly the tensors that `info` asks for, with the shapes it asks for, and binds them. Fills
// info's n_vocab, tied_head, qkv_bias, weight_bytes and weight_bytes_per_token; reads the rest of it. The file must stay open as long as `out` is
// used. ERR_FORMAT (a tensor is missing or has another shape), ERR_UNSUPPORTED (a tensor that this decoder would ignore), ERR_NOMEM.
enum err weights_bind(const struct gguf *g, const struct kernels *k, struct model_info *info, struct weights *out,
                      struct err_msg *msg) ERR_MUST_CHECK;
// Frees what weights_bind allocated. Accepts a zeroed struct.
void weights_finish(struct weights *w);

// The weights of a model, for the decoder.
const struct weights *model_weights(const struct model *m);

#endif
