"""Points at which a form is worse than the program that it replaces.

A point counts only if its true value is finite. NaN and infinity are then as bad as can be, and yet better than a wrong finite number,
which nobody notices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hnfc.accuracy.evaluation import TermEvaluator
from hnfc.accuracy.ordinals import Floats, bits_of_error
from hnfc.accuracy.terms import Term

MOST_LOST = 8.0
"""Bits that a form may lose at an everyday point."""
WRONG = 16.0
"""Bits of error from which on a finite number is no better than NaN or infinity."""


def costs(computed: Floats, exact: Floats) -> Floats:
    """The error in bits by which forms are chosen: 64 for what is not finite, and for a finite number none of whose digits is right."""
    errors = bits_of_error(computed, exact)
    return np.where(~np.isfinite(computed) | (errors > 48.0), 64.0, errors)


def harmed(before: Floats, after: Floats, exact: Floats, lost: float = MOST_LOST) -> Any:
    """Everyday points at which `after` must not stand for `before`: more than `lost` bits worse, or wrong instead of not finite."""
    old, new = bits_of_error(before, exact), bits_of_error(after, exact)
    had, has = np.isfinite(before), np.isfinite(after)
    return np.where(has, np.where(had, new > old + lost, new > WRONG), had & (old < 64.0 - MOST_LOST))


def became_wrong(before: Floats, after: Floats, exact: Floats) -> Any:
    """Points at which `after` must not stand for `before` at any point: wrong, as where a product underflows, or not finite, where that was
    right."""
    return np.isfinite(before) & (bits_of_error(before, exact) <= MOST_LOST) & (bits_of_error(after, exact) > WRONG)


def worse(form: Term, original: Term, evaluator: TermEvaluator, exact: Floats, of_everyday: Any, lost: float) -> Any:
    """Points at which the form must not stand for the program: `harmed` at everyday points, `became_wrong` at the others."""
    before, after = evaluator.values(original), evaluator.values(form)
    return np.where(of_everyday, harmed(before, after, exact, lost), became_wrong(before, after, exact))
