"""Formats with which the least memory is live at once: Σ bytes of the values that are live, at the busiest point of the program.

A minimax: with one number P above every point it is an integer program. Prices of the points, which add up to 1, make it a problem with
one cost for each choice, whose optimum is below that of the minimax whatever the prices are; so very large programs are bounded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from scipy.optimize import LinearConstraint, milp
from scipy.sparse import coo_array

from hnfc.core.highs import silent
from hnfc.precision.knapsack import Selection, cheapest_choice, cheapest_within

Array: TypeAlias = "np.ndarray[Any, Any]"
Rows: TypeAlias = Sequence[Sequence[float]]

ALL = 1e-3
"""Weight of a byte of any value beside one of the peak: among equal peaks the least total is chosen."""
_GAP = 1e-4
"""HiGHS may stop so close to its bound."""
_TOLERANCE = 1e-5
"""More than its own tolerances, each 1e-6 in units of the largest value, may lift its bound by."""
_SECONDS = 20.0
_LONGER = 60.0
"""Time limit for finding any solution within a memory budget."""
_NEAR = 1e-2
"""Allowed excess over the least bytes where only feasibility is in question."""
_ROUNDS = 40
_TRIES = 3


@dataclass(frozen=True)
class Buffer:
    """A value that takes memory from the operation `first` to the operation `last`, both included. sizes: by the choices of its group."""

    group: int
    first: int
    last: int
    sizes: Sequence[float]


class LiveRanges:
    """The points of a program, and what is live in them. Buffers of one group have one choice."""

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        self.buffers = buffers
        self.points = _busiest_points(buffers)
        self.spans = [
            (int(np.searchsorted(self.points, buffer.first)), int(np.searchsorted(self.points, buffer.last, side="right")))
            for buffer in buffers
        ]
        """Of each buffer the points in which it is live: from the first to before the second."""

    def live(self, places: Sequence[int]) -> Array:
        """Bytes at each point, by the choices of groups."""
        change = np.zeros(len(self.points) + 1)
        for buffer, (start, end) in zip(self.buffers, self.spans, strict=True):
            size = buffer.sizes[places[buffer.group]]
            change[start] += size
            change[end] -= size
        return np.cumsum(change)[:-1]

    @property
    def most(self) -> float:
        """Greatest difference that ALL can make between a bound of the peak and one of `total`."""
        return ALL * sum(max(buffer.sizes, default=0.0) for buffer in self.buffers)

    @property
    def least(self) -> float:
        """No choices have a lower `total`: every value as small as it can be."""
        smallest = LiveRanges([Buffer(i, p.first, p.last, [min(p.sizes)]) for i, p in enumerate(self.buffers)])
        return smallest.total([0] * len(self.buffers))

    def peak(self, places: Sequence[int]) -> float:
        return float(self.live(places).max(initial=0.0))

    def fits(self, places: Sequence[int], memory: float) -> bool:
        return self.peak(places) <= memory * (1 + 1e-9)

    def costs(self, like: Rows, prices: Array) -> list[list[float]]:
        """Of each choice what it takes at each point times the point's price, and ALL of its bytes."""
        before = np.concatenate([[0.0], np.cumsum(prices)])
        costs = [[0.0] * len(row) for row in like]
        for buffer, (start, end) in zip(self.buffers, self.spans, strict=True):
            price = float(before[end] - before[start]) + ALL
            row = costs[buffer.group]
            for place, size in enumerate(buffer.sizes):
                row[place] += price * size
        return costs

    def total(self, places: Sequence[int]) -> float:
        return self.peak(places) + ALL * sum(buffer.sizes[places[buffer.group]] for buffer in self.buffers)


def _busiest_points(buffers: Sequence[Buffer]) -> Array:
    """Program points at which no point beside them has all that is live and more: where something begins and the next event is an end."""
    firsts, lasts = sorted({buffer.first for buffer in buffers}), sorted({buffer.last for buffer in buffers})
    ends = np.array(lasts)
    found = [first for first, following in zip(firsts, [*firsts[1:], np.inf][: len(firsts)], strict=True)
             if ends[np.searchsorted(ends, first)] < following]  # fmt: skip
    return np.array(found, dtype=np.int64)


def least_peak(ranges: LiveRanges, squares: Sequence[Rows], exact: bool, memory: float = math.inf) -> Selection | None:
    """One choice for each group such that each budget is within 1, the peak is within `memory`, and the peak and ALL of all bytes are
    least; None where it is proved that there is none. Raises TimeoutError where nothing was found, and that is not proved.

    squares: by budget what each choice of each group uses up. `cost` and `bound` count `LiveRanges.total`. exact: by HiGHS, which proves
    the bound, and within _GAP of it unless it takes longer than _SECONDS; else by prices.
    """
    if not ranges.buffers:
        return Selection((), 0.0, 0.0) if memory >= 0 else None
    bound = ranges.least
    if bound - ranges.most > memory or any(math.fsum(map(min, rows)) > 1 for rows in squares):
        return None
    found = _by_program(ranges, squares, memory) if exact else None
    if found is None:
        found, priced = _by_prices(ranges, squares, memory)
        bound = max(bound, priced)
        if found is None and bound - ranges.most > memory:
            return None
    if found is None and (found := _by_program(ranges, squares, memory, False)) is not None:
        found = replace(found, bound=min(bound, found.cost))
    if found is None:
        raise TimeoutError("nothing was found in time")
    return _most_accurate(found, ranges, squares) if found.places else None


def within_peak(ranges: LiveRanges, squares: Sequence[Rows], memory: float) -> Selection | None:
    """Choices within the budgets and the memory, of about the least bytes in all; None where it is proved that there are none. Raises
    TimeoutError as `least_peak`."""
    found = _by_program(ranges, squares, memory, False)
    if found is None:
        raise TimeoutError("nothing was found in time")
    return _most_accurate(found, ranges, squares) if found.places else None


def _most_accurate(found: Selection, ranges: LiveRanges, squares: Sequence[Rows]) -> Selection:
    """Of choices that take no more memory anywhere, those that use up the least of the budgets."""
    sizes: list[list[Sequence[float]]] = [[] for _ in squares[0]]
    for buffer in ranges.buffers:
        sizes[buffer.group].append(buffer.sizes)
    places = list(found.places)
    for group, place in enumerate(found.places):
        no_more = [i for i in range(len(squares[0][group])) if all(size[i] <= size[place] for size in sizes[group])]
        kept = [i for i in no_more if all(rows[group][i] <= rows[group][place] for rows in squares)]
        places[group] = min(kept, key=lambda i: math.fsum(rows[group][i] for rows in squares))
    cost = ranges.total(places)
    return Selection(tuple(places), cost, min(found.bound, cost))


def _by_program(ranges: LiveRanges, squares: Sequence[Rows], memory: float, least: bool = True) -> Selection | None:
    """The choice; with no places where there is none; None where HiGHS found none in time. least: whether the peak is to be least, and not
    only within the memory, with few bytes in all."""
    counts = [len(row) for row in squares[0]]
    start = np.concatenate([[0], np.cumsum(counts)])
    points, choices = len(ranges.points), int(start[-1])
    scale = max(max(buffer.sizes, default=0.0) for buffer in ranges.buffers) or 1.0
    # the variables: choices, what is live at each point, and the peak
    peak = choices + points
    entries: list[tuple[int, int, float]] = []
    low: list[float] = []
    high: list[float] = []

    def row(found: list[tuple[int, float]], least: float, most: float) -> None:
        entries.extend((len(low), column, value) for column, value in found)
        low.append(least)
        high.append(most)

    for group, count in enumerate(counts):
        row([(int(start[group]) + place, 1.0) for place in range(count)], 1.0, 1.0)
    for budget in squares:
        row([(int(start[g]) + place, float(value)) for g, values in enumerate(budget) for place, value in enumerate(values)], -np.inf, 1.0)
    changes: list[list[tuple[int, float]]] = [[] for _ in range(points + 1)]
    cost = np.zeros(peak + 1)
    cost[peak] = float(least)
    for buffer, (begin, end) in zip(ranges.buffers, ranges.spans, strict=True):
        for place, size in enumerate(buffer.sizes):
            column = int(start[buffer.group]) + place
            cost[column] += ALL * size / scale
            changes[begin].append((column, -size / scale))
            changes[end].append((column, size / scale))
    for point in range(points):
        before = [(choices + point - 1, -1.0)] if point else []
        row([*changes[point], *before, (choices + point, 1.0)], 0.0, 0.0)
        row([(choices + point, 1.0), (peak, -1.0)], -np.inf, 0.0)
    numbers, columns, values = zip(*entries, strict=True)
    matrix = coo_array((values, (numbers, columns)), shape=(len(low), peak + 1)).tocsr()
    binary = np.concatenate([np.ones(choices), np.zeros(points + 1)])
    options = {"mip_rel_gap": _GAP if least else _NEAR, "time_limit": _SECONDS if least else _LONGER}
    room, most, bound = np.ones(len(squares)), memory, -np.inf
    for turn in range(_TRIES):
        high[len(counts) : len(counts) + len(squares)] = room.tolist()
        limits = LinearConstraint(matrix, low, high)
        with silent():
            result = milp(cost, integrality=binary, bounds=(0, np.where(binary, 1.0, most / scale)), constraints=limits, options=options)
        if result.status == 2 and not turn:
            return Selection((), 0.0, np.inf)
        if result.x is None:
            return None
        if not turn and least:
            bound = (float(result.mip_dual_bound) - _TOLERANCE) * scale
        places = tuple(int(np.argmax(result.x[start[g] : start[g + 1]])) for g in range(len(counts)))
        over = np.array([_used(rows, places) for rows in squares]) - 1
        fits = ranges.fits(places, memory)
        if fits and over.max() <= 1e-9:
            total = ranges.total(places)
            return Selection(places, total, min(total, bound))
        # its own tolerance is absolute: it is given a little less
        room -= np.where(over > 1e-9, 2 * over, 0.0)
        most -= 0.0 if fits else 2 * (ranges.peak(places) - memory)
    return None


def _by_prices(ranges: LiveRanges, squares: Sequence[Rows], memory: float) -> tuple[Selection | None, float]:
    """The best choice found within the memory, and the bound of `LiveRanges.total`, whether or not there is one."""
    prices = np.full(len(ranges.points), 1 / len(ranges.points))
    best: Selection | None = None
    bound = -np.inf
    for turn in range(_ROUNDS):
        costs = ranges.costs(squares[0], prices)
        found = cheapest_choice(costs, squares[0], 1.0) if len(squares) == 1 else cheapest_within(costs, squares)
        if found is None:
            break
        bound = max(bound, found.bound)
        total = ranges.total(found.places)
        if ranges.fits(found.places, memory) and (best is None or total < best.cost):
            best = Selection(found.places, total, bound)
        if bound - ranges.most > memory or (best is not None and best.cost <= bound * (1 + _GAP)):
            break
        live = ranges.live(found.places)
        # what is live longest at the busiest points gets dear there
        prices = prices * np.exp(np.minimum(20.0, 40.0 / (1 + turn / 4)) * (live / live.max() - 1))
        prices /= prices.sum()
    return None if best is None else replace(best, bound=min(bound, best.cost)), float(bound)


def _used(rows: Rows, places: Sequence[int]) -> float:
    return math.fsum(row[place] for row, place in zip(rows, places, strict=True))
