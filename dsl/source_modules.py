"""Modules of hnfc as pieces of source text, with the names in each. A function of the text of a module alone; `sources` links them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

PACKAGE = "hnfc"
WHOLE = "*"
"""Name of everything in a module."""
DIALECT = "hnfc.dialects.num"
FACTS = "hnfc.dialects.facts"


@dataclass(frozen=True)
class SourcePiece:
    """Part of a definition before its names are resolved.

    bases: names that stand before an attribute or a literal subscript, with that attribute or literal.
    """

    guard: str | None
    text: str
    names: frozenset[str]
    attributes: frozenset[tuple[str, str]]
    subscripts: frozenset[tuple[str, str]]
    mentions: frozenset[str]
    words: frozenset[str]
    imports: dict[str, tuple[str, str | None]]


class SourceModule:
    """The top level of a module: pieces by the names that they define, and where imported names lead. A function of its text alone."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.defined: dict[str, list[ast.stmt]] = {}
        self.imports: dict[str, tuple[str, str | None]] = {}
        self.loose: list[ast.stmt] = []
        self.imports_inside = re.search(r"^\s+(from|import)\s", text, re.MULTILINE) is not None
        self._pieces: dict[str, list[SourcePiece]] = {}
        for statement in ast.parse(text).body:
            names = list(_bound(statement))
            for bound in names:
                self.defined.setdefault(bound, []).append(statement)
            if isinstance(statement, ast.Import | ast.ImportFrom):
                self.imports.update(imported(statement))
            elif not names and not is_text(statement) and not does_not_run(statement):
                self.loose.append(statement)

    def pieces(self, name: str) -> list[SourcePiece]:
        if name not in self._pieces:
            self._pieces[name] = list(self._read(name))
        return self._pieces[name]

    def _read(self, name: str) -> Iterator[SourcePiece]:
        if name == WHOLE:
            every = [statement for statements in self.defined.values() for statement in statements]
            yield self._piece(None, [*every, *self.loose])
            return
        for statement in self.defined[name]:
            if isinstance(statement, ast.ClassDef) and (self.name.startswith(DIALECT) or (self.name, name) == (FACTS, "Facts")):
                yield from self._members(statement)
            else:
                yield self._piece(None, [statement])
        if self.loose:
            # statements that may change what the module's names stand for
            yield self._piece(None, self.loose)

    def _members(self, statement: ast.ClassDef) -> Iterator[SourcePiece]:
        """The head of a class, and its members: methods and facts count if they are mentioned."""
        head: list[ast.AST] = [*statement.bases, *statement.keywords, *statement.decorator_list]
        for member in statement.body:
            match member:
                case ast.FunctionDef() if not member.name.startswith("__"):
                    yield self._piece(member.name, [member])
                case ast.AnnAssign(target=ast.Name("FACTS"), value=ast.Call(args=[], keywords=facts) as call) if all(f.arg for f in facts):
                    head.append(call.func)
                    for fact in facts:
                        yield self._piece(fact.arg, [fact])
                case ast.AnnAssign(target=ast.Name(fact)) if self.name == FACTS:
                    yield self._piece(fact, [member])
                case _:
                    head.append(member)
        yield self._piece(None, head)

    def _piece(self, guard: str | None, nodes: list[Any]) -> SourcePiece:
        reader = _SourceReader()
        text = reader.read(nodes)
        inside = (node for top in nodes for node in ast.walk(top)) if self.imports_inside else ()
        imports = {k: v for node in inside if isinstance(node, ast.Import | ast.ImportFrom) for k, v in imported(node).items()}
        return SourcePiece(
            guard,
            text,
            frozenset(reader.names | imports.keys()),
            frozenset(reader.attributes),
            frozenset(reader.subscripts),
            frozenset(reader.mentions),
            frozenset(reader.words),
            imports,
        )


@lru_cache(maxsize=1000)
def read_module(name: str, text: str) -> SourceModule:
    return SourceModule(name, text)


IGNORED = frozenset(("ctx", "kind", "type_comment", "type_ignores"))


@dataclass
class _SourceReader:
    """Reads syntax trees: their text without what does not count, and the names in them."""

    names: set[str] = field(default_factory=set)
    attributes: set[tuple[str, str]] = field(default_factory=set)
    subscripts: set[tuple[str, str]] = field(default_factory=set)
    mentions: set[str] = field(default_factory=set)
    words: set[str] = field(default_factory=set)

    def read(self, node: Any, followed: bool = True) -> str:
        """The text of a tree. Names in annotations are not followed: they have no effect."""
        if isinstance(node, list):
            return "[" + ",".join([self.read(part, followed) for part in node if not is_text(part)]) + "]"
        if not isinstance(node, ast.AST):
            return repr(node)
        follow_value = not (followed and self._note(node))
        parts = []
        for name in node._fields:
            value = getattr(node, name, None)
            if value is None or value == [] or name in IGNORED:
                continue
            below = followed and (name != "value" or follow_value) and name not in ("annotation", "returns")
            parts.append(f"{name}={self.read(value, below)}")
        return f"{type(node).__name__}({','.join(parts)})"

    def _note(self, node: ast.AST) -> bool:
        """Notes names; whether the name before an attribute or a subscript is noted with it."""
        match node:
            case ast.Name(name):
                self.names.add(name)
            case ast.Attribute(value=ast.Name(base), attr=name):
                self.attributes.add((base, name))
                self.words.add(name)
                return True
            case ast.Attribute(attr=name):
                self.mentions.add(name)
                self.words.add(name)
            case ast.Subscript(value=ast.Name(base), slice=ast.Constant(value=str(key))):
                self.subscripts.add((base, key))
                return True
            case ast.Constant(value=str(text)):
                self.words.add(text)
            case ast.FunctionDef(name=name):
                self.words.add(name)
        return False


def imported(statement: ast.Import | ast.ImportFrom) -> dict[str, tuple[str, str | None]]:
    """The names that an import binds, each with its module and, if it is not the module itself, the name there."""
    if isinstance(statement, ast.ImportFrom):
        if statement.level or any(alias.name == "*" for alias in statement.names):
            raise ValueError(f"line {statement.lineno}: expected an absolute import of names")
        return {alias.asname or alias.name: (str(statement.module), alias.name) for alias in statement.names}
    for alias in statement.names:
        if alias.asname is None and alias.name.startswith(f"{PACKAGE}."):
            raise ValueError(f"line {statement.lineno}: expected `from … import`, but got `import {alias.name}`")
    return {alias.asname or alias.name.split(".")[0]: (alias.name, None) for alias in statement.names}


def _bound(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement defines at the top level."""
    match statement:
        case ast.FunctionDef() | ast.ClassDef():
            yield statement.name
        case ast.AnnAssign(target=ast.Name(name)):
            yield name
        case ast.Assign(targets=targets):
            flat = [name for target in targets for name in (target.elts if isinstance(target, ast.Tuple) else [target])]
            if all(isinstance(name, ast.Name) for name in flat):
                yield from (name.id for name in flat if isinstance(name, ast.Name))


def is_text(node: Any) -> bool:
    """Docstrings, of classes and functions and of what is assigned."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def does_not_run(statement: ast.stmt) -> bool:
    """`if TYPE_CHECKING:` and `if __name__ == "__main__":`."""
    match statement:
        case ast.If(test=ast.Name("TYPE_CHECKING"), orelse=[]):
            return True
        case ast.If(test=ast.Compare(left=ast.Name("__name__")), orelse=[]):
            return True
    return False


def operation_name(statement: ast.stmt) -> str | None:
    """The name in `class XOp(NumOp): name = "num.x"`."""
    if isinstance(statement, ast.ClassDef):
        for member in statement.body:
            match member:
                case ast.Assign(targets=[ast.Name("name")], value=ast.Constant(value=str(name))) if name.startswith("num."):
                    return name.removeprefix("num.")
    return None
