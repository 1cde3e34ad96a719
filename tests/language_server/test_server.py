"""The server as an editor meets it: over its streams, with pygls' client."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

from hnfc.dsl.rulebook import load_text
from hnfc.dsl.soundness.checking import check

WRONG = "rule relu_scale\n    relu(s * x) => s * relu(x)\n"
RIGHT = "rule relu_scale\n    relu(s * x) => s * relu(x)\n    where s >= 0\n"
SLOW = "".join(f"rule r{i}\n    log(sum[k](exp({i} * x))) => max[k](x) + log(sum[k](exp({i} * x - max[k](x))))\n\n" for i in range(2, 14))


SHIPPED = 'rule log1p_fusion "1 + x drops the digits of a small x"\n    source "Goldberg 1991, theorem 4"\n    log(1 + x) => log1p(x)'
"""A rule whose verdicts ship."""
ODD = (
    "", "\ufeff", "rule", 'rule "', 'import "a.hnf"\n', 'import "none.hnf"\n', "(" * 500, "rule a\n    𝛼(x) => x\n", "\0", "a\r\nb",
)  # fmt: skip


class Editor:
    """A client with one open file."""

    def __init__(self, client: LanguageClient, folder: Path) -> None:
        self.client, self.uri, self.version = client, (folder / "a.hnf").as_uri(), 0
        self.published: list[lsp.PublishDiagnosticsParams] = []

        @client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def published(params: lsp.PublishDiagnosticsParams) -> None:
            self.published.append(params)

        self.document = lsp.TextDocumentIdentifier(self.uri)
        self.refreshed = 0
        self.shown: list[str] = []

        @client.feature(lsp.WORKSPACE_INLAY_HINT_REFRESH)
        def refreshed(*_: object) -> None:
            self.refreshed += 1

        @client.feature(lsp.WINDOW_SHOW_DOCUMENT)
        def shown(params: lsp.ShowDocumentParams) -> lsp.ShowDocumentResult:
            self.shown.append(params.uri)
            return lsp.ShowDocumentResult(True)

    def type(self, text: str) -> None:
        self.version += 1
        if self.version == 1:
            item = lsp.TextDocumentItem(self.uri, "hnf", 1, text)
            self.client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))
            return
        change = lsp.TextDocumentContentChangeWholeDocument(text)
        document = lsp.VersionedTextDocumentIdentifier(self.version, self.uri)
        self.client.text_document_did_change(lsp.DidChangeTextDocumentParams(document, [change]))

    async def until(self, fits: Callable[[list[lsp.Diagnostic]], bool], seconds: float = 30) -> list[lsp.Diagnostic]:
        """The diagnostics of the version at hand, once they fit."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for each in reversed(self.published):
                if each.version == self.version and fits(list(each.diagnostics)):
                    return list(each.diagnostics)
            await asyncio.sleep(0.02)
        raise TimeoutError(f"version {self.version}: {self.published[-1:]}")

    async def mark(self) -> str:
        """The verdict beside the first rule, once it is there."""
        for _ in range(1500):
            whole = lsp.Range(lsp.Position(0, 0), lsp.Position(99, 0))
            hints = await self.client.text_document_inlay_hint_async(lsp.InlayHintParams(self.document, whole)) or []
            if hints and hints[0].label != "proving …":
                return str(hints[0].label)
            await asyncio.sleep(0.02)
        raise TimeoutError


def with_editor(folder: Path, use: Callable[[Editor], Awaitable[None]]) -> None:
    async def run() -> None:
        client = LanguageClient("tests", "1")
        await client.start_io(sys.executable, "-m", "hnfc.cli.main", "lsp")
        root = [lsp.WorkspaceFolder(folder.as_uri(), "w")]
        marks = lsp.WorkspaceClientCapabilities(inlay_hint=lsp.InlayHintWorkspaceClientCapabilities(refresh_support=True))
        window = lsp.WindowClientCapabilities(show_document=lsp.ShowDocumentClientCapabilities(True))
        able = lsp.ClientCapabilities(marks, window=window)
        await client.initialize_async(lsp.InitializeParams(able, workspace_folders=root))
        client.initialized(lsp.InitializedParams())
        await use(Editor(client, folder))
        await client.shutdown_async(None)
        client.exit(None)
        await client.stop()

    asyncio.run(asyncio.wait_for(run(), 120))


def test_verdicts_follow_what_is_typed(tmp_path: Path) -> None:
    async def use(editor: Editor) -> None:
        editor.type(WRONG)
        (first,) = await editor.until(bool)
        assert first.code == "HNF0501" and "counterexample" in first.message
        (found,) = await editor.until(lambda found: any("where s >= 0" in each.message for each in found))
        assert found.range == lsp.Range(lsp.Position(1, 4), lsp.Position(1, 15))
        whole = lsp.Range(lsp.Position(0, 0), lsp.Position(2, 0))
        actions: Any = await editor.client.text_document_code_action_async(
            lsp.CodeActionParams(editor.document, whole, lsp.CodeActionContext([found]))
        )
        assert any("Take `where s >= 0`" in action.title for action in actions) and any("Explain" in a.title for a in actions)
        editor.type(RIGHT)
        assert await editor.mark() == "✓ proved" and editor.refreshed > 0
        assert await editor.until(lambda found: not found) == []
        editor.type(RIGHT.replace("relu(x)", "relu(x", 1))
        (fault,) = await editor.until(bool)
        assert fault.code == "HNF0103"
        hover = await editor.client.text_document_hover_async(lsp.HoverParams(editor.document, lsp.Position(1, 6)))
        assert hover is not None and "max(x, 0)" in str(hover.contents)
        wanted = lsp.DocumentFormattingParams(editor.document, lsp.FormattingOptions(4, True))
        assert not await editor.client.text_document_formatting_async(wanted)

    with_editor(tmp_path, use)


def test_the_next_key_ends_the_proofs_of_the_last(tmp_path: Path) -> None:
    async def use(editor: Editor) -> None:
        editor.type(SLOW)
        await asyncio.sleep(0.6)
        editor.type(WRONG)
        await editor.until(bool)
        answered: list[float] = []
        for number in range(2, 6):
            began = time.monotonic()
            editor.type(WRONG.replace("s * x", f"{number} * s * x").replace("=> s", f"=> {number} * s"))
            await editor.until(bool)
            answered.append(time.monotonic() - began)
        began = time.monotonic()
        check(load_text(WRONG, "a.hnf").rules[0])
        # the proof itself, a pause, and a process; on an idle machine less than a second in all
        assert min(answered) < 4 * (time.monotonic() - began) + 1, answered

    with_editor(tmp_path, use)


def test_a_refutation_does_not_wait_for_its_condition(tmp_path: Path) -> None:
    async def use(editor: Editor) -> None:
        texts = [f"rule a\n    {n} * max[k](x + y) => {n} * max[k](x) + {n} * max[k](y)\n" for n in range(2, 6)]
        answered = []
        for text in texts:
            began = time.monotonic()
            editor.type(text)
            await editor.until(bool)
            answered.append(time.monotonic() - began)
        began = time.monotonic()
        check(load_text(texts[0], "a.hnf").rules[0])
        assert min(answered) < (time.monotonic() - began) / 2 + 0.3, answered

    with_editor(tmp_path, use)


def test_an_odd_file_does_not_end_the_server(tmp_path: Path) -> None:
    async def use(editor: Editor) -> None:
        for text in ODD:
            editor.type(text)
            request = lsp.SemanticTokensParams(editor.document)
            assert await editor.client.text_document_semantic_tokens_full_async(request) is not None
            place = lsp.Position(0, 0)
            await editor.client.text_document_completion_async(lsp.CompletionParams(editor.document, place))
            await editor.client.text_document_definition_async(lsp.DefinitionParams(editor.document, place))
            await editor.client.text_document_document_symbol_async(lsp.DocumentSymbolParams(editor.document))
        editor.type(WRONG)
        await editor.until(bool)

    with_editor(tmp_path, use)


def test_names_colours_folds_and_the_page_of_a_rule(tmp_path: Path) -> None:
    text = f'import "lib.hnf"\n{SHIPPED}\n\ndef own(x) = half(x)\n\nrule r\n    own(x) + own(x) => x\n'

    async def use(editor: Editor) -> None:
        (tmp_path / "node_modules").mkdir()
        for name in ("lib.hnf", "node_modules/other.hnf"):
            (tmp_path / name).write_text("def half(x) = x / 2\n")
        editor.type(text)
        client, place = editor.client, lsp.Position(5, 14)
        found = await client.text_document_definition_async(lsp.DefinitionParams(editor.document, place))
        assert isinstance(found, lsp.Location) and found.uri == (tmp_path / "lib.hnf").as_uri()
        uses = await client.text_document_references_async(lsp.ReferenceParams(lsp.ReferenceContext(True), editor.document, place))
        assert uses is not None and sorted(Path(each.uri).name for each in uses) == ["a.hnf", "lib.hnf"]
        edit = await client.text_document_rename_async(lsp.RenameParams(editor.document, place, "halved"))
        assert edit is not None and edit.changes is not None and len(edit.changes) == 2
        folds = await client.text_document_folding_range_async(lsp.FoldingRangeParams(editor.document))
        assert folds is not None and [(fold.start_line, fold.end_line) for fold in folds] == [(1, 3), (7, 8)]
        symbols = await client.text_document_document_symbol_async(lsp.DocumentSymbolParams(editor.document))
        assert symbols is not None and [symbol.name for symbol in symbols] == ["log1p_fusion", "own", "r"]
        file = await client.workspace_execute_command_async(lsp.ExecuteCommandParams("hnfc.explain", [editor.uri, "log1p_fusion"]))
        assert "proved over the reals" in Path(str(file)).read_text() and "log1p_fusion" in Path(str(file)).read_text()
        assert editor.shown == [Path(str(file)).as_uri()]
        Path(str(file)).unlink()

    with_editor(tmp_path, use)
