// SPDX-License-Identifier: MIT
// The loop at the limit of the AMX int8 units, for `bench machine` and the shares of benches. Stateless.
#include "kernels/avx2_common.h"
#include "kernels/sets.h"

#define STEP_SHARE 8 // a step is this many times the work of one of the other sets' loops

// 16 × 64 times 64 × 16 signed bytes an instruction; four sums, since one waits for the one before it.
uint64_t peak_int8_dot_amx(uint64_t n_steps) {
	struct {
		uint8_t palette, start_row, reserved[14];
		uint16_t row_bytes[16];
		uint8_t rows[16];
	} config;
	memset(&config, 0, sizeof config);
	config.palette = 1;
	for (int i = 0; i < 8; i++) {
		config.row_bytes[i] = 64;
		config.rows[i] = 16;
	}
	// Not _tile_loadconfig: gcc 12 takes it for a read of 8 bytes and drops the other stores.
	__asm__ volatile("ldtilecfg %0" : : "m"(config));
	_tile_zero(0);
	_tile_zero(1);
	_tile_zero(2);
	_tile_zero(3);
	_tile_zero(4);
	_tile_zero(5);
	uint64_t n = n_steps / STEP_SHARE + 1;
	for (uint64_t i = 0; i < n; i++) {
		_tile_dpbssd(0, 4, 5);
		_tile_dpbssd(1, 4, 5);
		_tile_dpbssd(2, 4, 5);
		_tile_dpbssd(3, 4, 5);
	}
	_tile_release();
	return n * 4 * 16 * 16 * 64;
}
