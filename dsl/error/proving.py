"""Is an error formula never negative? By inequalities that have a name, and by the prover.

What is shown holds for all inputs that meet the rule's `where`, wherever its left side and the formulas have a value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from hnfc.dialects.facts import NoFormula
from hnfc.dsl.core import TRUE, AllOf, Comparison, Condition, Expr, Literal, Rule
from hnfc.dsl.error.algebra import Algebra
from hnfc.dsl.error.expression import Writer, call
from hnfc.dsl.error.inequalities import by_multiples, forms, in_every_case, supposing, within
from hnfc.dsl.error.polynomial import BINDING, ErrorAtom, Poly, of_atom
from hnfc.dsl.error.side import RuleContext, Side
from hnfc.dsl.soundness.limits import Work
from hnfc.dsl.soundness.proof import Blocked, Proof
from hnfc.dsl.soundness.scan import bounds_of
from hnfc.dsl.soundness.uninterpreted import abstracted

WORK = 4_000_000
"""Work that the prover may spend on one question."""

NOUGHT, UNIT = Literal(Fraction(0)), Literal(Fraction(1))


@dataclass
class Prover:
    """Shows formulas not negative for one rule. `defined`: an expression that has a value where the claim is made."""

    rule: Rule
    context: RuleContext
    work: int = WORK

    @property
    def algebra(self) -> Algebra:
        return self.context.algebra

    def nonnegative(self, x: Poly, defined: Expr, given: Condition = TRUE) -> bool:
        """Return whether x ≥ 0 was shown: by inequalities alone if possible, and else by the prover."""
        return self.plainly(x, given) or self.by_search(x, defined, given)

    def plainly(self, x: Poly, given: Condition = TRUE) -> bool:
        """Return whether x ≥ 0 follows from intervals and inequalities: in each of the cases that its conditions make."""
        if given == TRUE:
            return in_every_case(x, self.algebra)
        bound = bounds_of(given)
        if bound is not None:
            return in_every_case(x, within(self.algebra, *bound))
        known = self._difference(given)
        if known is None:
            return False
        algebra = supposing(self.algebra, known)
        return in_every_case(x, algebra) or any(by_multiples(form, known, algebra) for form in forms(x, algebra))

    def _difference(self, given: Condition) -> Poly | None:
        """The p for which the condition is p ≥ 0."""
        if not isinstance(given, Comparison) or given.predicate not in ("ge", "le"):
            return None
        x, y = (Side(self.context, side, False).result().value for side in (given.x, given.y))
        return x - y if given.predicate == "ge" else y - x

    def by_search(self, x: Poly, defined: Expr, given: Condition = TRUE) -> bool:
        """Return whether the prover shows it."""
        work = Work(self.work)
        return any(self._proved(form, defined, given, work) for form in dict.fromkeys(forms(x, self.algebra)))

    def _proved(self, x: Poly, defined: Expr, given: Condition, work: Work) -> bool:
        """The rule `1 => where(x >= 0, 1, 0)`, under the conditions of the rule and where `defined` has a value, for the prover."""
        try:
            claim = call("where", call("compare", Writer().expression(x), NOUGHT, predicate="ge"), UNIT, NOUGHT)
            pattern = call("add", UNIT, call("mul", NOUGHT, call("add", self.rule.pattern, defined)))
            where = AllOf((self.rule.where, given, *lemmas(x, self.algebra)))
            rule = replace(self.rule, pattern=pattern, replacement=claim, where=where, both_ways=False, within=None)
            Proof(abstracted(rule)[0], work).run()
        except (Blocked, NoFormula, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
            # whatever stops the prover is no proof
            return False
        return True


MAX_LEMMAS = 8


def lemmas(x: Poly, algebra: Algebra) -> list[Condition]:
    """Lemmas on the sums and maxima in a formula: p ≤ max p, and the sign of Σp where that of p is known."""
    writer = Writer()
    found: list[Condition] = []
    for atom in sorted(_atoms_within(x)):
        if atom.kind == "max" and not atom.args[2]:
            found.append(Comparison("ge", writer.atom(atom), writer.expression(atom.args[1])))
        elif atom.kind == "sum" and len(atom.args[1].atoms) > 1 and (sign := algebra.sign(of_atom(atom))):
            found.append(Comparison("ge" if sign > 0 else "le", writer.atom(atom), NOUGHT))
    return found[:MAX_LEMMAS]


def _atoms_within(x: Poly) -> set[ErrorAtom]:
    """The atoms of a formula that are not below a sum."""
    found: set[ErrorAtom] = set()
    waiting = list(x.atoms)
    while waiting:
        atom = waiting.pop()
        if atom not in found:
            found.add(atom)
            if atom.kind not in BINDING:
                waiting += [a for part in atom.args if isinstance(part, Poly) for a in part.atoms]
                waiting += [a for part in atom.args if isinstance(part, tuple) for p in part if isinstance(p, Poly) for a in p.atoms]
    return found
