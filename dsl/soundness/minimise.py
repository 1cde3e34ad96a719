"""A smaller counterexample: fewer elements, rounder numbers."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from hnfc.dsl.core import (
    Rule,
)
from hnfc.dsl.soundness.outcome import difference, outcome, size_at
from hnfc.dsl.soundness.sampling import F, Point, contracts

SIMPLE = (F(0), F(1), F(-1), F(2), F(-2), F(1, 2), F(-1, 2), F(3), F(-3))


def minimised(rule: Rule, point: Point, flipped: bool, budget: int = 150) -> Point:
    """A smaller point that still breaks the rule: fewer elements, rounder numbers."""
    spent = 0

    def breaks(candidate: Point) -> bool:
        nonlocal spent
        spent += 1
        if spent > budget:
            return False
        found = outcome(rule, candidate, flipped)
        if found is None or found.index is None or not found.typed:
            return False
        return rule.within is None or difference(found) > float(rule.within)

    least = 2 if contracts(rule) else 0
    changed = True
    while changed and spent <= budget:
        changed = False
        for candidate in _smaller(point, least):
            if breaks(candidate):
                point, changed = candidate, True
                break
    for name in sorted(point.inputs):
        for simple in SIMPLE[:4]:
            candidate = _with(point, name, np.frompyfunc(lambda v, s=simple: v if isinstance(v, bool) else s, 1, 1)(point.inputs[name]))
            if breaks(candidate):
                point = candidate
                break
    for name in sorted(point.inputs):
        for place in np.ndindex(point.inputs[name].shape):
            for simple in _simpler(point.inputs[name][place]):
                array = point.inputs[name].copy()
                array[place] = simple
                if breaks(Point({**point.inputs, name: array}, point.axes)):
                    point = Point({**point.inputs, name: array}, point.axes)
                    break
    return point


def _with(point: Point, name: str, values: Any) -> Point:
    array = np.empty(point.inputs[name].shape, dtype=object)
    array[...] = values
    return Point({**point.inputs, name: array}, point.axes)


def _smaller(point: Point, least: int) -> Iterator[Point]:
    """Along one axis, every tensor cut to fewer elements; or all tensors without their first axis."""
    rank = max((a.ndim for a in point.inputs.values()), default=0)
    for axis in range(-rank, 0):
        longest = max(size_at(a.shape, axis) for a in point.inputs.values())
        if longest > 1:
            for keep in range(longest if longest <= 3 else 1):
                cut = {}
                for name, a in point.inputs.items():
                    n = size_at(a.shape, axis)
                    cut[name] = np.delete(a, min(keep, n - 1), axis=axis) if n > 1 else a
                yield Point(cut, point.axes)
    used = [place for places in point.axes.values() for place in places]
    if rank > least and -rank not in used:
        yield Point({n: a[:1].reshape(a.shape[1:]) if a.ndim == rank else a for n, a in point.inputs.items()}, point.axes)
    if rank > least and -1 not in used and all(size_at(a.shape, -1) == 1 for a in point.inputs.values()):
        axes = {name: tuple(place + 1 for place in places) for name, places in point.axes.items()}
        yield Point({n: a[..., 0] if a.ndim else a for n, a in point.inputs.items()}, axes)
    for name, places in point.axes.items():
        if len(places) > 1:
            yield Point(point.inputs, {**point.axes, name: places[:1]})
            yield Point(point.inputs, {**point.axes, name: places[1:]})


def _simpler(value: Any) -> Iterator[Fraction]:
    if isinstance(value, bool):
        return
    for simple in (*SIMPLE, F(round(value))):
        if simple == value:
            return
        yield simple
