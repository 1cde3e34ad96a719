"""Classes of the axes of a rule.

Along every axis (an axis variable of the rule, or one of the last axes) each capture has its full size or size 1, and an axis
variable stands for several axes, so both may happen within one variable. An axis therefore falls into *classes*: one for every
way in which the captures may vary there, as far as a reduction can tell. All classes together, each of its own unknown size ≥ 1,
are the most general shape; a proof for them is a proof for every shape, since size 1 is a size.

Along an *arithmetic* axis elements change their place (slice, concat, pad …). It is one axis, and its indices are numbers. There
a proof goes by cases of which tensors are broadcast; in each case the others that meet share one class.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from hnfc.dsl.core import Axis

Member: TypeAlias = tuple[str, Axis]
"""A capture's own axis, before it is known which axes meet."""

Shape: TypeAlias = Mapping[Axis, frozenset[Member]]

NOTHING: frozenset[Member] = frozenset()

MAX_MEMBERS = 12


class Unrelated(Exception):
    """The rule mixes axes whose relation is not known."""


class Subsumed(Exception):
    """This case of broadcasting is a special one of another, or no operand fits it; the argument names members that must be single."""


@dataclass(frozen=True)
class Extent:
    """An axis of a tensor whose elements come from elsewhere: its size, and the parts that it consists of as (offset, length).

    Both are functions of the normalizer that answers questions of sizes.
    """

    size: Callable[[Any], Any]
    segments: Callable[[Any], list[tuple[Any, Any]]]


@dataclass
class AxisClasses:
    """Classes of the axes of a rule."""

    universe: tuple[Axis, ...]
    scalars: frozenset[str] = frozenset()
    parent: dict[Member, Member] = field(default_factory=dict)
    seen_by_reductions: set[frozenset[Member]] = field(default_factory=set)
    equal: set[tuple[frozenset[Member], frozenset[Member]]] = field(default_factory=set)
    absent: set[frozenset[Member]] = field(default_factory=set)
    classes: list[frozenset[Member]] = field(default_factory=list)
    arithmetic: frozenset[Axis] = frozenset()
    broadcast: frozenset[Member] = frozenset()
    single: set[Member] = field(default_factory=set)
    extents: dict[Member, Extent] = field(default_factory=dict)
    cuts: dict[Member, list[Callable[[Any], Any]]] = field(default_factory=dict)
    ranged: set[int] = field(default_factory=set)
    bounds: list[Callable[[Any], list[Any]]] = field(default_factory=list)
    reversing: bool = False
    images: dict[Member, tuple[Member, tuple[str, ...]]] = field(default_factory=dict)
    spatial: int = 0
    alike: list[frozenset[Member]] = field(default_factory=list)

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

    def introduce(self, name: str, axis: Axis, extent: Extent) -> frozenset[Member]:
        """The axis of a tensor whose elements come from elsewhere, or nothing in the case that it has size 1 and is broadcast."""
        member = (f"{name}#{len(self.extents)}", axis)
        self.extents[member] = extent
        if member in self.broadcast:
            return NOTHING
        self.unite((member,))
        return frozenset((member,))

    def is_partial(self, member: Member) -> bool:
        """Return whether the tensor has another shape than those that it meets, along all axes that are rearranged (see rearranging.py)."""
        return self.images.get(member, (member,))[0] in self.broadcast

    def must_be_single(self, members: frozenset[Member]) -> None:
        """The operand has size 1 there. Raises Subsumed in the cases in which it has its full size."""
        self.single |= members
        if members:
            raise Subsumed(members)

    def is_arithmetic(self, members: Iterable[Member]) -> bool:
        return any(axis in self.arithmetic for _, axis in members)

    def meeting(self) -> list[Member]:
        """The members that may be broadcast along an arithmetic axis: those that meet others there, or must have size 1."""
        components: dict[Member, list[Member]] = {}
        for member in list(self.parent):
            components.setdefault(self.root(member), []).append(member)
        links = self._links()
        found = [
            m
            for members in components.values()
            if self.is_arithmetic(members) and not all(m in links.get(members[0], {members[0]}) for m in members)
            for m in members
        ]
        return sorted({self.images.get(member, (member,))[0] for member in found}, key=repr)

    def linked(self, member: Member) -> frozenset[Member]:
        """The members that have the same size as this one in every shape that fits: they are broadcast together."""
        return frozenset(self._links().get(member, {member}))

    def _links(self) -> dict[Member, set[Member]]:
        links: dict[Member, set[Member]] = {}
        for together in (*(a | b for a, b in self.equal if len(a) == len(b) == 1), *self.alike):
            group = set().union(*(links.get(m, {m}) for m in together))
            links.update(dict.fromkeys(group, group))
        return links

    def finish(self) -> None:
        """Forms the classes: sets of members that no reduction, contraction or condition tells apart, as large as possible."""
        for a, b in self.equal:
            if self.is_arithmetic(a | b) and bool(a) != bool(b):
                raise Subsumed
            self.unite(a | b)
        seen: dict[tuple[Member, tuple[str, ...]], Member] = {}
        for image, (base, order) in self.images.items():
            # tensors of one shape have one shape in another order
            self.unite((image, seen.setdefault((self.root(base), order), image)))
        components: dict[Member, list[Member]] = {}
        for member in list(self.parent):
            components.setdefault(self.root(member), []).append(member)
        watched = self.seen_by_reductions | self.absent | {s for pair in self.equal for s in pair}
        for members in components.values():
            if self.is_arithmetic(members):
                self.ranged.add(len(self.classes))
                self.classes.append(frozenset(members))
                continue
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
