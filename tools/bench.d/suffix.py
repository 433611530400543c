# SPDX-License-Identifier: MIT
"""How far the peer's suffix may be cut: the fewest of 64, 16 and 4 lines that loses at most 3 of 300 items to the best.

An item is the rest of a real line, asked for at a fixed place within it or at its start, greedily; it counts where the
answer's first line is that rest. Answers are kept one by one, so that a stopped run goes on.
"""

import json
import random
import tempfile

import llama
import sessions

LINES, N_ITEMS, MAY_LOSE, UNMEASURED = (64, 16, 4), 300, 3, 16


def path_of(cache, model):
    return cache / f"suffix-{model[:16]}.json"


def best(options, cache, model):
    """(lines after the cursor, was that measured)."""
    if options.best_suffix is not None:
        return options.best_suffix, False
    path = path_of(cache, model)
    return (json.loads(path.read_text())["lines"], True) if path.exists() else (UNMEASURED, False)


def items(n=N_ITEMS, seed=20262):
    """(text with the hole, cursor, the line's rest) in the middle third of files of 100 to 1,500 lines."""
    chooser = random.Random(seed)
    texts = sessions.sources(sessions.all_paths())
    paths = [p for p in sorted(texts) if "/tests/" not in p and "/_" not in p and 100 <= texts[p].count("\n") <= 1500]
    chooser.shuffle(paths)
    found = []
    for path in paths:
        lines = texts[path].split("\n")
        y = chooser.randrange(len(lines) // 3, 2 * len(lines) // 3)
        words = lines[y].strip()
        if not sessions.usable(lines[y]) or not sessions.is_code([lines[y]]) or len(words) < 12:
            continue
        kept = len(lines[y]) - len(words) + chooser.choice((0, len(words) // 3, len(words) // 2))
        holed = lines[:y] + [lines[y][:kept]] + lines[y + 1 :]
        found.append(("\n".join(holed), [y, kept], lines[y][kept:]))
        if len(found) == n:
            return found
    raise ValueError("the corpus is too small")


def is_exact(peer, item, n_suffix):
    """Is the first line of the answer the line's rest?"""
    text, cursor, rest = item
    body = llama.request_of(llama.context(text, cursor, n_suffix), n_predict=32, greedy=True)
    return peer.stream(body | {"stop": ["\n"]})["text"].strip() == rest.strip()


def ask_all(options, chosen, part, say):
    """For each item, whether it was completed exactly with each number of lines; the shortest first, so that each goes on
    from the tokens of the one before."""
    done = json.loads(part.read_text()) if part.exists() else []
    with tempfile.TemporaryDirectory() as folder:
        peer = llama.Peer(options, folder)
        try:
            for item in chosen[len(done) :]:
                done.append({n: is_exact(peer, item, n) for n in sorted(LINES)})
                part.write_text(json.dumps(done))
                if len(done) % 25 == 0:
                    say(f"{len(done)} of {len(chosen)} items: {counts_of(done)}")
        finally:
            peer.close()
    return done


def counts_of(done):
    """Exact items by number of lines; keys are texts where they come from the file."""
    return {n: sum(item.get(n, item.get(str(n))) for item in done) for n in LINES}


def fewest(counts):
    return min(n for n in counts if counts[n] >= max(counts.values()) - MAY_LOSE)


def measure(options, cache, model, say):
    cache.mkdir(parents=True, exist_ok=True)
    counts = counts_of(ask_all(options, items(), cache / f"suffix-{model[:16]}.part", say))
    result = {"lines": fewest(counts), f"exact_of_{N_ITEMS}": counts}
    path_of(cache, model).write_text(json.dumps(result))
    return result
