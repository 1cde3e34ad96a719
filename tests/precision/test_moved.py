"""By default the bytes that operations and casts move are minimized, and a run moves what was counted."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from hnfc.core.errors import UsageError
from hnfc.precision import PrecisionOptimizer
from hnfc.precision.assignment import Assignment
from hnfc.precision.optimizer import PrecisionAnalysis
from hnfc.precision.requirements import Infeasible
from hnfc.precision.running import record


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def two_layers() -> nn.Module:
    """Biases are 0, which every format has."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 32))
    for layer in (model[0], model[2]):
        nn.init.zeros_(layer.bias)
    return model.eval()


def encoder() -> nn.Module:
    torch.manual_seed(0)
    return nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval()


def analyzed(model: nn.Module, x: torch.Tensor, **requirements: object) -> PrecisionAnalysis:
    return PrecisionOptimizer(**requirements).analyze(model, x)  # type: ignore[arg-type]


@pytest.mark.parametrize(("model", "x"), [(two_layers, normal(64, 32)), (encoder, normal(4, 16, 32))], ids=["linear", "encoder"])
@pytest.mark.parametrize("formats", [("bf16", "fp16", "fp32"), ("fp16", "bf16", "fp32")], ids=str)
def test_products_compute_in_one_narrow_type(model: object, x: torch.Tensor, formats: tuple[str, ...]) -> None:
    found = analyzed(model(), x, formats=formats)  # type: ignore[operator]
    run = found.measured.run
    assert set(run.types_of("mm", "addmm", "bmm")) == {"float16"} and run.types_of("_to_copy") == {"float16": 1, "float32": 1}
    assert run.parameters * 2 == sum(p.numel() * 4 for p in found.model.parameters())


class Convolved(nn.Module):
    """Batch normalization gives several results, and a chunk of a value is read apart from the rest."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, value = torch.relu(self.norm(self.conv(x))).chunk(2, 1)
        both = torch.cat((torch.sigmoid(gate) * value, value), 1)
        result: torch.Tensor = self.head(both.mean((-1, -2)))
        return result


@pytest.mark.parametrize(("model", "x"), [
    (encoder(), normal(4, 16, 32)), (two_layers(), normal(64, 32)), (Convolved().eval(), normal(4, 3, 16, 16)),
], ids=["encoder", "linear", "convolution"])  # fmt: skip
@pytest.mark.parametrize("formats", [("bf16", "fp16", "fp32"), ("fp32",)], ids="+".join)
def test_what_is_counted_is_measured(model: nn.Module, x: torch.Tensor, formats: tuple[str, ...]) -> None:
    found = analyzed(model, x, target_accuracy=3e-2, formats=formats)
    assert found.measured.run.moved == pytest.approx(found.outcome.moved, rel=0.05)


def test_it_moves_no_more_than_autocast() -> None:
    model, x = two_layers(), normal(64, 32)

    class Autocast(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", torch.bfloat16):
                result: torch.Tensor = model(x)
            return result.float()

    with torch.no_grad():
        true = model(x)
        target = float((Autocast()(x) - true).square().mean().sqrt() / true.square().mean().sqrt())
    run, other = analyzed(model, x, target_accuracy=target, formats=("bf16", "fp32")).measured.run, record(Autocast(), (x,))
    assert run.written <= other.written and run.moved <= other.moved


def test_a_type_that_the_model_names_gives_way_to_the_format() -> None:
    class Named(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.softmax(x @ x.mT, -1, dtype=torch.float32).to(x.dtype) @ x

    run = analyzed(Named(), normal(16, 16), pins={"*": "bf16"}, target_accuracy=0.5).measured.run
    assert run.types_of("_softmax") == {"bfloat16": 1} and run.types_of("_to_copy") == {"bfloat16": 1, "float32": 1}


def test_fewer_formats_cost_no_less() -> None:
    model, x = encoder(), normal(4, 16, 32)
    chosen = (("bf16", "fp16", "fp32"), ("fp16", "fp32"), ("fp32",))
    costs = [analyzed(model, x, formats=formats).outcome.moved for formats in chosen]  # type: ignore[union-attr]
    assert costs[0] <= costs[1] <= costs[2]


class Steep(nn.Module):
    """A large error of second order, which estimates do not have."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.layer(x)
        return torch.exp(3 * h).sum(-1) - h.pow(2).sum(-1)


@pytest.mark.parametrize("seed", [7, 8])
def test_a_raised_target_that_the_help_names_holds(seed: int) -> None:
    torch.manual_seed(seed)
    model, x = Steep(), torch.randn(32, 4)
    refused = analyzed(model, x, target_accuracy=1e-4, formats=("bf16",), scaling=False).outcome
    assert isinstance(refused, Infeasible)
    change = next(change for change in refused.relaxations if change.change.startswith("raise the target to"))
    raised = float(change.change.rpartition(" ")[2])
    assert change.then is not None and raised == change.then.target
    assert isinstance(analyzed(model, x, target_accuracy=raised, formats=("bf16",), scaling=False).outcome, Assignment)


def test_a_margin_for_other_inputs() -> None:
    model, x = two_layers(), normal(64, 32)
    plain, careful = (analyzed(model, x, target_accuracy=2e-3, margin=margin) for margin in (1.0, 4.0))
    assert careful.error <= 5e-4 and careful.measured <= 1.1 * 5e-4 < plain.measured + 1
    with pytest.raises(UsageError, match="the margin is how many times as large"):
        analyzed(model, x, margin=0.5)


def test_results_print_as_tables() -> None:
    found = analyzed(two_layers(), normal(64, 32))
    assert "tensor(" not in str(found) + repr(found) and repr(found) == "PrecisionAnalysis(Sequential: 8 sites in fp16)"
    lines = found.report().splitlines()
    assert lines[0].split() == ["site", "role", "format", "range", "part", "of", "the", "error"]
    assert "counted" in lines[-4] and "relative error" in lines[-1] and "2 in float16" in lines[-1]
    refused = str(analyzed(two_layers(), normal(64, 32), target_accuracy=1e-6, formats=("bf16",)))
    assert refused.startswith("no assignment of formats meets the target:") and "help: allow fp32" in refused
