// SPDX-License-Identifier: MIT
// How fast this machine prefills, measured as prefills happen, and so how much of a prompt somebody who types can wait for. Private to the complete room.
//
// A token costs more the more tokens lie before it, since it attends to all of them: at 4,000 twice as much as at the start of a text (docs/speed.md). So the time is
// averaged apart for places before and behind PACE_DEEP_TOKENS, and a straight line through the two averages says what a token costs in between and beyond.
#ifndef MASKSTORE_COMPLETE_PACE_H
#define MASKSTORE_COMPLETE_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PACE_DEEP_TOKENS 1024

// Zeroed: nothing measured yet.
struct pace {
	double us[2];    // moving averages of the microseconds of a token, shallow and deep; 0: not measured
	double depth[2]; // and of the tokens before it
};

// Takes in that n_tokens behind `depth` others took so long. Few tokens are left out: they say more about reading weights.
void pace_measure(struct pace *p, size_t depth, size_t n_tokens, int64_t us);
// Microseconds that n_tokens behind `depth` others will take. Pure.
double pace_predict_us(const struct pace *p, size_t depth, size_t n_tokens);
// Whether so many tokens take longer than somebody who types should wait for the first one, left_us before the deadline. Pure.
bool pace_is_slow(const struct pace *p, size_t depth, size_t n_tokens, int64_t left_us);
// Size of the short window: the largest that isn't slow. Pure.
int pace_window_tokens(const struct pace *p, int64_t left_us);

#endif
