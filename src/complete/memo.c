// SPDX-License-Identifier: MIT
// The memo of picks: origins (token arrays) with a tree of nodes each, all from fixed pools.
//
// Invariants: a node is in exactly one origin's tree or on the free list, a pick in exactly one node's list or on its free list. `at` is the node of the
// current path, or NONE while no tree holds it. A pick's token has a child node (unless it ends the text or the pools ran out), so that a known pick can
// be followed. Typed text that a tree lacks is added to the tree of the longest origin that the path begins with, or else becomes an origin.
// Cost of a look-up: one step down a tree, or, after memo_go, one comparison an origin, from the back, which ends at once for nearly all.
#include "complete/memo.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MEMO_NODES 32768           // about 24 bytes each; an answer has 10 to 200
#define MEMO_PICKS 4096            // under healed bytes: one or two an answer
#define MEMO_ORIGINS_BYTES (4u << 20) // for the origins' tokens: a longer context gets fewer of them
#define MEMO_MIN_ORIGINS 4
#define MEMO_GRAFT_TOKENS 256      // a path that goes on longer behind an origin becomes one itself

#define NONE (-1)
#define UNKNOWN (-2) // no pick without healing is known

struct node {
	token_id token; // that leads here
	int32_t child, next;
	token_id free_pick; // under empty `must`
	int32_t picks;
};

// A pick under healed bytes.
struct pick {
	int32_t next;
	token_id token;
	uint8_t n_bytes;
	char must[MEMO_MUST_BYTES];
};

struct origin {
	token_id *tokens; // [capacity_tokens]
	size_t n;         // 0: not in use
	int32_t root;
	uint64_t used;
};

struct memo {
	const struct tokenizer *tokenizer;
	size_t capacity_tokens;
	struct node *nodes;
	struct pick *picks;
	int32_t free_node, free_pick;
	struct origin origins[MEMO_ORIGINS];
	int n_origins;
	uint64_t clock;
	token_id *path; // [capacity_tokens]
	size_t n_path;  // may go past the capacity: then there is no path
	int32_t at, at_origin;
	token_id *arena; // all token arrays
};

// --- life

static int origins_for(size_t capacity_tokens) {
	size_t n = MEMO_ORIGINS_BYTES / (capacity_tokens * sizeof(token_id));
	return n > MEMO_ORIGINS ? MEMO_ORIGINS : n < MEMO_MIN_ORIGINS ? MEMO_MIN_ORIGINS : (int)n;
}

enum err memo_create(const struct tokenizer *t, int capacity_tokens, struct memo **out) {
	struct memo *m = calloc(1, sizeof *m);
	if (!m)
		return ERR_NOMEM;
	m->tokenizer = t;
	m->capacity_tokens = (size_t)capacity_tokens;
	m->n_origins = origins_for(m->capacity_tokens);
	m->nodes = malloc(MEMO_NODES * sizeof *m->nodes);
	m->picks = malloc(MEMO_PICKS * sizeof *m->picks);
	m->arena = malloc((size_t)(m->n_origins + 1) * m->capacity_tokens * sizeof *m->arena);
	if (!m->nodes || !m->picks || !m->arena) {
		memo_destroy(m);
		return ERR_NOMEM;
	}
	for (int32_t i = 0; i < MEMO_NODES; i++)
		m->nodes[i].next = i + 1 < MEMO_NODES ? i + 1 : NONE;
	for (int32_t i = 0; i < MEMO_PICKS; i++)
		m->picks[i].next = i + 1 < MEMO_PICKS ? i + 1 : NONE;
	for (int i = 0; i < m->n_origins; i++)
		m->origins[i].tokens = m->arena + (size_t)i * m->capacity_tokens;
	m->path = m->arena + (size_t)m->n_origins * m->capacity_tokens;
	m->at = NONE;
	*out = m;
	return ERR_OK;
}

void memo_destroy(struct memo *m) {
	if (!m)
		return;
	free(m->nodes);
	free(m->picks);
	free(m->arena);
	free(m);
}

// --- pools

static void free_picks(struct memo *m, int32_t first) {
	while (first != NONE) {
		int32_t next = m->picks[first].next;
		m->picks[first].next = m->free_pick;
		m->free_pick = first;
		first = next;
	}
}

// Frees a tree without recursion: children are put in front of what is still to be freed.
static void free_tree(struct memo *m, int32_t root) {
	m->nodes[root].next = NONE;
	for (int32_t i = root; i != NONE;) {
		struct node *n = &m->nodes[i];
		free_picks(m, n->picks);
		int32_t next = n->next;
		for (int32_t c = n->child; c != NONE;) {
			int32_t sibling = m->nodes[c].next;
			m->nodes[c].next = next;
			next = c;
			c = sibling;
		}
		n->next = m->free_node;
		m->free_node = i;
		i = next;
	}
}

static void forget(struct memo *m, int i_origin) {
	free_tree(m, m->origins[i_origin].root);
	m->origins[i_origin].n = 0;
	if (m->at != NONE && m->at_origin == i_origin)
		m->at = NONE;
}

// The least recently used origin in use other than `keep`, or NONE.
static int oldest(const struct memo *m, int keep) {
	int best = NONE;
	for (int i = 0; i < m->n_origins; i++)
		if (i != keep && m->origins[i].n && (best == NONE || m->origins[i].used < m->origins[best].used))
			best = i;
	return best;
}

// A fresh node, or NONE if even without all other origins there is none.
static int32_t take_node(struct memo *m, token_id token, int keep) {
	for (int old; m->free_node == NONE && (old = oldest(m, keep)) != NONE;)
		forget(m, old);
	int32_t i = m->free_node;
	if (i == NONE)
		return NONE;
	m->free_node = m->nodes[i].next;
	m->nodes[i] = (struct node){.token = token, .child = NONE, .next = NONE, .free_pick = UNKNOWN, .picks = NONE};
	return i;
}

static int32_t take_pick(struct memo *m, int keep) {
	for (int old; m->free_pick == NONE && (old = oldest(m, keep)) != NONE;)
		forget(m, old);
	int32_t i = m->free_pick;
	if (i != NONE)
		m->free_pick = m->picks[i].next;
	return i;
}

// --- places

static int32_t child_of(const struct memo *m, int32_t node, token_id token) {
	int32_t c = m->nodes[node].child;
	while (c != NONE && m->nodes[c].token != token)
		c = m->nodes[c].next;
	return c;
}

static bool begins(const struct memo *m, const struct origin *o) {
	if (!o->n || o->n > m->n_path || o->tokens[o->n - 1] != m->path[o->n - 1])
		return false; // most differ at their end, if anywhere
	return !memcmp(o->tokens, m->path, o->n * sizeof *m->path);
}

// Goes down from an origin along the path; returns how many of its tokens are covered then.
static size_t walk(const struct memo *m, const struct origin *o, int32_t *node) {
	size_t n = o->n;
	*node = o->root;
	for (int32_t c; n < m->n_path && (c = child_of(m, *node, m->path[n])) != NONE; n++)
		*node = c;
	return n;
}

void memo_go(struct memo *m, const token_id *tokens, size_t n) {
	memcpy(m->path, tokens, n * sizeof *tokens);
	m->n_path = n;
	m->at = NONE;
}

void memo_step(struct memo *m, token_id token) {
	if (m->n_path < m->capacity_tokens)
		m->path[m->n_path] = token;
	m->n_path++;
	if (m->at != NONE)
		m->at = child_of(m, m->at, token);
}

// --- picks

static bool agrees(const struct memo *m, token_id token, const char *must, size_t must_bytes) {
	size_t n;
	if (!must_bytes)
		return true;
	if (tokenizer_is_special(m->tokenizer, token))
		return false;
	const char *bytes = tokenizer_bytes(m->tokenizer, token, &n);
	n = n < must_bytes ? n : must_bytes;
	return n && !memcmp(bytes, must, n);
}

static bool node_pick(const struct memo *m, int32_t i, const char *must, size_t must_bytes, token_id *token) {
	const struct node *n = &m->nodes[i];
	if (n->free_pick != UNKNOWN && agrees(m, n->free_pick, must, must_bytes)) {
		*token = n->free_pick;
		return true;
	}
	for (int32_t p = n->picks; p != NONE; p = m->picks[p].next) {
		const struct pick *pick = &m->picks[p];
		if (pick->n_bytes > must_bytes || memcmp(pick->must, must, pick->n_bytes) ||
		    (pick->token != TOKEN_NONE && !agrees(m, pick->token, must, must_bytes)))
			continue;
		*token = pick->token;
		return true;
	}
	return false;
}

bool memo_pick(struct memo *m, const char *must, size_t must_bytes, token_id *token) {
	if (m->n_path > m->capacity_tokens)
		return false;
	if (m->at != NONE && node_pick(m, m->at, must, must_bytes, token))
		return true;
	for (int i = 0; i < m->n_origins; i++) {
		int32_t node;
		if (!begins(m, &m->origins[i]) || walk(m, &m->origins[i], &node) < m->n_path || !node_pick(m, node, must, must_bytes, token))
			continue;
		m->at = node;
		m->at_origin = i;
		m->origins[i].used = ++m->clock;
		return true;
	}
	return false;
}

// --- learning

// A slot for another origin.
static int empty_origin(struct memo *m) {
	for (int i = 0; i < m->n_origins; i++)
		if (!m->origins[i].n)
			return i;
	int i = oldest(m, NONE);
	forget(m, i);
	return i;
}

static void add_origin(struct memo *m) {
	int i = empty_origin(m);
	int32_t root = take_node(m, TOKEN_NONE, i);
	if (root == NONE)
		return;
	struct origin *o = &m->origins[i];
	memcpy(o->tokens, m->path, m->n_path * sizeof *m->path);
	o->n = m->n_path;
	o->root = root;
	o->used = ++m->clock;
	m->at = root;
	m->at_origin = i;
}

static int32_t add_child(struct memo *m, int32_t node, token_id token, int i_origin) {
	int32_t c = child_of(m, node, token);
	if (c != NONE)
		return c;
	c = take_node(m, token, i_origin);
	if (c != NONE) {
		m->nodes[c].next = m->nodes[node].child;
		m->nodes[node].child = c;
	}
	return c;
}

// Makes a place for the current path: in the tree that covers most of it, or as an origin.
static void add_place(struct memo *m) {
	int best = NONE;
	size_t best_n = 0;
	int32_t best_node = NONE, node;
	for (int i = 0; i < m->n_origins; i++) {
		if (!begins(m, &m->origins[i]))
			continue;
		size_t n = walk(m, &m->origins[i], &node);
		if (n > best_n) {
			best = i;
			best_n = n;
			best_node = node;
		}
	}
	if (best == NONE || m->n_path - best_n > MEMO_GRAFT_TOKENS) {
		add_origin(m);
		return;
	}
	for (; best_n < m->n_path && best_node != NONE; best_n++)
		best_node = add_child(m, best_node, m->path[best_n], best);
	if (best_node == NONE) { // this tree alone has filled the pool
		forget(m, best);
		add_origin(m);
		return;
	}
	m->origins[best].used = ++m->clock;
	m->at = best_node;
	m->at_origin = best;
}

static bool add_pick(struct memo *m, const char *must, size_t must_bytes, token_id token) {
	int32_t i = take_pick(m, m->at_origin);
	if (i == NONE)
		return false;
	struct pick *p = &m->picks[i];
	*p = (struct pick){.next = m->nodes[m->at].picks, .token = token, .n_bytes = (uint8_t)must_bytes};
	memcpy(p->must, must, must_bytes);
	m->nodes[m->at].picks = i;
	return true;
}

void memo_learn(struct memo *m, const char *must, size_t must_bytes, token_id token) {
	token_id known;
	if (must_bytes > MEMO_MUST_BYTES || !m->n_path || m->n_path > m->capacity_tokens)
		return;
	if (m->at == NONE)
		add_place(m);
	if (m->at == NONE || node_pick(m, m->at, must, must_bytes, &known))
		return;
	bool room = true;
	if (must_bytes)
		room = add_pick(m, must, must_bytes, token);
	else
		m->nodes[m->at].free_pick = token;
	if (token != TOKEN_NONE && !tokenizer_is_end(m->tokenizer, token))
		room = room && add_child(m, m->at, token, m->at_origin) != NONE;
	if (!room)
		forget(m, m->at_origin);
}

// --- tests

// Nodes (or -1) and picks below a root.
static int count_tree(const struct memo *m, int32_t root, bool *node_seen, bool *pick_seen, int *n_picks) {
	int n_nodes = 0;
	for (int32_t i = root; i != NONE; i = m->nodes[i].next) {
		if (node_seen[i])
			return -1;
		node_seen[i] = true;
		for (int32_t p = m->nodes[i].picks; p != NONE; p = m->picks[p].next, ++*n_picks) {
			if (pick_seen[p])
				return -1;
			pick_seen[p] = true;
		}
		int below = count_tree(m, m->nodes[i].child, node_seen, pick_seen, n_picks);
		if (below < 0)
			return -1;
		n_nodes += 1 + below;
	}
	return n_nodes;
}

enum err memo_check(const struct memo *m) {
	static const size_t SEEN_BYTES = MEMO_NODES + MEMO_PICKS;
	bool *seen = calloc(SEEN_BYTES, sizeof *seen), ok = seen != NULL;
	int n_nodes = 0, n_picks = 0;
	for (int i = 0; i < m->n_origins && ok; i++) {
		if (!m->origins[i].n)
			continue;
		int n = count_tree(m, m->origins[i].root, seen, seen + MEMO_NODES, &n_picks);
		ok = n > 0;
		n_nodes += n;
	}
	for (int32_t i = m->free_node; ok && i != NONE; i = m->nodes[i].next, n_nodes++) {
		ok = !seen[i];
		seen[i] = true;
	}
	for (int32_t i = m->free_pick; ok && i != NONE; i = m->picks[i].next, n_picks++) {
		ok = !seen[MEMO_NODES + i];
		seen[MEMO_NODES + i] = true;
	}
	free(seen);
	return ok && n_nodes == MEMO_NODES && n_picks == MEMO_PICKS ? ERR_OK : ERR_STATE;
}
