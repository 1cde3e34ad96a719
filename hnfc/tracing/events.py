"""Findings of a trace, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

GRADIENT = "the gradient of "
NOT_FINITE = ("input", "overflow", "pole", "undefined", "constant")
"""Kinds of events after which a value is infinite or NaN."""


@dataclass(frozen=True)
class ValueRange:
    """The values of a tensor: the finite ones lie in [low, high]."""

    dtype: torch.dtype
    low: float
    high: float
    not_finite: int
    zeros: int
    elements: int

    @staticmethod
    def of(tensor: torch.Tensor) -> ValueRange:
        wide = tensor.detach().to(torch.float64)
        finite = wide[torch.isfinite(wide)]
        low, high = (float(finite.min()), float(finite.max())) if finite.numel() else (0.0, 0.0)
        return ValueRange(tensor.dtype, low, high, wide.numel() - finite.numel(), int((wide == 0).sum()), wide.numel())

    def __str__(self) -> str:
        inside = f"[{self.low:.4g}, {self.high:.4g}]"
        return f"{inside}, {self.not_finite} of {self.elements} not finite" if self.not_finite else inside


@dataclass(eq=False)
class Event:
    """Fault at one operation, the number of elements of its result, and the reason.

    kind: `input` (an input, parameter or buffer is not finite), `overflow`, `pole` (infinite since an operand lies where the operation has
    no value), `underflow`, `undefined` (NaN), `constant` (the program puts NaN or infinity in), `cancellation`, or `absorption` (what is
    added changes nothing). backward: whether it is in what computes gradients. error: the largest relative error of the result. reached:
    of an overflow, the size that the result should have had. remedies: what would mend it; each was tried on the sample. index: the first
    element that is wrong.
    """

    kind: str
    operation: str
    module: str
    source: str
    operands: tuple[ValueRange, ...]
    result: ValueRange
    elements: int
    error: float
    reason: str
    backward: bool = False
    reached: float | None = None
    cause: Event | None = None
    remedies: list[str] = field(default_factory=list)
    index: tuple[int, ...] = ()
    low_only: bool = False
    """True if -inf is all that is not finite."""

    @property
    def weak(self) -> bool:
        """Return whether it is only -inf that was put in, as masks do."""
        return self.kind in ("input", "constant") and self.low_only

    @property
    def place(self) -> str:
        where = f"{self.module} ({self.source})" if self.module and self.source else self.module or self.source or "the model"
        return f"{GRADIENT}{where}" if self.backward else where

    def __str__(self) -> str:
        return f"{self.operation} in {self.place}: {self.reason}"


def first_of(events: Sequence[Event]) -> Event | None:
    """The first place where a value is no longer finite; else where most digits go; else the first underflow."""
    for kinds in (NOT_FINITE, ("cancellation", "absorption"), ("underflow",)):
        for event in events:
            if event.kind in kinds and not event.weak:
                return event
    return events[0] if events else None
