// SPDX-License-Identifier: MIT
// Checks a GGUF file and builds its tables.
//
// One walk, front to back, by a cursor that never passes the end: a count is checked against the bytes that are left (and
// against a stated limit) before anything is allocated or looped over, so memory and time are bounded by the file's size.
// Afterwards every stored pointer lies inside the file and its length was checked. Keys and tensor names are unique.
//
// Format: ggml docs/gguf.md, versions 2 and 3. Numbers are unaligned little-endian and are read byte by byte, which
// compilers turn into plain loads.
#include <limits.h>
#include <stdlib.h>

#include "model/gguf_internal.h"

#define FIX GGUF_FIX

// Far above real files (about 40 pairs, 400 tensors, keys of 60 bytes), low enough that tables stay small.
#define MAX_PAIRS 65536u
#define MAX_TENSORS 65536u
#define MAX_NAME_BYTES 65535u // of a key, as the format says
#define MAX_TENSOR_NAME_BYTES 255u
#define DEFAULT_ALIGNMENT 32u
#define MIN_ALIGNMENT 8u // what the kernels' loads of weights need at least
#define MAX_ALIGNMENT (1u << 20)
#define MIN_PAIR_BYTES (8 + 1 + 4 + 1)           // key length, key, type, value
#define MIN_TENSOR_BYTES (8 + 1 + 4 + 8 + 4 + 8) // name length, name, n_dims, one dimension, type, offset

// Reading place. Invariant: at ≤ end.
struct cursor {
	const uint8_t *at;
	const uint8_t *end;
};

static size_t left(const struct cursor *c) {
	return (size_t)(c->end - c->at);
}

static bool read_u32(struct cursor *c, uint32_t *out) {
	if (left(c) < 4)
		return false;
	*out = gguf_load_u32(c->at);
	c->at += 4;
	return true;
}

static bool read_u64(struct cursor *c, uint64_t *out) {
	if (left(c) < 8)
		return false;
	*out = gguf_load_u64(c->at);
	c->at += 8;
	return true;
}

// A string whose length fits the rest of the file.
static bool read_str(struct cursor *c, struct gguf_str *out) {
	uint64_t n;
	struct cursor ahead = *c;
	if (!read_u64(&ahead, &n) || n > left(&ahead))
		return false;
	*out = (struct gguf_str){(const char *)ahead.at, (size_t)n};
	c->at = ahead.at + n;
	return true;
}

// Names come from the file: shown shortened and with unprintable bytes replaced.
struct shown {
	char text[80];
};

static struct shown show(struct gguf_str s) {
	struct shown out;
	size_t n = s.len_bytes < sizeof out.text ? s.len_bytes : sizeof out.text - 1;
	for (size_t i = 0; i < n; i++)
		out.text[i] = (s.data[i] >= 0x20 && s.data[i] < 0x7F) ? s.data[i] : '?';
	out.text[n] = 0;
	if (n < s.len_bytes)
		memcpy(out.text + n - 3, "...", 3);
	return out;
}

// ---- metadata ------------------------------------------------------------------------------------------------------

static enum err cut_short(const struct gguf_str *key, struct err_msg *msg) {
	return err_set(msg, ERR_FORMAT, "the value of \"%s\" goes past the end of the file: it is cut short or damaged; " FIX,
	               show(*key).text);
}

static enum err check_bools(const struct gguf_pair *p, struct err_msg *msg) {
	for (uint64_t i = 0; i < p->n; i++)
		if (p->data[i] > 1)
			return err_set(msg, ERR_FORMAT, "\"%s\" holds a truth value of %d, not 0 or 1; " FIX, show(p->key).text, p->data[i]);
	return ERR_OK;
}

static enum err read_array(struct cursor *c, struct gguf_pair *p, struct err_msg *msg) {
	uint32_t type;
	if (!read_u32(c, &type) || !read_u64(c, &p->n))
		return cut_short(&p->key, msg);
	if (type == GGUF_ARRAY)
		return err_set(msg, ERR_UNSUPPORTED, "\"%s\" is an array of arrays, which no supported model uses", show(p->key).text);
	if (type > GGUF_F64)
		return err_set(msg, ERR_FORMAT, "\"%s\" has elements of unknown type %u; " FIX, show(p->key).text, type);
	p->elem_type = (enum gguf_type)type;
	p->data = c->at;
	size_t each = p->elem_type == GGUF_STRING ? 8 : gguf_value_bytes(p->elem_type);
	if (p->n > left(c) / each)
		return err_set(msg, ERR_FORMAT, "\"%s\" claims %llu elements, more than the file can hold; " FIX, show(p->key).text,
		               (unsigned long long)p->n);
	if (p->elem_type == GGUF_STRING) {
		struct gguf_str s;
		for (uint64_t i = 0; i < p->n; i++)
			if (!read_str(c, &s))
				return cut_short(&p->key, msg);
		return ERR_OK;
	}
	c->at += p->n * each;
	return p->elem_type == GGUF_BOOL ? check_bools(p, msg) : ERR_OK;
}

static enum err read_value(struct cursor *c, struct gguf_pair *p, struct err_msg *msg) {
	if (p->type == GGUF_ARRAY)
		return read_array(c, p, msg);
	if (p->type == GGUF_STRING) {
		struct gguf_str s;
		if (!read_str(c, &s))
			return cut_short(&p->key, msg);
		p->data = (const uint8_t *)s.data;
		p->n = s.len_bytes;
		return ERR_OK;
	}
	size_t n_bytes = gguf_value_bytes(p->type);
	if (left(c) < n_bytes)
		return cut_short(&p->key, msg);
	p->data = c->at;
	p->n = 1;
	c->at += n_bytes;
	return p->type == GGUF_BOOL ? check_bools(p, msg) : ERR_OK;
}

static enum err read_pair(struct cursor *c, size_t i, struct gguf_pair *p, struct err_msg *msg) {
	uint32_t type;
	if (!read_str(c, &p->key))
		return err_set(msg, ERR_FORMAT, "the key of metadata pair %zu goes past the end of the file: it is cut short or damaged; " FIX, i);
	if (p->key.len_bytes == 0 || p->key.len_bytes > MAX_NAME_BYTES)
		return err_set(msg, ERR_FORMAT, "the key of metadata pair %zu has %zu bytes (1 to %u allowed); " FIX, i, p->key.len_bytes,
		               MAX_NAME_BYTES);
	if (!read_u32(c, &type))
		return cut_short(&p->key, msg);
	if (type > GGUF_F64)
		return err_set(msg, ERR_FORMAT, "\"%s\" has a value of unknown type %u; " FIX, show(p->key).text, type);
	p->type = (enum gguf_type)type;
	return read_value(c, p, msg);
}

static enum err read_pairs(struct gguf *g, struct cursor *c, uint64_t n, struct err_msg *msg) {
	if (n > MAX_PAIRS || n > left(c) / MIN_PAIR_BYTES)
		return err_set(msg, ERR_FORMAT, "the header claims %llu metadata pairs, more than the file can hold or the limit of %u; " FIX,
		               (unsigned long long)n, MAX_PAIRS);
	g->pairs = calloc(n ? (size_t)n : 1, sizeof *g->pairs);
	if (!g->pairs)
		return err_set(msg, ERR_NOMEM, "no memory for %llu metadata pairs", (unsigned long long)n);
	for (; g->n_pairs < n; g->n_pairs++) {
		enum err e = read_pair(c, g->n_pairs, &g->pairs[g->n_pairs], msg);
		if (e)
			return e;
	}
	return ERR_OK;
}

// ---- tensors -------------------------------------------------------------------------------------------------------

// Names of ggml's other tensor types that are met in published files, for the message only.
static const char *ggml_type_name(uint32_t type) {
	static const char *const names[] = {
		[10] = "Q2_K", [11] = "Q3_K", [16] = "IQ2_XXS", [17] = "IQ2_XS", [18] = "IQ3_XXS", [19] = "IQ1_S", [20] = "IQ4_NL",
		[21] = "IQ3_S", [22] = "IQ2_S", [23] = "IQ4_XS", [29] = "IQ1_M", [34] = "TQ1_0", [35] = "TQ2_0", [39] = "MXFP4",
	};
	const char *name = type < sizeof names / sizeof *names ? names[type] : NULL;
	return name ? name : "unknown to this version";
}

// Bytes of the tensor by its type and dimensions, with every product checked.
static enum err tensor_size(struct gguf_tensor *t, struct err_msg *msg) {
	struct dtype_info info = dtype_info((uint32_t)t->type);
	for (int i = 0; i < t->n_dims; i++)
		if (t->dims[i] == 0 || t->dims[i] > INT32_MAX)
			return err_set(msg, ERR_FORMAT, "tensor \"%s\": dimension %d is %llu (1 to %d allowed); " FIX, show(t->name).text, i,
			               (unsigned long long)t->dims[i], INT32_MAX);
	if (t->dims[0] % (uint64_t)info.block_elems)
		return err_set(msg, ERR_FORMAT, "tensor \"%s\": rows of %llu values are not whole %s blocks of %d; " FIX, show(t->name).text,
		               (unsigned long long)t->dims[0], info.name, info.block_elems);
	uint64_t size = t->dims[0] / (uint64_t)info.block_elems * (uint64_t)info.block_bytes;
	for (int i = 1; i < t->n_dims; i++)
		if (__builtin_mul_overflow(size, t->dims[i], &size))
			return err_set(msg, ERR_FORMAT, "tensor \"%s\": the product of its dimensions is absurd; " FIX, show(t->name).text);
	if (size > SIZE_MAX)
		return err_set(msg, ERR_FORMAT, "tensor \"%s\" is larger than memory can be; " FIX, show(t->name).text);
	t->size_bytes = (size_t)size;
	return ERR_OK;
}

static enum err tensor_cut_short(size_t i, struct err_msg *msg) {
	return err_set(msg, ERR_FORMAT, "the description of tensor %zu goes past the end of the file: it is cut short or damaged; " FIX, i);
}

// One entry of the tensor table; its data offset goes to *offset, to be placed when the table's end is known.
static enum err read_tensor(struct cursor *c, size_t i, struct gguf_tensor *t, uint64_t *offset, struct err_msg *msg) {
	uint32_t n_dims, type;
	if (!read_str(c, &t->name))
		return tensor_cut_short(i, msg);
	if (t->name.len_bytes == 0 || t->name.len_bytes > MAX_TENSOR_NAME_BYTES)
		return err_set(msg, ERR_FORMAT, "the name of tensor %zu has %zu bytes (1 to %u allowed); " FIX, i, t->name.len_bytes,
		               MAX_TENSOR_NAME_BYTES);
	if (!read_u32(c, &n_dims))
		return tensor_cut_short(i, msg);
	if (n_dims < 1 || n_dims > 4)
		return err_set(msg, ERR_FORMAT, "tensor \"%s\" has %u dimensions (1 to 4 allowed); " FIX, show(t->name).text, n_dims);
	t->n_dims = (int)n_dims;
	for (int d = 0; d < 4; d++) {
		t->dims[d] = 1;
		if (d < t->n_dims && !read_u64(c, &t->dims[d]))
			return tensor_cut_short(i, msg);
	}
	if (!read_u32(c, &type) || !read_u64(c, offset))
		return tensor_cut_short(i, msg);
	if (!dtype_info(type).name)
		return err_set(msg, ERR_UNSUPPORTED,
		               "tensor \"%s\" has type %u (%s), which is not supported; use a file in Q4_K_M, Q8_0 or F16", show(t->name).text,
		               type, ggml_type_name(type));
	t->type = (enum dtype)type;
	return tensor_size(t, msg);
}

static enum err alignment(const struct gguf *g, uint32_t *out, struct err_msg *msg) {
	*out = DEFAULT_ALIGNMENT;
	if (!gguf_has(g, "general.alignment"))
		return ERR_OK;
	uint32_t a = 0;
	if (!gguf_get_u32(g, "general.alignment", &a) || a < MIN_ALIGNMENT || a > MAX_ALIGNMENT || (a & (a - 1)))
		return err_set(msg, ERR_FORMAT, "\"general.alignment\" must be a power of two from %u to %u; " FIX, MIN_ALIGNMENT, MAX_ALIGNMENT);
	*out = a;
	return ERR_OK;
}

// Places the tensors' data: `offsets` count from the first aligned byte after the table, where `c` stands.
static enum err place_tensors(struct gguf *g, const struct cursor *c, const uint64_t *offsets, struct err_msg *msg) {
	uint32_t align;
	enum err e = alignment(g, &align, msg);
	if (e)
		return e;
	size_t used = (size_t)(c->at - g->data), pad = (align - used % align) % align;
	size_t room = left(c) > pad ? left(c) - pad : 0;
	for (size_t i = 0; i < g->n_tensors; i++) {
		struct gguf_tensor *t = &g->tensors[i];
		if (offsets[i] % align)
			return err_set(msg, ERR_FORMAT, "tensor \"%s\": its offset %llu is not a multiple of the alignment %u; " FIX,
			               show(t->name).text, (unsigned long long)offsets[i], align);
		if (offsets[i] > room || t->size_bytes > room - offsets[i])
			return err_set(msg, ERR_FORMAT,
			               "tensor \"%s\" (%zu bytes at %llu) goes past the end of the file, which has %zu bytes of data: it is cut short "
			               "or damaged; " FIX,
			               show(t->name).text, t->size_bytes, (unsigned long long)offsets[i], room);
		t->data = c->at + pad + offsets[i];
	}
	return ERR_OK;
}

static enum err read_tensors(struct gguf *g, struct cursor *c, uint64_t n, struct err_msg *msg) {
	if (n > MAX_TENSORS || n > left(c) / MIN_TENSOR_BYTES)
		return err_set(msg, ERR_FORMAT, "the header claims %llu tensors, more than the file can hold or the limit of %u; " FIX,
		               (unsigned long long)n, MAX_TENSORS);
	size_t n_alloc = n ? (size_t)n : 1;
	g->tensors = calloc(n_alloc, sizeof *g->tensors);
	uint64_t *offsets = calloc(n_alloc, sizeof *offsets);
	enum err e = g->tensors && offsets ? ERR_OK : err_set(msg, ERR_NOMEM, "no memory for %llu tensors", (unsigned long long)n);
	for (; !e && g->n_tensors < n; g->n_tensors++)
		e = read_tensor(c, g->n_tensors, &g->tensors[g->n_tensors], &offsets[g->n_tensors], msg);
	if (!e)
		e = place_tensors(g, c, offsets, msg);
	free(offsets);
	return e;
}

// ---- sorted indexes ------------------------------------------------------------------------------------------------

// Heap sort of `order` by name: no recursion, no allocation, O(n log n) whatever the file says.
static void sort_by_name(const void *table, size_t item_bytes, uint32_t *order, size_t n) {
	size_t heap = n / 2, end = n;
	while (end > 1) {
		uint32_t moved;
		if (heap > 0) {
			moved = order[--heap];
		} else {
			moved = order[--end];
			order[end] = order[0];
		}
		struct gguf_str name = gguf_name_at(table, item_bytes, moved);
		size_t at = heap;
		for (size_t child; (child = 2 * at + 1) < end; at = child) {
			if (child + 1 < end) {
				struct gguf_str next = gguf_name_at(table, item_bytes, order[child + 1]);
				child += gguf_compare(gguf_name_at(table, item_bytes, order[child]), next.data, next.len_bytes) < 0;
			}
			if (gguf_compare(gguf_name_at(table, item_bytes, order[child]), name.data, name.len_bytes) <= 0)
				break;
			order[at] = order[child];
		}
		order[at] = moved;
	}
}

// Builds the index of a table. ERR_FORMAT if a name is there twice.
static enum err index_names(const void *table, size_t item_bytes, size_t n, const char *what, uint32_t **out, struct err_msg *msg) {
	uint32_t *order = malloc((n ? n : 1) * sizeof *order);
	if (!order)
		return err_set(msg, ERR_NOMEM, "no memory for the index of %zu names", n);
	*out = order;
	for (size_t i = 0; i < n; i++)
		order[i] = (uint32_t)i;
	sort_by_name(table, item_bytes, order, n);
	for (size_t i = 1; i < n; i++) {
		struct gguf_str a = gguf_name_at(table, item_bytes, order[i - 1]), b = gguf_name_at(table, item_bytes, order[i]);
		if (gguf_compare(a, b.data, b.len_bytes) == 0)
			return err_set(msg, ERR_FORMAT, "the %s \"%s\" appears twice; " FIX, what, show(a).text);
	}
	return ERR_OK;
}

// ---- the whole file -------------------------------------------------------------------------------------------------------

static enum err check_version(uint32_t version, struct err_msg *msg) {
	if (version == 2 || version == 3)
		return ERR_OK;
	if (version == 0x02000000u || version == 0x03000000u)
		return err_set(msg, ERR_UNSUPPORTED, "the file is big-endian; use a little-endian GGUF file");
	return err_set(msg, ERR_UNSUPPORTED, "GGUF version %u is not supported (2 and 3 are); use a file of a current converter", version);
}

enum err gguf_parse(struct gguf *g, struct err_msg *msg) {
	struct cursor c = {g->data, g->data + g->size_bytes};
	uint32_t version;
	uint64_t n_tensors, n_pairs;
	if (g->size_bytes == 0)
		return err_set(msg, ERR_FORMAT, "the file is empty; " FIX);
	size_t n_magic = g->size_bytes < 4 ? g->size_bytes : 4;
	if (memcmp(g->data, "GGUF", n_magic) != 0)
		return err_set(msg, ERR_FORMAT, "not a GGUF file (it does not start with \"GGUF\"); choose a .gguf model file");
	c.at += n_magic;
	if (!read_u32(&c, &version))
		return err_set(msg, ERR_FORMAT, "the file is cut short inside its header; " FIX);
	enum err e = check_version(version, msg);
	if (e)
		return e;
	if (!read_u64(&c, &n_tensors) || !read_u64(&c, &n_pairs))
		return err_set(msg, ERR_FORMAT, "the file is cut short inside its header; " FIX);
	e = read_pairs(g, &c, n_pairs, msg);
	if (!e)
		e = index_names(g->pairs, sizeof *g->pairs, g->n_pairs, "metadata key", &g->pair_order, msg);
	if (!e)
		e = read_tensors(g, &c, n_tensors, msg);
	if (!e)
		e = index_names(g->tensors, sizeof *g->tensors, g->n_tensors, "tensor name", &g->tensor_order, msg);
	return e;
}
