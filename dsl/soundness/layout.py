"""How the axes of a rule fall into classes.

Along every axis (an axis variable of the rule, or one of the last axes) each capture has its full size or size 1, and an axis
variable stands for several axes, so both may happen within one variable. An axis therefore falls into *classes*: one for every
way in which the captures may vary there, as far as a reduction can tell. All classes together, each of its own unknown size ≥ 1,
are the most general shape; a proof for them is a proof for every shape, since size 1 is a size.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from hnfc.dsl.core import (
    Axis,
)

Member: TypeAlias = tuple[str, Axis]
"""A capture's own axis, before it is known which axes meet."""

Shape: TypeAlias = Mapping[Axis, frozenset[Member]]

NOTHING: frozenset[Member] = frozenset()

MAX_MEMBERS = 12


class Unrelated(Exception):
    """The rule mixes axes whose relation is not known."""


@dataclass
class Layout:
    """How the axes of a rule fall into classes."""

    universe: tuple[Axis, ...]
    scalars: frozenset[str] = frozenset()
    parent: dict[Member, Member] = field(default_factory=dict)
    seen_by_reductions: set[frozenset[Member]] = field(default_factory=set)
    equal: set[tuple[frozenset[Member], frozenset[Member]]] = field(default_factory=set)
    absent: set[frozenset[Member]] = field(default_factory=set)
    classes: list[frozenset[Member]] = field(default_factory=list)

    def root(self, member: Member) -> Member:
        while self.parent.setdefault(member, member) != member:
            member = self.parent[member]
        return member

    def unite(self, members: Iterable[Member]) -> None:
        roots = {self.root(m) for m in members}
        if roots:
            first = min(roots, key=repr)
            for r in roots:
                self.parent[r] = first

    def finish(self) -> None:
        """Forms the classes: sets of members that no reduction, contraction or condition tells apart, as large as possible."""
        for a, b in self.equal:
            self.unite(a | b)
        components: dict[Member, list[Member]] = {}
        for member in list(self.parent):
            components.setdefault(self.root(member), []).append(member)
        watched = self.seen_by_reductions | self.absent | {s for pair in self.equal for s in pair}
        for members in components.values():
            if len(members) > MAX_MEMBERS:
                raise Unrelated(f"{len(members)} captures meet along one axis")
            here = sorted((s for s in watched if s & set(members)), key=lambda s: sorted(map(repr, s)))
            merged: dict[tuple[bool, ...], frozenset[Member]] = {}
            for count in range(1, len(members) + 1):
                for chosen in itertools.combinations(members, count):
                    subset = frozenset(chosen)
                    if any(s & subset for s in self.absent) or any(bool(a & subset) != bool(b & subset) for a, b in self.equal):
                        continue
                    signature = tuple(bool(s & subset) for s in here)
                    merged[signature] = merged.get(signature, frozenset()) | subset
            self.classes += list(merged.values())

    def of(self, members: frozenset[Member]) -> tuple[int, ...]:
        """The classes along which something made of these members varies."""
        return tuple(i for i, s in enumerate(self.classes) if s & members)
