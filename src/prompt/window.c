// SPDX-License-Identifier: MIT
// Which part of the text goes into the prompt: whole lines within a budget of tokens.
//
// The cut stands at a multiple of 4 * PROMPT_CUT_LINES, so that the text behind it stays byte-identical for many keystrokes and lines (each move of the cut is a
// prefill of everything); where that would leave half of the budget unused it moves in steps of PROMPT_CUT_LINES, then of PROMPT_ANCHOR_LINES, then of a line; in the worst case it lies inside the cursor's line. Tokens are counted piece by piece, outwards from
// the cursor, and a piece of more than BYTES_PER_TOKEN a remaining token is never looked at, so the cost depends on the budget and not on
// the file. Where something is cut off at the start, imports and the signatures around the cut stay (head.c), on top of HEAD_MIN_BUDGET tokens and
// never instead of lines (design.md §4). Pure.
#include "prompt/internal.h"

#define BYTES_PER_TOKEN 8  // Python has 3 to 4; more than this is counted as too large unseen
#define RESERVE_TOKENS 8   // pieces tokenised together may differ from the sum of their parts at the seams
#define SUFFIX_SHARE 4     // a suffix gets at most a quarter of the budget unless everything fits
#define HEAD_MIN_BUDGET 256
#define HEAD_SHARE 8       // of the budget
#define HEAD_MAX_TOKENS 512
#define LINE_STEP_BYTES 256 // a line that is too long by itself is cut in steps

struct counter {
	const struct snapshot *s;
	prompt_count_tokens *count;
	void *user;
	struct buf text;
};

// Tokens of [begin, end), or more than `limit` where that can be told without counting.
static size_t tokens_of(struct counter *c, size_t begin, size_t end, size_t limit) {
	if (begin >= end)
		return 0;
	if (end - begin > limit * BYTES_PER_TOKEN)
		return limit + 1;
	buf_clear(&c->text);
	text_append(&c->text, c->s, begin, end);
	return c->text.failed ? 0 : c->count(c->user, c->text.data, c->text.len_bytes);
}

// The largest end ≤ `end` so that [begin, end) has at most `limit` tokens, found by proportion, at a character start.
static size_t shrink_end(struct counter *c, size_t begin, size_t end, size_t limit) {
	if (end - begin > limit * BYTES_PER_TOKEN)
		end = snapshot_char_start(c->s, begin + limit * BYTES_PER_TOKEN);
	for (size_t n; end > begin && (n = tokens_of(c, begin, end, limit)) > limit;)
		end = snapshot_char_start(c->s, begin + (end - begin) * limit / (n + 1));
	return end > begin ? end : begin;
}

// End of the suffix: the rest of the line and as many whole lines as `limit` tokens hold.
static size_t suffix_end(struct counter *c, size_t cursor, uint32_t line, uint32_t n_lines, size_t limit) {
	size_t end = snapshot_line_end(c->s, line), used = tokens_of(c, cursor, end, limit);
	if (used > limit)
		return shrink_end(c, cursor, end, limit);
	for (uint32_t i = 1; i <= n_lines && line + i < snapshot_lines(c->s); i++) {
		size_t next = snapshot_line_end(c->s, line + i);
		used += tokens_of(c, end, next, limit - used);
		if (used > limit)
			return end;
		end = next;
	}
	return end;
}

// Start of the kept text when the lines from the anchor on are more than `limit` tokens: a line, or a place inside the cursor's line.
static size_t tight_cut(struct counter *c, uint32_t anchor_line, uint32_t line, size_t heal, size_t limit) {
	for (uint32_t l = anchor_line + 1; l <= line; l++)
		if (tokens_of(c, snapshot_line_start(c->s, l), heal, limit) <= limit)
			return snapshot_line_start(c->s, l);
	size_t begin = snapshot_line_start(c->s, line), keep = heal - begin;
	if (keep > limit * BYTES_PER_TOKEN)
		keep = limit * BYTES_PER_TOKEN;
	for (;;) {
		size_t cut = (heal - begin - keep + LINE_STEP_BYTES - 1) / LINE_STEP_BYTES * LINE_STEP_BYTES + begin;
		cut = cut < heal ? snapshot_char_start(c->s, cut) : heal;
		size_t n = tokens_of(c, cut, heal, limit);
		if (n <= limit)
			return cut;
		keep = (heal - cut) * limit / (n + 1);
	}
}

// Start of the kept text within `limit` tokens. *whole: nothing had to go.
static size_t prefix_cut(struct counter *c, uint32_t anchor_lines, uint32_t anchor_line, uint32_t line, size_t heal, size_t limit, bool *whole) {
	const uint32_t STEPS[] = {4 * PROMPT_CUT_LINES, PROMPT_CUT_LINES, anchor_lines, 1};
	size_t at = snapshot_line_start(c->s, anchor_line), used = tokens_of(c, at, heal, limit);
	*whole = false;
	if (used > limit)
		return tight_cut(c, anchor_line, line, heal, limit);
	uint32_t l = anchor_line; // first line kept so far
	for (int i = 0; i < 4 && (i == 0 || used < limit / 2); i++) {
		while (l > 0) {
			uint32_t up = l % STEPS[i] ? l % STEPS[i] : STEPS[i];
			size_t begin = snapshot_line_start(c->s, l - up);
			size_t n = tokens_of(c, begin, at, limit - used);
			if (used + n > limit)
				break;
			used += n;
			l -= up;
			at = begin;
		}
	}
	*whole = l == 0;
	return at;
}

static uint32_t lines_or(int n_lines, uint32_t fallback) {
	return n_lines > 0 ? (uint32_t)n_lines : fallback;
}

static size_t text_budget(const struct prompt_options *o) {
	int marks = (o->has_fim ? 3 : 0) + o->has_bos;
	return o->budget_tokens > marks + RESERVE_TOKENS ? (size_t)(o->budget_tokens - marks - RESERVE_TOKENS) : 1;
}

static size_t head_limit(size_t budget) {
	size_t limit = budget > HEAD_MIN_BUDGET ? budget / HEAD_SHARE : 0;
	return limit < HEAD_MAX_TOKENS ? limit : HEAD_MAX_TOKENS;
}

// Takes over ranges of `from` while they fit in *left tokens: signatures from the innermost outwards, imports from the first.
static void take_ranges(struct counter *c, const struct head *from, bool backwards, struct head *to, size_t *left) {
	for (int i = 0; i < from->n && to->n < HEAD_MAX_RANGES; i++) {
		struct line_range r = from->lines[backwards ? from->n - 1 - i : i];
		size_t n = tokens_of(c, snapshot_line_start(c->s, r.begin), snapshot_line_start(c->s, r.end), *left);
		if (n > *left)
			return;
		*left -= n;
		to->lines[to->n++] = r;
	}
}

// The head of a cut at the start of a line; nothing where the cut is inside one.
static void choose_head(struct counter *c, size_t cut, size_t limit, struct head *out) {
	uint32_t line = snapshot_line_of(c->s, cut);
	struct head imports, signatures, inner = {.n = 0};
	out->n = 0;
	if (!limit || snapshot_line_start(c->s, line) != cut)
		return;
	head_find(c->s, line, &imports, &signatures);
	take_ranges(c, &signatures, true, &inner, &limit);
	take_ranges(c, &imports, false, out, &limit);
	uint32_t last = out->n ? out->lines[out->n - 1].end : 0;
	for (int i = inner.n; i-- > 0 && out->n < HEAD_MAX_RANGES;)
		if (inner.lines[i].begin >= last)
			out->lines[out->n++] = inner.lines[i];
}

enum err window_choose(const struct snapshot *s, size_t cursor, size_t n_healed, const struct prompt_options *o, prompt_count_tokens *count,
                       void *user, struct window *out) {
	struct counter c = {.s = s, .count = count, .user = user};
	uint32_t anchor_lines = lines_or(o->layout.anchor_lines, PROMPT_ANCHOR_LINES), suffix_lines = lines_or(o->layout.suffix_lines, PROMPT_SUFFIX_LINES);
	uint32_t line = snapshot_line_of(s, cursor), anchor_line = line / anchor_lines * anchor_lines;
	size_t budget = text_budget(o);
	struct window w = {.heal = cursor - n_healed, .cursor = cursor, .suffix_end = cursor};
	size_t used = 0;
	bool whole = false;
	if (o->has_fim) {
		uint32_t last = snapshot_lines(s) - 1 - line > suffix_lines ? line + suffix_lines : snapshot_lines(s) - 1;
		w.suffix_end = snapshot_line_end(s, last);
		used = tokens_of(&c, cursor, w.suffix_end, budget);
	}
	w.cut = used < budget ? prefix_cut(&c, anchor_lines, anchor_line, line, w.heal, budget - used, &whole) : 0;
	if (used >= budget || !whole) { // fixed shares, so that the cut doesn't move when only the suffix changes
		size_t share = o->has_fim ? budget / SUFFIX_SHARE : 0, head = head_limit(budget);
		if (used > share)
			w.suffix_end = suffix_end(&c, cursor, line, suffix_lines, share);
		w.cut = prefix_cut(&c, anchor_lines, anchor_line, line, w.heal, budget - share - head, &whole);
		choose_head(&c, w.cut, head, &w.head);
	}
	w.anchor = snapshot_line_start(s, anchor_line);
	if (!o->has_fim)
		w.anchor = w.cut;
	if (w.anchor < w.cut)
		w.anchor = w.cut;
	bool failed = c.text.failed;
	buf_finish(&c.text);
	if (failed)
		return ERR_NOMEM;
	*out = w;
	return ERR_OK;
}

// The end of the last anchor block up to which [begin, …) has at most `limit` tokens; of the one that holds line last_line at most.
static size_t file_end(struct counter *c, size_t begin, uint32_t last_line, size_t limit) {
	uint32_t n_lines = snapshot_lines(c->s);
	size_t end = begin, used = 0;
	for (uint32_t line = snapshot_line_of(c->s, begin); line < n_lines && line <= last_line; line += PROMPT_ANCHOR_LINES) {
		size_t next = line + PROMPT_ANCHOR_LINES < n_lines ? snapshot_line_start(c->s, line + PROMPT_ANCHOR_LINES) : snapshot_bytes(c->s);
		used += tokens_of(c, end, next, limit - used);
		if (used > limit)
			return end;
		end = next;
	}
	return end;
}

enum err window_file(const struct snapshot *s, size_t cursor, uint32_t ahead_lines, const struct prompt_options *o, prompt_count_tokens *count, void *user,
                     struct head *head, size_t *begin, size_t *end) {
	struct window w;
	enum err e = window_choose(s, cursor, 0, o, count, user, &w);
	if (e != ERR_OK)
		return e;
	struct counter c = {.s = s, .count = count, .user = user};
	size_t budget = text_budget(o);
	*begin = w.cut;
	*head = w.head;
	*end = file_end(&c, w.cut, ahead_lines ? snapshot_line_of(s, cursor) + ahead_lines : UINT32_MAX, budget - (o->has_fim && w.cut ? budget / SUFFIX_SHARE : 0) - (w.cut ? head_limit(budget) : 0));
	bool failed = c.text.failed;
	buf_finish(&c.text);
	return failed ? ERR_NOMEM : ERR_OK;
}
