"""Domains of programs, and forms that would give a number outside of them.

`sqrt|a|·sqrt|b|` stands for `sqrt(a·b)` wherever that has a value; elsewhere the program is NaN, and a number in its place is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from functools import partial, reduce
from typing import Any

import numpy as np

from hnfc.accuracy.evaluation import TermEvaluator
from hnfc.accuracy.everyday import candidates_for_points
from hnfc.accuracy.ordinals import Floats
from hnfc.accuracy.points import Domain
from hnfc.accuracy.reference import exact_values, holds
from hnfc.accuracy.search import Candidate
from hnfc.accuracy.terms import Term, Terms, subterms
from hnfc.dialects.num import OPERATIONS

MOST_POINTS = 200


def outside(terms: Terms, term: Term, domain: Domain, rng: np.random.Generator) -> dict[str, Floats]:
    """Everyday points that meet the precondition, at which an operand leaves its function's domain, and the program is NaN as computed and
    has no value over the reals. Where it is 0/0 a form may be the limit."""
    left = _leaving(terms, term)
    if left is None:
        return {name: np.zeros(0) for name in domain.names}
    points = candidates_for_points(domain, 4 * MOST_POINTS, rng)
    for condition in domain.conditions:
        kept = holds(condition, points)
        points = {name: x[kept] for name, x in points.items()}
    evaluator = TermEvaluator(points)
    nothing = np.flatnonzero(np.isnan(evaluator.values(term)) & evaluator.truth(left))[:MOST_POINTS]
    points = {name: x[nothing] for name, x in points.items()}
    exact, _ = exact_values(term, points)
    return {name: x[np.isnan(exact)] for name, x in points.items()}


def fills(form: Term, points: dict[str, Floats]) -> Any:
    """The points outside of the domain at which a form gives a number."""
    return np.isfinite(TermEvaluator(points).values(form))


def inside(terms: Terms, candidate: Candidate, original: Term) -> Candidate | None:
    """The form but where an operand of the program leaves its function's domain, and the program there; None where none can."""
    left = _leaving(terms, original, frozenset(subterms(candidate.term)))
    if left is None or candidate.guard is not None:
        return None
    return replace(candidate, term=terms.make("where", left, original, candidate.term), guard=terms.make("logical_not", left))


def _leaving(terms: Terms, term: Term, but: Collection[Term] = ()) -> Term | None:
    """The comparison that holds where an operand of a function leaves its domain; None where none can. but: functions that do not count."""
    found: list[Term] = []
    for node in subterms(term):
        if node.args and node not in but:
            known = OPERATIONS[node.op].FACTS.domain
            for predicate, end in (("lt", known.least), ("gt", known.greatest)):
                if math.isfinite(end):
                    found.append(terms.make("compare", node.args[0], terms.const(int(end)), value=predicate))
    return reduce(partial(terms.make, "logical_or"), dict.fromkeys(found)) if found else None
