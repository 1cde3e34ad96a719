"""Small tensors for rules with axes: shapes in which both sides have a type, filled with directed and random numbers."""

from __future__ import annotations

import itertools
import math
import random as stdlib_random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hnfc.dsl.core import AllOf, Apply, Condition, Free, Property, Rule, SameSize, attribute_expressions, condition_expressions, conjuncts
from hnfc.dsl.core import captures as captures_of
from hnfc.dsl.ieee.arithmetic import INTEGERS, NotComputed
from hnfc.dsl.ieee.conditions import meets
from hnfc.dsl.ieee.evaluate import Batch, sides
from hnfc.dsl.ieee.formats import BINARY, Array, rounded
from hnfc.dsl.ieee.samples import TrialBatch, required_signs
from hnfc.dsl.ieee.values import core, discrete, ordinary, patterns, specials
from hnfc.dsl.soundness.array_moves import ShapeMismatch
from hnfc.dsl.soundness.axis_classes import Unrelated
from hnfc.dsl.soundness.sampling import Point, Sampler
from hnfc.dsl.soundness.scan import rule_expressions
from hnfc.dsl.soundness.typing import Typing

LAYOUTS, MOST_AXES = 5, 3
"""So many layouts are tried, small and large ones, and so many more with other axes."""
ENOUGH, TRIES = 16, 400
"""So many layouts are collected, out of so many that are drawn."""
MOST_ELEMENTS = 100
COMBINED = 2048
"""Number of combinations of constant tensors that are tried."""
SAMPLES = 608
"""Number of samples of each layout."""


@dataclass(frozen=True)
class Layout:
    """Shapes of the captures, what axis variables stand for, and the values of the captures that stand in attributes or are indices."""

    shapes: tuple[tuple[str, tuple[int, ...]], ...]
    axes: tuple[tuple[str, tuple[int, ...]], ...]
    fixed: tuple[tuple[str, tuple[float, ...]], ...]

    @property
    def size(self) -> int:
        return sum(int(np.prod(shape)) for _, shape in self.shapes)


def layouts_of(rule: Rule, typing: Typing) -> list[Layout]:
    """Layouts in which both sides have a type and the conditions on shapes hold, the smallest first.

    Raises ShapeMismatch, Unsupported or Mismatch where none was found.
    """
    nodes = rule_expressions(rule)
    if any(isinstance(node, Apply) and not isinstance(dict(node.attributes).get("axis", 0), str | int) for node in nodes):
        raise NotComputed("an axis that is neither named nor counted from the right")
    try:
        sampler = Sampler(rule, stdlib_random.Random(0))
    except Unrelated as error:
        raise ShapeMismatch(str(error)) from error
    fixed = {n for node in nodes for e in attribute_expressions(node) for n in captures_of(e)}
    fixed |= {name for name, element in typing.captures.items() if element == "si64"}
    shapes_only = replace(rule, where=AllOf(tuple(c for c in conjuncts(rule.where) if _speaks_of_shapes(c))))
    fault = ShapeMismatch("no shapes fit")

    def fits(layout: Layout) -> bool:
        nonlocal fault
        probe = _ones(layout, typing.widened)
        try:
            sides(rule.pattern, rule.replacement, probe)
            return bool(meets(shapes_only, probe).all())
        except ShapeMismatch as error:
            fault = error
            return False

    found: list[Layout] = []
    seen: set[Layout] = set()
    for _ in range(TRIES):
        if len(found) == ENOUGH:
            break
        layout = _layout(sampler.point(), fixed, typing)
        if layout not in seen and fits(layout):
            found.append(layout)
        seen.add(layout)
    if not found:
        raise fault
    longer = (layout for layout in map(_longer, _one_for_each_axes(found)) if layout.size <= MOST_ELEMENTS and fits(layout))
    return sorted({*found, *itertools.islice(longer, 3)}, key=lambda layout: (layout.size, repr(layout)))


def tensor_trials(rule: Rule, typing: Typing, layouts: list[Layout]) -> Iterator[TrialBatch]:
    """Samples of a few of the layouts."""
    random = np.random.default_rng(0)
    signs = required_signs(rule)
    usable = [layout for layout in layouts if _is_usable(rule, layout, typing)]
    chosen = {usable[round(i)] for i in np.linspace(0, len(usable) - 1, LAYOUTS).tolist()} if usable else set()
    chosen.update(_one_for_each_axes(usable)[:MOST_AXES])
    for layout in usable[:1]:
        yield TrialBatch(_batch(layout, typing, _constant_tensors(rule, layout, typing, signs, random)))
    for layout in (layout for layout in usable if layout in chosen):
        inputs: dict[str, Array] = {}
        first: Array | None = None
        for name, shape in layout.shapes:
            element = typing.captures[name]
            if name in dict(layout.fixed):
                continue
            if element not in BINARY:
                inputs[name] = discrete(element, SAMPLES * int(np.prod(shape)), random).reshape(SAMPLES, *shape)
                continue
            values = _blocks(element, rule, shape, first, random)
            first = values if first is None else first
            inputs[name] = np.copysign(values, signs[name]) if name in signs else values
        yield TrialBatch(_batch(layout, typing, inputs))


def _constant_tensors(rule: Rule, layout: Layout, typing: Typing, signs: dict[str, float], random: np.random.Generator) -> dict[str, Array]:
    """A few special numbers in combination, each filling a tensor."""
    pools = {}
    for name, shape in layout.shapes:
        element = typing.captures[name]
        if name not in dict(layout.fixed):
            pool = core(BINARY[element], rule) if element in BINARY else discrete(element, 16, random)
            pools[name] = (np.copysign(pool, signs[name]) if name in signs else pool, shape)
    if math.prod(len(pool) for pool, _ in pools.values()) <= COMBINED:
        grid = np.meshgrid(*(pool for pool, _ in pools.values()), indexing="ij")
        drawn = [values.reshape(-1) for values in grid]
    else:
        drawn = [random.choice(pool, COMBINED) for pool, _ in pools.values()]
    return {
        name: np.broadcast_to(values.reshape(-1, *(1,) * len(shape)), (len(values), *shape))
        for (name, (_, shape)), values in zip(pools.items(), drawn, strict=True)
    }


def _layout(point: Point, fixed: set[str], typing: Typing) -> Layout:
    shapes = tuple((name, tuple(point.inputs[name].shape)) for name in sorted(typing.captures))
    values = tuple((name, tuple(float(v) for v in point.inputs[name].reshape(-1).tolist())) for name in sorted(fixed))
    return Layout(shapes, tuple(sorted(point.axes.items())), values)


def _is_usable(rule: Rule, layout: Layout, typing: Typing) -> bool:
    """Return whether the fixed values are finite in their formats, and meet the conditions that speak of nothing else."""
    fixed = dict(layout.fixed)
    if not fixed:
        return True
    own = (c for c in conjuncts(rule.where) if {n for e in condition_expressions(c) for n in captures_of(e)} <= fixed.keys())
    probe = _ones(layout, typing)
    finite = all(np.isfinite(probe.inputs[name]).all() for name in fixed)
    return finite and bool(meets(replace(rule, where=AllOf(tuple(own))), probe).all())


def _one_for_each_axes(layouts: list[Layout]) -> list[Layout]:
    """The largest layout for each thing that the axis variables may stand for."""
    return list({layout.axes: layout for layout in sorted(layouts, key=lambda layout: (layout.size, repr(layout)))}.values())


def _longer(layout: Layout) -> Layout:
    """The layout with 7 wherever its largest size was: sums of so many elements depend on their order."""
    fixed = dict(layout.fixed)
    largest = max((size for name, shape in layout.shapes if name not in fixed for size in shape), default=1)
    grown = tuple(
        (name, shape if name in fixed else tuple(7 if size == largest > 1 else size for size in shape)) for name, shape in layout.shapes
    )
    return replace(layout, shapes=grown)


def _speaks_of_shapes(condition: Condition) -> bool:
    return isinstance(condition, Free | SameSize) or (isinstance(condition, Property) and condition.name == "rank")


def _ones(layout: Layout, typing: Typing) -> Batch:
    return _batch(layout, typing, {name: np.ones((1, *shape), _storage(typing, name)) for name, shape in layout.shapes})


def _batch(layout: Layout, typing: Typing, inputs: dict[str, Array]) -> Batch:
    shapes = dict(layout.shapes)
    fixed = {}
    for name, values in layout.fixed:
        form = BINARY.get(typing.captures[name])
        array = np.array(values).astype(_storage(typing, name)).reshape(1, *shapes[name])
        fixed[name] = array if form is None else rounded(array, form)
    return Batch({**inputs, **fixed}, dict(layout.axes), typing, frozenset(fixed))


def _storage(typing: Typing, name: str) -> Any:
    element = typing.captures[name]
    return np.bool_ if element == "i1" else INTEGERS.get(element, np.float64)


def _blocks(element: str, rule: Rule, shape: tuple[int, ...], first: Array | None, random: np.random.Generator) -> Array:
    """Constant tensors, mixtures of special numbers, few and their opposites (what cancels), ordinary numbers, those with special ones,
    nearly equal ones; or the first tensor again.
    """
    form = BINARY[element]
    pool = specials(form, rule)
    size = int(np.prod(shape))
    constant = random.permutation(pool)[:160]
    constant = np.concatenate([constant, random.choice(pool, 160 - len(constant))])
    mixed = random.choice(pool, (64, size))
    one, other = random.choice(pool, (160, 1)), random.choice(np.concatenate([pool, ordinary(form, len(pool), random)]), (160, 1))
    cancelling = np.where(
        (turn := random.integers(0, 4, (160, size))) == 0, one, np.where(turn == 1, -one, np.where(turn == 2, other, -other))
    )
    cancelling = rounded(cancelling, form)
    plain = ordinary(form, 64 * size, random).reshape(64, size)
    spiked = ordinary(form, 64 * size, random).reshape(64, size)
    spiked[np.arange(64), random.integers(0, size, 64)] = random.choice(pool, 64)
    base = random.choice(pool, (48, 1))
    with np.errstate(all="ignore"):
        near = rounded(base * (1 + random.integers(-3, 4, (48, size)) * 2.0 ** (1 - form.precision)), form)
    raw = patterns(form, 48 * size, random).reshape(48, size)
    blocks = [np.repeat(constant[:, None], size, axis=1), mixed, cancelling, plain, spiked, near, raw]
    own = np.concatenate(blocks).reshape(SAMPLES, *shape)
    if first is None:
        return own
    # a part of the samples repeats a number of the first tensor, or its opposite
    column = (SAMPLES, *(1,) * len(shape))
    lead = first.reshape(SAMPLES, -1)[:, 0].reshape(column)
    draw = random.random(column)
    return np.where(draw < 0.15, rounded(lead, form), np.where(draw < 0.3, rounded(-lead, form), own))
