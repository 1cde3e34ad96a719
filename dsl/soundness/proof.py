"""The proof: by cases, the right side is defined wherever the left is, and equal to it.

Within a case the facts are the rule's `where`, what makes the left side defined, and the assumptions of the case. Cases arise where
a normal form needs a sign or the truth of a condition; a case whose facts exclude each other is closed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import z3

from hnfc.dialects.facts import NoFormula
from hnfc.dsl.core import Rule
from hnfc.dsl.soundness import term
from hnfc.dsl.soundness.axis_classes import Unrelated
from hnfc.dsl.soundness.closing import Closer
from hnfc.dsl.soundness.deducing import deduce
from hnfc.dsl.soundness.denote import Denotation, denotations
from hnfc.dsl.soundness.equality import is_zero
from hnfc.dsl.soundness.goals import broadcast_text, narrowed, what_is_left
from hnfc.dsl.soundness.limits import CASE, OutOfWork, Work
from hnfc.dsl.soundness.normal_form import CaseSplit, Normalizer, NotProved
from hnfc.dsl.soundness.proof_observer import Case, ProofObserver
from hnfc.dsl.soundness.scan import integral_captures, whole_constants
from hnfc.dsl.soundness.signs import ZEROS, Contradiction, Signs
from hnfc.dsl.soundness.sym import QUANTIFIED, RESULT, Env
from hnfc.dsl.soundness.term import FALSE, ONE, Index, Proposition, Rational, TooLarge

MAX_CASES = 200
MAX_SPLITS = 14

MAX_EMPTY = 3

FAULTS = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError, z3.Z3Exception)
"""Exceptions of a faulty prover or formula."""


class Blocked(Exception):
    """No proof was found; the message says where it stopped."""


@dataclass
class Proof:
    """One attempt to prove left = right from a rule's conditions."""

    rule: Rule
    work: Work = field(default_factory=Work)
    steps: list[str] = field(default_factory=list)
    cases: int = 0
    observer: ProofObserver = field(default_factory=ProofObserver)
    empty: frozenset[int] = frozenset()

    def run(self) -> None:
        """Raises Blocked where a case cannot be closed, and TimeoutError beyond the deadline."""
        term.reset()
        try:
            self.every_broadcast(self.rule)
            if self.rule.both_ways:
                self.steps.append("and from right to left:")
                self.every_broadcast(replace(self.rule, pattern=self.rule.replacement, replacement=self.rule.pattern))
        except (NoFormula, Unrelated) as error:
            raise Blocked(str(error)) from None
        except TooLarge as error:
            raise Blocked(f"the terms grow too large: {error}") from None
        except OutOfWork:
            raise Blocked("no proof was found within the limit of work") from None
        except RecursionError:
            raise Blocked("the terms are nested too deeply") from None
        except FAULTS as error:
            # a fault of the prover or of an operation's formula is no verdict on the rule
            raise Blocked(f"the proof failed: {type(error).__name__}: {error}") from None

    def every_broadcast(self, rule: Rule) -> None:
        found = False
        self.observer.about(rule)
        for meaning in denotations(rule):
            found = True
            if meaning.layout.broadcast:
                self.steps.append(f"where {' and '.join(map(broadcast_text, sorted(meaning.layout.broadcast, key=repr)))}:")
            self.case(meaning, ())
        if not found:
            raise Blocked("no shapes fit the rule")

    def holds_for_empty(self) -> bool:
        """Return whether the rule also holds where axes that are reduced have no elements. Call it after `run`."""
        self.steps, self.cases = [], 0
        rules = [self.rule]
        if self.rule.both_ways:
            rules.append(replace(self.rule, pattern=self.rule.replacement, replacement=self.rule.pattern))
        try:
            for rule in rules:
                self.observer.about(rule)
                for meaning in denotations(rule):
                    for self.empty in empty_classes(meaning):
                        self.case(meaning, ())
        except (Blocked, NoFormula, Unrelated, TooLarge, OutOfWork, RecursionError, *FAULTS):
            return False
        finally:
            self.empty = frozenset()
        return True

    def case(self, meaning: Denotation, assumptions: Case) -> None:
        self.cases += 1
        if self.cases > MAX_CASES or len(assumptions) > MAX_SPLITS:
            raise Blocked("too many cases")
        self.work.spend(CASE)
        n, closer = self.observer.tools(meaning, assumptions, integral_captures(self.rule) | whole_constants(self.rule), self.work)
        n.empty = self.empty
        named = " and ".join(str(c if value else Proposition("not", c)) for c, value in assumptions)
        prefix = f"if {named}: " if named else ""
        known: Signs | None = None
        try:
            meaning.prepare(n)
            while True:
                assume_case(n, assumptions)
                n.note("sizes agree")
                for size in meaning.size_facts(n):
                    assume_size(n, size)
                n.note("a movement stays inside")
                for bound in meaning.bound_facts(n):
                    n.signs.assume(bound)
                n.note("where")
                settled = len(n.subst)
                for fact, shape in zip(meaning.facts, meaning.fact_shapes, strict=True):
                    self.assume(n, meaning, fact, shape)
                # bounds that were assumed before `where` fixed a size are assumed anew
                if len(n.subst) == settled and not pin_sizes(n, assumptions):
                    break
            deduce(n)
            env = meaning.env(RESULT)
            n.note("the left side is defined")
            left = meaning.left.real(n, env)
            deduce(n)
            known = n.signs.copy()
            n.proving = True
            n.note("sizes agree")
            places, right = self.right_side(n, meaning, env)
            reason = is_zero(n, left - right, closer)
            if not reason:
                n.settle()
                left, right = meaning.left.real(n, env), meaning.right.real(n, places)
                reason = is_zero(n, left - right, closer)
            if not reason:
                raise NotProved("it remains to show that", narrowed(left - right))
            self.observer.equal(left, right, reason)
            self.steps.append(prefix + reason)
        except Contradiction:
            if known is not None and not excluded(closer, known):
                open_case = NotProved("the right side has no value, or no type")
                raise Blocked(what_is_left(meaning, self.rule, assumptions, open_case)) from None
            self.observer.impossible()
            self.steps.append(prefix + "impossible, or the left side is undefined")
        except CaseSplit as split:
            for value in (True, False):
                self.case(meaning, (*assumptions, (split.cond, value)))
        except NotProved as error:
            if excluded(closer, known or n.signs):
                self.observer.impossible()
                self.steps.append(prefix + "impossible (Z3)")
                return
            raise Blocked(what_is_left(meaning, self.rule, assumptions, error)) from None

    def right_side(self, n: Normalizer, meaning: Denotation, env: Env) -> tuple[Env, Rational]:
        """Its places and its value. Raises NotProved where its type or its value is not sure."""
        try:
            for bound in meaning.bound_obligations(n):
                n.require(bound)
            for equal, fits in meaning.size_obligations(n):
                n.require(fits)
                assume_size(n, equal)
            places = meaning.right_env(n, env)
            return places, meaning.right.real(n, places)
        except Contradiction:
            raise NotProved("the right side has no value, or no type, in this case") from None

    def assume(self, n: Normalizer, meaning: Denotation, fact: object, shape: object) -> None:
        """A precondition holds for every element: its indices are quantified."""
        env = meaning.env(QUANTIFIED)
        classes = {c for members in shape.values() for c in meaning.layout.of(members)}  # type: ignore[attr-defined]
        if classes & n.empty or any(c in n.definitions and not n.surely(">", n.size_of(c)) for c in classes):
            return  # there is no element
        ixs = [ix for axis, members in shape.items() for c in meaning.layout.of(members) if isinstance(ix := env[axis][c], Index)]  # type: ignore[attr-defined]
        n.bound += ixs
        cond = fact(n, env)  # type: ignore[operator]
        if cond.kind == "=" and not cond.ixs and n.signs.whole(cond.args[0]):
            assume_size(n, cond)
        else:
            n.signs.assume(cond, True, tuple(ixs))
        del n.bound[len(n.bound) - len(ixs) :]


def excluded(closer: Closer, signs: Signs) -> bool:
    """Return whether Z3 finds that the facts exclude each other; not where the question would need a distinction of cases itself."""
    try:
        return closer.entails(signs, FALSE)
    except (CaseSplit, NotProved, Contradiction):
        return False


def assume_size(n: Normalizer, size: Proposition) -> None:
    """Two sizes are equal: one is put in the place of the other where that can be done."""
    before = len(n.subst)
    n.note("a size", size)
    if size.kind == "=":
        n.assume_equal(n.replace_atoms(size.args[0], n.subst))
    if len(n.subst) == before:
        n.signs.assume(image(n, size))
    else:
        n.forget()


def empty_classes(meaning: Denotation) -> Iterator[frozenset[int]]:
    """The sets of classes that may have no elements while the result has some: those along which the left side does not vary.

    Raises Blocked where there are too many.
    """
    varying = {c for members in meaning.left.shape.values() for c in meaning.layout.of(members)}
    others = [c for c in range(len(meaning.layout.classes)) if c not in varying]
    if len(others) > MAX_EMPTY:
        raise Blocked("many axes that are reduced")
    for count in range(1, len(others) + 1):
        yield from map(frozenset, itertools.combinations(others, count))


def pin_sizes(n: Normalizer, assumptions: Case) -> bool:
    """Puts a number in the place of a size that the facts leave no choice; whether there was one."""
    assert n.entails is not None
    for cond, _ in assumptions:
        cond = image(n, cond)
        if cond.kind != ">=" or not n.signs.whole(cond.args[0]):
            continue
        for least in (cond.args[0], cond.args[0] + ONE):
            if (
                least.constant() is None
                and n.entails(n.signs, Proposition(">", least + ONE))
                and n.entails(n.signs, Proposition("not", Proposition(">=", least - ONE)))
            ):
                before = len(n.subst)
                n.assume_equal(least)
                if len(n.subst) > before:
                    n.forget()
                    return True
    return False


def assume_case(n: Normalizer, assumptions: Case) -> None:
    """The assumptions, with every value that they fix put in its place."""
    done = False
    while not done:
        done = True
        n.signs = type(n.signs)(n.rename, n.signs.integral)
        for cond, value in assumptions:
            n.signs.assume(image(n, cond), value)
        for x, mask in list(n.signs.ground.items()):
            if mask == ZEROS and len(n.subst) < 20:
                before = len(n.subst)
                n.assume_equal(n.replace_atoms(x, n.subst) if n.subst else x)
                if len(n.subst) > before:
                    done = False
                    break


def image(n: Normalizer, cond: Proposition) -> Proposition:
    if cond.kind in (">", ">=", "="):
        return n.relation(cond.kind, n.replace_atoms(cond.args[0], n.subst))
    if cond.kind in ("and", "or", "not"):
        return Proposition(cond.kind, *(image(n, c) for c in cond.args))
    return cond
