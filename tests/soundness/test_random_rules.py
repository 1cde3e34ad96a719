"""Random expressions against their mutants: what the proof accepts, the search must not break."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from hnfc.dialects.num import OPERATIONS
from hnfc.dsl.core import AllOf, Apply, Axes, Capture, Comparison, Condition, Expr, Free, Literal, Rule, SameSize
from hnfc.dsl.soundness import refute
from tests.soundness.mutation import mutants
from tests.soundness.test_mutants import proves

NAMES = ("x", "y", "c")
UNARY = (
    "neg",
    "abs",
    "exp",
    "log",
    "sqrt",
    "square",
    "sigmoid",
    "relu",
    "tanh",
    "reciprocal",
    "log1p",
    "sin",
    "cos",
    "erf",
    "sign",
    "rsqrt",
)
BINARY = ("add", "sub", "mul", "div", "maximum", "minimum", "add", "mul", "pow", "hypot")
REDUCTIONS = ("sum", "sum", "max", "min", "mean", "prod")
ZERO = Literal(Fraction(0))


class Generator:
    """Expressions over three captures; with `matrices`, also products and transposes over the last two axes."""

    def __init__(self, seed: int, matrices: bool) -> None:
        self.random, self.matrices = random.Random(seed), matrices
        self.axes: tuple[Axes, ...] = ((-1,), (-2,), (-1, -2)) if matrices else (("k",), ("j",), ("k", "j"))

    def expression(self, depth: int) -> Expr:
        choose = self.random
        if depth <= 0 or choose.random() < 0.12:
            if choose.random() < 0.8:
                return Capture(choose.choice(NAMES))
            return Literal(Fraction(choose.choice((0, 1, 2, -1, 3))))
        kind = choose.random()
        if self.matrices and kind < 0.3:
            return Apply(OPERATIONS["matmul"], (self.expression(depth - 1), self.expression(depth - 1)))
        if self.matrices and kind < 0.4:
            return Apply(OPERATIONS["transpose"], (self.expression(depth - 1),), (("perm", "last_two"),))
        if kind < 0.35:
            return Apply(OPERATIONS[choose.choice(UNARY)], (self.expression(depth - 1),))
        if kind < 0.75:
            return Apply(OPERATIONS[choose.choice(BINARY)], (self.expression(depth - 1), self.expression(depth - 1)))
        if kind < 0.93:
            axes = (("axes", choose.choice(self.axes)),)
            return Apply(OPERATIONS[choose.choice(REDUCTIONS)], (self.expression(depth - 1),), axes)
        predicate = (("predicate", choose.choice(("gt", "ge", "eq"))),)
        cond = Apply(OPERATIONS["compare"], (self.expression(depth - 2), self.expression(0)), predicate)
        return Apply(OPERATIONS["where"], (cond, self.expression(depth - 1), self.expression(depth - 1)))

    def condition(self) -> Condition:
        choose = self.random
        parts: list[Condition] = []
        for name in NAMES:
            if choose.random() < 0.35:
                parts.append(Comparison(choose.choice(("gt", "ge", "ne", "lt")), Capture(name), ZERO))
            if choose.random() < 0.25:
                parts.append(Free(Capture(name), self.axes[0]))
        if choose.random() < 0.3:
            parts.append(SameSize(Capture("x"), Capture("y"), self.axes[0]))
        return AllOf(tuple(parts))


def check(seed: int, matrices: bool, count: int) -> None:
    generator = Generator(seed, matrices)
    for number in range(count):
        side = generator.expression(generator.random.choice((2, 3, 3, 4)))
        rule = Rule(f"random{seed}/{number}", "test", "", "", side, side, generator.condition())
        found = list(mutants(rule))
        for what, mutant in generator.random.sample(found, min(5, len(found))):
            if proves(mutant, 500_000):
                broken = refute.search(mutant, 300, seed=5)
                assert broken.counterexample is None, f"{what} of {side} under {rule.where}: {broken.counterexample}"


@pytest.mark.slow
@pytest.mark.parametrize("matrices", [False, True])
def test_some_random_rules(matrices: bool) -> None:
    check(0, matrices, 4)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 9))
@pytest.mark.parametrize("matrices", [False, True])
def test_random_rules(seed: int, matrices: bool) -> None:
    check(seed, matrices, 60)


def test_a_capture_of_conditions_only_restricts_no_shape_of_the_sides() -> None:
    """max = min where every size is 1: a size that equals an unrelated one is no such size."""
    y = Capture("y")
    sides = [Apply(OPERATIONS[name], (y,), (("axes", ("k",)),)) for name in ("max", "min")]
    rule = Rule("extremes", "test", "", "", sides[0], sides[1], SameSize(Capture("x"), y, ("k",)))
    assert not proves(rule)
