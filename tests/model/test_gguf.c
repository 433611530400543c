// SPDX-License-Identifier: MIT
// GGUF reader: what a file says is found; what a broken file says is refused with a reason.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gguf_bytes.h"

// Two tensors: a [2][32] F32 at 0, b [3][32] Q8_0 at 256; 358 bytes of data.
static void put_two_tensors(struct gguf_bytes *b) {
	gguf_put_tensor(b, "a.weight", 2, (uint64_t[]){32, 2}, DTYPE_F32, 0);
	gguf_put_tensor(b, "b.weight", 2, (uint64_t[]){32, 3}, DTYPE_Q8_0, 256);
}

static void put_every_kind(struct gguf_bytes *b) {
	gguf_put_key(b, "u8", GGUF_U8), gguf_put(b, "\xC8", 1);
	gguf_put_key(b, "i8", GGUF_I8), gguf_put(b, "\xFE", 1);
	gguf_put_key(b, "u16", GGUF_U16), gguf_put(b, "\x34\x12", 2);
	gguf_put_key(b, "i16", GGUF_I16), gguf_put(b, "\x34\x12", 2);
	gguf_put_pair_u32(b, "u32", 0xFFFFFFFFu);
	gguf_put_key(b, "i32", GGUF_I32), gguf_put_u32(b, (uint32_t)-5);
	gguf_put_key(b, "f32", GGUF_F32), gguf_put_u32(b, 0x3FC00000u);               // 1.5
	gguf_put_key(b, "yes", GGUF_BOOL), gguf_put(b, "\1", 1);
	gguf_put_pair_str(b, "text", "caf\xC3\xA9");
	gguf_put_key(b, "u64", GGUF_U64), gguf_put_u64(b, 77);
	gguf_put_key(b, "big", GGUF_U64), gguf_put_u64(b, 1ull << 32);
	gguf_put_key(b, "f64", GGUF_F64), gguf_put_u64(b, 0xC002000000000000u);       // -2.25
	gguf_put_key(b, "huge", GGUF_F64), gguf_put_u64(b, 0x7FEFFFFFFFFFFFFFu);      // 1.8e308
	gguf_put_array(b, "words", GGUF_STRING, 3);
	gguf_put_str(b, "one"), gguf_put_str(b, ""), gguf_put_str(b, "three");
	gguf_put_array(b, "ints", GGUF_I32, 2);
	gguf_put_u32(b, 7), gguf_put_u32(b, (uint32_t)-7);
	gguf_put_array(b, "floats", GGUF_F32, 1);
	gguf_put_u32(b, 0x3FC00000u);
	gguf_put_array(b, "bools", GGUF_BOOL, 2);
	gguf_put(b, "\0\1", 2);
}
#define N_KINDS 17

static void whole_file(struct gguf_bytes *b, uint32_t version) {
	gguf_begin(b, version, 2, N_KINDS);
	put_every_kind(b);
	put_two_tensors(b);
	gguf_put_data(b, 32, 256 + 102);
}

struct opened {
	struct gguf_bytes bytes;
	void *copy;
	struct gguf *g;
};

static void open_whole(struct opened *o, uint32_t version) {
	struct err_msg msg = {""};
	whole_file(&o->bytes, version);
	assert_int_equal(gguf_open_copy(o->bytes.data, o->bytes.n_bytes, &o->copy, &o->g, &msg), ERR_OK);
}

static void close_whole(struct opened *o) {
	gguf_close(o->g);
	free(o->copy);
	gguf_free(&o->bytes);
}

static void finds_scalars(void **state) {
	(void)state;
	struct opened o;
	open_whole(&o, 3);
	uint32_t u;
	float f;
	bool b;
	struct gguf_str s;
	assert_true(gguf_get_u32(o.g, "u8", &u) && u == 200);
	assert_true(gguf_get_u32(o.g, "u16", &u) && u == 0x1234);
	assert_true(gguf_get_u32(o.g, "i16", &u) && u == 0x1234);
	assert_true(gguf_get_u32(o.g, "u32", &u) && u == 0xFFFFFFFFu);
	assert_true(gguf_get_u32(o.g, "u64", &u) && u == 77);
	assert_true(gguf_get_f32(o.g, "f32", &f) && f == 1.5f);
	assert_true(gguf_get_f32(o.g, "f64", &f) && f == -2.25f);
	assert_true(gguf_get_bool(o.g, "yes", &b) && b);
	assert_true(gguf_get_str(o.g, "text", &s) && s.len_bytes == 5 && memcmp(s.data, "caf\xC3\xA9", 5) == 0);
	// of another kind, out of range, or missing
	assert_false(gguf_get_u32(o.g, "i8", &u) || gguf_get_u32(o.g, "i32", &u) || gguf_get_u32(o.g, "big", &u));
	assert_false(gguf_get_u32(o.g, "f32", &u) || gguf_get_u32(o.g, "yes", &u) || gguf_get_u32(o.g, "none", &u));
	assert_false(gguf_get_f32(o.g, "huge", &f) || gguf_get_f32(o.g, "u32", &f) || gguf_get_bool(o.g, "u8", &b));
	assert_false(gguf_get_str(o.g, "words", &s) || gguf_get_str(o.g, "u8", &s));
	assert_true(gguf_has(o.g, "i8"));
	assert_false(gguf_has(o.g, "i") || gguf_has(o.g, "i88"));
	close_whole(&o);
}

static void finds_arrays(void **state) {
	(void)state;
	struct opened o;
	open_whole(&o, 2);
	enum gguf_type type;
	size_t n;
	struct gguf_str words[3];
	int32_t ints[2];
	float floats[1];
	assert_true(gguf_get_array(o.g, "words", &type, &n) && type == GGUF_STRING && n == 3);
	struct gguf_strs walk;
	assert_true(gguf_get_strs(o.g, "words", &walk) && walk.n_left == 3);
	for (int i = 0; i < 3; i++)
		words[i] = gguf_strs_next(&walk);
	assert_int_equal(walk.n_left, 0);
	assert_int_equal(words[0].len_bytes, 3);
	assert_int_equal(words[2].len_bytes, 5);
	assert_memory_equal(words[0].data, "one", 3);
	assert_int_equal(words[1].len_bytes, 0);
	assert_memory_equal(words[2].data, "three", 5);
	assert_true(gguf_get_i32_array(o.g, "ints", ints, 2) && ints[0] == 7 && ints[1] == -7);
	assert_true(gguf_get_f32_array(o.g, "floats", floats, 1) && floats[0] == 1.5f);
	assert_false(gguf_get_i32_array(o.g, "ints", ints, 1) || gguf_get_i32_array(o.g, "floats", ints, 1));
	assert_false(gguf_get_array(o.g, "text", &type, &n) || gguf_get_strs(o.g, "ints", &walk) || gguf_get_strs(o.g, "text", &walk));
	assert_int_equal(gguf_n_pairs(o.g), N_KINDS);
	assert_int_equal(gguf_pair_type(o.g, 0), GGUF_U8);
	assert_memory_equal(gguf_pair_key(o.g, 8).data, "text", 4);
	close_whole(&o);
}

static void finds_tensors(void **state) {
	(void)state;
	struct opened o;
	open_whole(&o, 3);
	const struct gguf_tensor *a = gguf_tensor_find(o.g, "a.weight"), *b = gguf_tensor_find(o.g, "b.weight");
	assert_non_null(a);
	assert_non_null(b);
	assert_ptr_equal(gguf_tensor_at(o.g, 1), b);
	assert_null(gguf_tensor_find(o.g, "a.weigh"));
	assert_int_equal(a->size_bytes, 256);
	assert_int_equal(b->size_bytes, 102);
	assert_int_equal(b->type, DTYPE_Q8_0);
	assert_true(b->n_dims == 2 && b->dims[0] == 32 && b->dims[1] == 3 && b->dims[2] == 1 && b->dims[3] == 1);
	assert_int_equal((uintptr_t)a->data % 32, 0);
	assert_int_equal(((const uint8_t *)a->data)[255], 255);
	assert_int_equal(((const uint8_t *)b->data)[5], 5); // byte 261 of the data
	close_whole(&o);
}

// A short file with one fault each. `fault` picks what is wrong; 0 gives a file that opens.
enum fault {
	NONE, MAGIC, VERSION_1, VERSION_99, BYTES_SWAPPED, MANY_TENSORS, MANY_PAIRS, PAIRS_BY_ONE, KEY_LENGTH, KEY_EMPTY, VALUE_TYPE, TEXT_LENGTH, NESTED, ELEMENT_TYPE,
	ELEMENT_COUNT, STRING_IN_ARRAY, BOOL_2, BOOL_IN_ARRAY, KEY_TWICE, ALIGN_0, ALIGN_12, ALIGN_STR, NAME_LENGTH, NAME_TWICE, DIMS_0, DIMS_9, DIM_ZERO, DIM_HUGE,
	DIM_NEGATIVE, DIM_WRAPS, DIM_PART_BLOCK, TYPE_UNKNOWN, TYPE_IQ4, OFFSET_ODD, OFFSET_PAST, OFFSET_WRAPS, DATA_SHORT, N_FAULTS,
};

static void put_fault_pairs(struct gguf_bytes *b, enum fault f) {
	if (f == KEY_LENGTH)
		gguf_put_u64(b, 1ull << 63);
	gguf_put_pair_str(b, f == KEY_EMPTY ? "" : "name", "x");
	if (f == TEXT_LENGTH) {
		gguf_put_key(b, "t", GGUF_STRING);
		gguf_put_u64(b, UINT64_MAX - 7);
	} else {
		gguf_put_pair_str(b, f == KEY_TWICE ? "name" : "t", "y");
	}
	gguf_put_key(b, "v", f == VALUE_TYPE ? 13 : GGUF_BOOL), gguf_put(b, f == BOOL_2 ? "\2" : "\1", 1);
	gguf_put_array(b, "list", f == NESTED ? GGUF_ARRAY : f == ELEMENT_TYPE ? 99 : GGUF_STRING, f == ELEMENT_COUNT ? 1ull << 61 : 1);
	gguf_put_u64(b, f == STRING_IN_ARRAY ? 1ull << 62 : 1), gguf_put(b, "z", 1);
	gguf_put_array(b, "flags", GGUF_BOOL, 2), gguf_put(b, f == BOOL_IN_ARRAY ? "\1\3" : "\1\0", 2);
	if (f == ALIGN_STR)
		gguf_put_pair_str(b, "general.alignment", "32");
	else
		gguf_put_pair_u32(b, "general.alignment", f == ALIGN_0 ? 0 : f == ALIGN_12 ? 12 : 32);
}

static void put_fault_tensors(struct gguf_bytes *b, enum fault f) {
	uint64_t dims[9] = {32, 2, 1, 1, 1, 1, 1, 1, 1};
	dims[1] = f == DIM_ZERO ? 0 : f == DIM_HUGE ? 1ull << 62 : f == DIM_NEGATIVE ? (uint64_t)-64 : f == DIM_WRAPS ? 1ull << 59 : 2;
	dims[0] = f == DIM_PART_BLOCK ? 31 : 32;
	uint64_t offset = f == OFFSET_ODD ? 16 : f == OFFSET_PAST ? 1ull << 40 : f == OFFSET_WRAPS ? UINT64_MAX - 31 : 0;
	if (f == NAME_LENGTH)
		gguf_put_u64(b, 1ull << 60);
	gguf_put_tensor(b, "w", f == DIMS_0 ? 0 : f == DIMS_9 ? 9 : 2, dims, f == TYPE_UNKNOWN ? 213 : f == TYPE_IQ4 ? 23 : DTYPE_Q8_0, offset);
	gguf_put_tensor(b, f == NAME_TWICE ? "w" : "u", 1, dims, f == DIM_PART_BLOCK ? DTYPE_Q8_0 : DTYPE_F32, 96);
}

static void put_faulty(struct gguf_bytes *b, enum fault f) {
	uint32_t version = f == VERSION_1 ? 1 : f == VERSION_99 ? 99 : f == BYTES_SWAPPED ? 0x03000000 : 3;
	gguf_begin(b, version, f == MANY_TENSORS ? 1ull << 60 : 2, f == MANY_PAIRS ? 1ull << 60 : f == PAIRS_BY_ONE ? 7 : 6);
	if (f == MAGIC)
		memcpy(b->data, "GGML", 4);
	put_fault_pairs(b, f);
	put_fault_tensors(b, f);
	gguf_put_data(b, 32, f == DATA_SHORT ? 96 + 127 : 96 + 128);
}

static const struct {
	enum err code;
	const char *says;
} expected[N_FAULTS] = {
	[MAGIC] = {ERR_FORMAT, "not a GGUF file"}, [VERSION_1] = {ERR_UNSUPPORTED, "version 1 "}, [VERSION_99] = {ERR_UNSUPPORTED, "version 99 "},
	[BYTES_SWAPPED] = {ERR_UNSUPPORTED, "big-endian"}, [MANY_TENSORS] = {ERR_FORMAT, "1152921504606846976 tensors"},
	[MANY_PAIRS] = {ERR_FORMAT, "1152921504606846976 metadata pairs"}, [PAIRS_BY_ONE] = {ERR_FORMAT, ""},
	[KEY_LENGTH] = {ERR_FORMAT, "key of metadata pair 0"}, [KEY_EMPTY] = {ERR_FORMAT, "has 0 bytes"}, [VALUE_TYPE] = {ERR_FORMAT, "unknown type 13"},
	[TEXT_LENGTH] = {ERR_FORMAT, "\"t\" goes past"}, [NESTED] = {ERR_UNSUPPORTED, "array of arrays"}, [ELEMENT_TYPE] = {ERR_FORMAT, "unknown type 99"},
	[ELEMENT_COUNT] = {ERR_FORMAT, "\"list\" claims"}, [STRING_IN_ARRAY] = {ERR_FORMAT, "\"list\" goes past"}, [BOOL_2] = {ERR_FORMAT, "truth value of 2"},
	[BOOL_IN_ARRAY] = {ERR_FORMAT, "truth value of 3"}, [KEY_TWICE] = {ERR_FORMAT, "metadata key \"name\" appears twice"},
	[ALIGN_0] = {ERR_FORMAT, "general.alignment"}, [ALIGN_12] = {ERR_FORMAT, "general.alignment"}, [ALIGN_STR] = {ERR_FORMAT, "general.alignment"},
	[NAME_LENGTH] = {ERR_FORMAT, "tensor 0 goes past"}, [NAME_TWICE] = {ERR_FORMAT, "tensor name \"w\" appears twice"},
	[DIMS_0] = {ERR_FORMAT, "0 dimensions"}, [DIMS_9] = {ERR_FORMAT, "9 dimensions"}, [DIM_ZERO] = {ERR_FORMAT, "dimension 1 is 0"},
	[DIM_HUGE] = {ERR_FORMAT, "dimension 1 is 4611686018427387904"}, [DIM_NEGATIVE] = {ERR_FORMAT, "dimension 1 is 18446744073709551552"},
	[DIM_WRAPS] = {ERR_FORMAT, "dimension 1 is 576460752303423488"}, [DIM_PART_BLOCK] = {ERR_FORMAT, "not whole Q8_0 blocks of 32"},
	[TYPE_UNKNOWN] = {ERR_UNSUPPORTED, "type 213"}, [TYPE_IQ4] = {ERR_UNSUPPORTED, "IQ4_XS"}, [OFFSET_ODD] = {ERR_FORMAT, "not a multiple of the alignment"},
	[OFFSET_PAST] = {ERR_FORMAT, "at 1099511627776"}, [OFFSET_WRAPS] = {ERR_FORMAT, "past the end of the file"}, [DATA_SHORT] = {ERR_FORMAT, "\"u\" (128 bytes at 96)"},
};

static void refuses_faults(void **state) {
	(void)state;
	for (int f = NONE; f < N_FAULTS; f++) {
		struct gguf_bytes b;
		void *copy;
		struct gguf *g = NULL;
		struct err_msg msg = {""};
		put_faulty(&b, (enum fault)f);
		enum err e = gguf_open_copy(b.data, b.n_bytes, &copy, &g, &msg);
		if (e != expected[f].code || (e && (!strstr(msg.text, expected[f].says) || strncmp(msg.text, "test.gguf: ", 11) != 0)))
			fail_msg("fault %d: code %d, says \"%s\"; expected %d, \"%s\"", f, e, msg.text, expected[f].code, expected[f].says ? expected[f].says : "");
		assert_true(e || g);
		assert_null(strchr(msg.text, '\n'));
		if (!e)
			gguf_close(g);
		free(copy);
		gguf_free(&b);
	}
}

static void refuses_every_prefix(void **state) {
	(void)state;
	struct gguf_bytes b;
	whole_file(&b, 3);
	for (size_t n = 0; n < b.n_bytes; n++) {
		void *copy;
		struct gguf *g;
		struct err_msg msg = {""};
		assert_int_equal(gguf_open_copy(b.data, n, &copy, &g, &msg), ERR_FORMAT);
		assert_non_null(strstr(msg.text, "download it again"));
		free(copy);
	}
	gguf_free(&b);
}

// Any single byte changed: opened safely or refused with a reason; sanitizers watch.
static void survives_any_byte(void **state) {
	(void)state;
	struct gguf_bytes b;
	whole_file(&b, 3);
	int n_refused = 0;
	for (size_t i = 0; i < b.n_bytes - 358; i++) {
		for (int change = 0; change < 4; change++) {
			static const uint8_t masks[] = {0x01, 0x80, 0xFF, 0x20};
			void *copy;
			struct gguf *g;
			struct err_msg msg = {""};
			b.data[i] ^= masks[change];
			enum err e = gguf_open_copy(b.data, b.n_bytes, &copy, &g, &msg);
			b.data[i] ^= masks[change];
			n_refused += e != ERR_OK;
			assert_true(e ? msg.text[0] != 0 : gguf_n_pairs(g) == N_KINDS);
			if (!e)
				gguf_close(g);
			free(copy);
		}
	}
	assert_true(n_refused > 500);
	gguf_free(&b);
}

static void refuses_unaligned_memory(void **state) {
	(void)state;
	_Alignas(32) static uint8_t bytes[64] = "GGUF";
	struct gguf *g;
	assert_int_equal(gguf_open_memory(bytes + 8, 32, "x", &g, NULL), ERR_ARG);
}

static enum err open_path(const char *path, struct err_msg *msg) {
	struct gguf *g;
	enum err e = gguf_open(path, &g, msg);
	if (!e)
		gguf_close(g);
	return e;
}

static void opens_paths(void **state) {
	(void)state;
	char folder[] = "/tmp/test_gguf_XXXXXX", path[64];
	struct err_msg msg = {""};
	struct gguf_bytes b;
	assert_non_null(mkdtemp(folder));
	assert_int_equal(open_path(folder, &msg), ERR_IO);
	assert_non_null(strstr(msg.text, "is a folder"));

	snprintf(path, sizeof path, "%s/file", folder);
	assert_int_equal(open_path(path, &msg), ERR_IO);
	assert_non_null(strstr(msg.text, path));
	assert_non_null(strstr(msg.text, "No such file"));

	whole_file(&b, 3);
	FILE *f = fopen(path, "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(b.data, 1, b.n_bytes, f), b.n_bytes);
	fclose(f);
	assert_int_equal(open_path(path, &msg), ERR_OK);
	assert_int_equal(truncate(path, (off_t)b.n_bytes - 1), 0);
	assert_int_equal(open_path(path, &msg), ERR_FORMAT);
	assert_int_equal(truncate(path, 0), 0);
	assert_int_equal(open_path(path, &msg), ERR_FORMAT);
	assert_non_null(strstr(msg.text, "empty"));
	if (geteuid() != 0) { // root reads everything
		assert_int_equal(chmod(path, 0), 0);
		assert_int_equal(open_path(path, &msg), ERR_IO);
		assert_non_null(strstr(msg.text, "Permission denied"));
	}
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(open_path(path, &msg), ERR_IO); // and does not wait for a writer
	unlink(path);
	rmdir(folder);
	gguf_free(&b);
}

// The reason must survive a path of any length, on one line.
static void names_long_paths(void **state) {
	(void)state;
	char path[2000];
	struct err_msg msg = {""};
	memset(path, 'p', sizeof path);
	memcpy(path, "/a\nb/", 5);
	memcpy(path + sizeof path - 6, ".gguf", 6);
	assert_int_equal(open_path(path, &msg), ERR_IO);
	assert_non_null(strstr(msg.text, "ppp.gguf: cannot be opened"));
	assert_int_equal(open_path("/nowhere\n/x.gguf", &msg), ERR_IO);
	assert_null(strchr(msg.text, '\n'));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_scalars), cmocka_unit_test(finds_arrays), cmocka_unit_test(finds_tensors), cmocka_unit_test(refuses_faults),
		cmocka_unit_test(refuses_every_prefix), cmocka_unit_test(survives_any_byte), cmocka_unit_test(refuses_unaligned_memory),
		cmocka_unit_test(opens_paths), cmocka_unit_test(names_long_paths),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
