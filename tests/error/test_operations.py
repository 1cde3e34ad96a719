"""The model of single operations: a function of one number errs by at most `ulps` units roundoff relative to its result."""

from __future__ import annotations

import numpy as np
import pytest
from flint import arb
from xdsl.irdl import VarOperandDef

from hnfc.dialects.facts import Access, Accumulation
from hnfc.dialects.num import OPERATIONS
from hnfc.dialects.num.base import LogicalOp, NumOp, PredicateOp, is_plain_function
from hnfc.dialects.types import FORMATS
from hnfc.dsl.core import Apply, Capture
from hnfc.dsl.error.algorithms import algorithm
from hnfc.dsl.soundness import balls

DTYPES = {"f32": np.float32, "f16": np.float16}
NORMAL = {"f32": 2.0**-126, "f16": 2.0**-14}
COUNT = 300
COMBINING = (Access.REDUCTION, Access.SCAN, Access.CONTRACTION)


def arity(operation: type[NumOp]) -> int:
    """Operands of an operation that is taken to err by `ulps` alone; 0 for others."""
    facts = operation.FACTS
    if facts.steps is not None or facts.real is None or facts.evaluate is None or issubclass(operation, PredicateOp | LogicalOp):
        return 0
    return types_of(operation) if is_plain_function(operation) else 0


def types_of(operation: type[NumOp]) -> int:
    return len(operation.get_irdl_definition().operands)


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
    unit = FORMATS[form].unit_roundoff
    assert worst <= operation.FACTS.ulps * unit * (1 + 2 * unit), (
        f"{name} is off by {worst / unit:.3g} u of the result: raise FACTS.ulps, or give FACTS.steps if no multiple of u bounds it"
    )


def test_what_is_no_function_of_single_numbers_has_an_algorithm():
    """Every operation along axes that rounds has an algorithm, or its class states how errors add up."""
    for name, operation in OPERATIONS.items():
        facts = operation.FACTS
        if facts.real is not None and facts.ulps and not facts.exact and facts.access in COMBINING:
            stated = facts.steps is not None or facts.accumulation is not Accumulation.NONE
            assert stated, f"{name} needs the fact `steps` or `accumulation`"


def test_algorithms_compute_what_the_operations_mean():
    """Over the reals an algorithm is the operation."""
    x, y, z = Capture("x"), Capture("y"), Capture("z")
    attributes = {
        "var": {"axes": (-1,), "correction": 1.0}, "layer_norm": {"axes": (-1,), "eps": 0.5}, "rms_norm": {"axes": (-1,), "eps": 0.5},
        "normalize": {"axes": (-1,), "eps": 0.5}, "batch_norm": {"eps": 0.5}, "attention": {"scale": 0.5, "causal": False},
        "gelu": {"approximate": "tanh"},
    }  # fmt: skip
    inputs = {"x": [[1.0, 2.0], [0.5, -1.0]], "y": [[1.0, 0.25], [0.5, 3.0]], "z": [[2.0, 1.0], [4.0, 0.5]]}
    for name in (name for name, operation in OPERATIONS.items() if operation.FACTS.steps is not None):
        along = "axes" in OPERATIONS[name].get_irdl_definition().properties
        given = attributes.get(name, {"axes": (-1,)} if along else {})
        operands = [kind for kind in OPERATIONS[name].get_irdl_definition().operands if not isinstance(kind[1], VarOperandDef)]
        node = Apply(OPERATIONS[name], (x, y, z)[: len(operands)], tuple(given.items()))
        expanded = algorithm(node)
        meant, computed = (balls.evaluate(e, inputs, bits=200).to_float() for e in (node, expanded))
        assert np.allclose(meant, computed, rtol=1e-12, equal_nan=True), name
