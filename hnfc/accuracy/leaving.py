"""Parts of a program whose values leave the format, though what they are computed from does not.

A product that overflows, a square that underflows: another form may have no such part, and yet be worse where the program has none.
So the sizes of these parts are what branches compare with thresholds.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial, reduce
from typing import Any

import numpy as np

from hnfc.accuracy.evaluation import TermEvaluator
from hnfc.accuracy.harm import MOST_LOST, costs
from hnfc.accuracy.ordinals import Floats
from hnfc.accuracy.search import NO_NUMBERS
from hnfc.accuracy.terms import Term, Terms, subterms
from hnfc.dialects.num import OPERATIONS

LEAST, LARGEST = float(np.finfo(np.float64).smallest_normal), float(np.finfo(np.float64).max)
"""Sizes between which a part has all of its digits."""
_MOST, _POINTS = 6, 4
"""Parts that are looked at, and points at which each has left the format."""


def leaving(terms: Terms, original: Term, evaluator: TermEvaluator, exact: Floats) -> list[Term]:
    """The sizes of parts that leave the format where the program has few digits or none."""
    return overflowing(terms, original, evaluator, costs(evaluator.values(original), exact) > MOST_LOST)


def overflowing(terms: Terms, form: Term, evaluator: TermEvaluator, where: Any) -> list[Term]:
    """The sizes of parts that overflow or underflow at some of the points, those that do so most often first.

    Of a part and its multiple by a number one is enough.
    """
    found: dict[Term, int] = {}
    for part in subterms(form):
        if not part.args or part.op in NO_NUMBERS:
            continue
        within = np.logical_and.reduce([np.isfinite(x) & (x != 0) for x in (evaluator.values(a) for a in part.args)])
        value = evaluator.values(terms.size(part))
        # a small difference is exact, and a function is small at its zeros
        outside = ~(value <= LARGEST) | ((value < LEAST) & (OPERATIONS[part.op].FACTS.underflows))
        count = int((where & within & outside).sum())
        if count >= _POINTS and not any(a in found and b.op == "const" for a, b in itertools.permutations(part.args, 2)):
            found[part] = count
    return [terms.size(part) for part in sorted(found, key=lambda part: -found[part])[:_MOST]]


def border(threshold: float) -> float:
    """The end of the format that a threshold for the size of a part is near; the threshold itself where it is near none."""
    return LARGEST if threshold > 1e-10 * LARGEST else LEAST if threshold < 1e10 * LEAST else threshold


def extremes(terms: Terms, sizes: Sequence[Term]) -> tuple[Term, Term]:
    """The least and the largest of one size or more."""
    least, largest = (reduce(partial(terms.make, op), sizes) for op in ("minimum", "maximum"))
    return least, largest
