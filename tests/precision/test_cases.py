"""The cases from public bug reports that ask for formats: within tolerance, with no more wide values than the reports say are needed."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache

import pytest
import torch

from hnfc.precision.assignment import Assignment
from hnfc.precision.optimizer import PrecisionAnalysis, PrecisionOptimizer
from tests.cases.suite import Case, Score, cases, score

CASES = {case.name[:2]: case for case in cases() if case.module.KIND in "PB"}
WIDER = {"fp16": "fp32", "bf16": "fp32", "fp32": "fp64"}
NAMES = {torch.float16: "fp16", torch.bfloat16: "bf16", torch.float32: "fp32"}
DTYPES = {"fp32": torch.float32, "fp64": torch.float64}
SLOW = ("29", "32", "49", "50")
"""Large tensors, and 64 and 511 steps, each an operation of its own."""


@dataclass(frozen=True)
class Expected:
    """What is wide where values that overflow may not be stored with a scale instead.

    noted: patterns of the sites that a case's note says must be wide. own: those that its `f` computes in float32 itself.

    beyond: sites that are wide here although the note doesn't name them. parts: of these, those that the note counts as one with a site
    that it names. enough: whether the noted sites alone do; a site beyond them, and not a part of one, is a surplus then.
    """

    noted: tuple[str, ...]
    own: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    beyond: tuple[str, ...] = ()
    enough: bool = True


EXPECTED = {
    # a surplus of three: past the cube float16 overflows to infinities that tanh turns into 1; overflows are not allowed here. With
    # scales there is no surplus
    "24": Expected(("pow",), beyond=("mul#2", "add", "mul#3")),
    # the mean is computed in the shape that it is then subtracted in: a reshape of the sum is where its site is
    "29": Expected(("mean*", "var*")),
    "32": Expected(()),
    # the square of 1e-4 vanishes in float16, and the third row with it
    "34": Expected(("maximum", "constant"), beyond=("mul", "sum"), enough=False),
    # the squares of the last row, 1e-8 and less, vanish in float16
    "35": Expected(("add", "sqrt"), beyond=("mul", "mean#2"), enough=False),
    # eps is added to the mean before rsqrt: an operation by itself
    "36": Expected(("mul", "mean", "rsqrt"), parts=("add",)),
    # one of the two ways that the note gives, the other being a rewrite
    "39": Expected(("matmul",)),
    "40": Expected(("matmul", "max", "sub")),
    "42": Expected(("matmul", "add"), own=("mul", "mean", "add#2")),
    "47": Expected(("add", "div")),
    "49": Expected(("sub*",)),
    "50": Expected(("add*",)),
    # the casts in `f` that are dropped are sites that hold the inputs once more
    "51": Expected(("input 0", "input 1", "mul", "cos"), parts=("cast", "cast#2")),
    # k log p, (n - k) log1p(-p) and lgamma(k + 1) are 3·10⁴, 2·10³ and 3·10⁴, and the sum is 1031
    "70": Expected(
        ("lgamma", "lgamma#3", "sub", "sub#3", "add#3", "add#5"), beyond=("lgamma#2", "log", "mul", "log1p", "mul#2"), enough=False
    ),
    "74": Expected(("mul", "mul#2", "mul#3", "add", "sub#7")),
    "80": Expected(("matmul", "matmul#2", "matmul#3", "add", "div")),
    "86": Expected(("add#2", "add#4"), own=("mul#8", "mean#3", "add#5")),
}
"""By the number of a case, where its note says which values must be wide."""


class Model(torch.nn.Module):
    def __init__(self, case: Case) -> None:
        super().__init__()
        self.function = case.module.f

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.function(*inputs)


def formats_of(case: Case) -> tuple[str, str]:
    low = NAMES[case.module.DTYPE]
    return low, WIDER[low]


@cache
def analyzed(number: str, scaling: bool, /) -> PrecisionAnalysis:
    """A quarter of the case's tolerance is the target: the tolerance is for the worst element, and the target a root mean square."""
    case = CASES[number]
    optimizer = PrecisionOptimizer(
        target_accuracy=case.tolerance / 4,
        formats=formats_of(case),
        headroom=1.0,
        least="bytes",
        scaling=scaling,
        elementwise=getattr(case.module, "METRIC", "rel") == "rel",
        group="stability" if case.module.KIND == "B" else "none",
    )
    return optimizer.analyze(Model(case), case.module.inputs())


def scored(case: Case, model: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> Score:
    """Of the result, or of the gradient in the first input."""
    reference = case.module.reference(*case.module.inputs())
    if not case.gradient:
        return score(case, model(*inputs), reference)
    first = inputs[0].detach().requires_grad_(True)
    return score(case, torch.autograd.grad(model(first, *inputs[1:]).sum(), first)[0], reference)


def applied(case: Case, analysis: PrecisionAnalysis) -> Score:
    dtype = DTYPES[formats_of(case)[1]]
    return scored(case, analysis.apply(), tuple(x.to(dtype) if x.is_floating_point() else x for x in case.module.inputs()))


def wide_sites(case: Case, analysis: PrecisionAnalysis) -> set[str]:
    return {name for name, form in analysis.get_precision_assignment().items() if form == formats_of(case)[1]}


def matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def marked(numbers: list[str]) -> list[object]:
    return [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else [], id=CASES[n].name) for n in numbers]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("scaling", [True, False], ids=["scaled", "unscaled"])
@pytest.mark.parametrize("number", marked(list(CASES)))
def test_within_tolerance(number: str, scaling: bool) -> None:
    case = CASES[number]
    found = analyzed(number, scaling)
    assert isinstance(found.outcome, Assignment), found.outcome
    assert applied(case, found).within(case.tolerance)


@pytest.mark.parametrize("number", marked(list(CASES)))
def test_as_reported_it_fails(number: str) -> None:
    case = CASES[number]
    assert not scored(case, Model(case), case.module.inputs()).within(case.tolerance)


@pytest.mark.parametrize("number", marked(list(EXPECTED)))
def test_no_more_is_wide_than_is_noted(number: str) -> None:
    expected = EXPECTED[number]
    wide = wide_sites(CASES[number], analyzed(number, False))
    assert set(expected.own) <= wide
    assert {name for name in wide if not matches(name, expected.noted + expected.own + expected.parts)} == set(expected.beyond)
    scaled = wide_sites(CASES[number], analyzed(number, True))
    assert scaled <= wide
    if expected.enough:
        assert all(matches(name, expected.noted + expected.own + expected.parts) for name in scaled)


@pytest.mark.parametrize("number", marked([n for n in EXPECTED if EXPECTED[n].beyond]))
def test_whether_what_is_noted_would_do(number: str) -> None:
    case, expected = CASES[number], EXPECTED[number]
    low, wide = formats_of(case)
    noted = copy.copy(analyzed(number, False))
    assert isinstance(noted.outcome, Assignment)
    formats = {name: wide if matches(name, expected.noted) else low for name in noted.outcome.formats}
    noted.outcome = replace(noted.outcome, formats=formats)
    assert applied(case, noted).within(case.tolerance) == expected.enough


def test_there_are_nineteen() -> None:
    assert len(CASES) == 19
