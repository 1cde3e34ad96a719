"""Canonical movement: every step is exact, and patterns see through reductions that dropped their axes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hnfc.core.dead_code import erase_dead
from hnfc.dialects.num import OPERATIONS
from hnfc.dialects.types import tensor
from hnfc.rewrite.canonicalization import canonicalize
from tests.graphs import Graph


def reshape(g, x, shape):
    op = OPERATIONS["reshape"].create(operands=[x], result_types=[tensor("f32", shape)])
    g.block.add_op(op)
    return op.results[0]


def lifted(g):
    renamed, made = canonicalize(g.block)
    erase_dead([op for op in g.block.ops if not any(r.uses for r in op.results)])
    g.verify()
    return renamed, made


def test_a_reshape_sinks_below_what_acts_element_by_element():
    g = Graph((2, 3))
    s = reshape(g, g.sum(g.exp(g.args[0]), axes=(1,)), (2,))
    g.returns(g.log(s))
    lifted(g)
    assert g.names() == ["exp", "sum", "log", "reshape"]
    assert g.rewrite("rule r log(sum[k](exp(x))) => logsumexp[k](x)").rewrites


def test_leading_axes_of_size_one_go_where_broadcasting_adds_them():
    g = Graph((5, 3))
    (x,) = g.args
    m = reshape(g, g.mean(x, axes=(0,)), (3,))
    g.returns(g.sub(x, m))
    lifted(g)
    assert g.names() == ["mean", "sub"]


def test_a_dropped_last_axis_is_not_a_leading_one():
    """x: [3, 3] minus its row means as a vector of 3 subtracts them from columns: not to be confused with the kept axis."""
    g = Graph((3, 3))
    (x,) = g.args
    m = reshape(g, g.mean(x, axes=(1,)), (3,))
    g.returns(g.sub(x, m))
    values = np.arange(9, dtype=np.float32).reshape(3, 3) ** 2
    before = g.run(values)[0]
    lifted(g)
    np.testing.assert_array_equal(g.run(values)[0], before)
    assert "reshape" in g.names()


def test_a_moved_unit_axis_is_a_transpose():
    g = Graph((4, 3))
    column = g.sum(g.args[0], axes=(1,))
    g.returns(reshape(g, reshape(g, column, (4,)), (1, 4)))
    lifted(g)
    assert g.names() == ["sum", "transpose"]


def test_numbers_in_another_type_stay_numbers():
    g = Graph((4,))
    one = g.constant(1, "si64")
    g.returns(g.sub(g.cast(one, to="f32"), g.exp(g.args[0])))
    lifted(g)
    assert g.names() == ["exp", "sub"]


@given(st.lists(st.sampled_from(["sum", "squeeze", "unsqueeze", "exp", "neg", "pair"]), min_size=1, max_size=7), st.integers(0, 2**31))
@settings(max_examples=60, deadline=None)
def test_any_graph_computes_the_same_bits(steps, seed):
    def build():
        g = Graph((2, 1, 3))
        value = g.args[0]
        for index, step in enumerate(steps):
            shape = list(value.type.get_shape())
            if step == "sum" and shape:
                value = g.sum(value, axes=((seed >> index) % len(shape),))
            elif step == "squeeze" and 1 in shape:
                shape.remove(1)
                value = reshape(g, value, shape)
            elif step == "unsqueeze":
                shape.insert((seed >> index) % (len(shape) + 1), 1)
                value = reshape(g, value, shape)
            elif step == "exp":
                value = g.tanh(value)
            elif step == "neg":
                value = g.mul(value, 0.5)
            elif step == "pair":
                value = g.add(value, g.neg(value))
        return g.returns(value)

    x = np.random.default_rng(seed).standard_normal((2, 1, 3)).astype(np.float32)
    plain, changed = build(), build()
    lifted(changed)
    np.testing.assert_array_equal(changed.run(x)[0], plain.run(x)[0])
    assert changed.block.last_op.operands[0].type == plain.block.last_op.operands[0].type


def test_a_splat_becomes_a_number_only_where_it_does_not_widen():
    g = Graph((2, 3))
    g.returns(g.maximum(g.args[0], g.constant(1e-12, shape=(2, 3))))
    lifted(g)
    assert "tensor<f32>" in str(g.block.first_op)
    g = Graph((2, 1))
    g.returns(g.mul(g.args[0], g.constant(2, shape=(2, 3))))
    lifted(g)
    assert "tensor<2x3xf32>" in str(g.block.first_op)


def scalar(g, x):
    """The sum over all axes, without them."""
    return reshape(g, g.sum(x, axes=tuple(range(len(x.type.get_shape())))), ())


@pytest.mark.parametrize("shapes", [((3, 3), (4,)), ((3, 3), (1,)), ((2, 1, 3), (2, 2))])
@pytest.mark.parametrize("both", [True, False])
def test_a_scalar_meets_tensors_without_its_axes(shapes, both):
    """A reshape between + and exp hides the sum of exponentials from rules."""
    g = Graph(*shapes)
    x, y = g.args
    other = scalar(g, y) if both else y
    g.returns(g.log(g.add(g.exp(scalar(g, x)), g.exp(other))))
    values = [np.linspace(-1, 1, int(np.prod(shape))).reshape(shape).astype("f4") for shape in shapes]
    before = g.run(*values)[0]
    lifted(g)
    np.testing.assert_array_equal(g.run(*values)[0], before)
    assert g.rewrite("rule r log(exp(a) + exp(b)) => logaddexp(a, b)").rewrites


def test_a_reduction_stays_with_its_axes_where_its_scalar_does_not():
    g = Graph((3, 3), (4,))
    x, y = g.args
    g.returns(g.mul(g.neg(g.log(scalar(g, g.exp(x)))), y))
    lifted(g)
    assert g.rewrite("rule r log(sum[k](exp(x))) => logsumexp[k](x)").rewrites


@pytest.mark.parametrize("shapes", [((2, 3), (5, 2)), ((1, 3), (5,)), ((1, 1), (1,))])
def test_a_scalar_goes_along_with_sums_over_rows(shapes):
    g = Graph(*shapes)
    x, y = g.args
    rows = reshape(g, g.sum(x, axes=(1,)), shapes[0][:1])
    g.returns(g.log(g.add(g.exp(rows), g.exp(scalar(g, y)))))
    values = [np.linspace(-1, 1, int(np.prod(shape))).reshape(shape).astype("f4") for shape in shapes]
    before = g.run(*values)[0]
    lifted(g)
    np.testing.assert_array_equal(g.run(*values)[0], before)
    assert g.names()[-1] == "reshape" and g.names()[-2] == "log"
    assert g.rewrite("rule r log(exp(a) + exp(b)) => logaddexp(a, b)").rewrites
