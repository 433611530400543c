# SPDX-License-Identifier: MIT
"""R21, R79, R80: settings by every way in; wrong ones keep the old values and are named once."""
import time

import pytest
from client import end_of

URI = "file:///settings.py"
WILD = [None, {}, [], "x", 7, True, {"maskstore": None}, {"maskstore": {}}, {"maskstore": []}, {"maskstore": "on"},
        {"maskstore": {"model": None, "cache": 5, "log": {"level": []}}}, {"python": {"analysis": None}},
        {"maskstore": {"\u00fc" * 2000: {"a": {"b": {"c": [None] * 50}}}}}]


@pytest.mark.parametrize("options", [*WILD, {"surprise": 1}])
def test_initialization_options(bare, options):
    bare.start(initializationOptions=options)
    bare.ping()
    assert not [t for t in bare.texts("window/showMessage") if "setting" in t]


def test_bad_keys_are_named_once(ready):
    for _ in range(3):
        ready.notify("workspace/didChangeConfiguration", {"settings": {"maskstore": {"surprise": 1, "threads": "many"}}})
    ready.ping()
    assert sum("surprise" in t for t in ready.texts()) == 1
    assert sum("threads" in t for t in ready.texts()) == 1


def test_wild_settings_leave_completion_as_it_was(served):
    text = "def half(n):\n    return n / "
    served.open(URI, text)
    want = served.complete(URI, end_of(text))
    for settings in WILD:
        served.notify("workspace/didChangeConfiguration", {"settings": settings})
        assert served.complete(URI, end_of(text)) == want
    for params in ({}, None, []):
        served.notify("workspace/didChangeConfiguration", params)
    assert served.complete(URI, end_of(text)) == want


def asked(client):
    return [m for m in client.messages if m.get("method") == "workspace/configuration"]


def test_configuration_is_asked_only_where_the_client_has_it(bare):
    bare.start()
    bare.notify("workspace/didChangeConfiguration", {"settings": None})
    bare.ping()
    assert not asked(bare)


@pytest.mark.parametrize("answer", [{"result": None}, {"result": []}, {"result": {}}, {"result": [None, 1, 2]}, {"result": [{"model": 5}]}, {"result": "x"},
                                    {"error": {"code": -32601, "message": "no"}}])
def test_answers_to_the_configuration_request(bare, answer):
    bare.reply = False
    bare.start({"workspace": {"configuration": True}})
    request = bare.wait_for(lambda: asked(bare))[0]
    assert isinstance(request["id"], int) and request["params"]["items"] == [{"section": "maskstore"}]
    bare.send({"jsonrpc": "2.0", "id": request["id"], **answer})
    bare.open(URI, "x = ")
    assert bare.wait(bare.ask(URI, {"line": 0, "character": 4}))["result"] is None
    bare.wait_for(lambda: bare.notes("window/showMessage"))
    assert "/nonexistent/model.gguf" in bare.notes("window/showMessage")[0]["message"]  # the model of the command line stayed


def test_the_model_may_come_by_configuration(bare):
    bare.reply = False
    bare.start({"workspace": {"configuration": True}})
    request = bare.wait_for(lambda: asked(bare))[0]
    bare.send({"jsonrpc": "2.0", "id": request["id"], "result": [{"model": "/other/model.gguf"}]})
    bare.wait_for(lambda: bare.notes("window/showMessage"))
    assert "/other/model.gguf" in bare.notes("window/showMessage")[0]["message"]


def test_a_client_that_never_answers(bare):
    bare.reply = False
    bare.start({"workspace": {"configuration": True}})
    begin = time.monotonic()
    bare.wait_for(lambda: bare.notes("window/showMessage"))  # the model is tried all the same
    assert time.monotonic() - begin < 10


def test_changed_settings_at_run_time_are_one_line(ready):
    for n in (1, 2):
        ready.notify("workspace/didChangeConfiguration", {"settings": {"maskstore": {"model": f"/other/{n}.gguf"}}})
    ready.ping()
    assert sum("starts again" in t for t in ready.texts()) == 1
