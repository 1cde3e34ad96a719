"""Observer of the cases of a proof."""

from __future__ import annotations

from hnfc.dsl.core import Rule
from hnfc.dsl.soundness.closing import Closer
from hnfc.dsl.soundness.denote import Denotation
from hnfc.dsl.soundness.limits import Work
from hnfc.dsl.soundness.normal_form import Normalizer
from hnfc.dsl.soundness.term import Proposition, Rational

Case = tuple[tuple[Proposition, bool], ...]
"""The assumptions of a case: conditions that hold, or fail."""


class ProofObserver:
    """Hands out what a case is proved with, and forgets how it ended; `tracing.Record` remembers."""

    def about(self, rule: Rule) -> None:
        """The cases that follow are of this rule, read from left to right."""

    def tools(self, meaning: Denotation, assumptions: Case, integral: frozenset[str], work: Work) -> tuple[Normalizer, Closer]:
        """A normalizer for one case, and Z3 as its oracle."""
        n = Normalizer(integral=integral)
        closer = Closer(n.rename, work)
        n.entails = closer.entails
        return n, closer

    def equal(self, left: Rational, right: Rational, reason: str) -> None:
        """The case is closed: its sides are equal."""

    def impossible(self) -> None:
        """The case is closed: its facts exclude each other."""
