"""A rule file as it stands in an editor: its rules as far as they are sound, and what is wrong with the others."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from hnfc.dsl import core, syntax
from hnfc.dsl.diagnostics import Diagnostic, HnfError
from hnfc.dsl.elaborate import Elaborator
from hnfc.dsl.formats import FormatBook
from hnfc.dsl.parser import parse_sound
from hnfc.dsl.rulebook import Rulebook, load_files, shipped_formats, shipped_targets
from hnfc.dsl.targets import TargetBook
from hnfc.language_server.tokens import DeclaredPart, RuleWord, declarations_of, words_of


@dataclass
class RuleBuffer:
    """A version of a file. faults: diagnostics of the grammar, of names and of types. definitions: its own and those it imports."""

    path: Path
    text: str
    version: int = 0
    rules: list[core.Rule] = field(default_factory=list)
    faults: list[Diagnostic] = field(default_factory=list)
    file: syntax.File | None = None
    definitions: dict[str, syntax.Definition] = field(default_factory=dict)
    homes: dict[str, Path] = field(default_factory=dict)
    """By definition the file that has it."""

    @cached_property
    def words(self) -> list[RuleWord]:
        return words_of(self.text)

    @cached_property
    def declarations(self) -> list[DeclaredPart]:
        return declarations_of(self.words)

    def declared_at(self, line: int) -> DeclaredPart | None:
        """The declaration that a line belongs to."""
        before = [d for d in self.declarations if d.words[0].line <= line]
        return before[-1] if before else None

    @cached_property
    def book(self) -> Rulebook:
        """The rules with their text, for reports."""
        name = str(self.path)
        return Rulebook(self.rules, {name: self.text}, {name: self.file} if self.file is not None else {}, faults=self.faults)


def read_buffer(path: Path, text: str, version: int = 0) -> RuleBuffer:
    """The buffer of a text. Nothing is raised for what is wrong with it."""
    made = RuleBuffer(path, text, version)
    name = str(path)
    try:
        made.file = parse_sound(text, name, made.faults)
    except HnfError:  # the faults have its diagnostics
        return made
    imported: dict[str, syntax.Definition] = {}
    for declaration in made.file.declarations:
        if isinstance(declaration, syntax.Import):
            _add_import(made, declaration, imported)
    for book in (FormatBook(shipped_formats), TargetBook(shipped_targets)):
        try:
            book.add(made.file)
        except HnfError as error:
            made.faults += error.diagnostics
    elaborator = Elaborator(made.file, imported)
    try:
        made.rules = elaborator.rules()
        made.faults += elaborator.diagnostics
    except HnfError as error:
        made.faults += error.diagnostics
        made.rules = elaborator.sound
    made.definitions = elaborator.definitions
    made.homes |= {d.name: path for d in made.file.declarations if isinstance(d, syntax.Definition)}
    made.faults = list(dict.fromkeys(made.faults))
    return made


def _add_import(made: RuleBuffer, declaration: syntax.Import, imported: dict[str, syntax.Definition]) -> None:
    path = made.path.parent / declaration.path
    try:
        book = load_files([path])
    except OSError as error:
        message = f"cannot read the imported file: {error.strerror or error}"
        made.faults.append(Diagnostic("HNF0304", message, str(made.path), declaration.span, help=f"it was looked for at {path}"))
        return
    except HnfError as error:
        first = error.diagnostics[0]
        line = f":{first.span.line}" if first.span is not None else ""
        made.faults.append(Diagnostic(first.code, f"{first.file}{line}: {first.message}", str(made.path), declaration.span, first.help))
        return
    for file, tree in book.files.items():
        for each in tree.declarations:
            if isinstance(each, syntax.Definition):
                imported[each.name] = each
                made.homes[each.name] = Path(file)
