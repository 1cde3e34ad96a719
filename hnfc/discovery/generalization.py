"""The most general form of an equality that still holds at the points: common parts and repeated names become names of their own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np

from hnfc.discovery.enumeration import FREE, POSITIVE, SIGNED, evaluated, point
from hnfc.discovery.operations import size_of
from hnfc.dsl import core
from hnfc.dsl.core import Apply, Capture, Expr, Literal
from hnfc.dsl.description import describe
from hnfc.dsl.ieee.moves import aligned

NAMES = ("x", "y", "z", "u", "v", "w")
_MOST_OCCURRENCES = 7
_CLOSE = 1e-9

Sides = tuple[Expr, Expr]


def generalized(left: Expr, right: Expr) -> Sides:
    """The sides with as many names as the equality allows; as given where there is nothing to generalise."""
    kinds = [kind for kind in (POSITIVE, SIGNED) if holds((left, right), kind)]
    if POSITIVE not in kinds:
        return left, right

    def still(sides: Sides) -> bool:
        return core.captures(sides[1]).keys() <= core.captures(sides[0]).keys() and all(holds(sides, kind) for kind in kinds)

    return _in_order(_named_apart(_without_common_parts((left, right), still), still))


def holds(sides: Sides, kind: int) -> bool:
    """Return whether both sides have the same values at the points of a kind."""
    names = core.captures(sides[0]) | core.captures(sides[1])
    inputs = {name: point(name, kind, FREE) for name in names}
    values = [evaluated(side, inputs, "f64") for side in sides]
    if values[0] is None or values[1] is None:
        return False
    left, right = aligned([values[0], values[1]])
    try:
        left, right = np.broadcast_arrays(left, right)
    except ValueError:
        return False
    return bool(np.isfinite(left).any() and np.allclose(left, right, rtol=_CLOSE, atol=_CLOSE, equal_nan=True))


def _without_common_parts(sides: Sides, still: Callable[[Sides], bool]) -> Sides:
    """The sides with a name for each part that both have, larger parts first."""
    for part in sorted(_common(sides), key=lambda part: (-size_of(part), describe(part))):
        fresh = _fresh(sides)
        if fresh is None:
            break
        replaced = _named(sides, part, Capture(fresh))
        if isinstance(replaced[0], Apply) and still(replaced):
            sides = replaced
    return sides


def _named(sides: Sides, part: Expr, name: Capture) -> Sides:
    left, right = (_replaced(side, lambda node: name if node == part else None) for side in sides)
    return left, right


def _common(sides: Sides) -> list[Expr]:
    inside = [{node for node in core.walk(side) if isinstance(node, Apply | Literal)} for side in sides]
    return [node for node in inside[0] & inside[1] if FREE not in core.captures(node)]


def _named_apart(sides: Sides, still: Callable[[Sides], bool]) -> Sides:
    """The sides with different names for occurrences that need not be the same."""
    for name in sorted(core.captures(sides[0])):
        count = sum(_occurrences(side, name) for side in sides)
        if name == FREE or not 2 < count <= _MOST_OCCURRENCES:
            continue
        for groups in _groupings(count):
            made = _with_groups(sides, name, groups)
            if made is not None and still(made):
                sides = made
                break
    return sides


def _in_order(sides: Sides) -> Sides:
    """The sides with names by where they come first."""
    names = [name for name in core.captures(sides[0]) if name != FREE]
    renamed = dict(zip(names, NAMES, strict=False))
    left, right = (
        _replaced(side, lambda node: Capture(renamed[node.name]) if isinstance(node, Capture) and node.name in renamed else None)
        for side in sides
    )
    return left, right


def _groupings(count: int) -> Iterator[tuple[int, ...]]:
    """The ways to tell occurrences apart, as the group of each, with most groups first."""
    found = [groups for groups in itertools.product(range(count // 2 + 1), repeat=count) if _is_standard(groups)]
    yield from sorted(found, key=lambda groups: -max(groups))[:-1]


def _is_standard(groups: tuple[int, ...]) -> bool:
    """Return whether groups are numbered by where they come first, and none has a single member."""
    firsts = list(dict.fromkeys(groups))
    return firsts == list(range(len(firsts))) and all(groups.count(group) > 1 for group in firsts)


def _with_groups(sides: Sides, name: str, groups: tuple[int, ...]) -> Sides | None:
    taken = set(core.captures(sides[0]))
    free = [other for other in NAMES if other not in taken]
    if max(groups) > len(free):
        return None
    names = [name, *free]
    places = iter(groups)
    made = [_replaced(side, lambda node: Capture(names[next(places)]) if node == Capture(name) else None) for side in sides]
    return made[0], made[1]


def _fresh(sides: Sides) -> str | None:
    taken = core.captures(sides[0]).keys() | core.captures(sides[1]).keys()
    return next((name for name in NAMES if name not in taken), None)


def _occurrences(node: Expr, name: str) -> int:
    if isinstance(node, Apply):
        return sum(_occurrences(part, name) for part in node.operands)
    return int(node == Capture(name))


def _replaced(node: Expr, image: Callable[[Expr], Expr | None]) -> Expr:
    found = image(node)
    if found is not None:
        return found
    if isinstance(node, Apply):
        return Apply(node.operation, tuple(_replaced(part, image) for part in node.operands), node.attributes)
    return node
