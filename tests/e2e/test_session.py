# SPDX-License-Identifier: MIT
"""R60: a session by pytest-lsp, whose lsprotocol types check every answer in their own way."""
import asyncio

import pytest
import pytest_asyncio

pytest_lsp = pytest.importorskip("pytest_lsp")
from lsprotocol import types  # noqa: E402

URI = "file:///session.py"
TEXT = "def add(a, b):\n    return "


@pytest_asyncio.fixture
async def client(binary, model, env, tmp_path):
    config = pytest_lsp.ClientServerConfig(server_command=[
        binary, "--stdio", "--model", model, "--cache-dir", str(tmp_path), "--strategy", "conservative", "--deadline-ms", "0"], server_env=env)
    client = await config.start()
    capabilities = pytest_lsp.client_capabilities("neovim")
    capabilities.text_document.inline_completion = types.InlineCompletionClientCapabilities()
    client.result = await client.initialize_session(types.InitializeParams(capabilities=capabilities))
    yield client
    await client.shutdown_session()


def open_params(text):
    return types.DidOpenTextDocumentParams(types.TextDocumentItem(uri=URI, language_id="python", version=1, text=text))


@pytest.mark.asyncio
async def test_session(client):
    c = client.result.capabilities
    assert c.inline_completion_provider and c.completion_provider and c.position_encoding
    client.text_document_did_open(open_params(TEXT))
    document, place = types.TextDocumentIdentifier(URI), types.Position(1, 11)
    inline = await asyncio.wait_for(client.text_document_inline_completion_async(types.InlineCompletionParams(
        context=types.InlineCompletionContext(types.InlineCompletionTriggerKind.Invoked), text_document=document, position=place)), 120)
    menu = await asyncio.wait_for(client.text_document_completion_async(types.CompletionParams(document, place)), 120)
    assert isinstance(inline, types.InlineCompletionList) and isinstance(menu, types.CompletionList)
    assert inline.items[0].insert_text == menu.items[0].text_edit.new_text
    assert inline.items[0].range == types.Range(place, place)

    client.text_document_did_change(types.DidChangeTextDocumentParams(types.VersionedTextDocumentIdentifier(2, URI), [
        types.TextDocumentContentChangePartial(range=types.Range(place, place), text="a + ")]))
    inline = await asyncio.wait_for(client.text_document_inline_completion_async(types.InlineCompletionParams(
        context=types.InlineCompletionContext(types.InlineCompletionTriggerKind.Automatic), text_document=document,
        position=types.Position(1, 15))), 120)
    assert inline is None or all(i.range.start == types.Position(1, 15) for i in inline.items)
