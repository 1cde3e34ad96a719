"""Terms in the element type of a tensor, as torch computes them: narrow types in float32, each result rounded to the type."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from hnfc.accuracy.evaluation import TermEvaluator, apply
from hnfc.accuracy.ordinals import Floats
from hnfc.accuracy.terms import Term
from hnfc.dialects.num.rounding import NUMPY_TYPES
from hnfc.dialects.types import FORMATS

NOT_A_NUMBER = 30.0
"""Bits that a result counts which is not finite though the true one is."""


class TypedEvaluator(TermEvaluator):
    """Values of terms at points that are numbers of the element type."""

    def __init__(self, inputs: Mapping[str, Floats], element: str) -> None:
        self.storage = NUMPY_TYPES[element]
        self.working = np.float64 if element == "f64" else np.float32
        super().__init__({name: x.astype(self.storage).astype(self.working) for name, x in inputs.items()})

    def _compute(self, term: Term) -> Any:
        if term.op == "var":
            return self.inputs[term.value]
        if term.op == "const":
            # a Python number keeps its digits beside a narrow tensor, as in torch
            return self.working(float(term.value))
        result = np.asarray(apply(term, [self._value(a) for a in term.args]))
        return result if result.dtype.kind == "b" else result.astype(self.storage).astype(self.working)


def rounded_inputs(inputs: Mapping[str, Floats], element: str) -> dict[str, Floats]:
    """The points as numbers of the element type, in float64."""
    with np.errstate(over="ignore"):
        return {name: x.astype(NUMPY_TYPES[element]).astype(np.float64) for name, x in inputs.items()}


def bits_lost(computed: Floats, exact: Floats, element: str) -> Floats:
    """log₂(1 + error in units roundoff) of each value; NOT_A_NUMBER where it is not finite and should be."""
    form = FORMATS[element]
    with np.errstate(all="ignore"):
        # below the normal numbers, a unit is the smallest number
        unit = np.maximum(form.unit_roundoff * np.maximum(np.abs(exact), form.smallest_normal), form.tiny)
        units = np.abs(computed - exact) / unit
        bits = np.log2(1 + units)
    return np.where(np.isfinite(computed), np.minimum(bits, -math.log2(form.unit_roundoff) + 2), NOT_A_NUMBER)
