"""Settings of a rewrite of PyTorch modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from torch import fx

from hnfc.core.samples import intervals_of
from hnfc.dialects.interval import Interval
from hnfc.egraph.search import Search
from hnfc.frontend.pytorch import Shapes
from hnfc.pipeline.request import Found
from hnfc.pipeline.rulesets import RuleSet


@dataclass(frozen=True)
class Settings:
    """Settings of the rewriting of models; `hnfc.optimize` explains each."""

    rules: RuleSet
    ranges: Mapping[str, tuple[float, float]] | str | None = None
    assume: frozenset[str] = frozenset()
    backward: bool = False
    validate: bool = True
    dynamic_shapes: Shapes = None
    search: Search = field(default_factory=Search)
    found: Found | None = None
    """Findings of an earlier capture of the model; None where they are still to be searched for."""
    edit: Callable[[fx.GraphModule], fx.GraphModule] | None = None
    """Transformation of each graph after the rules."""

    @property
    def observed(self) -> bool:
        return self.ranges == "sample"

    def intervals(self, names: Sequence[str]) -> list[tuple[str, Interval]]:
        """The declared ranges, by the names that the compiler has for the arguments. Raises UsageError for one that there is not."""
        if self.ranges is None or self.observed:
            return []
        places = {name: f"arg{index}" for index, name in enumerate(names)}
        return [(places[name], interval) for name, interval in intervals_of(self.ranges, names).items()]
