// SPDX-License-Identifier: MIT
// What jansson would refuse a whole message for, mended in place before it parses: lone surrogates, invalid UTF-8, numbers out of range,
// zero characters in object keys. Pure; any thread.
//
// A didChange that is lost is a silent difference between the editor's text and ours, so a message is mended so that the text keeps
// its length in the client's units: a lone surrogate escape becomes \ufffd (one UTF-16 unit), each invalid byte one '?' (one byte and one
// unit, as Neovim counts it), a raw surrogate (ED A0..BF xx) U+FFFD. Facts: lsp.md 1.9.
#ifndef MASKSTORE_LSP_PREPASS_H
#define MASKSTORE_LSP_PREPASS_H

#include <stddef.h>

// Mends json[n_bytes]; the length never changes. Returns the number of places that were changed. JSON_ALLOW_NUL is still needed
// for \u0000 in values.
size_t prepass_mend(char *json, size_t n_bytes);

#endif
