"""The certified error of every operation, on its samples: neither hnfc's evaluation nor torch's is further from the true value."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from flint import arb
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block

from hnfc.analysis.nodes import TapeNode
from hnfc.analysis.tape import Tape
from hnfc.analysis.taylor import NotAnalyzed, forms
from hnfc.core.interpreter import evaluate
from hnfc.dialects.interval_arrays import IntervalArray
from hnfc.dialects.num import OPERATIONS
from hnfc.dialects.num.rounding import NUMPY_TYPES
from hnfc.dialects.types import FORMATS, tensor
from hnfc.dsl.soundness.balls import UNDECIDED, UNDEFINED, precision
from tests.analysis.test_certified import box_around, name_of, point_in
from tests.dialects.building import to_numpy, to_torch
from tests.dialects.samples import ALL, SAMPLES, Sample
from tests.rewrite.random_graphs import exactly

WITHOUT_BOUND = {"two_sum", "lgamma", "i0", "i0e", "iota"}
"""What the analysis says of them is that it has no bound."""
OTHER_IN_TORCH = {"fma", "cbrt", "kahan_sum", "pairwise_sum"}
"""torch has nothing that rounds as these do."""


def block_of(name: str, arrays: list[Any], sample: Sample) -> Block:
    elements = {np.dtype(kind): element for element, kind in NUMPY_TYPES.items()}
    block = Block(arg_types=[tensor(elements[array.dtype], array.shape) for array in arrays])
    made = OPERATIONS[name].make(*block.args, **sample.attributes)
    block.add_ops([made, ReturnOp(*made.results)])
    return block


@pytest.mark.sampled(300)
@pytest.mark.parametrize("element", ["f32", "bf16", "f16", "f64"])
@pytest.mark.parametrize(("name", "sample"), ALL)
def test_bounds_hold(name: str, sample: Sample, element: str) -> None:
    try:
        arrays = sample.operands(1, NUMPY_TYPES[element])
        block = block_of(name, arrays, sample)
    except (TypeError, ValueError, KeyError):
        pytest.skip("no sample in this format")
    result = block.last_op.operands[0]  # type: ignore[union-attr]
    if name_of(result) not in FORMATS:
        pytest.skip("no floating-point result")
    generator = random.Random(0)
    for width in (0.0, 1e-3):
        floats = [array.dtype.kind not in "iub" for array in arrays]
        boxes = {
            value: box_around(array, width if is_float else 0.0, element if is_float else "f64")
            for value, array, is_float in zip(block.args, arrays, floats, strict=True)
        }
        found = forms(block, boxes)
        try:
            bound = np.minimum(found.bound(result), found.running(result))
        except NotAnalyzed:
            assert name in WITHOUT_BOUND, f"{name} has no bound, and is not in WITHOUT_BOUND: {set(found.walls.values())}"
            return
        node = found.node(result)
        points = [
            point_in(boxes[value], generator, element) if is_float else array
            for value, array, is_float in zip(block.args, arrays, floats, strict=True)
        ]
        inputs = dict(zip(block.args, points, strict=True))
        if OPERATIONS[name].FACTS.real is None or sample.attributes.get("causal"):
            check_beside_long_doubles(name, sample, points, inputs, block, bound, node)
            continue
        with precision(300):
            true = exactly(block, inputs).get(result)
            if true is None:
                return
            low, high = (np.broadcast_to(end, (1, *node.shape)).reshape(-1) for end in (node.value.lo, node.value.hi))
            computed = [np.asarray(evaluate(block, inputs)[result])]
            if element in ("f32", "f64") and name not in OTHER_IN_TORCH:
                # narrower ones torch rounds on the way, too
                computed.append(to_numpy(sample.torch(*map(to_torch, points))))
            for values in computed:
                for i, (exact, got) in enumerate(zip(true.values.reshape(-1).tolist(), values.astype(np.float64).reshape(-1), strict=True)):
                    limit = float(bound.reshape(-1)[i])
                    if exact is UNDECIDED or not np.isfinite(limit):
                        continue
                    assert exact is not UNDEFINED and np.isfinite(got), (exact, got, limit)
                    assert abs(arb(float(got)) - arb(exact)) <= arb(limit), (float(got), arb(exact).str(20), limit)
                    assert low[i] <= got <= high[i]


def check_beside_long_doubles(name: str, sample: Sample, points: Any, inputs: Any, block: Block, bound: Any, node: Any) -> None:
    """For what has no formula: `evaluate` in 64 bits of significand, whose own rounding has room of a thousandth of float64's."""
    result = block.last_op.operands[0]  # type: ignore[union-attr]
    wide = [p.astype(np.longdouble) if p.dtype.kind not in "iub" else p for p in points]
    evaluate_ = OPERATIONS[name].FACTS.evaluate
    assert evaluate_ is not None
    true = np.asarray(evaluate_(*wide, **sample.attributes))
    computed = [np.asarray(evaluate(block, inputs)[result])]
    if name_of(result) in ("f32", "f64") and name not in OTHER_IN_TORCH:
        computed.append(to_numpy(sample.torch(*map(to_torch, points))))
    room = 2.0**-62 * np.abs(true).max(initial=1.0) * 64
    for values in computed:
        got = values.astype(np.longdouble)
        assert np.isfinite(bound).all(), f"{name} has a bound that is infinite"
        assert (np.abs(got - true) <= bound.reshape(got.shape) + room).all()
        low, high = (np.broadcast_to(end, (1, *node.shape)).reshape(got.shape) for end in (node.value.lo, node.value.hi))
        assert ((low <= got) & (got <= high)).all()


def test_most_bounds_are_finite_and_tight() -> None:
    """At points, in float32, the bound is within a factor of what `ulps` and the length of sums allow."""
    loose = []
    for name, samples in SAMPLES.items():
        sample = samples[0]
        try:
            arrays = sample.operands(1, np.float32)
            block = block_of(name, arrays, sample)
            result = block.last_op.operands[0]  # type: ignore[union-attr]
            bound = forms(block, {v: box_around(a, 0.0, "f64") for v, a in zip(block.args, arrays, strict=True)}).running(result)
        except (TypeError, ValueError, KeyError, NotAnalyzed):
            continue
        size = np.abs(np.asarray(evaluate(block, dict(zip(block.args, arrays, strict=True)))[result], np.float64)).max(initial=1.0)
        if (
            name not in ("round_to", "cast")
            and name_of(result) in FORMATS
            and bound.size
            and not np.max(bound) <= 2000 * 2.0**-24 * max(size, 1.0)
        ):
            loose.append((name, float(np.max(bound)), float(size)))
    assert not loose


@pytest.mark.parametrize("name", [name for name, operation in OPERATIONS.items() if operation.FACTS.derivative is not None])
def test_derivatives_are_those_of_the_formula(name: str) -> None:
    facts = OPERATIONS[name].FACTS
    assert facts.real is not None
    low, high = SAMPLES[name][0].domain
    for at in np.linspace(low, high, 23)[1:-1]:
        tape = Tape()
        x = TapeNode(tape, IntervalArray.of(np.array([at])), exact=False)
        slopes = [tape.adjoints(made, IntervalArray.of(np.ones(1)))[x.index] for made in (facts.real(tape, x), tape.rising(x, facts))]
        assert slopes[0].lo[0] <= slopes[1].hi[0] and slopes[1].lo[0] <= slopes[0].hi[0], (at, slopes)
        assert slopes[1].hi[0] - slopes[1].lo[0] <= 1e-12


def test_attention_that_hides_keys_by_a_mask() -> None:
    """A mask of truth values, as an input that is known; one that hides all keys of a query, or is not known, has no bound."""
    generator = np.random.default_rng(0)
    q, k, v = (generator.normal(size=(2, 3, n, 4)).astype(np.float32) for n in (4, 5, 5))
    mask = generator.random((4, 5)) < 0.5
    mask[:, 0] = True
    block = Block(arg_types=[*(tensor("f32", x.shape) for x in (q, k, v)), tensor("i1", mask.shape)])
    made = OPERATIONS["attention"].make(*block.args, scale=0.5, causal=False)
    block.add_ops([made, ReturnOp(*made.results)])

    def bound(seen: np.ndarray, unknown: float = 0.0) -> np.ndarray:
        boxes = {a: box_around(x, 1e-3, "f32") for a, x in zip(block.args, (q, k, v), strict=False)}
        wide = seen[None].astype(np.float64)
        return forms(block, {**boxes, block.args[3]: IntervalArray(wide - unknown * wide, wide)}).running(made.results[0])

    limit = bound(mask)
    assert limit.max() < 1e-4
    for seed in range(20):
        rng = random.Random(seed)
        points = [point_in(box_around(x, 1e-3, "f32"), rng, "f32") for x in (q, k, v)]
        true = OPERATIONS["attention"].FACTS.evaluate(*(p.astype(np.longdouble) for p in points), mask, scale=0.5)  # type: ignore[misc]
        inputs = dict(zip(block.args, [*points, mask], strict=True))
        tensors = [to_torch(x) for x in points]
        torch_result = torch.nn.functional.scaled_dot_product_attention(*tensors, attn_mask=torch.from_numpy(mask), scale=0.5)
        for got in (evaluate(block, inputs)[made.results[0]], to_numpy(torch_result)):
            assert (np.abs(got.astype(np.longdouble) - true) <= limit[0]).all()
    none = mask.copy()
    none[1] = False
    for wrong, unknown in ((none, 0.0), (mask, 1.0)):
        with pytest.raises(NotAnalyzed, match="attention has no bound"):
            bound(wrong, unknown)
