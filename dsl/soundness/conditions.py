"""Conditions in a proof: their normal form, their truth under the facts of a case, and what must hold for a value to exist.

Where the truth of a condition without bound indices decides a form, `Split` requests a distinction of cases.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping

from hnfc.dsl.soundness.signs import NEG, POS, ZEROS, Contradiction, Signs, mask_of
from hnfc.dsl.soundness.term import (
    FALSE,
    ONE,
    TRUE,
    Atom,
    Index,
    Place,
    Proposition,
    Rational,
    primitive_coefficient,
)

RESULT_INDICES = 100
"""Free indices below this number are those of the result; others are bound or quantified somewhere."""


class CaseSplit(Exception):
    """The proof must go by cases of this condition."""

    def __init__(self, cond: Proposition) -> None:
        super().__init__(str(cond))
        self.cond = cond


class NotProved(Exception):
    """An obligation of the right side does not follow. The message may end in the condition `goal`."""

    def __init__(self, message: str, goal: Proposition | None = None) -> None:
        super().__init__(message)
        self.goal = goal


class Judge(ABC):
    """Facts, conditions and obligations of one case. `entails` is the slow oracle (Z3), called only for what would block."""

    @abstractmethod
    def follows_by_angles(self, cond: Proposition) -> bool:
        """Return whether the condition follows once all its sines and cosines, and those of the facts, are of one angle."""

    @abstractmethod
    def rename(self, x: Rational, renaming: Mapping[Index, Place]) -> Rational:
        """x at other indices, in normal form."""

    def __init__(self, entails: Callable[[Signs, Proposition], bool] | None = None, integral: frozenset[str] = frozenset()) -> None:
        self.signs = Signs(self.rename, integral)
        self.entails = entails
        self.subst: dict[Atom, Rational] = {}
        self.bound: list[Index] = []
        self.guards: list[Proposition] = []
        self.outside: list[Signs] = []
        self.guarded: set[tuple[tuple[Proposition, ...], Proposition]] = set()
        self.defined_powers: set[tuple[Rational, Rational]] = set()
        self.proving = False
        self.settled = False
        self.obligations = 0
        self.fresh = 10_000
        self.depth = 0
        self.slow: dict[tuple[Rational, int], int] = {}
        self.steps: list[str] = []

    def note(self, what: str, *parts: object) -> None:  # noqa: B027 - who does not listen need not say so
        """Says what facts come next, or what theorem was used of which terms; nobody listens here (see tracing.py)."""

    def sign(self, x: Rational) -> int:
        """The sign of x, with the oracle's help where arithmetic alone leaves it open."""
        mask = self.signs.sign(x)
        if mask in (POS, NEG, ZEROS) or self.entails is None:
            return mask
        key = (x, self.signs.version)
        if key not in self.slow:
            found = mask
            # an integer is above -1 where it is 0 or more
            nonneg = Proposition(">", x + ONE) if self.signs.whole(x) else Proposition(">=", x)
            nonpos = Proposition("not", Proposition(">=", x - ONE) if self.signs.whole(x) else Proposition(">", x))
            for part, cond in ((NEG, nonneg), (POS, nonpos)):
                if found & part and self.entails(self.signs, cond):
                    found &= ~part
            if found & ZEROS and found != ZEROS and self.entails(self.signs, Proposition("not", Proposition("=", x))):
                found &= ~ZEROS
            self.slow[key] = found
        return self.slow[key] & mask or mask

    def splittable(self, ixs: Iterable[Index]) -> bool:
        """Only the result's own indices occur, so a case distinction is one over values, not over functions."""
        return all(i.kind == "free" and i.n < RESULT_INDICES for i in ixs)

    def compare(self, predicate: str, x: Rational, y: Rational) -> Proposition:
        difference = x - y
        match predicate:
            case "eq":
                return self.relation("=", difference)
            case "ne":
                return negation(self.relation("=", difference))
            case "gt":
                return self.relation(">", difference)
            case "ge":
                return self.relation(">=", difference)
            case "lt":
                return self.relation(">", -difference)
            case "le":
                return self.relation(">=", -difference)
        raise ValueError(predicate)

    def relation(self, kind: str, x: Rational) -> Proposition:
        """x kind 0, scaled by a positive number; a negative leading coefficient turns it into a negation."""
        c = x.constant()
        if c is not None:
            return TRUE if (c > 0 and kind != "=") or (c == 0 and kind != ">") else FALSE
        scale = primitive_coefficient(x.num)
        x = x.scale(1 / scale)
        if kind != "=" and self.signs.whole(x):
            # for integers x > 0 is x - 1 ≥ 0: one form for each condition
            if scale > 0:
                return Proposition(">=", x - ONE if kind == ">" else x)
            return Proposition("not", Proposition(">=", x if kind == ">" else x - ONE))
        if scale > 0 or kind == "=":
            return Proposition(kind, x)
        return Proposition("not", Proposition(">=" if kind == ">" else ">", x))

    def truth(self, cond: Proposition) -> bool | None:
        match cond.kind:
            case "true" | "false":
                return cond.kind == "true"
            case "not":
                inner = self.truth(cond.args[0])
                return None if inner is None else not inner
            case "and" | "or":
                stop = cond.kind == "or"
                values = [self.truth(part) for part in cond.args]
                if stop in values:
                    return stop
                return None if None in values else not stop
            case ">" | ">=" | "=":
                mask, wanted = self.sign(cond.args[0]), mask_of(cond.kind)
                return True if not mask & ~wanted else False if not mask & wanted else None
        return self.signs.truths.get(cond)

    def decide(self, cond: Proposition) -> bool | None:
        """The truth of cond, by cases if it has no bound index; None if it has and is open."""
        known = self.truth(cond)
        if known is not None:
            return known
        match cond.kind:
            case "not":
                inner = self.decide(cond.args[0])
                return None if inner is None else not inner
            case "and" | "or":
                values = []
                for part in cond.args:
                    value = self.decide(part)
                    if value == (cond.kind == "or"):
                        return value
                    values.append(value)
                return None if None in values else cond.kind == "and"
        if self.splittable(cond.ixs):
            raise CaseSplit(cond)
        return None

    @contextlib.contextmanager
    def guard(self, cond: Proposition) -> Iterator[None]:
        """Inside, cond holds: for a branch that is taken only then. Contradiction: it never is."""
        before = self.signs
        self.signs = before.copy()
        self.guards.append(cond)
        self.outside.append(before)
        try:
            self.signs.assume(cond)
            yield
        finally:
            self.signs = before
            self.guards.pop()
            self.outside.pop()

    def settle(self) -> None:
        """From here on every definedness condition is known to hold, and terms are built again with all facts at hand."""
        self.settled = True
        self.forget()

    def forget(self) -> None:
        """Terms that were built with less knowledge are built again."""
        self.slow.clear()
        self.__dict__.pop("memo", None)

    def _holds_outside(self, cond: Proposition) -> bool:
        """Return whether the condition holds by arithmetic and the facts outside of all guards: whatever branch is taken, then."""
        inner = cond.args[0] if cond.kind == "not" else cond
        if not self.outside or inner.kind not in (">", ">=", "="):
            return False
        try:
            mask, wanted = self.outside[0].sign(inner.args[0]), mask_of(inner.kind)
        except Contradiction:
            return False
        return not mask & (wanted if cond.kind == "not" else ~wanted)

    def require(self, cond: Proposition) -> None:
        """The value being built is defined only if cond: a fact on the left side, to be proved on the right."""
        self.obligations += not self._holds_outside(cond)
        guards = tuple(self.guards)
        if self.settled:
            return
        if cond.kind == "true" or (self.proving and (guards, cond) in self.guarded):
            return
        if self.proving:
            if self.truth(cond) is True or (cond.kind in ("or", "and") and self.entails and self.entails(self.signs, cond)):
                self.signs.assume(cond)
                return
            if self.follows_by_angles(cond):
                return
            raise NotProved("the right side needs", cond)
        if guards:
            self.guarded.add((guards, cond))
        self.signs.assume(cond, True, () if guards else tuple(self.bound))


def negation(cond: Proposition) -> Proposition:
    match cond.kind:
        case "true":
            return FALSE
        case "false":
            return TRUE
        case "not":
            inner: Proposition = cond.args[0]
            return inner
    return Proposition("not", cond)


def connect(kind: str, *parts: Proposition) -> Proposition:
    """The conjunction or disjunction, without constants and repetitions, in a fixed order."""
    neutral, absorbing = (TRUE, FALSE) if kind == "and" else (FALSE, TRUE)
    flat: list[Proposition] = []
    for part in parts:
        for cond in part.args if part.kind == kind else (part,):
            if cond == absorbing:
                return absorbing
            if cond != neutral and cond not in flat:
                flat.append(cond)
    if not flat:
        return neutral
    if any(negation(cond) in flat for cond in flat):
        return absorbing
    return flat[0] if len(flat) == 1 else Proposition(kind, *sorted(flat, key=repr))
