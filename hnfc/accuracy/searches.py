"""The searches of a level: better forms of pointwise regions, and parts in a wider type where no form is found."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.ir import Block, Operation

from hnfc.accuracy.losses import Sample
from hnfc.accuracy.tensors import RegionForms
from hnfc.accuracy.widening import WidePart, as_rule, identity_of, marked_parts, wide_parts, widen
from hnfc.core.interpreter import WeightReader
from hnfc.core.verdicts import verdicts
from hnfc.pipeline.levels import Searches
from hnfc.pipeline.request import Found
from hnfc.rewrite.record import RewriteOutcome


def searches(kind: Searches) -> dict[str, Any]:
    """The searches as options of a request."""
    if kind is Searches.NOTHING:
        return {}
    return {"forms": RegionForms(everywhere=kind is Searches.EVERYWHERE), "widening": PartsWhereLost()}


@dataclass(frozen=True)
class PartsWhereLost:
    """Parts in a wider type, chosen by the samples."""

    def __call__(
        self, block: Block, samples: Sequence[Sample], weights: WeightReader | None, outcome: RewriteOutcome,
        place: Callable[[Operation], str], excluded: Collection[str],
    ) -> tuple[Found, Mapping[Operation, Operation]]:  # fmt: skip
        outputs = list(block.last_op.operands) if block.last_op is not None else []
        return _applied(wide_parts(block, outputs, samples, weights, excluded), outcome, place)


@dataclass(frozen=True)
class PartsAsBefore:
    """The parts that an earlier capture of the same model has in a wider type."""

    marks: frozenset[str]

    def __call__(
        self, block: Block, samples: Sequence[Sample], weights: WeightReader | None, outcome: RewriteOutcome,
        place: Callable[[Operation], str], excluded: Collection[str],
    ) -> tuple[Found, Mapping[Operation, Operation]]:  # fmt: skip
        return _applied(marked_parts(block, self.marks, excluded) if self.marks else [], outcome, place)


def _applied(
    parts: Sequence[WidePart], outcome: RewriteOutcome, place: Callable[[Operation], str]
) -> tuple[Found, Mapping[Operation, Operation]]:
    found, origins = Found(), dict[Operation, Operation]()
    for part in parts:
        identity = identity_of(part)
        rule, verdict = as_rule(part, identity), verdicts([identity])[identity.name]
        if verdict.proved:
            origins |= widen(part, rule, outcome, place)
            found.parts[rule] = verdict
            found.wide |= part.marks
    return found, origins
