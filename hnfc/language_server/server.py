"""The server: what an editor asks, answered from the buffers; verdicts come from the background."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import threading
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path

from hnfc.dsl import core
from hnfc.dsl.diagnostics import Diagnostic, HnfError, Span
from hnfc.dsl.parser import parse
from hnfc.dsl.printer import print_file
from hnfc.dsl.soundness import Status
from hnfc.dsl.text_files import read_text
from hnfc.language_server import completing, symbols
from hnfc.language_server.actions import RuleEdit, proposed_condition, written_test
from hnfc.language_server.buffers import RuleBuffer, read_buffer
from hnfc.language_server.describing import word_text
from hnfc.language_server.judging import BackgroundJudge, prepare_prover
from hnfc.language_server.tokens import DeclaredPart, RuleWord, kind_of, utf16, word_at
from hnfc.pages.document import rendered
from hnfc.pages.rules import explain_pages
from hnfc.report.explain import facts_of_rule
from hnfc.report.rules import finding

PAUSE = 0.1
"""Seconds without a key after which rules are proved."""
MOST_FILES, MOST_FOLDERS = 500, 5000
EXPLAIN = "hnfc.explain"
KINDS = ("keyword", "function", "variable", "number", "string", "comment", "operator", "class", "property")
_COMPLETIONS = {
    "keyword": lsp.CompletionItemKind.Keyword, "function": lsp.CompletionItemKind.Function, "property": lsp.CompletionItemKind.Property,
    "variable": lsp.CompletionItemKind.Variable, "constant": lsp.CompletionItemKind.Constant, "rule": lsp.CompletionItemKind.Class,
    "type": lsp.CompletionItemKind.TypeParameter,
}  # fmt: skip
_SYMBOLS = {"rule": lsp.SymbolKind.Class, "def": lsp.SymbolKind.Function, "test": lsp.SymbolKind.Event}
_MARKS = {Status.PROVED: "✓ proved", Status.REFUTED: "✗ refuted", Status.VACUOUS: "✗ vacuous", Status.UNKNOWN: "? not decided"}


def _version() -> str:
    try:
        return version("hnfc")
    except PackageNotFoundError:
        return "0"


class RuleServer(LanguageServer):
    """Buffers of open files by address, and the judge of each."""

    def __init__(self) -> None:
        super().__init__("hnfc", _version())
        self.buffers: dict[str, RuleBuffer] = {}
        self.judges: dict[str, BackgroundJudge] = {}
        self.waiting: dict[str, asyncio.TimerHandle] = {}

    def update(self, uri: str, text: str, number: int) -> None:
        """Takes a new version: its faults are shown at once, its rules are proved after a pause."""
        self.buffers[uri] = read_buffer(Path(to_fs_path(uri) or uri), text, number)
        judge = self.judges.setdefault(uri, BackgroundJudge())
        judge.stop()
        self.show(uri)
        if uri in self.waiting:
            self.waiting[uri].cancel()
        self.waiting[uri] = asyncio.get_running_loop().call_later(PAUSE, self.prove, uri)

    def prove(self, uri: str) -> None:
        """Starts the proofs of a file."""
        loop, buffer = asyncio.get_running_loop(), self.buffers.get(uri)
        if buffer is None:
            return
        number = buffer.version

        def done(_: core.Rule) -> None:
            loop.call_soon_threadsafe(self.show, uri, number)

        self.judges[uri].start(buffer.rules, done)

    def show(self, uri: str, number: int | None = None) -> None:
        """Sends the diagnostics of the latest version; those of an older one are dropped."""
        buffer = self.buffers.get(uri)
        if buffer is None or (number is not None and number != buffer.version):
            return
        found = [*buffer.faults]
        for rule in buffer.rules:
            verdict = self.judges[uri].verdict(rule)
            if verdict is not None and not verdict.proved:
                found.append(finding(rule, verdict))
        diagnostics = [diagnostic_of(each, buffer) for each in found]
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, diagnostics, buffer.version))
        if number is not None and self.client_capabilities.workspace and self.client_capabilities.workspace.inlay_hint:
            self.workspace_inlay_hint_refresh(None)

    def workspace_buffers(self) -> dict[Path, RuleBuffer]:
        """All rule files below the folders of the workspace and beside the open ones: open ones as they stand in the editor."""
        found = {buffer.path: buffer for buffer in self.buffers.values()}
        roots = {Path(to_fs_path(folder.uri) or ".") for folder in self.workspace.folders.values()} | {path.parent for path in found}
        for path in rule_files(sorted(roots)):
            if path not in found:
                with contextlib.suppress(OSError, UnicodeDecodeError):
                    found[path] = read_buffer(path, read_text(path))
        return found

    def at(self, document: lsp.TextDocumentIdentifier, position: lsp.Position) -> tuple[RuleBuffer, RuleWord | None, DeclaredPart | None]:
        """The buffer, word and declaration of a position."""
        buffer = self.buffers[document.uri]
        return buffer, word_at(buffer.words, position.line, position.character), buffer.declared_at(position.line)


def rule_files(roots: Sequence[Path]) -> list[Path]:
    """Rule files below the folders; hidden folders, installed packages, and what lies beyond so many folders are left out."""
    found: list[Path] = []
    for root in roots:
        for count, (place, folders, names) in enumerate(os.walk(root)):
            if count >= MOST_FOLDERS or len(found) >= MOST_FILES:
                break
            folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in ("node_modules", "site-packages"))
            found += [Path(place) / name for name in sorted(names) if name.endswith(".hnf")]
    return list(dict.fromkeys(found))


def diagnostic_of(found: Diagnostic, buffer: RuleBuffer) -> lsp.Diagnostic:
    """A diagnostic for an editor: note and help stand below the message."""
    lines = [found.message, *([f"note: {found.note}"] if found.note else []), *([f"help: {found.help}"] if found.help else [])]
    severity = lsp.DiagnosticSeverity.Warning if found.severity == "warning" or found.code == "HNF0502" else lsp.DiagnosticSeverity.Error
    return lsp.Diagnostic(range_of(found.span, buffer), "\n".join(lines), severity, found.code, source="hnfc")


def range_of(span: Span | None, buffer: RuleBuffer) -> lsp.Range:
    """A span in positions of an editor."""
    if span is None:
        return lsp.Range(lsp.Position(0, 0), lsp.Position(0, 0))
    lines = buffer.text.split("\n")

    def place(line: int, column: int) -> lsp.Position:
        line = min(max(line - 1, 0), len(lines) - 1)
        return lsp.Position(line, utf16(lines[line][: max(column - 1, 0)]))

    return lsp.Range(place(span.line, span.column), place(span.end_line, span.end_column))


def word_range(word: RuleWord) -> lsp.Range:
    """The range of a word."""
    return lsp.Range(lsp.Position(word.line, word.column), lsp.Position(word.line, word.end_column))


def edit_of(edit: RuleEdit) -> lsp.TextEdit:
    """An edit for an editor."""
    start = lsp.Position(edit.line, edit.column)
    return lsp.TextEdit(lsp.Range(start, lsp.Position(*edit.end) if edit.end is not None else start), edit.text)


def rules_in(buffer: RuleBuffer, span: lsp.Range) -> Sequence[core.Rule]:
    """Rules whose declarations meet a range."""
    near = (d for d in buffer.declarations if d.words[0].line <= span.end.line and d.last_line >= span.start.line)
    names = {d.name for d in near if d.keyword == "rule"}
    return [rule for rule in buffer.rules if rule.name in names]


def colours(buffer: RuleBuffer) -> list[int]:
    """Words with their kinds, each relative to the one before."""
    data: list[int] = []
    line = column = 0
    definitions = frozenset(buffer.definitions)
    for place, word in enumerate(buffer.words):
        after = buffer.words[place + 1] if place + 1 < len(buffer.words) else None
        kind = kind_of(word, after, buffer.declared_at(word.line), definitions) if word.kind == "name" else word.kind
        step = word.line - line
        data += [step, word.column - (0 if step else column), word.end_column - word.column, KINDS.index(kind), 0]
        line, column = word.line, word.column
    return data


def made_server() -> RuleServer:
    """The server with all of its answers."""
    server = RuleServer()

    @server.feature(lsp.INITIALIZED)
    def started(_: lsp.InitializedParams) -> None:
        threading.Thread(target=prepare_prover, daemon=True).start()

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: lsp.DidOpenTextDocumentParams) -> None:
        server.update(params.text_document.uri, params.text_document.text, params.text_document.version)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def changed(params: lsp.DidChangeTextDocumentParams) -> None:
        uri = params.text_document.uri
        server.update(uri, server.workspace.get_text_document(uri).source, params.text_document.version)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: lsp.DidCloseTextDocumentParams) -> None:
        uri = params.text_document.uri
        server.judges.pop(uri, BackgroundJudge()).stop()
        server.buffers.pop(uri, None)
        server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))

    @server.feature(lsp.SHUTDOWN)
    def ended(_: None) -> None:
        for judge in server.judges.values():
            judge.stop()

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    def hover(params: lsp.HoverParams) -> lsp.Hover | None:
        buffer, word, declared = server.at(params.text_document, params.position)
        rule = buffer.book.named(word.text) if word is not None else None
        judge = server.judges[params.text_document.uri]
        text = word and word_text(buffer, word, declared, judge.verdict(rule) if rule else None, judge.floating(rule) if rule else ())
        return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, text), word_range(word)) if word and text else None

    @server.feature(lsp.TEXT_DOCUMENT_COMPLETION, lsp.CompletionOptions(trigger_characters=[":"]))
    def complete(params: lsp.CompletionParams) -> list[lsp.CompletionItem]:
        found = completing.completions(server.buffers[params.text_document.uri], params.position.line, params.position.character)
        return [
            lsp.CompletionItem(c.label, kind=_COMPLETIONS[c.kind], detail=c.detail or None,
                               documentation=lsp.MarkupContent(lsp.MarkupKind.Markdown, c.text) if c.text else None)
            for c in found
        ]  # fmt: skip

    @server.feature(lsp.TEXT_DOCUMENT_SIGNATURE_HELP, lsp.SignatureHelpOptions(trigger_characters=["(", ","]))
    def arguments(params: lsp.SignatureHelpParams) -> lsp.SignatureHelp | None:
        buffer, place = server.buffers[params.text_document.uri], params.position
        found = completing.active_signature(buffer, place.line, place.character)
        if found is None:
            return None
        label, text, active = found
        names = [lsp.ParameterInformation(name.strip()) for name in label[label.index("(") + 1 : -1].split(",")]
        return lsp.SignatureHelp([lsp.SignatureInformation(label, text, names)], 0, min(active, max(len(names) - 1, 0)))

    add_navigation(server)
    add_edits(server)
    return server


def add_navigation(server: RuleServer) -> None:
    """Definitions, references, folding, colours, symbols, and marks of verdicts."""

    @server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    def define(params: lsp.DefinitionParams) -> lsp.Location | None:
        buffer, word, _ = server.at(params.text_document, params.position)
        thing = symbols.named_at(buffer, word) if word is not None else None
        found = symbols.definition(thing, server.workspace_buffers()) if thing is not None else None
        return lsp.Location(from_fs_path(str(found[0])) or "", word_range(found[1])) if found is not None else None

    @server.feature(lsp.TEXT_DOCUMENT_REFERENCES)
    def refer(params: lsp.ReferenceParams) -> list[lsp.Location]:
        buffer, word, _ = server.at(params.text_document, params.position)
        thing = symbols.named_at(buffer, word) if word is not None else None
        found = symbols.uses(thing, server.workspace_buffers()) if thing is not None else ()
        return [lsp.Location(from_fs_path(str(path)) or "", word_range(each)) for path, each in found]

    @server.feature(lsp.TEXT_DOCUMENT_FOLDING_RANGE)
    def fold(params: lsp.FoldingRangeParams) -> list[lsp.FoldingRange]:
        buffer = server.buffers[params.text_document.uri]
        return [lsp.FoldingRange(d.words[0].line, d.last_line) for d in buffer.declarations if d.last_line > d.words[0].line]

    @server.feature(lsp.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, lsp.SemanticTokensLegend(list(KINDS), []))
    def colour(params: lsp.SemanticTokensParams) -> lsp.SemanticTokens:
        return lsp.SemanticTokens(colours(server.buffers[params.text_document.uri]))

    @server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def outline(params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
        found = []
        for declared in server.buffers[params.text_document.uri].declarations:
            if declared.name_word is not None:
                last = declared.words[-1]
                whole = lsp.Range(lsp.Position(declared.words[0].line, 0), lsp.Position(last.line, last.end_column))
                kind = _SYMBOLS.get(declared.keyword, lsp.SymbolKind.Constant)
                found.append(lsp.DocumentSymbol(declared.name, kind, whole, word_range(declared.name_word), declared.keyword))
        return found

    @server.feature(lsp.TEXT_DOCUMENT_INLAY_HINT)
    def mark(params: lsp.InlayHintParams) -> list[lsp.InlayHint]:
        buffer, judge = server.buffers[params.text_document.uri], server.judges[params.text_document.uri]
        hints = []
        for declared in buffer.declarations:
            rule = buffer.book.named(declared.name) if declared.keyword == "rule" else None
            if rule is not None and declared.name_word is not None:
                verdict = judge.verdict(rule)
                word = declared.name_word
                label = _MARKS[verdict.status] if verdict is not None else "proving …"
                hints.append(lsp.InlayHint(lsp.Position(word.line, word.end_column), label, padding_left=True))
        return hints


def add_edits(server: RuleServer) -> None:
    """Renaming, formatting, code actions, and the page of a rule."""

    @server.feature(lsp.TEXT_DOCUMENT_PREPARE_RENAME)
    def prepare(params: lsp.PrepareRenameParams) -> lsp.Range | None:
        buffer, word, _ = server.at(params.text_document, params.position)
        return word_range(word) if word is not None and symbols.named_at(buffer, word) is not None else None

    @server.feature(lsp.TEXT_DOCUMENT_RENAME, lsp.RenameOptions(prepare_provider=True))
    def rename(params: lsp.RenameParams) -> lsp.WorkspaceEdit | None:
        buffer, word, _ = server.at(params.text_document, params.position)
        thing = symbols.named_at(buffer, word) if word is not None else None
        if thing is None:
            return None
        if not params.new_name.isidentifier() or not params.new_name.isascii() or params.new_name in symbols.TAKEN:
            raise ValueError(f"`{params.new_name}` is no name that a rule file can give")
        edits: dict[str, list[lsp.TextEdit]] = {}
        for path, each in symbols.uses(thing, server.workspace_buffers()):
            edits.setdefault(from_fs_path(str(path)) or "", []).append(lsp.TextEdit(word_range(each), params.new_name))
        return lsp.WorkspaceEdit(dict(edits))

    @server.feature(lsp.TEXT_DOCUMENT_FORMATTING)
    def format(params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit]:
        text = server.buffers[params.text_document.uri].text
        try:
            formatted = print_file(parse(text, params.text_document.uri))
        except HnfError:
            return []
        whole = lsp.Range(lsp.Position(0, 0), lsp.Position(text.count("\n") + 1, 0))
        return [lsp.TextEdit(whole, formatted)] if formatted != text else []

    @server.feature(lsp.TEXT_DOCUMENT_CODE_ACTION)
    def offer(params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        uri = params.text_document.uri
        buffer, found = server.buffers[uri], list[lsp.CodeAction]()
        for rule in rules_in(buffer, params.range):
            verdict = server.judges[uri].verdict(rule)
            condition = proposed_condition(buffer, rule, verdict) if verdict is not None else None
            test = written_test(buffer, rule) if verdict is not None and verdict.proved else None
            for edit, kind in ((condition, lsp.CodeActionKind.QuickFix), (test, lsp.CodeActionKind.Refactor)):
                if edit is not None:
                    found.append(lsp.CodeAction(edit.title, kind, edit=lsp.WorkspaceEdit({uri: [edit_of(edit)]})))
            command = lsp.Command(f"Explain `{rule.name}`", EXPLAIN, arguments=[uri, rule.name])
            found.append(lsp.CodeAction(command.title, lsp.CodeActionKind.Empty, command=command))
        return found

    @server.command(EXPLAIN)
    async def explain(uri: str, name: str) -> str | None:
        buffer = server.buffers.get(uri)
        rule = buffer.book.named(name) if buffer is not None else None
        if buffer is None or rule is None:
            return None
        facts = await asyncio.to_thread(facts_of_rule, rule)
        page = rendered(explain_pages([(buffer.book, rule, *facts)], command=f"hnfc explain {name} --rules {buffer.path}"))
        with tempfile.NamedTemporaryFile("w", prefix=f"hnfc-{name}-", suffix=".html", delete=False, encoding="utf-8") as file:
            file.write(page)
        window = server.client_capabilities.window
        if window is not None and window.show_document is not None and window.show_document.support:
            server.window_show_document(lsp.ShowDocumentParams(from_fs_path(file.name) or "", external=True))
        return file.name
