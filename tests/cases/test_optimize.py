"""The 58 cases as PyTorch modules through hnfc.optimize, forward and gradient; what no rewrite mends is diagnosed by hnfc.trace."""

from __future__ import annotations

from functools import cache

import pytest
import torch

import hnfc
from hnfc.rewriter import RuleSet
from tests.cases.suite import Case, Score, cases, score

OPEN = {
    "56_focal_loss_grad",
    "58_angle_acos",
}
"""Marked as mended by a rewrite, and not: 42 of 44 are."""
MENDED = {case.name for case in cases() if case.module.KIND in "RB"} - OPEN


class Model(torch.nn.Module):
    def __init__(self, case: Case) -> None:
        super().__init__()
        self.function = case.module.f

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.function(*inputs)


@cache
def rules() -> RuleSet:
    return hnfc.load_rules("stability")


def measured(case: Case, model: torch.nn.Module) -> Score:
    """The score of the result, or of the gradient in the first input."""
    first, *others = case.module.inputs()
    reference = case.module.reference(*case.module.inputs())
    if not case.gradient:
        return score(case, model(first, *others), reference)
    first = first.detach().requires_grad_(True)
    return score(case, torch.autograd.grad(model(first, *others).sum(), first)[0], reference)


SLOW = {"50_bf16_softmax_sum", "56_focal_loss_grad", "29_batchnorm_bf16_var"}
"""One has 511 steps, two are tried many times."""


def marked(slow: set[str]) -> list[object]:
    return [pytest.param(case, marks=[pytest.mark.slow] if case.name in slow else [], id=case.name) for case in cases()]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("case", marked(SLOW))
def test_mended(case: Case) -> None:
    model = Model(case)
    before = measured(case, model)
    for backward in (False, True) if case.gradient else (False,):
        better = hnfc.optimize(model, case.module.inputs(), rules=rules(), ranges="sample", backward=backward)
        after = measured(case, better)
        assert not after.worse_than(before, case.tolerance)
        assert case.name not in MENDED or after.within(case.tolerance), f"{before} → {after}"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", marked(MENDED | SLOW))
def test_diagnosed(case: Case) -> None:
    found = hnfc.trace(Model(case), case.module.inputs(), backward=case.gradient)
    assert found.first is not None
    assert found.first.operands
    assert found.first.reason
    assert ".py:" in found.first.source
    if case.name in MENDED and not case.gradient:
        assert any("the error of the results goes from" in remedy for remedy in found.first.remedies), str(found)


def test_how_many() -> None:
    assert (len(MENDED), len(MENDED | OPEN), len(cases())) == (42, 44, 58)
