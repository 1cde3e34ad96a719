"""π is exact where a rule says `pi`, and a decimal is what it says."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction

import pytest

from hnfc.dsl.constants import PI, Constant, folded
from hnfc.dsl.core import Literal
from hnfc.dsl.description import describe
from hnfc.dsl.soundness import Status
from hnfc.dsl.soundness.judge import verdict
from tests.soundness.reading import rule_of

PROVED = [
    "sin(x + pi) => -sin(x)",
    "cos(x - pi / 2) => sin(x)",
    "sin(x + 2 * pi) => sin(x)",
    "sin(7 * pi / 4 + x) => sin(x - pi / 4)",
    "tan(x + pi) => tan(x)",
    "pi * x / 180 => x * (pi / 180)",
    "x * pi / pi => x",
    "x / (2 * pi) => x * (0.5 / pi)",
    "sin(pi / 6) * x => x / 2",
    "cos(pi / 4) * x => x * sqrt(1 / 2)",
    "cos(pi / 3) * x + sin(pi / 2) * y + sin(-pi) * y => x / 2 + y",
    "log(2 * pi) + log(x) => log(2 * pi * x)",
    "where(pi > 3.14, x, y) => x",
    "exp(1) ** x => exp(x)",
]

REFUTED = [
    "sin(x + 3.141592653589793) => -sin(x)",
    "3.141592653589793 * x / 180 => 0.017453292519943295 * x",
    "x * 3.141592653589793 => x * pi",
    "x * 3.14159265358979323846 => x * pi",
    "sin(pi * x) => sin(x)",
    "x * 0.3333333333333333 => x / 3",
]


@pytest.mark.parametrize("text", PROVED)
def test_identities_of_pi(text: str) -> None:
    assert verdict(rule_of(text)).proved


@pytest.mark.parametrize("text", REFUTED)
def test_a_decimal_is_what_it_says(text: str) -> None:
    found = verdict(rule_of(text), advise=False)
    assert found.status is Status.REFUTED and found.counterexample is not None
    assert found.counterexample.left != found.counterexample.right


def test_a_multiple_of_pi_is_the_nearest_float_elsewhere() -> None:
    assert float(PI) == math.pi and float(Constant(Fraction(1, 2))) == math.pi / 2
    assert Literal(PI) != Literal(Fraction(math.pi)) and Literal(PI) != Literal(math.pi)
    assert pickle.loads(pickle.dumps(PI)) == PI and hash(abs(-PI)) == hash(PI)
    assert folded("*", Fraction(2), PI) == Constant(Fraction(2)) and folded("/", PI, PI) == 1
    assert folded("-", PI, PI) == 0 and folded("*", PI, PI) is None and folded("+", PI, Fraction(1)) is None
    assert describe(Literal(Constant(Fraction(-3, 2)))) == "-(1.5 * pi)"
