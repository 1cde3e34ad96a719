"""Čech cohomology of the presheaf ℤ[𝒫] of free abelian groups on the local sections.

Ȟ⁰ consists of integer families, not of solutions, and Ȟ¹ ≠ 0 proves nothing by itself: the triangle of equalities has
Ȟ¹ = ℤ² and solutions. What a class says about one local section is in obstruction.py.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from hnfc.sheaf.cover import Simplex
from hnfc.sheaf.homology import Group, cohomology, matrix
from hnfc.sheaf.presheaf import Presheaf
from hnfc.sheaf.system import Section


class CechComplex:
    """C^q = ∏ ℤ[𝒫(U_σ)] over the q-simplices σ of the nerve, with d^q the alternating sum of the restrictions."""

    def __init__(self, presheaf: Presheaf) -> None:
        self.presheaf = presheaf

    def basis(self, degree: int) -> dict[tuple[Simplex, Section], int]:
        """The pairs (σ, s) with s ∈ 𝒫(U_σ), numbered: a ℤ-basis of C^degree; empty in negative degrees."""
        simplices = self.presheaf.cover.simplices(degree) if degree >= 0 else ()
        pairs = ((simplex, section) for simplex in simplices for section in self.presheaf.sections(simplex))
        return {pair: number for number, pair in enumerate(pairs)}

    def coboundary(self, degree: int) -> Any:
        """d^q as a matrix of shape (rank C^(q+1), rank C^q)."""
        source, target = self.basis(degree), self.basis(degree + 1)
        entries: dict[tuple[int, int], int] = {}
        for simplex in self.presheaf.cover.simplices(degree + 1) if degree >= 0 else ():
            for omitted in range(len(simplex)):
                face = simplex[:omitted] + simplex[omitted + 1 :]
                restriction = self.presheaf.restriction(face, simplex)
                for section in self.presheaf.sections(face):
                    entries[target[simplex, restriction(section)], source[face, section]] = (-1) ** omitted
        return matrix(len(target), len(source), entries)

    def cohomology(self, degree: int) -> Group:
        """Ȟ^q = ker d^q / im d^(q-1) over ℤ, with its torsion."""
        return cohomology(self.coboundary(degree - 1), self.coboundary(degree))

    @cached_property
    def dimension(self) -> int:
        """The dimension of the nerve; -1 where there is no context."""
        degree = -1
        while self.presheaf.cover.simplices(degree + 1):
            degree += 1
        return degree

    def euler_characteristic(self) -> int:
        """Σ (-1)^q rank C^q, which equals Σ (-1)^q rank Ȟ^q. The nerve may have 2^n simplices."""
        return sum((-1) ** degree * len(self.basis(degree)) for degree in range(self.dimension + 1))
