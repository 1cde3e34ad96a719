"""Does the right side lose the digits that the left side has? Their values beside the real one, in ball arithmetic."""

from __future__ import annotations

import numpy as np
from flint import arb, fmpq

from hnfc.dialects.facts import NoFormula
from hnfc.dialects.types import FLOATS
from hnfc.dsl.core import Rule
from hnfc.dsl.ieee.differences import VALUE, Differences
from hnfc.dsl.ieee.evaluate import Batch
from hnfc.dsl.ieee.formats import Array
from hnfc.dsl.soundness.array_moves import ShapeMismatch
from hnfc.dsl.soundness.balls import Unsupported, evaluate

BITS = 400
Element = fmpq | arb


def lost(rule: Rule, sample: Batch, found: Differences, element: str) -> Array:
    """The elements of one sample at which the left side is right in half of its digits or more, and the right side is not.

    What lies below the smallest normal number has lost digits on either side. Nothing is marked where the real value is not known.
    """
    none = np.zeros(found.left.shape, np.bool_)
    if element not in FLOATS or not found.finite.all():
        return none
    form = FLOATS[element]
    half, least = arb(2) ** -(form.precision // 2), arb(fmpq(*form.smallest_normal.as_integer_ratio()))
    inputs = {name: values[0] for name, values in sample.inputs.items()}
    try:
        exact = np.broadcast_to(evaluate(rule.pattern, inputs, sample.axes, BITS).values, found.left.shape[1:])
    except (Unsupported, NoFormula, ShapeMismatch, ValueError, IndexError, KeyError, TypeError):
        return none
    for place in map(tuple, np.argwhere(found.kinds[VALUE])):
        true = exact[place[1:]]
        if not isinstance(true, Element):
            continue
        allowed = arb(half) * abs(arb(true)) + least
        left, right = (abs(arb(fmpq(*float(side[place]).as_integer_ratio())) - arb(true)) for side in (found.left, found.right))
        none[place] = bool(left < allowed and right > allowed)
    return none
