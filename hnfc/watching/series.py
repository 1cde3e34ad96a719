"""Largest sizes of values over the steps of a training run, as powers of two, and where they are going."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import torch

from hnfc.watching.lines import line

_NOTHING = torch.zeros(())
_NARROW = (torch.float16, torch.bfloat16)
_MOST = 512
"""Points that are kept of a series; every second one goes when there are more."""
_FEWEST = 12
"""Points below which nothing is foretold."""
_AHEAD = 1.0
"""A forecast reaches so many times as far as the steps that it rests on."""
_INSIDE = 8.0
"""Bits by which sums and squares that a loss is made of, which nobody looks at, may be larger than it."""
_STEEPEST = 4.0
"""Rise of a line over its points, beside that from the first to the last point, that noise may give it at most."""
_MARGIN = 0.03
"""Share of its distance by which a forecast is wider than the lines give it: a run ends a little before or after a value is full."""
_STEADY = 0.8
"""Slope of the second half of the points, beside that of the first, from which growth counts as steady."""
_GROWN = 1.0
"""Bits that a value must have grown by, over the steps that a forecast rests on."""


@dataclass
class ExponentSeries:
    """Exponents of one value: log2 of its largest element at each step observed. largest: of its type, whose name is `format`."""

    name: str
    largest: float
    steps: list[int] = field(default_factory=list)
    exponents: list[float] = field(default_factory=list)
    kind: str = "value"
    module: str = ""
    format: str = ""
    _end: float = 0.0

    def __post_init__(self) -> None:
        self._end = math.log2(self.largest)

    def add(self, step: int, size: float) -> None:
        """Notes the largest element of the value at a step; zeros and what is not finite have no exponent."""
        if not 0 < size < math.inf:
            return
        self.steps.append(step)
        self.exponents.append(math.log2(size))
        if len(self.steps) > _MOST:
            del self.steps[1::2], self.exponents[1::2]

    @property
    def headroom(self) -> float:
        """Bits between the last value and the largest number of its type."""
        return self._end - self.exponents[-1]

    def growth(self, points: int = _FEWEST) -> float:
        """Bits that the value grew by over its last points."""
        recent = self.exponents[-points:]
        return recent[-1] - recent[0] if len(recent) > 1 else 0.0

    def forecast(self) -> Forecast | None:
        """The steps at which the value leaves its type, if it grows on; None where growth is not steady, or its end too far to tell."""
        if len(self.steps) < _FEWEST or self._may_not_end:
            return None
        # growth that gets faster shows in the last points first
        found = (self._forecast(max(_FEWEST, len(self.steps) // part)) for part in (2, 4, len(self.steps) + 1))
        return next((each for each in found if each is not None), None)

    @property
    def _may_not_end(self) -> bool:
        """Return whether no part of the points rises enough for its line to reach the end of the type in time."""
        last, count = self.exponents[-1], len(self.exponents)
        parts = (_FEWEST, max(_FEWEST, count // 2), max(_FEWEST, count // 4))
        rise = max(last - self.exponents[count - part] for part in parts)
        return rise < _GROWN / 2 or self._end - last > _STEEPEST * rise

    def _forecast(self, count: int) -> Forecast | None:
        """The forecast that the last `count` points give."""
        first = max(0, len(self.steps) - count)
        if len(self.steps) - first < _FEWEST or self.exponents[-1] - self.exponents[first] < _GROWN:
            return None
        steps, exponents = np.array(self.steps[first:], float), np.array(self.exponents[first:])
        sooner = max(self.headroom - (_INSIDE if self.kind == "loss" else 0.0), 0.0)
        reach = _AHEAD * (steps[-1] - steps[0])
        even, slowing = line(steps, exponents), line(np.log2(1 + steps), exponents)
        steady = even.low > 0 and even.late >= _STEADY * even.early and self.headroom / even.slope <= reach
        # growth by a power of the steps slows down; what ends of itself, as weights that are being learned, does so faster
        powers = slowing.low > 0 and slowing.late >= _STEADY * slowing.early and slowing.noise < even.noise
        later = _later(steps[-1], self.headroom / slowing.slope) if powers else math.inf
        if not steady and later > reach:
            return None
        found = [even.span(sooner, self.headroom, steps[-1] - steps[0])] if steady else []
        if powers:
            found.append((_later(steps[-1], sooner / slowing.high), _later(steps[-1], self.headroom / slowing.lowest)))
        now = self.steps[-1]
        soonest, last = min(each[0] for each in found), max(each[1] for each in found)
        slope = even.slope if steady else slowing.slope / (1 + now) / math.log(2)
        return Forecast(self, slope, now + math.floor(soonest * (1 - _MARGIN)), now + math.ceil(last * (1 + _MARGIN)))


@dataclass(frozen=True)
class Forecast:
    """Prediction that a value leaves the range of its type between two steps. slope: bits a step."""

    series: ExponentSeries
    slope: float
    earliest: int
    latest: int

    def __str__(self) -> str:
        return (
            f"{self.series.name} has {self.series.headroom:.1f} bits left and grows by {100 * self.slope:.3g} bits in a hundred steps: "
            f"it overflows between steps {self.earliest} and {self.latest} if it grows on"
        )


def _later(now: float, doublings: float) -> float:
    """Steps until the count of steps has doubled so many times."""
    return (1 + now) * (2 ** min(doublings, 60.0) - 1)


Size: TypeAlias = "torch.Tensor | tuple[torch.Tensor, torch.Tensor]"
"""Size of the largest element, or the smallest and the largest element, as tensors of one number: nothing waits for a device."""


def size_of(tensor: torch.Tensor) -> Size:
    """Size of the largest element, NaN if there is one. On a CPU torch's norm takes 20 times as long as the smallest and the largest."""
    if tensor.device.type != "cpu" or tensor.is_complex():
        norm: torch.Tensor = torch.linalg.vector_norm(tensor, math.inf)
        return norm
    low, high = torch.aminmax(tensor)
    return low, high


def largest_of(tensors: Sequence[torch.Tensor]) -> list[Size]:
    """Size of the largest element of each tensor, NaN if it has one."""
    found: dict[int, Size] = {}
    groups: dict[tuple[torch.device, torch.dtype], list[int]] = {}
    for index, tensor in enumerate(tensors):
        if tensor.numel():
            groups.setdefault((tensor.device, tensor.dtype), []).append(index)
    for (device, _), indices in groups.items():
        given = [tensors[i] for i in indices]
        found.update(zip(indices, map(size_of, given) if device.type == "cpu" else torch._foreach_norm(given, math.inf), strict=True))
    return [found.get(index, _NOTHING) for index in range(len(tensors))]


def totals_of(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Sum of each tensor, finite only if all its elements are: several times as fast as their sizes."""
    real = [torch.view_as_real(t.resolve_conj()) if t.is_complex() else t for t in tensors]
    return [t.sum(dtype=torch.float32) if t.dtype in _NARROW else t.sum() for t in real]


@torch.no_grad()
def not_finite(tensors: Sequence[torch.Tensor], looking: bool, losses: int = 0) -> tuple[list[float], dict[int, float]]:
    """The largest sizes, where one looks for them, else sums, as always of the first `losses`; and those of the tensors with an element
    that is not finite."""
    rest = tensors[losses:]
    sizes = numbers_of([*totals_of(tensors[:losses]), *(largest_of(rest) if looking else totals_of(rest))])
    suspect = [index for index, size in enumerate(sizes) if not math.isfinite(size)]
    exact = numbers_of(largest_of([tensors[index] for index in suspect]))  # a sum may overflow of itself
    return sizes, {index: size for index, size in zip(suspect, exact, strict=True) if not math.isfinite(size)}


def numbers_of(sizes: Sequence[Size]) -> list[float]:
    """The numbers of sizes: a device is waited for once for each type."""
    groups: dict[tuple[torch.device, torch.dtype, bool], list[int]] = {}
    for index, size in enumerate(sizes):
        one = size[0] if isinstance(size, tuple) else size
        groups.setdefault((one.device, one.dtype, isinstance(size, tuple)), []).append(index)
    found = [0.0] * len(sizes)
    for (_, _, paired), indices in groups.items():
        if paired:
            low, high = (torch.stack([sizes[i][place] for i in indices]) for place in (0, 1))
            numbers = torch.maximum(-low, high).tolist()
        else:
            numbers = torch.stack([sizes[i] for i in indices]).tolist()  # type: ignore[misc]
        for index, number in zip(indices, numbers, strict=True):
            found[index] = number
    return found
