"""Errors of rounded weights compensated by calibration inputs, and rules on torch tensors."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn

from hnfc.core.errors import ModelError
from hnfc.formats.granular import granular_named
from hnfc.formats.named import canonical, format_named, known_formats
from hnfc.formats.observers import dequantized, quantized
from hnfc.formats.packed import PackedTensor
from hnfc.precision import PrecisionOptimizer
from hnfc.precision.compensation import compensated
from hnfc.precision.instances import BlockMatrix, product_rule
from hnfc.precision.rewriting import PreparedLinear, block_size, hadamard

FORMS = ("int4/group32", "int4/channel", "int4/tensor", "int3/group16/mse", "int4/group32/zero", "int8", "fp4_e2m1fn/group32")


def inputs(count: int, width: int = 64) -> torch.Tensor:
    """Rows whose elements depend on each other."""
    return torch.randn(count, width) @ torch.randn(width, width, generator=torch.Generator().manual_seed(5)) / width**0.5


@pytest.mark.parametrize("form", FORMS)
def test_products_change_less_on_fresh_inputs(form):
    torch.manual_seed(0)
    weight, x, fresh = torch.randn(48, 64), inputs(512), inputs(256)
    kind = granular_named(f"{form}/gptq", known_formats())
    found = compensated(weight.double(), kind, x.double().mT @ x.double())
    stored = [dequantized(s, kind, weight.shape, torch.float32) for s in (found, quantized(weight, kind))]
    changes = [float((fresh @ (values - weight).mT).norm()) for values in stored]
    assert changes[0] < 0.85 * changes[1]
    codes, plain = found[0], quantized(weight, kind)[0]
    assert codes.shape == plain.shape and codes.min() >= kind.element.lowest and codes.max() <= kind.element.largest


def test_it_is_never_worse_than_plain_rounding_on_its_inputs():
    torch.manual_seed(1)
    kind = format_named("int4/group16/gptq")
    for x in (torch.zeros(4, 32), torch.eye(32), torch.randn(2, 32), torch.randn(8, 1) * torch.ones(8, 32)):
        weight, squares = torch.randn(8, 32).double(), (x.mT @ x).double()
        both = (compensated(weight, kind, squares), quantized(weight.float(), kind))
        off = [dequantized(stored, kind, weight.shape, torch.float64) - weight for stored in both]
        change, plain = (float(((o @ squares) * o).sum()) for o in off)
        assert change <= plain * (1 + 1e-9)


def test_names():
    assert canonical("int4/gptq") == "int4/group32/gptq" and canonical("int8/gptq/mse") == "int8/channel/mse/gptq"
    with pytest.raises(ValueError, match="errors are compensated in weights"):
        format_named("int8/token/gptq")
    with pytest.raises(ValueError, match="twice"):
        format_named("int8/gptq/gptq")


@pytest.mark.parametrize("seed", range(2))
def test_a_model_keeps_these_codes(seed):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 16)).eval()
    samples, fresh = [inputs(64) for _ in range(3)], inputs(128)
    errors = []
    for form in ("int4/group32", "int4/group32/gptq"):
        module = PrecisionOptimizer(5.0, formats=(form, "fp32")).analyze(model, *samples).apply()
        assert isinstance(module[0].weight, PackedTensor)
        with torch.no_grad():
            errors.append(float((module(fresh) - model(fresh)).norm()))
            assert torch.equal(pickle.loads(pickle.dumps(module))(fresh), module(fresh))
            assert torch.equal(copy.deepcopy(module)(fresh), module(fresh))
    assert errors[1] < 0.9 * errors[0]


def test_values_that_do_not_meet_a_rule_are_refused():
    layer = nn.Linear(16, 8)
    good = BlockMatrix(hadamard(16) / 4)
    assert PreparedLinear.of(layer, "rotation_between_operands", {"h": good}).rule == "rotation_between_operands"
    bad = (
        ("rotation_between_operands", {"h": BlockMatrix(hadamard(16))}),
        ("rotation_between_operands", {"h": BlockMatrix(torch.eye(3))}),
        ("rotation_between_operands", {"h": torch.randn(16, 16)}),
        ("scale_between_operands", {"s": -torch.ones(1, 16)}),
        ("scale_between_operands", {"s": torch.zeros(1, 16)}),
        ("scale_between_operands", {"s": torch.ones(1, 1)}),
        ("scale_between_operands", {"s": torch.ones(2, 16)}),
        ("scale_between_operands", {"s": torch.full((1, 16), float("nan"))}),
        ("scaled_and_rotated", {"s": torch.ones(1, 16)}),
    )
    for rule, values in bad:
        with pytest.raises(ModelError, match="do not meet"):
            PreparedLinear.of(layer, rule, values)
    for name in ("no_such_rule", "softmax_any_shift", "lora_merged"):
        with pytest.raises(ModelError):
            product_rule(name)


@pytest.mark.parametrize("rule, values", [
    ("scale_between_operands", {"s": torch.rand(1, 16) + 0.5}),
    ("rotation_between_operands", {"h": torch.linalg.qr(torch.randn(16, 16))[0]}),
    ("rotation_between_operands", {"h": BlockMatrix(torch.linalg.qr(torch.randn(4, 4))[0])}),
    ("scaled_and_rotated", {"s": torch.rand(1, 16) + 0.5, "h": BlockMatrix(torch.linalg.qr(torch.randn(8, 8))[0])}),
])  # fmt: skip
def test_a_layer_by_a_rule_computes_what_it_did(rule, values):
    layer, x = nn.Linear(16, 8), torch.randn(3, 5, 16)
    made = PreparedLinear.of(layer, rule, values)
    assert torch.allclose(made(x), layer(x), atol=1e-5) and not torch.allclose(made.weight, layer.weight)
    assert torch.allclose(copy.deepcopy(made)(x), made(x)) and torch.allclose(pickle.loads(pickle.dumps(made))(x), made(x))


def test_the_report_names_the_rules():
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 32)).eval(), torch.randn(32, 64)
    model[0].weight.data[:2] *= 60
    found = PrecisionOptimizer(1e-2, formats=("int8", "int8/token", "fp32")).analyze(model, x)
    assert "by proved rules: " in str(found)
    assert any(f"{rule} 1×" in str(found) for rule in ("scale_between_operands", "rotation_between_operands", "scaled_and_rotated"))


def test_blocks_are_powers_of_four():
    assert [block_size(n) for n in (1, 2, 4, 20, 48, 64, 96, 128, 256, 768, 1024, 4096)] == [1, 1, 4, 4, 16, 64, 16, 64, 256, 256, 256, 256]
