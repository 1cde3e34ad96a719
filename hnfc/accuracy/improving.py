"""A program of numbers in a form that loses fewer digits: search, series, branches, and what holds of the outcome."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hnfc.accuracy.arithmetic import Arithmetic
from hnfc.accuracy.evaluation import Evaluator
from hnfc.accuracy.expanding import Expander
from hnfc.accuracy.ordinals import bits_of_error
from hnfc.accuracy.points import Domain, Sample, draw
from hnfc.accuracy.reading import NotImproved, expression, program_term
from hnfc.accuracy.regimes import Bound, Regimes, Tree, assembled, paths, price_of
from hnfc.accuracy.rules import RuleTable
from hnfc.accuracy.search import Candidate, Limits, Localizer, Pool, search
from hnfc.accuracy.series import NoSeries, Place
from hnfc.accuracy.terms import Term, Terms, variables
from hnfc.accuracy.truncation import truncations
from hnfc.dsl import core
from hnfc.frontend.fpcore import Program, with_body

GROUPS = ("accuracy", "stability", "cancellation", "algebra")
"""The groups of rules that are tried."""


@dataclass(frozen=True)
class Settings:
    """training, branching, testing: numbers of points; each sample is drawn afresh. least: mean bits that an improvement must bring."""

    training: int = 256
    branching: int = 768
    testing: int = 1000
    least: float = 0.1
    seed: int = 1
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True)
class Branch:
    """A form and where it is used: everywhere if there are no conditions."""

    conditions: tuple[Bound, ...]
    form: Candidate


@dataclass(frozen=True)
class Improved:
    """before, after: mean bits of error on the points of `test`, which nothing was chosen by. improved: whether `term` is a new form."""

    program: Program
    terms: Terms
    original: Term
    term: Term
    domain: Domain
    branches: tuple[Branch, ...]
    before: float
    after: float
    test: Sample
    seconds: float

    @property
    def improved(self) -> bool:
        return self.term is not self.original

    @property
    def text(self) -> str:
        """The program as FPCore: as it was written, with another expression if there is a better one."""
        return with_body(self.program.text, expression(self.term)) if self.improved else self.program.text


def rules_for_programs() -> tuple[core.Rule, ...]:
    """The shipped rules of GROUPS that are proved."""
    from hnfc.dsl.rulebook import shipped
    from hnfc.verdicts import verdicts

    rules = shipped().only(GROUPS).rules
    found = verdicts(rules)
    return tuple(rule for rule in rules if found[rule.name].proved)


def improve(program: Program, rules: Sequence[core.Rule] | None = None, settings: Settings | None = None) -> Improved:
    """The program with a smaller mean error, or as it was where none was found.

    rules: identities to rewrite with; those of GROUPS if not given. Raises NotImproved for a program that is not in binary64 throughout, or
    that has no points at which it could be measured.
    """
    began = time.perf_counter()
    chosen = settings or Settings()
    rules = rules_for_programs() if rules is None else rules
    terms = Terms()
    original, conditions = program_term(program, terms)
    if not program.arguments:
        raise NotImproved("a program without arguments is one number")
    domain = Domain(tuple(program.arguments), tuple(conditions), program.ranges)
    rng = np.random.default_rng(chosen.seed)
    training = draw(original, domain, chosen.training, rng)
    if len(training) < 16:
        raise NotImproved("hardly any point meets the precondition and has a finite value")
    pool = _search(terms, original, training, rules, chosen.limits)
    candidates = pool.cover(lambda c: price_of(c, len(domain.names)))
    first = pool.found[original]
    if first not in candidates:
        candidates.append(first)
    tree = _branches(terms, candidates, original, domain, rng, chosen, len(training))
    term = assembled(terms, tree)
    test = draw(original, domain, chosen.testing, np.random.default_rng(chosen.seed + 1_000_003))
    evaluator = Evaluator(test.inputs)
    before, after = (float(bits_of_error(evaluator.values(t), test.exact).mean()) for t in (original, term))
    branches = tuple(Branch(where, form) for where, form in paths(tree))
    if after > before - chosen.least:
        term, after, branches = original, before, (Branch((), first),)
    return Improved(program, terms, original, term, domain, branches, before, after, test, time.perf_counter() - began)


def _search(terms: Terms, original: Term, training: Sample, rules: Sequence[core.Rule], limits: Limits) -> Pool:
    arithmetic = Arithmetic(terms)
    table = RuleTable(rules, arithmetic)
    pool = Pool(training)
    first, _ = pool.add(original)
    assert first is not None
    if first.mean <= limits.enough:
        return pool
    pool.add(arithmetic.all_tidy(original))
    localizer = Localizer(training)
    start = list(pool.found.values())
    search(pool, start, table, localizer, limits)
    if pool.best.mean() > limits.enough:
        made = _expand(pool, original, arithmetic)
        if pool.best.mean() > limits.enough and made and len(training.inputs) > 1:
            # coefficients that hold other arguments may have better forms
            search(pool, made, table, localizer, replace(limits, expansions=limits.expansions // 2))
    # what is good at some points only may become good at more
    cover = pool.cover(lambda c: price_of(c, len(training.inputs)))
    search(pool, [c for c in cover if c.origin is None], table, localizer, replace(limits, expansions=limits.expansions // 4, enough=0.0))
    return pool


def _expand(pool: Pool, original: Term, arithmetic: Arithmetic) -> list[Candidate]:
    """Adds truncated series in each argument at 0 and ±∞; those that are better somewhere."""
    useful = []
    arguments = variables(original)
    for variable in arguments:
        for at in (0, 1, -1):
            expander = Expander(arithmetic, Place(variable, at), 20 if len(arguments) == 1 else 6)
            try:
                series = expander.series(original)
                found = truncations(expander, series, (1, 2, 3, 4, 6, 8) if len(arguments) == 1 else (1, 2, 3))
            except NoSeries:
                continue
            for cut in found:
                candidate, gain = pool.add(cut.term, (), cut)
                if candidate is not None and gain > 0.05:
                    useful.append(candidate)
    return useful


def _branches(
    terms: Terms, candidates: list[Candidate], original: Term, domain: Domain, rng: np.random.Generator, settings: Settings, found: int
) -> Tree:
    count = settings.branching if found == settings.training else 2 * found
    regimes = Regimes(terms, candidates, draw(original, domain, count, rng))
    tree = regimes.tree()
    regimes.refine(tree, original, domain, rng)
    return tree


__all__ = ["GROUPS", "Branch", "Improved", "NotImproved", "Settings", "improve", "rules_for_programs"]
