"""Branches: the points that take one, and the arguments that it holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hnfc.accuracy.evaluation import TermEvaluator
from hnfc.accuracy.points import Domain
from hnfc.accuracy.regimes import Bound
from hnfc.dialects.interval import Interval


def taken(evaluator: TermEvaluator, where: Sequence[Bound], count: int) -> Any:
    """Points that take a branch."""
    here = np.ones(count, bool)
    for bound in where:
        values = evaluator.values(bound.feature)
        # what is below no threshold, NaN among it, goes to the upper side
        here &= ~(values < bound.lo) if bound.lo > -np.inf else True
        here &= values < bound.hi if bound.hi < np.inf else True
    return here


def branch_ranges(domain: Domain, where: Sequence[Bound]) -> dict[str, Interval]:
    """Ranges of the arguments on a branch."""
    ranges = {}
    for name in domain.names:
        lo, hi = domain.interval(name)
        for condition in where:
            own = condition.feature.args[0] if condition.feature.op == "abs" else condition.feature
            if own.op == "var" and own.value == name:
                if condition.feature.op == "var":
                    lo, hi = max(lo, condition.lo), min(hi, condition.hi)
                else:
                    lo, hi = max(lo, -condition.hi), min(hi, condition.hi)
                    if lo >= 0:
                        lo = max(lo, condition.lo)
                    if hi <= 0:
                        hi = min(hi, -condition.lo)
        ranges[name] = Interval(lo, hi)
    return ranges
