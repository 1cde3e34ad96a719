"""No value and no gradient of a rewritten module is worse than the original's by more than four units in the last place."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import mpmath
import pytest
import torch

import hnfc
from hnfc.rewriter import RuleSet
from tests.pytorch.scalar_forms import FORMS, POINTS, Reals, Torch

ULPS = 4
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
QUICK = ("sigmoid", "log_sigmoid", "elu", "tanh_quotient", "bernoulli", "safe_root", "relu", "erf_complement")
NOT_COMPARED = {("gelu_tail", torch.bfloat16)}
"""Gradients of two terms that cancel, of which each loses by the roundings that it happens to have."""


class Form(torch.nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.function = FORMS[name]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(Torch, x)  # type: ignore[no-any-return]


@cache
def rules(level: str) -> RuleSet:
    return hnfc.load_rules(level)


@cache
def exact(name: str, x: float) -> tuple[float, float]:
    """The value and the derivative at x, at a kink the mean of both slopes; NaN where there is none."""
    with mpmath.workdps(5000 if abs(x) > 100 else 600):
        point = mpmath.mpf(x)
        step = mpmath.mpf(2) ** -300

        def value(t: Any) -> Any:
            found = FORMS[name](Reals, t)
            return found if isinstance(found, mpmath.mpf) and mpmath.isfinite(found) else None

        try:
            at, above, below = value(point), value(point + step), value(point - step)
        except (ZeroDivisionError, ValueError):
            return math.nan, math.nan
        slope = math.nan if above is None or below is None or at is None else float((above - below) / (2 * step))
        return math.nan if at is None else float(at), slope


def ulps(found: float, wanted: float, dtype: torch.dtype) -> float:
    """Error of a number in units in the last place."""
    info = torch.finfo(dtype)
    if math.isnan(wanted) or abs(wanted) > info.max:
        return 0.0
    if not math.isfinite(found):
        return math.inf
    exponent = max(math.floor(math.log2(abs(wanted))) if wanted else -2000, round(math.log2(info.tiny)))
    return abs(found - wanted) / (info.eps * 2.0**exponent)


def compared(name: str, dtype: torch.dtype, level: str) -> list[str]:
    """The points at which a value or gradient is worse than before."""
    x = torch.tensor(POINTS, dtype=dtype)
    model = Form(name)
    better = hnfc.optimize(model, x, rules=rules(level))
    found = []
    for module in (model, better):
        given = x.clone().requires_grad_()
        result = module(given)
        found.append((result.detach(), torch.autograd.grad(result.sum(), given)[0]))
    worse = []
    for index, point in enumerate(x.tolist()):
        value, slope = exact(name, point)
        targets = (("value", 0, value), ("gradient", 1, math.nan if abs(value) > torch.finfo(dtype).max else slope))
        for kind, which, wanted in targets:
            before, after = (float(pair[which][index]) for pair in found)
            if ulps(after, wanted, dtype) > ulps(before, wanted, dtype) + ULPS and not (which and (name, dtype) in NOT_COMPARED):
                worse.append(f"{kind} at {point}: {before} became {after}, and {wanted} is right")
    return worse


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", QUICK)
def test_some_forms_in_float32(name: str) -> None:
    assert compared(name, torch.float32, "stability") == []


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("level", ["stability", "fusion", "precision", "all"])
@pytest.mark.parametrize("name", FORMS)
def test_every_form(name: str, level: str, dtype: torch.dtype) -> None:
    assert compared(name, dtype, level) == []


def test_there_are_enough_forms_and_points() -> None:
    assert len(FORMS) >= 60 and len(POINTS) >= 30
