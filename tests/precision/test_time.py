"""Formats for a machine: what it does not run is not chosen, and least time is least beside all other assignments."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from hnfc.dsl.rulebook import shipped_targets
from hnfc.errors import UsageError
from hnfc.precision.assignment import Assignment, Refusal, assign, bytes_of, time_of
from hnfc.precision.optimizer import PrecisionAnalysis, PrecisionOptimizer

X = torch.randn(32, 8, generator=torch.Generator().manual_seed(1))


def analyzed(**wishes) -> PrecisionAnalysis:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4)).eval()
    return PrecisionOptimizer(**{"target_accuracy": 2e-3, **wishes}).analyze(model, X)


def test_formats_that_the_machine_does_not_run_are_not_chosen():
    loose = {"target_accuracy": 5e-2, "formats": ("fp16", "bf16", "fp32")}
    assert "fp16" in set(analyzed(**loose).get_precision_assignment().values())
    chosen = set(analyzed(**loose, target="tpu_v5e").get_precision_assignment().values())
    assert "fp16" not in chosen and "bf16" in chosen
    assert isinstance(analyzed(formats=("fp16",), target="tpu_v5e").outcome, Refusal)


@pytest.mark.parametrize("target", [1e-1, 1e-2, 2e-3])
def test_no_assignment_within_the_error_takes_less_time(target):
    found = analyzed(target_accuracy=target, target="h100", least="time", formats=("bf16", "fp32"))
    sites, wishes, machine = found.sites, found.wishes, shipped_targets().target("h100")
    outcome = assign(sites, wishes)
    assert isinstance(outcome, Assignment)
    best = math.inf
    for forms in itertools.product(("bf16", "fp32"), repeat=len(sites.sites)):
        pairs = list(zip(sites.sites, forms, strict=True))
        if sum(site.moved[form] ** 2 for site, form in pairs) <= wishes.limit(sites) ** 2:
            best = min(best, sum(time_of(site, form, machine) for site, form in pairs))
    assert outcome.seconds == pytest.approx(best, rel=1e-6)
    assert outcome.bound == pytest.approx(best, rel=1e-6)


def test_time_and_memory_together():
    free = analyzed(target="h100", least="time", target_accuracy=1e-2)
    tight = analyzed(target="h100", least="time", target_accuracy=1e-2, memory_budget=free.outcome.size)
    assert tight.outcome.seconds == pytest.approx(free.outcome.seconds)
    assert tight.outcome.size <= free.outcome.size
    assert isinstance(analyzed(target="h100", least="time", target_accuracy=1e-2, memory_budget=100).outcome, Refusal)


def test_the_model_of_time_by_hand():
    found = analyzed(target="h100", least="time")
    machine = shipped_targets().target("h100")
    site = next(s for s in found.sites.sites if s.matrix)
    # 32 rows of 8 against 16 columns, and the bias
    assert site.work >= 2 * 32 * 8 * 16 and site.reads >= 1
    expected = site.work / 989e12 + bytes_of(site, "bf16") * (1 + site.reads) / 3.35e12
    assert time_of(site, "bf16", machine) == pytest.approx(expected)


@pytest.mark.parametrize(("wishes", "words"), [
    ({"target": "abacus"}, "there is no target `abacus`"), ({"least": "time"}, "time is modelled on a target"),
    ({"target": "cpu", "least": "joules"}, "bytes or time"),
])  # fmt: skip
def test_wishes_that_do_not_fit(wishes, words):
    with pytest.raises(UsageError, match=words):
        analyzed(**wishes)
