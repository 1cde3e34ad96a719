"""Rewrites that are equal over the reals and lose in floating point: the probe that forbids each is named."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hnfc.analysis.ranges import Ranges
from hnfc.dialects.interval import Interval
from hnfc.dialects.types import DYNAMIC
from hnfc.rewrite.conditions import Observations
from hnfc.rewrite.greedy import Greedy, compile_rules
from hnfc.rewrite.matcher import Matcher
from hnfc.rewrite.probing import Prober
from hnfc.rewrite.record import RewriteOutcome
from tests.graphs import Graph
from tests.soundness.reading import rules_of


def probed(graph: Graph, text: str, *intervals: Interval) -> RewriteOutcome:
    ranges, observations = Ranges(dict(zip(graph.args, intervals, strict=False))), Observations([])
    greedy = Greedy(Matcher(compile_rules(rules_of(text))), ranges, observations)
    greedy.prober = Prober(ranges, observations)
    return greedy.run(graph.block)


def hypotenuse(element: str) -> Graph:
    g = Graph((element, 4), (element, 4))
    x, y = g.args
    return g.returns(g.sqrt(g.mul(g.mul(x, y), g.mul(x, y))))


def product_of_quotient(element: str) -> Graph:
    g = Graph((element, 4), (element, 4))
    x, y = g.args
    return g.returns(g.div(g.mul(x, y), y))


def without_nan() -> Graph:
    g = Graph((4,), (4,))
    x, y = g.args
    return g.returns(g.where(g.isnan(x), y, x))


def larger() -> Graph:
    g = Graph((4,), (4,))
    return g.returns(g.maximum(*g.args))


def log_sum_exp(*shape: int) -> Graph:
    g = Graph(shape)
    return g.returns(g.logsumexp(g.args[0], axes=(len(shape) - 1,)))


SHIFTED = "rule r logsumexp[k](x) => m + log(sum[k](exp(x - m))) let m = max[k](x)"
PLAIN = "rule r logsumexp[k](x) => log(sum[k](exp(x)))"
LOSSES = {
    "overflow": (product_of_quotient("f32"), "rule r x * y / y => (x * x * y) / (x * y)", "2^"),
    "opposite scales": (hypotenuse("f32"), "rule r sqrt((x * y) * (x * y)) => sqrt(x * x) * sqrt(y * y)", "others times"),
    "halves": (hypotenuse("f16"), "rule r sqrt((x * y) * (x * y)) => sqrt(x * x) * sqrt(y * y)", "everyday"),
    "everyday exponentials": (log_sum_exp(2, 3), PLAIN, "±90"),
    "a NaN in a comparison": (larger(), "rule r maximum(x, y) => where(x > y, x, y)", "nan"),
    "a NaN in what cancels": (product_of_quotient("f32"), "rule r x * y / y => x", "nan"),
    "a NaN that the model takes out": (without_nan(), "rule r where(isnan(x), y, x) => x", "nan"),
    "no elements": (log_sum_exp(2, DYNAMIC), SHIFTED, "size 0"),
}


@pytest.mark.parametrize("kind", LOSSES)
def test_a_loss_forbids_the_rewrite(kind: str) -> None:
    graph, text, probe = LOSSES[kind]
    finite = [Interval(-100.0, 100.0)] if kind == "no elements" else []
    outcome = probed(graph, text, *finite)
    assert not outcome.rewrites
    assert any(probe in miss.reason for miss in outcome.near_misses), [miss.reason for miss in outcome.near_misses]


def test_declared_ranges_allow_what_they_exclude() -> None:
    assert probed(log_sum_exp(2, 3), PLAIN, Interval(-8.0, 8.0)).rewrites
    assert probed(log_sum_exp(2, 3), SHIFTED, Interval(-100.0, 100.0)).rewrites


def test_a_lossless_rewrite_passes_every_size() -> None:
    g = Graph((2, DYNAMIC))
    (x,) = g.args
    g.returns(g.log(g.sum(g.exp(x), axes=(1,))))
    assert probed(g, "rule r log(sum[k](exp(x))) => logsumexp[k](x)").rewrites


def test_what_is_computed_twice_is_one_value_for_probes_too() -> None:
    """(1-x)·log2(1-x), each 1-x an operation of its own, as two lines of a model make them."""
    g = Graph(("f32", 4))
    one = g.constant(1.0, element="f32")
    first, second = g.sub(one, g.args[0]), g.sub(one, g.args[0])
    g.returns(g.mul(first, g.log2(second)))
    outcome = probed(g, "rule r x * log2(x) => x * log2(where(x == 0, 1, x))")
    assert len(outcome.rewrites) == 1


def of_one(*names: str) -> Callable[[], Graph]:
    def made() -> Graph:
        g = Graph((4,))
        value = g.args[0]
        for name in names:
            value = getattr(g, name)(value)
        return g.returns(value)

    return made


OUTSIDE = {
    "log of a negative number": ("rule r exp(log(x)) => x", of_one("log", "exp")),
    "root of a negative number": ("rule r square(sqrt(x)) => x", of_one("sqrt", "square")),
    "angle of a number above 1": ("rule r cos(acos(x)) => x", of_one("acos", "cos")),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_nan_stays_where_the_function_has_no_value(name: str) -> None:
    text, graph = OUTSIDE[name]
    outcome = probed(graph(), text)
    assert not outcome.rewrites
    assert any("where there is no value" in miss.reason for miss in outcome.near_misses)


@pytest.mark.parametrize("name", OUTSIDE)
def test_inside_its_domain_the_rewrite_is_made(name: str) -> None:
    text, graph = OUTSIDE[name]
    assert probed(graph(), text, Interval(0.25, 0.75)).rewrites


def test_a_limit_may_take_the_place_of_nan() -> None:
    g = Graph((4,))
    x = g.args[0]
    g.returns(g.div(g.sub(g.exp(x), g.constant(1.0)), x))
    assert probed(g, "rule r (exp(x) - 1) / x => where(x == 0, 1, expm1(x) / x)").rewrites
