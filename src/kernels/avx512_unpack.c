// SPDX-License-Identifier: MIT
// The AVX2 unpacking, writing two panels side by side: the same source with lines of 64 bytes.
#define PANEL_LINE_BYTES 64
#define unpack_panel unpack_panel_wide
#include "kernels/avx2_unpack.c"
