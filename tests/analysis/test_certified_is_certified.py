"""Certificates hold for torch's kernels: known traps, every operation on its whole range, and random programs.

The slow tests are 20,000 random programs, and 40 draws of operands for each sample of every operation;
`HNFC_PROGRAMS` and `HNFC_SEED` in the environment change the number of random programs and the first seed.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from xdsl.ir import SSAValue

from hnfc.analysis.certified import Bounds, certified
from hnfc.analysis.ranges import Ranges
from hnfc.dialects.interval import Interval
from hnfc.dialects.interval_arrays import IntervalArray
from tests.analysis import programs_of_tensors
from tests.analysis.sweeping import SWEPT, box, swept, wrong
from tests.dialects.building import to_numpy, to_torch
from tests.graphs import Graph

SEED = int(os.environ.get("HNFC_SEED", "1"))
PROGRAMS = int(os.environ.get("HNFC_PROGRAMS", "20000"))


def bounds_of(graph: Graph, value: SSAValue, *arrays: np.ndarray) -> Bounds:
    graph.returns(value)
    return certified(graph.block, {v: box(a, False) for v, a in zip(graph.args, arrays, strict=True)}, per="element").bounds[value]


def holds(found: Bounds, got: torch.Tensor, true: np.ndarray) -> bool:
    floats, errors = np.asarray(to_numpy(got)).astype(np.float64), found.errors
    assert errors is not None
    finite = np.isfinite(errors)
    inside = (found.low <= floats) & (floats <= found.high) | (np.isnan(floats) & found.nan)
    apart = np.abs(floats.astype(np.longdouble) - true)
    return bool(inside.all() and (apart[finite] <= errors[finite]).all())


@pytest.mark.parametrize("size", [64, 8192])
def test_a_product_is_accumulated_onto_the_bias(size: int) -> None:
    x, w, b = np.full((4, size), 2.9e-8, np.float32), np.ones((1, size), np.float32), np.ones(1, np.float32)
    g = Graph(("f32", 4, size), ("f32", 1, size), ("f32", 1))
    found = bounds_of(g, g.add(g.matmul(g.args[0], g.transpose(g.args[1], perm=(1, 0))), g.args[2]), x, w, b)
    true = 1 + size * np.longdouble(x[0, 0])
    assert holds(found, F.linear(*map(to_torch, (x, w, b))), np.full((4, 1), true))
    gamma = (size + 1) * 2.0**-24
    assert found.error <= 3 * gamma * 1.01


def test_a_bias_of_a_convolution_and_of_a_scaled_product() -> None:
    generator = np.random.default_rng(SEED)
    x, w, b = ((generator.normal(size=s) * t).astype(np.float32) for s, t in (((1, 64, 9), 1e-4), ((1, 64, 3), 1e-3), ((1,), 30)))
    g = Graph(("f32", 1, 64, 9), ("f32", 1, 64, 3), ("f32", 1))
    made = g.conv(g.args[0], g.args[1], stride=(1,), padding=(0,), dilation=(1,), groups=1)
    found = bounds_of(g, g.add(made, g.reshape(g.args[2], shape=(1, 1, 1))), x, w, b)
    wide = [a.astype(np.longdouble) for a in (x, w, b)]
    true = np.array([[[(wide[0][0, :, i : i + 3] * wide[1][0]).sum() + wide[2][0] for i in range(7)]]])
    assert holds(found, F.conv1d(*map(to_torch, (x, w, b))), true)
    x, w, b = ((generator.normal(size=s) * t).astype(np.float32) for s, t in (((3, 500), 1e-4), ((500, 2), 1e-3), ((3, 2), 30)))
    g = Graph(("f32", 3, 500), ("f32", 500, 2), ("f32", 3, 2))
    scaled = g.mul(g.matmul(g.args[0], g.args[1]), g.constant(0.3))
    found = bounds_of(g, g.add(scaled, g.mul(g.args[2], g.constant(0.7))), x, w, b)
    wide = [a.astype(np.longdouble) for a in (x, w, b)]
    true = np.longdouble(0.3) * (wide[0] @ wide[1]) + np.longdouble(0.7) * wide[2]
    assert holds(found, torch.addmm(to_torch(b), to_torch(x), to_torch(w), beta=0.7, alpha=0.3), true)


@pytest.mark.parametrize("element", ["f32", "bf16", "f16", "f64"])
def test_a_number_that_the_format_lacks(element: str) -> None:
    from hnfc.dialects.num.rounding import NUMPY_TYPES

    x = np.ones((2, 3)).astype(NUMPY_TYPES[element])
    for number in (0.1, 0.3, 12.3, 1 / 3):
        g = Graph((element, 2, 3))
        found = bounds_of(g, g.pad(g.args[0], low=(0, 1), high=(0, 1), value=number), x)
        true = np.pad(np.ones((2, 3), np.longdouble), ((0, 0), (1, 1)), constant_values=np.longdouble(number))
        assert holds(found, F.pad(to_torch(x), (1, 1), value=number), true)
        assert (found.error > 0) == (element != "f64")
        g = Graph((element, 2, 3))
        found = bounds_of(g, g.minimum(g.maximum(g.args[0], g.constant(-1.0, element)), g.constant(number, element)), x)
        assert holds(found, to_torch(x).clamp(-1.0, number), np.full((2, 3), np.minimum(np.longdouble(1), np.longdouble(number))))


@pytest.mark.parametrize(("name", "element", "value", "kernel", "real"), [
    ("softplus", "f64", 20.0000001, F.softplus, lambda x: x + np.log1p(np.exp(-x))),
    ("softplus", "f64", 25.0, F.softplus, lambda x: x + np.log1p(np.exp(-x))),
    ("softplus", "f64", -736.2987364936824, F.softplus, lambda x: np.log1p(np.exp(x))),
    ("silu", "f32", -88.73, F.silu, lambda x: x / (1 + np.exp(-x))), ("silu", "bf16", -89.0, F.silu, lambda x: x / (1 + np.exp(-x))),
    ("cosh", "f32", 88.8, torch.cosh, np.cosh), ("sinh", "f32", 88.8, torch.sinh, np.sinh), ("sinh", "f32", -89.2, torch.sinh, np.sinh),
    ("cosh", "f64", 710.2, torch.cosh, np.cosh), ("sigmoid", "f64", -709.9, torch.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
    ("sigmoid", "f32", -88.9, torch.sigmoid, lambda x: 1 / (1 + np.exp(-x))), ("mish", "f32", -95.0, F.mish, None),
    ("erf", "bf16", 2e-7, torch.erf, None), ("erf", "f16", 1e-6, torch.erf, None),
])  # fmt: skip
@pytest.mark.parametrize("count", [1, 7, 32, 64])
def test_thresholds_tails_and_early_overflow(name, element, value, kernel, real, count) -> None:
    from hnfc.dialects.num.rounding import NUMPY_TYPES

    x = np.full((count,), value).astype(NUMPY_TYPES[element])
    g = Graph((element, count))
    found = bounds_of(g, getattr(g, name)(g.args[0]), x)
    wide = x.astype(np.float64).astype(np.longdouble)
    true = real(wide) if real else wide * np.exp(wide) if name == "mish" else wide * 2 / np.sqrt(np.longdouble(np.pi))
    assert holds(found, kernel(to_torch(x)), true)
    interval = Ranges({g.args[0]: Interval(float(x[0]), float(x[0]))}).of(g.block.last_op.operands[0])  # type: ignore[union-attr]
    assert all(float(v) in interval for v in to_numpy(kernel(to_torch(x))))


def test_a_product_of_which_part_overflows_and_part_underflows() -> None:
    x = np.array([[3e-4] * 4 + [3e3] * 6 + [1.0] * 22]).astype(np.float16)
    g = Graph(("f16", 1, 32))
    value = g.prod(g.args[0], axes=(1,))
    interval = Ranges({g.args[0]: Interval(float(x.min()), float(x.max()))}).of(value)
    assert all(float(v) in interval for v in (np.nan, np.inf, 0.0))
    assert not Ranges({g.args[0]: Interval(0.9, 1.1)}).of(value).nan


def test_a_group_norm_with_a_bias() -> None:
    generator = np.random.default_rng(SEED)
    for _ in range(20):
        x, w, b = ((generator.normal(size=s) * t).astype(np.float32) for s, t in (((2, 4, 9), 1.0), ((4,), 1.0), ((4,), 300.0)))
        g = Graph(("f32", 2, 4, 9), ("f32", 4), ("f32", 4))
        found = bounds_of(g, g.group_norm(*g.args, groups=2, eps=1e-5), x, w, b)
        rows = x.astype(np.longdouble).reshape(2, 2, -1)
        centred = rows - rows.mean(axis=-1, keepdims=True)
        normed = (centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + np.longdouble(1e-5))).reshape(x.shape)
        true = normed * w.astype(np.longdouble)[:, None] + b.astype(np.longdouble)[:, None]
        assert holds(found, F.group_norm(to_torch(x), 2, to_torch(w), to_torch(b)), true)


@pytest.mark.parametrize("build", [
    lambda g, x: g.relu(x), lambda g, x: g.maximum(x, g.constant(0.0)), lambda g, x: g.minimum(g.relu(x), g.constant(6.0)),
    lambda g, x: g.where(g.compare(x, g.constant(0.0), predicate="gt"), x, g.expm1(x)), lambda g, x: g.sqrt(g.relu(x)),
    lambda g, x: g.mul(g.relu(x), g.constant(3.0)), lambda g, x: g.neg(g.neg(g.relu(x))), lambda g, x: g.reshape(g.relu(x), shape=(5,)),
    lambda g, x: g.ceil(g.minimum(x, g.constant(0.5))), lambda g, x: g.gelu(x, approximate="none"), lambda g, x: g.silu(x),
    lambda g, x: g.div(g.relu(x), g.constant(2.0)), lambda g, x: g.tanh(g.relu(x)), lambda g, x: g.max(g.relu(x), axes=(0,)),
])  # fmt: skip
def test_the_reciprocal_of_what_may_be_minus_zero(build) -> None:
    for inverse in (lambda g, y: g.reciprocal(y), lambda g, y: g.div(g.constant(1.0), y), lambda g, y: g.pow(y, g.constant(-1.0))):
        g = Graph(("f32", 5))
        made = inverse(g, build(g, g.args[0]))
        g.returns(made)
        interval = Ranges({g.args[0]: Interval(-2.0, 4.0)}).of(made)
        assert -np.inf in interval


def test_no_logarithm_of_a_product_of_what_may_be_minus_infinity() -> None:
    for build in (lambda g, x: g.relu(x), lambda g, x: g.minimum(g.maximum(x, g.constant(0.0)), g.constant(6.0))):
        g = Graph(("f32", 2, 3))
        g.returns(g.log(g.prod(g.reciprocal(build(g, g.args[0])), axes=(1,))))
        g.rewrite("rule log_of_product log(prod[k](x)) => sum[k](log(x)) where x > 0", np.array([[-0.0, 1, 2], [1, 2, 3]], np.float32))
        assert any(op.name == "num.prod" for op in g.block.ops)


@pytest.mark.parametrize("build", [
    lambda g, x: g.sin(g.exp(x)), lambda g, x: g.tanh(g.sub(g.exp(x), g.exp(x))), lambda g, x: g.cos(g.mul(x, g.constant(1e38))),
    lambda g, x: g.sigmoid(g.div(g.exp(x), g.exp(x))), lambda g, x: g.maximum(g.sub(g.exp(x), g.square(g.exp(x))), g.constant(0.0)),
    lambda g, x: g.softmax(g.exp(x), axes=(0,)), lambda g, x: g.floor(g.div(g.neg(g.exp(x)), g.constant(3.0))),
    lambda g, x: g.relu(g.log(g.neg(g.exp(x)))), lambda g, x: g.erf(g.mul(g.exp(x), g.constant(0.0))),
])  # fmt: skip
def test_what_may_be_nan_after_an_overflow_is_said(build) -> None:
    g = Graph(("f32", 3))
    made = build(g, g.args[0])
    g.returns(made)
    x = np.full((1, 3), 200.0)
    found = certified(g.block, {g.args[0]: IntervalArray(-x, x)}).bounds[made]
    assert found.nan and not np.isfinite(found.error)


def test_a_kernel_may_scale_an_operand_before_a_product() -> None:
    """addmm with alpha = 12.3 overflows where the product and the sum do not."""
    x, w, b = np.full((2, 17), 1e38, np.float32), np.full((17, 3), 1e-36, np.float32), np.ones(3, np.float32)
    g = Graph(("f32", 2, 17), ("f32", 17, 3), ("f32", 3))
    found = bounds_of(g, g.add(g.mul(g.matmul(g.args[0], g.args[1]), g.constant(12.3)), g.args[2]), x, w, b)
    true = np.full((2, 3), 12.3 * 17 * np.longdouble(x[0, 0]) * np.longdouble(w[0, 0]) + 1)
    assert not np.isfinite(found.error) or holds(found, torch.addmm(to_torch(b), to_torch(x), to_torch(w), alpha=12.3), true)
    counts = programs_of_tensors.checked((20575,))
    assert not wrong(counts), wrong(counts)


def test_every_operation_and_programs_at_random() -> None:
    """A part of the slow tests."""
    counts = swept(range(SEED, SEED + 2)) + programs_of_tensors.checked(range(SEED, SEED + 100))
    assert not wrong(counts), wrong(counts)
    assert counts["checked"] > 2 * counts["no bound"]


@pytest.mark.slow
def test_every_operation_on_its_whole_range(record_property) -> None:
    counts = swept(range(SEED, SEED + 40), SWEPT)
    record_property("shown", f"seed {SEED}: {dict(counts)}")
    assert not wrong(counts), wrong(counts)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_programs_of_tensors(part: int, record_property) -> None:
    first = 1000 * SEED + part * (PROGRAMS // 10)
    counts = programs_of_tensors.checked(range(first, first + PROGRAMS // 10))
    record_property("shown", f"seeds from {first}: {dict(counts)}")
    assert not wrong(counts), wrong(counts)
