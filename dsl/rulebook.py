"""Collections of rules: the shipped ones by group, and files of the user with what they import."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path

from hnfc.dsl import core, syntax
from hnfc.dsl.diagnostics import Diagnostic, HnfError, Span
from hnfc.dsl.elaborate import Elaborator
from hnfc.dsl.formats import FormatBook
from hnfc.dsl.parser import parse, parse_sound
from hnfc.dsl.targets import TargetBook
from hnfc.dsl.text_files import read_text

MAX_IMPORTS = 100


@dataclass
class Rulebook:
    """Rules in order, number formats, and the text and the tree of every file that they come from (for messages, tests and printing).

    faults: what is wrong with declarations that were left out.
    """

    rules: list[core.Rule] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)
    files: dict[str, syntax.File] = field(default_factory=dict)
    formats: FormatBook = field(default_factory=FormatBook)
    targets: TargetBook = field(default_factory=TargetBook)
    faults: list[Diagnostic] = field(default_factory=list)

    def named(self, name: str) -> core.Rule | None:
        return next((rule for rule in self.rules if rule.name == name), None)

    def groups(self) -> dict[str, list[core.Rule]]:
        result: dict[str, list[core.Rule]] = {}
        for rule in self.rules:
            result.setdefault(rule.group, []).append(rule)
        return result

    def only(self, groups: Iterable[str]) -> Rulebook:
        wanted = set(groups)
        return Rulebook([rule for rule in self.rules if rule.group in wanted], self.sources, self.files, self.formats, self.targets)


def load_files(paths: Iterable[str | Path], faults: list[Diagnostic] | None = None) -> Rulebook:
    """The rules of the files (`-` is stdin) and of what they import. Raises HnfError; OSError where a named file cannot be read.

    faults: what is wrong with single declarations is added here, and the others are loaded.
    """
    loader = _Loader(FormatBook(shipped_formats), TargetBook(shipped_targets), faults)
    for path in paths:
        if str(path) == "-":
            loader.load_text(sys.stdin.buffer.read().decode(errors="replace"), "<stdin>", Path())
        else:
            loader.load(Path(path), None, None)
    return loader.book


def load_text(text: str, name: str) -> Rulebook:
    """The rules of a text; it may import files of the shipped rules. Raises HnfError."""
    loader = _Loader(FormatBook(shipped_formats), TargetBook(shipped_targets))
    loader.load_text(text, name, None)
    return loader.book


@cache
def shipped() -> Rulebook:
    """Every rule that hnfc brings."""
    folder = files("hnfc") / "rules"
    loader = _Loader(FormatBook(), TargetBook())
    for entry in sorted(folder.iterdir(), key=lambda e: e.name):
        if entry.name.endswith(".hnf"):
            loader.load_text(entry.read_text(encoding="utf-8"), f"rules/{entry.name}", None)
    return loader.book


@cache
def shipped_formats() -> FormatBook:
    """The number formats that hnfc brings; read without the rules."""
    entry = files("hnfc") / "rules" / "formats.hnf"
    book = FormatBook()
    book.add(parse(entry.read_text(encoding="utf-8"), "rules/formats.hnf"))
    return book


@cache
def shipped_targets() -> TargetBook:
    """The machines that hnfc brings; read without the rules."""
    entry = files("hnfc") / "rules" / "targets.hnf"
    book = TargetBook()
    book.add(parse(entry.read_text(encoding="utf-8"), "rules/targets.hnf"))
    return book


class _Loader:
    def __init__(self, formats: FormatBook, targets: TargetBook, faults: list[Diagnostic] | None = None) -> None:
        self.faults = faults
        self.book = Rulebook(formats=formats, targets=targets, faults=faults if faults is not None else [])
        self._definitions: dict[str, dict[str, syntax.Definition]] = {}
        self._loading: list[str] = []

    def load(self, path: Path, imported_by: str | None, span: Span | None) -> dict[str, syntax.Definition]:
        """Loads a file once; returns the definitions that it has or imports."""
        key = str(path)
        if key in self._loading:
            chain = " → ".join([*self._loading, key])
            raise HnfError(
                [Diagnostic("HNF0301", f"the files import each other: {chain}", imported_by or key, span, help="remove one import")]
            )
        if key in self._definitions:
            return self._definitions[key]
        if len(self._definitions) > MAX_IMPORTS:
            raise HnfError([Diagnostic("HNF0302", f"more than {MAX_IMPORTS} files are imported", imported_by or key, span)])
        try:
            text = read_text(path)
        except UnicodeDecodeError:
            raise HnfError([Diagnostic("HNF0303", "the file is not text in UTF-8", key)]) from None
        except OSError as error:
            if imported_by is None:
                raise
            reason = error.strerror or str(error)
            message = f"cannot read the imported file: {reason}"
            raise HnfError([Diagnostic("HNF0304", message, imported_by, span, help=f"it was looked for at {key}")]) from None
        return self.load_text(text, key, path.parent)

    def load_text(self, text: str, key: str, folder: Path | None) -> dict[str, syntax.Definition]:
        self.book.sources[key] = text
        file = parse(text, key) if self.faults is None else parse_sound(text, key, self.faults)
        self.book.files[key] = file
        self._loading.append(key)
        definitions: dict[str, syntax.Definition] = {}
        for declaration in file.declarations:
            if isinstance(declaration, syntax.Import):
                base = folder if folder is not None else Path(str(files("hnfc") / "rules"))
                definitions.update(self.load(base / declaration.path, key, declaration.span))
        self._loading.pop()
        self.book.formats.add(file)
        self.book.targets.add(file)
        elaborator = Elaborator(file, definitions)
        try:
            rules = elaborator.rules()
        except HnfError as error:
            if self.faults is None:
                raise
            self.faults += error.diagnostics
            rules = elaborator.sound
        known = {rule.name: rule for rule in self.book.rules}
        for rule in rules:
            if rule.name in known:
                message = f"there is a rule `{rule.name}` in {known[rule.name].file} already"
                raise HnfError([Diagnostic("HNF0201", message, key, rule.span, help="give one another name")])
        self.book.rules += rules
        self._definitions[key] = elaborator.definitions
        return elaborator.definitions
