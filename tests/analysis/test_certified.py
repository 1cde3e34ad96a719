"""Certified bounds hold: on random graphs, on random boxes and at their corners, what is computed is never further from the true value."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable

import numpy as np
import pytest
from flint import arb
from xdsl.ir import SSAValue

from hnfc.analysis.taylor import Forms, NotAnalyzed, forms
from hnfc.core.interpreter import Array, evaluate
from hnfc.dialects.interval_arrays import IntervalArray
from hnfc.dialects.num.rounding import NUMPY_TYPES
from hnfc.dialects.types import FORMATS
from hnfc.dsl.rulebook import shipped
from hnfc.dsl.soundness.balls import UNDECIDED, UNDEFINED, precision
from tests.graphs import Graph
from tests.rewrite.random_graphs import Maker, exactly

RULES = shipped().rules
ELEMENTS = ("f32", "f64", "f16", "bf16", "f8E4M3FN", "f8E5M2")
WITHOUT_ELEMENTS_OR_TRUTHS = (33141, 24359)
"""Graphs with a softmax of nothing, and with arithmetic on truth values."""
WIDTHS = (0.0, 0.0, 1e-6, 1e-3, 0.1, 1.0)


def box_around(array: Array, width: float, element: str) -> IntervalArray:
    """An interval around every element, of numbers of the format."""
    wide = array.astype(np.float64)
    lo, hi = ((wide + sign * width * np.maximum(np.abs(wide), 0.1)).astype(NUMPY_TYPES[element]).astype(np.float64) for sign in (-1, 1))
    return IntervalArray(np.minimum(lo, wide)[None], np.maximum(hi, wide)[None])


def point_in(box: IntervalArray, generator: random.Random, element: str) -> Array:
    """A point of the box that the format holds: corners often."""
    share = np.array([generator.choice((0.0, 1.0, generator.random())) for _ in range(box.lo.size)]).reshape(box.lo.shape)
    point = (box.lo + share * (box.hi - box.lo)).astype(NUMPY_TYPES[element]).astype(np.float64)
    return np.clip(point, box.lo, box.hi)[0].astype(NUMPY_TYPES[element])


def violations(found: Forms, value: SSAValue, computed: Array, exact: list[object], bound: Array) -> Counter[str]:
    """What is wrong with the bound and the interval of one value at one point."""
    counts: Counter[str] = Counter()
    node = found.node(value)
    lo, hi = (np.broadcast_to(end, (1, *node.shape)).reshape(-1) for end in (node.value.lo, node.value.hi))
    floats = np.asarray(computed).astype(np.float64).reshape(-1)
    for i, true in enumerate(exact):
        limit = float(bound.reshape(-1)[i])
        if true is UNDECIDED or not np.isfinite(limit):
            counts["no bound"] += 1
            continue
        counts["checked"] += 1
        if true is UNDEFINED or not np.isfinite(floats[i]):
            counts[f"a bound of {limit:.3g} where the value is {true} and {floats[i]} is computed"] += 1
        else:
            error = abs(arb(float(floats[i])) - arb(true))
            if error > arb(limit):
                counts[f"an error of {error.str(5)} beyond {limit:.5g}"] += 1
            if arb(true) < arb(float(lo[i])) or arb(true) > arb(float(hi[i])) or not lo[i] <= floats[i] <= hi[i]:
                counts[f"{true} or {floats[i]!r} outside [{lo[i]!r}, {hi[i]!r}]"] += 1
    return counts


def trial(seed: int, points: int = 3) -> Counter[str]:
    """One random graph in one format on one box."""
    generator = random.Random(seed)
    element = generator.choice(ELEMENTS)
    maker = Maker(seed, RULES, element=element)
    block = maker.graph.block
    arrays = maker.arrays(seed)
    width = generator.choice(WIDTHS)
    inputs = {value: box_around(array, width, element) for value, array in zip(block.args, arrays, strict=True)}
    found = forms(block, inputs)
    counts: Counter[str] = Counter()
    bounds = {}
    for operation in block.ops:
        for value in operation.results:
            try:
                if value in found.known and getattr(value.type, "element_type", None) is not None and name_of(value) in FORMATS:
                    bounds[value] = np.minimum(found.bound(value), found.running(value))
            except NotAnalyzed:
                continue
    with precision(300):
        for _ in range(points):
            sample = {value: point_in(box, generator, element) for value, box in inputs.items()}
            computed, exact = evaluate(block, sample), exactly(block, sample)
            for value, bound in bounds.items():
                if value in computed and value in exact and exact[value].values.size == computed[value].size:
                    part = violations(found, value, computed[value], exact[value].values.reshape(-1).tolist(), bound)
                    counts += Counter({f"{value.owner.name} {element}: {k}" if k[0] not in "nc" else k: n for k, n in part.items()})
    return counts


def name_of(value: SSAValue) -> str:
    from hnfc.dialects.num.base import as_tensor, element_name

    return element_name(as_tensor(value.type))


def checked(seeds: Iterable[int]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for seed in seeds:
        counts += trial(seed)
    wrong = {k: n for k, n in counts.items() if k not in ("checked", "no bound")}
    assert not wrong, wrong
    return counts


def test_bounds_hold_on_random_graphs() -> None:
    counts = checked((*range(120), *WITHOUT_ELEMENTS_OR_TRUTHS))
    assert counts["checked"] > counts["no bound"] / 3


@pytest.mark.slow
def test_bounds_hold_in_a_hundred_thousand_trials(record_property: object) -> None:
    counts: Counter[str] = Counter()
    first = 1_000
    while counts["checked"] < 100_000:
        counts += checked(range(first, first + 200))
        first += 200
    record_property("shown", str(counts))  # type: ignore[operator]


def test_what_has_no_value_keeps_none() -> None:
    """The sigmoid of a NaN lies nowhere, though that of every number lies between 0 and 1; nor does it cancel with itself."""
    g = Graph(("f32",))
    (x,) = g.args
    s = g.sigmoid(g.log(x))
    cancelled, chosen = g.sub(s, s), g.where(g.compare(s, g.constant(-1.0), predicate="gt"), g.constant(2.0), g.constant(3.0))
    g.returns(cancelled, chosen)
    found = forms(g.block, {x: IntervalArray(np.array([-2.0]), np.array([-1.0]))})
    for value in (s, cancelled, chosen):
        assert np.isinf(found.bound(value)).all() and np.isinf(found.running(value)).all()
