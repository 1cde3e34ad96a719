"""A run as it was seen: the exponents of its values over the steps, and at each look their shares."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch

from hnfc.watching.samples import Shares, sample_of, shares_of
from hnfc.watching.series import ExponentSeries, Forecast

_LOSS = "the loss"
_NO_SAMPLE = torch.empty(0)
_MOST_LOSSES = 4096
"""Losses that are kept; every second one goes when there are more."""


@dataclass(frozen=True)
class ObservedValue:
    """A value at a step. kind: `value` (a result of an operation), `gradient`, `parameter`, `update` or `moment` (of the optimizer).

    format: its type. largest: the size of its largest element, NaN if it has one; of an update, of the elements in the sample.
    """

    name: str
    kind: str
    module: str
    format: str
    largest: float
    shares: Shares

    @property
    def headroom(self) -> float:
        """Bits between the largest element and the largest number of its type; infinite for zeros, -infinite for what is not finite."""
        if not math.isfinite(self.largest):
            return -math.inf
        end = math.log2(torch.finfo(getattr(torch, self.format)).max)
        return end - math.log2(self.largest) if self.largest else math.inf


@dataclass
class ObservedStep:
    """A step that was looked at. loss: the mean over its calls, unscaled."""

    step: int
    loss: float | None = None
    scale: float | None = None
    values: list[ObservedValue] = field(default_factory=list)


_Noted: TypeAlias = tuple[str, str, str, torch.dtype, float, torch.Tensor]
"""Name, kind, module, type, largest element and sample of a value."""


class History:
    """Exponents by name, and the step at hand. followers: functions that get each step that was looked at."""

    def __init__(self, followers: Sequence[Callable[[ObservedStep], None]] = ()) -> None:
        self.series: dict[str, ExponentSeries] = {}
        self.losses: list[tuple[int, float]] = []
        self._followers = list(followers)
        self.is_followed = bool(self._followers)
        """True if somebody gets shares of values."""
        self._noted: list[_Noted] = []
        self._last: tuple[ObservedStep, list[_Noted]] | None = None
        self._scale: float | None = None
        self._foretold: dict[str, int] = {}
        """The last step of the forecast of each value that has one."""

    def note(self, step: int, name: str, kind: str, module: str, size: float, given: torch.Tensor) -> None:
        """Notes the largest element of a value at a step, and a sample of it where there are followers."""
        series = self.series.get(name)
        if series is None:
            form = str(given.dtype).removeprefix("torch.")
            series = self.series[name] = ExponentSeries(name, torch.finfo(given.dtype).max, kind=kind, module=module, format=form)
        series.add(step, size)
        sample = sample_of(given) if self.is_followed else _NO_SAMPLE
        self._noted.append((name, kind, module, given.dtype, size, sample))

    def note_loss(self, step: int, losses: Sequence[float], scale: float | None, form: torch.dtype) -> None:
        """Notes the losses of a step, as they were differentiated, in their type; scale: their factor, where there is a gradient scaler."""
        self._scale = scale
        if losses:
            if _LOSS not in self.series:
                name = str(form).removeprefix("torch.")
                self.series[_LOSS] = ExponentSeries(_LOSS, torch.finfo(form).max, kind="loss", format=name)
            self.series[_LOSS].add(step, max(map(abs, losses)))
            self.losses.append((step, sum(losses) / len(losses) / (scale or 1.0)))
            if len(self.losses) > _MOST_LOSSES:
                del self.losses[1::2]

    def end_step(self, step: int) -> list[Forecast]:
        """Hands a step that was looked at to the followers; the forecasts that are new. Of other steps there is the loss alone."""
        if not self._noted:
            return self._new([self.series[_LOSS]]) if _LOSS in self.series else []
        loss = self.losses[-1][1] if self.losses and self.losses[-1][0] == step else None
        self._last, self._noted = (ObservedStep(step, loss, self._scale), self._noted), []
        if self._followers:
            seen = self.last
            assert seen is not None
            for follower in self._followers:
                follower(seen)
        return self._new(self.series.values())

    @property
    def last(self) -> ObservedStep | None:
        """The last step that was looked at; its shares are counted once they are needed."""
        if self._last is None:
            return None
        step, noted = self._last
        if not step.values:
            shares = shares_of([sample for *_, sample in noted])
            for (name, kind, module, dtype, size, _), each in zip(noted, shares, strict=True):
                step.values.append(ObservedValue(name, kind, module, str(dtype).removeprefix("torch."), size, each))
        return step

    def _new(self, series: Iterable[ExponentSeries]) -> list[Forecast]:
        """Forecasts of values of which there was none, or one whose steps have passed."""
        found = (each.forecast() for each in series if each.steps and each.steps[-1] > self._foretold.get(each.name, -1))
        new = sorted((each for each in found if each is not None), key=lambda each: each.earliest)
        self._foretold.update({each.series.name: each.latest for each in new})
        return new

    def close(self) -> None:
        """Closes the followers that can be closed."""
        for follower in self._followers:
            close = getattr(follower, "close", None)
            if callable(close):
                close()

    def as_data(self) -> dict[str, Any]:
        """Exponents and losses for a file of JSON; losses that are not finite are texts."""
        return {
            "series": [
                [each.name, each.kind, each.module, each.format, each.steps, [round(power, 2) for power in each.exponents]]
                for each in self.series.values()
            ],
            "losses": [[step, loss if math.isfinite(loss) else str(loss)] for step, loss in self.losses],
        }

    @staticmethod
    def of_data(data: dict[str, Any]) -> History:
        made = History()
        for name, kind, module, form, steps, exponents in data["series"]:
            largest = float(torch.finfo(getattr(torch, form)).max)
            made.series[name] = ExponentSeries(name, largest, list(steps), list(exponents), kind, module, form)
        made.losses = [(int(step), float(loss)) for step, loss in data["losses"]]
        return made

    @property
    def forecasts(self) -> list[Forecast]:
        """The values that leave the range of their types soon, the first to do so first."""
        found = (series.forecast() for series in self.series.values())
        return sorted((each for each in found if each is not None), key=lambda each: each.earliest)
