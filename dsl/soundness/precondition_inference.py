"""A condition under which a wrong rule is right: the weakest one that can be found and proved.

Points at which the rule holds and points at which it fails decide which conditions are worth a proof: one that excludes every failure,
and of those the one that keeps most of the rest.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from hnfc.dialects.facts import NoFormula
from hnfc.dsl.core import (
    AllOf,
    Apply,
    Capture,
    Comparison,
    Condition,
    Expr,
    Free,
    Literal,
    Rule,
    SameSize,
    captures,
    conjuncts,
    walk,
)
from hnfc.dsl.description import describe
from hnfc.dsl.soundness import balls
from hnfc.dsl.soundness.balls import Unsupported
from hnfc.dsl.soundness.elements import DEFAULT_PRECISION
from hnfc.dsl.soundness.limits import Work
from hnfc.dsl.soundness.outcome import ERRORS, PointOutcome, holds, outcome
from hnfc.dsl.soundness.sampling import Point, Sampler
from hnfc.dsl.soundness.scan import boolean_captures, order_captures, orthogonal_captures, rule_expressions, scalar_captures, used_axes

ZERO = Literal(Fraction(0))
POINTS = 240
FAILURES = 60
MAX_PROOFS = 8
WORK = 1_500_000
"""Work of each of those proofs."""
MAX_MEETINGS = 12_000
"""Number of trials of a condition at points."""


@dataclass
class _Bank:
    """Points at which the left side has a value, with whether the right side has the same."""

    good: list[Point]
    bad: list[Point]


def inferred_precondition(rule: Rule, proves: Callable[[Rule, Work], bool], deadline: float) -> str:
    """`it holds with `where …``, proved, or nothing. `proves(rule, work)` is the prover. Raises TimeoutError beyond the deadline."""
    with balls.precision(DEFAULT_PRECISION):
        bank = _bank(rule, deadline)
        if not bank.bad or not bank.good:
            return ""
        ranked = _ranked(rule, bank, deadline)
    for _, condition in ranked[:MAX_PROOFS]:
        if proves(replace(rule, where=AllOf((*conjuncts(rule.where), condition))), Work(WORK, deadline)):
            return f"it holds with `where {describe(condition)}`"
    return ""


def _bank(rule: Rule, deadline: float) -> _Bank:
    sampler = Sampler(rule, random.Random(f"{rule.name}/remedy"))
    bank = _Bank([], [])
    for number in range(8 * POINTS):
        if len(bank.good) >= POINTS:
            break
        if time.monotonic() > deadline:
            raise TimeoutError
        point = sampler.point()
        try:
            found: PointOutcome | None = outcome(rule, point, rule.both_ways and number % 2 == 1)
        except (Unsupported, NoFormula):
            break
        if found is None or not found.defined or not found.typed:
            continue
        if found.index is not None:
            if len(bank.bad) < FAILURES:
                bank.bad.append(point)
        elif found.agreed:
            bank.good.append(point)
    return bank


def _ranked(rule: Rule, bank: _Bank, deadline: float) -> list[tuple[int, Condition]]:
    """The conditions that exclude every failure, those that keep most of the other points first; then the shorter ones."""
    found: list[tuple[int, int, Condition]] = []
    singles: list[tuple[Condition, frozenset[int], int]] = []
    meetings = _Meetings(deadline)
    for number, condition in enumerate(_candidates(rule)):
        if meetings.left <= 0:
            break
        missed = frozenset(i for i, point in enumerate(bank.bad) if meetings.met(condition, point))
        if len(missed) == len(bank.bad):
            continue
        kept = frozenset(i for i, point in enumerate(bank.good) if meetings.met(condition, point))
        if not kept:
            continue
        if not missed:
            found.append((-len(kept), number, condition))
        else:
            singles.append((condition, missed, len(kept)))
    for (a, missed, _), (b, also, _) in itertools.combinations(sorted(singles, key=lambda s: -s[2])[:24], 2):
        if meetings.left <= 0:
            break
        pins = isinstance(a, Comparison) and isinstance(b, Comparison) and (a.x, a.y) == (b.x, b.y)
        if not missed & also and not pins:
            both = AllOf((a, b))
            kept_both = sum(meetings.met(both, point) for point in bank.good)
            if kept_both:
                found.append((-kept_both, 1000 + len(found), both))
    for number, condition in enumerate(_all_at_once(rule)):
        if not any(meetings.met(condition, point) for point in bank.bad):
            kept_all = sum(meetings.met(condition, point) for point in bank.good)
            if kept_all:
                found.append((-kept_all, 2000 + number, condition))
    # alone before together, for the same points
    return [(-kept, condition) for kept, _, condition in sorted(found, key=lambda f: f[:2])]


@dataclass
class _Meetings:
    """Tries conditions at points, and counts how often it may still do so."""

    deadline: float
    left: int = MAX_MEETINGS

    def met(self, condition: Condition, point: Point) -> bool:
        if time.monotonic() > self.deadline:
            raise TimeoutError
        self.left -= 1
        try:
            return holds(condition, point, point.tensors()) is True
        except (*ERRORS, Unsupported, NoFormula):
            return False


def _candidates(rule: Rule) -> Iterator[Condition]:
    """Candidates: the domains of the right side's operations, signs and orders of the captures, and relations of their sizes."""
    skipped = boolean_captures(rule) | order_captures(rule).keys()
    names = {n.name: n for n in rule_expressions(rule) if isinstance(n, Capture) and n.name not in skipped}
    own = [names[name] for name in rule.parameters if name in names and name not in orthogonal_captures(rule)]
    # a condition on a parameter leaves the rule all that its left side matches
    own += [names[name] for name in sorted(names) if name in captures(rule.pattern)]
    for x in own:
        yield Comparison("ne", x, ZERO)
    for x in own:
        for predicate in ("ge", "le", "gt", "lt"):
            yield Comparison(predicate, x, ZERO)
    yield from _definedness(rule)
    for x, y in itertools.combinations([c for c in own if c.name not in rule.parameters], 2):
        for predicate in ("ge", "le", "gt", "lt", "ne"):
            yield Comparison(predicate, x, y)
    for c in _constants(rule):
        for x in own:
            for predicate in ("ne", "ge", "le", "gt", "lt"):
                yield Comparison(predicate, x, Literal(c))
    yield from _of_sizes(rule, own)


def _definedness(rule: Rule) -> Iterator[Condition]:
    """Conditions for the operations of the right side that are partial."""
    for node in walk(rule.replacement):
        if not isinstance(node, Apply) or not node.operands:
            continue
        operand: Expr = node.operands[-1] if node.name == "div" else node.operands[0]
        if isinstance(operand, Capture | Literal) or captures(operand).keys() & set(rule.parameters):
            continue
        predicate = _defining(node)
        if predicate is not None:
            yield Comparison(predicate, operand, ZERO)


def _defining(node: Apply) -> str | None:
    """The predicate that an operand must meet, against 0, for the operation to be defined."""
    domain = node.facts.domain
    if domain.pole or node.facts.divisor:
        return "ne"
    return None if domain.least != 0 else "gt" if domain.open else "ge"


def _constants(rule: Rule) -> list[Fraction]:
    found = {n.value for n in rule_expressions(rule) if isinstance(n, Literal) and isinstance(n.value, Fraction) and n.value}
    return sorted({c for value in found for c in (value, -value)} | {Fraction(1), Fraction(-1)}, key=abs)[:6]


def _of_sizes(rule: Rule, own: list[Capture]) -> Iterator[Condition]:
    scalars = scalar_captures(rule)
    known = {(c.operand, axis) for c in conjuncts(rule.where) if isinstance(c, Free) for axis in c.axes}
    for axis in sorted(used_axes(rule), key=repr):
        varying = [x for x in own if (x, axis) not in known and x.name not in scalars]
        for x, y in itertools.combinations([c for c in varying if c.name not in rule.parameters], 2):
            yield SameSize(x, y, (axis,))
        for x in varying:
            yield Free(x, (axis,))


def _all_at_once(rule: Rule) -> Iterator[Condition]:
    """Every captured number of the left side has the same sign."""
    skipped = boolean_captures(rule) | order_captures(rule).keys()
    own = sorted((c for c in captures(rule.pattern).values() if c.name not in skipped), key=lambda c: c.name)
    scalars = [c for c in own if c.name in scalar_captures(rule)]
    for group in (own, scalars):
        if len(group) > 1:
            for predicate in ("ge", "gt"):
                yield AllOf(tuple(Comparison(predicate, x, ZERO) for x in group))


__all__ = ["inferred_precondition"]
