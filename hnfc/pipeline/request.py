"""The request to rewrite a model: rules, ranges, samples, and limits of the search."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Block

from hnfc.analysis.ranges import Ranges
from hnfc.core.samples import Array
from hnfc.dialects.interval import Interval
from hnfc.dsl import core
from hnfc.dsl.soundness import Verdict
from hnfc.egraph.search import Search
from hnfc.rewrite.conditions import Observations
from hnfc.validation.differential import Runner

FOUND = "found"
"""Group of rules that were found for one program."""
FormSearch = Callable[[Block, Ranges, Observations], Mapping[core.Rule, Verdict]]


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
    excluded: tuple[str, ...] = ()
    """Rules that do not run, since `withdrawn` was seen of them."""
    withdrawn: tuple[str, ...] = ()
