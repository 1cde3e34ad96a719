"""A step beside another one that should mend it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from hnfc.tracing.errors import is_lost, is_wrong, relative_errors
from hnfc.tracing.memory import WIDE
from hnfc.tracing.step import Final, TracedStep

_WORSE = 4
"""An element is worse if its error grew this many times, and is more than rounding makes of it."""
_ROUNDINGS = 16


@dataclass(frozen=True)
class RunComparison:
    """The largest relative errors of results and gradients before and after; whether all of them are finite, none is worse, and the error
    is smaller than before. accurate: whether nothing is wrong afterwards."""

    before: float
    after: float
    mends: bool
    accurate: bool

    def __str__(self) -> str:
        return f"goes from {_shown(self.before)} to {_shown(self.after)}"


def _shown(error: float) -> str:
    return f"{error:.1e}" if math.isfinite(error) else "not finite"


def compare(old: TracedStep, new: TracedStep, coarse: torch.dtype | None = None) -> RunComparison:
    """The new step beside the old one. The true values are those of the new one in float64 where they are finite, since it may be the more
    stable form of the same function, else those of the old one. coarse: the type whose roundoff is no error; errors are then relative to
    the largest element of each tensor."""
    measure = error_of if coarse is None else largest_error_of
    others = {(final.kind, final.name): final for final in new.finals}
    before = after = 0.0
    complete, worse, accurate = True, False, True
    for final in old.finals:
        other = others.get((final.kind, final.name))
        if other is None or other.given.shape != final.given.shape:
            complete = False
            continue
        true = torch.where(torch.isfinite(other.true), other.true, final.true)
        masked = final.kind == "result" and bool(final.given.dim()) and all(event.weak for event in final.state.reach)
        before, after = max(before, measure(final, true, masked)), max(after, measure(other, true, masked))
        worse |= _is_worse(final, other, true, coarse)
        lost = other.kind == "gradient" and is_lost(other.given, true)
        given = other.given if coarse is None else other.given.to(coarse)
        accurate &= not lost and not is_wrong(given, true, final.kind == "gradient")
    mends = complete and not worse and math.isfinite(after) and after < before
    if coarse is not None:
        accurate &= after <= torch.finfo(coarse).eps ** 0.5
    return RunComparison(before, after, mends, accurate and mends)


def _is_infinite(final: Final, true: torch.Tensor, masked: bool) -> bool:
    """Return whether an element is not finite, but for those that the model puts in on purpose."""
    given = final.given.to(WIDE)
    right = (given == true) if masked else torch.zeros_like(given, dtype=torch.bool)
    return bool((~torch.isfinite(given) & ~right).any())


def largest_error_of(final: Final, true: torch.Tensor, masked: bool) -> float:
    """The largest error relative to the largest element; infinite where an element is not finite."""
    if _is_infinite(final, true, masked):
        return math.inf
    given = final.given.to(WIDE)
    good = torch.isfinite(given) & torch.isfinite(true)
    size = float(torch.where(good, true.abs(), 0.0).max()) if given.numel() else 0.0
    off = float(torch.where(good, (given - true).abs(), 0.0).max()) if given.numel() else 0.0
    if final.kind == "gradient" and not is_wrong(final.given, true, gradient=True) and off > size:
        return 0.0
    return off / size if size > torch.finfo(torch.float32).smallest_normal else 0.0


def error_of(final: Final, true: torch.Tensor, masked: bool) -> float:
    """The largest relative error that matters; infinite where an element is not finite, unless a result is rightly infinite."""
    if _is_infinite(final, true, masked):
        return math.inf
    given = final.given.to(WIDE)
    least = torch.finfo(torch.float32).smallest_normal if final.kind == "gradient" else None
    errors = relative_errors(given, true, torch.finfo(final.given.dtype), gradient=final.kind == "gradient", least=least)
    return float(errors.max()) if errors.numel() else 0.0


def _is_worse(old: Final, new: Final, true: torch.Tensor, coarse: torch.dtype | None) -> bool:
    """Return whether an element that was right is not any more."""
    before, after = old.given.to(WIDE), new.given.to(WIDE)
    if bool((~torch.isfinite(after) & torch.isfinite(before)).any()):
        return True
    good = torch.isfinite(before) & torch.isfinite(after) & torch.isfinite(true)
    size = float(torch.where(good, true.abs(), 0.0).max()) if true.numel() else 0.0
    eps = torch.finfo(coarse or new.given.dtype).eps
    allowed = _WORSE * (before - true).abs() + _ROUNDINGS * eps * max(size, float(torch.where(good, before.abs(), 0.0).max()))
    return bool((good & ((after - true).abs() > allowed)).any())
