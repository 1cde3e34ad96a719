"""Known cases: the formulas are those of the textbooks."""

from __future__ import annotations

import numpy as np
import pytest

from hnfc.dsl.error import context_of, lipschitz_of, rounding_of, sensitivity_of
from hnfc.dsl.error.floating import evaluate
from tests.error.running import rule_of

C = 8  # how many units roundoff exp, log, … may be off by (FACTS.ulps)


def bound(text, right=False, where=""):
    rule = rule_of(f"{text} {where}")
    side = rule.replacement if right else rule.pattern
    return rounding_of(context_of(rule), side, frozenset(n for n in "abcdefgxyz"))[0].text


@pytest.mark.parametrize(
    ("side", "expected"),
    [
        ("x + y", "|x + y|"),
        ("x * y", "|x|·|y|"),
        ("x / y", "|x|/|y|"),
        ("x * y * z", "2·|x|·|y|·|z|"),
        # Higham 2002, section 4.2: recursive summation
        ("sum[k](x)", "(n - 1)·Σ_k(|x|)"),
        # section 3.1: a dot product, γ_n |x|ᵀ|y|
        ("sum[k](x * y)", "n·Σ_k(|x|·|y|)"),
        ("a @ b", "n·(|a| @ |b|)"),
        ("pairwise_sum[k](x)", "⌈log₂(n)⌉·Σ_k(|x|)"),
        # Neumaier 1974: to first order only the last rounding is left
        ("kahan_sum[k](x)", "|Σ_k(x)|·min(n - 1, 1)"),
        # section 1.8: the difference of squares, and its product form
        ("a * a - b * b", "a² + b² + |a² - b²|"),
        ("(a - b) * (a + b)", "3·|a + b|·|a - b|"),
        # Kahan's determinant (Jeannerod, Louvet, Muller 2013): what w loses comes back
        ("fma(a, b, -(c * d)) + fma(-c, d, c * d)", "2·|a·b - c·d|"),
        # section 27.8: the Euclidean norm
        ("sqrt(sum[k](x * x))", "(n + 4)·√(Σ_k(x²))/2"),
        # no rounding
        ("abs(neg(max(x, y)))", "0"),
        ("2 * x / 4", "0"),
        ("transpose(x)", "0"),
        ("where(x > 0, x, y)", "0"),
        # a number that no binary format holds is rounded once
        ("x + 0.1", "|x + 1/10| + 1/10"),
        ("exp(x)", f"{C}·exp(x)"),
        ("exp(x + y)", f"(|x + y| + {C})·exp(x + y)"),
    ],
)
def test_rounding(side, expected):
    rule = rule_of(f"{side} => {side} + 0")
    text = rounding_of(context_of(rule), rule.pattern, frozenset("abcdxyz"))[0].text
    assert same(text, expected), text


def same(text, expected):
    """Equal up to the order of terms and of operands of a difference in bars."""

    def parts(t):
        return sorted(t.replace("(", " ( ").replace(")", " ) ").replace("|", " | ").replace("·", " ").split())

    return parts(text) == parts(expected)


def values(side, inputs, where=""):
    """The bound over u on the inputs, from the formula."""
    rule = rule_of(f"{side} => {side} + 0 {where}")
    formula = rounding_of(context_of(rule), rule.pattern, frozenset())[0]
    arrays = {name: np.asarray(v, np.float64) for name, v in inputs.items()}
    return evaluate(formula.expression, arrays, {"k": (-1,)})


def test_naive_variance_is_proportional_to_the_squares_and_two_passes_to_the_variance():
    """Chan, Golub, LeVeque 1983: κ²·n·u against n·u; the mean's own error cancels to first order."""
    x = 1e4 + np.array([1.0, 2.0, 4.0])
    naive = values("mean[k](x * x) - mean[k](x) * mean[k](x)", {"x": x})
    twice = values("mean[k](square(x - mean[k](x)))", {"x": x})
    n, spread = 3, np.var(x)
    assert naive > n * np.mean(x**2)
    # each difference is rounded (2), each square (1), the sum (n - 1), the quotient (1)
    assert np.isclose(twice, (n + 3) * spread, rtol=1e-6)


def test_conjugate_of_a_difference_of_roots():
    """√(x+1) - √x loses all digits, 1/(√(x+1) + √x) none (Higham 2002, problem 1.4)."""
    x = 1e8
    root = np.sqrt(x)
    where = "where x > 0"
    value = 1 / (np.sqrt(x + 1) + root)
    naive, conjugate = (values(side, {"x": x}, where) / value for side in ("sqrt(x + 1) - sqrt(x)", "1 / (sqrt(x + 1) + sqrt(x))"))
    # (½ + 2)·√(x+1) + 2·√x, and the difference itself; a root is off by two units at most
    assert np.isclose(naive, 4.5 * root / value + 1, rtol=1e-6)
    assert np.isclose(conjugate, 4.25, rtol=1e-6)


def test_logarithm_near_one():
    """log(1 + x) has an absolute error of u, log1p(x) a relative one."""
    assert np.isclose(values("log(1 + x)", {"x": 1e-9}), 1, rtol=1e-6)
    assert np.isclose(values("log1p(x)", {"x": 1e-9}), C * 1e-9, rtol=1e-6)


def test_softmax():
    """Blanchard, Higham, Higham 2021: n + const without a shift, and on top of it the distances to the maximum with one."""
    x = np.array([0.0, -3.0, 2.0])
    p = np.exp(x) / np.exp(x).sum()
    plain = values("exp(x) / sum[k](exp(x))", {"x": x})
    assert np.allclose(plain, (3 + 2 * C) * p)
    shifted = values("softmax[k](x)", {"x": x})
    far = 2.0 - x
    assert np.allclose(shifted, (3 + 2 * C + far + (p * far).sum()) * p)


def test_one_error_counts_once_where_its_paths_meet():
    """(e - 1)/(e + 1): the error of e counts with the derivative 2/(e + 1)², not with the sum over both uses."""
    x = 20.0
    e = np.exp(x)
    bound_ = values("(exp(x) - 1) / (exp(x) + 1)", {"x": x})
    assert np.isclose(bound_, 3 * (e - 1) / (e + 1) + C * e * 2 / (e + 1) ** 2)


def test_half_precision_roundings_in_float32_are_of_second_order():
    text = bound("exp(x : f16 | bf16) => cast(exp(cast(x, f32)), dtype(x))", right=True)
    assert text == "exp(x)"


def sensitivities(text, name):
    rule = rule_of(text)
    context = context_of(rule)
    return (
        sensitivity_of(context, rule.pattern, name, frozenset()).text,
        lipschitz_of(context, rule.pattern, name, frozenset()).text,
        lipschitz_of(context, rule.replacement, name, frozenset()).text,
    )


def test_the_paths_show_what_cancels():
    assert sensitivities("x - x + y => y + 0 * x", "x") == ("0", "2", "0")
    true, left, right = sensitivities("x / x * y => y + 0 * x", "x")
    assert (true, right) == ("0", "0") and same(left, "2·|y|/|x|")
    assert sensitivities("sum[k](x) => sum[k](x) * 1", "x") == ("n", "n", "n")
    assert sensitivities("mean[k](x) => sum[k](x) / size[k](x)", "x") == ("1", "1", "1")
