"""One choice from each group, of least cost, within a budget: the multiple-choice knapsack problem, for very many groups.

Lagrange's multiplier λ prices the budget; at a price every group decides by itself, so that a step costs one look at each choice. The dual
bounds what any choice can cost from below (Kellerer, Pferschy, Pisinger: Knapsack problems, 2004, chapter 11). What the best price leaves
of the budget is filled by the changes that save most for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array

from hnfc.core.highs import silent

Array: TypeAlias = "np.ndarray[Any, Any]"
_STEPS = 100
_LESS = (0.0, 1e-6, 1e-4, 1e-3, 1e-2, 5e-2)
"""Budgets that are given up, one after the other, where no integral solution is within them."""
_MOST_SPLIT = 8


@dataclass(frozen=True)
class Selection:
    """places: which choice of each group. bound: no choices within the budget cost less; the cost is above it by about one group's."""

    places: tuple[int, ...]
    cost: float
    bound: float


def cheapest_choice(costs: Sequence[Sequence[float]], weights: Sequence[Sequence[float]], limit: float) -> Selection | None:
    """Σ weight ≤ limit with Σ cost small; None where the lightest choices are too heavy. Groups have at least one choice each."""
    cost, weight = _padded(costs), _padded(weights)
    rows = np.arange(len(cost))
    if not len(cost):
        return Selection((), 0.0, 0.0) if limit >= 0 else None
    lightest = np.lexsort((cost, weight), axis=1)[:, 0]
    if weight[rows, lightest].sum() > limit:
        return None

    def at(price: float) -> Array:
        with np.errstate(invalid="ignore"):
            # a choice that is impossible may also weigh infinitely much
            priced = cost + price * weight
        priced[~np.isfinite(cost)] = np.inf
        return np.asarray(np.argmin(priced, axis=1))

    def dual(places: Array, price: float) -> float:
        return float((cost[rows, places] + price * weight[rows, places]).sum() - price * limit)

    free = at(0.0)
    if weight[rows, free].sum() <= limit:
        return Selection(tuple(free.tolist()), float(cost[rows, free].sum()), float(cost[rows, free].sum()))
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
    return Selection(tuple(filled.tolist()), float(cost[rows, filled].sum()), min(bound, float(cost[rows, filled].sum())))


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


def cheapest_within(costs: Sequence[Sequence[float]], weights: Sequence[Sequence[Sequence[float]]]) -> Selection | None:
    """One choice from each group that is within several budgets, each of 1; weights: by budget. None where none was found, which does not
    say that there is none.

    The linear program, in which groups may choose parts, has a solution where no more groups do so than there are budgets; these are tried
    in all ways, and what is left of the budgets is filled. Its dual prices bound what every choice within the budgets costs.
    """
    cost, weight = _padded(costs), np.stack([_padded(rows) for rows in weights])
    if not len(cost):
        return Selection((), 0.0, 0.0)
    bound = -np.inf
    for less in _LESS:
        solved = _parts(cost, weight, 1.0 - less)
        if solved is None and not less:
            return None
        if solved is None:
            break
        parts, prices = solved
        if bound == -np.inf:
            priced = cost + np.where(np.isfinite(cost), np.tensordot(prices, np.where(np.isfinite(weight), weight, 0.0), 1), 0.0)
            bound = float(priced.min(axis=1).sum() - prices.sum())
        places = _rounded(cost, weight, parts)
        if places is not None:
            places = _filled_within(cost, weight, places)
            found = float(cost[np.arange(len(cost)), places].sum())
            return Selection(tuple(places.tolist()), found, min(bound, found))
    # what keeps the largest of the weights within 1 keeps each
    best = cheapest_choice(costs, [list(row) for row in weight.max(axis=0)], 1.0)
    return None if best is None else Selection(best.places, best.cost, min(bound, best.cost))


def _parts(cost: Array, weight: Array, limit: float) -> tuple[Array, Array] | None:
    """The part of each choice in the linear program, and the prices of the budgets; None where that has no solution."""
    at = np.isfinite(cost)
    groups = np.nonzero(at)[0]
    count = len(groups)
    one = csr_array((np.ones(count), (groups, np.arange(count))), shape=(len(cost), count))
    with silent():
        result = linprog(
            cost[at], A_ub=np.stack([rows[at] for rows in weight]), b_ub=np.full(len(weight), limit), A_eq=one, b_eq=np.ones(len(cost)),
            bounds=(0, 1), method="highs-ds",
        )  # fmt: skip
    if result.status != 0:
        return None
    parts = np.zeros_like(cost)
    parts[at] = result.x
    return parts, np.maximum(-np.asarray(result.ineqlin.marginals), 0.0)


def _rounded(cost: Array, weight: Array, parts: Array) -> Array | None:
    """The cheapest of the ways to make whole what is in parts that are within the budgets."""
    places = np.asarray(parts.argmax(axis=1))
    rows = np.arange(len(cost))
    split = np.flatnonzero(parts.max(axis=1) < 1 - 1e-7)[:_MOST_SPLIT]
    rest = np.delete(rows, split)
    room = 1.0 - weight[:, rest, places[rest]].sum(axis=1)
    ways = product(*(np.flatnonzero(parts[group] > 1e-9).tolist() for group in split))
    fitting = [way for way in ways if bool(np.all(weight[:, split, list(way)].sum(axis=1) <= room))]
    if not fitting:
        return None
    places[split] = min(fitting, key=lambda way: float(cost[split, list(way)].sum()))
    return places


def _filled_within(cost: Array, weight: Array, places: Array) -> Array:
    """With cheaper choices as long as they fit, those that save most first."""
    rows = np.arange(len(cost))
    room = 1.0 - weight[:, rows, places].sum(axis=1)
    saved = cost[rows, places][:, None] - cost
    extra = weight - weight[:, rows, places][:, :, None]
    better = np.argwhere((saved > 0) & np.all(extra <= room[:, None, None], axis=0))
    result = places.copy()
    done = set()
    for group, place in better[np.argsort(-saved[better[:, 0], better[:, 1]], kind="stable")].tolist():
        if group not in done and bool(np.all(extra[:, group, place] <= room)):
            room = room - extra[:, group, place]
            result[group] = place
            done.add(group)
    # sums in another order may round to just above the budget
    return result if bool(np.all(weight[:, rows, result].sum(axis=1) <= 1)) else places
