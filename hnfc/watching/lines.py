"""Lines of least squares through exponents, with the errors of their slopes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

_Points: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.float64]]"
_SURE = 3.0
"""Standard errors of a slope on either side."""
_MOST_LIKE = 0.95
"""Largest correlation of residuals with the next ones that is taken into account."""
_FLATTEST = 1 / 3
"""Least slope of a span, beside that of the line."""


@dataclass(frozen=True)
class FittedLine:
    """A line. error: the standard error of its slope, if residuals are independent; wide: if they are as alike as they look. early and
    late: slopes of both halves of the points. noise: the root mean square of the residuals."""

    slope: float
    error: float
    wide: float
    early: float
    late: float
    noise: float

    @property
    def low(self) -> float:
        """The least slope, if residuals are independent."""
        return self.slope - _SURE * self.error

    @property
    def high(self) -> float:
        return self.slope + _SURE * self.wide

    @property
    def lowest(self) -> float:
        """The least slope that a span is made of."""
        return max(self.slope - _SURE * self.wide, _FLATTEST * self.slope)

    def span(self, sooner: float, rise: float, length: float) -> tuple[float, float]:
        """Distances in which the line rises by `sooner` at the soonest, and by `rise` at the latest. length: of the points."""
        soonest, last = sooner / self.high, rise / self.lowest
        change = 2 * (self.late - self.early) / length
        if change > 0:  # it may go on to get faster
            soonest = min(soonest, (math.sqrt(self.late**2 + 2 * change * sooner) - self.late) / change)
        else:  # or slower, if it gets there at all
            rest = self.late**2 + 2 * change * rise
            last = max(last, (self.late - math.sqrt(rest)) / -change if change and rest > 0 else 2 * last)
        return soonest, last


def line(x: _Points, y: _Points) -> FittedLine:
    """The line of least squares through points, which are in order."""
    middle = len(x) // 2
    slope, rest = _fitted(x, y)
    spread = float(((x - x.mean()) ** 2).sum())
    squares = float((rest**2).sum())
    error = math.sqrt(squares / (len(x) - 2) / spread) if len(x) > 2 and spread else math.inf
    alike = float((rest[1:] * rest[:-1]).sum()) / squares if squares else 0.0
    alike = min(max(alike, 0.0), _MOST_LIKE)
    wide = error * math.sqrt((1 + alike) / (1 - alike))
    early, late = (_fitted(x[part], y[part])[0] for part in (slice(None, middle), slice(middle, None)))
    return FittedLine(slope, error, wide, early, late, math.sqrt(squares / len(x)))


def _fitted(x: _Points, y: _Points) -> tuple[float, Any]:
    """Slope and residuals."""
    around = x - x.mean()
    spread = float((around**2).sum())
    slope = float((around * (y - y.mean())).sum()) / spread if spread else 0.0
    return slope, y - y.mean() - slope * around
