"""Integer linear algebra: cohomology groups by Smith normal form, membership in a lattice by Hermite normal form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from flint import fmpz_mat


@dataclass(frozen=True)
class Group:
    """The finitely generated abelian group ℤ^free ⊕ ℤ/t₁ ⊕ … with 1 < t₁ | t₂ | …"""

    free: int
    torsion: tuple[int, ...] = ()

    def __str__(self) -> str:
        parts = ([] if not self.free else ["ℤ" if self.free == 1 else f"ℤ^{self.free}"]) + [f"ℤ/{order}" for order in self.torsion]
        return " ⊕ ".join(parts) or "0"


def matrix(rows: int, columns: int, entries: Mapping[tuple[int, int], int]) -> Any:
    """The rows × columns fmpz_mat with these entries, zero elsewhere."""
    result = fmpz_mat(rows, columns)
    for (row, column), entry in entries.items():
        result[row, column] = entry
    return result


def _hermite(m: Any) -> list[dict[int, int]]:
    """The rows of the Hermite normal form that are not zero, each from its pivot on."""
    rows = m.hnf().tolist() if m.nrows() and m.ncols() else []
    return [sparse for row in rows if (sparse := {j: int(entry) for j, entry in enumerate(row) if entry})]


def invariant_factors(m: Any) -> tuple[int, ...]:
    """d₁ | d₂ | … | d_r > 0 of the Smith normal form, r the rank.

    A column of the Hermite form with pivot 1 is zero elsewhere, so column operations clear its row, and the Smith form of the rest is left.
    """
    rows = _hermite(m if m.nrows() <= m.ncols() else m.transpose())
    rest = [row for row in rows if next(iter(row.values())) != 1]
    units = (1,) * (len(rows) - len(rest))
    if not rest:
        return units
    columns = sorted({column for row in rest for column in row})
    smith = fmpz_mat([[row.get(column, 0) for column in columns] for row in rest]).snf()
    return units + tuple(abs(int(smith[i, i])) for i in range(len(rest)))


def cohomology(incoming: Any, outgoing: Any) -> Group:
    """ker(outgoing) / im(incoming) for A --incoming--> B --outgoing--> C with outgoing · incoming = 0.

    `incoming` has shape (|B|, |A|), `outgoing` (|C|, |B|). Raises ValueError where the composite is not zero.
    The torsion is that of B / im(incoming), since ker(outgoing) is a direct summand of B.
    """
    if incoming.nrows() != outgoing.ncols():
        raise ValueError(f"expected maps that compose, but got {incoming.nrows()} rows and {outgoing.ncols()} columns")
    if any(entry != 0 for entry in (outgoing * incoming).entries()):
        raise ValueError("the composite of two coboundaries is not zero")
    factors = invariant_factors(incoming)
    free = incoming.nrows() - len(factors) - outgoing.rank()
    return Group(free, tuple(factor for factor in factors if factor > 1))


class Lattice:
    """The integer combinations of some vectors of ℤ^n, given as sparse rows {coordinate: entry}."""

    def __init__(self, size: int, generators: Iterable[Mapping[int, int]]) -> None:
        rows = list(generators)
        entries = {(i, j): entry for i, row in enumerate(rows) for j, entry in row.items()}
        self._rows = _hermite(matrix(len(rows), size, entries))

    def __contains__(self, vector: Mapping[int, int]) -> bool:
        rest = dict(vector)
        for row in self._rows:
            pivot = next(iter(row))
            if factor := rest.get(pivot, 0) // row[pivot]:
                for column, entry in row.items():
                    rest[column] = rest.get(column, 0) - factor * entry
        return not any(rest.values())
