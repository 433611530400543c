// SPDX-License-Identifier: MIT
// UTF-8 decoding after the table of well-formed sequences in the Unicode standard (table 3-7).
#include "base/utf8.h"

static bool is_tail(unsigned char c) {
	return (c & 0xc0) == 0x80;
}

size_t utf8_sequence(const char *text, size_t n_bytes) {
	const unsigned char *s = (const unsigned char *)text;
	if (!n_bytes)
		return 0;
	if (s[0] < 0x80)
		return 1;
	if (s[0] < 0xc2 || s[0] > 0xf4)
		return 0;
	if (n_bytes < 2 || !is_tail(s[1]))
		return 0;
	if (s[0] < 0xe0)
		return 2;
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf0 && s[1] < 0x90) ||
	    (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	if (n_bytes < 3 || !is_tail(s[2]))
		return 0;
	if (s[0] < 0xf0)
		return 3;
	return n_bytes >= 4 && is_tail(s[3]) ? 4 : 0;
}

size_t utf8_decode(const char *text, size_t n_bytes, uint32_t *code_point) {
	const unsigned char *s = (const unsigned char *)text;
	size_t n = utf8_sequence(text, n_bytes);
	switch (n) {
	case 1: *code_point = s[0]; break;
	case 2: *code_point = (s[0] & 0x1fu) << 6 | (s[1] & 0x3fu); break;
	case 3: *code_point = (s[0] & 0x0fu) << 12 | (s[1] & 0x3fu) << 6 | (s[2] & 0x3fu); break;
	case 4: *code_point = (s[0] & 0x07u) << 18 | (s[1] & 0x3fu) << 12 | (s[2] & 0x3fu) << 6 | (s[3] & 0x3fu); break;
	default: break;
	}
	return n;
}

size_t utf8_encode(uint32_t c, char out[4]) {
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (char)(0xc0 | c >> 6);
		out[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		out[0] = (char)(0xe0 | c >> 12);
		out[1] = (char)(0x80 | (c >> 6 & 0x3f));
		out[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | c >> 18);
	out[1] = (char)(0x80 | (c >> 12 & 0x3f));
	out[2] = (char)(0x80 | (c >> 6 & 0x3f));
	out[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

bool utf8_valid(const char *text, size_t n_bytes) {
	for (size_t i = 0; i < n_bytes;) {
		size_t n = utf8_sequence(text + i, n_bytes - i);
		if (!n)
			return false;
		i += n;
	}
	return true;
}
