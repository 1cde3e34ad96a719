"""Extraction: one node for each class that is needed, so that the cost of all of them together is least. Shared subterms count once.

It is an integer program (as in Yang and others, Equality saturation for tensor graph superoptimization, MLSys 2021): x_n says whether
node n is computed, and a class that is needed needs one of its nodes, all of whose operands are needed. A choice in which a value
would need itself is cut off once it is met, and the program is solved again. Without a solution in time the choice is the best of
bottom-up ones.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from hnfc.core.highs import silent
from hnfc.egraph.graph import EGraph, ENode
from hnfc.egraph.problem import Choice, ExtractionProblem, NodeCost, Pruning, loops_of, problem_of


@dataclass
class Extraction:
    """chosen: a node for each class that the roots need. optimal: whether no choice costs less, but for the gap that was allowed. cost:
    the sum over the nodes chosen."""

    chosen: Choice
    cost: float
    optimal: bool
    seconds: float


def extract(
    graph: EGraph, roots: Iterable[int], cost: NodeCost, seconds: float = 20.0, known: Sequence[Choice] = (), gap: float = 1e-9
) -> Extraction:
    """The cheapest choice. known: choices that it will not be dearer than, each complete for the roots. gap: a choice is as good as the
    cheapest if it costs no more than this part more.

    Raises ValueError where a cost is negative or no number.
    """
    start = time.monotonic()
    problem = problem_of(graph, list(dict.fromkeys(map(graph.find, roots))), cost)
    choices = [problem.resolved(choice) for choice in known]
    guess = _bottom_up(problem, start + seconds / 3)
    if all(root in guess for root in problem.roots):
        choices.append(problem.resolved(guess))
    best = min((choice for choice in choices if not loops_of(problem, choice)), key=problem.price)
    least = Pruning(problem).run(problem.price(best))
    optimal = _within(least, problem.price(best), gap)
    cuts: list[list[ENode]] = []
    while not optimal and (left := seconds - (time.monotonic() - start)) > 0:
        solved = _solve(problem, cuts, left, gap)
        if solved is None:
            break
        chosen, proved = solved
        loops = loops_of(problem, chosen)
        if loops:
            cuts += loops
            continue
        found = problem.resolved(chosen)
        if problem.price(found) < problem.price(best):
            best = found
        optimal = proved
        break
    return Extraction(best, cost_of(best, cost), optimal, time.monotonic() - start)


def cost_of(chosen: Choice, cost: NodeCost) -> float:
    return math.fsum(cost(node) for node in dict.fromkeys(chosen.values()) if node.operation is not None)


def _bottom_up(problem: ExtractionProblem, deadline: float) -> Choice:
    """For each class the node that costs least together with all that it needs, which counts once however often it is used.

    What a class needs is kept with it, so that no class comes to need itself. That the cheapest parts make the cheapest whole is a
    guess: parts of another choice may be shared better.
    """
    users: dict[int, dict[ENode, int]] = {}
    for number, nodes in problem.options.items():
        for node in nodes:
            for child in problem.children(node):
                users.setdefault(child, {})[node] = number
    needs: dict[int, dict[int, float]] = {}
    total: dict[int, float] = {}
    chosen: Choice = {}
    waiting = {node: number for number, nodes in problem.options.items() for node in nodes if not node.children}
    while waiting and time.monotonic() < deadline:
        following: dict[ENode, int] = {}
        for node, number in waiting.items():
            children = problem.children(node)
            if any(child not in needs or number in needs[child] for child in children):
                continue
            together = {number: problem.cost[node]}
            for child in children:
                together.update(needs[child])
            price = math.fsum(together.values())
            if price < total.get(number, math.inf) * (1 - 1e-12):
                needs[number], total[number], chosen[number] = together, price, node
                following.update(users.get(number, {}))
        waiting = following
    return chosen


def _within(least: float, price: float, gap: float) -> bool:
    return price - least <= max(gap * price, 1e-12)


def _solve(problem: ExtractionProblem, cuts: list[list[ENode]], seconds: float, gap: float) -> tuple[Choice, bool] | None:
    nodes = [node for options in problem.options.values() for node in options]
    place = {node: index for index, node in enumerate(nodes)}
    at = {number: len(nodes) + index for index, number in enumerate(problem.options)}
    rows: list[int] = []
    columns: list[int] = []
    values: list[float] = []
    lower: list[float] = []

    def row(entries: Iterable[tuple[int, float]], least: float) -> None:
        for column, value in entries:
            rows.append(len(lower))
            columns.append(column)
            values.append(value)
        lower.append(least)

    for number, options in problem.options.items():
        row([*((place[node], 1.0) for node in options), (at[number], -1.0)], 0.0)
    for node in nodes:
        for child in problem.children(node):
            row([(at[child], 1.0), (place[node], -1.0)], 0.0)
    for cut in cuts:
        row([(place[node], -1.0) for node in cut], 1.0 - len(cut))
    least = np.zeros(len(nodes) + len(at))
    for root in problem.roots:
        least[at[root]] = 1.0
    price = np.concatenate([[problem.cost[node] for node in nodes], np.zeros(len(at))])
    matrix = csr_array((values, (rows, columns)), shape=(len(lower), len(price)))
    whole = np.concatenate([np.ones(len(nodes)), np.zeros(len(at))])
    limits = {"time_limit": seconds, "mip_rel_gap": gap}
    rows_ = LinearConstraint(matrix, lower, np.inf)
    with silent():
        result = milp(price, constraints=rows_, bounds=Bounds(least, 1.0), integrality=whole, options=limits)
    if result.x is None:
        return None
    taken = {node for node in nodes if result.x[place[node]] > 0.5}
    chosen = {number: node for number, choices in problem.options.items() for node in choices if node in taken}
    return chosen, result.status == 0
