// SPDX-License-Identifier: MIT
// What this CPU can do, asked at run time. Pure functions, any thread.
#ifndef MASKSTORE_BASE_CPU_H
#define MASKSTORE_BASE_CPU_H

#include <stdbool.h>

enum cpu_flag {
	CPU_AVX2_FMA_F16C = 1u << 0, // AVX2, FMA3 and F16C, with the registers enabled by the system
};

// Flags of this machine; 0 on other architectures. The environment variable MASKSTORE_CPU=scalar masks all of them
// (read by config.c, not here).
unsigned cpu_flags(void);

// Cores that this process may run on (affinity and cgroup quota respected), at least 1.
int cpu_count(void);

#endif
