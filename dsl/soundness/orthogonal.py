"""Orthogonal matrices in a proof: Σ_k h[j,k]·h[l,k] = [j = l], and the same with both places swapped, since h is square."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hnfc.dsl.polynomials import Exponent
from hnfc.dsl.soundness.monomial import Atom, ComputedIndex, Index, Mono, Place

COLUMN, ROW = 0, 1
"""Position of each axis among the places of an element: the last axis comes first (see `denote.capture_element`)."""


class OrthogonalPair(NamedTuple):
    """The sum over `summed` of the two elements is 1 where both places are equal and 0 elsewhere; `rest` is what else was multiplied."""

    summed: Index
    places: tuple[Index, Index]
    rest: Mono


def orthogonal_pair(factors: Sequence[tuple[Atom, Exponent]], ixs: frozenset[Index], names: frozenset[str]) -> OrthogonalPair | None:
    """Two elements of one of these matrices in the product, whose common index occurs nowhere else in it."""
    for k in sorted(ixs):
        holding = [(base, e) for base, e in factors if k in base.ixs]
        elements = [base for base, e in holding for _ in range(e if isinstance(e, int) and 0 < e <= 2 else 3)]
        if len(elements) != 2 or any(base.kind != "cap" or base.args[0] not in names for base in elements):
            continue
        (name, one), (other_name, other) = (base.args for base in elements)
        if name != other_name or one[2:] != other[2:]:
            continue
        for position in (COLUMN, ROW):
            j, l = one[1 - position], other[1 - position]
            if one[position] == other[position] == k and isinstance(j, Index) and isinstance(l, Index) and j.cls == l.cls:
                if {k, j, l} & {i for place in one[2:] for i in _indices(place)} or k in (j, l):
                    continue
                return OrthogonalPair(k, (j, l), tuple((base, e) for base, e in factors if k not in base.ixs))
    return None


def _indices(place: Place) -> frozenset[Index]:
    return place.term.ixs if isinstance(place, ComputedIndex) else frozenset((place,))
