"""The model of single operations: a function of one number errs by at most `ulps` units roundoff relative to its result."""

from __future__ import annotations

import numpy as np
import pytest
from flint import arb

from hnfc.dialects.facts import Accumulation
from hnfc.dialects.num import OPERATIONS
from hnfc.dialects.num.base import BinaryOp, LogicalOp, NumOp, PredicateOp, is_plain_function
from hnfc.dialects.types import FORMATS
from hnfc.dsl.core import Apply, Capture
from hnfc.dsl.error.algorithms import ALGORITHMS
from hnfc.dsl.error.side import is_pointwise
from hnfc.dsl.soundness import balls

DTYPES = {"f32": np.float32, "f16": np.float16}
NORMAL = {"f32": 2.0**-126, "f16": 2.0**-14}
COUNT = 300


def arity(operation: type[NumOp]) -> int:
    """Operands of an operation that is taken to err by `ulps` alone; 0 for others."""
    facts = operation.FACTS
    name = operation.name.removeprefix("num.")
    if name in ALGORITHMS or facts.real is None or facts.evaluate is None or issubclass(operation, PredicateOp | LogicalOp):
        return 0
    if is_plain_function(operation):
        return 1
    return 2 if issubclass(operation, BinaryOp) and name != "compare" else 0


CHECKED = sorted(name for name, operation in OPERATIONS.items() if arity(operation))


def draw(generator, form):
    """Numbers of every size, many near 1, where logarithms and differences are hard."""
    largest = 80 if form == "f32" else 9
    spread = np.exp(generator.uniform(np.log(1e-4), np.log(largest), COUNT)) * generator.choice([-1, 1], COUNT)
    spread[: COUNT // 4] = generator.uniform(-1, 1, COUNT // 4)
    spread[COUNT // 4 : COUNT // 2] = 1 + generator.uniform(-1e-2, 1e-2, COUNT // 4)
    return spread.astype(DTYPES[form])


@pytest.mark.parametrize("name", CHECKED)
@pytest.mark.parametrize("form", DTYPES)
def test_error_of_one_operation(name, form):
    operation = OPERATIONS[name]
    generator = np.random.default_rng(1)
    inputs = [draw(generator, form) for _ in range(arity(operation))]
    with np.errstate(all="ignore"):
        computed = np.asarray(operation.FACTS.evaluate(*inputs))
    if computed.dtype != DTYPES[form]:
        pytest.skip("the implementation computes in float64")
    with balls.precision(12_000 if name in ("log_ndtr", "erfc") else 400):
        exact = operation.FACTS.real(balls.MATH, *(balls.Balls.of(x.astype(np.float64)) for x in inputs))
        worst = 0.0
        for got, true in zip(computed.tolist(), exact.values.tolist(), strict=True):
            if not isinstance(true, balls.Mark) and np.isfinite(got) and abs(arb(true)) > NORMAL[form]:
                worst = max(worst, float((abs(arb(got) - arb(true)) / abs(arb(true))).mid()))
    assert worst <= operation.FACTS.ulps * FORMATS[form].unit_roundoff * (1 + 2 * FORMATS[form].unit_roundoff)


def test_what_is_no_function_of_single_numbers_has_an_algorithm():
    """Every operation along axes that rounds has an algorithm, or its class states how errors add up."""
    for name, operation in OPERATIONS.items():
        if operation.FACTS.real is not None and operation.FACTS.ulps and not is_pointwise(operation):
            assert name in ALGORITHMS or operation.FACTS.accumulation is not Accumulation.NONE or name == "pad", name


def test_algorithms_compute_what_the_operations_mean():
    """Over the reals an algorithm is the operation."""
    x, y, z = Capture("x"), Capture("y"), Capture("z")
    attributes = {
        "var": {"axes": (-1,), "correction": 1.0}, "layer_norm": {"axes": (-1,), "eps": 0.5}, "rms_norm": {"axes": (-1,), "eps": 0.5},
        "normalize": {"axes": (-1,), "eps": 0.5}, "batch_norm": {"eps": 0.5}, "attention": {"scale": 0.5, "causal": False},
        "gelu": {"approximate": "tanh"},
    }  # fmt: skip
    operands = {"batch_norm": (x, y, z), "attention": (x, y, z), "affine": (x, y, z), "logaddexp": (x, y)}
    inputs = {"x": [[1.0, 2.0], [0.5, -1.0]], "y": [[1.0, 0.25], [0.5, 3.0]], "z": [[2.0, 1.0], [4.0, 0.5]]}
    for name, steps in ALGORITHMS.items():
        given = attributes.get(name, {} if name in ("logaddexp", "affine") else {"axes": (-1,)})
        node = Apply(OPERATIONS[name], operands.get(name, (x,)), tuple(given.items()))
        expanded = steps(*node.operands, **given)
        meant, computed = (balls.evaluate(e, inputs, bits=200).to_float() for e in (node, expanded))
        assert np.allclose(meant, computed, rtol=1e-12), name
