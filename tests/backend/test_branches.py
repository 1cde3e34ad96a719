"""Gradients through `where` in random expressions whose branches share parts, beside those of the branches that are taken."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from hnfc.backend.gradients import mend_gradients

UNARY: list[Callable[[Any], Any]] = [torch.sqrt, torch.log, torch.exp, torch.reciprocal, torch.neg, torch.tanh, torch.abs]
BINARY: list[Callable[[Any, Any], Any]] = [torch.add, torch.mul, torch.div, torch.sub]
POINTS = torch.tensor([-2.0, -0.5, 0.0, 1.0, 3.0], dtype=torch.float64)


class Expression:
    """A program over x and y in which every part may be used again, also behind another condition."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        self.steps: list[tuple[Any, tuple[int, ...]]] = []
        for count in range(2, 10):
            kind = draw.choice(("unary", "binary", "where"))
            operands = tuple(draw.randrange(max(count - 4, 0), count) for _ in range(4))
            functions: list[Any] = UNARY if kind == "unary" else BINARY
            size = {"unary": 1, "binary": 2, "where": 4}[kind]
            self.steps.append(("where" if kind == "where" else draw.choice(functions), operands[:size]))
        # the last parts are branches again and again, under conditions that no branch computes
        for count in range(10, 13):
            self.steps.append(("where", (*draw.sample((0, 1), 2), *(draw.randrange(count - 4, count) for _ in range(2)))))

    def whole(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """All steps on tensors."""
        values = [x, y]
        for function, operands in self.steps:
            given = [values[place] for place in operands]
            values.append(torch.where(given[0] > given[1], given[2], given[3]) if function == "where" else function(*given))
        return values[-1]

    def taken(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The steps that one element needs."""
        values: dict[int, torch.Tensor] = {0: x, 1: y}

        def at(place: int) -> torch.Tensor:
            if place not in values:
                function, operands = self.steps[place - 2]
                if function == "where":
                    values[place] = at(operands[2] if at(operands[0]) > at(operands[1]) else operands[3])
                else:
                    values[place] = function(*map(at, operands))
            return values[place]

        return at(len(self.steps) + 1)


def gradients(run: Callable[..., torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    inputs = [t.clone().requires_grad_() for t in (x, y)]
    out = run(*inputs)
    found = torch.autograd.grad(out.sum(), inputs, allow_unused=True) if out.requires_grad else (None, None)
    return torch.stack([torch.zeros_like(t) if g is None else g for t, g in zip(inputs, found, strict=True)])


@pytest.mark.parametrize("seed", range(40))
def test_shared_parts_have_the_gradients_of_the_branches_that_are_taken(seed: int) -> None:
    program = Expression(seed)
    x, y = (t.reshape(-1) for t in torch.meshgrid(POINTS, POINTS, indexing="ij"))
    graph = make_fx(lambda x, y: program.whole(x, y))(x, y)
    before = gradients(graph, x, y)
    values = graph(x, y)
    mend_gradients(graph.graph)
    graph.graph.lint()
    graph.recompile()
    assert torch.equal(values.nan_to_num(7.0), graph(x, y).nan_to_num(7.0))
    after = gradients(graph, x, y)
    for place in range(len(x)):
        true = gradients(program.taken, x[place], y[place])
        # what was right stays so, and a number is never wrong
        if true.isfinite().all():
            right = torch.allclose(after[:, place], true)
            assert right or not (after[:, place].isfinite().all() or torch.allclose(before[:, place], true))


def test_branches_of_branches_share_a_part() -> None:
    def nested(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        near, far = -torch.expm1(-(n * torch.log1p(x))), 1 - (1 + x) ** -n
        return torch.where(x.abs() < 0.2, near, torch.where(n.abs() < 0.8, torch.where(1 + x > 0, near, far), far))

    x, n = torch.tensor([1e-6, 0.1, 2.0, -20.0, -3.0]), torch.tensor([30.0, 0.5, 0.5, 2.0, 2.0])
    graph = make_fx(nested)(x, n)
    mend_gradients(graph.graph)
    graph.recompile()
    found = gradients(graph, x, n)
    assert found[0].isfinite().all()
    assert torch.allclose(found[0], n * (1 + x) ** (-n - 1), rtol=1e-5)
    assert torch.allclose(found[1][:3], (torch.log1p(x) * (1 + x) ** -n)[:3], rtol=1e-5)


def below(x: torch.Tensor) -> torch.Tensor:
    y = torch.log(x)
    return torch.where(y > -5, y, torch.full_like(y, -5.0))


def replaced(x: torch.Tensor) -> torch.Tensor:
    y = x / x.abs()
    return y.masked_fill(torch.isnan(y), 0.0)


def otherwise(x: torch.Tensor) -> torch.Tensor:
    y = torch.exp(x)
    return torch.where(torch.isinf(y), x, torch.log(1 + y))


@pytest.mark.parametrize(
    ("formula", "slopes"), [(below, [0.0, 1.0, 0.005]), (replaced, [0.0, 0.0, 0.0]), (otherwise, [0.5, 0.7310585975646973, 1.0])]
)
def test_a_condition_may_look_at_what_it_guards(formula: Callable[[torch.Tensor], torch.Tensor], slopes: list[float]) -> None:
    x = torch.tensor([0.0, 1.0, 200.0])
    graph = make_fx(formula)(x)
    values = graph(x)
    assert mend_gradients(graph.graph)
    graph.recompile()
    assert torch.equal(graph(x), values)
    inputs = x.clone().requires_grad_()
    graph(inputs).sum().backward()
    assert inputs.grad is not None and inputs.grad.tolist() == pytest.approx(slopes)
