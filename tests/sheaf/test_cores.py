"""Z3 against the other solvers wherever two apply, and that cores are minimal."""

from __future__ import annotations

from itertools import product

import pytest
import z3
from hypothesis import given, settings
from hypothesis import strategies as st

from hnfc.precision import Policy
from hnfc.precision.constraints import policy_constraints, policy_differences
from hnfc.sheaf.cores import Core, Formula, Requirement, single_relaxations, solve
from hnfc.sheaf.difference import GROUND, Conflict, DifferenceConstraint, at_least, at_most, least_solution, within
from hnfc.sheaf.ilp import Budget, cheapest
from hnfc.sheaf.levels import Shortfall, least_levels
from hnfc.sheaf.system import Constraint, System

NODES = range(5)


@st.composite
def differences(draw: st.DrawFn) -> list[DifferenceConstraint]:
    """Each node has a lower bound, as `least_solution` asks."""
    found = [at_least(node, draw(st.integers(0, 8)), f"{node} is at least so much") for node in NODES]
    for number in range(draw(st.integers(0, 8))):
        x, y = draw(st.tuples(st.sampled_from(NODES), st.sampled_from(NODES)))
        found.append(DifferenceConstraint(x, y, draw(st.integers(-3, 4)), f"step {number}"))
    for node in draw(st.sets(st.sampled_from(NODES), max_size=3)):
        found.append(at_most(node, draw(st.integers(2, 12)), f"{node} is capped"))
    return found


@given(differences())
@settings(max_examples=60, deadline=None)
def test_differences_are_decided_as_by_longest_paths(system: list[DifferenceConstraint]) -> None:
    """Both say yes or both no; each core of a system of differences is one simple negative cycle, and each value is at least the least."""
    theirs, ours = least_solution(system), solve(system)
    assert isinstance(theirs, Conflict) == isinstance(ours, Core)
    if isinstance(ours, Core):
        assert ours.minimal and is_simple_negative_cycle(ours.requirements)
    else:
        assert isinstance(theirs, dict) and all(ours[node] >= theirs[node] for node in theirs)  # type: ignore[operator]


def is_simple_negative_cycle(steps: tuple[Requirement, ...]) -> bool:
    following = {step.x: step for step in steps if isinstance(step, DifferenceConstraint)}
    node, walked = steps[0].x, 0  # type: ignore[union-attr]
    for _ in steps:
        walked += following[node].bound
        node = following[node].y
    return len(following) == len(steps) and node == steps[0].x and walked < 0  # type: ignore[union-attr]


@given(st.lists(st.sets(st.sampled_from((2, 3, 5, 9)), min_size=1), min_size=5, max_size=5), differences())
@settings(max_examples=40, deadline=None)
def test_lists_of_values_are_decided_as_by_propagation(lists: list[set[int]], system: list[DifferenceConstraint]) -> None:
    levels = {node: sorted(values) for node, values in enumerate(lists)}
    theirs, ours = least_levels(levels, system), solve(system, levels)
    assert isinstance(theirs, Shortfall) == isinstance(ours, Core)
    if isinstance(ours, Core):
        assert ours.minimal and isinstance(least_levels(levels, ours.requirements), Shortfall)  # type: ignore[arg-type]
        for left_out in ours.requirements:
            rest = [r for r in ours.requirements if r is not left_out]
            assert not isinstance(least_levels(levels, rest), Shortfall)  # type: ignore[arg-type]
    else:
        assert all(ours[node] in levels[node] for node in levels)


@st.composite
def systems(draw: st.DrawFn) -> tuple[System, tuple[Budget, ...]]:
    count = draw(st.integers(1, 4))
    domains = {f"n{node}": ("a", "b", "c")[: draw(st.integers(1, 3))] for node in range(count)}
    constraints = []
    for number in range(draw(st.integers(0, 6))):
        scope = tuple(draw(st.lists(st.sampled_from(list(domains)), min_size=1, max_size=3, unique=True)))
        rows = list(product(*(domains[node] for node in scope)))
        table = frozenset(draw(st.lists(st.sampled_from(rows), max_size=len(rows))))
        constraints.append(Constraint(f"table {number}", scope, lambda *values, table=table: values in table))
    budgets = []
    for number in range(draw(st.integers(0, 2))):
        weights = {node: {value: draw(st.integers(0, 5)) for value in values} for node, values in domains.items()}
        budgets.append(Budget(f"budget {number}", weights, draw(st.integers(0, 4 * count))))
    return System(domains, tuple(constraints)), tuple(budgets)


@given(systems())
@settings(max_examples=60, deadline=None)
def test_tables_and_budgets_are_decided_as_by_the_ilp(drawn: tuple[System, tuple[Budget, ...]]) -> None:
    system, budgets = drawn
    theirs, ours = cheapest(system, {}, budgets), solve((*system.constraints, *budgets), system.domains)
    assert (theirs is None) == isinstance(ours, Core)
    if not isinstance(ours, Core):
        assert not system.violated(ours) and all(budget.used(ours) <= budget.limit for budget in budgets)
        return
    assert ours.minimal
    for left_out in (None, *ours.requirements):
        rest = [r for r in ours.requirements if r is not left_out]
        tables = tuple(r for r in rest if isinstance(r, Constraint))
        remaining = cheapest(System(system.domains, tables), {}, tuple(r for r in rest if isinstance(r, Budget)))
        assert (remaining is None) == (left_out is None)


def test_conditions_beyond_differences() -> None:
    """A parity argument, which no difference system has, among requirements that do not matter."""
    bound = [at_least(node, 0, f"{node} ≥ 0") for node in "abc"]
    odd = Formula("together they are odd", ("a", "b"), lambda a, b: a + b == 7)
    even = Formula("they are twins, or c is small", ("a", "b", "c"), lambda a, b, c: z3.Or(a == b, c < 2))
    large = at_least("c", 5, "c is large")
    found = solve([*bound, odd, even])
    assert isinstance(found, dict) and found["a"] + found["b"] == 7  # type: ignore[operator]
    core = solve([*bound, odd, even, large, at_most("a", 90, "a is capped")])
    assert core == Core((odd, even, large)) and core.reasons == (odd.reason, even.reason, large.reason)


def test_nonlinear_conditions_on_lists() -> None:
    domains = {"p": (4, 8, 11), "q": (4, 8, 11), "free": (1,)}
    product_ = Formula("p times q is 88", ("p", "q"), lambda p, q: p * q == 88)
    found = solve([product_, DifferenceConstraint("q", "p", -1, "q is less")], domains)
    assert found == {"p": 11, "q": 8, "free": 1}
    pin = Constraint("p is pinned to 4", ("p",), lambda value: value == 4)
    assert solve([product_, pin], domains) == Core((product_, pin))


def test_the_core_names_the_policy_and_the_pin() -> None:
    roles = {"weight": "param", "matmul": "compute", "softmax": "compute"}
    policy = Policy.parse("p=f32,c=bf16")
    asked = policy_constraints(policy, roles)
    pin = Constraint("softmax is pinned to fp32", ("softmax",), lambda value: value == "fp32")
    domains = dict.fromkeys(roles, ("fp16", "bf16", "fp32"))
    assert solve(asked, domains) == {"weight": "fp32", "matmul": "bf16", "softmax": "bf16"}
    core = solve([*asked, pin], domains)
    assert isinstance(core, Core) and core.reasons == ("softmax is computed, and the policy says c=bf16", pin.reason)
    bits = solve([at_least("exp", 24, "exp needs 24 bits"), *within("exp", "softmax", 0, "no cast"), *policy_differences(policy, roles)])
    assert isinstance(bits, Core)
    assert set(bits.reasons) == {"exp needs 24 bits", "no cast", "softmax is computed, and the policy says c=bf16"}


def test_a_budget_is_compared_exactly() -> None:
    weights = {"x": {"a": 0.1}, "y": {"a": 0.2}}
    domains = {"x": ("a",), "y": ("a",)}
    # the doubles 0.1 and 0.2 add up to more than the double 0.3
    assert isinstance(solve([Budget("0.3", weights, 0.3)], domains), Core)
    assert isinstance(solve([Budget("0.31", weights, 0.31)], domains), dict)


def test_what_is_empty() -> None:
    assert solve([]) == {} and solve([], {"x": ("a",)}) == {"x": "a"}
    assert solve([], {"x": ()}) == Core(())
    assert solve([DifferenceConstraint("x", "x", -1, "less than itself")]) == Core(
        (DifferenceConstraint("x", "x", -1, "less than itself"),)
    )
    assert solve([DifferenceConstraint(GROUND, GROUND, 0, "nothing")]) == {}
    assert isinstance(solve([Budget("none", {}, -1)]), Core) and solve([Budget("none", {}, 0)]) == {}


def test_invalid_problems_are_refused() -> None:
    with pytest.raises(ValueError, match="expected integers for 'x'"):
        solve([at_least("x", 3, "bits")], {"x": ("fp16",)})
    with pytest.raises(ValueError, match="expected a list of values for 'x'"):
        solve([Constraint("pin", ("x",), bool)])
    cubes = Formula("a sum of cubes", ("x", "y", "z"), lambda x, y, z: x * x * x + y * y * y + z * z * z == 114)
    with pytest.raises(TimeoutError):
        solve([cubes], timeout_ms=200)


@given(systems())
@settings(max_examples=40, deadline=None)
def test_what_resolves_a_conflict_alone_is_in_its_core(drawn: tuple[System, tuple[Budget, ...]]) -> None:
    system, budgets = drawn
    requirements = (*system.constraints, *budgets)
    core = solve(requirements, system.domains)
    if isinstance(core, Core):
        resolving = []
        for left_out in requirements:
            tables = tuple(c for c in system.constraints if c is not left_out)
            if cheapest(System(system.domains, tables), {}, tuple(b for b in budgets if b is not left_out)) is not None:
                resolving.append(left_out)
        assert list(single_relaxations(core, requirements, system.domains)) == resolving


def test_two_conflicts_have_no_single_way_out() -> None:
    requirements = [at_least(n, 24, f"{n} needs 24 bits") for n in "ab"] + [at_most(n, 8, f"{n} is pinned to bf16") for n in "ab"]
    core = solve(requirements)
    assert isinstance(core, Core) and len(core.requirements) == 2 and single_relaxations(core, requirements) == ()
    one = requirements[:3]
    core = solve(one)
    assert isinstance(core, Core) and single_relaxations(core, one) == core.requirements == (one[0], one[2])


def test_a_long_chain_among_much_else() -> None:
    chain = [DifferenceConstraint(node, node + 1, 0, f"{node} → {node + 1}") for node in range(200)]
    beside = [DifferenceConstraint((node, "beside"), node, 3, f"beside {node}") for node in range(1000)]
    core = solve([at_least(0, 24, "start"), *beside, *chain, at_most(200, 8, "end")])
    assert isinstance(core, Core) and core.minimal and len(core.requirements) == 202
