"""`apply()` stores parameters in their formats, and computes what the graph on the parameters as they were computes."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
from torch import nn

from hnfc.core.errors import ModelError
from hnfc.formats.packed import PackedTensor
from hnfc.precision import PrecisionOptimizer
from hnfc.precision.optimizer import PrecisionAnalysis
from hnfc.precision.running import record, stored_size


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Linear(8, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.head(torch.relu(self.norm(self.conv(x))).mean((-1, -2)))
        return result


def images(seed: int, count: int = 4) -> torch.Tensor:
    return torch.randn(count, 3, 8, 8, generator=torch.Generator().manual_seed(seed))


def analyzed(*formats: str, model: nn.Module | None = None) -> PrecisionAnalysis:
    torch.manual_seed(0)
    net = Net().eval() if model is None else model
    return PrecisionOptimizer(3.0, formats=formats).analyze(net, images(0))


@pytest.mark.parametrize("form", ["bf16", "fp8_e4m3fn", "Q8_0", "MXFP4_E2M1"])
def test_parameters_lie_in_their_formats(form: str) -> None:
    found = analyzed(form)
    stored, masters = found.apply(), found.apply(train=True)
    with torch.no_grad():
        assert torch.equal(stored(images(1)), masters(images(1)))
    parameters = dict(stored.named_parameters())
    assert parameters.keys() == dict(found.model.named_parameters()).keys()
    assert all(p.dtype == torch.bfloat16 if form == "bf16" else isinstance(p, PackedTensor) for p in parameters.values())
    assert stored_size(stored) < {"bf16": 0.52, "fp8_e4m3fn": 0.28, "Q8_0": 0.4, "MXFP4_E2M1": 0.3}[form] * stored_size(found.model)
    assert all(p is q for p, q in zip(masters.parameters(), found.model.parameters(), strict=True))


@pytest.mark.parametrize("form", ["Q8_0", *(pytest.param(form, marks=pytest.mark.slow) for form in ("bf16", "fp8_e4m3fn"))])
def test_copies_files_and_other_batches(form: str) -> None:
    found = analyzed(form)
    stored, x = found.apply(), images(1)
    saved, other = io.BytesIO(), analyzed(form).apply()
    torch.save(stored.state_dict(), saved)
    saved.seek(0)
    other.load_state_dict(torch.load(saved, weights_only=True))
    with torch.no_grad():
        true = stored(x)
        for again in (other, copy.deepcopy(stored), pickle.loads(pickle.dumps(stored)), copy.deepcopy(stored).to("cpu")):
            assert torch.equal(again(x), true) and stored_size(again) == stored_size(stored)
        assert torch.allclose(stored(images(1, 7))[:4], true, atol=0.05 * float(true.abs().max()))


@pytest.mark.parametrize("form", ["bf16", pytest.param("MXFP4_E2M1", marks=pytest.mark.slow)])
def test_export(form: str) -> None:
    stored, x = analyzed(form).apply(), images(1)
    assert torch.equal(torch.export.export(stored, (x,)).module()(x), stored(x))


@pytest.mark.slow
@pytest.mark.parametrize("form", ["bf16", "Q8_0", "MXFP4_E2M1"])
def test_compile(form: str) -> None:
    stored, x = analyzed(form).apply(), images(1)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(stored)(x), stored(x), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("form", ["fp8_e4m3fn", "Q8_0", "MXFP4_E2M1"])
def test_small_gradients_do_not_vanish(form: str) -> None:
    """A type of 8 bits would make them 0."""
    mixed = analyzed(form).apply()
    (1e-4 * mixed(images(0)).square().mean()).backward()
    assert all(p.grad is not None and p.grad.norm() > 0 for p in mixed.parameters())


def test_two_names_of_one_tensor() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = nn.Embedding(20, 8), nn.Linear(8, 20, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, words: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.head(torch.tanh(self.embed(words)))
            return result

    torch.manual_seed(0)
    model, words = Tied(), torch.arange(12).reshape(3, 4)
    mixed = PrecisionOptimizer(2e-2, formats=("bf16", "fp32")).analyze(model, words).apply()
    assert mixed.embed.weight is mixed.head.weight
    run = record(mixed, (words,))
    assert run.parameters == 2 * 20 * 8 and run.types_of("mm", "addmm") == {"bfloat16": 1}


def test_what_is_not_of_this_path_is_refused() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor, twice: bool = False) -> torch.Tensor:
            y = self.layer(x)
            return torch.tanh(self.layer(y)) if twice else y

    mixed = PrecisionOptimizer(1e-1, formats=("bf16",)).analyze(Two(), torch.ones(2, 4)).apply()
    with pytest.raises(ModelError, match=r"do not hold for this call.*analyze a sample like it"):
        mixed(torch.ones(2, 4), twice=True)


def test_memory_can_be_shared() -> None:
    model = torch.nn.Linear(16, 8).eval()
    stored = PrecisionOptimizer(3.0, formats=("Q8_0",), least="bytes").analyze(model, torch.randn(32, 16)).apply()
    stored.share_memory()
    weight = stored.weight
    assert isinstance(weight, PackedTensor) and all(part.is_shared() for part in weight.parts())


def test_the_model_keeps_its_own_tensors() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 8)).eval()
    x = torch.randn(32, 16)
    before = model(x)
    optimizer = PrecisionOptimizer(5e-3, formats=("bf16", "fp32"), least="bytes", pins={"0*": "fp32"})
    mixed = optimizer.analyze(model, x).apply()
    rate = torch.optim.SGD(mixed.parameters(), lr=0.1)
    mixed(x).sum().backward()
    rate.step()
    assert torch.equal(model(x), before)
