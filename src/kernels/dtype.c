// SPDX-License-Identifier: MIT
// Tensor types: sizes, names and the unpacking of one group of 32 weights. Pure functions.
#include "kernels/blocks.h"

#include <stddef.h>

#include "kernels/scalar.h"

struct dtype_info dtype_info(uint32_t type) {
	switch (type) {
	case DTYPE_F32: return (struct dtype_info){"F32", 1, 4, false};
	case DTYPE_F16: return (struct dtype_info){"F16", 1, 2, false};
	case DTYPE_BF16: return (struct dtype_info){"BF16", 1, 2, false};
	case DTYPE_Q4_0: return (struct dtype_info){"Q4_0", 32, 18, true};
	case DTYPE_Q4_1: return (struct dtype_info){"Q4_1", 32, 20, true};
	case DTYPE_Q5_0: return (struct dtype_info){"Q5_0", 32, 22, true};
	case DTYPE_Q5_1: return (struct dtype_info){"Q5_1", 32, 24, true};
	case DTYPE_Q8_0: return (struct dtype_info){"Q8_0", 32, 34, true};
	case DTYPE_Q4_K: return (struct dtype_info){"Q4_K", 256, 144, true};
	case DTYPE_Q5_K: return (struct dtype_info){"Q5_K", 256, 176, true};
	case DTYPE_Q6_K: return (struct dtype_info){"Q6_K", 256, 210, true};
	default: return (struct dtype_info){0};
	}
}

size_t dtype_row_bytes(enum dtype type, int k) {
	struct dtype_info info = dtype_info(type);
	return (size_t)(k / info.block_elems) * (size_t)info.block_bytes;
}

int kv_type_bytes(enum kv_type type) {
	return type == KV_F32 ? 4 : 2;
}

// Low nibbles are values 0..15, high nibbles 16..31.
static void load_nibbles(const uint8_t *qs, int offset, int8_t *code) {
	for (int j = 0; j < 16; j++) {
		code[j] = (int8_t)((qs[j] & 15) - offset);
		code[j + 16] = (int8_t)((qs[j] >> 4) - offset);
	}
}

// As load_nibbles; bit k of `high` is the fifth bit of value k.
static void load_fives(const uint8_t *qs, uint32_t high, int offset, int8_t *code) {
	for (int j = 0; j < 16; j++) {
		code[j] = (int8_t)(((qs[j] & 15) | (int)(high >> j & 1) << 4) - offset);
		code[j + 16] = (int8_t)(((qs[j] >> 4) | (int)(high >> (j + 16) & 1) << 4) - offset);
	}
}

// The 6-bit scale and min number j (0..7) of Q4_K and Q5_K (ggml: get_scale_min_k4).
static void load_scale_min(const uint8_t *scales, int j, int *scale, int *min) {
	if (j < 4) {
		*scale = scales[j] & 63;
		*min = scales[j + 4] & 63;
	} else {
		*scale = (scales[j + 4] & 15) | (scales[j - 4] >> 6) << 4;
		*min = (scales[j + 4] >> 4) | (scales[j] >> 6) << 4;
	}
}

// Q4_K: f16 d, f16 dmin, 12 scale bytes, 128 of nibbles. Q5_K: 32 bytes of fifth bits before the nibbles, bit s of byte
// l for value l of group s. 32 bytes of nibbles hold groups 2j (low) and 2j+1 (high).
static void load_k45(const uint8_t *b, int group, bool fives, struct wblock *out) {
	int scale, min;
	load_scale_min(b + 4, group, &scale, &min);
	out->d = load_f16(b) * (float)scale;
	out->m = -(load_f16(b + 2) * (float)min);
	const uint8_t *qh = b + 16;
	const uint8_t *qs = b + (fives ? 48 : 16) + group / 2 * 32;
	for (int l = 0; l < 32; l++) {
		int code = group % 2 ? qs[l] >> 4 : qs[l] & 15;
		if (fives)
			code |= (qh[l] >> group & 1) << 4;
		out->code[l] = (int8_t)code;
	}
}

// Q6_K: 128 bytes of low nibbles, 64 of high bit pairs, 16 int8 scales, f16 d; two halves of 128 values.
static void load_k6(const uint8_t *b, int group, struct wblock *out) {
	int half = group / 4, s = group % 4;
	const uint8_t *ql = b + half * 64 + s % 2 * 32;
	const uint8_t *qh = b + 128 + half * 32;
	const uint8_t *scales = b + 192 + half * 8 + s * 2;
	for (int l = 0; l < 32; l++) {
		int low = s < 2 ? ql[l] & 15 : ql[l] >> 4;
		out->code[l] = (int8_t)((low | (qh[l] >> 2 * s & 3) << 4) - 32);
	}
	out->d = load_f16(b + 208);
	out->sc[0] = (int8_t)scales[0];
	out->sc[1] = (int8_t)scales[1];
}

void wblock_load(enum dtype type, const uint8_t *row, int i, struct wblock *out) {
	struct dtype_info info = dtype_info(type);
	int groups = info.block_elems / ACT_BLOCK_ELEMS;
	const uint8_t *b = row + (size_t)(i / groups) * (size_t)info.block_bytes;
	out->m = 0;
	out->sc[0] = out->sc[1] = 1;
	switch (type) {
	case DTYPE_Q4_0:
		out->d = load_f16(b);
		load_nibbles(b + 2, 8, out->code);
		break;
	case DTYPE_Q4_1:
		out->d = load_f16(b);
		out->m = load_f16(b + 2);
		load_nibbles(b + 4, 0, out->code);
		break;
	case DTYPE_Q5_0:
		out->d = load_f16(b);
		load_fives(b + 6, load_u32(b + 2), 16, out->code);
		break;
	case DTYPE_Q5_1:
		out->d = load_f16(b);
		out->m = load_f16(b + 2);
		load_fives(b + 8, load_u32(b + 4), 0, out->code);
		break;
	case DTYPE_Q8_0:
		out->d = load_f16(b);
		memcpy(out->code, b + 2, 32);
		break;
	case DTYPE_Q4_K: load_k45(b, i % 8, false, out); break;
	case DTYPE_Q5_K: load_k45(b, i % 8, true, out); break;
	case DTYPE_Q6_K: load_k6(b, i % 8, out); break;
	default: break; // float types have no blocks
	}
}
