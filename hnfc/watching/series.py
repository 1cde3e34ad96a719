"""Largest sizes of values over the steps of a training run, as powers of two, and where they are going."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

_NARROW = (torch.float16, torch.bfloat16)
_MOST = 512
"""Points that are kept of a series; every second one goes when there are more."""
_FEWEST = 12
"""Points below which nothing is foretold."""
_SURE = 3.0
"""Standard errors of the slope on either side of a forecast."""
_AHEAD = 1.0
"""A forecast reaches so many times as far as the steps that it rests on."""
_INSIDE = 8.0
"""Bits by which sums and squares that a loss is made of, which nobody looks at, may be larger than it."""
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
        return math.log2(self.largest) - self.exponents[-1]

    def growth(self, points: int = _FEWEST) -> float:
        """Bits that the value grew by over its last points."""
        recent = self.exponents[-points:]
        return recent[-1] - recent[0] if len(recent) > 1 else 0.0

    def forecast(self) -> Forecast | None:
        """The steps at which the value leaves its type, if it grows on; None where growth is not steady, or its end too far to tell."""
        # growth that gets faster shows in the last points first
        found = (self._forecast(max(_FEWEST, len(self.steps) // part)) for part in (2, 4, len(self.steps) + 1))
        return next((each for each in found if each is not None), None)

    def _forecast(self, count: int) -> Forecast | None:
        """The forecast that the last `count` points give."""
        first = max(0, len(self.steps) - count)
        if len(self.steps) - first < _FEWEST or self.exponents[-1] - self.exponents[first] < _GROWN:
            return None
        steps, exponents = np.array(self.steps[first:], float), np.array(self.exponents[first:])
        middle = len(steps) // 2
        halves = [_slope(steps[part], exponents[part])[0] for part in (slice(None, middle), slice(middle, None))]
        slope, error = _slope(steps, exponents)
        low, high = slope - _SURE * error, slope + _SURE * error
        # growth that slows down, as of weights that are being learned, ends of itself
        if low <= 0 or halves[1] < 0.8 * halves[0] or self.headroom / slope > _AHEAD * (steps[-1] - steps[0]):
            return None
        sooner = max(self.headroom - (_INSIDE if self.kind == "loss" else 0.0), 0.0)
        now, change = self.steps[-1], 2 * (halves[1] - halves[0]) / (steps[-1] - steps[0])
        soonest, last = sooner / high, self.headroom / low
        if change > 0:  # it may go on to get faster
            soonest = min(soonest, (math.sqrt(halves[1] ** 2 + 2 * change * sooner) - halves[1]) / change)
        else:  # or slower, if it gets there at all
            rest = halves[1] ** 2 + 2 * change * self.headroom
            last = max(last, (halves[1] - math.sqrt(rest)) / -change if change and rest > 0 else 2 * last)
        return Forecast(self, slope, now + math.floor(soonest), now + math.ceil(last))


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


def _slope(x: np.ndarray[tuple[int], np.dtype[np.float64]], y: np.ndarray[tuple[int], np.dtype[np.float64]]) -> tuple[float, float]:
    """Slope of the line of least squares, and its standard error."""
    spread = float(((x - x.mean()) ** 2).sum())
    if len(x) < 3 or not spread:
        return 0.0, math.inf
    slope = float(((x - x.mean()) * (y - y.mean())).sum()) / spread
    rest = y - y.mean() - slope * (x - x.mean())
    return slope, math.sqrt(float((rest**2).sum()) / (len(x) - 2) / spread)


def size_of(tensor: torch.Tensor) -> torch.Tensor:
    """Size of the largest element, NaN if there is one, as a tensor of one number. On a CPU torch's norm takes 20 times as long."""
    if tensor.device.type != "cpu" or tensor.is_complex():
        norm: torch.Tensor = torch.linalg.vector_norm(tensor, math.inf)
        return norm
    low, high = torch.aminmax(tensor)
    return torch.maximum(-low, high)


def largest_of(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Size of the largest element of each tensor, NaN if it has one, as tensors of one number: nothing waits for a device."""
    found: dict[int, torch.Tensor] = {}
    groups: dict[tuple[torch.device, torch.dtype], list[int]] = {}
    for index, tensor in enumerate(tensors):
        if tensor.numel():
            groups.setdefault((tensor.device, tensor.dtype), []).append(index)
    for (device, _), indices in groups.items():
        given = [tensors[i] for i in indices]
        found.update(zip(indices, map(size_of, given) if device.type == "cpu" else torch._foreach_norm(given, math.inf), strict=True))
    return [found.get(index, torch.zeros(())) for index in range(len(tensors))]


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


def numbers_of(sizes: Sequence[torch.Tensor]) -> list[float]:
    """The numbers in tensors of one number: a device is waited for once for each type."""
    if not sizes:
        return []
    groups: dict[tuple[torch.device, torch.dtype], list[int]] = {}
    for index, size in enumerate(sizes):
        groups.setdefault((size.device, size.dtype), []).append(index)
    found = [0.0] * len(sizes)
    for indices in groups.values():
        for index, number in zip(indices, torch.stack([sizes[i] for i in indices]).tolist(), strict=True):
            found[index] = number
    return found
