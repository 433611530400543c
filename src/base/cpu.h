// SPDX-License-Identifier: MIT
// What this CPU can do, asked at run time. Any thread.
#ifndef MASKSTORE_BASE_CPU_H
#define MASKSTORE_BASE_CPU_H

#include <stdbool.h>

enum cpu_flag {
	CPU_AVX2_FMA_F16C = 1u << 0, // AVX2, FMA3 and F16C, with the registers enabled by the system
	CPU_AVX512_VNNI = 1u << 1,   // AVX-512 F, BW, VL and VNNI, likewise
	CPU_AMX_INT8 = 1u << 2,      // AMX tiles and their int8 products, which Linux lets this process use
};

// Flags of this machine; 0 on other architectures. Where the CPU has AMX, asks Linux to allow this process its registers, all threads at once,
// those that run already too; refused, the flag is not there. Asking again changes nothing.
unsigned cpu_flags(void);
// Of these, those up to an instruction set: "scalar", "avx2", "avx512" or "amx"; all for null or another name.
unsigned cpu_flags_up_to(const char *isa);

// Cores that this process may run on (affinity and cgroup quota respected), at least 1.
int cpu_count(void);

#endif
