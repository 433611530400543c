// SPDX-License-Identifier: MIT
// CPU features and the number of cores this process may use.
#define _GNU_SOURCE // sched_getaffinity
#include "base/cpu.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>

// F16C by CPUID leaf 1: clang 14's __builtin_cpu_supports doesn't know it. It needs the same registers as AVX.
static bool has_f16c(void) {
	unsigned a, b, c, d;
	return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

// AMX-TILE and AMX-INT8 by CPUID leaf 7 (neither compiler's builtin knows them), then the permission that Linux wants to be asked for since its
// saving area is 8 KB a thread. It refuses where the system does not save them (arch/x86/kernel/fpu/xstate.c), so XCR0 need not be read.
static bool has_amx_int8(void) {
#if defined(__linux__) && defined(SYS_arch_prctl)
	enum { AMX_TILE = 1 << 24, AMX_INT8 = 1 << 25, REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
	unsigned a, b, c, d;
	if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & AMX_TILE) || !(d & AMX_INT8))
		return false;
	return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#else
	return false;
#endif
}
#endif

unsigned cpu_flags(void) {
#if defined(__x86_64__)
	// The compiler's builtin checks that the system saves the registers too.
	if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c())
		return 0;
	bool vnni = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
	            __builtin_cpu_supports("avx512vnni");
	return CPU_AVX2_FMA_F16C | (vnni ? CPU_AVX512_VNNI : 0) | (vnni && has_amx_int8() ? CPU_AMX_INT8 : 0);
#else
	return 0;
#endif
}

unsigned cpu_flags_up_to(const char *isa) {
	if (isa && !strcmp(isa, "scalar"))
		return 0;
	unsigned flags = cpu_flags();
	if (isa && !strcmp(isa, "avx2"))
		flags &= CPU_AVX2_FMA_F16C;
	if (isa && !strcmp(isa, "avx512"))
		flags &= CPU_AVX2_FMA_F16C | CPU_AVX512_VNNI;
	return flags;
}

// Cores granted by a cgroup v2 quota, rounded up; 0 if there is none.
static int cgroup_quota(void) {
	FILE *f = fopen("/sys/fs/cgroup/cpu.max", "re");
	if (!f)
		return 0;
	long quota = 0, period = 0;
	int n = fscanf(f, "%ld %ld", &quota, &period);
	fclose(f);
	return n == 2 && quota > 0 && period > 0 ? (int)((quota + period - 1) / period) : 0;
}

int cpu_count(void) {
	long n = sysconf(_SC_NPROCESSORS_ONLN);
	cpu_set_t set;
	if (sched_getaffinity(0, sizeof set, &set) == 0)
		n = CPU_COUNT(&set);
	int quota = cgroup_quota();
	if (quota && quota < n)
		n = quota;
	return n < 1 ? 1 : (int)n;
}
