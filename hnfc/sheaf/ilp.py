"""The cheapest global section under budgets, as an integer linear program for HiGHS.

One binary variable for every node and value. A budget is one scope that holds all nodes: the star cover says nothing of it. What pairs of
values cost together takes a variable for each charge.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import fsum, inf
from typing import Any

import numpy as np
from scipy.optimize import LinearConstraint, milp
from scipy.sparse import csr_array

from hnfc.core.highs import silent
from hnfc.sheaf.graph import Node
from hnfc.sheaf.system import Constraint, System, Value

_TRIES = 3
Weights = Mapping[Node, Mapping[Value, float]]
"""Cost of a node at a value; 0 by default."""


@dataclass(frozen=True)
class Budget:
    """Σ weights[node][value] ≤ limit."""

    reason: str
    weights: Weights
    limit: float

    def used(self, assignment: Mapping[Node, Value]) -> float:
        return total(self.weights, assignment)


@dataclass(frozen=True)
class Charge:
    """A cost, not below 0, that is due once where for any of the pairs (u, values, v, values) both nodes have one of these values.

    The relaxation is the tighter, the more values are in one charge.
    """

    cost: float
    when: tuple[tuple[Node, frozenset[Value], Node, frozenset[Value]], ...]

    def due(self, assignment: Mapping[Node, Value]) -> float:
        return self.cost if any(assignment[u] in a and assignment[v] in b for u, a, v, b in self.when) else 0.0


def total(weights: Weights, assignment: Mapping[Node, Value]) -> float:
    return fsum(weights.get(node, {}).get(value, 0.0) for node, value in assignment.items())


@dataclass(frozen=True)
class BestSection:
    """The best section found, or None. bound: none within the budgets costs less; infinite where it is proved that there is none. proved:
    whether nothing is left to find."""

    section: dict[Node, Value] | None
    bound: float
    proved: bool


def cheapest(
    system: System, cost: Weights, budgets: tuple[Budget, ...] = (), time_limit: float = inf, charges: tuple[Charge, ...] = ()
) -> dict[Node, Value] | None:
    """A global section of least cost, charges included, within the budgets; None where there is none.

    Raises TimeoutError if HiGHS stops before it has proved that, and ArithmeticError if what it returns breaks a constraint in exact
    evaluation, or a budget by more than 1e-9 of its limit: its own tolerance is absolute, 1e-6.
    """
    found = _solved(system, cost, budgets, time_limit, charges)
    if not found.proved:
        raise TimeoutError(f"HiGHS has not proved a least cost in {time_limit:g} s")
    if found.section is not None and (broken := _exceeded(found.section, budgets)):
        raise ArithmeticError(f"the solver's assignment breaks: {broken[0].reason}")
    return found.section


def cheapest_in_time(
    system: System, cost: Weights, budgets: tuple[Budget, ...], time_limit: float, charges: tuple[Charge, ...] = ()
) -> BestSection:
    """The same as far as HiGHS comes in so many seconds. Where it uses its tolerance to exceed a budget, it is given a little less of it,
    and the bound is that of the whole. Raises ArithmeticError as `cheapest`, but for budgets."""
    found = whole = _solved(system, cost, budgets, time_limit, charges)
    for _ in range(_TRIES):
        if found.section is None or not (over := _exceeded(found.section, budgets)):
            return found
        less = {id(b): 2 * (b.used(found.section) - b.limit) for b in over}
        tighter = tuple(replace(b, limit=b.limit - less.get(id(b), 0.0)) for b in budgets)
        again = _solved(system, cost, tighter, time_limit, charges)
        found = BestSection(again.section, whole.bound, False)
    return BestSection(None, whole.bound, False)


def _exceeded(section: Mapping[Node, Value], budgets: tuple[Budget, ...]) -> list[Budget]:
    return [budget for budget in budgets if budget.used(section) > budget.limit + 1e-9 * abs(budget.limit)]


def _solved(system: System, cost: Weights, budgets: tuple[Budget, ...], time_limit: float, charges: tuple[Charge, ...]) -> BestSection:
    columns = {(node, value): number for number, (node, value) in enumerate((n, v) for n in system.nodes for v in system.domains[n])}
    if not all(system.domains.values()):
        return BestSection(None, inf, True)
    if not columns:
        return BestSection({}, 0.0, True) if all(budget.limit >= 0 for budget in budgets) else BestSection(None, inf, True)
    width = len(columns) + len(charges)
    rows = [({columns[node, value]: 1.0 for value in system.domains[node]}, 1.0, 1.0) for node in system.nodes]
    rows += [row for constraint in system.constraints for row in _supports(system, columns, constraint)]
    for budget in budgets:
        size = max((abs(w) for by_value in budget.weights.values() for w in by_value.values()), default=1.0) or 1.0
        rows.append(({columns[n, v]: budget.weights.get(n, {}).get(v, 0.0) / size for n, v in columns}, -inf, budget.limit / size))
    for number, charge in enumerate(charges, len(columns)):
        # whole numbers of the others make it 0 or 1 by itself
        rows += [({**_of(columns, u, a), **_of(columns, v, b), number: -1.0}, -inf, 1.0) for u, a, v, b in charge.when]
    with silent():
        result = milp(
            [*(cost.get(node, {}).get(value, 0.0) for node, value in columns), *(charge.cost for charge in charges)],
            integrality=np.arange(width) < len(columns),
            bounds=(0, 1),
            constraints=_linear(rows, width),
            options={"mip_rel_gap": 0.0} | ({"time_limit": time_limit} if time_limit < inf else {}),
        )
    if result.status == 2:
        return BestSection(None, inf, True)
    bound = -inf if result.mip_dual_bound is None else float(result.mip_dual_bound)
    if result.x is None:
        return BestSection(None, bound, False)
    section = {node: value for (node, value), number in columns.items() if result.x[number] > 0.5}
    if broken := system.violated(section):
        raise ArithmeticError(f"the solver's assignment breaks: {broken[0].reason}")
    return BestSection(section, bound, result.status == 0)


def _of(columns: Mapping[tuple[Node, Value], int], node: Node, values: frozenset[Value]) -> dict[int, float]:
    return {columns[node, value]: 1.0 for value in values}


def _supports(
    system: System, columns: Mapping[tuple[Node, Value], int], constraint: Constraint
) -> Iterator[tuple[dict[int, float], float, float]]:
    """For all values t of all but the last node: Σ x[t_i] − Σ x[last value that fits t] ≤ (number of t) − 1."""
    *first, last = constraint.scope
    for values in product(*(system.domains[node] for node in first)):
        row = {columns[node, value]: 1.0 for node, value in zip(first, values, strict=True)}
        row |= {columns[last, value]: -1.0 for value in system.domains[last] if constraint.holds(*values, value)}
        yield row, -inf, len(first) - 1.0


def _linear(rows: list[tuple[dict[int, float], float, float]], width: int) -> Any:
    entries = [(number, column, entry) for number, (row, _, _) in enumerate(rows) for column, entry in row.items()]
    numbers, places, data = zip(*entries, strict=True)
    matrix = csr_array((data, (numbers, places)), shape=(len(rows), width))
    return LinearConstraint(matrix, [low for _, low, _ in rows], [high for _, _, high in rows])
