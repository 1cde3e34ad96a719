"""The e-graph itself: sharing, congruence, one-way equality, intervals, constants."""

from __future__ import annotations

from hnfc.dialects.interval import Interval
from hnfc.dialects.num import OPERATIONS
from hnfc.dialects.types import tensor
from hnfc.egraph import EGraph, Limits, Program, Saturation
from hnfc.egraph.explorer import both_ways
from hnfc.rewrite.nary_terms import constant_of
from tests.graphs import Graph
from tests.soundness.reading import rules_of

F32 = tensor("f32", (3,))


def made(graph: EGraph, name: str, *operands, **attributes) -> int:
    return graph.add(OPERATIONS[name].make(*(graph.of(o).leader for o in operands), **attributes))


def test_what_is_alike_is_one_node_in_either_order():
    graph = EGraph()
    a, b = (graph.class_of(graph.leaf(F32)) for _ in range(2))
    assert made(graph, "add", a, b) == made(graph, "add", b, a)
    assert made(graph, "sub", a, b) != made(graph, "sub", b, a)
    assert graph.nodes == 3


def test_equal_operands_make_equal_results_all_the_way_up():
    graph = EGraph()
    a, b = (graph.class_of(graph.leaf(F32)) for _ in range(2))
    left, right = a, b
    for name in ("exp", "neg", "tanh"):
        left, right = made(graph, name, left), made(graph, name, right)
    assert graph.find(left) != graph.find(right)
    graph.union(a, b)
    graph.rebuild()
    assert graph.find(left) == graph.find(right)
    assert graph.nodes == 3


def test_what_stands_for_another_is_not_stood_for_by_it():
    graph = EGraph()
    a, b = (graph.class_of(graph.leaf(F32)) for _ in range(2))
    x, y = made(graph, "exp", a), made(graph, "neg", b)
    assert graph.put_instead(x, y)
    assert not graph.put_instead(x, y)
    assert [node.operation.name for node in graph.members(x)] == ["num.exp", "num.neg"]
    assert [node.operation.name for node in graph.members(y)] == ["num.neg"]
    graph.put_instead(y, x)
    assert graph.find(x) == graph.find(y), "both ways are one class"


def test_members_of_a_class_share_what_is_known_of_their_ranges():
    graph = EGraph()
    a = graph.class_of(graph.leaf(F32, Interval(-2.0, 5.0)))
    b = graph.class_of(graph.leaf(F32, Interval(1.0, 9.0)))
    above = made(graph, "log", a)
    assert graph.of(above).interval.nan
    graph.union(a, b)
    graph.rebuild()
    assert graph.of(a).interval == Interval(1.0, 5.0)
    assert not graph.of(above).interval.nan and graph.of(above).interval.hi < 2


def test_arithmetic_on_constants_is_a_constant_where_it_is_exact():
    g = Graph((3,))
    (x,) = g.args
    exact, rounded = g.mul(x, g.add(2.0, 0.5)), g.mul(x, g.div(1.0, 3.0))
    g.returns(exact, rounded)
    program = Program.of(g.block)
    numbers = {constant_of(current.leader) for _, current in program.graph.classes()}
    assert 2.5 in numbers and not any(n is not None and 0.3 < n < 0.4 for n in numbers)


def test_saturation_ends_where_nothing_is_new():
    g = Graph((3,))
    g.returns(g.exp(g.add(g.args[0], 1.0)))
    program = Program.of(g.block)
    saturation = Saturation(program.graph, both_ways(rules_of("rule p exp(a + b) <=> exp(a) * exp(b)")), Limits())
    saturation.run()
    assert saturation.stopped == "" and saturation.rounds <= 3
    assert len(program.graph.members(program.needed()[0])) == 2


def test_limits_stop_it():
    g = Graph(*[(3,)] * 9)
    x, *others = g.args
    for other in others:
        x = g.add(x, other)
    g.returns(x)
    for limits in (Limits(nodes=40), Limits(rounds=2), Limits(seconds=1e-6)):
        program = Program.of(g.block)
        saturation = Saturation(program.graph, both_ways(rules_of("rule s a + b + c <=> a + (b + c) structural")), limits)
        saturation.run()
        assert saturation.stopped
        assert program.graph.nodes < 2000


def test_a_program_that_nothing_is_chosen_in_stays_as_it_is():
    g = Graph((3,), (3,))
    a, b = g.args
    g.returns(g.add(g.exp(a), g.exp(a)), g.mul(a, b))
    program = Program.of(g.block)
    before = list(g.block.ops)
    written = program.write(program.standing())
    # the second exp(a) is the first one
    assert written.made == {} and [op for op in g.block.ops if op in before] == before
    g.verify()
