"""Presheaves of sets on the nerve of a cover: local sections, which of them fit, and what they glue to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

from hnfc.sheaf.cover import Cover, Simplex
from hnfc.sheaf.graph import Node
from hnfc.sheaf.system import Section, System, Value, restrict


class Presheaf:
    """A finite set of sections for every simplex of the nerve; the restriction maps forget values.

    `sections(σ)` must contain the restrictions of the sections of every face of σ.
    """

    def __init__(self, cover: Cover, sections: Callable[[Simplex], tuple[Section, ...]]) -> None:
        self.cover = cover
        self._sections = cache(sections)

    def sections(self, simplex: Simplex) -> tuple[Section, ...]:
        return self._sections(simplex)

    def restriction(self, face: Simplex, simplex: Simplex) -> Callable[[Section], Section]:
        """ρ: sections(face) → sections(simplex) for a face of the simplex."""
        source, target = self.cover.meet(face), self.cover.meet(simplex)
        places = [source.index(node) for node in target]
        return lambda section: tuple(section[place] for place in places)

    def global_sections(self) -> Iterator[dict[Node, Value]]:
        """H⁰: the compatible families, one per context, glued in the order of the contexts; one empty family where there is none.

        Backtracking, without look-ahead: exponential at worst.
        """
        contexts = self.cover.contexts
        open_: list[tuple[int, dict[Node, Value]]] = [(0, {})]
        while open_:
            index, glued = open_.pop()
            if index == len(contexts):
                yield glued
                continue
            for section in reversed(self.sections((index,))):
                values = dict(zip(contexts[index], section, strict=True))
                if all(glued.get(node, value) == value for node, value in values.items()):
                    open_.append((index + 1, glued | values))


def presheaf(system: System, cover: Cover) -> Presheaf:
    """𝒫 of the system on the cover. Raises ValueError where the cover misses a node or a scope."""
    cover.check(system)
    return Presheaf(cover, lambda simplex: system.sections(cover.meet(simplex)))


def pairwise_consistent(given: Presheaf) -> Presheaf:
    """The largest sub-presheaf in which every local section has a partner in each context that meets its own.

    Sections on overlaps are the images of those on the contexts. It has the same global sections;
    where one context is left without any, each context of its component is, and that refutes the system.
    """
    cover = given.cover
    local = [set(given.sections(vertex)) for vertex in cover.simplices(0)]
    overlaps: list[list[tuple[int, tuple[Node, ...]]]] = [[] for _ in local]
    for i, j in cover.simplices(1):
        overlaps[i].append((j, cover.meet((i, j))))
        overlaps[j].append((i, cover.meet((i, j))))
    waiting = dict.fromkeys(range(len(local)))
    while waiting:
        i, _ = waiting.popitem()
        for j, nodes in overlaps[i]:
            images = {restrict(section, cover.contexts[i], nodes) for section in local[i]}
            kept = {section for section in local[j] if restrict(section, cover.contexts[j], nodes) in images}
            if len(kept) < len(local[j]):
                local[j] = kept
                waiting[j] = None
    ordered = [tuple(s for s in given.sections((i,)) if s in kept) for i, kept in enumerate(local)]

    def sections(simplex: Simplex) -> tuple[Section, ...]:
        first, nodes = simplex[0], cover.meet(simplex)
        return tuple(dict.fromkeys(restrict(section, cover.contexts[first], nodes) for section in ordered[first]))

    return Presheaf(cover, sections)
