"""What must not happen: a rewrite that changes the function over the reals, its domain, its shape or its type."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from hnfc.analysis.ranges import Ranges
from hnfc.core.interpreter import evaluate_exactly
from hnfc.core.value_numbering import Numbering
from hnfc.dialects.facts import Access
from hnfc.dialects.interval import Interval
from hnfc.dialects.num import OPERATIONS
from hnfc.dialects.num.base import BinaryOp, UnaryOp
from hnfc.dialects.types import DYNAMIC, ELEMENT_TYPES, TypeMismatch
from hnfc.dsl import core
from hnfc.rewrite.builder import DoesNotFit, ReplacementBuilder, fold, held, round_number
from hnfc.rewrite.canonicalization import canonicalize
from hnfc.rewrite.conditions import ConditionChecker, Observations
from hnfc.rewrite.matcher import CompiledRule, Match
from hnfc.rewrite.nary_terms import product_of, sum_of
from hnfc.rewrite.pattern import compile_pattern
from tests.graphs import Graph
from tests.soundness.reading import rules_of

F32 = ELEMENT_TYPES["f32"]


def judged(condition: str, names: dict, intervals: dict | None = None, *, expected: bool | None) -> None:
    """Asserts what the judge says of a `where` on a match that binds these names."""
    axes = "[k]" if "[k]" in condition else ""
    uses = " + ".join(f"sum{axes}({n})" if axes else n for n in names)
    (rule,) = rules_of(f"rule r exp({uses}) => log({uses}) where {condition}")
    g = Graph((2, 3))
    root = g.exp(g.args[0]).owner
    bindings = {"axis k": frozenset({-1, -2}), **names}
    match = Match(CompiledRule(rule, compile_pattern(rule.pattern, False), rule.replacement), root, bindings)
    judge = ConditionChecker(match, Ranges(intervals or {}), Observations())
    assert judge.judge(rule.where).holds is expected
    judge.close()


# conditions


def test_equal_counts_are_not_equal_sizes():
    """6x1 and 1x6 have as many elements along both axes, and both are broadcast."""
    text = "rule r sum[k](x) + sum[k](y) => sum[k](x + y) where size[k](x) = size[k](y)"
    g = Graph((6, 1), (1, 6))
    x, y = g.args
    g.returns(g.add(g.sum(x, axes=(0, 1)), g.sum(y, axes=(0, 1))))
    assert not g.rewrite(text).rewrites
    judged("size[k](x) = size[k](y)", {"x": x, "y": y}, expected=False)


def test_sizes_that_are_not_known_are_equal_to_nothing():
    g = Graph((2, DYNAMIC), (2, DYNAMIC), (2, 1))
    x, y, one = g.args
    judged("size[k](x) = size[k](y)", {"x": x, "y": y}, expected=None)
    judged("free[k](x)", {"x": x}, expected=None)
    judged("not free[k](x)", {"x": x}, expected=None)
    judged("free[k](x)", {"x": one}, expected=False)


def test_what_is_not_known_does_not_hold_under_not_or():
    g = Graph((3,), (3,))
    x, y = g.args
    below = {y: Interval(-2.0, -1.0)}
    judged("not (x > 0 or y > 0)", {"x": x, "y": y}, below, expected=None)
    judged("not (y > 0 or x > 0)", {"x": x, "y": y}, below, expected=None)
    judged("not (x > 0 and y > 0)", {"x": x, "y": y}, {**below, x: Interval(-1.0, -1.0)}, expected=True)
    judged("x > 0 or y < 0", {"x": x, "y": y}, below, expected=True)
    judged("not dtype(x) = f32", {"x": Fraction(1)}, expected=None)


def test_comparisons_with_numbers_that_float64_does_not_hold():
    third, tiny = Fraction(1, 3), Fraction(1, 10**400)
    judged("c <= 0", {"c": tiny}, expected=None)
    judged("c = 0", {"c": tiny}, expected=None)
    judged("c > 0", {"c": Fraction(10) ** 400}, expected=True)
    judged("integral(c)", {"c": third}, expected=False)
    judged("integral(c)", {"c": Fraction(2**60 * 2 + 1, 2)}, expected=False)
    judged("integral(c)", {"c": Fraction(10) ** 400}, expected=True)
    judged("integral(c)", {"c": math.inf}, expected=False)


def test_a_condition_on_a_let_and_on_a_sum_of_others():
    text = "rule r log(exp(m) * m) => m + log(m) where s > 0 let s = m - 1"

    def build(low):
        g = Graph((3,), (3,))
        m = g.add(g.args[0], g.args[1])
        g.returns(g.log(g.mul(g.exp(m), m)))
        return g, np.float32([low, 2, 3]), np.float32([0, 0, 0])

    for low, fires in ((1.5, True), (0.5, False)):
        g, a, b = build(low)
        assert bool(g.rewrite(text, a, b).rewrites) is fires


# what a match takes


def test_a_factor_that_cancels_keeps_its_shape():
    """Σ_k x·y/x for x of size 2 and y of size 1 along k is 2·y."""
    text = "rule r sum[k](c * x) => c * sum[k](x) where free[k](c)"

    def build():
        g = Graph((2, 3), (1, 3), (1, 3))
        x, y, c = g.args
        return g.returns(g.sum(g.mul(c, g.div(g.mul(x, y), x)), axes=(0,)))

    g = build()
    inputs = [np.float32(np.arange(1, 1 + n).reshape(-1, 3)) for n in (6, 3, 3)]
    g.rewrite(text)
    np.testing.assert_allclose(g.run(*inputs)[0], build().run(*inputs)[0])
    g = Graph((2, 3))
    (x,) = g.args
    assert len(product_of(g.div(x, x)).factors) == 2
    assert sum_of(g.add(x, g.mul(2.0, 3.0))).constant == 6


def test_a_denominator_does_not_take_a_factor_of_the_numerator():
    """x²·c is x²/(1/c) only where c is not 0."""
    text = "rule r log(1 + x * x / n) => log1p(square(x / sqrt(n))) where n > 0"
    g = Graph((3,), (3,))
    x, c = g.args
    g.returns(g.log(g.add(1.0, g.mul(g.square(x), c))))
    assert not g.rewrite(text, np.float32([1, 2, 3]), np.float32([0, 1, 2])).rewrites
    g = Graph((3,), (3,))
    x, c = g.args
    g.returns(g.log(g.add(1.0, g.div(g.square(x), c))))
    assert g.rewrite(text, np.float32([1, 2, 3]), np.float32([0.5, 1, 2])).rewrites


def test_an_infinity_is_no_constant_of_a_rule():
    g = Graph((3,))
    g.returns(g.maximum(g.exp(g.args[0]), math.inf))
    assert not g.rewrite("rule r maximum(exp(x), const c) => exp(x) * c").rewrites


def test_a_constant_of_higher_rank_is_a_number_and_keeps_the_rank_of_the_result():
    g = Graph((3,))
    g.returns(g.log(g.add(g.constant(1, shape=(1, 1)), g.args[0])))
    assert g.rewrite("rule r log(1 + x) => log1p(x)").rewrites
    assert g.run(np.float32([1, 2, 3]))[0].shape == (1, 3)


# element types


@pytest.mark.parametrize("element", ["si8", "si64", "ui8", "i1", "complex<f32>"])
def test_arithmetic_that_is_not_over_the_reals_is_left_alone(element):
    text = (
        "rule a a / b / c => a / (b * c)\nrule b x * x => abs(x) * abs(x)\nrule c neg(neg(x)) => x structural\n"
        "rule d a + b => b + a structural\nrule e sum[k](x) => mean[k](x)\nrule f abs(x) => x"
    )
    g = Graph((element, 2, 3), (element, 2, 3))
    x, y = g.args
    values = [g.mul(x, x), g.add(x, y), g.sum(x, axes=(0,))]
    if element != "i1":
        values += [g.neg(g.neg(y)), g.abs(x)]
    if element.startswith("complex"):
        values.append(g.div(g.div(x, y), x))
    g.returns(*values)
    assert not g.rewrite(text).rewrites


def test_integers_below_a_comparison_or_a_cast_are_left_alone():
    g = Graph(("si8", 3), ("si8", 3))
    x, y = g.args
    g.returns(g.compare(g.add(x, y), g.constant(0, "si8"), predicate="gt"), g.cast(g.mul(x, y), to="f32"))
    text = (
        "rule a (x + y) > 0 => x > -y structural\nrule b cast(x * y, f32) => cast(x, f32) * cast(y, f32)\n"
        "rule c x > 0 => exp(x) > 1 structural\nrule d cast(x, f32) => cast(2 * x, f32) / 2"
    )
    assert not g.rewrite(text).rewrites


def test_a_cast_to_integers_is_no_identity():
    g = Graph((3,))
    g.returns(g.cast(g.cast(g.args[0], to="si64"), to="f32"))
    assert not g.rewrite("rule r cast(cast(x, si64), f32) => x").rewrites
    exact = evaluate_exactly(g.block, {g.args[0]: np.float32([1.5, -1.5, 2])}, [g.block.last_op.operands[0]], None, budget=1000)
    assert [v.tolist() for v in exact.values()] == [[1, -1, 2]]


def test_movement_and_choice_are_the_same_on_integers():
    g = Graph(("si64", 2, 3), ("i1", 2, 3))
    x, p = g.args
    g.returns(g.transpose(g.transpose(x, perm=(1, 0)), perm=(1, 0)), g.where(p, x, x))
    assert len(g.rewrite("rule a transpose(transpose(x)) => x\nrule b where(p, a, a) => a").rewrites) == 2


def test_8_bit_floats_are_real_numbers_too():
    g = Graph(("f8E4M3FN", 3))
    g.returns(g.log(g.add(1.0, g.cast(g.args[0], to="f32"))))
    assert g.rewrite("rule r log(1 + x) => log1p(x)").rewrites
    assert round_number(Fraction(10**6), "f8E4M3FN") == 448, "as round_to saturates"


# sizes that are not known when compiling


def test_a_result_whose_size_may_differ_does_not_fit():
    text = "rule r where(p, a, a) => a"
    g = Graph(("i1", DYNAMIC), (DYNAMIC,))
    p, a = g.args
    g.returns(g.where(p, a, a))
    assert not g.rewrite(text).rewrites, "a may have size 1 where p has 5"
    g = Graph(("i1", 1), (DYNAMIC,))
    p, a = g.args
    g.returns(g.where(p, a, a))
    assert g.rewrite(text).rewrites


def test_known_ways_of_an_unknown_size():
    text = "rule a exp(x) / sum[k](exp(x)) => softmax[k](x)\nrule b a @ b @ c => a @ (b @ c)\nrule c log(1 + x) => log1p(x)"
    g = Graph((DYNAMIC, 4), (4, 4), (4, 4))
    x, w, v = g.args
    e = g.exp(g.add(g.transpose(g.transpose(x, perm=(1, 0)), perm=(1, 0)), x))
    g.returns(g.div(e, g.sum(e, axes=(1,))), g.matmul(g.matmul(x, w), v), g.log(g.add(1.0, g.add(x, x))))
    assert len(g.rewrite(text).rewrites) == 3
    g.verify()


def test_sizes_that_nothing_says_are_equal_are_not_contracted_or_combined():
    distribute = "rule r (a + b) @ c => a @ c + b @ c"
    g = Graph((4, DYNAMIC), (4, DYNAMIC), (DYNAMIC, 3))
    a, b, c = g.args
    g.returns(g.matmul(g.add(a, b), c))
    assert not g.rewrite(distribute).rewrites, "b may have one column, which is broadcast"
    g = Graph((4, DYNAMIC), (DYNAMIC, 3))
    a, c = g.args
    g.returns(g.matmul(g.add(g.exp(a), g.log(a)), c))
    assert g.rewrite(distribute).rewrites, "both have the columns of a"
    g.verify()
    merge = "rule r sum[k](a) * sum[k](b) => sum[k](a) * sum[k](b) + sum[k](0 * (a + b))"
    for sizes, fires in (((DYNAMIC,), (DYNAMIC,)), False), (((3,), (3,)), True):
        g = Graph(*sizes)
        a, b = g.args
        g.returns(g.mul(g.sum(a, axes=(0,)), g.sum(b, axes=(0,))))
        assert bool(g.rewrite(merge).rewrites) is fires


# building


def test_numbers_that_cannot_be_held_are_not_built():
    big = Fraction(10) ** 300
    for number in (big * big, 1 / (big * big), -big * big):
        with pytest.raises(DoesNotFit):
            held(number, F32)
    with pytest.raises(DoesNotFit):
        held(Fraction(10) ** 39, F32)
    with pytest.raises(DoesNotFit):
        held(Fraction(1, 2), ELEMENT_TYPES["si64"])
    with pytest.raises(DoesNotFit):
        held(Fraction(300), ELEMENT_TYPES["ui8"])
    assert held(Fraction(1, 10), F32) == 0.1


@pytest.mark.parametrize("name, number", [("exp", 1000), ("exp", -1000), ("log", 0), ("sqrt", -1), ("exp", Fraction(10) ** 400)])
def test_functions_of_numbers_that_have_no_float64_are_not_folded(name, number):
    with pytest.raises(DoesNotFit):
        fold(name, [Fraction(number)], {})


def test_division_by_zero_and_large_products_leave_the_graph_alone():
    g = Graph((3,))
    (x,) = g.args
    g.returns(g.log(g.add(1.0, g.mul(g.mul(x, 1e300), 1e300))), g.mul(g.exp(x), 0.0))
    before = str(g.names())
    g.rewrite("rule r log(1 + x) => log1p(x)\nrule s exp(x) => 1 / (x * 0 + 0)\nrule t exp(x) * const c => exp(x + log(c))")
    assert "log1p" not in before
    g.verify()


def test_a_cast_of_a_number_keeps_its_digits():
    """eps = 1e-12 is 0 in f16."""
    builder = ReplacementBuilder({"c": Fraction(1, 10**12)}, ELEMENT_TYPES["f16"])
    cast = core.Apply(OPERATIONS["cast"], (core.Capture("c"),), (("to", "f16"),))
    assert builder.build(cast) == Fraction(1, 10**12)


def test_attributes_are_exact_numbers():
    text = "rule r layer_norm[k](x, eps=const e) * const c => (x - mean[k](x)) / sqrt(var[k](x, correction=0) + e) * c"
    g = Graph((2, 3))
    g.returns(g.mul(g.layer_norm(g.args[0], axes=(1,), eps=0.1), 3.0))
    assert g.rewrite(text).rewrites
    assert "0.1" in str([op.properties for op in g.block.ops])


# operations whose operands would widen their result


def test_parameters_that_widen_have_no_type():
    g = Graph((1, 3), (2, 3), (3,))
    x, wide, row = g.args
    with pytest.raises(TypeMismatch):
        g.batch_norm(x, wide, row, eps=1.0)
    with pytest.raises(TypeMismatch):
        g.layer_norm(x, wide, axes=(1,), eps=1.0)
    g.batch_norm(x, row, row, eps=1.0)
    g = Graph((2, 4), (1, 4), (5, 4), (2, 5), (5, 3), (2, 2, 5))
    q, one, k, mask, v, batches = g.args
    with pytest.raises(TypeMismatch):
        g.attention(q, one, v, mask, scale=1.0, causal=False)
    with pytest.raises(TypeMismatch):
        g.attention(q, k, v, batches, scale=1.0, causal=False)
    with pytest.raises(TypeMismatch):
        g.attention(mask, k, v, scale=1.0, causal=False)
    g.attention(q, k, v, mask, scale=1.0, causal=False)


# numbers of values


def test_value_numbers_tell_types_and_properties_apart():
    g = Graph((2, 3))
    (x,) = g.args
    numbering = Numbering()
    a = g.iota(start=0.0, step=1.0, element="f32", shape=(3,))
    b = g.iota(start=0.0, step=1.0, element="f32", shape=(2,))
    assert numbering.of(a) != numbering.of(b)
    p, q = OPERATIONS["slice"].make(x, axis=0, start=1, stop=2, step=1), OPERATIONS["slice"].make(x, axis=1, start=0, stop=2, step=1)
    q.properties = dict(sorted(q.properties.items(), key=lambda item: ("start", "axis", "stop", "step").index(item[0])))
    assert [str(v) for v in p.properties.values()] != [] and numbering.of(p.results[0]) != numbering.of(q.results[0])
    same = OPERATIONS["slice"].make(x, axis=0, start=1, stop=2, step=1)
    same.properties = dict(reversed(same.properties.items()))
    assert numbering.of(same.results[0]) == numbering.of(p.results[0])
    assert numbering.of(g.var(x, axes=(1,), correction=0.0)) != numbering.of(g.var(x, axes=(1,), correction=1.0))
    assert numbering.of(g.cast(x, to="f16")) != numbering.of(g.cast(x, to="bf16"))


# canonical form


def reshaped(g, x, shape):
    return g.reshape(x, shape=shape)


def test_operations_that_depend_on_places_stay_above_reshapes():
    g = Graph((1, 2, 3))
    x = reshaped(g, g.args[0], (2, 3))
    g.returns(
        g.transpose(x, perm=(1, 0)), g.slice(x, axis=1, start=1, stop=3, step=1), g.cumsum(x, axis=0), g.reverse(x, axes=(1,)),
        g.pad(x, low=(0, 1), high=(0, 0), value=0.0),
    )  # fmt: skip
    values = np.float32(np.arange(6).reshape(1, 2, 3))
    before = g.run(values)
    canonicalize(g.block)
    g.verify()
    for a, b in zip(before, g.run(values), strict=True):
        np.testing.assert_array_equal(a, b)


def test_all_other_operations_of_one_operand_act_element_by_element():
    """One that does not must say so by its access."""
    for name, cls in OPERATIONS.items():
        if not issubclass(cls, UnaryOp | BinaryOp) or cls.FACTS.access is not Access.ELEMENTWISE or cls.FACTS.evaluate is None:
            continue
        names = set(cls.FACTS.evaluate.__code__.co_varnames) if hasattr(cls.FACTS.evaluate, "__code__") else set()
        assert not names & {"axis", "axes", "perm", "kernel"}, name


def test_two_broadcasts_do_not_both_go():
    g = Graph((1,))
    a, b = (g.broadcast(g.args[0], shape=(3,)) for _ in range(2))
    g.returns(g.add(a, b), g.mul(a, a))
    canonicalize(g.block)
    g.verify()
    assert [v.shape for v in g.run(np.float32([2]))] == [(3,), (3,)]


def test_a_number_changes_its_type_only_where_both_types_hold_it():
    g = Graph((3,))
    tenth = g.constant(0.1, "f32", (3,))
    g.returns(g.cast(tenth, to="f64"))
    before = g.run(np.float32([0, 0, 0]))[0]
    canonicalize(g.block)
    np.testing.assert_array_equal(g.run(np.float32([0, 0, 0]))[0], before)


# references and ranges


def test_a_broadcast_counts_every_element_in_the_reference():
    g = Graph((1,))
    total = g.sum(g.broadcast(g.args[0], shape=(5,)), axes=(0,))
    splat = g.sum(g.constant(2, shape=(5,)), axes=(0,))
    g.returns(total, splat)
    exact = evaluate_exactly(g.block, {g.args[0]: np.float32([3])}, [total, splat], None, budget=1000)
    assert exact[total].tolist() == [15] and exact[splat].tolist() == [10]


def test_integers_wrap_and_truncate_in_ranges():
    g = Graph(("si8", 3), ("si8", 3))
    x, y = g.args
    ranges = Ranges({x: Interval(100.0, 120.0), y: Interval(2.0, 3.0)})
    assert ranges.of(g.add(x, x)).lo <= -56
    assert 0.0 in Ranges({x: Interval(2.0, 3.0), y: Interval(-2.0, -2.0)}).of(g.pow(x, y))


def test_minus_zero_is_below_zero():
    g = Graph((3,))
    (x,) = g.args
    for value in (g.neg(x), g.mul(x, -1.0), g.div(x, -2.0)):
        ranges = Ranges({x: Interval(-2.0, 0.0)})
        assert ranges.of(g.reciprocal(value)).lo == -math.inf
