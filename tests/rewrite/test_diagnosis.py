"""`--why-not`: what keeps a rule from fitting, told for the places that come closest."""

from __future__ import annotations

from hnfc.dsl.rulebook import shipped
from hnfc.rewrite.diagnosis import Nearly, nearly
from tests.graphs import Graph
from tests.soundness.reading import rules_of

RULES = {rule.name: rule for rule in shipped().rules}


def told(rule: str, graph: Graph) -> list[Nearly]:
    return nearly(RULES[rule] if rule in RULES else rules_of(rule)[0], graph.block, lambda op: op.name)


def test_a_sum_over_other_values() -> None:
    g = Graph((3, 4), (3, 4))
    x, y = g.args
    g.returns(g.div(g.exp(x), g.sum(g.exp(y), axes=(1,))))
    (near, *_) = told("softmax_fusion", g)
    assert near.found >= near.size - 1 and "`x` is input 0 in one place and input 1 in another" in near.missing


def test_another_operation() -> None:
    g = Graph((3, 4))
    (x,) = g.args
    e = g.exp(x)
    g.returns(g.div(e, g.max(e, axes=(1,))))
    (near, *_) = told("softmax_fusion", g)
    assert "the rule has `sum` where the model has `max`" in near.missing


def test_another_number() -> None:
    g = Graph((3,))
    (x,) = g.args
    g.returns(g.log(g.add(x, g.constant(2.0))))
    (near,) = told("log1p_fusion", g)
    assert "the rule adds 1, and the model 2" in near.missing


def test_other_axes() -> None:
    g = Graph((3, 4))
    (x,) = g.args
    e = g.exp(g.sub(x, g.max(x, axes=(0,))))
    g.returns(g.div(e, g.sum(e, axes=(1,))))
    found = told("rule r exp(x - max[k](x)) / sum[k](exp(x - max[k](x))) => softmax[k](x)", g)
    assert found and "other axes" in found[0].missing


def test_what_fits_is_no_near_miss() -> None:
    g = Graph((3,))
    (x,) = g.args
    g.returns(g.log(g.add(x, g.constant(1.0))))
    assert not told("log1p_fusion", g)


def test_nothing_like_it() -> None:
    g = Graph((3,))
    (x,) = g.args
    g.returns(g.tanh(x))
    assert not told("softmax_fusion", g)


def test_every_shipped_rule_has_a_diagnosis_on_any_graph() -> None:
    g = Graph((3, 4), (4, 3))
    x, y = g.args
    z = g.log(g.add(g.exp(g.matmul(x, y)), g.constant(1.0)))
    g.returns(g.div(g.sub(z, g.mean(z, axes=(1,))), g.sqrt(g.add(g.var(z, axes=(1,), correction=0.0), g.constant(1e-5)))))
    for rule in RULES.values():
        for near in nearly(rule, g.block, lambda op: op.name):
            assert 0 < near.found < near.size and near.missing
