"""Points at which error formulas are compared: many at once, simple numbers among them, in small and large tensors."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hnfc.dsl.core import AllOf, AnyOf, Capture, Comparison, Condition, Not, Rule
from hnfc.dsl.error.floating import Array, CannotRun, evaluate
from hnfc.dsl.error.intervals import Bounds
from hnfc.dsl.error.side import RuleContext
from hnfc.dsl.soundness.scan import known_ranks, rule_expressions

SIMPLE = np.array([0, 1, 2, 3, 5, 10, 20, 50, 1 / 2, 1 / 4, 3 / 4, 1 / 8, 1 / 10, 1 / 100, 1 / 1024, 2.0**-20, 4, 8, 30, 80])
SINGLE = 3000
ROWS = 160
LENGTHS = (1, 2, 2, 3, 5, 8)
LONG = 12_000
MATRICES = ((1, 1), (1, 2), (2, 2), (2, 3), (3, 3))


@dataclass
class Points:
    """Samples. `batched`: the first axis of every array counts the samples; else there is one."""

    inputs: dict[str, Array]
    axes: dict[str, tuple[int, ...]]
    batched: bool

    def one(self, index: int) -> Points:
        """A sample by itself."""
        if not self.batched:
            return self
        return Points({name: array[index] for name, array in self.inputs.items()}, self.axes, False)


def points(rule: Rule, context: RuleContext, seed: int = 0) -> Iterator[Points]:
    """Samples that may or may not meet the rule's conditions."""
    generator = np.random.default_rng(seed)
    names = sorted({n.name: n for n in rule_expressions(rule) if isinstance(n, Capture)})
    named = [axis for axis in context.axes if isinstance(axis, str)]
    if not context.axes:
        inputs = {name: _values(generator, context, name, (SINGLE,)) for name in names}
        _relate(generator, inputs, context)
        yield Points(inputs, {}, True)
    elif named:
        places: dict[str, tuple[int, ...]] = {axis: (i - len(named),) for i, axis in enumerate(named)}
        for n in (*LENGTHS, LONG):
            rows = ROWS if n < LONG else 2
            shape = {name: tuple(1 if (name, axis) in context.free or name in context.scalars else n if i == 0 or n < LONG else 1
                                 for i, axis in enumerate(named)) for name in names}  # fmt: skip
            inputs = {name: _values(generator, context, name, (rows, *shape[name])) for name in names}
            _relate(generator, inputs, context)
            if n == LONG:
                # one long row of one value
                inputs |= {name: np.concatenate([a[:1] * 0 + a[:1].reshape(-1)[0], a[1:]]) for name, a in inputs.items() if a.size}
            yield Points(inputs, places, True)
    else:
        yield from _matrices(generator, rule, context, names)


def _matrices(generator: np.random.Generator, rule: Rule, context: RuleContext, names: list[str]) -> Iterator[Points]:
    ranks = known_ranks(rule)
    batched = not ranks
    for round_ in range(3 if batched else 24):
        for rows, columns in MATRICES if batched else MATRICES[round_ % 5 : round_ % 5 + 1]:
            size = rows if round_ % 2 == 0 else columns
            inputs = {}
            for name in names:
                rank = 0 if name in context.scalars else ranks.get(name, 2)
                shape = tuple(1 if (name, axis) in context.free else size for axis in range(-rank, 0))
                lead = (40, *(1,) * (2 - rank)) if batched else ()
                inputs[name] = _values(generator, context, name, (*lead, *shape))
            yield Points(inputs, {}, batched)


def _values(generator: np.random.Generator, context: RuleContext, name: str, shape: tuple[int, ...]) -> Array:
    if name in context.booleans:
        return generator.random(shape) < 0.5
    signs = generator.choice([-1.0, 1.0], shape)
    simple = generator.choice(SIMPLE, shape)
    spread = np.exp(generator.uniform(np.log(1e-6), np.log(200), shape))
    plain = generator.random(shape[:1] + (1,) * (len(shape) - 1)) < 0.5
    values = signs * np.where(plain | (generator.random(shape) < 0.4), simple, spread)
    whole = generator.random(shape[:1] + (1,) * (len(shape) - 1)) < 0.2
    if len(shape) > 1 and np.prod(shape[1:]) > 1:
        # rows of one sign, and rows of one value
        values = np.where(whole, np.abs(values), values)
        first = values[(slice(None), *(slice(0, 1),) * (len(shape) - 1))]
        values = np.where(generator.random(whole.shape) < 0.15, first, values)
        values = np.where(generator.random(whole.shape) < 0.15, first * (1 + values / 1000), values)
    return _into(values, context.algebra.known.get(name))


def _into(values: Array, bounds: Bounds | None) -> Array:
    """The values moved into an interval."""
    if bounds is None:
        return values
    lo, hi = float(bounds[0]), float(bounds[1])
    if np.isfinite(lo) and np.isfinite(hi):
        return lo + (hi - lo) * (np.abs(values) % 1.0)
    if np.isfinite(lo):
        return lo + np.abs(values)
    return hi - np.abs(values) if np.isfinite(hi) else values


def _relate(generator: np.random.Generator, inputs: dict[str, Array], context: RuleContext) -> None:
    """Some samples have captures that are equal, nearly equal, or each other's negation."""
    names = [name for name in inputs if name not in context.booleans]
    for first, second in itertools.pairwise(names):
        a, b = inputs[first], inputs[second]
        if a.shape != b.shape:
            continue
        draw = generator.random(a.shape[:1] + (1,) * (a.ndim - 1))
        b = np.where(draw < 0.08, a, b)
        b = np.where((draw > 0.08) & (draw < 0.16), -a, b)
        inputs[second] = _into(np.where((draw > 0.16) & (draw < 0.24), a * (1 + 2.0**-10), b), context.algebra.known.get(second))


def meeting(condition: Condition, sample: Points) -> Array:
    """For each sample, whether it meets the condition, as far as it compares values. Raises CannotRun where that is not known."""
    count = len(next(iter(sample.inputs.values()))) if sample.batched else 1
    match condition:
        case Comparison(predicate, x, y):
            left, right = (evaluate(e, sample.inputs, sample.axes) for e in (x, y))
            try:
                with np.errstate(all="ignore"):
                    found = _PREDICATES[predicate](left, right)
            except ValueError:
                raise CannotRun("a comparison of shapes that do not fit") from None
            if sample.batched:
                found = np.broadcast_to(found, np.broadcast_shapes(found.shape, (count,) + (1,) * max(found.ndim - 1, 0)))
            return np.asarray(found.reshape(count, -1).all(axis=1))
        case AllOf(parts):
            return np.asarray(np.logical_and.reduce([meeting(part, sample) for part in parts] or [np.ones(count, np.bool_)]))
        case AnyOf(parts):
            return np.asarray(np.logical_or.reduce([meeting(part, sample) for part in parts] or [np.zeros(count, np.bool_)]))
        case Not(part):
            if isinstance(part, Comparison):
                raise CannotRun("a negated comparison")
            return np.ones(count, np.bool_)
    return np.ones(count, np.bool_)


_PREDICATES: dict[str, Any] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
