"""A program of numbers in a form that loses fewer digits: search, series, branches, and what holds of the outcome."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any

import numpy as np

from hnfc.accuracy.arithmetic import TermSimplifier
from hnfc.accuracy.domains import fills, inside, outside
from hnfc.accuracy.evaluation import TermEvaluator
from hnfc.accuracy.everyday import everyday
from hnfc.accuracy.expanding import Expander
from hnfc.accuracy.guarding import Guard, asking
from hnfc.accuracy.harm import MOST_LOST, costs, worse
from hnfc.accuracy.ordinals import Floats, bits_of_error
from hnfc.accuracy.points import Domain, Sample, draw, joined
from hnfc.accuracy.reach import reach
from hnfc.accuracy.reading import NotImproved, expression, program_term
from hnfc.accuracy.regimes import Bound, Leaf, Regimes, Tree, assembled, paths, price_of
from hnfc.accuracy.rules import RuleTable
from hnfc.accuracy.search import Candidate, Localizer, Pool, SearchLimits, cover, errors_of, search
from hnfc.accuracy.series import ExpansionPoint, NoSeries
from hnfc.accuracy.terms import Term, Terms, variables
from hnfc.accuracy.truncation import truncations
from hnfc.accuracy.unfolding import unfolded
from hnfc.core.verdicts import verdicts
from hnfc.dsl import core
from hnfc.dsl.rulebook import shipped
from hnfc.frontend.fpcore import FPCoreProgram, with_body

GROUPS = ("accuracy", "stability", "cancellation", "algebra")
"""The groups of rules that are tried."""
_GATES = 4
"""Samples that a program may be tested on: where one speaks against a branch, the branch is mended and the next sample decides."""


@dataclass(frozen=True)
class ImprovementSettings:
    """training, branching, testing, guarding, last: numbers of points; each sample is drawn afresh. least, branch: mean bits that an
    improvement and each of its branches must bring. lost: bits that a form may lose at an everyday point. daily: whether half of the points
    for training and testing are everyday ones. unfold: whether the search also starts from the term with functions such as log1p written
    out, which no step accounts for. series: whether series may stand for the term. unproved: whether series without a proved remainder, and
    rules whose condition failed at points, may be used. seconds: processor time after which nothing more is tried, a last resort."""

    training: int = 256
    branching: int = 768
    testing: int = 1000
    guarding: int = 4000
    last: int = 5000
    least: float = 0.1
    branch: float = 0.04
    lost: float = MOST_LOST
    daily: bool = False
    unfold: bool = False
    series: bool = True
    unproved: bool = False
    seed: int = 1
    seconds: float = 12.0
    limits: SearchLimits = field(default_factory=SearchLimits)


@dataclass(frozen=True)
class Branch:
    """A form and where it is used: everywhere if there are no conditions."""

    conditions: tuple[Bound, ...]
    form: Candidate


@dataclass(frozen=True)
class Improved:
    """before, after: mean bits of error on the points of `test`, which nothing was chosen by. improved: whether `term` is a new form."""

    terms: Terms
    original: Term
    term: Term
    domain: Domain
    branches: tuple[Branch, ...]
    before: float
    after: float
    test: Sample
    seconds: float
    everyday: int = 0
    """At how many everyday points the new form was compared with the program: nowhere it is more than a few bits worse."""

    @property
    def improved(self) -> bool:
        return self.term is not self.original

    def bits(self) -> tuple[Floats, Floats]:
        """Bits of error at each point of `test`, before and after."""
        evaluator = TermEvaluator(self.test.inputs)
        before, after = (bits_of_error(evaluator.values(t), self.test.exact) for t in (self.original, self.term))
        return before, after


@dataclass(frozen=True)
class ImprovedProgram(Improved):
    """An FPCore program with what was found for it."""

    program: FPCoreProgram = field(kw_only=True)

    @property
    def text(self) -> str:
        """The program as FPCore: as it was written, with another expression if there is a better one."""
        return with_body(self.program.text, expression(self.term)) if self.improved else self.program.text


@cache
def rules_for_programs() -> tuple[core.Rule, ...]:
    """The shipped rules of GROUPS that are proved."""
    rules = shipped().only(GROUPS).rules
    found = verdicts(rules)
    return tuple(rule for rule in rules if found[rule.name].proved)


def improve(
    program: FPCoreProgram, rules: Sequence[core.Rule] | None = None, settings: ImprovementSettings | None = None
) -> ImprovedProgram:
    """The program with a smaller mean error, or as it was where none was found.

    rules: identities to rewrite with; those of GROUPS if not given. Raises NotImproved for a program that is not in binary64 throughout, or
    that has no points at which it could be measured.
    """
    rules = rules_for_programs() if rules is None else [rule for rule in rules if not rule.parameters]
    terms = Terms()
    original, conditions = program_term(program, terms)
    if not program.arguments:
        raise NotImproved("a program without arguments is one number")
    domain = Domain(tuple(program.arguments), tuple(conditions), program.ranges)
    found = improve_term(terms, original, domain, rules, settings or ImprovementSettings())
    return ImprovedProgram(*(getattr(found, f.name) for f in fields(found)), program=program)


@dataclass(frozen=True)
class ProgramErrors:
    """Bits of error of a program, as it is, at each point of a sample."""

    sample: Sample
    bits: Floats


def program_errors(program: FPCoreProgram, settings: ImprovementSettings | None = None) -> ProgramErrors:
    """Errors at the points at which `improve` tests a program, without a search.

    Raises NotImproved for a program that is not in binary64 throughout, or that has a value at no point.
    """
    chosen = settings or ImprovementSettings()
    original, conditions = program_term(program, Terms())
    if not program.arguments:
        raise NotImproved("a program without arguments is one number")
    test = _test_points(original, Domain(tuple(program.arguments), tuple(conditions), program.ranges), chosen)
    if not len(test):
        raise NotImproved("no point that was tried meets the precondition and has a finite value")
    return ProgramErrors(test, bits_of_error(TermEvaluator(test.inputs).values(original), test.exact))


def improve_term(
    terms: Terms,
    original: Term,
    domain: Domain,
    rules: Sequence[core.Rule],
    chosen: ImprovementSettings,
    seen: Sample | None = None,
) -> Improved:
    """A term with a smaller mean error on the domain, or the term itself. Raises NotImproved where it cannot be measured.

    seen: points of samples, which count as everyday points do.
    """
    began, started = time.perf_counter(), time.process_time()
    rng = np.random.default_rng(chosen.seed)
    seen = Sample({name: np.zeros(0) for name in domain.names}, np.zeros(0), np.zeros(0, np.int8)) if seen is None else seen
    drawn = _points(original, domain, chosen.training, rng, chosen.daily)
    training = joined(drawn, seen)
    if len(training) < 16:
        raise NotImproved("hardly any point meets the precondition and has a finite value")
    pool = _search(terms, original, training, rules, chosen, domain)
    first = pool.found[original]
    candidates = _candidates(terms, pool, first, domain, rng, chosen)
    guard = Guard(terms, domain, first, candidates, chosen.lost, chosen.unproved, started + chosen.seconds)
    guard.see(seen.part(slice(0, 0)), seen)
    tree = Leaf(first) if candidates == [first] else _branches(terms, guard, rng, chosen, len(drawn), seen)
    for gate in range(_GATES):
        test = joined(_test_points(original, domain, chosen, gate), seen)
        evaluator = TermEvaluator(test.inputs)
        before, after = (float(costs(evaluator.values(t), test.exact).mean()) for t in (original, assembled(terms, tree)))
        better = after <= before - chosen.least
        if better and guard.passes(tree, test) and guard.passes(tree, *_last_points(original, domain, chosen, gate)):
            break
        # what is mended is tested on points that nobody has seen
        again = better and gate < _GATES - 1 and time.process_time() < guard.deadline
        tree = guard.mended(tree) if again else Leaf(first)
        if isinstance(tree, Leaf) and tree.choice is first:
            break
    compared = 0 if isinstance(tree, Leaf) and tree.choice is first else int(guard.of_everyday.sum())
    term, branches = assembled(terms, tree), tuple(Branch(where, form) for where, form in paths(tree))
    before, after = (float(bits_of_error(evaluator.values(t), test.exact).mean()) for t in (original, term))
    return Improved(terms, original, term, domain, branches, before, after, test, time.perf_counter() - began, compared)


def _points(term: Term, domain: Domain, count: int, rng: np.random.Generator, daily: bool) -> Sample:
    drawn = draw(term, domain, count, rng)
    return joined(drawn, everyday(term, domain, count, rng)) if daily else drawn


def _test_points(term: Term, domain: Domain, chosen: ImprovementSettings, gate: int = 0) -> Sample:
    return _points(term, domain, chosen.testing, np.random.default_rng(chosen.seed + 1_000_003 + gate), chosen.daily)


def _last_points(term: Term, domain: Domain, chosen: ImprovementSettings, gate: int) -> tuple[Sample, Sample]:
    """Many points, even ones and everyday ones, that decide after all others."""
    rng = np.random.default_rng(chosen.seed + 2_000_003 + gate)
    return draw(term, domain, chosen.last, rng), everyday(term, domain, chosen.last, rng)


def _candidates(
    terms: Terms, pool: Pool, first: Candidate, domain: Domain, rng: np.random.Generator, settings: ImprovementSettings
) -> list[Candidate]:
    """The forms among which branches choose: together almost as good as all, at everyday points too; the program is one of them."""
    found = list(pool.found.values())
    if len(found) == 1:
        return found
    daily = everyday(first.term, domain, settings.training, rng)
    evaluator = TermEvaluator(daily.inputs)
    of_everyday = np.ones(len(daily), bool)

    def there(c: Candidate) -> Any:
        bad = worse(c.term, first.term, evaluator, daily.exact, of_everyday, settings.lost)
        return np.where(bad, 64.0, errors_of(c, evaluator, daily.exact))

    errors = np.stack([np.concatenate([c.errors, there(c)]) for c in found])
    candidates = cover(found, errors, lambda c: price_of(c, len(domain.names)))
    careful = [asking(terms, c, first.term) for c in candidates]
    found = [*candidates, *(c for c in careful if c is not None)]
    nowhere = outside(terms, first.term, domain, rng)
    if len(next(iter(nowhere.values()))) and not settings.unproved:
        kept = [inside(terms, c, first.term) if fills(c.term, nowhere).any() else c for c in found]
        found = [c for c in kept if c is not None and not fills(c.term, nowhere).any()]
    return [*found, *([] if first in found else [first])]


def _search(
    terms: Terms, original: Term, training: Sample, rules: Sequence[core.Rule], settings: ImprovementSettings, domain: Domain
) -> Pool:
    limits = settings.limits
    arithmetic = TermSimplifier(terms)
    table = RuleTable(rules, arithmetic)
    pool = Pool(training)
    first, _ = pool.add(original)
    assert first is not None
    if first.mean <= limits.enough:
        return pool
    pool.add(arithmetic.all_tidy(original))
    if settings.unfold:
        pool.add(arithmetic.all_tidy(unfolded(terms, original, domain)))
    localizer = Localizer(training)
    start = list(pool.found.values())
    search(pool, start, table, localizer, limits)
    # in several arguments no remainder can be proved
    if settings.series and pool.best.mean() > limits.enough and (settings.unproved or len(domain.names) == 1):
        made = _expand(pool, original, arithmetic, None if settings.unproved else domain)
        if pool.best.mean() > limits.enough and made and len(training.inputs) > 1:
            # coefficients that hold other arguments may have better forms
            search(pool, made, table, localizer, replace(limits, expansions=limits.expansions // 2))
    # what is good at some points only may become good at more
    found = list(pool.found.values())
    few = cover(found, np.stack([c.errors for c in found]), lambda c: price_of(c, len(training.inputs)))
    search(pool, [c for c in few if c.origin is None], table, localizer, replace(limits, expansions=limits.expansions // 4, enough=0.0))
    return pool


def _expand(pool: Pool, original: Term, arithmetic: TermSimplifier, proved_on: Domain | None) -> list[Candidate]:
    """Adds truncated series in each argument at 0 and ±∞, as far as their remainders are proved if there is a domain for that; those that
    are better somewhere."""
    useful = []
    arguments = variables(original)
    for variable in arguments:
        for at in (0, 1, -1):
            expander = Expander(arithmetic, ExpansionPoint(variable, at), 20 if len(arguments) == 1 else 6)
            try:
                series = expander.series(original)
                found = truncations(expander, series, (1, 2, 3, 4, 6, 8) if len(arguments) == 1 else (1, 2, 3))
            except NoSeries:
                continue
            for cut in found:
                near = None if proved_on is None else reach(original, cut, *proved_on.interval(str(variable.value)))
                if proved_on is not None and near is None:
                    continue
                candidate, gain = pool.add(cut.term, (), cut, 0, near)
                if candidate is not None and gain > 0.05:
                    useful.append(candidate)
    return useful


def _branches(
    terms: Terms, guard: Guard, rng: np.random.Generator, settings: ImprovementSettings, found: int, seen: Sample
) -> Tree:  # fmt: skip
    count = settings.branching if found == settings.training else 2 * found
    original, domain = guard.original.term, guard.domain
    even, daily = draw(original, domain, count, rng), joined(everyday(original, domain, count, rng), seen)

    def grow(more: Sample, of_everyday: Any) -> Tree:
        # twice, since one half of the points grows branches and the other cuts them
        far, near = (np.repeat(np.flatnonzero(chosen), 2) for chosen in (~of_everyday, of_everyday))
        points = joined(even, more.part(far)), joined(daily, more.part(near))
        regimes = Regimes(terms, guard.candidates, original, *points, settings.branch, settings.lost)
        tree = regimes.tree()
        regimes.refine(tree, original, domain, rng)
        return tree

    return guard.guarded(grow, settings.guarding, rng)


__all__ = ["GROUPS", "Branch", "Improved", "ImprovementSettings", "NotImproved", "improve", "rules_for_programs"]
