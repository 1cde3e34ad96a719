"""One value of a model on samples: its range, its size, and some of its elements, to be counted."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from hnfc.analysis.perturbation import square_sum
from hnfc.formats.scaled import MASK

_QUANTILES = (0.01, 0.5, 0.99)
_MOST_SORTED = 2**10
"""Of these are sorted."""


@dataclass
class Reach:
    """`sensitivity` and `moved` of a value, as in Observed, for one output."""

    sensitivity: float = 0.0
    moved: dict[str, float] = field(default_factory=dict)


@dataclass
class Observed:
    """One value on the samples.

    low, high: the least and the greatest finite element. nonfinite: how many elements are infinite or NaN; undefined:
    whether one is NaN. square: the sum of squares.
    sensitivity: how far the root mean square output moves, in its own units, for relative rounding errors of up to 1 in every element.
    """

    low: float = math.inf
    high: float = -math.inf
    elements: int = 0
    nonfinite: int = 0
    undefined: bool = False
    square: float = 0.0
    sensitivity: float = 0.0
    moved: dict[str, float] = field(default_factory=dict)
    """By the name of a format, how far the outputs move (root mean square) where the value is rounded to it; infinite if it overflows."""
    scales: dict[str, int] = field(default_factory=dict)
    """By the name of a format in which it nearly overflows, or loses small elements, the exponent of the scale with which it does not."""
    vanishing: set[str] = field(default_factory=set)
    """The formats in which an element that is not 0 becomes 0."""
    ordinary: float = 0.0
    """The size of the greatest finite element that is no mask."""
    saturated: set[str] = field(default_factory=set)
    """The formats that it overflows with a mask, and that are tried with saturation therefore."""
    least: float = math.inf
    """The size of the least element that is not 0, where one becomes 0 in a format."""
    parts: list[Part] = field(default_factory=list)
    """Of each sample."""
    apart: dict[int, Reach] = field(default_factory=dict)
    """Effect on single outputs, where they are requested one by one."""

    def reach(self, output: int | None) -> Observed | Reach:
        """Effect on one output, or on all of them together."""
        return self if output is None else self.apart.setdefault(output, Reach())

    @property
    def magnitude(self) -> float:
        return max(abs(self.low), abs(self.high)) if self.elements > self.nonfinite else 0.0

    @property
    def rms(self) -> float:
        return math.sqrt(self.square / max(self.elements - self.nonfinite, 1))

    @property
    def quantiles(self) -> tuple[float, ...]:
        """Of |x| on the latest sample, at 1, 50 and 99 %: quantiles of several do not add up."""
        return self.parts[-1].quantiles() if self.parts else (0.0,) * len(_QUANTILES)

    @property
    def zeros(self) -> int:
        """About how many elements are 0."""
        return sum(part.zeros() for part in self.parts)

    def beyond(self, largest: float) -> int:
        """About how many elements are at least the power of two above `largest`: they would overflow."""
        exponent = math.frexp(largest)[1]
        if exponent >= sys.float_info.max_exp:
            return 0
        return sum(part.step * part.sizes.size - part.below(math.ldexp(1.0, exponent)) for part in self.parts)

    def below(self, least: float) -> int:
        """About how many elements are smaller than `least`, a power of two, and not 0: they would be subnormal or vanish."""
        return sum(max(part.below(least) - part.zeros(), 0) for part in self.parts)


@dataclass
class Part:
    """|x| for some of the finite elements of a value on one sample, of which every one stands for `step`."""

    sizes: np.ndarray[Any, Any]
    step: int

    def zeros(self) -> int:
        return self.step * (self.sizes.size - int(np.count_nonzero(self.sizes)))

    def below(self, limit: float) -> int:
        """About how many are smaller than the limit: 0 or a power of two, which every type has, or all that it has are smaller."""
        with np.errstate(over="ignore"):
            return self.step * int(np.count_nonzero(self.sizes < self.sizes.dtype.type(limit)))

    def quantiles(self) -> tuple[float, ...]:
        few = np.sort(self.sizes[:: -(-self.sizes.size // _MOST_SORTED)])
        return tuple(float(few[round(place * (few.size - 1))]) for place in _QUANTILES)


def observe(into: Observed, tensor: torch.Tensor, most: int) -> None:
    """Adds the elements of a tensor to what is known of a value; at most so many are kept."""
    flat = tensor.reshape(-1)
    into.elements += flat.numel()
    if not flat.numel():
        return
    low, high = (float(end) for end in torch.aminmax(flat))
    if not math.isfinite(low - high):
        finite = torch.isfinite(flat)
        into.nonfinite += int((~finite).sum())
        into.undefined = into.undefined or bool(torch.isnan(flat).any())
        flat = flat[finite]
        if not flat.numel():
            return
        low, high = (float(end) for end in torch.aminmax(flat))
    into.low, into.high = min(into.low, low), max(into.high, high)
    into.ordinary = max(into.ordinary, _ordinary(flat, low, high))
    into.square += square_sum(flat)
    step = -(-flat.numel() // most)
    sizes = flat[::step].abs()
    into.parts.append(Part((sizes if sizes.dtype in (torch.float32, torch.float64) else sizes.float()).cpu().numpy(), step))


def _ordinary(flat: torch.Tensor, low: float, high: float) -> float:
    """The size of the greatest of finite elements that is no mask."""
    if max(-low, high) < MASK:
        return max(-low, high)
    sizes = flat.abs()
    return float(torch.where(sizes < MASK, sizes, 0).amax())
