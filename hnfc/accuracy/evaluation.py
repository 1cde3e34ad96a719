"""Terms in binary64 at many points at once; what was computed once is kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hnfc.accuracy.ordinals import Floats
from hnfc.accuracy.terms import Term
from hnfc.dialects.num import OPERATIONS

_EVALUATE = {name: op.FACTS.evaluate for name, op in OPERATIONS.items() if op.FACTS.evaluate is not None}


class TermEvaluator:
    """Values of terms at points, each operation as its class in `num` computes it in float64."""

    def __init__(self, inputs: Mapping[str, Floats]) -> None:
        self.inputs = inputs
        self.count = len(next(iter(inputs.values()))) if inputs else 1
        self._known: dict[Term, Any] = {}

    def values(self, term: Term) -> Floats:
        """The computed values, an array over the points."""
        with np.errstate(all="ignore"):
            value = self._value(term)
        return np.broadcast_to(np.asarray(value, np.float64), (self.count,))

    def truth(self, term: Term) -> Any:
        with np.errstate(all="ignore"):
            value = self._value(term)
        return np.broadcast_to(np.asarray(value, bool), (self.count,))

    def _value(self, term: Term) -> Any:
        found = self._known.get(term)
        if found is None:
            found = self._known[term] = self._compute(term)
        return found

    def _compute(self, term: Term) -> Any:
        if term.op == "var":
            return self.inputs[term.value]
        if term.op == "const":
            return np.float64(_nearest(term.value))
        operands = [self._value(a) for a in term.args]
        return apply(term, operands)


def apply(term: Term, operands: list[Any]) -> Any:
    """The term's own operation on arrays."""
    if term.op == "compare":
        return _EVALUATE["compare"](*operands, predicate=term.value)
    if term.op == "where":
        return np.where(*operands)
    return _EVALUATE[term.op](*operands)


def _nearest(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
