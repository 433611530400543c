// SPDX-License-Identifier: MIT
// Choice of a kernel set and sizes of scratch. No state.
#include "kernels/kernels.h"

#include "base/cpu.h"
#include "kernels/sets.h"

const struct kernels *kernels_get(unsigned cpu_flags) {
#ifdef KERNELS_HAVE_AMX
	if ((cpu_flags & CPU_AVX2_FMA_F16C) && (cpu_flags & CPU_AVX512_VNNI) && (cpu_flags & CPU_AMX_INT8))
		return &kernels_amx;
#endif
#ifdef KERNELS_HAVE_AVX512
	if ((cpu_flags & CPU_AVX2_FMA_F16C) && (cpu_flags & CPU_AVX512_VNNI))
		return &kernels_avx512;
#endif
#ifdef KERNELS_HAVE_AVX2
	if (cpu_flags & CPU_AVX2_FMA_F16C)
		return &kernels_avx2;
#endif
	(void)cpu_flags;
	return &kernels_scalar;
}

struct kernels_peaks kernels_peaks(unsigned cpu_flags) {
#ifdef KERNELS_HAVE_AMX
	if ((cpu_flags & CPU_AVX2_FMA_F16C) && (cpu_flags & CPU_AVX512_VNNI) && (cpu_flags & CPU_AMX_INT8))
		return (struct kernels_peaks){kernels_peaks_avx2.read, peak_int8_dot_amx, peak_fma_avx512};
#endif
#ifdef KERNELS_HAVE_AVX512
	if ((cpu_flags & CPU_AVX2_FMA_F16C) && (cpu_flags & CPU_AVX512_VNNI))
		return (struct kernels_peaks){kernels_peaks_avx2.read, peak_int8_dot_vnni, peak_fma_avx512};
#endif
#ifdef KERNELS_HAVE_AVX2
	if (cpu_flags & CPU_AVX2_FMA_F16C)
		return kernels_peaks_avx2;
#endif
	(void)cpu_flags;
	return kernels_peaks_scalar;
}

static size_t align_64(size_t n_bytes) {
	return (n_bytes + 63) / 64 * 64;
}

// The largest need of any set: quantised (unpacked panels, then activations of a token block or, for a few tokens,
// of all of k) or float (some dequantised rows).
size_t kernels_matmul_scratch_bytes(int max_k) {
	size_t n_blocks = ((size_t)max_k + 31) / 32;
	size_t panel = align_64(MM_PANELS * (size_t)MM_CHUNK_BLOCKS * MM_PANEL_BLOCK_BYTES);
	size_t block_acts = (size_t)(MM_TOKEN_BLOCK / MM_GROUP_TOKENS) * MM_CHUNK_BLOCKS * MM_GROUP_BLOCK_BYTES;
	size_t amx_acts = (size_t)(AMX_TOKEN_BLOCK / AMX_GROUP_TOKENS) * MM_CHUNK_BLOCKS * AMX_GROUP_BLOCK_BYTES;
	size_t few_acts = n_blocks * MM_FEW_BLOCK_BYTES;
	block_acts = amx_acts > block_acts ? amx_acts : block_acts;
	size_t quantised = panel + align_64(few_acts > block_acts ? few_acts : block_acts);
	size_t floats = F32_PANEL_ROWS * align_64(sizeof(float) * (size_t)max_k);
	return quantised > floats ? quantised : floats;
}

// Once: K and V of a unit as f32; per row: scaled query and output of a unit, its scores, and some state.
size_t kernels_attention_scratch_bytes(int head_dim, int max_rows) {
	size_t d = (size_t)head_dim, rows = (size_t)max_rows;
	size_t unit = 2 * sizeof(float) * KV_UNIT_TOKENS * ATTENTION_UNIT_LANES(d);
	size_t row = sizeof(float) * (2 * d + KV_UNIT_TOKENS) + ATTENTION_STATE_BYTES;
	return align_64(unit + rows * row);
}
