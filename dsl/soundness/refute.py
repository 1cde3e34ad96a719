"""The search for a counterexample: both sides in ball arithmetic on small tensors of special values.

A counterexample is certain: the inputs are exact rationals that meet `where`, the left side is defined, and the right side is
undefined or its ball is disjoint from the left's. It is then minimised: smaller shapes, rounder numbers.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb, fmpq

from hnfc.dialects.facts import NoFormula
from hnfc.dsl.core import (
    AllOf,
    AnyOf,
    Apply,
    Capture,
    Comparison,
    Condition,
    Free,
    Not,
    Property,
    Rule,
    SameSize,
    condition_parts,
)
from hnfc.dsl.soundness import balls
from hnfc.dsl.soundness.balls import MATH, UNDECIDED, UNDEFINED, Balls, ShapeMismatch, Unsupported, evaluate, positions, surely_different
from hnfc.dsl.soundness.denote import CONTRACTING, boolean_captures, known_ranks, rule_expressions, scalar_captures, used_axes
from hnfc.dsl.soundness.verdict import Counterexample, Tensor

F = Fraction
SPECIAL = (F(0), F(1), F(-1), F(2), F(-2), F(1, 2), F(-1, 2), F(3), F(-3), F(1, 3))
POSITIVE = (F(1), F(2), F(1, 2), F(3), F(1, 3), F(5, 4), F(10), F(1, 100))
NEGATIVE = tuple(-v for v in POSITIVE)
UNIT = (F(0), F(1, 2), F(1, 4), F(-1, 2), F(9, 10), F(-9, 10), F(1, 10), F(3, 4))
EXTREME = (F(10**6), F(-(10**6)), F(1, 10**12), F(-1, 10**12), F(200), F(-200), F(0), F(1))
ABOVE_ONE = (F(1), F(2), F(3, 2), F(5), F(11, 10), F(4))
SIMPLE = (F(0), F(1), F(-1), F(2), F(-2), F(1, 2), F(-1, 2), F(3), F(-3))
ERRORS = (ShapeMismatch, ValueError, IndexError)


@dataclass
class Point:
    """One sample: exact inputs and the places of the axis variables."""

    inputs: dict[str, np.ndarray[Any, Any]]
    axes: dict[str, tuple[int, ...]]

    def tensors(self) -> dict[str, Balls]:
        return {name: Balls.of(value) for name, value in self.inputs.items()}


@dataclass
class Search:
    """What the search found: samples that agreed, a witness for the preconditions, and perhaps a counterexample."""

    agreed: int = 0
    tried: int = 0
    vacuous: bool = True
    witness: Point | None = None
    counterexample: Counterexample | None = None
    point: Point | None = None
    largest: float = 0.0
    unsupported: str = ""
    untyped: int = 0


@dataclass
class Sampler:
    """Random points for a rule."""

    rule: Rule
    random: random.Random
    names: list[str] = field(init=False)
    booleans: frozenset[str] = field(init=False)
    scalars: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        nodes = rule_expressions(self.rule)
        self.booleans, self.scalars = boolean_captures(self.rule), scalar_captures(self.rule)
        self.names = sorted({n.name for n in nodes if isinstance(n, Capture)} | self.scalars)
        self.ranks = known_ranks(self.rule)
        axes = used_axes(self.rule)
        self.named = sorted(a for a in axes if isinstance(a, str))
        self.placed = sorted(a for a in axes if isinstance(a, int))
        self.contracting = contracts(self.rule)
        self.integral = {
            c.operands[0].name
            for c in _parts(self.rule.where)
            if isinstance(c, Property) and c.name == "integral" and isinstance(c.operands[0], Capture)
        }

    def point(self) -> Point:
        choose = self.random
        rank = choose.choice((1, 1, 2, 2, 3)) if self.named or self.placed or self.contracting else choose.choice((0, 0, 1, 2))
        rank = max(rank, 2 * self.contracting, len(self.named), *[-a if a < 0 else a + 1 for a in self.placed], 0)
        places = list(range(-rank, 0))
        axes: dict[str, tuple[int, ...]] = {}
        free = choose.sample(places, len(places))
        for name in self.named:
            axes[name] = (free.pop(),)
        for name in self.named:
            if free and choose.random() < 0.3:
                axes[name] += (free.pop(),)
        square = choose.random() < 0.5
        sizes = [choose.choice((1, 2, 2, 2, 3)) for _ in places]
        if square and self.contracting:
            sizes[-2:] = [sizes[-1]] * 2
        broadcast = choose.choice((0.0, 0.0, 0.15, 0.4))
        styles = self._styles()
        same = choose.random() < 0.1
        inputs = {name: self._values(name, self._shape(name, sizes, broadcast, axes), styles[name], same) for name in self.names}
        return Point(inputs, axes)

    def _shape(self, name: str, sizes: list[int], broadcast: float, axes: dict[str, tuple[int, ...]]) -> tuple[int, ...]:
        if name in self.scalars:
            return ()
        choose = self.random
        if name in self.ranks:
            while len(sizes) < self.ranks[name]:
                sizes = [choose.choice((1, 2, 3)), *sizes]
            sizes = sizes[len(sizes) - self.ranks[name] :]
        shape = [1 if choose.random() < broadcast else size for size in sizes]
        for condition in _parts(self.rule.where):
            if (
                isinstance(condition, Free)
                and isinstance(condition.operand, Capture)
                and condition.operand.name == name
                and choose.random() < 0.9
            ):
                for place in positions(balls.resolve(condition.axes, axes), len(shape)):
                    shape[place] = 1
        if self.contracting:
            # sizes of matrices differ: any of a few
            pool = sorted(set(sizes)) or [1]
            shape[-2:] = [choose.choice(pool) if choose.random() < 0.6 else s for s in shape[-2:]]
        elif choose.random() < 0.15 and name not in self.ranks:
            while shape and shape[0] == 1:
                shape = shape[1:]
        return tuple(shape)

    def _styles(self) -> dict[str, tuple[Fraction, ...] | str]:
        pools = (SPECIAL, SPECIAL, POSITIVE, POSITIVE, NEGATIVE, UNIT, EXTREME, ABOVE_ONE, "random", "tiny", "ints")
        if self.random.random() < 0.6:
            one = self.random.choice(pools)
            return dict.fromkeys(self.names, one)
        return {name: self.random.choice(pools) for name in self.names}

    def _values(self, name: str, shape: tuple[int, ...], style: tuple[Fraction, ...] | str, same: bool) -> np.ndarray[Any, Any]:
        choose = self.random

        def one() -> Any:
            if name in self.booleans:
                return choose.random() < 0.5
            if name in self.integral or style == "ints":
                return F(choose.randint(-4, 5))
            if style == "random":
                return F(choose.randint(-4096, 4096), 1024)
            if style == "tiny":
                return F(choose.randint(-64, 64), 2 ** choose.choice((8, 20, 40)))
            assert not isinstance(style, str)
            return choose.choice(style)

        array = np.empty(shape, dtype=object)
        flat = array.reshape(-1)
        first = one()
        for i in range(flat.size):
            flat[i] = first if same else one()
        return flat.reshape(shape)


def contracts(rule: Rule) -> bool:
    """The rule speaks of matrices; vectors, which `matmul` promotes, are left out (see `proof.shape_conditions`)."""
    return any(isinstance(n, Apply) and n.name in CONTRACTING for n in rule_expressions(rule))


def _parts(condition: Condition) -> Iterator[Condition]:
    """The conjuncts."""
    if isinstance(condition, AllOf):
        for part in condition.parts:
            yield from _parts(part)
    else:
        yield condition


def holds(condition: Condition, point: Point, tensors: dict[str, Balls]) -> bool | None:
    """Whether the inputs surely meet the condition (None: unsure). Undefined operands do not meet it."""
    match condition:
        case Comparison(predicate, x, y):
            left, right = (evaluate(e, tensors, point.axes, 0) for e in (x, y))
            values = set(MATH.compare(predicate, left, right).values.reshape(-1).tolist())
            return False if False in values or UNDEFINED in values else None if UNDECIDED in values else True
        case Free(operand, axes):
            shape = evaluate(operand, tensors, point.axes, 0).shape
            return all(shape[p] == 1 for p in positions(balls.resolve(axes, point.axes), len(shape)))
        case SameSize(x, y, axes):
            shapes = [evaluate(e, tensors, point.axes, 0).shape for e in (x, y)]
            return all(size_at(shapes[0], a) == size_at(shapes[1], a) for a in balls.resolve(axes, point.axes))
        case AllOf(parts):
            found = [holds(part, point, tensors) for part in parts]
            return False if False in found else None if None in found else True
        case AnyOf(parts):
            found = [holds(part, point, tensors) for part in parts]
            return True if True in found else None if None in found else False
        case Not(Property(name)) if name not in DECIDED:
            return True
        case Not(part):
            value = holds(part, point, tensors)
            return None if value is None else not value
        case Property("integral", (Capture(name),)):
            return all(F(v).denominator == 1 for v in point.inputs[name].reshape(-1).tolist())
        case Property("rank", (operand,), (predicate, number)):
            rank = len(evaluate(operand, tensors, point.axes, 0).shape)
            order = (rank > number) - (rank < number)
            return order in {"eq": (0,), "ne": (-1, 1), "lt": (-1,), "le": (-1, 0), "gt": (1,), "ge": (0, 1)}[predicate]
    return True


DECIDED = ("integral", "rank")
REAL = (*DECIDED, "dtype", "finite")
"""Properties that are decided here, or that every real number has."""


def floating_properties(condition: Condition) -> bool:
    """The condition speaks of what only floating-point numbers do, so that no sample shows whether it holds."""
    return any(isinstance(part, Property) and part.name not in REAL for part in condition_parts(condition))


def size_at(shape: tuple[int, ...], axis: int) -> int:
    return shape[axis] if -len(shape) <= axis < len(shape) else 1


@dataclass
class Outcome:
    """Both sides at one point."""

    left: Balls
    right: Balls
    index: tuple[int, ...] | None
    agreed: bool
    defined: bool


def outcome(rule: Rule, point: Point, flipped: bool = False) -> Outcome | None:
    """None where the point does not meet `where`, or a side has no type."""
    try:
        tensors = point.tensors()
        if holds(rule.where, point, tensors) is not True:
            return None
        left = evaluate(rule.replacement if flipped else rule.pattern, tensors, point.axes, 0)
        if all(v is UNDEFINED or v is UNDECIDED for v in left.values.reshape(-1).tolist()):
            return Outcome(left, left, None, False, False)
        right = evaluate(rule.pattern if flipped else rule.replacement, tensors, point.axes, 0)
        shape = np.broadcast_shapes(left.shape, right.shape)
        left, right = (Balls(np.broadcast_to(side.values, shape)) for side in (left, right))
    except ERRORS:
        return None
    agreed, defined, index = True, False, None
    for place in np.ndindex(left.shape):
        x, y = left.values[place], right.values[place]
        if x is UNDEFINED or x is UNDECIDED:
            continue
        defined = True
        if y is UNDEFINED or surely_different(x, y):
            index = index if index is not None else place
        elif y is UNDECIDED:
            agreed = False
    return Outcome(left, right, index, agreed and index is None, defined)


def search(rule: Rule, samples: int, seconds: float, seed: int = 0, bits: int = balls.DEFAULT_PRECISION) -> Search:
    """Tries to break the rule; a `<=>` rule is read in both directions."""
    sampler = Sampler(rule, random.Random(f"{rule.name}/{seed}"))
    result = Search()
    deadline = time.monotonic() + seconds
    with balls.precision(bits):
        for round_ in range(20 * samples):
            if result.agreed >= samples or time.monotonic() > deadline:
                break
            point = sampler.point()
            flipped = rule.both_ways and round_ % 2 == 1
            result.tried += 1
            try:
                found = outcome(rule, point, flipped)
            except (Unsupported, NoFormula) as error:
                result.unsupported = str(error)
                return result
            if found is None:
                result.untyped += 1
                continue
            if not found.defined:
                continue
            result.vacuous = False
            if result.witness is None:
                result.witness = point
            if found.index is not None:
                if rule.within is not None:
                    gap = difference(found)
                    result.largest = max(result.largest, gap)
                    if gap <= float(rule.within):
                        result.agreed += 1
                        continue
                point = minimised(rule, point, flipped)
                again = outcome(rule, point, flipped)
                assert again is not None and again.index is not None
                result.point = point
                result.counterexample = described(point, again, flipped)
                return result
            result.agreed += found.agreed
    return result


def difference(found: Outcome) -> float:
    """The largest |left - right| where both are defined; inf where only the left is."""
    worst = 0.0
    for x, y in zip(found.left.values.reshape(-1), found.right.values.reshape(-1), strict=True):
        if isinstance(x, balls.Mark) or y is UNDECIDED:
            continue
        if y is UNDEFINED:
            return float("inf")
        worst = max(worst, float(abs(arb(x) - arb(y)).abs_lower()))
    return worst


def minimised(rule: Rule, point: Point, flipped: bool, budget: int = 150) -> Point:
    """A smaller point that still breaks the rule: fewer elements, rounder numbers."""
    spent = 0

    def breaks(candidate: Point) -> bool:
        nonlocal spent
        spent += 1
        if spent > budget:
            return False
        found = outcome(rule, candidate, flipped)
        if found is None or found.index is None:
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
            if candidate is not None and breaks(candidate):
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


def _with(point: Point, name: str, values: Any) -> Point | None:
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


def described(point: Point, found: Outcome, flipped: bool) -> Counterexample:
    assert found.index is not None
    left, right = show(found.left.values[found.index]), show(found.right.values[found.index])
    del flipped
    return Counterexample(tensors_of(point), tuple(sorted(point.axes.items())), tuple(found.index), left, right)


def tensors_of(point: Point) -> tuple[tuple[str, Tensor], ...]:
    return tuple(
        (name, Tensor(tuple(a.shape), tuple(_text(v) for v in a.reshape(-1).tolist()))) for name, a in sorted(point.inputs.items())
    )


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def show(x: Any) -> str:
    """An element in a few digits."""
    if isinstance(x, balls.Mark | bool):
        return str(x.value if isinstance(x, balls.Mark) else x).lower()
    if isinstance(x, fmpq):
        return str(x) if len(str(x)) < 16 else arb(x).str(8, radius=False)
    return str(x.str(8, radius=False))


def replayed(rule: Rule, example: Counterexample) -> bool:
    """Whether the counterexample as written breaks the rule (in either direction of a `<=>` rule)."""

    def number(text: str) -> Any:
        return text == "true" if text in ("true", "false") else F(text)

    inputs = {}
    for name, tensor in example.inputs:
        array = np.empty(tensor.shape, dtype=object)
        array[...] = np.array([number(v) for v in tensor.values], dtype=object).reshape(tensor.shape)
        inputs[name] = array
    point = Point(inputs, {name: tuple(axes) for name, axes in example.axes})
    with balls.precision(2 * balls.DEFAULT_PRECISION):
        found = [outcome(rule, point, flipped) for flipped in ((False, True) if rule.both_ways else (False,))]
    return any(f is not None and f.index is not None for f in found)


__all__ = ["Point", "Sampler", "Search", "replace", "replayed", "search"]
