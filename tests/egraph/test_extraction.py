"""Extraction beside brute force: on small random e-graphs, with sharing, loops, and classes that stand for others."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from hnfc.dialects.num import OPERATIONS
from hnfc.dialects.types import tensor
from hnfc.egraph import EGraph, extract
from hnfc.egraph.problem import loops_of, problem_of

F32 = tensor("f32", (2,))


def random_graph(seed: int) -> tuple[EGraph, list[int]]:
    draw = random.Random(seed)
    graph = EGraph()
    classes = [graph.class_of(graph.leaf(F32)) for _ in range(draw.choice((1, 2)))]
    for _ in range(draw.randint(3, 9)):
        name = draw.choice(("exp", "neg", "add", "mul", "sub"))
        operands = [graph.of(draw.choice(classes)).leader for _ in range(1 if name in ("exp", "neg") else 2)]
        classes.append(graph.add(OPERATIONS[name].make(*operands)))
    leaves = [c for c in classes if graph.of(c).nodes[0].operation is None]
    for _ in range(draw.randint(0, 4)):
        a, b = draw.choice(classes), draw.choice(classes)
        if any(graph.find(c) in map(graph.find, leaves) for c in (a, b)):
            continue
        (graph.union if draw.random() < 0.6 else graph.put_instead)(a, b)
        graph.rebuild()
    return graph, list(dict.fromkeys(graph.find(c) for c in draw.sample(classes, 2)))


def cheapest(graph: EGraph, roots: list[int], cost) -> float:
    """The least cost over all choices without loops."""
    problem = problem_of(graph, roots, lambda node: 0.0)
    numbers = list(problem.options)
    best = math.inf
    for nodes in itertools.product(*(problem.options[number] for number in numbers)):
        chosen = dict(zip(numbers, nodes, strict=True))
        if loops_of(problem, chosen):
            continue
        taken = {node for node in problem.resolved(chosen).values() if node.operation is not None}
        best = min(best, sum(cost(node) for node in taken))
    return best


@pytest.mark.parametrize("seed", range(150))
def test_no_choice_is_cheaper(seed):
    graph, roots = random_graph(seed)
    draw = random.Random(-seed)
    prices: dict[int, float] = {}

    def cost(node):
        return prices.setdefault(node.serial, draw.choice((0.0, 1.0, 1.0, 2.0, 5.0, draw.random())))

    count = math.prod(len(options) for options in problem_of(graph, roots, lambda node: 0.0).options.values())
    if count > 20_000:
        pytest.skip("too many choices to try them all")
    found = extract(graph, roots, cost)
    assert found.optimal
    assert found.cost == pytest.approx(cheapest(graph, roots, cost), rel=1e-5, abs=1e-4)
    assert not loops_of(problem_of(graph, roots, lambda node: 0.0), found.chosen)


def test_what_is_shared_costs_once():
    graph = EGraph()
    x = graph.class_of(graph.leaf(F32))
    shared = graph.add(OPERATIONS["exp"].make(graph.of(x).leader))
    root = graph.add(OPERATIONS["mul"].make(graph.of(shared).leader, graph.of(shared).leader))
    other = graph.add(OPERATIONS["tanh"].make(graph.of(x).leader))
    graph.union(root, other)
    graph.rebuild()
    prices = {"num.exp": 3.0, "num.mul": 1.0, "num.tanh": 5.0}
    # 3 + 1 < 5, though a tree would pay 3 + 3 + 1
    assert extract(graph, [root], lambda node: prices[node.operation.name]).cost == 4.0


def test_a_choice_that_is_known_is_never_lost():
    graph, roots = random_graph(7)
    known = extract(graph, roots, lambda node: 1.0).chosen
    found = extract(graph, roots, lambda node: 1.0, seconds=0.0, known=[known])
    assert found.cost <= sum(node.operation is not None for node in set(known.values()))


def test_a_cost_below_nothing_is_refused():
    graph, roots = random_graph(3)
    with pytest.raises(ValueError, match="must not be negative"):
        extract(graph, roots, lambda node: -1.0)
    with pytest.raises(ValueError, match="must not be negative"):
        extract(graph, roots, lambda node: math.nan)
