// SPDX-License-Identifier: MIT
// Items. Every range lies on the cursor's line, holds the cursor, and covers text that the item's filterText or insertText begins with:
// clients show an item only then (lsp.md 1.10). A replacement of text right of the cursor breaks that, so it is turned into an insertion where both
// give the same document (the replaced text ends the new one, as a closing bracket does); else filterText begins with the covered text.
#include "answer.h"

#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"

#define MAX_WORD_BYTES 256

static bool is_blank_text(const char *p, size_t n) {
	for (size_t i = 0; i < n; i++)
		if (!strchr(" \t\r\n\v\f", p[i]) || !p[i])
			return false;
	return true;
}

static bool usable(const struct answer_text *t) {
	return t->n_bytes && !is_blank_text(t->text, t->n_bytes) && utf8_valid(t->text, t->n_bytes);
}

static bool ends_with(const struct answer_text *t, const char *end, size_t n) {
	return t->n_bytes > n && !memcmp(t->text + t->n_bytes - n, end, n);
}

// The bytes right of the cursor that are replaced, appended to `covered`; t loses its end instead where that is the same.
static void cover(const struct answer_place *p, struct answer_text *t, struct buf *covered) {
	size_t line_end = snapshot_line_end(p->snapshot, snapshot_line_of(p->snapshot, p->offset));
	if (p->offset + t->replace_bytes > line_end)
		t->replace_bytes = line_end > p->offset ? line_end - p->offset : 0;
	size_t n = t->replace_bytes;
	if (!n || !buf_reserve(covered, n))
		return;
	snapshot_read(p->snapshot, p->offset, p->offset + n, covered->data);
	covered->len_bytes = n;
	if (ends_with(t, covered->data, n)) {
		t->n_bytes -= n;
		t->replace_bytes = 0;
		covered->len_bytes = 0;
	}
}

static json_t *range_json(const struct answer_place *p, size_t begin, size_t end) {
	return protocol_range((struct lsp_range){snapshot_position(p->snapshot, begin, p->encoding), snapshot_position(p->snapshot, end, p->encoding)});
}

static json_t *string(const struct buf *b) {
	return json_stringn(b->data ? b->data : "", b->len_bytes);
}

static json_t *one_item_list(json_t *item, bool incomplete) {
	json_t *items = json_array();
	if (item && json_array_append_new(items, item)) {
		json_decref(items);
		return NULL;
	}
	return incomplete ? json_pack("{s:b, s:o}", "isIncomplete", 1, "items", items) : json_pack("{s:o}", "items", items);
}

// With a selected menu item: the same range, and a text that starts with the selected one; else nothing is shown.
static json_t *selected_item(const struct answer_place *p, const struct answer_text *t) {
	size_t begin = snapshot_offset(p->snapshot, p->selected_range.start, p->encoding);
	size_t end = snapshot_offset(p->snapshot, p->selected_range.end, p->encoding);
	if (begin > p->offset || end != p->offset || t->replace_bytes || snapshot_line_of(p->snapshot, begin) != snapshot_line_of(p->snapshot, end))
		return one_item_list(NULL, false);
	struct buf whole = {0};
	json_t *item = NULL;
	if (buf_reserve(&whole, p->offset - begin + t->n_bytes)) {
		snapshot_read(p->snapshot, begin, p->offset, whole.data);
		whole.len_bytes = p->offset - begin;
		buf_append(&whole, t->text, t->n_bytes);
		if (whole.len_bytes >= p->selected_text.n_bytes && !memcmp(whole.data, p->selected_text.text, p->selected_text.n_bytes))
			item = one_item_list(json_pack("{s:o, s:o}", "insertText", string(&whole), "range", protocol_range(p->selected_range)), false);
	}
	buf_finish(&whole);
	return item ? item : one_item_list(NULL, false);
}

json_t *answer_inline(const struct answer_place *p, const struct answer_text *text) {
	struct answer_text t = *text;
	struct buf covered = {0};
	if (!usable(&t))
		return one_item_list(NULL, false);
	cover(p, &t, &covered);
	if (!usable(&t)) {
		buf_finish(&covered);
		return one_item_list(NULL, false);
	}
	json_t *result;
	if (p->has_selected) {
		result = selected_item(p, &t);
	} else {
		json_t *item = json_pack("{s:o, s:o}", "insertText", json_stringn(t.text, t.n_bytes), "range",
			range_json(p, p->offset, p->offset + t.replace_bytes));
		if (covered.len_bytes) {
			buf_append(&covered, t.text, t.n_bytes);
			json_object_set_new(item, "filterText", string(&covered));
		}
		result = one_item_list(item, false);
	}
	buf_finish(&covered);
	return result;
}

static bool in_word(char c) {
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || (unsigned char)c >= 0x80;
}

// Appends the word that ends at the cursor (nothing if it is absurdly long).
static void read_word(const struct answer_place *p, struct buf *word) {
	char before[MAX_WORD_BYTES];
	size_t line = snapshot_line_start(p->snapshot, snapshot_line_of(p->snapshot, p->offset));
	size_t n = p->offset > line ? p->offset - line : 0;
	bool cut = n > sizeof before;
	if (cut)
		n = sizeof before;
	snapshot_read(p->snapshot, p->offset - n, p->offset, before);
	size_t begin = n;
	while (begin && in_word(before[begin - 1]))
		begin--;
	if (begin || !cut)
		buf_append(word, before + begin, n - begin);
}

// First line of p[n] that is not blank, without blanks at its ends.
static struct text_ref first_line(const char *p, size_t n) {
	while (n && strchr(" \t\r\n", *p) && *p)
		p++, n--;
	size_t len = 0;
	while (len < n && p[len] != '\n' && p[len] != '\r')
		len++;
	while (len && (p[len - 1] == ' ' || p[len - 1] == '\t'))
		len--;
	return (struct text_ref){p, len};
}

static json_t *list_item(const struct answer_place *p, const struct answer_text *t, const struct buf *word, const struct buf *covered) {
	struct buf whole = {0}, filter = {0};
	buf_append(&whole, word->data, word->len_bytes);
	buf_append(&whole, t->text, t->n_bytes);
	struct text_ref label = first_line(whole.data, whole.len_bytes);
	buf_append(&filter, word->data, word->len_bytes);
	if (covered->len_bytes)
		buf_append(&filter, covered->data, covered->len_bytes);
	if (label.n_bytes > word->len_bytes)
		buf_append(&filter, label.text + word->len_bytes, label.n_bytes - word->len_bytes);
	json_t *item = json_pack("{s:o, s:i, s:s, s:o, s:{s:o, s:o}}", "label", json_stringn(label.text, label.n_bytes), "kind", 1, "detail", "maskstore",
		"filterText", string(&filter), "textEdit", "range", range_json(p, p->offset - word->len_bytes, p->offset + t->replace_bytes), "newText",
		string(&whole));
	if (p->as_is_insertion)
		json_object_set_new(item, "insertTextMode", json_integer(1));
	if (memchr(whole.data, '\n', whole.len_bytes))
		json_object_set_new(item, "documentation", string(&whole));
	buf_finish(&filter);
	buf_finish(&whole);
	return item;
}

json_t *answer_list(const struct answer_place *p, const struct answer_text *text) {
	struct answer_text t = *text;
	struct buf covered = {0}, word = {0};
	if (!usable(&t))
		return one_item_list(NULL, true);
	cover(p, &t, &covered);
	json_t *item = NULL;
	if (usable(&t)) {
		read_word(p, &word);
		item = list_item(p, &t, &word, &covered);
	}
	buf_finish(&word);
	buf_finish(&covered);
	return one_item_list(item, true);
}
