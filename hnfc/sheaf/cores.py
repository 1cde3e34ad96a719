"""Any constraints at all, by Z3: an assignment, or a minimal core.

A core is complete: there is one exactly where there is no assignment. It is minimal, not smallest: without any one of its members the
others have a solution, but another core may have fewer. Domains are no members: they are data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any, TypeAlias

import z3

from hnfc.sheaf.difference import GROUND, DifferenceConstraint
from hnfc.sheaf.graph import Node
from hnfc.sheaf.ilp import Budget
from hnfc.sheaf.system import Constraint, Value


@dataclass(frozen=True)
class Formula:
    """`holds(*terms)` is a condition of Z3 on the integers of the nodes of `scope`, in that order: from arithmetic, comparisons, z3.Or …"""

    reason: str
    scope: tuple[Node, ...]
    holds: Callable[..., Any]


Requirement: TypeAlias = DifferenceConstraint | Constraint | Budget | Formula


@dataclass(frozen=True)
class Core:
    """Requirements that nothing satisfies together; where `minimal`, all of them but any one can be satisfied."""

    requirements: tuple[Requirement, ...]
    minimal: bool = True

    @property
    def reasons(self) -> tuple[str, ...]:
        return tuple(requirement.reason for requirement in self.requirements)


def solve(
    requirements: Iterable[Requirement], domains: Mapping[Node, Sequence[Value]] | None = None, timeout_ms: int = 10_000
) -> dict[Node, Value] | Core:
    """Values that satisfy every requirement, one for each node that a requirement or a domain names; or a minimal core.

    A node without a domain may be any integer. A Constraint or a Budget is on nodes with domains, a Difference or a Formula on integers;
    a Constraint is tabulated, so it costs as much as its scope has combinations.
    Raises TimeoutError where Z3 does not decide within the time, ValueError for requirements on what they cannot be on, and
    ArithmeticError if what Z3 finds breaks a requirement in exact evaluation. A core that is not known to be minimal says so.
    """
    given = tuple(requirements)
    encoding = _Encoding(given, domains or {})
    solver = z3.SolverFor("QF_LIA") if not any(isinstance(r, Budget | Formula) for r in given) else z3.Solver()
    solver.set("timeout", timeout_ms)
    solver.add(*encoding.domain_conditions())
    switches = [z3.Bool(f"requirement {number}") for number in range(len(given))]
    for switch, requirement in zip(switches, given, strict=True):
        solver.add(z3.Implies(switch, encoding.condition(requirement)))
    answer = solver.check(*switches)
    if answer == z3.unknown:
        raise TimeoutError(f"Z3 does not decide: {solver.reason_unknown()}")
    if answer == z3.unsat:
        return _minimal(solver, {str(switch): place for place, switch in enumerate(switches)}, switches, given)
    found = encoding.assignment(solver.model())
    if broken := next((r for r in given if not encoding.is_met(r, found)), None):
        raise ArithmeticError(f"the solver's assignment breaks: {broken.reason}")
    return found


def single_relaxations(
    core: Core, requirements: Iterable[Requirement], domains: Mapping[Node, Sequence[Value]] | None = None, timeout_ms: int = 10_000
) -> tuple[Requirement, ...]:
    """The requirements without which all others can be satisfied; all of them are in the core, as in every other one.

    None of them is one where there are two cores that have nothing in common. Raises as `solve` does.
    """
    given = tuple(requirements)
    return tuple(
        candidate
        for candidate in core.requirements
        if not isinstance(solve((r for r in given if r is not candidate), domains, timeout_ms), Core)
    )


def _minimal(solver: Any, places: Mapping[str, int], switches: Sequence[Any], given: Sequence[Requirement]) -> Core:
    """Deletion: each member is left out once; what is unsatisfiable without it loses it, and whatever else Z3 did not need."""
    members = sorted(places[str(switch)] for switch in solver.unsat_core())
    minimal = True
    needed: list[int] = []
    while members:
        candidate = members.pop()
        answer = solver.check(*(switches[place] for place in (*needed, *members)))
        if answer == z3.unsat:
            used = {places[str(switch)] for switch in solver.unsat_core()}
            members = [place for place in members if place in used]
            continue
        minimal = minimal and answer == z3.sat
        needed.append(candidate)
    return Core(tuple(given[place] for place in sorted(needed)), minimal)


class _Encoding:
    """Each node as an integer of Z3: its value where all values of its domain are integers or it has none, else the place of its value."""

    def __init__(self, requirements: Sequence[Requirement], domains: Mapping[Node, Sequence[Value]]) -> None:
        self.domains = {node: list(dict.fromkeys(values)) for node, values in domains.items()}
        named = dict.fromkeys((*domains, *(node for requirement in requirements for node in _scope(requirement))))
        named.pop(GROUND, None)
        self.terms: dict[Node, Any] = {node: z3.Int(f"value {number}") for number, node in enumerate(named)}
        self.numbers = {node for node in named if all(type(value) is int for value in self.domains.get(node, ()))}
        for requirement in requirements:
            wanted = self.numbers if isinstance(requirement, DifferenceConstraint | Formula) else self.domains.keys()
            if wrong := next((n for n in _scope(requirement) if n is not GROUND and n not in wanted), None):
                what = "integers" if wanted is self.numbers else "a list of values"
                raise ValueError(f"{requirement.reason}: expected {what} for {wrong!r}")

    def _equals(self, node: Node, value: Value) -> Any:
        return self.terms[node] == (value if node in self.numbers else self.domains[node].index(value))

    def domain_conditions(self) -> Iterator[Any]:
        for node, values in self.domains.items():
            yield z3.Or(*(self._equals(node, value) for value in values))

    def condition(self, requirement: Requirement) -> Any:
        match requirement:
            case DifferenceConstraint(x, y, bound):
                return (0 if x is GROUND else self.terms[x]) - (0 if y is GROUND else self.terms[y]) <= bound
            case Formula(_, scope, holds):
                return holds(*(self.terms[node] for node in scope))
            case Constraint(_, scope, holds):
                *first, last = scope
                rows = []
                for values in product(*(self.domains[node] for node in first)):
                    fits = z3.Or(*(self._equals(last, value) for value in self.domains[last] if holds(*values, value)))
                    rows.append(z3.Implies(z3.And(*(self._equals(n, v) for n, v in zip(first, values, strict=True))), fits))
                return z3.And(*rows)
            case Budget(_, weights, limit):
                spent = [
                    z3.If(self._equals(node, value), _exact(weight), _exact(0))
                    for node, by_value in weights.items()
                    for value, weight in by_value.items()
                    if value in self.domains[node]
                ]
                return z3.Sum(*spent) <= _exact(limit) if spent else z3.BoolVal(limit >= 0)
        raise TypeError(f"{requirement!r} is no requirement")

    def assignment(self, model: Any) -> dict[Node, Value]:
        found: dict[Node, Value] = {}
        for node, term in self.terms.items():
            number = model.eval(term, model_completion=True).as_long()
            found[node] = number if node in self.numbers else self.domains[node][number]
        return found

    def is_met(self, requirement: Requirement, found: Mapping[Node, Any]) -> bool:
        match requirement:
            case DifferenceConstraint(x, y, bound):
                return bool((0 if x is GROUND else found[x]) - (0 if y is GROUND else found[y]) <= bound)
            case Formula(_, scope, holds):
                return bool(z3.is_true(z3.simplify(holds(*(z3.IntVal(found[node]) for node in scope)))))
            case Constraint(_, scope, holds):
                return bool(holds(*(found[node] for node in scope)))
            case Budget(_, weights, limit):
                return sum(Fraction(by_value.get(found[node], 0)) for node, by_value in weights.items()) <= Fraction(limit)
        raise TypeError(f"{requirement!r} is no requirement")


def _scope(requirement: Requirement) -> tuple[Node, ...]:
    match requirement:
        case DifferenceConstraint(x, y):
            return x, y
        case Budget(_, weights):
            return tuple(weights)
    return requirement.scope


def _exact(number: float) -> Any:
    fraction = Fraction(number)
    return z3.Q(fraction.numerator, fraction.denominator)
