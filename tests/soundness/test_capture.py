"""An index that is moved into a reduction is not bound there."""

from __future__ import annotations

import pytest

from hnfc.dsl.soundness.normal_form import Normalizer
from hnfc.dsl.soundness.term import Index, Rational, atom, of_atom


def element(ix: Index) -> Rational:
    return of_atom(atom("cap", "x", (ix,)))


@pytest.mark.parametrize("kind", ["sum", "prod", "max", "min"])
def test_an_index_that_comes_in_is_not_bound(kind: str) -> None:
    """Σ_a exp(x[a]·x[q]) at q = a is a sum over another index."""
    n = Normalizer()
    free, outer = Index(0, "free", 3), Index(0, "free", 4)
    total = n.reduction(kind, (free,), n.exp(element(free) * element(outer)))
    bound = next(i for base in total.atoms for i in _bound(base))
    moved = n.rename(total, {outer: bound})
    assert moved.ixs == {bound}
    assert n.rename(moved, {bound: outer}) == total


def _bound(base: object) -> tuple[Index, ...]:
    """The indices that an atom, or one inside it, binds."""
    args = base.args  # type: ignore[attr-defined]
    if base.kind in ("sum", "prod", "max", "min"):  # type: ignore[attr-defined]
        return args[0]
    return tuple(i for arg in args if isinstance(arg, Rational) for inner in arg.atoms for i in _bound(inner))
