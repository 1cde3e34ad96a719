"""Definitions in the sources of hnfc, and digests of what they say.

A digest covers a definition's syntax tree, without comments, docstrings and layout, and every definition of ours that it may use, however
far away. Names are followed, and annotations are not: an object that reaches a piece of code was made by code that names its class.

Of the classes of operations and of `Facts`, only those members count that the code in question mentions: a prover that never reads
`FACTS.range` does not depend on it.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from importlib.resources.abc import Traversable
from typing import Any, NamedTuple

PACKAGE = "hnfc"
FOLDERS = ("dialects", "dsl")
DIALECT = "hnfc.dialects.num"
FACTS = "hnfc.dialects.facts"
REGISTRIES = ((DIALECT, "OPERATIONS"), (DIALECT, "COMPUTING"))
"""Names that lead to every operation; a subscript with a literal leads to one."""


class Place(NamedTuple):
    """A definition: its module, and its name there. `WHOLE` for everything in the module."""

    module: str
    name: str


WHOLE = "*"


@dataclass
class SourcePart:
    """A piece of a definition, which counts if its guard is mentioned (None: always).

    operations: those that it gets from the registry by name; `open`: by names that are no literals. words: texts and names in it.
    """

    guard: str | None
    digest: str
    uses: frozenset[Place]
    mentions: frozenset[str]
    operations: frozenset[str]
    open: bool
    words: frozenset[str]


@dataclass
class Closure:
    """Everything that may be used, and the attributes that it mentions."""

    digest: str
    places: frozenset[Place]
    mentions: frozenset[str]
    operations: frozenset[str]


class Sources:
    """The modules below a folder that holds `dialects/` and `dsl/`."""

    def __init__(self, root: Traversable) -> None:
        self.root = root
        self._modules: dict[str, _Module | None] = {}

    def module(self, name: str) -> _Module | None:
        """The module of ours; None where there is none of that name."""
        if name not in self._modules:
            text = self._text(name)
            self._modules[name] = None if text is None else _read_module(name, text)
        return self._modules[name]

    def place(self, where: str, name: str) -> tuple[str, str | None]:
        """Target of `from where import name`; through packages that hand a name on, to the module that defines it."""
        module = self.module(where)
        if module is None or (where, name) in REGISTRIES or name in module.defined:
            return where, name
        if name in module.imports and module.imports[name] != (where, name):
            further, inside = module.imports[name]
            return (further, None) if inside is None else self.place(further, inside)
        return f"{where}.{name}", None

    def _text(self, name: str) -> str | None:
        parts = name.split(".")
        if parts[0] != PACKAGE or len(parts) < 2 or parts[1] not in FOLDERS:
            return None
        for tail in ([*parts[1:-1], f"{parts[-1]}.py"], [*parts[1:], "__init__.py"]):
            file = self.root.joinpath(*tail)
            if file.is_file():
                return file.read_text(encoding="utf-8")
        return None

    @cached_property
    def operations(self) -> dict[str, Place]:
        """The class of every operation of the dialect, by its name without the `num.` in front."""
        found = {}
        for file in sorted(self.root.joinpath("dialects", "num").iterdir(), key=lambda f: f.name):
            module = self.module(f"{DIALECT}.{file.name.removesuffix('.py')}") if file.name.endswith(".py") else None
            for name, statements in module.defined.items() if module is not None else ():
                for operation in map(_operation_name, statements):
                    if operation is not None:
                        found[operation] = Place(module.name, name)  # type: ignore[union-attr]
        return found

    def closure(self, roots: Iterable[Place], mentioned: Iterable[str] = ()) -> Closure:
        """Everything that the roots may use. mentioned: attributes that the code which reads the roots mentions."""
        mentions = set(mentioned)
        counted: dict[tuple[Place, int], SourcePart] = {}
        pending: list[tuple[Place, int, SourcePart]] = []
        seen: set[Place] = set()
        waiting = set(roots)
        while True:
            for place in waiting - seen:
                pending += [(place, i, part) for i, part in enumerate(self.parts(place))]
            seen |= waiting
            ready = [entry for entry in pending if entry[2].guard is None or entry[2].guard in mentions]
            if not ready:
                break
            pending = [entry for entry in pending if entry[2].guard is not None and entry[2].guard not in mentions]
            counted.update({(place, i): part for place, i, part in ready})
            mentions = mentions.union(*(part.mentions for _, _, part in ready))
            waiting = set().union(*(part.uses for _, _, part in ready))
        lines = sorted(f"{place.module} {place.name} {i} {part.digest}" for (place, i), part in counted.items())
        operations = frozenset().union(*(part.operations for part in counted.values()))
        if any(part.open for part in counted.values()):
            operations |= self.operations.keys() & frozenset().union(*(part.words for part in counted.values()))
        return Closure(_hashed("\n".join(lines)), frozenset(seen), frozenset(mentions), operations)

    def parts(self, place: Place) -> list[SourcePart]:
        module = self.module(place.module)
        if module is None:
            raise LookupError(f"no module {place.module}")
        return [_Linker(self, module, piece).part() for piece in module.pieces(place.name)]


@dataclass(frozen=True)
class _Piece:
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


class _Module:
    """The top level of a module: pieces by the names that they define, and where imported names lead. A function of its text alone."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.defined: dict[str, list[ast.stmt]] = {}
        self.imports: dict[str, tuple[str, str | None]] = {}
        self.loose: list[ast.stmt] = []
        self.imports_inside = re.search(r"^\s+(from|import)\s", text, re.MULTILINE) is not None
        self._pieces: dict[str, list[_Piece]] = {}
        for statement in ast.parse(text).body:
            names = list(_bound(statement))
            for bound in names:
                self.defined.setdefault(bound, []).append(statement)
            if isinstance(statement, ast.Import | ast.ImportFrom):
                self.imports.update(_imported(statement))
            elif not names and not _is_text(statement) and not _does_not_run(statement):
                self.loose.append(statement)

    def pieces(self, name: str) -> list[_Piece]:
        if name not in self._pieces:
            self._pieces[name] = list(self._read(name))
        return self._pieces[name]

    def _read(self, name: str) -> Iterator[_Piece]:
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

    def _members(self, statement: ast.ClassDef) -> Iterator[_Piece]:
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

    def _piece(self, guard: str | None, nodes: list[Any]) -> _Piece:
        reader = _SourceReader()
        text = reader.read(nodes)
        inside = (node for top in nodes for node in ast.walk(top)) if self.imports_inside else ()
        imports = {k: v for node in inside if isinstance(node, ast.Import | ast.ImportFrom) for k, v in _imported(node).items()}
        return _Piece(
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
def _read_module(name: str, text: str) -> _Module:
    return _Module(name, text)


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
            return "[" + ",".join([self.read(part, followed) for part in node if not _is_text(part)]) + "]"
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


@dataclass
class _Linker:
    """Finds where the names of a piece lead."""

    sources: Sources
    module: _Module
    piece: _Piece
    uses: set[Place] = field(default_factory=set)
    mentions: set[str] = field(default_factory=set)
    operations: set[str] = field(default_factory=set)
    open: bool = False
    targets: dict[str, str] = field(default_factory=dict)

    def part(self) -> SourcePart:
        self.mentions |= self.piece.mentions
        for name in self.piece.names:
            self.follow(name)
        for base, name in self.piece.attributes:
            # mentioned in any case: the base may be a local of that name
            self.mentions.add(name)
            where, inside = self.target(base) or ("", "")
            if inside is None and self.sources.module(where) is not None:
                further, found = self.sources.place(where, name)
                self.use(further, found)
                self.targets[f"{base}.{name}"] = f"{further} {found}"
            else:
                self.follow(base)
        for base, key in self.piece.subscripts:
            if self.target(base) in REGISTRIES:
                self.operations.add(key)
            else:
                self.follow(base)
        targets = "".join(f"\n{name}: {self.targets[name]}" for name in sorted(self.targets))
        return SourcePart(
            self.piece.guard,
            _hashed(self.piece.text + targets),
            frozenset(self.uses),
            frozenset(self.mentions),
            frozenset(self.operations),
            self.open,
            self.piece.words,
        )

    def follow(self, name: str) -> None:
        target = self.target(name)
        if target in REGISTRIES:
            self.open = True
        elif target is not None:
            self.use(*target)
        if target is not None:
            self.targets[name] = f"{target[0]} {target[1]}"

    def use(self, where: str, name: str | None) -> None:
        if self.sources.module(where) is not None:
            self.uses.add(Place(where, name or WHOLE))

    def target(self, name: str) -> tuple[str, str | None] | None:
        """Target of a name: a module, or to a name inside one; None where it is a local or a builtin."""
        found = self.piece.imports.get(name) or self.module.imports.get(name)
        if found is not None:
            where, inside = found
            return found if inside is None else self.sources.place(where, inside)
        return (self.module.name, name) if name in self.module.defined else None


def _imported(statement: ast.Import | ast.ImportFrom) -> dict[str, tuple[str, str | None]]:
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


def _is_text(node: Any) -> bool:
    """Docstrings, of classes and functions and of what is assigned."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _does_not_run(statement: ast.stmt) -> bool:
    """`if TYPE_CHECKING:` and `if __name__ == "__main__":`."""
    match statement:
        case ast.If(test=ast.Name("TYPE_CHECKING"), orelse=[]):
            return True
        case ast.If(test=ast.Compare(left=ast.Name("__name__")), orelse=[]):
            return True
    return False


def _operation_name(statement: ast.stmt) -> str | None:
    """The name in `class XOp(NumOp): name = "num.x"`."""
    if isinstance(statement, ast.ClassDef):
        for member in statement.body:
            match member:
                case ast.Assign(targets=[ast.Name("name")], value=ast.Constant(value=str(name))) if name.startswith("num."):
                    return name.removeprefix("num.")
    return None


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
