// SPDX-License-Identifier: MIT
// UTF-8, strictly as RFC 3629: no surrogates, no overlong forms, nothing above U+10FFFF. Pure.
#ifndef MASKSTORE_BASE_UTF8_H
#define MASKSTORE_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Length in bytes (1..4) of the valid sequence at text[0..n_bytes), or 0 if there is none (or n_bytes is 0).
size_t utf8_sequence(const char *text, size_t n_bytes);
// Decodes the sequence at `text` into *code_point; returns its length, or 0 as above (then *code_point is untouched).
size_t utf8_decode(const char *text, size_t n_bytes, uint32_t *code_point);
// Writes the UTF-8 form of a code point (≤ 0x10FFFF, no surrogate) to out[4]; returns its length.
size_t utf8_encode(uint32_t code_point, char out[4]);
// True if all of text[n_bytes] is valid.
bool utf8_valid(const char *text, size_t n_bytes);

#endif
