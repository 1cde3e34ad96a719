"""Names across files: where one is defined, where it is used, and the edits that rename it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hnfc.language_server.buffers import RuleBuffer
from hnfc.language_server.tokens import CLAUSES, CONDITIONS, DECLARATIONS, FUNCTIONS, DeclaredPart, RuleWord

TAKEN = frozenset((*CLAUSES, *CONDITIONS, *DECLARATIONS, *FUNCTIONS))
"""Names that mean something already."""


@dataclass(frozen=True)
class NamedThing:
    """The thing that a name stands for. kind: rule, definition, or local (a capture, an axis or a `let`, of the rule `scope`)."""

    kind: str
    name: str
    scope: str = ""
    home: Path | None = None


def named_at(buffer: RuleBuffer, word: RuleWord) -> NamedThing | None:
    """The thing that a word names; None for keywords and operations."""
    declared = buffer.declared_at(word.line)
    if declared is None:
        return None
    if declared.name_word == word and declared.keyword in ("rule", "test"):
        return NamedThing("rule", word.text, home=buffer.path)
    if declared.name_word == word and declared.keyword == "def":
        return NamedThing("definition", word.text, home=buffer.path)
    if word.text in buffer.definitions and _is_called(declared, word):
        return NamedThing("definition", word.text, home=buffer.homes.get(word.text))
    if word.text in TAKEN or declared.name_word == word or declared.keyword not in ("rule", "test", "def"):
        return None
    return NamedThing("local", word.text, declared.name if declared.keyword != "def" else f"def {declared.name}", buffer.path)


def _is_called(declared: DeclaredPart, word: RuleWord) -> bool:
    place = declared.words.index(word)
    return place + 1 < len(declared.words) and declared.words[place + 1].text in ("(", "[")


def uses(thing: NamedThing, buffers: Mapping[Path, RuleBuffer]) -> Iterator[tuple[Path, RuleWord]]:
    """Every word that names the thing, in all files; its definition among them."""
    for path, buffer in buffers.items():
        if thing.kind != "definition" and path != thing.home:
            continue
        if thing.kind == "definition" and path != thing.home and buffer.homes.get(thing.name) != thing.home:
            continue
        for declared in buffer.declarations:
            yield from ((path, word) for word in _used_in(thing, declared))


def _used_in(thing: NamedThing, declared: DeclaredPart) -> Sequence[RuleWord]:
    names = [w for w in declared.words if w.kind == "name" and w.text == thing.name]
    if thing.kind == "rule":
        return [w for w in names if w == declared.name_word and declared.keyword in ("rule", "test")]
    if thing.kind == "definition":
        return [w for w in names if (w == declared.name_word and declared.keyword == "def") or _is_called(declared, w)]
    scope = declared.name if declared.keyword in ("rule", "test") else f"def {declared.name}"
    if scope != thing.scope or declared.keyword not in ("rule", "test", "def"):
        return []
    return [w for w in names if w != declared.name_word and not (_is_called(declared, w) and w.text in TAKEN)]


def definition(thing: NamedThing, buffers: Mapping[Path, RuleBuffer]) -> tuple[Path, RuleWord] | None:
    """The word that defines it; of a local name the first one."""
    keyword = {"rule": "rule", "definition": "def"}.get(thing.kind)
    for path, word in uses(thing, buffers):
        declared = buffers[path].declared_at(word.line)
        if keyword is None or (declared is not None and declared.keyword == keyword and declared.name_word == word):
            return path, word
    return None
