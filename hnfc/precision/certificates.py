"""Certificate of infeasibility: a cycle of differences, disjoint formats, a budget over all sites, or a run.

Of these only the cycle is a statement about cohomology. Others say so.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias

GROUND = "ground"
"""Origin of differences, with 0 bits, for bounds on one site."""
Edge: TypeAlias = tuple[str, str, int]
"""u, v, bits: v has at least so many more bits than u; with a negative number, at most so many less."""


@dataclass(frozen=True)
class Cycle:
    """Constraints p_v - p_u ≥ ω(u, v) along a cycle through the ground, with Σω > 0. Differences add up to 0 around a cycle, so that no p
    satisfies all; without any one of them the others can be satisfied.

    measure: what p counts. reasons: of each edge, in the reader's words.
    """

    measure: str
    edges: tuple[Edge, ...]
    reasons: tuple[str, ...]

    @property
    def short(self) -> int:
        """Σω: by how many bits the constraints miss each other."""
        return sum(bits for _, _, bits in self.edges)

    @property
    def gap(self) -> int:
        """Excess of one end's least bits over the other's greatest."""
        return sum(bits for u, v, bits in self.edges if GROUND in (u, v))

    @property
    def tolerance(self) -> int:
        """Differences that the edges between sites allow."""
        return self.gap - self.short

    @property
    def cochain(self) -> dict[tuple[str, str], int]:
        """ω."""
        return {(u, v): bits for u, v, bits in self.edges}

    @property
    def nodes(self) -> tuple[str, ...]:
        """The sites on it, in their order."""
        return tuple(v for _, v, _ in self.edges if v != GROUND)

    @property
    def forced(self) -> dict[str, int]:
        """Least bits of each site by the constraints before it."""
        totals = accumulate(bits for _, _, bits in self.edges)
        return {v: total for (_, v, _), total in zip(self.edges, totals, strict=True) if v != GROUND}

    def text(self) -> str:
        between = f", and the edges between allow {self.tolerance}" if len(self.edges) > 2 else ""
        return (
            f"a cycle of {len(self.edges)} constraints: what is needed and what is had are {self.gap} {self.measure} apart{between}: "
            f"{self.short} short. Σω = {self.short} > 0 proves that they have no solution, and is the class of ω in H¹ = ℤ of the cycle; "
            "of other sites it says nothing, and without this cycle there may still be no assignment"
        )


FORMATS = (
    "no cycle: in bits alone every constraint could be met, but a site, or sites without a cast between them, have no format in common. "
    "The lists of formats are the certificate; no class is claimed"
)
SUM = (
    "no cycle: every site by itself has a format that is good enough, and together they are not. It is one constraint on all sites, which "
    "lies in no smaller part of a cover: no class, zero or not, says anything of it. The certificate is the sum of the least errors"
)
BUDGETS = (
    "no cycle: each budget alone can be kept, and not all of them together. They are constraints on all sites, which lie in no smaller "
    "part of a cover: no class, zero or not, says anything of them. That there is no assignment was found by the solver"
)
MEMORY = (
    "no cycle: the budget of memory cannot be kept by itself. The certificate is the least that the values take in formats that they may "
    "have; no class is claimed"
)
RUN = "no cycle: there are assignments by the estimates, and it is a run or a proof that they did not pass. No class is claimed"
