"""Bounds and estimates of whole models, beside what torch computes."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

import hnfc
from hnfc.analysis.calibrated import calibrate
from hnfc.analysis.certified import certified
from hnfc.core.errors import ModelError, UsageError
from hnfc.core.interpreter import evaluate
from hnfc.dialects.interval_arrays import IntervalArray
from hnfc.dialects.types import FORMATS
from tests.analysis.capturing import captured, encoder, mlp
from tests.graphs import Graph


def errors(model: torch.nn.Module, inputs: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """What the outputs are off by in this dtype; parameters and inputs are rounded to it too."""
    with torch.no_grad():
        true = model.double()(inputs.double())
        found = model.to(dtype)(inputs.to(dtype)).double() - true
        model.float()
    return found


def test_the_certified_error_of_a_model_holds_on_its_box() -> None:
    model, x = mlp(), torch.randn(3, 8, generator=torch.Generator().manual_seed(1))
    imported, block, given = captured(model, x)
    radius = 1e-3
    boxes = {}
    for value, tensor in zip(block.args, given, strict=True):
        array = tensor.double().numpy()[None]
        is_input = tensor.shape == x.shape
        boxes[value] = IntervalArray(array - radius, array + radius) if is_input else IntervalArray(array, array)
    found = certified(block, boxes, imported.weight)
    output = found.bounds[block.last_op.operands[0]]  # type: ignore[union-attr]
    worst, low, high = 0.0, math.inf, -math.inf
    for seed in range(20):
        moved = x + radius * (torch.rand(x.shape, generator=torch.Generator().manual_seed(seed)) * 2 - 1) * 0.999
        worst = max(worst, float(errors(model, moved, torch.float32).abs().max()))
        with torch.no_grad():
            y = model(moved)
        low, high = min(low, float(y.min())), max(high, float(y.max()))
    assert worst <= output.error < 1e4 * worst
    assert output.low <= low and high <= output.high


def test_local_measures() -> None:
    """softplus has slopes up to σ(2); x - y loses relative accuracy where x is near y; a matrix product multiplies by row sums."""
    g = Graph(("f32",), ("f32", 2, 2))
    x, a = g.args
    soft, difference, product = g.softplus(x), g.sub(x, g.constant(2.5)), g.matmul(g.constant(1.0, shape=(1, 2)), a)
    g.returns(soft, difference, product)
    found = certified(
        g.block, {x: IntervalArray(np.array([1.0]), np.array([2.0])), a: IntervalArray.of(np.array([[[1.0, -2.0], [3.0, 4.0]]]))}
    )
    assert found.bounds[soft].lipschitz == pytest.approx(1 / (1 + math.exp(-2)), rel=1e-6)
    assert found.bounds[difference].lipschitz == pytest.approx(2.0, rel=1e-6)  # each operand's error counts
    assert found.bounds[difference].condition >= 9.0  # (2 + 2.5)/0.5
    assert found.bounds[product].lipschitz == pytest.approx(2 + 6.0, rel=1e-6)
    assert found.bounds[product].rounding <= 3 * 6 * 2.0**-24


def test_what_has_no_bound_says_why() -> None:
    g = Graph(("f32", 3), ("f32",))
    x, y = g.args
    position = g.argmax(x, axes=(0,))
    g.returns(g.add(g.cast(position, to="f32"), y), g.exp(y))
    found = certified(g.block, {x: IntervalArray.of(np.zeros((1, 3)))})
    assert g.block.last_op is not None and g.block.last_op.operands[0] not in found.bounds
    assert any("argmax" in why for why in found.walls.values()) and any("no range" in why for why in found.walls.values())


@pytest.mark.parametrize(("make", "shape"), [(mlp, (64, 8)), (encoder, (2, 16, 32))])
@pytest.mark.parametrize("name", ["f32", "bf16", "f16"])
def test_estimates_are_within_a_factor_of_ten(make: Callable[[], torch.nn.Module], shape: tuple[int, ...], name: str) -> None:
    """On inputs that the calibration did not see."""
    generator = torch.Generator().manual_seed(2)
    model, x, other = make(), torch.randn(shape, generator=generator), torch.randn(shape, generator=generator)
    imported, _, given = captured(model, x)
    found = calibrate(imported, [given])
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}[name]
    measured = float(errors(model, other, dtype).square().mean().sqrt())
    estimate = found.error(dict.fromkeys(found.values, FORMATS[name]))
    assert measured / 10 < estimate < measured * 10


def test_sensitivities_against_differences() -> None:
    """Rounding one value at random moves the output as far as its sensitivity says."""
    model, x = mlp(), torch.randn(200, 8, generator=torch.Generator().manual_seed(3))
    imported, block, given = captured(model, x)
    found = calibrate(imported, [given], probes=4)
    place = next(i for i, t in enumerate(given) if t.shape == x.shape)
    generator = torch.Generator().manual_seed(4)
    moved = x.double() * (1 + 1e-5 * (torch.rand(x.shape, generator=generator) * 2 - 1))
    with torch.no_grad():
        model.double()
        change = float((model(moved) - model(x.double())).square().mean().sqrt())
        model.float()
    assert 1e-5 * found.values[block.args[place]].sensitivity == pytest.approx(change, rel=0.25)


def test_what_is_observed() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.exp(x) * 1e-3

    x = torch.tensor([0.0, 12.0, -80.0, -100.0, 89.0])
    imported, block, given = captured(Model(), x)
    found = calibrate(imported, [given])
    value = next(op.results[0] for op in block.ops if op.name == "num.exp")
    seen = found.values[value]
    assert (seen.elements, seen.nonfinite, seen.zeros) == (5, 1, 0)
    assert seen.low == pytest.approx(math.exp(-100), rel=1e-3) and seen.high == pytest.approx(math.exp(12), rel=1e-5)
    assert seen.beyond(65504.0) == 1 and seen.below(2.0**-126) == 1 and seen.below(2.0**-14) == 2


def test_counts_of_long_values_are_about_right() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(torch.exp2(x) - 1)

    x = torch.linspace(-20.0, 20.0, 100_001)
    imported, block, given = captured(Model(), x)
    sizes = Model()(x).abs()
    for count in (1, 40):
        seen = calibrate(imported, [given] * count).values[next(op.results[0] for op in block.ops if op.name == "num.relu")]
        assert seen.zeros == pytest.approx(count * int((sizes == 0).sum()), rel=0.02)
        assert seen.beyond(2.0**10) == pytest.approx(count * int((sizes >= 2.0**11).sum()), rel=0.02)
        assert seen.below(2.0**10) == pytest.approx(count * int(((sizes < 2.0**10) & (sizes > 0)).sum()), rel=0.02)
        assert seen.quantiles[1:] == pytest.approx(sizes.double().quantile(torch.tensor([0.5, 0.99]).double()).tolist(), rel=0.2, abs=0.1)
        assert seen.beyond(1.7e308) == 0


def test_a_calibration_needs_samples() -> None:
    imported, _, _ = captured(mlp(), torch.randn(1, 8))
    with pytest.raises(ModelError, match="sample"):
        calibrate(imported, [])


def test_analyze_of_a_module() -> None:
    import hnfc

    model, x = encoder(1), torch.randn(2, 8, 32, generator=torch.Generator().manual_seed(1))
    estimate = hnfc.analyze(model, x)
    bounds = hnfc.analyze(model, x, certified=True)
    measured = errors(model, x, torch.float32)
    assert estimate.error / 10 < float(measured.square().mean().sqrt()) < 10 * estimate.error
    assert float(measured.abs().max()) <= bounds.error < 1e6 * float(measured.abs().max())
    assert bounds.certified and not estimate.certified
    assert "layer_norm" in str(bounds) and "certified" in str(bounds) and "an estimate" in str(estimate)
    assert hnfc.analyze(model, x, certified=True, width=1e-4).error > bounds.error
    assert estimate.picture().startswith("<svg")


def test_every_value_of_a_transformer_is_where_its_bounds_say() -> None:
    model, x = encoder(2), torch.randn(1, 8, 32, generator=torch.Generator().manual_seed(3))
    imported, block, given = captured(model, x)
    boxes = {value: IntervalArray.of(tensor.double().numpy()[None]) for value, tensor in zip(block.args, given, strict=True)}
    found = certified(block, boxes, imported.weight)
    inputs = {value: tensor.numpy() for value, tensor in zip(block.args, given, strict=True)}
    rounded, wide = (evaluate(block, inputs, imported.weight, wide=how) for how in (False, True))
    checked = 0
    for value, bounds in found.bounds.items():
        if value in rounded and math.isfinite(bounds.error):
            checked += 1
            low, high = float(np.min(rounded[value])), float(np.max(rounded[value]))
            assert bounds.low <= low and high <= bounds.high, value
            assert float(np.max(np.abs(np.asarray(rounded[value], np.float64) - wide[value]))) <= bounds.error, value
    assert checked > 40


class _Formulas(torch.nn.Module):
    """What `hnfc.optimize` gives forms that have a way out for infinities: a log-sum-exp and a hypotenuse."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x + 1
        return torch.log(torch.exp(x).sum(-1, keepdim=True)), torch.sqrt(x * x + y * y)


def test_what_was_rewritten_has_a_certified_error() -> None:
    import hnfc

    x = 50 * torch.randn(3, 8, generator=torch.Generator().manual_seed(1))
    model = _Formulas()
    better = hnfc.optimize(model, x)
    assert {rewrite["rule"] for rewrite in hnfc.diff(model, better).data[0]["rewrites"]} == {"logsumexp_fusion", "hypot_fusion"}
    found = hnfc.analyze(better, x, certified=True)
    assert 0 < found.error < 1e-3


def test_bounds_per_element_and_per_channel() -> None:
    """A channel of large weights has a large bound, and not the others; each bound holds for its own elements."""
    torch.manual_seed(0)
    layer = torch.nn.Conv2d(2, 3, 3).eval()
    with torch.no_grad():
        layer.weight[1] *= 1000
    x = torch.randn(2, 2, 6, 6)
    plain, element, channel = (hnfc.analyze(layer, x, certified=True, per=per).findings[-1] for per in ("tensor", "element", 1))
    assert plain.errors is None
    assert element.errors is not None and element.errors.shape == (2, 3, 4, 4)
    assert channel.errors is not None and channel.errors.tolist() == element.errors.max(axis=(0, 2, 3)).tolist()
    assert channel.errors[1] > 50 * max(channel.errors[0], channel.errors[2])
    assert plain.error == element.errors.max()
    with torch.no_grad():
        error = (layer(x).double() - copy.deepcopy(layer).double()(x.double())).abs().numpy()
    assert (error <= element.errors).all()
    with pytest.raises(UsageError, match="per"):
        hnfc.analyze(layer, x, per=1)
    with pytest.raises(UsageError, match="channel"):
        hnfc.analyze(layer, x, certified=True, per="channel")
