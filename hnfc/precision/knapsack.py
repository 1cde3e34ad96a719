"""One choice from each group, of least cost, within a budget: the multiple-choice knapsack problem, for very many groups.

Lagrange's multiplier λ prices the budget; at a price every group decides by itself, so that a step costs one look at each choice. The dual
bounds what any choice can cost from below (Kellerer, Pferschy, Pisinger: Knapsack problems, 2004, chapter 11). What the best price leaves
of the budget is filled by the changes that save most for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"
_STEPS = 100
_ROUNDS = 20


@dataclass(frozen=True)
class Choice:
    """places: which choice of each group. bound: no choices within the budget cost less; the cost is above it by about one group's."""

    places: tuple[int, ...]
    cost: float
    bound: float


def cheapest_choice(costs: Sequence[Sequence[float]], weights: Sequence[Sequence[float]], limit: float) -> Choice | None:
    """Σ weight ≤ limit with Σ cost small; None where the lightest choices are too heavy. Groups have at least one choice each."""
    cost, weight = _padded(costs), _padded(weights)
    rows = np.arange(len(cost))
    if not len(cost):
        return Choice((), 0.0, 0.0) if limit >= 0 else None
    lightest = np.lexsort((cost, weight), axis=1)[:, 0]
    if weight[rows, lightest].sum() > limit:
        return None

    def at(price: float) -> Array:
        priced = cost + price * weight
        priced[~np.isfinite(cost)] = np.inf
        return np.asarray(np.argmin(priced, axis=1))

    def dual(places: Array, price: float) -> float:
        return float((cost[rows, places] + price * weight[rows, places]).sum() - price * limit)

    free = at(0.0)
    if weight[rows, free].sum() <= limit:
        return Choice(tuple(free.tolist()), float(cost[rows, free].sum()), float(cost[rows, free].sum()))
    low, high, light, bound = 0.0, 1.0, lightest, dual(free, 0.0)
    for _ in range(_STEPS):
        places = at(high)
        bound = max(bound, dual(places, high))
        if weight[rows, places].sum() <= limit:
            light = places
            break
        low, high = high, high * 16
    heavy = at(low)
    for _ in range(_STEPS):
        price = (low * high) ** 0.5 if low > 0 else high / 16
        places = at(price)
        bound = max(bound, dual(places, price))
        if weight[rows, places].sum() <= limit:
            high, light = price, places
        else:
            low, heavy = price, places
        if high / max(low, 1e-300) < 1 + 1e-13:
            break
    filled = _filled(cost, weight, light, heavy, limit)
    return Choice(tuple(filled.tolist()), float(cost[rows, filled].sum()), min(bound, float(cost[rows, filled].sum())))


def _filled(cost: Array, weight: Array, light: Array, heavy: Array, limit: float) -> Array:
    """The light choices, with those changes to heavy ones that save most for what they weigh, as long as they fit."""
    rows = np.arange(len(cost))
    saved, extra = cost[rows, light] - cost[rows, heavy], weight[rows, heavy] - weight[rows, light]
    better = np.flatnonzero(saved > 0)
    order = better[np.argsort(-saved[better] / np.maximum(extra[better], 1e-300))]
    room = limit - weight[rows, light].sum()
    result = light.copy()
    for group in order.tolist():
        if extra[group] <= room:
            room -= extra[group]
            result[group] = heavy[group]
    # sums in another order may round to just above the limit
    while weight[rows, result].sum() > limit and (changed := np.flatnonzero(result != light)).size:
        result[changed[-1]] = light[changed[-1]]
    return result


def _padded(rows: Sequence[Sequence[float]]) -> Array:
    """A matrix; groups with fewer choices have infinite ones at the end."""
    width = max((len(row) for row in rows), default=0)
    result = np.full((len(rows), width), np.inf)
    for index, row in enumerate(rows):
        result[index, : len(row)] = row
    return result


def cheapest_within(costs: Sequence[Sequence[float]], weights: Sequence[Sequence[Sequence[float]]]) -> Choice | None:
    """One choice from each group that is within several budgets, each of 1; weights: by budget. None where none was found.

    A mean of the budgets with any prices is a budget that every choice within all of them keeps, so that its dual bounds what they cost:
    `bound` is the best over some prices, which rise where a budget is exceeded. None does not say that there is no choice.
    """
    prices = np.full(len(weights), 1 / len(weights))
    padded = [_padded(rows) for rows in weights]
    best: Choice | None = None
    bound = -np.inf

    def used(choice: Choice) -> Array:
        return np.array([sum(row[place] for row, place in zip(rows, choice.places, strict=True)) for rows in weights])

    for _ in range(_ROUNDS):
        joint = [list(row) for row in sum(price * rows for price, rows in zip(prices, padded, strict=True))]
        relaxed = cheapest_choice(costs, joint, 1.0)
        if relaxed is None:
            return None
        bound = max(bound, relaxed.bound)
        over = used(relaxed)
        tighter = cheapest_choice(costs, joint, min(1.0, 0.999 / float(over.max()))) if over.max() > 1 else relaxed
        for choice in (relaxed, tighter):
            if choice is not None and used(choice).max() <= 1 and (best is None or choice.cost < best.cost):
                best = choice
        if best is relaxed:
            break
        prices = prices * np.maximum(over, 1e-3)
        prices /= prices.sum()
    if best is None:
        # what keeps the largest of the weights within 1 keeps each
        largest = np.maximum.reduce(padded)
        best = cheapest_choice(costs, [list(row) for row in largest], 1.0)
    return None if best is None else Choice(best.places, best.cost, min(bound, best.cost))
