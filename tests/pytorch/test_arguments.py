"""Arguments that make no sense are refused in words, by every entry point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import hnfc
from hnfc.core.errors import ModelError, UsageError
from hnfc.dsl.diagnostics import HnfError

REFUSED = (HnfError, ModelError, UsageError)


class Softplus(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log(1 + torch.exp(x))


OPTIONS = [
    {"rules": "stability"}, {"rules": []}, {"group": None}, {"group": 3}, {"group": ["stability", 4]}, {"assume": 3}, {"allow_unproved": 3},
    {"ranges": 3}, {"ranges": "all"}, {"ranges": {"x": 3}}, {"ranges": {"x": (1,)}}, {"ranges": {"x": ("a", "b")}},
    {"ranges": {"y": (0, 1)}}, {"ranges": {"x": (2, 1)}}, {"ranges": {"x": (float("nan"), 1)}}, {"ranges": [(0, 1)]}, {"progress": 3},
    {"search": 3}, {"target": 3}, {"search": "egraph", "cost": 3}, {"search": "egraph", "seconds": "1"},
    {"search": "egraph", "seconds": 0}, {"search": "egraph", "deepening": "1"},
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_optimize(options: dict[str, Any]) -> None:
    with pytest.raises(REFUSED):
        hnfc.optimize(Softplus(), torch.zeros(2), **options)


OTHERS: list[tuple[Callable[..., Any], dict[str, Any]]] = [
    (hnfc.trace, {"group": 3}), (hnfc.trace, {"loss": 3}), (hnfc.analyze, {"bound": 3}),
    (hnfc.analyze, {"bound": "certified", "width": "1"}),
    (hnfc.analyze, {"bound": "certified", "width": -1}), (hnfc.analyze, {"bound": "certified", "per": "row"}),
    (hnfc.analyze, {"bound": "probabilistic", "probability": "high"}),
]  # fmt: skip


@pytest.mark.parametrize(("function", "options"), OTHERS)
def test_others(function: Callable[..., Any], options: dict[str, Any]) -> None:
    with pytest.raises(REFUSED):
        function(Softplus(), torch.zeros(2), **options)


FORMATS = [
    {"formats": 3}, {"formats": ()}, {"formats": ("f31",)}, {"formats": (3,)}, {"target_accuracy": "high"}, {"target_accuracy": -1},
    {"margin": "1"}, {"headroom": None}, {"memory_budget": "1 GB"}, {"least": 3},
]  # fmt: skip


@pytest.mark.parametrize("options", FORMATS, ids=str)
def test_precision(options: dict[str, Any]) -> None:
    with pytest.raises(REFUSED):
        hnfc.PrecisionOptimizer(**options).analyze(Softplus(), torch.zeros(2))


@pytest.mark.parametrize("model", [None, 3, "model", torch.exp, Softplus])
@pytest.mark.parametrize(
    "function", [hnfc.optimize, hnfc.trace, hnfc.analyze, hnfc.watch, hnfc.annotate, hnfc.PrecisionOptimizer().analyze]
)
def test_something_else_than_a_model(function: Callable[..., Any], model: Any) -> None:
    with pytest.raises(REFUSED):
        # a watch has no sample
        function(*((model,) if function is hnfc.watch else (model, torch.zeros(2))))
