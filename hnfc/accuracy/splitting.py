"""Errors of forms at points, and the comparison that parts the points best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hnfc.accuracy.ordinals import Floats
from hnfc.accuracy.terms import Term

LEAST_POINTS = 6
"""Points on either side of a threshold."""
_ADDED = 0.4
"""Cost of a second form in a branch, as a part of the cost of a larger form in the place of a smaller one."""


@dataclass
class ErrorTable:
    """Errors of the candidates (points × candidates) and values of the features at the points, and of each candidate's spread.

    least: bits over all points that a branch must gain. prices: bits at each point where a candidate is used. sizes: bits by which a larger
    form must be better than a smaller one in its place, and which a branch costs for each form that it adds, since both sides are computed.
    """

    errors: Floats
    features: list[tuple[Term, Floats]]
    spreads: list[tuple[Term, Floats] | None]
    least: float
    prices: Floats
    sizes: Floats

    def part(self, chosen: Any) -> ErrorTable:
        features = [(t, v[chosen]) for t, v in self.features]
        spreads = [None if s is None else (s[0], s[1][chosen]) for s in self.spreads]
        return ErrorTable(self.errors[chosen], features, spreads, self.least, self.prices, self.sizes)

    def values(self, feature: Term) -> Floats:
        """The values of what a split compares with its threshold."""
        known = [*self.features, *(s for s in self.spreads if s is not None)]
        return next(values for term, values in known if term is feature)

    def costs(self) -> Floats:
        """The cost of each candidate on all of the points."""
        return np.asarray(self.errors.sum(axis=0) + self.prices * len(self.errors))

    def best(self) -> int:
        """The candidate for all of the points."""
        return int(np.argmin(self.costs() + self.sizes * len(self.errors)))

    def added(self) -> float:
        """The least cost of a second form."""
        return _ADDED * float(self.sizes.min()) * len(self.errors)


def best_split(table: ErrorTable) -> tuple[float, int, tuple[float, float]] | None:
    """The least cost of two leaves, the feature, and the two values that the threshold lies between."""
    best: tuple[float, int, tuple[float, float]] | None = None
    n = len(table.errors)
    if n < 2 * LEAST_POINTS:
        return None
    priced = table.errors + table.prices
    total = priced.sum(axis=0)
    for place, (_, values) in enumerate(table.features):
        order = np.argsort(values, kind="stable")
        sums = np.cumsum(priced[order], axis=0)[:-1]
        costs = sums.min(axis=1) + (total - sums).min(axis=1)
        ordered = values[order]
        allowed = ordered[:-1] < ordered[1:]
        allowed[: LEAST_POINTS - 1] = False
        allowed[n - LEAST_POINTS :] = False
        costs = np.where(allowed, costs, np.inf)
        least = float(costs.min())
        if np.isfinite(least) and (best is None or least < best[0] - 1e-9):
            ties = np.flatnonzero(costs <= least + 1e-9)
            i = int(ties[len(ties) // 2])
            zero = int(np.searchsorted(ordered, 0.0)) - 1
            if 0 <= zero < n - 1 and costs[zero] <= least + table.least / 2:
                # the signs of numbers are a better reason than what a few points happen to say
                i = zero
            best = least, place, (float(ordered[i]), float(ordered[i + 1]))
    return best
