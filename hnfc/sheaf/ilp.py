"""The cheapest global section under budgets, as an integer linear program for HiGHS.

One binary variable for every node and value. A budget is one scope that holds all nodes: the star cover says nothing of it. What pairs of
values cost together takes a variable for each charge.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import fsum, inf
from typing import Any

import numpy as np
from scipy.optimize import LinearConstraint, milp
from scipy.sparse import csr_array

from hnfc.highs import silent
from hnfc.sheaf.graph import Node
from hnfc.sheaf.system import Constraint, System, Value

Weights = Mapping[Node, Mapping[Value, float]]
"""What a node costs at a value; 0 where nothing is said."""


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

    The relaxation is the tighter, the more values are told of in one charge.
    """

    cost: float
    when: tuple[tuple[Node, frozenset[Value], Node, frozenset[Value]], ...]

    def due(self, assignment: Mapping[Node, Value]) -> float:
        return self.cost if any(assignment[u] in a and assignment[v] in b for u, a, v, b in self.when) else 0.0


def total(weights: Weights, assignment: Mapping[Node, Value]) -> float:
    return fsum(weights.get(node, {}).get(value, 0.0) for node, value in assignment.items())


def cheapest(
    system: System, cost: Weights, budgets: tuple[Budget, ...] = (), time_limit: float = inf, charges: tuple[Charge, ...] = ()
) -> dict[Node, Value] | None:
    """A global section of least cost, charges included, within the budgets; None where there is none.

    Raises TimeoutError if HiGHS stops before it has proved that, and ArithmeticError if what it returns breaks a constraint in exact
    evaluation, or a budget by more than 1e-9 of its limit: its own tolerance is absolute, 1e-6.
    """
    columns = {(node, value): number for number, (node, value) in enumerate((n, v) for n in system.nodes for v in system.domains[n])}
    if not all(system.domains.values()):
        return None
    if not columns:
        return {} if all(budget.limit >= 0 for budget in budgets) else None
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
        return None
    if result.status != 0:
        raise TimeoutError(result.message)
    assignment = {node: value for (node, value), number in columns.items() if result.x[number] > 0.5}
    broken: list[Constraint | Budget] = [*system.violated(assignment)]
    broken += [budget for budget in budgets if budget.used(assignment) > budget.limit + 1e-9 * abs(budget.limit)]
    if broken:
        raise ArithmeticError(f"the solver's assignment breaks: {broken[0].reason}")
    return assignment


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
