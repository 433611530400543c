// SPDX-License-Identifier: MIT
// Differential test of the kernel sets, in the manner of dav1d's checkasm: every function of every set that this CPU has
// against the scalar set, on random sizes with odd tails, misaligned starts, pre-filled outputs, buffers between
// inaccessible pages, read-only inputs and dirty scratch. Equal means bit for bit.
//
//   checkkernels [--seed N] [--only FUNCTION] [--round N] [--rounds FACTOR] [--bench] [--list]
//
// --rounds multiplies the number of rounds. --bench times the functions instead (CPU time of one thread).
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/kernels/check.h"

#define REGION_BYTES ((size_t)8 << 20)
#define MARGIN_BYTES 512
#define MAX_REPORTS 20

// A function that is added to struct kernels needs a check here: then raise this number.
_Static_assert(sizeof(struct kernels) == sizeof(char *) * 12, "give the new function of struct kernels a check in tests/kernels/checkkernels_*.c");

// What the signal handler reports. Set once in main.
static const struct check *running;

// --- buffers

static void make_regions(struct check *c) {
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	for (int i = 0; i < N_SLOTS; i++) {
		uint8_t *p = mmap(NULL, REGION_BYTES + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p == MAP_FAILED || mprotect(p + page, REGION_BYTES, PROT_READ | PROT_WRITE))
			abort();
		c->regions[i].pages = p + page;
	}
}

static uint8_t *margin_begin(const struct region *r) {
	return r->at - r->pages < MARGIN_BYTES ? r->pages : r->at - MARGIN_BYTES;
}

static uint8_t *margin_end(const struct region *r) {
	uint8_t *end = r->at + r->n_bytes, *last = r->pages + REGION_BYTES;
	return last - end < MARGIN_BYTES ? last : end + MARGIN_BYTES;
}

void *check_place(struct check *c, enum slot slot, size_t n_bytes, size_t align) {
	struct region *r = &c->regions[slot];
	if (n_bytes + 128 > REGION_BYTES || mprotect(r->pages, REGION_BYTES, PROT_READ | PROT_WRITE))
		abort();
	r->n_bytes = n_bytes;
	size_t skip = align < 64 && one_in(&c->rng, 2) ? (size_t)rng_below(&c->rng, (int)(64 / align)) * align : 0;
	if (one_in(&c->rng, 2))
		r->at = r->pages + (one_in(&c->rng, 2) ? skip : 0);
	else
		r->at = r->pages + (REGION_BYTES - n_bytes) / align * align;
	memset(margin_begin(r), CHECK_MARK, (size_t)(margin_end(r) - margin_begin(r)));
	return r->at;
}

void check_freeze(struct check *c, enum slot slot) {
	if (mprotect(c->regions[slot].pages, REGION_BYTES, PROT_READ))
		abort();
}

void *check_scratch(struct check *c, size_t n_bytes) {
	uint8_t *p = check_place(c, SLOT_SCRATCH, n_bytes, 64);
	if (one_in(&c->rng, 2))
		memset(p, 0xff, n_bytes);
	else
		for (size_t i = 0; i < n_bytes; i++)
			p[i] = (uint8_t)(i * 167 + 13);
	return p;
}

void check_margins(struct check *c, enum slot slot) {
	const struct region *r = &c->regions[slot];
	for (const uint8_t *p = margin_begin(r); p < margin_end(r); p++) {
		if (p == r->at)
			p += r->n_bytes;
		if (p >= margin_end(r))
			break;
		if (*p != CHECK_MARK) {
			check_fail(c, "wrote a byte %td bytes from the start of a buffer of %zu", p - r->at, r->n_bytes);
			return;
		}
	}
}

// --- reports

void check_shape(struct check *c, const char *format, ...) {
	va_list args;
	va_start(args, format);
	vsnprintf(c->shape, sizeof c->shape, format, args);
	va_end(args);
}

void check_fail(struct check *c, const char *format, ...) {
	if (c->n_failed++ >= MAX_REPORTS)
		return;
	va_list args;
	va_start(args, format);
	printf("FAILED %s %s: %s: ", c->set->name, c->function, c->shape);
	vprintf(format, args);
	printf(" (again: --seed %" PRIu64 " --only %s --round %d)\n", c->seed, c->function, c->round);
	va_end(args);
}

bool check_floats(struct check *c, const float *expected, const float *actual, size_t n) {
	for (size_t i = 0; i < n; i++) {
		uint32_t e = f32_bits(expected[i]), a = f32_bits(actual[i]);
		if (e != a && !(is_nan_bits(e) && is_nan_bits(a))) {
			check_fail(c, "value %zu is %a, expected %a", i, (double)actual[i], (double)expected[i]);
			return false;
		}
	}
	return true;
}

bool check_bytes(struct check *c, enum slot expected, enum slot actual) {
	const struct region *e = &c->regions[expected], *a = &c->regions[actual];
	check_margins(c, actual);
	for (size_t i = 0; i < e->n_bytes; i++)
		if (e->at[i] != a->at[i]) {
			check_fail(c, "byte %zu is %02x, expected %02x", i, a->at[i], e->at[i]);
			return false;
		}
	return true;
}

void check_fill_floats(struct rng *g, float *x, size_t n, float scale, bool wild) {
	static const float odd[] = {0.0f, -0.0f, 1e-45f, -1e-40f, 3e38f, -3.4e38f, INFINITY, -INFINITY, NAN, 1e-30f};
	for (size_t i = 0; i < n; i++)
		x[i] = wild && one_in(g, 40) ? odd[rng_below(g, (int)(sizeof odd / sizeof odd[0]))] : rng_float(g) * scale;
}

// A kernel that left its buffers, or an instruction that the CPU lacks: says where, then ends by the same signal.
static void on_signal(int number) {
	char line[512];
	int n = snprintf(line, sizeof line, "FAILED %s %s: %s: signal %d (again: --seed %" PRIu64 " --only %s --round %d)\n", running->set->name,
	                 running->function, running->shape, number, running->seed, running->function, running->round);
	if (write(STDOUT_FILENO, line, (size_t)n) < 0)
		_exit(2);
	signal(number, SIG_DFL);
	raise(number);
}

// --- sets

// The sets of this CPU and build up to MASKSTORE_ISA, and why others are left out.
static void find_sets(struct check *c) {
	static const char *const levels[] = {"scalar", "avx2", "avx512", "amx"};
	const char *limit = getenv("MASKSTORE_ISA");
	c->set = c->sets[c->n_sets++] = scalar_set();
	for (size_t i = 1; i < sizeof levels / sizeof levels[0]; i++) {
		const struct kernels *set = kernels_get(cpu_flags_up_to(levels[i]) & cpu_flags_up_to(limit));
		if (!strcmp(set->name, levels[i]))
			c->sets[c->n_sets++] = set;
		else
			printf("skipped: %s: %s\n", levels[i], limit ? "MASKSTORE_ISA forbids it, or this CPU or build lacks it" : "this CPU or build lacks it");
	}
	if (kernels_get(cpu_flags_up_to(limit)) != c->sets[c->n_sets - 1])
		check_fail(c, "the best set, %s, is not in the list of levels", kernels_get(cpu_flags_up_to(limit))->name);
}

static uint64_t hash_name(const char *name) {
	uint64_t h = 1469598103934665603u; // FNV-1a
	for (; *name; name++)
		h = (h ^ (uint8_t)*name) * 1099511628211u;
	return h;
}

static void run_function(struct check *c, const struct check_function *f, int round, int factor) {
	int failed = c->n_failed, end = round >= 0 ? round + 1 : f->rounds * factor;
	c->function = f->name;
	for (c->round = round >= 0 ? round : 0; c->round < end; c->round++) {
		c->rng.state = (c->seed * 0x9e3779b97f4a7c15u) ^ hash_name(f->name) ^ ((uint64_t)c->round << 32);
		c->set = c->sets[0];
		c->shape[0] = 0;
		f->run(c);
	}
	printf("%-20s %6d rounds  %s\n", f->name, end - (round >= 0 ? round : 0), c->n_failed == failed ? "ok" : "FAILED");
}

struct options {
	uint64_t seed;
	const char *only;
	int round, factor;
	bool bench, list;
};

static bool parse(int argc, char **argv, struct options *o) {
	*o = (struct options){.seed = 1, .round = -1, .factor = 1};
	for (int i = 1; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : NULL;
		if (!strcmp(argv[i], "--bench") || !strcmp(argv[i], "--list")) {
			*(argv[i][2] == 'b' ? &o->bench : &o->list) = true;
			continue;
		}
		if (!value)
			return false;
		if (!strcmp(argv[i], "--seed"))
			o->seed = strtoull(value, NULL, 10);
		else if (!strcmp(argv[i], "--only"))
			o->only = value;
		else if (!strcmp(argv[i], "--round"))
			o->round = (int)strtol(value, NULL, 10);
		else if (!strcmp(argv[i], "--rounds"))
			o->factor = (int)strtol(value, NULL, 10);
		else
			return false;
		i++;
	}
	return true;
}

int main(int argc, char **argv) {
	static struct check c;
	struct options o;
	if (!parse(argc, argv, &o)) {
		fprintf(stderr, "usage: checkkernels [--seed N] [--only FUNCTION] [--round N] [--rounds FACTOR] [--bench] [--list]\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	c.seed = o.seed;
	c.function = "-";
	running = &c;
	make_regions(&c);
	find_sets(&c);
	for (int i = 0; i < 3; i++)
		signal((int[]){SIGSEGV, SIGBUS, SIGILL}[i], on_signal);
	if (o.bench) {
		check_bench(&c);
		return 0;
	}
	printf("seed %" PRIu64 ", sets:", c.seed);
	for (int i = 0; i < c.n_sets; i++)
		printf(" %s", c.sets[i]->name);
	printf("\n");
	const struct check_function *const groups[] = {check_products, check_steps, check_attention};
	int n_run = 0;
	for (int i = 0; i < 3; i++)
		for (const struct check_function *f = groups[i]; f->name; f++) {
			if (o.only && strcmp(o.only, f->name))
				continue;
			n_run++;
			if (o.list)
				printf("%s\n", f->name);
			else
				run_function(&c, f, o.round, o.factor);
		}
	if (!n_run)
		printf("no function is called %s\n", o.only);
	if (c.n_failed)
		printf("%d failures\n", c.n_failed);
	if (c.n_failed || !n_run)
		return 1;
	return c.n_sets > 1 ? 0 : EXIT_SKIP; // the scalar set's own bounds were checked all the same
}
