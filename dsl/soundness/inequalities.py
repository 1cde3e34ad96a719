"""Inequalities between reductions of one body, as instances at the terms of a question; each is a theorem of axioms.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction

from hnfc.dsl.soundness.signs import assignments
from hnfc.dsl.soundness.term import Atom, Index, Place, Proposition, Rational, TooLarge, atom, of_atom, product, total

Rename = Callable[[Rational, Mapping[Index, Place]], Rational]


def instances(atoms: Iterable[Atom], ixs: frozenset[Index], rename: Rename) -> Iterator[tuple[str, Proposition]]:
    """The theorems, by name, at these atoms and at the indices in sight."""
    known = list(atoms)
    sums = [base for base in known if base.kind == "sum"]
    for x in sums:
        for y in sums:
            if x.args[0] == y.args[0] and _is_square(x.args[1], y.args[1]):
                count = product(of_atom(atom("size", i.cls)) for i in x.args[0])
                yield "cauchy-schwarz", Proposition(">=", count * of_atom(y) - of_atom(x, 2))
    for base in known:
        if base.kind == "log" and (lone := base.args[0].single()) is not None and lone[1] == 1 and len(lone[0]) == 1:
            (inner, exponent) = lone[0][0]
            if inner.kind == "sum" and exponent == 1 and (below := _exponent(inner.args[1])) is not None:
                for renaming in assignments(inner.args[0], ixs | base.ixs):
                    yield "log-sum-exp-bounds", Proposition(">=", of_atom(base) - rename(below, renaming))


def _is_square(x: Rational, y: Rational) -> bool:
    """Return whether y is x²."""
    if len(y.num) > len(x.num) ** 2:
        return False
    try:
        return x.power(2) == y
    except TooLarge:
        return False


def _exponent(x: Rational) -> Rational | None:
    """a where x is exp(a)."""
    lone = x.single()
    if lone is None or lone[1] != 1 or any(base.kind != "exp" for base, _ in lone[0]):
        return None
    return total(base.args[0].scale(Fraction(e)) for base, e in lone[0])
