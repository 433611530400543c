// SPDX-License-Identifier: MIT
// GGUF files: opening and looking up. What may be trusted was checked by gguf_parse.c, so lookups need no further checks; names
// are found by binary search in a sorted index.
//
// Immutable after opening; any thread. A file that is cut short by another process while it is mapped raises SIGBUS on
// access; models are not edited in place.
#include "model/gguf.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/pages.h"
#include "model/gguf_internal.h"

#define FIX GGUF_FIX
#define MEMORY_ALIGN_BYTES 32

// ---- opening -------------------------------------------------------------------------------------------------------

// Puts the file's name before the reason; of a long path only the end, so that the reason is never cut off,
// and on one line.
static enum err name_file(struct err_msg *msg, enum err e, const char *path) {
	char shown[160];
	size_t n = strlen(path), skip = n < sizeof shown ? 0 : n - sizeof shown + 1;
	for (size_t i = 0; i <= n - skip; i++)
		shown[i] = (unsigned char)path[skip + i] < 0x20 && i < n - skip ? '?' : path[skip + i];
	return err_prefix(msg, e, "%s%s", skip ? "..." : "", shown);
}

static enum err open_bytes(const void *data, size_t size_bytes, bool mapped, const char *name, struct gguf **out, struct err_msg *msg) {
	struct gguf *g = calloc(1, sizeof *g);
	char *path = strdup(name);
	if (!g || !path) {
		free(g);
		free(path);
		return err_set(msg, ERR_NOMEM, "no memory to open a model file");
	}
	*g = (struct gguf){.path = path, .data = data, .size_bytes = size_bytes};
	enum err e = gguf_parse(g, msg);
	if (e) {
		gguf_close(g);
		return e;
	}
	g->mapped = mapped; // only now: on failure the caller unmaps
	*out = g;
	return ERR_OK;
}

enum err gguf_open_memory(const void *data, size_t size_bytes, const char *name, struct gguf **out, struct err_msg *msg) {
	if ((uintptr_t)data % MEMORY_ALIGN_BYTES)
		return err_set(msg, ERR_ARG, "%s: the bytes of a model must be aligned to %d", name, MEMORY_ALIGN_BYTES);
	enum err e = open_bytes(data, size_bytes, false, name, out, msg);
	return e ? name_file(msg, e, name) : ERR_OK;
}

static enum err map_and_open(int fd, const char *path, struct gguf **out, struct err_msg *msg) {
	struct stat st;
	if (fstat(fd, &st) != 0)
		return err_set(msg, ERR_IO, "%s", strerror(errno));
	if (S_ISDIR(st.st_mode))
		return err_set(msg, ERR_IO, "is a folder; name the .gguf file in it");
	if (!S_ISREG(st.st_mode))
		return err_set(msg, ERR_IO, "is not a regular file; name a .gguf file");
	if (st.st_size == 0)
		return err_set(msg, ERR_FORMAT, "the file is empty; " FIX);
	if ((uintmax_t)st.st_size > SIZE_MAX)
		return err_set(msg, ERR_LIMIT, "the file is too large for this machine's addresses");
	size_t size = (size_t)st.st_size;
	const void *data = pages_map_file(fd, size);
	if (!data)
		return err_set(msg, ERR_IO, "cannot be mapped: %s", strerror(errno));
	enum err e = open_bytes(data, size, true, path, out, msg);
	if (e)
		pages_unmap_file(data, size);
	return e;
}

enum err gguf_open(const char *path, struct gguf **out, struct err_msg *msg) {
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // non-blocking: a pipe's name must not hang
	enum err e;
	if (fd < 0) {
		bool missing = errno == ENOENT;
		e = err_set(msg, ERR_IO, "cannot be opened: %s; %s", strerror(errno),
		            missing ? "download a model with tools/fetch-model or name another with --model" : "check its permissions");
	} else {
		e = map_and_open(fd, path, out, msg);
		close(fd);
	}
	return e ? name_file(msg, e, path) : ERR_OK;
}

void gguf_close(struct gguf *g) {
	if (!g)
		return;
	if (g->mapped)
		pages_unmap_file(g->data, g->size_bytes);
	free(g->path);
	free(g->pairs);
	free(g->tensors);
	free(g->pair_order);
	free(g->tensor_order);
	free(g);
}

// ---- lookups -------------------------------------------------------------------------------------------------------

const char *gguf_path(const struct gguf *g) {
	return g->path;
}

size_t gguf_file_bytes(const struct gguf *g) {
	return g->size_bytes;
}

static bool find(const void *table, size_t item_bytes, const uint32_t *order, size_t n, const char *name, size_t *found) {
	size_t begin = 0, end = n, len = strlen(name);
	while (begin < end) {
		size_t mid = begin + (end - begin) / 2;
		int c = gguf_compare(gguf_name_at(table, item_bytes, order[mid]), name, len);
		if (c == 0) {
			*found = order[mid];
			return true;
		}
		if (c < 0)
			begin = mid + 1;
		else
			end = mid;
	}
	return false;
}

static const struct gguf_pair *find_pair(const struct gguf *g, const char *key) {
	size_t i;
	return find(g->pairs, sizeof *g->pairs, g->pair_order, g->n_pairs, key, &i) ? &g->pairs[i] : NULL;
}

bool gguf_has(const struct gguf *g, const char *key) {
	return find_pair(g, key) != NULL;
}

bool gguf_get_u32(const struct gguf *g, const char *key, uint32_t *out) {
	const struct gguf_pair *p = find_pair(g, key);
	if (!p)
		return false;
	uint64_t v;
	switch (p->type) {
	case GGUF_U8: case GGUF_U16: case GGUF_U32: case GGUF_U64:
		v = gguf_load_le(p->data, gguf_value_bytes(p->type));
		break;
	case GGUF_I8: case GGUF_I16: case GGUF_I32: case GGUF_I64:
		v = gguf_load_le(p->data, gguf_value_bytes(p->type));
		if (v >> (8 * gguf_value_bytes(p->type) - 1))
			return false; // negative
		break;
	default:
		return false;
	}
	if (v > UINT32_MAX)
		return false;
	*out = (uint32_t)v;
	return true;
}

static float load_f32(const uint8_t *p) {
	uint32_t bits = gguf_load_u32(p);
	float v;
	memcpy(&v, &bits, sizeof v);
	return v;
}

bool gguf_get_f32(const struct gguf *g, const char *key, float *out) {
	const struct gguf_pair *p = find_pair(g, key);
	if (p && p->type == GGUF_F32) {
		*out = load_f32(p->data);
		return true;
	}
	if (p && p->type == GGUF_F64) {
		uint64_t bits = gguf_load_u64(p->data);
		double v;
		memcpy(&v, &bits, sizeof v);
		if (!(fabs(v) <= 3.4028234e38))
			return false; // too large, or not a number
		*out = (float)v;
		return true;
	}
	return false;
}

bool gguf_get_bool(const struct gguf *g, const char *key, bool *out) {
	const struct gguf_pair *p = find_pair(g, key);
	if (!p || p->type != GGUF_BOOL)
		return false;
	*out = p->data[0] != 0;
	return true;
}

bool gguf_get_str(const struct gguf *g, const char *key, struct gguf_str *out) {
	const struct gguf_pair *p = find_pair(g, key);
	if (!p || p->type != GGUF_STRING)
		return false;
	*out = (struct gguf_str){(const char *)p->data, (size_t)p->n};
	return true;
}

bool gguf_get_array(const struct gguf *g, const char *key, enum gguf_type *type, size_t *n) {
	const struct gguf_pair *p = find_pair(g, key);
	if (!p || p->type != GGUF_ARRAY)
		return false;
	*type = p->elem_type;
	*n = (size_t)p->n;
	return true;
}

// The array at `key` if it has n elements of one of two types.
static const struct gguf_pair *find_array(const struct gguf *g, const char *key, enum gguf_type a, enum gguf_type b, size_t n) {
	const struct gguf_pair *p = find_pair(g, key);
	return p && p->type == GGUF_ARRAY && (p->elem_type == a || p->elem_type == b) && p->n == n ? p : NULL;
}

bool gguf_get_strs(const struct gguf *g, const char *key, struct gguf_strs *out) {
	const struct gguf_pair *p = find_pair(g, key);
	if (!p || p->type != GGUF_ARRAY || p->elem_type != GGUF_STRING)
		return false;
	*out = (struct gguf_strs){p->data, (size_t)p->n}; // lengths were checked at open
	return true;
}

struct gguf_str gguf_strs_next(struct gguf_strs *walk) {
	assert(walk->n_left > 0);
	size_t len = (size_t)gguf_load_u64(walk->at);
	struct gguf_str s = {(const char *)walk->at + 8, len};
	walk->at += 8 + len;
	walk->n_left--;
	return s;
}

bool gguf_get_i32_array(const struct gguf *g, const char *key, int32_t *out, size_t n) {
	const struct gguf_pair *p = find_array(g, key, GGUF_I32, GGUF_U32, n);
	if (!p)
		return false;
	for (size_t i = 0; i < n; i++)
		out[i] = (int32_t)gguf_load_u32(p->data + 4 * i);
	return true;
}

bool gguf_get_f32_array(const struct gguf *g, const char *key, float *out, size_t n) {
	const struct gguf_pair *p = find_array(g, key, GGUF_F32, GGUF_F32, n);
	if (!p)
		return false;
	for (size_t i = 0; i < n; i++)
		out[i] = load_f32(p->data + 4 * i);
	return true;
}

size_t gguf_n_pairs(const struct gguf *g) {
	return g->n_pairs;
}

struct gguf_str gguf_pair_key(const struct gguf *g, size_t i) {
	return g->pairs[i].key;
}

enum gguf_type gguf_pair_type(const struct gguf *g, size_t i) {
	return g->pairs[i].type;
}

size_t gguf_n_tensors(const struct gguf *g) {
	return g->n_tensors;
}

const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, size_t i) {
	return &g->tensors[i];
}

const struct gguf_tensor *gguf_tensor_find(const struct gguf *g, const char *name) {
	size_t i;
	return find(g->tensors, sizeof *g->tensors, g->tensor_order, g->n_tensors, name, &i) ? &g->tensors[i] : NULL;
}
