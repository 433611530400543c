// SPDX-License-Identifier: MIT
// Moving averages of prefill speed. Pure arithmetic on the caller's struct; threads: the caller's.
#include "complete/pace.h"

#define FIRST_TOKEN_US 1500000.0 // a whole prompt that takes longer to its first token is not waited for,
#define FIRST_TOKEN_SHARE 0.6    // nor one that takes more than this part of the time left; of the default 2.5 s these are the same
#define UNMEASURED_US 7800.0     // of a token: 128 a second
#define MEASURED_MIN_TOKENS 48
#define MEASURED_SHARE 0.3       // of a measurement in the moving average
#define LINE_MIN_TOKENS 512.0    // averages closer than this don't give a slope

// Windows in tokens: few sizes, so that the cut stands still while the measured speed wavers. 96 are hardly enough, 512 are level with more (design.md §4).
static const int WINDOWS[] = {96, 128, 192, 256, 384, 512};

void pace_measure(struct pace *p, size_t depth, size_t n_tokens, int64_t us) {
	if (n_tokens < MEASURED_MIN_TOKENS || us <= 0)
		return;
	double now = (double)us / (double)n_tokens, at = (double)depth + (double)n_tokens / 2;
	int k = at >= PACE_DEEP_TOKENS;
	double share = p->us[k] > 0 ? MEASURED_SHARE : 1;
	p->us[k] += share * (now - p->us[k]);
	p->depth[k] += share * (at - p->depth[k]);
}

double pace_predict_us(const struct pace *p, size_t depth, size_t n_tokens) {
	double n = (double)n_tokens, at = (double)depth + n / 2;
	bool shallow = p->us[0] > 0, deep = p->us[1] > 0;
	if (!shallow && !deep)
		return n * UNMEASURED_US;
	double run = p->depth[1] - p->depth[0], rise = p->us[1] - p->us[0];
	if (!shallow || !deep || run < LINE_MIN_TOKENS || rise < 0)
		return n * (deep && (at >= PACE_DEEP_TOKENS || !shallow) ? p->us[1] : p->us[0]);
	double us = p->us[0] + rise / run * (at - p->depth[0]);
	return n * (us > p->us[0] / 2 ? us : p->us[0] / 2); // the line must not run to nothing at the text's start
}

bool pace_is_slow(const struct pace *p, size_t depth, size_t n_tokens, int64_t left_us) {
	double limit = (double)left_us * FIRST_TOKEN_SHARE;
	return pace_predict_us(p, depth, n_tokens) > (limit < FIRST_TOKEN_US ? limit : FIRST_TOKEN_US);
}

int pace_window_tokens(const struct pace *p, int64_t left_us) {
	int n = WINDOWS[0];
	for (size_t i = 1; i < sizeof WINDOWS / sizeof *WINDOWS && !pace_is_slow(p, 0, (size_t)WINDOWS[i], left_us); i++)
		n = WINDOWS[i];
	return n;
}
