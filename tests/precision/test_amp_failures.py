"""Mixed-precision failures that were reported in public, in small: they fail, the right operation is blamed, and the remedy holds."""

from __future__ import annotations

import copy
from fnmatch import fnmatchcase

import pytest
import torch

from hnfc.formats.scaled import split
from hnfc.precision.assignment import Assignment, Infeasible
from hnfc.precision.optimizer import PrecisionAnalysis, PrecisionOptimizer
from tests.precision.failing import FAILURES, Failure, Inputs

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
UNSEEN = 100
"""The seed of inputs that no analysis is given."""


def error(model: torch.nn.Module, inputs: Inputs, failure: Failure) -> float:
    """Against float64, relative to the root mean square of the outputs."""
    plain = failure.inputs(UNSEEN)
    with torch.no_grad():
        true = failure.model().double()(*(x.double() for x in plain))
        away = model(*inputs).double() - true
    return float(away.square().mean().sqrt() / true.square().mean().sqrt())


def analyzed(failure: Failure, *formats: str, scaling: bool = True) -> PrecisionAnalysis:
    optimizer = PrecisionOptimizer(target_accuracy=failure.target, formats=formats, headroom=1.5, scaling=scaling, least="bytes")
    return optimizer.analyze(failure.model(), failure.inputs(0))


def matching(names: object, pattern: str) -> list[str]:
    return [name for name in names if fnmatchcase(name, pattern)]  # type: ignore[attr-defined]


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_in_the_low_format_it_fails(failure: Failure) -> None:
    dtype = DTYPES[failure.low]
    inputs = tuple(x.to(dtype) for x in failure.inputs(UNSEEN))
    # NaN is beyond every target, too
    assert not error(copy.deepcopy(failure.model()).to(dtype), inputs, failure) < 3 * failure.target


@pytest.mark.sampled(6)
@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_the_blame(failure: Failure) -> None:
    outcome = analyzed(failure, failure.low, scaling=False).outcome
    assert isinstance(outcome, Infeasible)
    for pattern in failure.blamed:
        blamed = matching(outcome.nodes, pattern)
        assert blamed, (pattern, outcome.nodes)
        assert any(reason.startswith(f"{name} ") for name in blamed for reason in outcome.reasons)
    assert not [name for pattern in failure.spared for name in matching(outcome.nodes, pattern)]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_the_remedy(failure: Failure) -> None:
    found = analyzed(failure, failure.low, "fp32")
    assert isinstance(found.outcome, Assignment)
    assert error(found.apply(), failure.inputs(UNSEEN), failure) < failure.target
    formats = found.get_precision_assignment()
    for pattern in failure.blamed:
        assert any(formats[name] != failure.low for name in matching(formats, pattern))
    for pattern in failure.spared:
        names = matching(formats, pattern)
        assert names and all(split(formats[name])[0] == failure.low for name in names)


def test_an_overflow_is_met_by_a_scale_and_what_vanishes_by_a_wider_format() -> None:
    """A power of two for the second and third product of linear attention; its denominator must hold 1e-15 as well."""
    formats = analyzed(FAILURES["linear_attention"], "fp16", "fp32").get_precision_assignment()
    assert {name: split(form)[0] for name, form in formats.items() if form != "fp16"} == {
        "matmul#2": "fp16", "matmul#3": "fp16", "add": "fp32",
    }  # fmt: skip
