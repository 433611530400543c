# SPDX-License-Identifier: MIT
"""The benchmarks' own parts: sessions are what they claim, figures follow from records, the peer is asked as llama.vim asks."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "bench.d"))

import figures  # noqa: E402
import llama  # noqa: E402
import ours  # noqa: E402
import peers  # noqa: E402
import plot  # noqa: E402
import sessions  # noqa: E402
import spec  # noqa: E402
import suffix  # noqa: E402

SOURCE = "import os\n\n\n" + "".join(
    f"class Step{i}:\n    def run(self, value):\n        total = value + {i}\n        other_{i} = list(range(total))\n"
    f"        self.last = compute_{i}(total, other)\n        if self.last is {i} and other:\n            raise ValueError({i})\n"
    f"        return self.last + len(other_{i})\n\n\n"
    for i in range(60)
)


@pytest.fixture(scope="module")
def session():
    return sessions.make("s", "a/b.py", SOURCE)


# --- sessions


@pytest.mark.parametrize("edit, after", [
    ([0, 1, 0, 1, "X"], "aXb\ncd\n"),
    ([0, 2, 1, 0, ""], "abcd\n"),
    ([1, 0, 1, 2, "x\ny"], "ab\nx\ny\n"),
    ([2, 0, 2, 0, "end"], "ab\ncd\nend"),
])
def test_edit(edit, after):
    assert sessions.apply_edit("ab\ncd\n", edit) == after


def test_session_is_repeatable_and_depends_on_its_file(session):
    assert sessions.make("s", "a/b.py", SOURCE) == session
    assert sessions.make("s", "a/c.py", SOURCE).id() != session.id()


def test_session_has_every_kind_of_event(session):
    kinds = {e.kind for e in session.events}
    assert kinds == {"type", "newline", "typo", "backspace", "delete", "undo", "redo", "accept", "paste", "above", "below",
                     "jump", "back"}


def test_keys_come_as_a_person_types(session):
    times = [0] + [e.t_ms for e in session.events]
    gaps = {e.kind: [] for e in session.events}
    for e, before in zip(session.events, times):
        gaps[e.kind].append(e.t_ms - before)
    assert all(80 <= gap <= 250 for kind in ("type", "typo", "backspace", "delete", "newline") for gap in gaps[kind])
    assert all(400 <= gap for kind in ("above", "below", "paste", "jump", "back", "undo") for gap in gaps[kind])


def test_cursor_stands_behind_what_was_typed(session):
    for event, text in sessions.replay(session):
        line = text.split("\n")[event.cursor[0]]
        assert event.cursor[1] <= len(line)
        if event.kind in ("type", "typo", "accept", "redo"):
            assert line[: event.cursor[1]].endswith(event.edits[-1][4])


def test_undo_and_redo_cancel_out(session):
    texts = [session.text] + [text for _, text in sessions.replay(session)]
    i = next(i for i, e in enumerate(session.events) if e.kind == "undo")
    assert session.events[i + 1].kind == "redo"
    assert texts[i + 2] == texts[i] != texts[i + 1]


def test_lines_of_the_file_are_typed_again_in_its_middle(session):
    *_, (_, end) = sessions.replay(session)
    missing = set(SOURCE.split("\n")) - set(session.text.split("\n"))
    assert len(missing) == 6
    assert len(missing - set(end.split("\n"))) == 1  # the line at the jump's end is only begun
    assert 0.25 < session.start[0] / session.n_lines < 0.65


def test_jump_is_about_200_lines_and_lands_where_a_line_was_taken_out(session):
    i = next(i for i, e in enumerate(session.events) if e.kind == "jump")
    assert session.events[i].edits == []
    assert abs(abs(session.events[i].cursor[0] - session.events[i - 1].cursor[0]) - 200) < 15
    assert session.jump_lines == abs(session.events[i].cursor[0] - session.events[i - 1].cursor[0])
    back = next(e for e in session.events if e.kind == "back")
    texts = list(sessions.replay(session))
    line_before = texts[i - 1][1].split("\n")[session.events[i - 1].cursor[0]]
    assert next(t for e, t in texts if e is back).split("\n")[back.cursor[0]] == line_before


def test_cut_ends_before_a_definition():
    text = sessions.cut(SOURCE, 100)
    assert 90 < text.count("\n") <= 100
    assert SOURCE[len(text) :].lstrip().startswith("def ")
    assert sessions.cut(SOURCE, 5000) == SOURCE


# --- figures


def key(ms, shown_text=False, **more):
    return {"ttft_ms": ms, "total_ms": ms, "first_line_ms": ms, "shown_text": shown_text, "asked": True, "kind": "type"} | more


def run(name, lines, keys, cpu_s=1.0):
    return {"name": name, "lines": lines, "jump_lines": 0, "serial": {"events": keys, "cpu_s": cpu_s}}


@pytest.mark.parametrize("p, value", [(50, 5), (90, 9), (99, 10), (1, 1)])
def test_percentile(p, value):
    assert figures.percentile([10, 9, 8, 7, 6, 5, 4, 3, 2, 1], p) == value


def test_percentile_of_nothing_is_not_invented():
    assert figures.percentile([], 50) is None


def test_keys_answered_from_shown_text_are_left_out_on_both_sides():
    ours = [run("a", 100, [key(10), key(0.1, True), key(10), key(10)])]
    peers = {"a": {"events": [key(100), key(900), key(0, asked=False), key(5, True)], "cpu_s": 5.0}}
    assert figures.ttft_ratio(ours, peers, 50) == 10


def test_sessions_that_the_peer_lacks_do_not_count():
    ours = [run("a", 100, [key(10)], 1.0), run("b", 100, [key(1000)], 50.0)]
    peers = {"a": {"events": [key(100)], "cpu_s": 5.0}}
    assert figures.ttft_ratio(ours, peers, 50) == 10
    assert figures.cpu_ratio(ours, peers) == 0.2
    assert figures.cpu_ratio(ours, {}) is None


def test_wait_is_of_files_of_about_300_lines():
    ours = [run("a", 100, [key(1)]), run("b", 300, [key(10), key(30)])]
    peers = {n: {"events": [key(t) for t in ts]} for n, ts in (("a", [1]), ("b", [50, 70]))}
    assert figures.wait_ratio(ours, peers) == 3


def test_work_in_the_background_belongs_to_the_key_before():
    records = [{"new": 1, "background_before": 50}, {"new": 2, "background_before": 10}, {"new": 3, "background_before": 0, "asked_new": 9}]
    assert [e["all_new"] for e in ours.add_background(records, 5)] == [11, 2, 14]


def test_loop_time_is_the_upper_edge_of_its_bucket():
    def line(*counts, max_us=900):
        return {"loop": {"le_us": list(counts), "max_us": max_us}}

    assert figures.loop_p999_ms([]) is None
    assert figures.loop_p999_ms([line(999, 0, 0, 1, 0, 0, 0, 0)]) == 0.125
    assert figures.loop_p999_ms([line(998, 0, 0, 2, 0, 0, 0, 0)]) == 0.9  # never above the longest turn
    assert figures.loop_p999_ms([line(900, 0, 0, 0, 100, 0, 0, 0, max_us=1900)]) == 1.9
    assert figures.loop_p999_ms([line(900, 0, 0, 0, 0, 0, 0, 0), line(0, 0, 0, 0, 0, 0, 0, 100, max_us=70000)]) == 70


def test_softly_ended_work_is_told_apart():
    lines = [{"cancel_idle_us": 9000, "cancel_kind": "hard"}, {"cancel_idle_us": 80000, "cancel_kind": "soft"},
             {"background_stop_us": 2000}, {}]
    assert [figures.cancel_times_ms(lines, kind) for kind in ("hard", "soft", "background")] == [[9], [80], [2]]


def test_plot_has_a_curve_for_each_percentile_and_panel():
    svg = plot.draw({"maskstore": [(100, [key(10), key(20)]), (1000, [key(30)])]}, "a & b")
    assert svg.count("<polyline") == 6
    assert "a &amp; b" in svg


def log_line(origin, ttft_us, prefill_us, total_us=90000):
    phases = {"queue": 100, "load": 0, "prompt": 200, "tokenize": 100, "prefill": prefill_us, "decode": 5000, "finish": 1}
    return {"origin": origin, "outcome": "shown", "ttft_us": ttft_us, "total_us": total_us, "phases_us": phases}


@pytest.mark.parametrize("line, ms, shown_text", [
    (log_line("memo", 500, 0), 0.5, True),
    (log_line("decoder", 41000, 40000), 41.0, False),
    (log_line("decoder", 600, 40000), 40.4, False),  # its first tokens were remembered, then the decoder went on
    (log_line("decoder", 600, 99000), 90.0, False),
])
def test_remembered_tokens_do_not_hide_the_wait_for_the_decoder(line, ms, shown_text):
    assert ours.first_token_ms(line) == ms
    assert ours.from_shown_text(line) == shown_text


# --- the peer


TEXT = "def f(a):\n    b = a\n    return b\n"


def test_context_is_cut_as_llama_vim_cuts_it():
    c = llama.context(TEXT, [1, 7])
    assert c == {"prefix": "def f(a):\n", "middle": "    b =", "suffix": " a\n    return b\n", "indent": 4}
    long = "".join(f"line {i}\n" for i in range(1000))
    c = llama.context(long, [500, 2], 16)
    assert c["prefix"].split("\n")[0] == "line 244" and c["prefix"].endswith("line 499\n")
    assert c["suffix"].startswith("ne 500\nline 501\n") and c["suffix"].endswith("line 516\n")


def test_blank_line_is_sent_without_its_blanks():
    c = llama.context("if x:\n    \ny\n", [1, 4])
    assert (c["middle"], c["suffix"], c["indent"]) == ("", "\ny\n", 0)


def test_cursor_behind_the_last_line_end():
    assert llama.context("a\n", [1, 0]) == {"prefix": "a\n", "middle": "", "suffix": "\n\n", "indent": 0}


def test_answers_show_the_rest_of_what_was_suggested():
    answers = llama.Answers()
    answers.put(llama.context(TEXT, [1, 4]), "b = a + 1")
    typed = llama.context(TEXT.replace("    b = a", "    b ="), [1, 7])
    assert answers.exact(typed) is None
    # What stands behind the cursor differs here, so it is no hint; with the same suffix it is.
    assert answers.hint(typed) is None
    answers.put(llama.context("x\n", [0, 1]), "yz")
    assert answers.hint(llama.context("xy\n", [0, 2])) == "z"
    assert answers.hint(llama.context("xq\n", [0, 2])) is None
    assert answers.exact(llama.context("x\n", [0, 1])) == "yz"


def test_fewest_lines_lose_at_most_three_items():
    assert suffix.fewest({64: 100, 16: 98, 4: 97}) == 4
    assert suffix.fewest({64: 100, 16: 97, 4: 96}) == 16
    assert suffix.counts_of([{4: True, 16: True, 64: False}, {"4": True, "16": False, "64": False}]) == {64: 0, 16: 1, 4: 2}


# --- peers


def test_settings_that_may_yet_win_stay_in_the_race():
    plain, flash, q8 = peers.SETTINGS
    figure = peers.Figure(peers.SETTINGS)
    figure.add(60.0, {plain: 30.0, flash: 28.0, q8: 20.0})
    assert figure.settings == [plain, flash]
    figure.add(60.0, {plain: 20.0, flash: 30.0})
    figure.add(90.0, {plain: 20.0, flash: 30.0})
    assert figure.ratio() == 2.0  # medians 60 and 30, flash attention's
    assert figure.spread() == [2.0, 3.0]
    assert figure.as_json()["peer_q8_0_flash"] == [20.0]


def test_every_key_is_there_in_order_and_null_where_there_is_no_figure():
    figure = peers.Figure(peers.SETTINGS[:1])
    figure.add(3.0, {peers.SETTINGS[0]: 2.0})
    ratios = peers.ratios_of(peers.KEYS, {"decode_512": figure}, {"dot_share": 0.66666})
    assert tuple(ratios) == peers.KEYS
    assert {k: v for k, v in ratios.items() if v is not None} == {"decode_512": 1.5, "dot_share": 0.667}


def test_every_key_has_a_case_or_is_our_own():
    assert sorted(peers.KEYS) == sorted([*peers.CASES, *peers.OWN])


# --- the command


def test_bench_names_its_benchmarks():
    done = subprocess.run([ROOT / "tools" / "bench", "nothing"], capture_output=True, text=True)
    assert done.returncode == 2
    assert all(name in done.stderr for name in ("peers", "keystrokes", "store"))


# --- speculation


def test_places_are_holes_in_real_files(monkeypatch, tmp_path):
    texts = {f"a/m{i}.py": SOURCE + f"# {i}\n" for i in range(9)} | {"a/tests/t.py": SOURCE, "a/short.py": "x = 1\n"}
    monkeypatch.setattr(sessions, "all_paths", lambda: list(texts))
    monkeypatch.setattr(sessions, "sources", lambda paths: {p: texts[p] for p in paths})
    found = list(spec.places(5, 6))
    assert found == list(spec.places(5, 6)) != list(spec.places(5, 7))
    assert len({path for path, *_ in found}) == 5 and not any("tests" in path or "short" in path for path, *_ in found)
    for path, text, line, character in found:
        whole, holed = texts[path].split("\n"), text.split("\n")
        assert len(holed) == len(whole) - spec.HOLE_LINES + 1
        assert holed[:line] == whole[:line] and holed[line + 1 :] == whole[line + spec.HOLE_LINES :]
        assert holed[line] == whole[line][:character]
    words = spec.write_places(tmp_path, 3, 6)
    assert [word.rsplit(":", 2)[1:] for word in words] == [[str(line + 1), str(character + 1)] for _, _, line, character in found[:3]]
