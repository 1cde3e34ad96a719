"""Z3 as the last resort: does a condition follow from the facts of a case and the ground axioms? Nonlinear real arithmetic.

Every atom becomes a real variable, so what Z3 proves holds for all functions that satisfy the axioms. A question that takes more than its
share of work counts as no.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction

import z3

from hnfc.dsl.soundness import axioms, inequalities
from hnfc.dsl.soundness.limits import QUERY, Work, milliseconds_until
from hnfc.dsl.soundness.monomial import BINDERS
from hnfc.dsl.soundness.signs import ANY, NEG, POS, ZEROS, Signs, assignments
from hnfc.dsl.soundness.term import FALSE, Atom, Index, Place, Proposition, Rational, TooLarge, of_atom
from hnfc.dsl.soundness.translation import SolverTranslation

MAX_ATOMS = 40
MAX_PAIRS = 8
WITNESS = 1_000_000
"""First number of the indices at which maxima are attained."""


class Closer:
    """`entails(signs, goal)` for one proof; `rename` instantiates bodies of maxima. `seen` is called with every goal that follows."""

    def __init__(
        self,
        rename: Callable[[Rational, Mapping[Index, Place]], Rational],
        work: Work,
        seen: Callable[[Query], None] | None = None,
    ) -> None:
        self.rename, self.work, self.seen = rename, work, seen

    def entails(self, signs: Signs, goal: Proposition, units: int = QUERY) -> bool:
        """Raises OutOfWork or TimeoutError where there is no work or no time left."""
        self.work.spend(0)
        try:
            query = Query(self.rename, signs, goal)
        except (TooLarge, ZeroDivisionError):
            return False
        unsat, used = query.unsat(min(units, self.work.left), self.work.deadline)
        self.work.spend(used)
        if not unsat:
            return False
        if self.seen is not None:
            self.seen(query)
        return True


class Query:
    """Does the goal follow? `named`: the facts and instances of axioms that may be used, with their names."""

    def __init__(self, rename: Callable[[Rational, Mapping[Index, Place]], Rational], signs: Signs, goal: Proposition) -> None:
        self.rename, self.signs, self.goal = rename, signs, goal
        self.translation = SolverTranslation(lambda x: f"a{x.id}" if isinstance(x, Atom) else f"p{len(self.translation.variables)}")
        self.named: dict[Proposition, str] = {}
        self.translation.collect([goal])
        self.translation.collect([cond for base in list(self.atoms) if base.kind == "floor" for _, cond in axioms.of(base)])
        ixs = self.in_sight()
        self.add(self.maxima(ixs))
        self.add(self.facts(frozenset(ixs | {i for a in self.atoms for i in a.ixs})))
        if goal == FALSE:
            self.add(self.maxima(ixs))
        for _ in range(2):
            self.translation.collect([cond for base in list(self.atoms) for _, cond in axioms.of(base)])
        for kind in axioms.PAIRED:
            alike = [a for a in self.atoms if a.kind == kind][:MAX_PAIRS]
            self.add(instance for x, y in itertools.combinations(alike, 2) for instance in axioms.of_pair(x, y))
        self.add(instance for base in list(self.atoms) for instance in axioms.of(base))
        self.add(inequalities.instances(list(self.atoms), ixs, self.rename))
        self.translation.collect(self.named)
        if len(self.atoms) > MAX_ATOMS:
            raise TooLarge("many atoms")

    @property
    def atoms(self) -> dict[Atom, None]:
        return self.translation.atoms

    def add(self, named: Iterable[tuple[str, Proposition]]) -> None:
        for name, cond in named:
            self.named.setdefault(cond, name)

    def in_sight(self) -> frozenset[Index]:
        """The indices of the goal; where it is a contradiction, those of all facts, and one for each class that facts are about."""
        if self.goal != FALSE:
            return self.goal.ixs
        classes = {i.cls for quantified, _, _ in self.signs.universal for i in quantified}
        return frozenset(i for x in self.signs.ground for i in x.ixs) | {Index(c, "free", WITNESS) for c in classes}

    def maxima(self, ixs: Iterable[Index]) -> list[tuple[str, Proposition]]:
        """max is an upper bound of the body at the indices in sight, and attained at an index of its own."""
        found: list[tuple[str, Proposition]] = []
        for base in [a for a in self.atoms if a.kind in ("max", "min")]:
            bound, body = base.args
            sign = 1 if base.kind == "max" else -1
            value = of_atom(base)
            for renaming in assignments(bound, frozenset(ixs) | base.ixs):
                found.append(("extremum-bounds", Proposition(">=", (value - self.rename(body, renaming)).scale(Fraction(sign)))))
            witness = {i: Index(i.cls, "free", WITNESS + base.id) for i in bound}
            if len({i.cls for i in bound}) == len(bound):
                found.append(("extremum-attained", Proposition("=", value - self.rename(body, witness))))
        self.translation.collect(cond for _, cond in found)
        return found

    def facts(self, ixs: frozenset[Index]) -> list[tuple[str, Proposition]]:
        """The facts that share an atom with the question, directly or through others; all of them where it is a contradiction."""
        pool: list[tuple[str, Rational, int]] = [("fact", x, mask) for x, mask in self.signs.ground.items()]
        if self.signs.universal:
            pool += [("instance", x, mask) for x, mask in self.signs.instantiated(ixs).items()]
        found = [("fact", cond) for quantified, cond in self.signs.formulas if not quantified]
        self.translation.collect(cond for _, cond in found)
        changed = True
        while changed and len(self.atoms) <= MAX_ATOMS:
            changed = False
            for entry in list(pool):
                name, x, mask = entry
                if self.goal == FALSE or x.atoms & self.atoms.keys():
                    pool.remove(entry)
                    found.append((name, in_mask(x, mask)))
                    self.translation.collect([found[-1][1]])
                    changed = True
        for base in list(self.atoms):
            mask = self.signs.atom_sign(base) if base.kind in BINDERS else ANY
            if mask != ANY:
                found.append(("sign-of-reduction", in_mask(of_atom(base), mask)))
        return found

    def unsat(self, units: int, deadline: float = math.inf) -> tuple[bool, int]:
        """Return whether Z3 shows it, and the resource units that it took.

        In a context of its own, where earlier queries leave no trace.
        """
        context = z3.Context()
        solver = z3.SolverFor("QF_NRA", ctx=context)
        solver.set("rlimit", max(1, units))
        solver.set("timeout", milliseconds_until(deadline))
        formulas = [z3.Not(self.translation.cond(self.goal)), *(self.translation.cond(cond) for cond in self.named)]
        formulas += [formula for _, formula in self.translation.roots()]
        solver.add(*(formula.translate(context) for formula in formulas))
        answer = solver.check()
        return bool(answer == z3.unsat), units_used(solver)


def units_used(solver: z3.Solver) -> int:
    """Resource units in the solver's context so far."""
    counted = solver.statistics()
    return int(counted.get_key_value("rlimit count")) if "rlimit count" in counted.keys() else 0  # noqa: SIM118


def in_mask(x: Rational, mask: int) -> Proposition:
    parts = [
        c
        for bit, c in ((POS, Proposition(">", x)), (ZEROS, Proposition("=", x)), (NEG, Proposition("not", Proposition(">=", x))))
        if mask & bit
    ]
    match mask:
        case 3:
            return Proposition(">=", x)
        case 6:
            return Proposition("not", Proposition(">", x))
        case 5:
            return Proposition("not", Proposition("=", x))
    return parts[0] if len(parts) == 1 else Proposition("or", *parts)


__all__ = ["Closer", "Query", "in_mask"]
