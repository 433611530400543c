// SPDX-License-Identifier: MIT
// Eight weight rows unpacked side by side, so that lanes are rows and no lane is ever summed across.
#ifndef MASKSTORE_KERNELS_AVX2_UNPACK_H
#define MASKSTORE_KERNELS_AVX2_UNPACK_H

#include <stdalign.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"
#include "kernels/sets.h"

#define PANEL_ROWS 8

// 32 values of k of eight rows. Byte 4r + j of codes[v] is the code of row r at k = 4v + j: unsigned as in the file
// (0..15, 0..31, 0..63), for Q8_0 signed. One broadcast of four activations meets all rows.
struct panel_block {
	alignas(32) uint8_t codes[8][32];
	float scale[PANEL_ROWS]; // d, or d·sc for types with mins
	union {
		float min[PANEL_ROWS];           // types with mins: m, or -(dmin·min)
		int16_t half_scale[2][2 * PANEL_ROWS]; // Q6_K: int8 scale of k 0..15 and 16..31, each twice
	};
};
_Static_assert(sizeof(struct panel_block) == MM_PANEL_BLOCK_BYTES, "scratch is sized by this");

// Unpacks blocks [block, block + n) of 32 values of the 8 rows at `rows`, `row_bytes` apart, into out[n]. For K types
// `block` and n are multiples of 8. Reads nothing outside these blocks.
void unpack_panel(enum dtype type, const uint8_t *rows, size_t row_bytes, int block, int n, struct panel_block *out);

#endif
