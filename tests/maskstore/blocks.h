// SPDX-License-Identifier: MIT
// Blocks with made-up contents for the tests of extents and the archive: payloads are a function of the key, so that a restored one can be
// checked without keeping it.
#ifndef MASKSTORE_TESTS_BLOCKS_H
#define MASKSTORE_TESTS_BLOCKS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "maskstore/archive.h"

// xorshift64*: seeded, so that a failure repeats.
static inline uint32_t draw(uint64_t *state, uint32_t n) {
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return (uint32_t)((*state * 0x2545F4914F6CDD1DULL) >> 33) % n;
}

// A block of 32 ids that follow from `seed`, after `parent`.
static inline struct archive_block block_after(const struct kv_key *parent, uint32_t seed) {
	struct archive_block b = {.parent = *parent};
	for (uint32_t i = 0; i < KV_BLOCK_TOKENS; i++)
		b.ids[i] = (int32_t)(seed * 2654435761u + i * 40503u);
	kv_key_next(&b.parent, b.ids, &b.key);
	return b;
}

// Values like those of a cache: mantissa bits at random, few exponents.
static inline void fill_payload(const struct kv_key *key, int element_bytes, void *payload, size_t n_bytes) {
	uint64_t state;
	memcpy(&state, key->bytes, sizeof state);
	state |= 1;
	uint8_t *at = payload;
	for (size_t i = 0; i < n_bytes; i++) {
		uint32_t r = draw(&state, 1u << 16);
		at[i] = i % (size_t)element_bytes == (size_t)element_bytes - 1 ? (uint8_t)((r & 0x80) | (0x38 + (r & r >> 8 & 7))) : (uint8_t)r;
	}
}

#endif
