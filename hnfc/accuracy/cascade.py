"""Forms one after the other: each is used where none of its parts leaves the format, the next one where one does.

A product of many factors has no writing that is right everywhere. But at most points one of a few writings has all of its parts within
the format, and that one is right to a few units in the last place.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hnfc.accuracy.evaluation import TermEvaluator
from hnfc.accuracy.leaving import extremes, overflowing
from hnfc.accuracy.ordinals import Floats
from hnfc.accuracy.terms import Term, Terms

_MOST_FORMS = 4


def spread(terms: Terms, form: Term, evaluator: TermEvaluator) -> Term | None:
    """A number below LARGEST wherever all parts of the form are within the format; None where no point has one outside."""
    parts = overflowing(terms, form, evaluator, np.ones(evaluator.count, bool))
    if not parts:
        return None
    least, largest = extremes(terms, parts)
    return terms.make("maximum", largest, terms.make("div", terms.one, least))


def in_order(errors: Floats, within: Any, last: int, least: float) -> list[int]:
    """Candidates by what each gains at the points that those before leave to it.

    errors: bits (points × candidates); within: whether all parts of a candidate are within the format there; last: which candidate is used
    where none of them is; least: the least gain, in bits over all points.
    """
    chosen: list[int] = []
    rest = np.ones(len(errors), bool)
    while len(chosen) < _MOST_FORMS:
        gains = ((errors[:, [last]] - errors) * (within & rest[:, None])).sum(axis=0)
        best = int(np.argmax(gains))
        if gains[best] < least:
            break
        chosen.append(best)
        rest &= ~within[:, best]
    return chosen
