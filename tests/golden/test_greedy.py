# SPDX-License-Identifier: MIT
"""Greedy text of 64 tokens on prompts of real code against llama.cpp on the same file (tools/oracle/make_greedy.py).

Sums in another order flip ties: llama.cpp agrees with itself on 70 % of such texts with flash attention on and off.
So a first difference counts only where one of the engines saw the two tokens more than 0.2 nat apart. For those the
distance without rounded activations is printed too: it tells whose rounding it was.
"""

import json
from pathlib import Path

from conftest import FULL

GOLDEN = Path(__file__).with_name("greedy.json")
NEAR_NAT = 0.2
# Of 100 prompts, distances between our token and llama.cpp's (ours, theirs, without rounded activations; positive: ours is the better one):
#   dateformat.py:255 .241 .003 .080 · psycopg_any.py:40 .229 .012 .151 · forms.py:83 .239 .011 .269: rounding moved one of the engines, in the last case theirs
#   defaultfilters.py:812 .048 .211 -.038 · base.py:373 .001 .458 -.209: it moved both
# llama.cpp has one scale for 256 activations where weights are K-quants, we have one for 32.
MOST_FAR = 5


def first_difference(binary, model, prompt):
    """None where the texts are equal, else (step, our distance, theirs, exact) between the two tokens in nat."""
    ours = binary.generate(model, prompt["prompt"], len(prompt["tokens"]))
    for i, (a, b) in enumerate(zip(ours["tokens"], prompt["tokens"], strict=True)):
        if a == b:
            continue
        tokens = prompt["prompt"] + prompt["tokens"][:i]
        mine = binary.logits(model, tokens, [len(tokens)])[0]
        exact = binary.logits(model, tokens, [len(tokens)], "--activations", "f32", "--kv", "f32")[0]
        theirs = dict(map(tuple, prompt["rivals"][i])).get(a, float("inf"))
        return i, round(float(mine[a] - mine[b]), 3), theirs, round(float(exact[a] - exact[b]), 3)
    return None


def test_greedy_text_matches_llama_cpp(binary, real_model):
    prompts = json.loads(GOLDEN.read_text())
    assert len(prompts) == 100
    chosen = prompts if FULL else prompts[::4]
    differences = {}
    for prompt in chosen:
        found = first_difference(binary, real_model("qwen"), prompt)
        if found:
            differences[f"{prompt['path']}:{prompt['line']}"] = found
    far = {where: d for where, d in differences.items() if max(d[1], d[2]) > NEAR_NAT}
    n_equal = len(chosen) - len(differences)
    print(f"equal on {n_equal} of {len(chosen)}; first differences that are no ties: {far}")
    assert n_equal >= len(chosen) / 2
    assert len(far) <= (MOST_FAR if FULL else 2), far
