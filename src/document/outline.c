// SPDX-License-Identifier: MIT
// Where a cursor stands: which block it is in, whether that block is still to be written, and where it ends.
//
// The tree gives a sure start (the last top-level definition or import above the cursor, so the rest of a large file is never read); from there the
// lexical walk of scan.c finds blocks by indentation, which stays right while the line at hand is half typed. Pure functions.
#include <string.h>

#include "document/scan.h"
#include "document/syntax.h"

#define DEFAULT_UNIT 4      // PEP 8
#define UNIT_MAX_LINES 400  // lines looked at to learn the step of indentation

// --- small readers

static size_t skip_blanks(struct scan *sc, size_t at, size_t end) {
	int c;
	while (at < end && ((c = scan_byte(sc, at)) == ' ' || c == '\t' || c == '\f'))
		at++;
	return at;
}

// Indentation of the first line from `line` on that holds code (comments don't count); false if there is none.
static bool next_code_indent(struct scan *sc, uint32_t line, uint32_t *indent) {
	for (; line < snapshot_lines(sc->s); line++) {
		size_t begin = snapshot_line_start(sc->s, line), end = snapshot_line_end(sc->s, line), first = skip_blanks(sc, begin, end);
		if (first < end && scan_byte(sc, first) != '#') {
			*indent = (uint32_t)(first - begin);
			return true;
		}
	}
	return false;
}

// Step of indentation by the first line that is deeper than the header above it.
static uint32_t file_unit(struct scan *sc) {
	uint32_t last_indent = 0, n = snapshot_lines(sc->s) < UNIT_MAX_LINES ? snapshot_lines(sc->s) : UNIT_MAX_LINES;
	bool header = false;
	for (uint32_t line = 0; line < n; line++) {
		size_t begin = snapshot_line_start(sc->s, line), end = snapshot_line_end(sc->s, line), first = skip_blanks(sc, begin, end);
		if (first == end)
			continue;
		uint32_t indent = (uint32_t)(first - begin);
		if (header && indent > last_indent)
			return indent - last_indent;
		header = scan_byte(sc, end - 1) == ':';
		last_indent = indent;
	}
	return 0;
}

static uint32_t unit_after(struct scan *sc, size_t line_begin, uint32_t indent) {
	if (indent && scan_byte(sc, line_begin) == '\t')
		return 1;
	if (!sc->unit)
		sc->unit = file_unit(sc);
	return sc->unit ? sc->unit : DEFAULT_UNIT;
}

// Start of the last top-level statement of a sure kind that begins at or above the cursor's line.
static size_t sure_start(const struct syntax *x, size_t line_begin) {
	static const char *const KINDS[] = {"function_definition", "class_definition", "decorated_definition", "import_statement", "import_from_statement"};
	size_t start = 0;
	TSTreeCursor c = ts_tree_cursor_new(ts_tree_root_node(x->tree));
	for (bool more = ts_tree_cursor_goto_first_child(&c); more; more = ts_tree_cursor_goto_next_sibling(&c)) {
		TSNode node = ts_tree_cursor_current_node(&c);
		if (ts_node_start_byte(node) > line_begin)
			break;
		const char *kind = ts_node_type(node);
		for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++)
			if (ts_node_start_point(node).column == 0 && !strcmp(kind, KINDS[i]))
				start = ts_node_start_byte(node);
	}
	ts_tree_cursor_delete(&c);
	return start;
}

// --- the answer

// What is known about the cursor's line before blocks are looked at.
struct cursor {
	size_t offset, line_begin, line_end;
	uint32_t line;
	uint32_t column;      // bytes left of the cursor
	bool blank;           // the whole line is
	bool right_blank;     // right of the cursor
};

static struct cursor cursor_at(struct scan *sc, size_t offset) {
	struct cursor c = {.offset = offset, .line = snapshot_line_of(sc->s, offset)};
	c.line_begin = snapshot_line_start(sc->s, c.line);
	c.line_end = snapshot_line_end(sc->s, c.line);
	if (c.offset > c.line_end)
		c.offset = c.line_end;
	c.column = (uint32_t)(c.offset - c.line_begin);
	c.right_blank = skip_blanks(sc, c.offset, c.line_end) == c.line_end;
	c.blank = c.right_blank && skip_blanks(sc, c.line_begin, c.offset) == c.offset;
	return c;
}

// End of the block whose header has this indentation: walks on from the start of the cursor's line until a statement that is not deeper.
static size_t block_end(struct scan *sc, const struct cursor *c, uint32_t header_indent) {
	size_t end = c->line_end;
	for (uint32_t line = c->line; line < snapshot_lines(sc->s); line++) {
		size_t begin = snapshot_line_start(sc->s, line), stop = snapshot_line_end(sc->s, line);
		bool inside = scan_continues(sc);
		scan_until(sc, stop);
		if (line > c->line && !inside && sc->open && sc->begin >= begin && sc->indent <= header_indent)
			return end;
		if (line > c->line && skip_blanks(sc, begin, stop) < stop)
			end = stop;
		if (line + 1 < snapshot_lines(sc->s))
			scan_until(sc, snapshot_line_start(sc->s, line + 1));
	}
	return end;
}

// Start of the definition whose header is at hand, decorators included.
static size_t header_definition(const struct scan *sc) {
	return sc->decorators != SIZE_MAX && sc->decorators_indent == sc->indent ? sc->decorators : sc->begin;
}

// A cursor behind the ':' that ends a header: the block is the one it opens.
static void place_header(struct scan *sc, const struct cursor *c, struct syntax_place *p) {
	uint32_t below = 0;
	bool body = next_code_indent(sc, c->line + 1, &below) && below > sc->indent;
	size_t first_line = snapshot_line_start(sc->s, snapshot_line_of(sc->s, sc->begin));
	p->empty_block = c->right_blank && !body;
	p->block_indent = body ? below : sc->indent + unit_after(sc, first_line, sc->indent);
	p->block_begin = sc->begin;
	if (sc->definition)
		p->definition_begin = header_definition(sc);
}

// A cursor on a blank line, outside of strings and brackets. Leaves in `sc` the blocks that hold it.
static void place_blank(struct scan *sc, const struct cursor *c, struct syntax_place *p) {
	uint32_t below = 0;
	bool any_below = next_code_indent(sc, c->line + 1, &below);
	struct scan_block *top = sc->n_blocks ? &sc->blocks[sc->n_blocks - 1] : NULL;
	if (top && !top->n_statements) { // a header just above wants a body, wherever the cursor is
		bool body = any_below && below > top->indent;
		size_t first_line = snapshot_line_start(sc->s, snapshot_line_of(sc->s, top->begin));
		p->empty_block = !body;
		p->block_indent = body ? below : c->column > top->indent ? c->column : top->indent + unit_after(sc, first_line, top->indent);
		return;
	}
	scan_pop(sc, c->column);
	top = sc->n_blocks ? &sc->blocks[sc->n_blocks - 1] : NULL;
	if (!top)
		return;
	p->empty_block = top->n_statements == 1 && top->doc && !(any_below && below > top->indent);
	p->block_indent = top->body_indent;
}

// What the walks say: `above` stands at the start of the cursor's line, `here` at the cursor. Blocks that hold the cursor are left in `here`.
static void place_fill(const struct scan *above, struct scan *here, const struct cursor *c, struct syntax_place *p) {
	p->in_string = here->quote != 0;
	p->in_comment = here->comment;
	bool continues = scan_continues(above);
	if (scan_at_header(here)) {
		place_header(here, c, p);
	} else if (c->blank && !continues && !here->quote) {
		*here = *above;
		place_blank(here, c, p);
	} else { // in a statement: the blocks that hold it
		uint32_t indent = continues ? here->indent : (uint32_t)(skip_blanks(here, c->line_begin, c->line_end) - c->line_begin);
		scan_pop(here, indent);
		const struct scan_block *top = here->n_blocks ? &here->blocks[here->n_blocks - 1] : NULL;
		p->block_indent = top && top->n_statements ? top->body_indent : indent;
		if (here->open && here->definition)
			p->definition_begin = header_definition(here);
	}
}

struct syntax_place syntax_at(const struct syntax *x, size_t offset) {
	struct syntax_place p = {.block_end = snapshot_bytes(x->text), .definition_begin = SIZE_MAX};
	struct scan above, here;
	scan_begin(&above, x->text, 0);
	struct cursor c = cursor_at(&above, offset);
	scan_begin(&above, x->text, sure_start(x, c.line_begin));
	scan_until(&above, c.line_begin);
	here = above;
	scan_until(&here, c.offset);
	place_fill(&above, &here, &c, &p);
	const struct scan_block *top = here.n_blocks ? &here.blocks[here.n_blocks - 1] : NULL;
	for (int i = here.n_blocks; i-- > 0 && p.definition_begin == SIZE_MAX;)
		if (here.blocks[i].definition)
			p.definition_begin = here.blocks[i].decorated;
	uint32_t header_indent = 0;
	if (scan_at_header(&here)) {
		header_indent = here.indent;
	} else if (top) {
		p.block_begin = top->begin;
		header_indent = top->indent;
	} else {
		return p;
	}
	p.block_end = block_end(&above, &c, header_indent);
	return p;
}

// --- without a tree

// Whether a statement of a kind that sure_start looks for may begin on this line.
static bool may_be_sure(struct scan *sc, size_t begin) {
	static const char *const WORDS[] = {"def", "class", "async", "import", "from"};
	int first = scan_byte(sc, begin);
	for (size_t w = 0; w < sizeof WORDS / sizeof *WORDS; w++) {
		size_t i = 0;
		while (WORDS[w][i] && scan_byte(sc, begin + i) == (unsigned char)WORDS[w][i])
			i++;
		int next = scan_byte(sc, begin + i);
		bool word = next == '_' || (next >= '0' && next <= '9') || (next >= 'a' && next <= 'z') || (next >= 'A' && next <= 'Z') || next >= 0x80;
		if (!WORDS[w][i] && !word)
			return true;
	}
	return first == '@';
}

// Start of the line after the one that holds byte `at`; the text's size if it is the last. (Chunks never split \r\n.)
static size_t next_line(const struct snapshot *s, size_t at) {
	for (size_t len;;) {
		const char *run = snapshot_chunk_at(s, at, &len);
		if (!len)
			return at;
		const char *end = memchr(run, '\n', len), *cr = memchr(run, '\r', end ? (size_t)(end - run) : len);
		if (cr && (!end || cr + 1 != end))
			return at + (size_t)(cr - run) + 1;
		if (end)
			return at + (size_t)(end - run) + 1;
		at += len;
	}
}

// A tree only chooses where the walk begins: at the text's start or at one of the lines of may_be_sure. Where the walk from the start finds each of these outside
// of brackets and strings, a statement begins there that closes all blocks, so walks from all of them are in the same state at the cursor.
bool snapshot_place_early(const struct snapshot *s, size_t offset, struct syntax_place *out) {
	struct scan above, here, reader;
	scan_begin(&above, s, 0);
	reader = above;
	struct cursor c = cursor_at(&reader, offset);
	for (size_t begin = 0; begin <= c.line_begin; begin = next_line(s, begin)) {
		scan_until(&above, begin);
		if (scan_continues(&above) && may_be_sure(&reader, begin))
			return false;
		if (begin == c.line_begin)
			break;
	}
	here = above;
	scan_until(&here, c.offset);
	*out = (struct syntax_place){.block_end = snapshot_bytes(s), .definition_begin = SIZE_MAX};
	place_fill(&above, &here, &c, out);
	out->block_begin = 0;
	out->definition_begin = SIZE_MAX;
	return true;
}
