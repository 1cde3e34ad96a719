"""The searches of a level: better forms of pointwise regions, and parts in a wider type where no form is found."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.ir import Block, Operation, SSAValue

from hnfc.accuracy.losses import Losses, MixedRun, Sample, float_type, is_normal, least_loss, losses_by_run, lossy_operations, total_loss
from hnfc.accuracy.rescaled import Change, starts_of
from hnfc.accuracy.rescaling import Rescaling
from hnfc.accuracy.tensors import RegionForms
from hnfc.accuracy.widening import (
    LEAST_GAIN,
    WIDE_ELEMENTS,
    WidePart,
    as_rule,
    can_be_wide,
    identity_of,
    marked_parts,
    marks_of,
    parted,
    wide_parts,
    widen,
)  # fmt: skip
from hnfc.core.interpreter import upstream
from hnfc.core.verdicts import verdicts
from hnfc.pipeline.levels import Searches
from hnfc.pipeline.request import Found
from hnfc.rewrite.conditions import Observations
from hnfc.rewrite.record import RewriteOutcome


def searches(kind: Searches, known: Found | None = None, elements: Sequence[str] = WIDE_ELEMENTS) -> dict[str, Any]:
    """The searches as options of a request. known: findings of an earlier capture of the model, which stand for them. elements: the wider
    types that the runner has."""
    if kind is Searches.NOTHING:
        return {}
    if known is not None:
        return {"forms": lambda *_: known.rules, "widening": PartsAsBefore(frozenset(known.wide), frozenset(known.rescaled))}
    forms = RegionForms(everywhere=kind is Searches.EVERYWHERE)
    return {"forms": forms, "widening": PartsWhereLost(forms, elements)}


@dataclass(frozen=True)
class PartsWhereLost:
    """Parts in a wider type, one of `elements`, chosen by the samples. forms: the search that comes before, on at least as many inputs."""

    forms: RegionForms | None = None
    elements: Sequence[str] = WIDE_ELEMENTS

    def __call__(
        self, block: Block, observations: Observations, outcome: RewriteOutcome,
        place: Callable[[Operation], str], excluded: Collection[str],
    ) -> tuple[Found, Mapping[Operation, Operation]]:  # fmt: skip
        if self.forms is not None and self.forms.accurate is block:
            return Found(), {}
        losses = losses_of(block, observations)
        if losses is None:
            return Found(), {}
        found, origins = rescaled_where_lost(block, losses, outcome, place, excluded)
        if origins:
            losses = losses_of(block, observations)
        chosen = wide_parts(block, losses.on_inaccurate_samples(), excluded, self.elements) if losses is not None else []
        parts, more = _applied(chosen, outcome, place)
        return found.with_(parts), {**origins, **more}


@dataclass(frozen=True)
class PartsForGradients:
    """All that can compute in a wider type, in one part wherever it is connected: gradients add up what each cast between parts rounds."""

    element: str

    def __call__(
        self, block: Block, observations: Observations, outcome: RewriteOutcome,
        place: Callable[[Operation], str], excluded: Collection[str],
    ) -> tuple[Found, Mapping[Operation, Operation]]:  # fmt: skip
        region = [op for op in block.ops if can_be_wide(op, self.element)]
        chosen = [part for part in parted(region, block, self.element) if part.name not in excluded]
        return _applied(chosen, outcome, place, "a gradient is no number")


@dataclass(frozen=True)
class PartsAsBefore:
    """The parts that an earlier capture of the same model has in a wider type."""

    marks: frozenset[str]
    rescaled: frozenset[tuple[str, bool]]

    def __call__(
        self, block: Block, observations: Observations, outcome: RewriteOutcome,
        place: Callable[[Operation], str], excluded: Collection[str],
    ) -> tuple[Found, Mapping[Operation, Operation]]:  # fmt: skip
        found, origins = rescaled_as_before(block, self.rescaled, outcome, place, excluded) if self.rescaled else (Found(), {})
        parts, more = _applied(marked_parts(block, self.marks, excluded) if self.marks else [], outcome, place)
        return found.with_(parts), {**origins, **more}


def losses_of(block: Block, observations: Observations) -> Losses | None:
    """The losses of a function; None where its results are accurate on the samples."""
    samples: list[Sample] = [{argument: sample[argument] for argument in block.args} for sample in observations.samples]
    return lossy_operations(block, results_of(block), samples, observations.weights, observations.variations)


def results_of(block: Block) -> list[SSAValue]:
    """The values that a function returns."""
    return list(block.last_op.operands) if block.last_op is not None else []


_MOST_HARM = 3.0
"""Bits that an output may lose more on one sample while it gains on others."""


def rescaled_where_lost(
    block: Block, losses: Losses, outcome: RewriteOutcome, place: Callable[[Operation], str], excluded: Collection[str]
) -> tuple[Found, Mapping[Operation, Operation]]:
    """Exponentials in pairs, if the outputs lose fewer digits then."""
    starts = starts_of(block, upstream(losses.inaccurate))
    if not any(leave_range(starts, run) for run in losses.runs):
        return Found(), {}
    least, best = total_loss(losses.now) - LEAST_GAIN, None
    for zeros in (True, False):
        before = results_of(block)
        change = Change.of(Rescaling(block, starts, zeros))
        if change.name not in excluded:
            change.do()
            lost = _lost_by(block, losses, before)
            if lost is not None and lost <= (least if best is None else least - LEAST_GAIN):
                least, best = lost, zeros
        change.undo()
        if not change.made.has_signs:
            break
    if best is None:
        return Found(), {}
    change = Change.of(Rescaling(block, starts, best))
    change.do()
    return change.recorded(outcome, place)


def _lost_by(block: Block, losses: Losses, before: Sequence[SSAValue]) -> float | None:
    """The bits that the results lose, which stand for those before; None where one loses too many that did not."""
    now = results_of(block)
    runs = [MixedRun(block, run.sample, run.weights, now).outputs() for run in losses.runs]
    renamed = [{old: found[new] for old, new in zip(before, now, strict=True) if new in found} for found in runs]
    after = losses_by_run(losses.counted, renamed, losses.truth)
    allowed = {of: max(bits + _MOST_HARM, least_loss(losses.counted[of[0]])) for of, bits in losses.now.items()}
    return None if any(after[of] > bits for of, bits in allowed.items()) else total_loss(after)


def leave_range(starts: Sequence[Operation], run: MixedRun) -> bool:
    """Return whether one of these values is not a normal number of its type on the sample of a run."""
    values = [op.results[0] for op in starts]
    found = MixedRun(run.block, run.sample, run.weights, values).outputs()
    return any(not is_normal(array, float_type(value)) for value, array in found.items())


def rescaled_as_before(
    block: Block, marks: frozenset[tuple[str, bool]], outcome: RewriteOutcome, place: Callable[[Operation], str], excluded: Collection[str]
) -> tuple[Found, Mapping[Operation, Operation]]:
    """The exponentials in pairs that an earlier capture has in pairs."""
    known, found, origins = marks_of(block), Found(), dict[Operation, Operation]()
    for zeros in (True, False):
        starts = [op for op in starts_of(block, known) if (known[op], zeros) in marks]
        change = Change.of(Rescaling(block, starts, zeros))
        if starts and change.name not in excluded:
            change.do()
            more, made_for = change.recorded(outcome, place)
            found, origins = found.with_(more), {**origins, **made_for}
    return found, origins


def _applied(
    parts: Sequence[WidePart], outcome: RewriteOutcome, place: Callable[[Operation], str], fault: str = "digits are lost"
) -> tuple[Found, Mapping[Operation, Operation]]:
    found, origins = Found(), dict[Operation, Operation]()
    for part in parts:
        identity = identity_of(part)
        rule, verdict = as_rule(part, identity, fault), verdicts([identity])[identity.name]
        if verdict.proved:
            origins |= widen(part, rule, outcome, place)
            found.parts[rule] = verdict
            found.wide |= part.marks
    return found, origins
