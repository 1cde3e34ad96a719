"""Definitions in the sources of hnfc, and digests of what they say.

A digest covers a definition's syntax tree, without comments, docstrings and layout, and every definition of ours that it may use, however
far away. Names are followed, and annotations are not: an object that reaches a piece of code was made by code that names its class.

Of the classes of operations and of `Facts`, only those members count that the code in question mentions: a prover that never reads
`FACTS.range` does not depend on it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources.abc import Traversable
from typing import NamedTuple

from hnfc.dsl.source_modules import DIALECT, PACKAGE, WHOLE, SourceModule, SourcePiece, operation_name, read_module

FOLDERS = ("dialects", "dsl")
REGISTRIES = ((DIALECT, "OPERATIONS"), (DIALECT, "COMPUTING"))
"""Names that lead to every operation; a subscript with a literal leads to one."""


class Place(NamedTuple):
    """A definition: its module, and its name there. `WHOLE` for everything in the module."""

    module: str
    name: str


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
        self._modules: dict[str, SourceModule | None] = {}

    def module(self, name: str) -> SourceModule | None:
        """The module of ours; None where there is none of that name."""
        if name not in self._modules:
            text = self._text(name)
            self._modules[name] = None if text is None else read_module(name, text)
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
                for operation in map(operation_name, statements):
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


@dataclass
class _Linker:
    """Finds where the names of a piece lead."""

    sources: Sources
    module: SourceModule
    piece: SourcePiece
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


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
