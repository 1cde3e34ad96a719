"""Errors of tensors beside their true values."""

from __future__ import annotations

import math
from typing import Any

import torch

from hnfc.tracing.memory import WIDE

_EPSILON = torch.finfo(WIDE).eps
_DOUBT = 32
"""Units roundoff that float64 may be off by where the model is off by one of its own."""
_NOISE = 2**9
"""The same for the largest element of a gradient."""
_ROUNDINGS = 32
"""Units roundoff of the largest element of a result that sums may lose in a healthy model."""


def relative_errors(
    given: torch.Tensor, true: torch.Tensor, info: Any, *, gradient: bool = False, least: float | None = None
) -> torch.Tensor:
    """The relative errors that matter: of all elements if more than a tenth of them is wrong, else of those that are not negligible
    beside the largest (a mean taken off leaves some near 0, and their errors are nobody's trouble).

    gradient: where the true value is so small beside the error that float64 has no digit of it either, the exact one is 0, as that of a
    bias before a normalization; rounding is then no error. least: the size below which errors are relative to it, by default the smallest
    normal number.
    """
    good = torch.isfinite(given) & torch.isfinite(true)
    size = torch.where(good, true.abs(), 0.0)
    off = torch.where(good, (given - true).abs(), 0.0)
    if gradient:
        off = torch.where(size * (info.eps / _EPSILON / _DOUBT) < off, 0.0, off)
    errors = off / size.clamp_min(info.smallest_normal if least is None else least)
    if int((errors > info.eps**0.5).sum()) * 10 > errors.numel():
        return errors
    largest = float(size.max()) if size.numel() else 0.0
    return torch.where(size >= largest * info.eps**0.5, errors, 0.0)


def result_error(given: torch.Tensor, true: torch.Tensor) -> float:
    """The largest relative error that matters; infinite where an element is not finite and should be."""
    wide = given.detach().to(WIDE)
    if bool((~torch.isfinite(wide) & torch.isfinite(true)).any()):
        return math.inf
    errors = relative_errors(wide, true, torch.finfo(given.dtype))
    return float(errors.max()) if errors.numel() else 0.0


def is_wrong(given: torch.Tensor, true: torch.Tensor, gradient: bool = False, epsilon: float = 0.0) -> bool:
    """Return whether the error is more than rounding: more than the square root of the unit roundoff relative to an element, and more
    than a few units roundoff of the largest one; or so in a tenth of the elements of a result.

    A gradient that is many times smaller than its error is exactly 0, as that of a bias before a normalization, and all that was computed
    is rounding. epsilon: the roundoff of the narrowest type on the way.
    """
    info = torch.finfo(given.dtype)
    epsilon = max(epsilon, info.eps)
    wide = given.detach().to(WIDE)
    good = torch.isfinite(wide) & torch.isfinite(true)
    if not bool(good.any()):
        return False
    off = torch.where(good, (wide - true).abs(), 0.0)
    largest = float(torch.where(good, true.abs(), 0.0).max())
    if gradient and largest * (epsilon / _EPSILON / _NOISE) < float(off.max()):
        return False
    errors = relative_errors(wide, true, info, gradient=gradient)
    many = not gradient and int((errors > epsilon**0.5).sum()) * 10 > errors.numel()
    harmful = off > _ROUNDINGS * epsilon * largest
    return bool(((errors > epsilon**0.5) & (harmful | torch.tensor(many))).any())


def is_lost(given: torch.Tensor, true: torch.Tensor) -> bool:
    """Return whether all of a gradient is 0 where float32 has numbers for what it should be."""
    if not given.numel() or bool((given != 0).any()):
        return False
    size = torch.where(torch.isfinite(true), true.abs(), 0.0)
    return float(size.max()) >= torch.finfo(torch.float32).smallest_normal
