"""Damage by one operation: values that become infinite, NaN or 0, and digits that go."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from hnfc.dialects.facts import Accumulation
from hnfc.dialects.num import OPERATIONS
from hnfc.dialects.num.reduction import MeanOp
from hnfc.frontend.places import Place as Source
from hnfc.frontend.torch_mlir import shortened
from hnfc.tracing import words
from hnfc.tracing.errors import relative_errors
from hnfc.tracing.events import NOT_FINITE, Event, ValueRange
from hnfc.tracing.memory import WIDE, Memory, StorageRecord, StorageState

_GROWING = frozenset({"exp", "exp2", "expm1", "sinh", "cosh", "pow", "mul", "square", "prod", "cumprod", "matmul", "mm", "bmm", "linear"})
"""Functions without a pole: an infinite result for finite operands is an overflow, of float64 too if it has none."""
_ADDING = frozenset(
    name.split(".")[1]
    for operation in OPERATIONS.values()
    if operation.FACTS.accumulation in (Accumulation.SUM, Accumulation.CONTRACTION) or operation is MeanOp
    for name in operation.FACTS.torch
)
"""Functions that add up elements, and are infinite where one of them is -inf."""
_GETS_WORSE = 2.0**6
"""An operation that makes errors this many times larger, and larger than the square root of the unit roundoff, cancels."""


@dataclass(frozen=True)
class SourcePosition:
    """Position of an operation: file and line, the path of its module, and, of a gradient, the operation that it differentiates."""

    source: Source | None
    module: str
    backward: bool
    operation: str
    node: str


@dataclass(frozen=True)
class Operand:
    """A tensor that an operation takes. true: the values that it should have, None where it has them. state: of its storage, before the
    operation."""

    given: torch.Tensor
    true: torch.Tensor | None
    state: StorageState

    @property
    def should(self) -> torch.Tensor:
        return self.given.to(WIDE) if self.true is None else self.true

    @property
    def event(self) -> Event | None:
        return self.state.event


@dataclass(frozen=True)
class JudgedTensor:
    """A tensor that an operation makes or changes: as it is, as it should be, and as float64 makes it from the operands that are."""

    given: torch.Tensor
    true: torch.Tensor
    alone: torch.Tensor


class LossJudge:
    """Notes what operations make worse, in order."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.absorbed: list[Event] = []
        self.largest: tuple[float, Event] | None = None
        """The largest growth of an error that was too small to be an event, and the event that it would be."""

    def judge(
        self, func: Any, name: str, call: Any, operands: list[Operand], outside: list[Operand], outcomes: list[JudgedTensor],
        place: SourcePosition, memory: Memory,
    ) -> None:  # fmt: skip
        """Notes the worst that happened to the results of an operation, and writes their true values down."""
        step = _Step(
            func, name.removesuffix("_") if name.endswith("_") and not name.startswith("_") else name, call, operands, outside, place
        )
        for outcome in outcomes:
            memory.store(outcome.given, outcome.true)
            self._judge(step, outcome, memory.made(outcome.given))

    def _judge(self, step: _Step, outcome: JudgedTensor, record: StorageRecord | None) -> None:
        if record is None:
            return
        given, info = outcome.given.detach().to(WIDE), torch.finfo(outcome.given.dtype)
        errors = relative_errors(given, outcome.true, info, gradient=step.place.backward)
        error = float(errors.max()) if errors.numel() else 0.0
        record.state = state = StorageState(error)
        finite = bool(torch.isfinite(given).all())
        gone = bool((given == 0).all()) and bool((outcome.true != 0).any())
        if not finite:
            state.event = self._not_finite(step, outcome, given, error)
        else:
            state.event = self._finite(step, outcome, errors, error, error > info.eps**0.5 or gone)
        if state.event is not None:
            heirs = [o for o in step.operands if finite or not bool(torch.isfinite(o.given).all())]
            state.reach = frozenset((state.event,)).union(*(o.state.reach for o in heirs))

    def _finite(self, step: _Step, outcome: JudgedTensor, errors: torch.Tensor, error: float, wrong: bool) -> Event | None:
        given, info = outcome.given.detach(), torch.finfo(outcome.given.dtype)
        before = max((operand.state.error for operand in step.operands), default=0.0)
        inherited = step.inherited(lambda operand: True)
        faulty = inherited is not None and inherited.kind in NOT_FINITE
        lost = (given == 0) & (outcome.alone != 0) & torch.isfinite(outcome.alone) & (outcome.alone.abs() < info.smallest_normal)
        if error > max(info.eps**0.5, _GETS_WORSE * max(before, info.eps)) and not faulty and not bool(lost.any()):
            where = errors > info.eps**0.5
            return self._note(step, "cancellation", where, words.why_lost(error, before, info), outcome, inherited, error)
        if lost.any():
            least = float(outcome.alone[lost].abs().max())
            smallest = info.smallest_normal * info.eps
            reason = f"results of up to {least:.3g} become 0: {words.name(given.dtype)} has nothing below {smallest:.3g}"
            return self._note(step, "underflow", lost, reason, outcome, inherited, error)
        self._remember(step, outcome, error, before, info)
        return inherited if wrong else None

    # values that are not finite

    def _not_finite(self, step: _Step, outcome: JudgedTensor, given: torch.Tensor, error: float) -> Event | None:
        """Origin of elements that are infinite or NaN though their operands are neither; else the origin of such operands."""
        dtype, info = outcome.given.dtype, torch.finfo(outcome.given.dtype)
        reached = step.inherited(lambda operand: not bool(torch.isfinite(operand.given).all()))
        cause = reached or step.inherited(lambda operand: True)
        infinite = torch.isinf(given) & ~_where_any(step.operands, lambda x: ~torch.isfinite(x), given)
        if step.constants():
            invalid = torch.isnan(given) & ~_where_any(step.operands, torch.isnan, given)
            if infinite.any() or invalid.any():
                reason = f"it puts {words.kinds_of(given)} in"
                return self._note(step, "constant", infinite | invalid, reason, outcome, cause, error)
            return cause
        zero = step.name == "pow" and any(bool((x.given == 0).any()) for x in step.operands)
        grows = step.name in _GROWING and not zero
        overflown = infinite & (torch.isfinite(outcome.alone) | torch.tensor(grows))
        if overflown.any():
            size = float(outcome.alone[overflown].abs().max())
            extent = f"reaches {size:.4g}" if math.isfinite(size) else f"lies beyond {torch.finfo(WIDE).max:.2g}"
            reason = f"overflow: the exact result {extent}, and {words.name(dtype)} ends at {info.max:.4g}"
            return self._note(step, "overflow", overflown, reason, outcome, cause, error, size)
        if infinite.any():
            reason = words.why_pole(step, infinite)
            return self._note(step, "pole", infinite, reason, outcome, cause, error)
        if reached is not None and reached.weak and not step.place.backward and step.name in _ADDING and bool(torch.isinf(given).any()):
            reason = f"it adds up -inf{words.at(words.first_index(torch.isinf(given)))}, which stands for what is left out"
            return self._note(step, "pole", torch.isinf(given), reason, outcome, cause, error)
        invalid = torch.isnan(given) & ~_where_any(step.operands, torch.isnan, given)
        if invalid.any() and (reached is None or reached.weak):
            return self._note(step, "undefined", invalid, words.why_undefined(step, invalid), outcome, cause, error)
        if invalid.any() and reached is not None and step.place.backward and not reached.backward:
            branch = words.untaken(step, words.first_index(invalid))
            if "branch" in branch and branch not in reached.reason:
                reached.reason += f"; {branch}"
        return cause

    # digits

    def _remember(self, step: _Step, outcome: JudgedTensor, error: float, before: float, info: Any) -> None:
        """Keeps what is no event by itself, but explains a wrong result where nothing else does."""
        given = outcome.given.detach()
        if step.name in ("add", "sub") and len(step.operands) == 2 and not self.absorbed:
            x, y = (_spread(operand.given, given) for operand in step.operands)
            unchanged = (y != 0) & (x == given) & (outcome.alone != x.to(WIDE))
            if unchanged.any():
                size, place = float(y[unchanged].abs().max()), float(x[unchanged].abs().max())
                reason = f"{size:.3g} is less than half a unit in the last place of {place:.4g}, and goes"
                self.absorbed = [self._event(step, "absorption", unchanged, reason, outcome, None, error)]
        growth = error / max(before, info.eps / 2)
        if growth > (self.largest[0] if self.largest else 2.0):
            everywhere = torch.ones_like(given, dtype=torch.bool)
            reason = words.why_lost(error, before, info)
            self.largest = growth, self._event(step, "cancellation", everywhere, reason, outcome, None, error)

    def _note(self, *what: Any) -> Event:
        event = self._event(*what)
        self.events.append(event)
        return event

    def _event(
        self, step: _Step, kind: str, where: torch.Tensor, reason: str, outcome: JudgedTensor, cause: Event | None, error: float,
        reached: float | None = None,
    ) -> Event:  # fmt: skip
        place = step.place
        derivative = place.backward and kind in ("pole", "undefined")
        operation = place.operation if derivative else str(step.func).removeprefix("aten.").removesuffix(".default")
        source = f"{shortened(place.source[0])}:{place.source[1]}" if place.source else ""
        spans = tuple(ValueRange.of(operand.given) for operand in step.operands)
        return Event(kind, operation, place.module, source, spans, ValueRange.of(outcome.given), int(where.sum()), error, reason,
                     place.backward, reached, cause, index=words.first_index(where),
                     low_only=words.kinds_of(outcome.given) == "-inf")  # fmt: skip


@dataclass(frozen=True)
class _Step:
    """An operation that is judged. outside: what its function of autograd took from others."""

    func: Any
    name: str
    call: Any
    operands: list[Operand]
    outside: list[Operand]
    place: SourcePosition

    def constants(self) -> bool:
        """Return whether a number among the arguments, or a constant of one element, is not finite; or nothing but numbers comes in."""
        leaves = pytree.tree_leaves(self.call)
        return not self.operands or any(isinstance(x, float) and not math.isfinite(x) for x in leaves)

    def inherited(self, test: Any) -> Event | None:
        """The event of an operand that passes the test: one that is not weak, if there is one."""
        found = [operand.event for operand in self.operands if operand.event is not None and test(operand)]
        return next((event for event in found if not event.weak), found[0] if found else None)


def _where_any(operands: list[Operand], test: Any, like: torch.Tensor) -> torch.Tensor:
    """Elements of the result one of whose operands passes the test; all of a result of another shape, if an element passes."""
    found = torch.zeros_like(like, dtype=torch.bool)
    for operand in operands:
        found |= _spread(test(operand.given), like)
    return found


def _spread(values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """The values in the shape of a result: each at the elements that it goes into, or, where that is not known, the largest at all."""
    try:
        return values.expand(like.shape)
    except RuntimeError:
        return values.amax().expand(like.shape) if values.numel() else torch.zeros_like(like, dtype=values.dtype)
