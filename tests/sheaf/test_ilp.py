"""The integer program against exact optima, and against brute force."""

from __future__ import annotations

import random
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hnfc.sheaf.ilp import Budget, Charge, cheapest, cheapest_in_time, total
from hnfc.sheaf.system import Constraint, System

LAYERS = range(19)
TRACES = (
    0.06857826, 0.03162379, 0.03298575, 0.01205663, 0.02222431, 0.00596336, 0.06931772, 0.00807129, 0.00372905, 0.00530698,
    0.00209011, 0.00737569, 0.00210454, 0.00151197, 0.00158041, 0.00078146, 0.00451841, 0.00098745, 0.00072944,
)  # fmt: skip
ERROR_8 = (
    0.0235, 0.0125, 0.0102, 0.0082, 0.0145, 0.0344, 0.0023, 0.0287, 0.0148, 0.0333,
    0.0682, 0.0027, 0.0448, 0.0336, 0.0576, 0.1130, 0.0102, 0.0947, 0.0532,
)  # fmt: skip
ERROR_4 = (
    6.7430, 3.9691, 3.3281, 2.6796, 4.7277, 10.5966, 0.6827, 9.0942, 4.8857, 10.7599,
    21.7546, 0.8603, 14.5324, 10.9651, 18.7706, 36.4044, 3.1572, 29.6994, 17.4016,
)  # fmt: skip
PARAMETERS = (
    36864, 36864, 36864, 36864, 73728, 147456, 8192, 147456, 147456, 294912,
    589824, 32768, 589824, 589824, 1179648, 2359296, 131072, 2359296, 2359296,
)  # fmt: skip
PRODUCTS = tuple({4: 57802752, 9: 57802752, 14: 57802752, 6: 6422528, 11: 6422528, 16: 6422528}.get(i, 115605504) for i in LAYERS)
LATENCY_4 = (
    0.21094404, 0.21092674, 0.21104113, 0.21086851, 0.13642465, 0.19167506, 0.02532183, 0.19148203, 0.19142914, 0.11395316,
    0.20556011, 0.01917474, 0.20566918, 0.20566509, 0.13185102, 0.22287786, 0.01790088, 0.22304611, 0.22286099,
)  # fmt: skip
LATENCY_8 = (
    0.36189111, 0.36211718, 0.31141909, 0.30454471, 0.19184896, 0.38948934, 0.0334169, 0.38904905, 0.3892859, 0.19134735,
    0.34307431, 0.02802354, 0.34313329, 0.34310756, 0.21117103, 0.37376585, 0.02896843, 0.37398187, 0.37405185,
)  # fmt: skip
"""ResNet-18 between its first and last layer, as measured for HAWQ-V3 (Yao et al. 2021; ILP.ipynb in Zhen-Dong/HAWQ, MIT)."""

USED = {
    "size_MB": {4: [p / 2**21 for p in PARAMETERS], 8: [p / 2**20 for p in PARAMETERS]},
    "bops": {4: [p / 64e6 for p in PRODUCTS], 8: [p / 16e6 for p in PRODUCTS]},
    "latency_ms": {4: LATENCY_4, 8: LATENCY_8},
}
OPTIMA = [
    ("size_MB", 0.25, 6.650391, 6.640625, -1.18941355, "8888888888888844444"),
    ("bops", 0.25, 46.362624, 45.760512, -0.84728912, "8884848444444444444"),
    ("latency_ms", 0.25, 3.697426, 3.614707, -0.84728912, "8884848444444444444"),
    ("size_MB", 0.5, 7.980469, 7.265625, -1.23320720, "8888888888888884844"),
    ("bops", 0.5, 66.232320, 65.028096, -1.09202381, "8884888848884444444"),
    ("latency_ms", 0.5, 4.246180, 4.220095, -1.10503933, "8888848848884484844"),
    ("size_MB", 0.75, 9.310547, 9.234375, -1.27427254, "8888888888888488884"),
    ("bops", 0.75, 86.102016, 84.295680, -1.22774843, "8888888848888484884"),
    ("latency_ms", 0.75, 4.794934, 4.706309, -1.22774843, "8888888848888484884"),
]
"""What is bounded, the fraction of the way from all 4 to all 8 bits, the limit, and the optimum by exhaustive search over 2^19."""


@pytest.mark.parametrize(("bounded", "fraction", "limit", "used", "objective", "bits"), OPTIMA)
def test_published_program(bounded, fraction, limit, used, objective, bits):
    joined = tuple(Constraint("a residual adds them", pair, lambda a, b: a == b) for pair in ((4, 6), (9, 11), (14, 16)))
    system = System(dict.fromkeys(LAYERS, (4, 8)), joined)
    cost = {i: {8: TRACES[i] * (ERROR_8[i] - ERROR_4[i])} for i in LAYERS}
    by_bits = USED[bounded]
    narrow, wide = sum(by_bits[4]), sum(by_bits[8])
    budget = Budget(bounded, {i: {4: by_bits[4][i], 8: by_bits[8][i]} for i in LAYERS}, narrow + (wide - narrow) * fraction)
    found = cheapest(system, cost, (budget,))
    assert "".join(str(found[i]) for i in LAYERS) == bits
    assert budget.limit == pytest.approx(limit, abs=1e-6)
    assert budget.used(found) == pytest.approx(used, abs=1e-6)
    assert total(cost, found) == pytest.approx(objective, abs=1e-8)


@st.composite
def programs(draw):
    n = draw(st.integers(0, 4))
    values = (0, 1, 2)
    constraints = []
    for scope in draw(st.lists(st.sampled_from([s for k in (1, 2, 3) for s in combinations(range(n), k)] or [()]), max_size=3)):
        if scope:
            allowed = draw(st.sets(st.tuples(*[st.sampled_from(values)] * len(scope))))
            constraints.append(Constraint("table", scope, lambda *chosen, allowed=allowed: chosen in allowed))
    weights = st.fixed_dictionaries({i: st.fixed_dictionaries(dict.fromkeys(values, st.integers(-3, 3))) for i in range(n)})
    budgets = tuple(Budget("budget", draw(weights), draw(st.integers(-4, 6))) for _ in range(draw(st.integers(0, 2))))
    chosen = st.frozensets(st.sampled_from(values))
    pairs = [st.tuples(st.just(u), chosen, st.just(v), chosen) for u, v in combinations(range(n), 2)]
    when = st.lists(st.one_of(pairs), min_size=1, max_size=3) if pairs else st.just([])
    charges = tuple(Charge(draw(st.integers(0, 3)), tuple(draw(when))) for _ in range(draw(st.integers(0, 3))))
    return System(dict.fromkeys(range(n), values), tuple(constraints)), draw(weights), budgets, charges


@settings(max_examples=60, deadline=None)
@given(programs())
def test_the_optimum_is_that_of_brute_force(program):
    system, cost, budgets, charges = program
    assignments = (dict(zip(system.nodes, values, strict=True)) for values in product(*system.domains.values()))
    fitting = [a for a in assignments if not system.violated(a) and all(b.used(a) <= b.limit for b in budgets)]
    found = cheapest(system, cost, budgets, charges=charges)

    def whole(assignment):
        return total(cost, assignment) + sum(charge.due(assignment) for charge in charges)

    if not fitting:
        assert found is None
    else:
        assert found in fitting and whole(found) == min(map(whole, fitting))


def test_a_node_without_values_has_no_assignment():
    assert cheapest(System({"a": ()}), {}) is None


def test_what_is_found_in_time_is_the_optimum_or_reported_to_be_none():
    system = System(dict.fromkeys(range(6), (0, 1, 2)))
    cost = {i: {0: 3.0, 1: 1.5 + i / 10, 2: i / 7} for i in range(6)}
    budget = Budget("budget", {i: {0: 0.0, 1: 1.0, 2: 2.5 - i / 5} for i in range(6)}, 5.0)
    found = cheapest_in_time(system, cost, (budget,), 60.0)
    assert found.proved and found.section == cheapest(system, cost, (budget,))
    assert found.section is not None and found.bound == pytest.approx(total(cost, found.section))
    none = cheapest_in_time(system, cost, (Budget("none", budget.weights, -1.0),), 60.0)
    assert none.proved and none.section is None and none.bound == float("inf")


def test_a_budget_that_is_exceeded_by_less_than_the_solver_sees():
    system, cost = System({"a": (0, 1), "b": (0, 1)}), {"a": {0: 1.0, 1: 0.0}, "b": {0: 1.0, 1: 0.5}}
    budget = Budget("budget", {"a": {1: 0.6}, "b": {1: 0.4 + 2e-7}}, 1.0)
    found = cheapest_in_time(system, cost, (budget,), 60.0)
    assert found.section is not None and budget.used(found.section) <= 1 and found.bound <= total(cost, found.section) == 1.0


def test_no_time_is_told():
    draw = random.Random(0)
    nodes, values = range(400), range(4)
    cost = {i: {v: draw.uniform(0, 9) for v in values} for i in nodes}
    budgets = tuple(Budget("b", {i: {v: draw.uniform(0, 1) for v in values} for i in nodes}, 170.0) for _ in range(4))
    found = cheapest_in_time(System(dict.fromkeys(nodes, tuple(values))), cost, budgets, 0.05)
    assert not found.proved
    if found.section is not None:
        assert all(b.used(found.section) <= b.limit for b in budgets) and found.bound <= total(cost, found.section)
    with pytest.raises(TimeoutError):
        cheapest(System(dict.fromkeys(nodes, tuple(values))), cost, budgets, 0.05)
