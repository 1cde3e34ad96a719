"""Weights of the results of a graph in the error of all of them, and that error."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Outputs:
    """Results of a graph whose errors are taken apart, and their weights.

    apart: the places of those that are looked at one by one; an output is known by its index in it. names: what these are called.
    norms: by the place of a result the Euclidean norm to which its error is relative; with these each result counts as one, whatever its
    size and how many elements it has, and one of infinite norm must only be finite. Without, all elements of all results count alike.
    """

    apart: tuple[int, ...] = ()
    names: Mapping[int, str] = field(default_factory=dict)
    norms: Mapping[int, float] = field(default_factory=dict)

    def weight(self, place: int) -> float:
        """Weight of a result's error where all are taken together."""
        return 1 / self.norms[place] if self.norms else 1.0

    def count(self, place: int, elements: int) -> int:
        """As how many numbers a result counts there."""
        return elements if not self.norms else int(self.norms[place] < math.inf)


TOGETHER = Outputs()
"""All elements of all results count alike."""


def root_mean_squares(squares: Mapping[int, tuple[float, int]], outputs: Outputs) -> dict[int | None, float]:
    """By places of results Σ error² and how many elements they have: the error of all together, and of those that are looked at apart."""

    def root(total: float, count: int) -> float:
        error = math.sqrt(total / max(count, 1)) if total < math.inf else math.inf
        return error if math.isfinite(error) else math.inf

    total = sum(s * outputs.weight(place) ** 2 for place, (s, _) in squares.items())
    found: dict[int | None, float] = {None: root(total, sum(outputs.count(place, n) for place, (_, n) in squares.items()))}
    return found | {index: root(*squares[place]) for index, place in enumerate(outputs.apart) if place in squares}
