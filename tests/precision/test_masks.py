"""Masks that a format has no number for are stored as the number that it has, where nothing moves by it; and nothing else is."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from hnfc.backend.torch_mlir import emit_torch
from hnfc.cli.main import main
from hnfc.formats.scaled import ceiling, is_plain, largest, saturated_name, split
from hnfc.precision.assignment import Assignment, Infeasible, Requirements, assign
from hnfc.precision.cast_insertion import as_module
from hnfc.precision.optimizer import PrecisionAnalysis, PrecisionOptimizer
from hnfc.precision.values import PrecisionSites
from hnfc.pytorch.program import CapturedProgram
from hnfc.pytorch.settings import Settings
from hnfc.rewriter import load_rules
from tests.precision.made_sites import made_site

LOWEST = torch.finfo(torch.float32).min


class Attention(torch.nn.Module):
    """With a mask as models write it. keep: 1 where a key counts."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.kind = kind
        self.q, self.k, self.v = (torch.nn.Linear(16, 16) for _ in range(3))

    def forward(self, x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        scores = self.q(x) @ self.k(x).transpose(-1, -2) / 4
        causal = torch.full((x.shape[1], x.shape[1]), LOWEST).triu(1)
        padding = keep[:, None, :]
        match self.kind:
            case "product":
                masked = scores + (1 - padding) * LOWEST
            case "causal":
                masked = scores + causal
            case "two sums":
                masked = (scores + causal) + (1 - padding) * LOWEST
            case "joined":
                masked = scores + torch.maximum(causal + (1 - padding) * LOWEST, torch.tensor(LOWEST))
            case "filled":
                masked = scores.masked_fill(padding == 0, LOWEST)
            case "chosen":
                masked = torch.where(padding > 0, scores, torch.tensor(LOWEST))
            case "chosen, added":
                masked = scores + torch.where(padding > 0, 0.0, LOWEST)
            case _:
                masked = torch.clamp((scores + causal) + (1 - padding) * LOWEST, min=LOWEST)
        return torch.softmax(masked, -1) @ self.v(x)


KINDS = ("product", "causal", "two sums", "joined", "filled", "chosen", "chosen, added", "clamped")


def batch(seed: int, unmasked: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """Sequences of 10 down to 7; and, if asked for, none of length 0."""
    x, keep = torch.randn(4, 10, 16, generator=torch.Generator().manual_seed(seed)), torch.ones(4, 10)
    for place in range(0 if unmasked else 4):
        keep[place, 10 - place :] = 0
    return x, keep


def analyzed(model: torch.nn.Module, *samples: tuple[torch.Tensor, ...], **requirements: object) -> PrecisionAnalysis:
    given = {"target_accuracy": 2e-3, "formats": ("fp16", "fp32"), "least": "bytes", **requirements}
    return PrecisionOptimizer(**given).analyze(model.eval(), *samples)  # type: ignore[arg-type]


def error(model: torch.nn.Module, mixed: torch.nn.Module, given: tuple[torch.Tensor, ...]) -> float:
    with torch.no_grad():
        found, true = mixed(*given).double(), model(*given).double()
    return float((found - true).square().mean().sqrt() / true.square().mean().sqrt())


def saturated(formats: dict[str, str]) -> set[str]:
    return {name for name, form in formats.items() if ceiling(form) is not None}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", KINDS)
def test_a_model_with_masks_is_in_float16_throughout(kind: str) -> None:
    model = Attention(kind)
    found = analyzed(model, batch(0))
    formats = found.get_precision_assignment()
    assert {split(form)[0] for form in formats.values()} == {"fp16"}
    assert saturated(formats) and all(found.sites[name].low <= -(2.0**100) for name in saturated(formats))
    assert found.measured is not None and found.measured < 2e-3
    for seed in (7, 8, 9):
        assert 0 < error(model, found.apply(), batch(seed)) < 2e-3
    without = analyzed(model, batch(0), saturation=False, scaling=False).get_precision_assignment()
    assert {name for name, form in without.items() if form == "fp32"} >= saturated(formats)


@pytest.mark.parametrize("kind", KINDS)
def test_a_mask_of_float32_does_not_fit_bfloat16_either(kind: str) -> None:
    model = Attention(kind)
    found = analyzed(model, batch(0), target_accuracy=3e-2, formats=("bf16", "fp32"))
    formats = found.get_precision_assignment()
    assert set(formats.values()) == {"bf16", "bf16|2^127"} and error(model, found.apply(), batch(7)) < 3e-2


def test_samples_before_the_first_with_a_mask_count_too() -> None:
    model = Attention("product")
    for samples in ((batch(1, True), batch(0)), (batch(0), batch(1, True))):
        found = analyzed(model, *samples)
        assert saturated(found.get_precision_assignment()) == {"mul", "add"} and error(model, found.apply(), batch(7)) < 2e-3


def test_a_row_of_nothing_but_masks_is_not_saturated_where_a_sample_has_one() -> None:
    """In float32 it has equal weights, and derivatives that are not 0."""
    model, (x, keep) = Attention("product"), batch(0)
    x, keep = 4 * x, keep.clone()
    keep[0] = 0
    found = analyzed(model, (x, keep))
    formats = found.get_precision_assignment()
    assert formats["add"] == "fp32" and found.measured is not None and found.measured < 2e-3
    unseen = 4 * batch(7)[0], keep
    assert error(model, found.apply(), unseen) < 2e-3
    # where no sample has one, this is not seen
    blind = analyzed(model, (x, batch(0)[1]))
    assert "add" in saturated(blind.get_precision_assignment()) and error(model, blind.apply(), unseen) > 2e-3


class Certain(torch.nn.Module):
    """Logits of which the largest is always so far ahead that nothing moves."""

    def forward(self, x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        return torch.softmax(1e5 * x + (1 - keep) * LOWEST, -1)


def test_large_numbers_that_move_nothing_are_no_masks() -> None:
    x, keep = torch.linspace(-2, 2, 64).reshape(8, 8), torch.ones(8, 8)
    keep[:, :2] = 0
    found = analyzed(Certain(), (x, keep), scaling=False)
    logits, masked = found.sites["mul"], found.sites["add"]
    assert logits.magnitude > 65504 and logits.sensitivity == 0 and not any("|" in form for form in logits.moved)
    assert masked.sensitivity == 0 and masked.moved["fp16|2^15"] == float("inf")
    formats = found.get_precision_assignment()
    assert (formats["mul"], formats["add"]) == ("fp32", "fp32") and saturated(formats) == {"mul#2"}
    refused = analyzed(Certain(), (x, keep), scaling=False, formats=("fp16",)).outcome
    assert isinstance(refused, Infeasible) and "has 16 bits of range" in refused.reasons[1]


class Comparing(torch.nn.Module):
    """Asks whether something is a mask: a function without a derivative."""

    def forward(self, x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        mask = (1 - keep) * LOWEST
        return torch.softmax(x + torch.where(mask < -1e20, -2.0, 0.0), -1)


def test_what_a_run_shows_of_a_mask_takes_saturation_back() -> None:
    x, keep = torch.randn(4, 8, generator=torch.Generator().manual_seed(0)), torch.ones(4, 8)
    keep[:, 5:] = 0
    found = analyzed(Comparing(), (x, keep), scaling=False)
    assert isinstance(found.outcome, Assignment)
    assert found.sites["mul"].moved["fp16|2^15"] == 0
    assert found.outcome.formats["mul"] == "fp32" and error(Comparing(), found.apply(), (x, keep)) < 2e-3


def test_other_elements_have_their_headroom() -> None:
    class Added(torch.nn.Module):
        def forward(self, x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
            return torch.softmax(x + (1 - keep) * LOWEST, -1)

    x, keep = torch.tensor([[20000.0, 19999.0, 3.0]]), torch.tensor([[1.0, 1.0, 0.0]])
    requirements = {"scaling": False, "target_accuracy": 0.9}
    assert analyzed(Added(), (x, keep), **requirements).get_precision_assignment()["add"] == "fp32"
    assert analyzed(Added(), (x, keep), headroom=1.5, **requirements).get_precision_assignment()["add"] == "fp16|2^15"


def test_a_pin_and_a_policy_name_the_format_that_saturates() -> None:
    model = Attention("product")
    for requirements in ({"pins": {"add": "fp16"}, "formats": ("fp32",)}, {"policy": "p=f16,c=f16,o=f16", "formats": ("fp32",)}):
        assert analyzed(model, batch(0), **requirements).get_precision_assignment()["add"] == "fp16|2^15"
    refused = analyzed(model, batch(0), pins={"add": "fp16"}, saturation=False).outcome
    assert isinstance(refused, Infeasible) and refused.cycle == (("ground", "add", 128), ("add", "ground", -16))


def test_a_proof_is_of_formulas_without_saturation() -> None:
    class Shifted(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x + torch.tensor([0.0, LOWEST]))

    x = torch.rand(4, 2) + 1
    assert saturated(analyzed(Shifted(), (x,)).get_precision_assignment())
    proved = analyzed(Shifted(), (x,), certified=True)
    assert isinstance(proved.outcome, Infeasible) or not saturated(proved.get_precision_assignment())


def test_autocast_and_the_table() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = Attention("product")

        def forward(self, x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
            return self.attention(x, keep)

    found = analyzed(Model(), batch(0))
    assert found.to_amp_config().enabled["attention"] and found.to_amp_config().dtype == torch.float16
    assert ("attention.add", "compute", "fp16|2^15") in {row[:3] for row in found.rows()}
    assert found.policy_string() == "p=f16,c=f16,o=f16" and "fp16|2^15" in found.visualize_obstruction()
    assert found.h0_dim == 2 and found.h1_cocycle == {}


def test_gradients_of_the_mixed_model_are_those_of_the_model() -> None:
    model = Attention("two sums")
    mixed = analyzed(model, batch(0)).apply(train=True)
    mixed(*batch(3)).sum().backward()
    found = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    model(*batch(3)).sum().backward()
    for one, p in zip(found, model.parameters(), strict=True):
        assert p.grad is not None and torch.allclose(one, p.grad, atol=2e-2 * float(p.grad.abs().max()) + 1e-3)


def test_the_command_and_the_graph_that_it_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Scores(torch.nn.Module):
        def forward(self, scores: torch.Tensor, keep: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return torch.softmax(scores + (1 - keep) * LOWEST, -1) @ v

    scores, v = (torch.randn(8, 8, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1))
    keep = torch.ones(8, 8).tril()
    program = CapturedProgram.of(Scores(), (scores, keep, v), {}, Settings(load_rules("none")))
    model, samples, data, out = (tmp_path / name for name in ("m.mlir", "s.npz", "o.json", "mixed.mlir"))
    model.write_text(emit_torch(as_module(program.graph, [scores, keep, v])))
    np.savez(samples, arg0=scores.numpy(), arg1=keep.numpy(), arg2=v.numpy())
    given = ["precision", str(model), "--calibrate", str(samples), "--formats", "fp16,fp32"]
    assert main([*given, "--least", "bytes", "--all", "--json", str(data), "--emit", "torch", "-o", str(out)]) == 0
    assert "fp16|2^15" in capsys.readouterr().out
    assert {site["format"] for site in json.loads(data.read_text())["sites"]} == {"fp16", "fp16|2^15"}
    assert "torch.aten.clamp" in out.read_text()
    results = []
    for path in (model, out):
        assert main(["run", str(path), "--inputs", str(samples), "-o", str(tmp_path / "r.npz")]) == 0
        results.append(np.load(tmp_path / "r.npz")["output0"].astype(np.float64))
    assert 0 < np.sqrt(np.mean((results[0] - results[1]) ** 2) / np.mean(results[0] ** 2)) < 1e-3


def test_names() -> None:
    assert saturated_name("fp16") == "fp16|2^15" and saturated_name("fp8_e4m3fn") == "fp8_e4m3fn|2^8"
    assert split("fp16|2^15") == ("fp16", 0) and split("fp16*2^-5") == ("fp16", -5) and split("fp16") == ("fp16", 0)
    assert ceiling("fp16|2^15") == 2.0**15 == largest("fp16|2^15") and ceiling("fp16*2^3") is None
    assert [is_plain(form) for form in ("fp16", "fp16|2^15", "fp16*2^3")] == [True, False, False]


def test_a_site_of_masks_may_have_it_by_the_size_of_its_other_elements() -> None:
    site = replace(made_site("a", [1.0], 3e38), moved={"fp16": float("inf"), "fp16|2^15": 0.0, "fp32": 0.0}, ordinary=10.0)
    for ordinary, found in ((10.0, "fp16|2^15"), (16384.0, "fp16|2^15"), (16385.0, "fp32")):
        sites = PrecisionSites((replace(site, ordinary=ordinary),), (), 1.0)
        outcome = assign(sites, Requirements(0.5, False, ("fp16", "fp32")))
        assert isinstance(outcome, Assignment) and outcome.formats == {"a": found}
