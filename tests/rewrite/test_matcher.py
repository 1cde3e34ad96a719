"""What a pattern finds, and what it must not find."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hnfc.rewrite.nary_terms import product_of, sum_of
from tests.graphs import Graph
from tests.soundness.reading import rules_of

SOFTMAX = "rule r exp(x) / sum[k](exp(x)) => softmax[k](x)"
SIGMOID = "rule r 1 / (1 + exp(-x)) => sigmoid(x)"


def test_a_pattern_is_found_in_any_order():
    for order in range(2):
        g = Graph((4,))
        e = g.exp(g.neg(g.args[0]))
        g.returns(g.div(1.0, g.add(1.0, e) if order else g.add(e, 1.0)))
        assert [r.rule.name for r in g.rewrite(SIGMOID).rewrites] == ["r"] and g.names() == ["sigmoid"]


def test_the_same_name_is_the_same_value_even_if_it_is_computed_twice():
    g = Graph((2, 3))
    (x,) = g.args
    g.returns(g.div(g.exp(x), g.sum(g.exp(x), axes=(1,))))
    assert g.rewrite(SOFTMAX).rewrites
    g = Graph((2, 3), (2, 3))
    x, y = g.args
    g.returns(g.div(g.exp(x), g.sum(g.exp(y), axes=(1,))))
    assert not g.rewrite(SOFTMAX).rewrites


def test_factors_that_are_computed_alike_are_a_power():
    square, difference = "rule r exp(x) * exp(x) => exp(2 * x)", "rule r 1 - tanh(x) * tanh(x) => 1 / (cosh(x) * cosh(x))"
    for same in (True, False):
        g = Graph((4,), (4,))
        x, y = g.args[0], g.args[0 if same else 1]
        g.returns(g.mul(g.exp(x), g.exp(y)))
        assert bool(g.rewrite(square).rewrites) == same
        g = Graph((4,), (4,))
        x, y = g.args[0], g.args[0 if same else 1]
        g.returns(g.sub(1.0, g.mul(g.tanh(x), g.tanh(y))))
        assert bool(g.rewrite(difference).rewrites) == same


@pytest.mark.parametrize(
    ("rule", "number", "fires"),
    [
        ("sin(x + pi / 2) => cos(x)", np.pi / 2, True),
        ("sin(x + pi / 2) => cos(x)", 1.5708, False),
        ("sin(x + 0.1) => x", 0.1, True),
        ("sin(x + 0.1) => x", 0.1 + 2.0**-50, False),
        ("sin(x * 0.3) => x", 0.3, True),
        ("sin(pi * x) => x", np.pi, True),
    ],
)
def test_decimals_and_multiples_of_pi_are_the_nearest_float64_in_chains(rule, number, fires):
    g = Graph((4,))
    (x,) = g.args
    g.returns(g.sin(g.add(x, number) if "+" in rule else g.mul(x, number)))
    assert bool(g.rewrite(f"rule r {rule}").rewrites) is fires


def test_axes_are_compared():
    text = "rule r max[k](x) + sum[k](x) => max[k](x)"
    for axes, fires in (((1,), True), ((0,), False), ((0, 1), False)):
        g = Graph((2, 3))
        (x,) = g.args
        g.returns(g.add(g.max(x, axes=(1,)), g.sum(x, axes=axes)))
        assert bool(g.rewrite(text).rewrites) is fires


def test_axis_names_that_differ_are_disjoint_axes():
    text = "rule r sum[j](sum[k](x)) => sum[j, k](x)"
    g = Graph((2, 3, 4))
    g.returns(g.sum(g.sum(g.args[0], axes=(2,)), axes=(0, 1)))
    assert g.rewrite(text).rewrites
    assert str(g.block.first_op).count("[0, 1, 2]") == 1
    g = Graph((2, 3, 4))
    g.returns(g.sum(g.sum(g.args[0], axes=(2,)), axes=(1, 2)))
    assert not g.rewrite(text).rewrites


@pytest.mark.parametrize("inner", [(0,), (1,), (2,), (0, 2), (1, 2)])
def test_two_names_share_the_axes_of_a_sum(inner):
    g = Graph((2, 3, 4))
    g.returns(g.sum(g.mul(g.args[0], g.softmax(g.args[0], axes=inner)), axes=(0, 1, 2)))
    assert g.rewrite("rule r sum[j, k](x * softmax[k](y)) => sum[j](sum[k](x * softmax[k](y)))").rewrites
    sums = [[int(axis) for axis in op.axes.data] for op in g.block.ops if op.name == "num.sum"]
    assert sums == [sorted(inner), sorted({0, 1, 2} - set(inner))]


def test_two_names_need_an_axis_each():
    g = Graph((2, 3))
    g.returns(g.sum(g.mul(g.args[0], g.softmax(g.args[0], axes=(1,))), axes=(1,)))
    assert not g.rewrite("rule r sum[j, k](x * softmax[k](y)) => sum[j](sum[k](x * softmax[k](y)))").rewrites


def test_axes_count_from_the_right_across_ranks():
    text = "rule r sum[k](x) + sum[k](y) => sum[k](x + y)"
    g = Graph((5, 3), (3,))
    x, y = g.args
    g.returns(g.add(g.sum(x, axes=(1,)), g.sum(y, axes=(0,))))
    assert g.rewrite(text).rewrites


def test_scale_and_rest_stay_beside_the_replacement():
    g = Graph((4,), (4,))
    x, y = g.args
    g.returns(g.sub(g.sub(y, g.exp(x)), -1.0))
    before = Graph((4,), (4,))
    before.returns(before.sub(before.sub(before.args[1], before.exp(before.args[0])), -1.0))
    assert g.rewrite("rule r exp(x) - 1 => expm1(x)").rewrites
    assert "expm1" in g.names() and "exp" not in g.names()
    inputs = np.float32([0.1, 1, 2, -3]), np.float32([1, 2, 3, 4])
    np.testing.assert_allclose(g.run(*inputs), before.run(*inputs), rtol=1e-6)


def test_a_wrong_constant_is_no_match():
    g = Graph((4,))
    g.returns(g.add(g.exp(g.args[0]), -2.0))
    assert not g.rewrite("rule r exp(x) - 1 => expm1(x)").rewrites


def test_a_lone_capture_takes_what_is_left():
    g = Graph((4,), (4,))
    a, b = g.args
    g.returns(g.log(g.add(g.add(a, 1.0), b)))
    assert g.rewrite("rule r log(1 + x) => log1p(x)").rewrites
    assert g.names() == ["add", "log1p"]


def test_squares_quotients_and_roots_are_products():
    text = "rule r x / sqrt(y) => y"
    for build in (
        lambda g, x, y: g.mul(x, g.rsqrt(y)),
        lambda g, x, y: g.div(x, g.sqrt(y)),
        lambda g, x, y: g.mul(g.reciprocal(g.sqrt(y)), x),
    ):
        g = Graph((4,), (4,))
        g.returns(build(g, *g.args))
        assert g.rewrite(text).rewrites
    for build in (lambda g, x: g.mul(x, x), lambda g, x: g.square(x)):
        g = Graph((4,))
        g.returns(g.sqrt(build(g, *g.args)))
        assert g.rewrite("rule r sqrt(x * x) => abs(x)").rewrites


def test_a_constant_factor_is_the_coefficient():
    for build in (lambda g, m: g.div(m, 8.0), lambda g, m: g.mul(0.125, m)):
        g = Graph((2, 3), (3, 2))
        g.returns(build(g, g.matmul(*g.args)))
        outcome = g.rewrite("rule r (a @ b) * const s => (a * s) @ b")
        assert outcome.rewrites and g.names() == ["mul", "matmul"]


def test_a_size_must_be_the_size():
    text = "rule r sum[k](x) / size[k](x) => mean[k](x)"
    for divisor, fires in ((3.0, True), (4.0, False)):
        g = Graph((2, 3))
        g.returns(g.div(g.sum(g.args[0], axes=(1,)), divisor))
        assert bool(g.rewrite(text).rewrites) is fires


def test_dtypes_of_captures():
    text = "rule r exp(x : f16 | bf16) => cast(exp(cast(x, f32)), dtype(x))"
    for dtype, fires in (("f16", True), ("bf16", True), ("f32", False)):
        g = Graph((dtype, 4))
        g.returns(g.exp(g.args[0]))
        assert bool(g.rewrite(text).rewrites) is fires


def test_what_others_use_is_not_flattened_away():
    g = Graph((4,), (4,))
    a, b = g.args
    s = g.add(a, 1.0)
    g.returns(g.log(g.add(s, b)), s)
    assert not g.rewrite("rule r log(1 + x) => log1p(x)").rewrites
    assert len(sum_of(g.block.last_op.operands[1]).terms) == 1


def test_structural_rules_match_the_tree_as_written():
    text = "rule r (a + b) + c => a + (b + c) structural"
    g = Graph((4,), (4,), (4,))
    a, b, c = g.args
    g.returns(g.add(a, g.add(b, c)))
    assert not g.rewrite(text).rewrites


def test_chains_are_exact():
    g = Graph((4,), (4,))
    x, y = g.args
    value = g.div(g.mul(g.neg(g.square(x)), 3.0), g.mul(y, g.mul(x, 2.0)))
    g.returns(value)
    product = product_of(value)
    assert product.coefficient == -1.5 and dict(product.factors) == {x: 1, y: -1}


@st.composite
def sums(draw):
    """A random way to write 1 + exp(-x), and how it is bracketed with another term."""
    swap, minus, extra = draw(st.booleans()), draw(st.booleans()), draw(st.booleans())
    return swap, minus, extra


@given(sums())
@settings(max_examples=20, deadline=None)
def test_rewriting_keeps_the_function(choice):
    swap, minus, extra = choice

    def build():
        g = Graph((5,))
        (x,) = g.args
        e = g.exp(g.neg(x)) if minus else g.exp(g.mul(x, -1.0))
        denominator = g.add(e, 1.0) if swap else g.add(1.0, e)
        value = g.div(g.mul(x, 3.0) if extra else 2.0, denominator)
        return g.returns(value)

    before, after = build(), build()
    assert after.rewrite(SIGMOID).rewrites
    x = np.linspace(-4, 4, 5, dtype=np.float32)
    np.testing.assert_allclose(after.run(x), before.run(x), rtol=1e-5)


@pytest.mark.parametrize("count", [3, 60])
def test_long_chains_are_matched_in_time(count):
    g = Graph(*([(4,)] * count))
    value = g.args[0]
    for argument in g.args[1:]:
        value = g.add(value, g.exp(argument))
    g.returns(g.add(value, -1.0))
    assert g.rewrite("rule r exp(x) - 1 => expm1(x)").rewrites


def test_rules_are_tried_largest_first():
    book = rules_of("rule small log(1 + x) => log1p(x)\nrule large log(1 + exp(x)) => softplus(x)")
    g = Graph((4,))
    g.returns(g.log(g.add(g.exp(g.args[0]), 1.0)))
    assert [r.rule.name for r in g.rewrite(book).rewrites] == ["large"]


def test_vectors_are_no_matrices():
    """num.matmul takes vectors; rules are proved for matrices, and false for some products of vectors."""
    text = "rule r (a @ b) * s => a @ (b * s) where free[-2](s)"
    g = Graph((3,), (3, 4), (4,))
    a, b, s = g.args
    g.returns(g.mul(g.matmul(a, b), s))
    assert not g.rewrite(text).rewrites
    g = Graph((2, 3), (3, 4), (4,))
    a, b, s = g.args
    g.returns(g.mul(g.matmul(a, b), s))
    assert g.rewrite(text).rewrites


def test_a_splat_that_widens_is_no_number():
    """Σ over a broadcast axis counts the splat's elements: c * sum(x) would lose the factor 3 for x of size 1."""
    text = "rule r sum[k](const c * x) => c * sum[k](x)"

    def build():
        g = Graph((2, 1))
        return g.returns(g.sum(g.mul(g.constant(2, shape=(2, 3)), g.args[0]), axes=(1,)))

    assert not build().rewrite(text).rewrites
    g = build()
    assert g.rewrite(text.replace("const c", "2").replace("c *", "2 *")).rewrites, "x may stand for half of the product"
    x = np.float32([[1], [5]])
    np.testing.assert_array_equal(g.run(x)[0], build().run(x)[0])
    g = Graph((2, 3))
    g.returns(g.sum(g.mul(2.0, g.args[0]), axes=(1,)))
    assert g.rewrite(text).rewrites


def test_rules_do_not_run_on_empty_axes():
    g = Graph((2, 0))
    (x,) = g.args
    g.returns(g.div(g.exp(x), g.sum(g.exp(x), axes=(1,))))
    assert not g.rewrite(SOFTMAX).rewrites
