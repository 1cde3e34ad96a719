"""Each change that a refusal offers, when it is made, is followed by formats that hold in a run."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import nn

from hnfc.precision import PrecisionOptimizer
from hnfc.precision.requirements import Infeasible, Requirements


class Steep(nn.Module):
    """Powers and differences, whose errors of second order estimates do not have."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(width, width), nn.Linear(width, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.first(x)
        return torch.exp(3 * h).sum(-1) - h.pow(2).sum(-1) + self.last(torch.tanh(h)).sum(-1)


def drawn(seed: int) -> tuple[dict[str, Any], nn.Module, torch.Tensor]:
    """A requirement of each kind that a model of random weights may not meet."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    formats = draw.choice([("bf16",), ("bf16", "fp16"), ("fp8_e4m3fn", "bf16"), ("int8", "bf16"), ("int4",), ("bf16", "fp32")])
    options: dict[str, Any] = {"target_accuracy": 10.0 ** draw.uniform(-5, -2), "formats": formats}
    match draw.randrange(4):
        case 0:
            options["pins"] = {draw.choice(("first*", "tanh", "*exp*")): formats[0]}
        case 1:
            options["memory_budget"] = draw.uniform(100, 1500)
        case 2:
            options["uncast"] = [("exp", "*"), ("first*", "tanh")]
    width = draw.choice((4, 8))
    return options, Steep(width).eval(), torch.randn(16, width)


def options_of(then: Requirements, before: Mapping[str, Any]) -> dict[str, Any]:
    """The same change as options of `PrecisionOptimizer`."""
    return {
        **before, "target_accuracy": then.target, "formats": then.formats, "pins": then.pins, "memory_budget": then.memory,
        "uncast": then.uncast,
    }  # fmt: skip


def followed(seeds: range) -> int:
    """Number of changes that were made."""
    made = 0
    for seed in seeds:
        options, model, x = drawn(seed)
        found = PrecisionOptimizer(**options).analyze(model, x).outcome
        for change in found.relaxations if isinstance(found, Infeasible) else ():
            if change.then is not None:
                # the words are those of the change
                assert (change.then.target != options["target_accuracy"]) == change.change.startswith("raise")
                after = PrecisionOptimizer(**options_of(change.then, options)).analyze(model, x)
                assert not isinstance(after.outcome, Infeasible), (seed, options, change.change, after.outcome.reasons)
                made += 1
    return made


def test_what_helps_helps() -> None:
    assert followed(range(2)) >= 2


@pytest.mark.slow
def test_what_helps_helps_in_many_refusals() -> None:
    assert followed(range(100, 200)) >= 100
