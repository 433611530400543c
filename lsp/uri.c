// SPDX-License-Identifier: MIT
// The key of a URI. %3A and ':', hex digits of either case, needless escapes and drive letters of either case name the same document
// (lsp.md items 50 to 53); '+' is a plus, not a blank.
#include "uri.h"

#include <string.h>
#include <strings.h>

static int hex_value(char c) {
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_alpha(char c) {
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static char lower(char c) {
	return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

// Length of the scheme with its colon, 0 if there is none.
static size_t scheme_length(const char *uri, size_t n_bytes) {
	size_t i = 0;
	while (i < n_bytes && (is_alpha(uri[i]) || (i && ((uri[i] >= '0' && uri[i] <= '9') || strchr("+-.", uri[i])))) && uri[i])
		i++;
	return i && i < n_bytes && uri[i] == ':' ? i + 1 : 0;
}

static size_t append_decoded(const char *p, size_t n, struct buf *key) {
	int high = n >= 3 && p[0] == '%' ? hex_value(p[1]) : -1, low = high >= 0 ? hex_value(p[2]) : -1;
	if (low < 0) {
		buf_append_char(key, p[0]);
		return 1;
	}
	int byte = high * 16 + low;
	if (byte == '/' || byte == '%' || byte == 0)
		buf_appendf(key, "%%%02X", (unsigned)byte);
	else
		buf_append_char(key, (char)byte);
	return 3;
}

// "file:///C:/x" and "file:///c:/x" are one file.
static void lower_drive(char *key, size_t n_bytes) {
	static const char prefix[] = "file:///";
	size_t at = sizeof prefix - 1;
	if (n_bytes >= at + 2 && !memcmp(key, prefix, at) && is_alpha(key[at]) && key[at + 1] == ':')
		key[at] = lower(key[at]);
}

void uri_key(const char *uri, size_t n_bytes, struct buf *key) {
	size_t begin = key->len_bytes, i = 0, scheme = scheme_length(uri, n_bytes);
	for (; i < scheme; i++)
		buf_append_char(key, lower(uri[i]));
	while (i < n_bytes)
		i += append_decoded(uri + i, n_bytes - i, key);
	if (!key->failed && key->data)
		lower_drive(key->data + begin, key->len_bytes - begin);
}

static bool ends_with(const char *text, size_t n_bytes, const char *end) {
	size_t n = strlen(end);
	return n_bytes >= n && !strncasecmp(text + n_bytes - n, end, n);
}

bool uri_is_python(const char *uri, size_t n_bytes) {
	return ends_with(uri, n_bytes, ".py") || ends_with(uri, n_bytes, ".pyi");
}
