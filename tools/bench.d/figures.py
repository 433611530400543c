# SPDX-License-Identifier: MIT
"""What the records of replays say: the figures of `tools/bench keystrokes`. Pure functions; None where nothing tells."""

from statistics import mean, median

from ours import FAR_JUMP_LINES

LOOP_EDGES_US = [125 << k for k in range(7)]  # upper edges of the log's `loop.le_us`; the last count has none


def percentile(values, p):
    """The smallest value that at least p % of them do not exceed; None without values."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * p // 100) - 1)] if ordered else None


def ratio(peer, ours):
    return None if not peer or not ours else peer / ours


def by_lines(runs, low, high):
    return [run for run in runs if low <= run["lines"] <= high]


def decoded_pairs(ours, peers):
    """(our record, the peer's) of the keys that neither answered from text it had shown before."""
    pairs = []
    for run in ours:
        if peer := peers.get(run["name"]):
            for a, b in zip(run["serial"]["events"], peer["events"], strict=True):
                if not a["shown_text"] and not b["shown_text"] and b["asked"]:
                    pairs.append((a, b))
    return pairs


def ttft_ratio(ours, peers, p):
    pairs = decoded_pairs(ours, peers)
    return ratio(percentile([b["ttft_ms"] for _, b in pairs], p), percentile([a["ttft_ms"] for a, _ in pairs], p))


def cpu_ratio(ours, peers):
    """Our CPU seconds over the peer's, from the moment the file is cached, over the same sessions."""
    both = [(run["serial"]["cpu_s"], peers[run["name"]]["cpu_s"]) for run in ours if run["name"] in peers]
    return sum(a for a, _ in both) / sum(b for _, b in both) if both else None


def ttfts(runs):
    return [e["ttft_ms"] for run in runs for e in run["serial"]["events"] if not e["shown_text"]]


def events_of(runs, kind):
    return [(run["name"], i, e) for run in runs for i, e in enumerate(run["serial"]["events"]) if e["kind"] == kind]


def first_after_jump(ours, peers, key, peer_key):
    """Medians of ours and the peer's over the jumps of 200 lines."""
    jumps = events_of([run for run in ours if run["jump_lines"] >= FAR_JUMP_LINES], "jump")
    theirs = [peers[name]["events"][i] for name, i, _ in jumps if name in peers]
    theirs = [e[peer_key] for e in theirs if e["asked"]]
    return median([e[key] for _, _, e in jumps]) if jumps else None, median(theirs) if theirs else None


def cold(ours, peers, key, peer_key):
    """The same of the first request in a file of about 1,000 lines that was just opened."""
    runs = by_lines(ours, 900, 1100)
    theirs = [peers[run["name"]]["cold"][peer_key] for run in runs if run["name"] in peers]
    return median([run["serial"]["cold"][key] for run in runs]) if runs else None, median(theirs) if theirs else None


def wait_ratio(ours, peers, low=250, high=350):
    """Mean time to the first whole line; ours ends with the reply, since nothing is seen before it."""
    runs = [run for run in by_lines(ours, low, high) if run["name"] in peers]
    mine = [e["total_ms"] for run in runs for e in run["serial"]["events"]]
    theirs = [e["first_line_ms"] for run in runs for e in peers[run["name"]]["events"]]
    return ratio(mean(theirs), mean(mine)) if mine else None


def loop_p999_ms(lines):
    """Upper edge of the bucket that holds the p99.9 of the loop's turns, over all servers' last lines."""
    histograms = [line["loop"] for line in lines if "loop" in line]
    if not histograms:
        return None
    counts = [sum(column) for column in zip(*(h["le_us"] for h in histograms), strict=True)]
    wanted, seen = sum(counts) * 0.999, 0
    for edge, count in zip(LOOP_EDGES_US + [max(h["max_us"] for h in histograms)], counts, strict=True):
        seen += count
        if seen >= wanted:
            return min(edge, max(h["max_us"] for h in histograms)) / 1000
    return None


def cancel_times_ms(lines, kind):
    """From a cancel to an idle decode thread: of requests ended hard or softly, and of work in the background (kind "background")."""
    if kind == "background":
        found = [line.get("background_stop_us") for line in lines]
    else:
        found = [line["cancel_idle_us"] for line in lines if line.get("cancel_kind") == kind]
    return [us / 1000 for us in found if us is not None]


def seen(runs):
    """What a person would have seen in the second pass: what came before the next key."""
    passes = [run["real_time"] for run in runs if run.get("real_time")]
    events = [e for p in passes for e in p["events"]]
    waited = [e["waited_ms"] for e in events if e["seen"]]
    return {
        "keys": len(events),
        "seen": len(waited),
        "seen_after_ms_p50": percentile(waited, 50),
        "seen_after_ms_p90": percentile(waited, 90),
        "cpu_s": sum(p["cpu_s"] for p in passes),
    } if events else {}


def real_time(runs):
    """The same and what only our log tells: requests given up, work in the background, the longest stall."""
    events = [e for run in runs if run.get("real_time") for e in run["real_time"]["events"]]
    return seen(runs) | {
        "superseded": sum(e["outcome"] == "superseded" for e in events),
        "cancelled": sum(e["outcome"] == "cancelled" for e in events),
        "new_tokens_p50": percentile([e["all_new"] for e in events], 50),
        "new_tokens_p90": percentile([e["all_new"] for e in events], 90),
        "longest_wait_ms": max(e["waited_ms"] for e in events),
    } if events else {}


def summary(ours, peers, best, wrong):
    """The keys of the report, rounded. peers and best: session name → the peer's replay."""
    events = [e for run in ours for e in run["serial"]["events"]]
    lines = [e["line"] for run in ours for pass_ in ("serial", "real_time") if run.get(pass_) for e in run[pass_]["events"]]
    last_lines = [run[pass_]["events"][-1]["line"] for run in ours for pass_ in ("serial", "real_time") if run.get(pass_)]
    new = [e["all_new"] for e in events]
    jump_new = [e["all_new"] for _, _, e in events_of([r for r in ours if r["jump_lines"] >= FAR_JUMP_LINES], "jump")]
    cold_ms, cold_peer = cold(ours, peers, "first_ms", "ttft_ms")
    jump_ms, jump_peer = first_after_jump(ours, peers, "first_ms", "ttft_ms")
    cold_shown, cold_shown_peer = cold(ours, peers, "shown_ms", "first_line_ms")
    small, large = ttfts(by_lines(ours, 80, 120)), ttfts(by_lines(ours, 4500, 5100))
    found = {
        "ttft_p50_ratio": ttft_ratio(ours, peers, 50),
        "ttft_p90_ratio": ttft_ratio(ours, peers, 90),
        "ttft_p50_ratio_best": ttft_ratio(ours, best, 50),
        "cpu_ratio": cpu_ratio(ours, peers),
        "new_tokens_p50": percentile(new, 50),
        "new_tokens_p90": percentile(new, 90),
        "size_growth": ratio(percentile(large, 50), percentile(small, 50)),
        "cached_ms": percentile([e["total_ms"] for e in events if e["shown_text"]], 99),
        "cancel_p99_ms": percentile(cancel_times_ms(lines, "hard") + cancel_times_ms(lines, "background"), 99),
        "loop_p999_ms": loop_p999_ms(last_lines),
        "cold_first_ms": cold_ms,
        "cold_first_ratio": ratio(cold_peer, cold_ms),
        "jump_first_ms": jump_ms,
        "jump_first_ratio": ratio(jump_peer, jump_ms),
        "jump_new_tokens_p50": percentile(jump_new, 50),
        "wait_300_ratio": wait_ratio(ours, best),
        "wrong": wrong,
        # Beside them:
        "request_new_tokens_p50": percentile([e["new"] for e in events], 50),
        "request_new_tokens_p90": percentile([e["new"] for e in events], 90),
        "cancels_hard": len(cancel_times_ms(lines, "hard")),
        "cancels_soft": len(cancel_times_ms(lines, "soft")),
        "cancel_soft_p99_ms": percentile(cancel_times_ms(lines, "soft"), 99),
        "background_stops": len(cancel_times_ms(lines, "background")),
        "background_stop_p99_ms": percentile(cancel_times_ms(lines, "background"), 99),
        "ttft_p50_ms": percentile([e["ttft_ms"] for e in events if not e["shown_text"]], 50),
        "ttft_p90_ms": percentile([e["ttft_ms"] for e in events if not e["shown_text"]], 90),
        "keys_answered_from_a_window": sum(e["window"] for e in events),
        "keys_cut_without_a_token": sum(e["stop"] == "deadline" and not e["generated"] for e in events),
        "shown_text_keys": sum(e["shown_text"] for e in events),
        "keys": len(events),
        "compared_keys": len(decoded_pairs(ours, peers)),
        "cold_shown_ms": cold_shown,
        "cold_shown_ratio": ratio(cold_shown_peer, cold_shown),
        "cold_fill_cpu_s": sum(run["serial"]["fill_cpu_s"] for run in ours),
    }
    return {key: round(value, 3) if isinstance(value, float) else value for key, value in found.items()}


def kinds_table(ours):
    """Markdown: where tokens are evaluated again, by kind of event. `all` is with the background's work up to the next key."""
    rows = ["| event | keys | new p50 | p90 | max | all p50 | p90 | ttft ms p50 | p90 | shown text | window | empty |", "|---" * 12 + "|"]
    groups = {"open (cold)": [run["serial"]["cold"] for run in ours]}
    for run in ours:
        for e in run["serial"]["events"]:
            groups.setdefault(e["kind"], []).append(e)
    for kind, found in groups.items():
        new, ttft = [e["new"] for e in found], [e["ttft_ms"] for e in found]
        every = [e.get("all_new", e.get("asked_new")) for e in found]
        cells = [kind, len(found), percentile(new, 50), percentile(new, 90), max(new), percentile(every, 50), percentile(every, 90), *(f"{percentile(ttft, p):.0f}" for p in (50, 90)),
                 sum(e["shown_text"] for e in found), sum(e["window"] for e in found), sum(e["outcome"] == "empty" for e in found)]
        rows.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(rows)
