"""Claims of a proof, step by step: facts, expressions as they were written, and goals that follow."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from hnfc.dsl.soundness.closing import Query, in_mask
from hnfc.dsl.soundness.normal_form import negation
from hnfc.dsl.soundness.signs import Signs
from hnfc.dsl.soundness.term import Index, Proposition, Rational

ARITHMETIC = frozenset(("+", "-", "*", "/", "neg", "power", "max", "min", "abs", "ite"))
"""The operations of nodes that are written out; every other one has a normal form by a theorem."""


class ClaimNode:
    """An operation on nodes, and `value`, its normal form.

    op: one of ARITHMETIC; `value` (a normal form as it is) or `capture` (an element with another value in its place); else a function
    or a reduction. detail: an exponent, a condition, bound indices. guards: the conditions under which it has this normal form.
    """

    __slots__ = ("detail", "guards", "op", "operands", "value")

    def __init__(
        self, op: str, operands: Sequence[ClaimNode], value: Rational, detail: Any = None, guards: Sequence[Proposition] = ()
    ) -> None:
        self.op, self.operands, self.value, self.detail, self.guards = op, tuple(operands), value, detail, tuple(guards)

    @property
    def leaf(self) -> bool:
        return self.op not in ARITHMETIC


def value_node(x: Rational) -> ClaimNode:
    return ClaimNode("value", (), x)


class Fact(NamedTuple):
    """cond holds for all values of the quantified indices; `why` says where that is from (see `obligations.REASONS`)."""

    why: str
    cond: Proposition
    quantified: tuple[Index, ...] = ()


class RecordedSigns(Signs):
    """Signs that remember their assumptions as they were added."""

    def __init__(self, rename: Callable[..., Rational], integral: frozenset[str] = frozenset()) -> None:
        super().__init__(rename, integral)
        self.log: list[Fact] = []
        self.why = "case"
        self.telling = False

    def copy(self) -> RecordedSigns:
        other = RecordedSigns(self.rename, self.integral)
        other.__dict__.update({**super().copy().__dict__, "log": list(self.log), "why": self.why})
        return other

    @contextlib.contextmanager
    def saying(self, why: str) -> Iterator[None]:
        """Inside, assumptions have this reason."""
        before, self.why = self.why, why
        try:
            yield
        finally:
            self.why = before

    @contextlib.contextmanager
    def _assumed(self, cond: Proposition, quantified: tuple[Index, ...]) -> Iterator[None]:
        """Keeps assumptions, but not what follows from them inside."""
        outer, self.telling = self.telling, True
        if not outer and cond.kind != "true":
            self.log.append(Fact(self.why, cond, tuple(i for i in quantified if i in cond.ixs)))
        try:
            yield
        finally:
            self.telling = outer

    def assume(self, cond: Proposition, value: bool = True, quantified: tuple[Index, ...] = ()) -> None:
        with self._assumed(cond if value else negation(cond), quantified):
            super().assume(cond, value, quantified)

    def add(self, x: Rational, mask: int, quantified: tuple[Index, ...] = ()) -> None:
        with self._assumed(in_mask(x, mask), quantified):
            super().add(x, mask, quantified)


class Same(NamedTuple):
    """Two expressions have the same value."""

    left: ClaimNode
    right: ClaimNode


class Equivalent(NamedTuple):
    """left `predicate` right (eq ne lt le gt ge) holds exactly where cond does."""

    predicate: str
    left: ClaimNode
    right: ClaimNode
    cond: Proposition


Goal: TypeAlias = Proposition | Same | Equivalent


class Lemma(NamedTuple):
    """Instance of a theorem used in `equality.py` at these terms: the conditions hold."""

    theorem: str
    conds: tuple[Proposition, ...]


@dataclass
class Claim:
    """The goal follows from the assumptions of `signs`, from `given`, and from the lemmas; or, with `query`, from Z3's own conditions.

    what: which step this is, a key of `obligations.STEPS`.
    """

    what: str
    goal: Goal
    signs: RecordedSigns
    given: tuple[Fact, ...] = ()
    lemmas: tuple[Lemma, ...] = ()
    query: Query | None = None
