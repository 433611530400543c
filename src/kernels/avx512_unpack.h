// SPDX-License-Identifier: MIT
// Sixteen weight rows unpacked side by side, so that lanes are rows and no lane is ever summed across.
#ifndef MASKSTORE_KERNELS_AVX512_UNPACK_H
#define MASKSTORE_KERNELS_AVX512_UNPACK_H

#include <stdalign.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"
#include "kernels/sets.h"

#define WIDE_ROWS 16

// 32 values of k of sixteen rows. Byte 4r + j of codes[v] is the code of row r at k = 4v + j. That is what vpdpbusd takes with a broadcast of four
// activations, and the eight lines are what an AMX tile takes as its right-hand side.
struct wide_block {
	alignas(64) uint8_t codes[8][64];
	float scale[WIDE_ROWS]; // d, or d·sc for types with mins
	union {
		float min[WIDE_ROWS];           // types with mins: m, or -(dmin·min)
		float half_scale[2][WIDE_ROWS]; // Q6_K: int8 scale of k 0..15 and 16..31
	};
};
_Static_assert(sizeof(struct wide_block) == MM_WIDE_BLOCK_BYTES, "scratch is sized by this");

// Unpacks blocks [block, block + n) of 32 values of the 16 rows at `rows`, `row_bytes` apart, into out[n]. A code is what stands in the file (0..15,
// 0..31, 0..63; Q8_0: the signed byte) less `bias`, modulo 256. For K types `block` and n are multiples of 8. Reads nothing outside these blocks.
void unpack_wide(enum dtype type, const uint8_t *rows, size_t row_bytes, int block, int n, uint8_t bias, struct wide_block *out);

// Asks for the packed bytes of rows, some lines with each block of the tiles of the rows before them, so that their unpacking does not wait for
// memory. All at once would not do: the core keeps track of some sixteen lines.
struct ahead {
	const uint8_t *row;
	size_t row_bytes, used_bytes; // from row to row; of each
	size_t at_bytes;              // in the row at hand
	int n_lines, step;            // left; with each block
};

// Of blocks [block, block + n) of rows [row, row_end), maybe none, in n_parts parts.
static inline struct ahead look_ahead(const struct weight *w, int row, int row_end, int block, int n, int n_parts) {
	struct dtype_info info = dtype_info(w->type);
	int blocks_each = info.block_elems / 32, used_bytes = n / blocks_each * info.block_bytes;
	size_t row_bytes = dtype_row_bytes(w->type, w->k);
	const uint8_t *first = (const uint8_t *)w->data + (size_t)row * row_bytes + (size_t)(block / blocks_each) * (size_t)info.block_bytes;
	int n_lines = (used_bytes + 63) / 64 * (row_end - row);
	return (struct ahead){first, row_bytes, (size_t)used_bytes, 0, n_lines, (n_lines + n_parts - 1) / n_parts};
}

static inline void ask_ahead(struct ahead *a) {
	for (int i = 0; i < a->step && a->n_lines > 0; i++, a->n_lines--) {
		__builtin_prefetch(a->row + a->at_bytes, 0, 2);
		a->at_bytes += 64;
		if (a->at_bytes >= a->used_bytes) {
			a->row += a->row_bytes;
			a->at_bytes = 0;
		}
	}
}

#endif
