// SPDX-License-Identifier: MIT
// Names of blocks: a chain of SHA-256, so that a block's name stands for every token before it and for all that decides its bits.
//
//   root  = SHA-256(format version, model file hash, geometry, KV type, RoPE, arithmetic id, attention class)
//   block = SHA-256(key of the parent block or root, its 32 token ids as little-endian i32)
//
// Two blocks with the same key hold the same bits. Pure functions; any thread.
#ifndef MASKSTORE_KEY_H
#define MASKSTORE_KEY_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

struct maskstore_geometry;

struct kv_key {
	uint8_t bytes[32];
};

// How keys and values were computed. Only blocks of one class are ever mixed in a timeline.
enum attention_class { ATTENTION_EXACT = 0, ATTENTION_BALANCED = 1, ATTENTION_AGGRESSIVE = 2 };

// All that decides the bits of a block beside its tokens.
struct kv_facts {
	uint8_t model_hash[32];          // SHA-256 of the model file
	const struct maskstore_geometry *geometry;
	float rope_theta;
	int rope_neox;                   // pairing of RoPE's dimensions
	uint32_t arithmetic_id;          // order and rounding of the sums: kernel sets that give the same bits share it
	enum attention_class attention;
};

void kv_key_root(const struct kv_facts *f, struct kv_key *out);
// Key of the full block that follows `parent` (a block's key or a root).
void kv_key_next(const struct kv_key *parent, const int32_t ids[KV_BLOCK_TOKENS], struct kv_key *out);
int kv_key_equal(const struct kv_key *a, const struct kv_key *b);

#endif
