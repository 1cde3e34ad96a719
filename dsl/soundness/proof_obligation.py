"""One obligation of a proof, as data: a goal, and the assumptions that it follows from."""

from __future__ import annotations

from dataclasses import dataclass

import z3


@dataclass(frozen=True)
class Assumption:
    """A formula that may be used: `name` is an axiom or a theorem of axioms.py, or a reason of `obligations.REASONS`."""

    name: str
    formula: z3.BoolRef
    comment: str = ""


@dataclass(frozen=True)
class Obligation:
    """The goal follows from the assumptions.

    name: `direction/case/step`, the same in every run. kind: equality, defined, side condition, case split or vacuous case. comment: what
    it says, in words. legend: the variables in the order of their introduction, with what they stand for.
    """

    rule: str
    name: str
    kind: str
    comment: str
    assumptions: tuple[Assumption, ...]
    goal: z3.BoolRef
    legend: tuple[tuple[str, str], ...]

    def solver(self, timeout_ms: int = 10_000) -> z3.Solver:
        """A Z3 solver with the assumptions and the negated goal; its `check` answers unsat if the goal follows."""
        solver = z3.SolverFor("QF_NRA")
        solver.set("timeout", timeout_ms)
        solver.add(*(assumption.formula for assumption in self.assumptions), z3.Not(self.goal))
        return solver
