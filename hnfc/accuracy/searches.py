"""The searches of a level: better forms of pointwise regions, and parts in a wider type where no form is found."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.ir import Block, Operation

from hnfc.accuracy.losses import MixedRun, Sample, element_of, is_normal, lossy_operations, total_loss, upstream, worst_losses
from hnfc.accuracy.rescaling import Change, Rescaling, mark_of, starts_of
from hnfc.accuracy.tensors import RegionForms
from hnfc.accuracy.widening import LEAST_GAIN, WidePart, as_rule, identity_of, marked_parts, marks_of, wide_parts, widen
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
        found, origins = rescaled_where_lost(block, samples, weights, outcome, place, excluded)
        outputs = list(block.last_op.operands) if block.last_op is not None else []
        parts, more = _applied(wide_parts(block, outputs, samples, weights, excluded), outcome, place)
        return found.with_(parts), {**origins, **more}


@dataclass(frozen=True)
class PartsAsBefore:
    """The parts that an earlier capture of the same model has in a wider type."""

    marks: frozenset[str]
    rescaled: frozenset[str]

    def __call__(
        self, block: Block, samples: Sequence[Sample], weights: WeightReader | None, outcome: RewriteOutcome,
        place: Callable[[Operation], str], excluded: Collection[str],
    ) -> tuple[Found, Mapping[Operation, Operation]]:  # fmt: skip
        found, origins = rescaled_as_before(block, self.rescaled, outcome, place, excluded) if self.rescaled else (Found(), {})
        parts, more = _applied(marked_parts(block, self.marks, excluded) if self.marks else [], outcome, place)
        return found.with_(parts), {**origins, **more}


def rescaled_where_lost(
    block: Block, samples: Sequence[Sample], weights: WeightReader | None, outcome: RewriteOutcome,
    place: Callable[[Operation], str], excluded: Collection[str],
) -> tuple[Found, Mapping[Operation, Operation]]:  # fmt: skip
    """Exponentials in pairs, if the outputs lose fewer digits then."""
    outputs = list(block.last_op.operands) if block.last_op is not None else []
    losses = lossy_operations(block, outputs, samples, weights)
    starts = starts_of(block, upstream(losses.inaccurate)) if losses is not None else []
    if losses is None or mark_of(block, starts) in excluded or not any(leave_range(block, starts, sample, weights) for sample in samples):
        return Found(), {}
    change = Change.of(Rescaling(block, starts))
    change.do()
    now = list(block.last_op.operands) if block.last_op is not None else []
    runs = [MixedRun(block, sample, weights, now).outputs(()) for sample in samples]
    renamed = [{old: found[new] for old, new in zip(outputs, now, strict=True) if new in found} for found in runs]
    after = worst_losses(losses.counted, renamed, losses.truth)
    if total_loss(after) > total_loss(losses.now) - LEAST_GAIN or any(after[v] > bits + 1 for v, bits in losses.now.items()):
        change.undo()
        return Found(), {}
    return change.recorded(outcome, place)


def leave_range(block: Block, starts: Sequence[Operation], sample: Sample, weights: WeightReader | None) -> bool:
    """Return whether one of these values is not a normal number of its type on the sample."""
    values = [op.results[0] for op in starts]
    found = MixedRun(block, sample, weights, values).outputs(())
    return any(not is_normal(array, element_of(value)) for value, array in found.items())


def rescaled_as_before(
    block: Block, marks: frozenset[str], outcome: RewriteOutcome, place: Callable[[Operation], str], excluded: Collection[str]
) -> tuple[Found, Mapping[Operation, Operation]]:
    """The exponentials in pairs that an earlier capture has in pairs."""
    known = marks_of(block)
    starts = [op for op in starts_of(block, known) if known[op] in marks]
    if not starts or mark_of(block, starts) in excluded:
        return Found(), {}
    change = Change.of(Rescaling(block, starts))
    change.do()
    return change.recorded(outcome, place)


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
