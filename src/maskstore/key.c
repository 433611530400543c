// SPDX-License-Identifier: MIT
// Block keys: SHA-256 (libmd) over facts and token ids, every number written as little-endian bytes so that a folder may move between
// machines.
#include "maskstore/key.h"

#include <sha2.h>
#include <string.h>

#include "maskstore/maskstore.h"

// Raised whenever the layout of a block or the meaning of a fact changes: then all old keys are unknown.
#define KEY_VERSION 1

static void put_u32(SHA2_CTX *ctx, uint32_t v) {
	const uint8_t bytes[4] = {(uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24)};
	SHA256Update(ctx, bytes, sizeof bytes);
}

void kv_key_root(const struct kv_facts *f, struct kv_key *out) {
	static const uint8_t domain[16] = "maskstore block";
	uint32_t theta_bits;
	memcpy(&theta_bits, &f->rope_theta, sizeof theta_bits);
	SHA2_CTX ctx;
	SHA256Init(&ctx);
	SHA256Update(&ctx, domain, sizeof domain);
	put_u32(&ctx, KEY_VERSION);
	SHA256Update(&ctx, f->model_hash, sizeof f->model_hash);
	put_u32(&ctx, (uint32_t)f->geometry->n_layer);
	put_u32(&ctx, (uint32_t)f->geometry->n_head_kv);
	put_u32(&ctx, (uint32_t)f->geometry->head_dim);
	put_u32(&ctx, (uint32_t)f->geometry->kv_type);
	put_u32(&ctx, theta_bits);
	put_u32(&ctx, (uint32_t)(f->rope_neox != 0));
	put_u32(&ctx, f->arithmetic_id);
	put_u32(&ctx, (uint32_t)f->attention);
	SHA256Final(out->bytes, &ctx);
}

void kv_key_next(const struct kv_key *parent, const int32_t ids[KV_BLOCK_TOKENS], struct kv_key *out) {
	uint8_t text[sizeof parent->bytes + 4 * KV_BLOCK_TOKENS];
	memcpy(text, parent->bytes, sizeof parent->bytes);
	for (size_t i = 0; i < KV_BLOCK_TOKENS; i++) {
		uint32_t id = (uint32_t)ids[i];
		for (size_t b = 0; b < 4; b++)
			text[sizeof parent->bytes + 4 * i + b] = (uint8_t)(id >> (8 * b));
	}
	SHA2_CTX ctx;
	SHA256Init(&ctx);
	SHA256Update(&ctx, text, sizeof text);
	SHA256Final(out->bytes, &ctx);
}

int kv_key_equal(const struct kv_key *a, const struct kv_key *b) {
	return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}
