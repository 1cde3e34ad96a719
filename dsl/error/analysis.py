"""The error report of a rule: formulas of both sides, and the comparison of their bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from hnfc.dialects.facts import NoFormula
from hnfc.dsl.core import Expr, Rule, captures
from hnfc.dsl.error.conditions import Named, families
from hnfc.dsl.error.context import context_of
from hnfc.dsl.error.expression import Writer
from hnfc.dsl.error.floating import CannotRun
from hnfc.dsl.error.inequalities import equivalents
from hnfc.dsl.error.jets import NoErrorFormula
from hnfc.dsl.error.polynomial import Poly, TooLong
from hnfc.dsl.error.proving import Prover
from hnfc.dsl.error.rebuilding import meaning, with_exponentials_split
from hnfc.dsl.error.report import DEPENDS, NEVER_BETTER, NEVER_WORSE, UNKNOWN, ErrorReport, SideError
from hnfc.dsl.error.search import SearchResult, example, search
from hnfc.dsl.error.side import Paths, RuleContext, Side
from hnfc.dsl.error.text import inequality_text, shortest

SIMPLE, SHORT = 30, 64
"""The longest text of an exact condition that says enough by itself, and of one that is shown at all."""
FACTORS = (2, 3, 4, 5, 8, 10, 16, 20, 32, 64, 100)
FAMILIES, STEPS, SEARCHED = 3, (0, 1, 3), 1
"""Families of conditions that are tried, members of each, and candidates that the prover searches a proof for."""
ENOUGH = 20
"""A condition that fewer than one point in so many meets is of no use."""
CANDIDATE_WORK = 400_000
FAULTS = (NoErrorFormula, NoFormula, TooLong, RecursionError)


@dataclass(frozen=True)
class ErrorFormula:
    """An error formula: its text, and the expression that computes it. exact: it is attained, and no mere bound."""

    text: str
    value: Poly
    expression: Expr
    exact: bool = False


def rounding_of(context: RuleContext, side: Expr, taken: frozenset[str]) -> tuple[ErrorFormula, set[str]]:
    """The first-order bound of a side's rounding error over u, and remarks on it. Raises one of FAULTS where there is none."""
    analysis = Side(context, side, True)
    text, value = shortest(analysis.result().magnitude(), context.algebra, taken)
    return ErrorFormula(text, value, Writer().expression(value)), analysis.math.notes


def sensitivity_of(context: RuleContext, side: Expr, capture: str, taken: frozenset[str]) -> ErrorFormula:
    """|∂side/∂capture|, summed over the elements of the capture. Raises one of FAULTS where there is none."""
    result = Side(context, side, False, frozenset({capture})).result()
    text, value = shortest(result.magnitude(), context.algebra, taken)
    return ErrorFormula(text, value, Writer().expression(value), result.exact)


def lipschitz_of(context: RuleContext, side: Expr, capture: str, taken: frozenset[str]) -> ErrorFormula:
    """The Lipschitz constant by paths: products of the operations' own constants, added up. Raises one of FAULTS where there is none."""
    text, value = shortest(Paths(context, side, capture).result().magnitude(), context.algebra, taken)
    return ErrorFormula(text, value, Writer().expression(value))


FormulaOf = Callable[[RuleContext, Expr, str, frozenset[str]], ErrorFormula]


def error_of(rule: Rule) -> ErrorReport:
    """The report; `unknown` with the reason in `notes` where there are no formulas. Never raises."""
    if rule.parameters:
        return ErrorReport(notes=("errors depend on the values of the parameters",))
    try:
        return _Analysis(rule).report()
    except FAULTS as error:
        return ErrorReport(notes=(str(error) or type(error).__name__,))
    except Exception as error:
        # a fault of an operation's formula, or of this analysis, is no verdict on the rule
        return ErrorReport(notes=(f"the analysis failed: {type(error).__name__}: {error}",))


class _Analysis:
    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.context = context_of(rule)
        self.names = captures(rule.pattern) | captures(rule.replacement)
        self.taken = frozenset(self.names)
        self.inputs = [name for name in self.names if name not in self.context.booleans and name not in self.context.whole]
        self.notes: list[str] = []

    def report(self) -> ErrorReport:
        bounds: list[ErrorFormula | None] = []
        for word, side in (("left", self.rule.pattern), ("right", self.rule.replacement)):
            try:
                formula, remarks = rounding_of(self.context, side, self.taken)
                bounds.append(formula)
                self.notes += sorted(remarks - set(self.notes))
            except FAULTS as error:
                self.notes.append(f"no bound of the {word} side: {error}")
                bounds.append(None)
        left, right = bounds
        lipschitz = [self._shortest(name, lipschitz_of) for name in self.inputs]
        growth = [dict(zip(self.inputs, texts, strict=True)) for texts in zip(*lipschitz, strict=True)] or [{}, {}]
        parts = {
            "left": SideError(growth[0], left.text if left else ""), "right": SideError(growth[1], right.text if right else ""),
            "sensitivity": {name: self._sensitivity(name) for name in self.inputs},
        }  # fmt: skip
        if left is None or right is None:
            return ErrorReport(**parts, notes=tuple(self.notes))  # type: ignore[arg-type]
        compared = _Comparison(self.rule, self.context, left, right, self.taken)
        return ErrorReport(**parts, **compared.outcome(), notes=(*self.notes, *compared.notes))  # type: ignore[arg-type]

    def _formulas(self, name: str, formula_of: FormulaOf) -> list[ErrorFormula | str]:
        """The formula of either side for a capture, or why there is none."""
        found: list[ErrorFormula | str] = []
        for side in (self.rule.pattern, self.rule.replacement):
            try:
                found.append(formula_of(self.context, side, name, self.taken))
            except FAULTS as error:
                found.append(f"not known: {error}")
        return found

    def _shortest(self, name: str, formula_of: FormulaOf) -> tuple[str, str]:
        """The texts of both sides: one text where they are one function."""
        left, right = self._formulas(name, formula_of)
        texts = [found if isinstance(found, str) else found.text for found in (left, right)]
        if isinstance(left, ErrorFormula) and isinstance(right, ErrorFormula) and self._same(left, right):
            texts = [min(texts, key=len)] * 2
        return texts[0], texts[1]

    def _same(self, left: ErrorFormula, right: ErrorFormula) -> bool:
        """Return whether the formulas are equal once operations are spelled out."""
        try:
            forms = (with_exponentials_split(meaning(f.value, self.context.algebra), self.context.algebra) for f in (left, right))
            difference = self.context.algebra.over_one_denominator(next(forms) - next(forms))
        except FAULTS:
            return False
        return self.context.algebra.tidy(difference).zero

    def _sensitivity(self, name: str) -> str:
        """The sharper of what the two sides give, which have the same derivative."""
        found = self._formulas(name, sensitivity_of)
        formulas = [f for f in found if isinstance(f, ErrorFormula)]
        if not formulas:
            return str(found[0])
        best = min(formulas, key=lambda f: (not f.exact, len(f.text)))
        return best.text if best.exact else f"≤ {best.text}"


class _Comparison:
    """Comparison of two bounds at points."""

    def __init__(self, rule: Rule, context: RuleContext, left: ErrorFormula, right: ErrorFormula, taken: frozenset[str]) -> None:
        self.rule, self.context, self.left, self.right, self.taken = rule, context, left, right, taken
        self.difference = context.algebra.tidy(left.value - right.value)
        self.prover = Prover(rule, context)
        self.notes: list[str] = []

    def outcome(self) -> dict[str, object]:
        if self.difference.zero:
            self.notes.append("the bounds are equal")
            return {"verdict": NEVER_WORSE, "proved": True}
        try:
            found = search(self.rule, self.context, self.left.expression, self.right.expression)
        except CannotRun as error:
            self.notes.append(f"the formulas cannot be compared at points: {error}")
            return {"verdict": UNKNOWN}
        if not found.compared:
            self.notes.append("no inputs were found at which both bounds have a value")
            return {"verdict": UNKNOWN}
        if not found.worse:
            proved = self.prover.nonnegative(self.difference, self.left.expression)
            if proved and not found.better and self.prover.nonnegative(-self.difference, self.right.expression):
                self.notes.append("the bounds are equal")
            return {"verdict": NEVER_WORSE, "proved": proved}
        worst = {"example": example(self.rule, found, self.left.expression, self.right.expression, True), "worst": found.worst,
                 "at_most": self._at_most(found.worst)}  # fmt: skip
        if not found.better:
            proved = self.prover.nonnegative(-self.difference, self.right.expression)
            return {"verdict": NEVER_BETTER, "proved": proved, **worst}
        better = example(self.rule, found, self.left.expression, self.right.expression, False)
        proved = worst["example"] is not None and better is not None
        return {"verdict": DEPENDS, "proved": proved, "better_where": self._better_where(found), **worst}

    def _at_most(self, worst: float) -> int:
        """The least of a few factors by which the right bound never exceeds the left one, if one can be proved."""
        for factor in FACTORS:
            if math.isfinite(worst) and factor >= worst * (1 - 1e-6):
                difference = self.left.value.scale(Fraction(factor)) - self.right.value
                return factor if self.prover.plainly(self.context.algebra.tidy(difference)) else 0
        return 0

    def _better_where(self, found: SearchResult) -> str:
        """The exact condition where it is simple; else one that is proved or that no point speaks against, and the exact one behind it."""
        exact = min((inequality_text(form, self.taken) for form in equivalents(self.difference, self.context.algebra)), key=len)
        if len(exact) <= SIMPLE:
            return f"exactly where {exact}"
        parts: list[str] = []
        candidates = self._candidates(found)
        tried = [family[step] for step in STEPS for family in candidates[:FAMILIES] if step < len(family)]
        proved = next((text for text, condition in tried if self.prover.plainly(self.difference, condition)), "")
        if not proved:
            prover = Prover(self.rule, self.context, CANDIDATE_WORK)
            weakest = [family[0] for family in candidates[:SEARCHED]]
            proved = next((text for text, condition in weakest if prover.by_search(self.difference, self.left.expression, condition)), "")
        if proved:
            parts.append(f"{proved} (proved)")
        elif candidates:
            parts.append(f"{candidates[0][0][0]} (observed, not proved)")
        if len(exact) <= SHORT:
            parts.append(f"exactly where {exact}")
        return "; ".join(parts)

    def _candidates(self, found: SearchResult) -> list[list[Named]]:
        """Conditions that no point speaks against, from the weakest of a family to the strongest; those first that most points meet."""
        kept: list[tuple[int, int, list[Named]]] = []
        for family in families(self.rule, self.context):
            seen = [(*found.meeting(condition), (text, condition)) for text, condition in family]
            good = [(met, named) for met, against, named in seen if met * ENOUGH > found.compared and not against]
            if good:
                kept.append((-good[0][0], len(good[0][1][0]), [named for _, named in good]))
        return [family for *_, family in sorted(kept, key=lambda k: k[:2])]
