// SPDX-License-Identifier: MIT
// One walk over the bytes of a message: inside strings escapes and UTF-8 are checked, outside numbers. Every change keeps the length,
// so the walk works in place; text that is not JSON at all passes through and is refused by the parser.
#include "prepass.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

#define SAFE_INTEGER_DIGITS 18   // any integer of so many digits fits into 64 bits
#define SAFE_REAL_DIGITS 300     // any number of so many digits without an exponent fits into a double

static int hex_value(char c) {
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// The code unit of a \uXXXX escape at p, or -1.
static int escape_unit(const char *p, size_t n) {
	if (n < 6 || p[0] != '\\' || p[1] != 'u')
		return -1;
	int unit = 0;
	for (int i = 2; i < 6; i++) {
		int v = hex_value(p[i]);
		if (v < 0)
			return -1;
		unit = unit * 16 + v;
	}
	return unit;
}

static bool is_high(int unit) {
	return unit >= 0xd800 && unit <= 0xdbff;
}

static bool is_low(int unit) {
	return unit >= 0xdc00 && unit <= 0xdfff;
}

// Bytes of the escape at p (2, 6 or 12 for a pair); lone surrogates are replaced.
static size_t mend_escape(char *p, size_t n, size_t *changes) {
	int unit = escape_unit(p, n);
	if (unit < 0)
		return n < 2 ? n : 2;
	if (is_high(unit) && is_low(escape_unit(p + 6, n - 6)))
		return 12;
	if (is_high(unit) || is_low(unit)) {
		memcpy(p + 2, "fffd", 4);
		++*changes;
	}
	return 6;
}

// Bytes of the character at p (not ASCII); invalid ones are replaced.
static size_t mend_utf8(char *p, size_t n, size_t *changes) {
	size_t len = utf8_sequence(p, n);
	if (len)
		return len;
	++*changes;
	if (n >= 3 && (unsigned char)p[0] == 0xed && (unsigned char)p[1] >= 0xa0 && (unsigned char)p[1] <= 0xbf &&
	    ((unsigned char)p[2] & 0xc0) == 0x80) {
		memcpy(p, "\xef\xbf\xbd", 3);
		return 3;
	}
	*p = '?';
	return 1;
}

static bool is_blank(char c) {
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// Is the string that ends at p a key (a colon follows)?
static bool colon_follows(const char *p, const char *end) {
	while (p < end && is_blank(*p))
		p++;
	return p < end && *p == ':';
}

// jansson refuses a zero character in a key even where it allows them in values.
static void mend_key(char *p, const char *end, size_t *changes) {
	while (p < end) {
		int unit = escape_unit(p, (size_t)(end - p));
		if (unit == 0) {
			memcpy(p + 2, "fffd", 4);
			++*changes;
		}
		p += unit >= 0 ? 6 : *p == '\\' && p + 1 < end ? 2 : 1;
	}
}

// p is behind the opening quote; returns the place behind the closing one.
static char *mend_string(char *p, char *end, size_t *changes) {
	char *begin = p;
	bool has_zero = false;
	while (p < end && *p != '"') {
		if (*p == '\\') {
			has_zero |= escape_unit(p, (size_t)(end - p)) == 0;
			p += mend_escape(p, (size_t)(end - p), changes);
		} else if ((unsigned char)*p < 0x80) {
			p++;
		} else {
			p += mend_utf8(p, (size_t)(end - p), changes);
		}
	}
	if (p >= end)
		return end;
	if (has_zero && colon_follows(p + 1, end))
		mend_key(begin, p, changes);
	return p + 1;
}

static bool in_number(char c) {
	return (c >= '0' && c <= '9') || c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-';
}

// Writes 1e300 over a number whose value does not fit; blanks fill the rest (they are allowed between tokens).
static void write_huge(char *p, size_t n, size_t *changes) {
	size_t sign = *p == '-';
	if (n - sign < 5)
		return;
	memset(p + sign, ' ', n - sign);
	memcpy(p + sign, "1e300", 5);
	++*changes;
}

// Does this real exceed a double? The bytes behind the number need not end it for strtod, so it works on a copy.
static bool overflows(const char *p, size_t n) {
	char small[64];
	char *text = n < sizeof small ? small : malloc(n + 1);
	if (!text)
		return false;
	memcpy(text, p, n);
	text[n] = 0;
	bool huge = isinf(strtod(text, NULL));
	if (text != small)
		free(text);
	return huge;
}

// An integer beyond 64 bits becomes a real of nearly the same value; a real beyond a double 1e300.
static void mend_number(char *p, size_t n, size_t *changes) {
	size_t sign = *p == '-', digits = n - sign;
	bool integer = true;
	for (size_t i = sign; i < n; i++)
		integer &= p[i] >= '0' && p[i] <= '9';
	if (integer && digits > SAFE_REAL_DIGITS) {
		write_huge(p, n, changes);
	} else if (integer && digits > SAFE_INTEGER_DIGITS) {
		memcpy(p + n - 2, "e2", 2);
		++*changes;
	} else if (!integer && overflows(p, n)) {
		write_huge(p, n, changes);
	}
}

size_t prepass_mend(char *json, size_t n_bytes) {
	char *p = json, *end = json + n_bytes;
	size_t changes = 0;
	while (p < end) {
		if (*p == '"') {
			p = mend_string(p + 1, end, &changes);
		} else if ((*p >= '0' && *p <= '9') || *p == '-') {
			char *begin = p++;
			while (p < end && in_number(*p))
				p++;
			mend_number(begin, (size_t)(p - begin), &changes);
		} else {
			p++;
		}
	}
	return changes;
}
