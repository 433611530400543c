// SPDX-License-Identifier: MIT
// Block keys: known answers from another SHA-256, and that every fact and every id matters.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "maskstore/key.h"
#include "maskstore/maskstore.h"

static struct maskstore_geometry geometry(void) {
	return (struct maskstore_geometry){.n_layer = 24, .n_head_kv = 2, .head_dim = 64, .kv_type = KV_F16};
}

static struct kv_facts facts(const struct maskstore_geometry *g) {
	struct kv_facts f = {.geometry = g, .rope_theta = 1000000.0f, .rope_neox = 1, .arithmetic_id = 3, .attention = ATTENTION_EXACT};
	for (int i = 0; i < 32; i++)
		f.model_hash[i] = (uint8_t)i;
	return f;
}

static void expect_hex(const struct kv_key *key, const char *hex) {
	char got[65];
	for (int i = 0; i < 32; i++) {
		got[2 * i] = "0123456789abcdef"[key->bytes[i] >> 4];
		got[2 * i + 1] = "0123456789abcdef"[key->bytes[i] & 15];
	}
	got[64] = 0;
	assert_string_equal(got, hex);
}

// Computed with Python's hashlib over struct.pack of the same facts.
static void test_known_answers(void **state) {
	(void)state;
	struct maskstore_geometry g = geometry();
	struct kv_facts f = facts(&g);
	struct kv_key root, first, second;
	int32_t ids[KV_BLOCK_TOKENS];
	for (int i = 0; i < KV_BLOCK_TOKENS; i++)
		ids[i] = i * 1000 - 5;
	kv_key_root(&f, &root);
	expect_hex(&root, "763174a23e12238ba4eb744c3481c259dd7f7925bd1d1c2cdd2bcb5b8cf74597");
	kv_key_next(&root, ids, &first);
	expect_hex(&first, "4aef349807d0824e0aafbdd529673502ed4f2f735b1001592c9084d4176dc7a4");
	kv_key_next(&first, ids, &second);
	expect_hex(&second, "c6fb7e7c421092bb875f1d4421a2b9a8582c68f8b7e6ebd306d357b61d15ebfe");
	kv_key_next(&first, ids, &first); // parent and result may be the same
	assert_true(kv_key_equal(&first, &second));
}

static void test_every_fact_counts(void **state) {
	(void)state;
	struct maskstore_geometry g[6];
	struct kv_facts f[12];
	struct kv_key keys[12];
	for (int i = 0; i < 6; i++)
		g[i] = geometry();
	for (int i = 0; i < 12; i++)
		f[i] = facts(&g[i < 6 ? i : 0]);
	g[1].n_layer++;
	g[2].n_head_kv++;
	g[3].head_dim++;
	g[4].kv_type = KV_F32;
	f[5].model_hash[31] ^= 1;
	f[6].model_hash[0] ^= 128;
	f[7].rope_theta = 10000.0f;
	f[8].rope_neox = 0;
	f[9].arithmetic_id++;
	f[10].attention = ATTENTION_BALANCED;
	f[11].attention = ATTENTION_AGGRESSIVE;
	for (int i = 0; i < 12; i++) {
		kv_key_root(&f[i], &keys[i]);
		for (int j = 0; j < i; j++)
			assert_false(kv_key_equal(&keys[i], &keys[j]));
	}
}

static void test_every_id_counts(void **state) {
	(void)state;
	struct kv_key parent = {{7}}, other, plain, changed;
	int32_t ids[KV_BLOCK_TOKENS] = {0};
	kv_key_next(&parent, ids, &plain);
	for (int i = 0; i < KV_BLOCK_TOKENS; i++)
		for (int bit = 0; bit < 32; bit++) {
			ids[i] = (int32_t)(1u << bit);
			kv_key_next(&parent, ids, &changed);
			assert_false(kv_key_equal(&plain, &changed));
			ids[i] = 0;
		}
	for (size_t i = 0; i < sizeof parent.bytes; i++) {
		other = parent;
		other.bytes[i] ^= 1;
		assert_false(kv_key_equal(&other, &parent));
		kv_key_next(&other, ids, &changed);
		assert_false(kv_key_equal(&plain, &changed));
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known_answers),
		cmocka_unit_test(test_every_fact_counts),
		cmocka_unit_test(test_every_id_counts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
