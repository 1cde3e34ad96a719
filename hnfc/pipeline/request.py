"""The request to rewrite a model: rules, ranges, samples, and limits of the search."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from xdsl.ir import Block, Operation

from hnfc.analysis.ranges import Ranges
from hnfc.core.samples import Array
from hnfc.dialects.interval import Interval
from hnfc.dsl import core
from hnfc.dsl.soundness import Verdict
from hnfc.egraph.search import Search
from hnfc.rewrite.conditions import Observations
from hnfc.rewrite.record import RewriteOutcome
from hnfc.validation.differential import Runner

FOUND = "found"
"""Group of rules that were found for one program."""
WIDE = "widening"
"""Group of the identities between a type and a wider one, and of parts that compute in a wider type by them."""
RESCALED = "rescaling"
"""Group of the identities of exponentials in pairs, and of parts that are rescaled by them."""
FormSearch = Callable[[Block, Ranges, Observations], Mapping[core.Rule, Verdict]]


@dataclass
class Found:
    """Findings for one program: rules, and identities by which parts are rescaled or compute in a wider type, with their verdicts.

    wide: the marks of the operations of these parts. rescaled: those of the exponentials that became pairs, with whether terms that are 0
    count there.
    """

    rules: dict[core.Rule, Verdict] = field(default_factory=dict)
    parts: dict[core.Rule, Verdict] = field(default_factory=dict)
    wide: set[str] = field(default_factory=set)
    rescaled: set[tuple[str, bool]] = field(default_factory=set)

    def with_(self, other: Found) -> Found:
        """The findings of both."""
        return Found({**self.rules, **other.rules}, {**self.parts, **other.parts}, self.wide | other.wide, self.rescaled | other.rescaled)

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """The verdicts by the names of the rules."""
        return {rule.name: verdict for rule, verdict in (*self.rules.items(), *self.parts.items())}


class Widening(Protocol):
    """Change of a program by which parts compute in a wider type where digits are lost on the samples."""

    def __call__(
        self, block: Block, observations: Observations, outcome: RewriteOutcome,
        place: Callable[[Operation], str], excluded: Collection[str],
    ) -> tuple[Found, Mapping[Operation, Operation]]:  # fmt: skip
        """Changes the block and the record; what was found, and the operation in whose place each new one stands."""


@dataclass
class Request:
    """Request to rewrite a model. phases: the rules of each phase, proved or allowed by name.

    samples: arrays by the place of the argument, instead of those of a file (`calibrate`). observed: whether conditions may be
    shown from the ranges of the samples where none are declared, which then hold for inputs like these.
    """

    phases: Sequence[Sequence[core.Rule]] = ()
    ranges: Sequence[tuple[str, Interval]] = ()
    calibrate: str | None = None
    samples: Sequence[Sequence[Array]] = ()
    observed: bool = False
    assume: frozenset[str] = frozenset()
    unproved: frozenset[str] = frozenset()
    """Rules that run without a proof; like those of `assume` they are tried on the samples only, not on probes."""
    validate: bool = True
    search: Search = field(default_factory=Search)
    forms: FormSearch | None = None
    """Search for proved rules that are good for this program alone; they run after all phases."""
    widening: Widening | None = None
    """Last resort where digits are still lost then."""
    runner: Runner | None = None
    """Runner of the user, on which errors are measured. None: hnfc's own evaluation."""
    fixed: frozenset[int] = frozenset()
    """Arguments that are parameters and buffers: probes leave them as they are."""
    least_size: int = 0
    """Least size of an open axis in any call."""
    native: bool = False
    """True if the model is exported for torch alone (see `Compiled.export`)."""
    measured: bool = True
    """True if old and new are compared; without it the samples serve conditions of rules only."""
    drawn: bool = False
    """True if the graphs of functions are kept for a report, with what is known of every value."""
    varied: bool = True
    """True if searches look for lost digits on variations of the samples too."""
    excluded: tuple[str, ...] = ()
    """Rules that do not run, since `withdrawn` was seen of them."""
    withdrawn: tuple[str, ...] = ()
