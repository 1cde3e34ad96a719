"""Pointwise regions of tensor programs in better forms: found by search, proved, and no worse anywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import hnfc
from hnfc.accuracy.reference import exact_values
from hnfc.accuracy.regions import region_at
from hnfc.accuracy.tensors import RegionForms
from hnfc.accuracy.terms import Terms
from hnfc.analysis.ranges import Ranges
from hnfc.dialects.interval import Interval
from hnfc.dsl.core import TRUE
from hnfc.pytorch import rewriting
from hnfc.rewrite.conditions import Observations
from tests.graphs import Graph
from tests.pytorch.examples import Plain

FORMS: dict[str, tuple[int, Callable[..., Any]]] = {
    "difference of squares": (2, lambda g, one, x, y: g.sub(g.mul(x, x), g.square(y))),
    "square roots": (1, lambda g, one, x: g.sub(g.sqrt(g.add(x, one)), g.sqrt(x))),
    "small angle": (1, lambda g, one, x: g.div(g.sub(one, g.cos(x)), g.mul(x, x))),
    "relative growth": (1, lambda g, one, x: g.div(g.sub(g.exp(x), one), x)),
    "complement in logarithms": (1, lambda g, one, x: g.log1p(g.neg(g.exp(x)))),
    "reciprocals": (1, lambda g, one, x: g.sub(g.reciprocal(x), g.div(one, g.add(x, one)))),
}


def forms(graph: Graph, ranges: Ranges | None = None) -> dict[Any, Any]:
    return RegionForms()(graph.block, ranges or Ranges({}), Observations([]))


QUICK = [("square roots", "f16"), ("complement in logarithms", "f32")]
CASES = [(name, element) for name in FORMS for element in ("f64", "f32")]


@pytest.mark.parametrize(
    ("name", "element"), [*QUICK, *(pytest.param(*case, marks=pytest.mark.slow) for case in CASES if case not in QUICK)]
)
def test_a_better_form_is_found_and_proved(name: str, element: str) -> None:
    count, build = FORMS[name]
    g = Graph(*[(element, 3)] * count)
    g.returns(build(g, g.constant(1.0, element), *g.args))
    found = forms(g)
    assert len(found) == 1 and all(verdict.proved for verdict in found.values())


def test_a_region_ends_at_what_is_not_pointwise() -> None:
    g = Graph((4, 5))
    (x,) = g.args
    centered = g.sub(x, g.div(g.sum(x, axes=(1,)), 5.0))
    g.returns(result := g.sub(1.0, g.cos(centered)))
    region = region_at(result, Terms())
    assert region is not None
    assert len(region.leaves) == 2 and {op.owner.name for op in region.leaves.values() if hasattr(op.owner, "name")} == {"num.sum"}


def test_ranges_are_conditions_where_a_form_needs_them() -> None:
    g = Graph((3,), (3,))
    x, a = g.args
    g.returns(g.log(g.sub(1.0, g.pow(x, a))))
    found = forms(g, Ranges({x: Interval(1e-6, 1 - 1e-7), a: Interval(1e-3, 100.0)}))
    assert any(rule.where is not TRUE and verdict.proved for rule, verdict in found.items())


def test_masks_and_whole_numbers_are_no_regions() -> None:
    g = Graph(("i1", 3), ("i1", 3), ("si64", 3), (3,))
    p, q, n, x = g.args
    g.returns(g.where(g.logical_and(p, q), x, g.neg(x)), g.sub(g.mul(n, n), n))
    assert not forms(g)


def test_a_region_in_two_spellings_has_a_rule_for_each() -> None:
    g = Graph((3,), (3,))
    x, y = g.args
    g.returns(g.sub(g.mul(x, x), g.mul(y, y)), g.sub(g.square(x), g.square(y)))
    assert len({rule.name for rule in forms(g)}) == 2


def test_what_is_accurate_stays() -> None:
    g = Graph((4,), (4,))
    x, y = g.args
    g.returns(g.add(g.mul(x, y), 1.0), g.exp(x), g.maximum(x, y))
    assert not forms(g, Ranges({x: Interval(1.0, 2.0), y: Interval(1.0, 2.0)}))


class Levels(torch.nn.Module):
    """The mean distance of neighbouring levels 1/n."""

    def forward(self, n: torch.Tensor) -> torch.Tensor:
        return (1 / n - 1 / (n + 1)).mean()


def test_a_module_at_the_level_accuracy() -> None:
    torch.manual_seed(0)
    x = 1e4 * (1 + torch.rand(4, 5))
    model = Levels()
    better = hnfc.optimize(model, x, "accuracy")
    true = model(x.double())
    before, after = (float(abs(m(x).double() - true) / true.abs()) for m in (model, better))
    assert after < before / 10
    assert "form_" in str(hnfc.diff(model, better)) and "proved over the reals" in str(hnfc.diff(model, better))
    y = x.clone().requires_grad_()
    wide = x.double().requires_grad_()
    (slope,), (wanted,) = torch.autograd.grad(better(y), y), torch.autograd.grad(model(wide), wide)
    np.testing.assert_allclose(slope.numpy(), wanted.numpy(), rtol=1e-5)


def test_digits_that_float64_loses_are_found_at_the_level_stability() -> None:
    x, y = torch.tensor([1e-7, 3.0, 40.0], dtype=torch.float64), torch.tensor([9.0, 1e-3, 100.0], dtype=torch.float64)
    better = hnfc.optimize(Plain(lambda a, b: torch.sqrt(b * b + a) - b), (x, y), ranges="sample")
    assert torch.allclose(better(x, y), x / (torch.sqrt(y * y + x) + y), rtol=1e-15, atol=0)


def test_other_sizes_take_the_forms_that_were_found(monkeypatch: pytest.MonkeyPatch) -> None:
    x = 1e4 * (1 + torch.rand(4, 5))
    model = Levels()
    better = hnfc.optimize(model, x, "accuracy")
    monkeypatch.setattr(RegionForms, "__call__", lambda *_: pytest.fail("searched again"))
    y = 1e4 * (1 + torch.rand(3, 2))
    true = model(y.double())
    assert float(abs(better(y).double() - true) / true.abs()) < 1e-6


def great_circle(a: torch.Tensor, b: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
    return torch.acos(torch.sin(a) * torch.sin(b) + torch.cos(a) * torch.cos(b) * torch.cos(d))


def haversine(a: torch.Tensor, b: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
    h = torch.sin((a - b) / 2) ** 2 + torch.cos(a) * torch.cos(b) * torch.sin(d / 2) ** 2
    return 2 * torch.asin(torch.sqrt(h))


@pytest.mark.parametrize("latitude", [0.3, -1.2])
def test_a_form_is_chosen_at_the_samples_too(latitude: float) -> None:
    """Latitudes near each other, and longitudes too: everyday points hardly have that."""
    near = torch.tensor([0.0, 2e-5, -3e-4, 0.02, 0.5])
    points = latitude + 0 * near, latitude + near, torch.tensor([3e-5, 0.0, 2e-4, -0.03, 1.5])
    model = Plain(great_circle)
    better = hnfc.optimize(model, points)
    true = haversine(*(x.double() for x in points))
    assert not float(((model(*points).double() - true).abs() / true).max()) < 1e-2
    assert float(((better(*points).double() - true).abs() / true).max()) < 4e-7
    assert "form_1" in str(hnfc.diff(model, better))


def test_a_sample_of_two_elements_is_enough_for_later_calls() -> None:
    model = Plain(lambda a, b: torch.log(torch.exp(a) - torch.exp(b)))
    better = hnfc.optimize(model, (torch.tensor([1000.0, 3.0]), torch.tensor([990.0, 2.0])))
    g = torch.Generator().manual_seed(1)
    a = 0.01 * torch.randn(64, generator=g)
    b = a - torch.rand(64, generator=g) * 10.0 ** torch.randint(-4, 3, (64,), generator=g)
    b = torch.where(b < a, b, a - 1)
    true = a.double() + torch.log(-torch.expm1(b.double() - a.double()))
    assert float((model(a, b) - true).abs().max()) > 1e-3
    assert float((better(a, b) - true).abs().max()) < 1e-5


@pytest.mark.parametrize("refused", [True, False])
def test_the_search_begins_anew_where_a_form_is_taken_back(refused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    x, searched = 1e4 * (1 + torch.rand(4, 5)), list[bool]()
    find, compare = rewriting.searches, rewriting._Trials.without_worse_gradients

    def noting(kind: Any, known: Any = None) -> dict[str, Any]:
        searched.append(known is None)
        return find(kind, known)

    def comparing(trials: Any, request: Any, made: Any) -> Any:
        if refused and not searched[-1]:
            made.compiled.rolled_back.append("form_1")
        return compare(trials, request, made)

    monkeypatch.setattr(rewriting, "searches", noting)
    monkeypatch.setattr(rewriting._Trials, "without_worse_gradients", comparing)
    better = hnfc.optimize(Levels(), x, "accuracy")
    first = len(searched)
    better(1e4 * (1 + torch.rand(3, 2)))
    assert all(searched[:first]) and False in searched[first:]
    assert (True in searched[first:]) is refused


def test_a_module_on_masks_and_complex_numbers() -> None:
    class Masked(torch.nn.Module):
        def forward(self, p: torch.Tensor, q: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
            return torch.where(p & q, z.real, -z.imag)

    x = torch.tensor([True, False]), torch.tensor([True, True]), torch.tensor([1 + 2j, 3 - 4j])
    better = hnfc.optimize(Masked(), x, "accuracy", ranges="sample")
    torch.testing.assert_close(better(*x), Masked()(*x), rtol=0, atol=0)


def test_a_formula_whose_value_is_a_number() -> None:
    """x·log(x) is 0 where x is, and goes on as an operand of other functions."""
    terms = Terms()
    term = terms.make("log1p", terms.make("xlogy", terms.var("x"), terms.var("x")))
    exact, _ = exact_values(term, {"x": np.array([0.0, 1.0, 2.0])})
    np.testing.assert_allclose(exact, [0.0, 0.0, np.log1p(2 * np.log(2))])
