"""The obstruction γ(s) to extending a local section s (Abramsky, Mansfield, Soares Barbosa 2011, section 4).

γ(s) ≠ 0 proves that s is part of no global section; γ(s) = 0 proves nothing (Hardy's model, the 3-colourings of K₄ over its edges).
It depends on the cover and on the ring: over ℚ most parity arguments vanish, so this is over ℤ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hnfc.sheaf.cech import CechComplex
from hnfc.sheaf.cover import Simplex
from hnfc.sheaf.homology import Lattice
from hnfc.sheaf.presheaf import Presheaf
from hnfc.sheaf.system import Section


@dataclass(frozen=True)
class Obstruction:
    """Cohomology of one local section.

    `cocycle` is z = d⁰c on the overlaps, without its zeros. Where s has no partner in context `blocked_by`, there is no z:
    s is refuted at once.
    """

    context: int
    section: Section
    vanishes: bool
    cocycle: dict[tuple[Simplex, Section], int]
    blocked_by: int | None = None

    @property
    def refutes(self) -> bool:
        """Return whether this proves that no global section restricts to `section`."""
        return not self.vanishes


class RelativeCohomology:
    """Ȟ¹(𝒰, F_Ū), where F_Ū(V) = ker(F(V) → F(V ∩ U)) for F = ℤ[𝒫] and one context U.

    𝒫(∅) is one point, so that where V misses U, F_Ū(V) holds the combinations of total 0. On a connected nerve this changes nothing;
    on others it makes γ see the components without U too.
    """

    def __init__(self, presheaf: Presheaf, context: int) -> None:
        self.presheaf, self.context = presheaf, context
        self._index = CechComplex(presheaf).basis(1)
        cover = presheaf.cover
        self._star: dict[int, list[tuple[int, Simplex]]] = {vertex: [] for (vertex,) in cover.simplices(0)}
        for i, j in cover.simplices(1):
            self._star[i].append((-1, (i, j)))
            self._star[j].append((1, (i, j)))
        self._fibres = {vertex: self._fibre(vertex) for vertex in self._star if vertex != context}
        self._boundaries = Lattice(len(self._index), self._generators())

    def _overlap(self, vertex: int) -> tuple[int, int]:
        return (min(vertex, self.context), max(vertex, self.context))

    def _fibre(self, vertex: int) -> dict[Section, list[Section]]:
        """The sections on a context by their restriction to U."""
        restriction = self.presheaf.restriction((vertex,), self._overlap(vertex))
        fibres: dict[Section, list[Section]] = {}
        for section in self.presheaf.sections((vertex,)):
            fibres.setdefault(restriction(section), []).append(section)
        return fibres

    def _coboundary(self, cochain: dict[int, dict[Section, int]]) -> dict[int, int]:
        """d⁰ of a cochain {context: {section: coefficient}}, by coordinates of C¹."""
        result: dict[int, int] = {}
        for vertex, combination in cochain.items():
            for sign, edge in self._star[vertex]:
                restriction = self.presheaf.restriction((vertex,), edge)
                for section, coefficient in combination.items():
                    place = self._index[edge, restriction(section)]
                    result[place] = result.get(place, 0) + sign * coefficient
        return {place: entry for place, entry in result.items() if entry}

    def _generators(self) -> Iterator[dict[int, int]]:
        """d⁰ of a basis of C⁰(𝒰, F_Ū): the differences of two sections with one restriction to U. F_Ū(U) = 0."""
        for vertex, fibres in self._fibres.items():
            for first, *others in fibres.values():
                for other in others:
                    if image := self._coboundary({vertex: {other: 1, first: -1}}):
                        yield image

    def obstruction(self, section: Section) -> Obstruction:
        """γ(section). Raises ValueError if it is no section on the context."""
        if section not in self.presheaf.sections((self.context,)):
            raise ValueError(f"{section!r} is no local section on context {self.context}")
        cochain = {self.context: {section: 1}}
        for vertex, fibres in self._fibres.items():
            restricted = self.presheaf.restriction((self.context,), self._overlap(vertex))(section)
            if restricted not in fibres:
                return Obstruction(self.context, section, False, {}, vertex)
            cochain[vertex] = {fibres[restricted][0]: 1}
        z = self._coboundary(cochain)
        names = list(self._index)
        return Obstruction(self.context, section, z in self._boundaries, {names[place]: entry for place, entry in z.items()})


def obstructions(presheaf: Presheaf) -> Iterator[Obstruction]:
    """γ(s) for every local section of every context."""
    for (context,) in presheaf.cover.simplices(0):
        if sections := presheaf.sections((context,)):
            relative = RelativeCohomology(presheaf, context)
            yield from map(relative.obstruction, sections)
