"""Other writings of polynomials: each is the same function, and the searches find the one that does not cancel."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
import torch

import hnfc
from hnfc.accuracy import improve
from hnfc.accuracy.arithmetic import TermSimplifier
from hnfc.accuracy.factoring import PolynomialForms
from hnfc.accuracy.terms import Term, Terms
from tests.accuracy.programs import one, rules, term
from tests.accuracy.test_steps import same_values
from tests.pytorch.examples import Plain

NEAR = "(and (<= 0.99 x 1.01) (<= 0.99 y 1.01))"
CANCELLING = [
    ("(- (+ (- (* x (* x x)) (* 3 (* x x))) (* 3 x)) 1)", "x", "(<= 0.99 x 1.01)"),
    ("(- (* x (* x x)) (* y (* y y)))", "x y", NEAR),
    ("(- (* (+ x y) (+ x y)) (* 4 (* x y)))", "x y", NEAR),
    ("(+ (- (- (* x y) x) y) 1)", "x y", NEAR),
    ("(- (/ (+ x y) 2) (/ (* 2 (* x y)) (+ x y)))", "x y", NEAR),
    ("(+ (- (+ (* x x) (* y y)) (* 2 (* x y))) (* 1e-9 x))", "x y", NEAR),
    ("(+ (- (exp (* 2 x)) (* 2 (exp x))) 1)", "x", "(<= -0.01 x 0.01)"),
    ("(+ (- x (* 2 (sqrt x))) 1)", "x", "(<= 0.99 x 1.01)"),
    ("(- (+ x (* 3 (cbrt x))) (+ (* 3 (* (cbrt x) (cbrt x))) 1))", "x", "(<= 0.99 x 1.01)"),
    ("(- (pow x 5) (* x x))", "x", "(<= 0.99 x 1.01)"),
    ("(- 1 (* (* x x) (- 3 (* 2 x))))", "x", "(<= 0.9 x 1)"),
    ("(- x (/ (* x y) (+ x y)))", "x y", "(and (<= 1 x 1.01) (<= 1e4 y 1e6))"),
    ("(- (/ (+ (* x x) (+ (* y y) (* z z))) 3) (* (/ (+ x (+ y z)) 3) (/ (+ x (+ y z)) 3)))", "x y z",
     "(and (<= 0.99 x 1.01) (<= 0.99 y 1.01) (<= 0.99 z 1.01))"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "arguments", "pre"), CANCELLING)
def test_a_polynomial_that_cancels_is_written_otherwise(text: str, arguments: str, pre: str) -> None:
    found = improve(one(text, arguments, pre), rules())
    assert found.before > 3 and found.after < 1


def random_sum(draw: random.Random, terms: Terms) -> Term:
    """Products of factors that have much in common, added up and expanded."""
    atoms = [terms.var("x"), terms.var("y"), *(terms.make(f, terms.var("x")) for f in ("sqrt", "exp", "cbrt"))]
    chosen = draw.sample(atoms, 2)
    factors = [
        terms.make(draw.choice(("add", "sub")), draw.choice(chosen), draw.choice([*chosen, terms.const(draw.randint(1, 3))]))
        for _ in range(draw.randint(2, 3))
    ]
    product = factors[0]
    for factor in factors[1:]:
        product = terms.make("mul", product, factor)
    if draw.random() < 0.5:
        product = terms.make("div", product, draw.choice(factors))
    return terms.make(draw.choice(("add", "sub")), product, draw.choice(chosen))


@pytest.mark.parametrize("seed", range(8))
def test_other_writings_have_the_same_values(seed: int) -> None:
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    points = {name: rng.uniform(-3, 3, 40) for name in ("x", "y")}
    made = 0
    for _ in range(6):
        terms = Terms()
        arithmetic = TermSimplifier(terms)
        total = random_sum(draw, terms)
        expanded = arithmetic.polynomial(total)
        assert expanded is not None
        for start in (total, arithmetic.term(expanded)):
            for form in PolynomialForms(arithmetic).of(start):
                made += same_values(start, form, points, None) > 0
    assert made >= 5


def test_what_is_no_sum_or_has_one_factor_has_no_other_writing() -> None:
    terms = Terms()
    forms = PolynomialForms(TermSimplifier(terms))
    for text in ("(* x y)", "(+ x y)", "(+ (* x x) (+ y 1))", "(exp (- x y))"):
        assert not list(forms.of(term(text, "x y", terms)))


def law_of_cosines(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    return torch.sqrt(a * a + b * b - 2 * a * b * torch.cos(c))


T = torch.tensor
MODELS: dict[str, tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]] = {
    "law of cosines": (law_of_cosines, (T([1.0, 2.0, 30.0]), T([1.0, 2.0001, 30.0]), T([1e-4, 1e-3, 1e-5]))),
    "cube": (lambda x: x**3 - 3 * x**2 + 3 * x - 1, (T([1.01, 0.97, 1.001]),)),
    "means": (lambda a, b: (a + b) / 2 - 2 * a * b / (a + b), (T([[1.0], [2.0]]), T([[1.0078125], [2.015625]]))),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("dtype", [torch.float32, pytest.param(torch.bfloat16, marks=pytest.mark.slow)])
def test_tensors(name: str, dtype: torch.dtype) -> None:
    function, sample = MODELS[name]
    given = tuple(x.to(dtype) for x in sample)
    exact = function(*(x.double() for x in given))
    before, after = (f(*given).double() for f in (function, hnfc.optimize(Plain(function), given)))
    unit = torch.finfo(dtype).eps
    assert ((after - exact).abs() <= 8 * unit * exact.abs()).all()
    assert ((before - exact).abs() > 50 * unit * exact.abs()).any()
