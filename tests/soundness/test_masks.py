"""Masks of -inf: what has a limit there is proved, what has none is not, and what is wrong is refuted."""

from __future__ import annotations

import numpy as np
import pytest

from hnfc.core.certificates import certificates
from hnfc.core.verdicts import verdicts
from hnfc.dsl.core import Literal
from hnfc.dsl.error import error_reports
from hnfc.dsl.rulebook import load_text
from hnfc.dsl.soundness.balls import MATH, Balls
from hnfc.dsl.soundness.checking import check, only_rule
from hnfc.dsl.soundness.elements import MINUS_INFINITY, UNDEFINED
from hnfc.report.explain import explain

PROVED = [
    "exp(where(m, x, -inf)) => where(m, exp(x), 0)",
    "softmax[k](where(m, x, -inf)) => where(m, exp(x), 0) / sum[k](where(m, exp(x), 0))",
    "softmax[k](x + where(m, 0, -inf)) => softmax[k](where(m, x, -inf))",
    "softmax[k](where(m, x, -inf) + c) => softmax[k](where(m, x, -inf)) where free[k](c)",
    "softmax[k](where(m, -inf, x) / c) => softmax[k](where(m, -inf, x / c)) where c > 0",
    "logsumexp[k](masked_fill(x, m, -inf)) => log(sum[k](where(m, 0, exp(x))))",
    "maximum(where(m, x, -inf), y) => where(m, maximum(x, y), y)",
    "relu(where(m, x, -inf)) => where(m, relu(x), 0)",
    "exp(x - inf) => 0 * x",
    "attention(q, k, v, where(m, 0, -inf), scale = 1) => softmax[-1](where(m, q @ transpose(k), -inf)) @ v",
]
REFUTED = [
    "exp(where(m, x, -inf)) => exp(x)",
    "softmax[k](where(m, x, -inf)) => softmax[k](x)",
    "softmax[k](where(m, x, -inf)) => where(m, softmax[k](x), 0)",
    "softmax[k](where(m, x, -1e9)) => softmax[k](where(m, x, -inf))",
    "sum[k](exp(where(m, x, -inf))) => sum[k](exp(x))",
    "logsumexp[k](where(m, x, -inf)) => logsumexp[k](where(m, x, 0))",
    "maximum(where(m, x, -inf), y) => maximum(x, y)",
    "softmax[k](where(m, x, -inf) + c) => softmax[k](where(m, x, -inf))",
]
OPEN = [
    "where(m, x, -inf) => x",
    "exp(-where(m, x, -inf)) => exp(-x)",
    "where(m, x, -inf) - where(m, y, -inf) => x - y",
    "0 * where(m, x, -inf) => 0 * x",
    "where(m, x, -inf) * where(l, y, -inf) => x * y",
    "sin(where(m, x, -inf)) => sin(x)",
]
"""Rules whose sides have an infinity that is no limit."""


def rule(text: str) -> str:
    sides, _, where = text.partition(" where ") if not text.startswith("where") else (text, "", "")
    return f"rule r\n    {sides}\n" + (f"    where {where}\n" if where else "")


@pytest.mark.parametrize("text", PROVED)
def test_limits_are_proved(text):
    found = check(rule(text))
    assert found.proved, found.reason


@pytest.mark.sampled(3)
@pytest.mark.parametrize("text", REFUTED)
def test_wrong_masks_are_refuted(text):
    assert check(rule(text)).status.value == "REFUTED"


@pytest.mark.parametrize("text", OPEN)
def test_what_has_no_limit_is_not_proved(text):
    assert not check(rule(text)).proved


def test_limits_of_elements():
    nothing, two = Balls(MINUS_INFINITY), Balls.of(2.0)
    assert MATH.exp(nothing).to_float() == 0 and MATH.maximum(nothing, two).to_float() == 2
    for value in (nothing + two, nothing - two, nothing * two, two * nothing, nothing / two, nothing + nothing):
        assert value.values[()] is MINUS_INFINITY
    for value in (two - nothing, nothing - nothing, -nothing, nothing * Balls.of(-1.0), nothing * Balls.of(0.0), two / nothing):
        assert value.values[()] is UNDEFINED
    for function in (MATH.log, MATH.sqrt, MATH.sin, MATH.abs, MATH.floor):
        assert function(nothing).values[()] is UNDEFINED


def test_the_limit_is_that_of_large_numbers():
    """Proved rules hold with -1e4 for -inf, to the digits of float64, wherever a row keeps an element."""
    draw = np.random.default_rng(3)
    x, m = draw.normal(size=(4, 6)), draw.random((4, 6)) < 0.6
    m[:, 0] = True
    masked = np.where(m, x, -1e4)
    kept = np.where(m, np.exp(x), 0)
    assert np.allclose(np.exp(masked) / np.exp(masked).sum(-1, keepdims=True), kept / kept.sum(-1, keepdims=True), rtol=1e-13)


def test_an_infinity_is_taken_as_a_sum():
    assert Literal(-float("inf")) in only_rule(rule("exp(x - inf) => 0 * x")).pattern.operands[0].operands


def test_a_rule_with_a_mask_is_explained_and_has_no_certificate():
    text = "library masks\n" + rule("softmax[k](x + where(m, 0, -inf)) => softmax[k](where(m, x, -inf))").replace("rule r", "rule masked")
    book = load_text(text, "<masks>")
    found = verdicts(book.rules, cached=False)
    assert certificates(book.rules, found)["masked"].reason == "no meaning in the theory: an infinity or a nan"
    page = explain(book, book.rules[0], found["masked"], (), error_reports(book.rules)["masked"], 100)
    assert "the right side both become 0" in page and "Over the reals: PROVED" in page
