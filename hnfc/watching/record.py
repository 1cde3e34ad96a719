"""A step that went wrong, and its text."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field

import torch

from hnfc.core.notebook import lines_html
from hnfc.tracing.report import Trace
from hnfc.watching.calls import ModelCall
from hnfc.watching.series import ExponentSeries

_MOST_NAMES = 3


@dataclass(frozen=True)
class Bad:
    """A number that is not what it should be. kind: `loss`, `gradient`, `parameter`, `jump` of the loss, or `scale` of the loss, stuck.

    size: of its largest element; call: the one that a loss comes from.
    """

    kind: str
    name: str
    size: float
    call: ModelCall | None = None

    @property
    def words(self) -> str:
        return "NaN" if math.isnan(self.size) else "infinite" if math.isinf(self.size) else f"{self.size:.3g}"


@dataclass(frozen=True)
class StepStart:
    """Parameters that a step began with, by name, and an optimizer on them with the state before the step."""

    parameters: dict[str, torch.Tensor]
    optimizer: torch.optim.Optimizer


@dataclass(repr=False)
class BadStep:
    """Step of a training run that went wrong. before: no optimizer had changed a parameter in it. by_optimizer: gradients were finite."""

    step: int
    bad: list[Bad]
    before: bool
    by_optimizer: bool = False
    call: ModelCall | None = None
    trace: Trace | None = None
    growth: list[ExponentSeries] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    remedies: list[str] = field(default_factory=list)
    """Changes of the optimizer that mend it; those of the step itself are in the trace."""
    folder: str = ""
    size: int = 0
    """Bytes of the folder."""
    start: StepStart | None = None
    """The state before the update, where that of the model is after it."""
    optimizer: torch.optim.Optimizer | None = None
    """The one that was about to run, or ran last, until the step is saved."""

    def __str__(self) -> str:
        lines = [f"step {self.step}: {_what(self.bad)}; {_when(self)}"]
        if self.folder:
            lines.append(f"    saved   {self.folder}, {_bytes(self.size)}  (again: hnfc.replay({self.folder!r}, model))")
        lines += [f"    grew    {each.name}: 2^{each.exponents[-1] - each.growth():.1f} to 2^{each.exponents[-1]:.1f} of {_limit(each)}"
                  for each in sorted(self.growth, key=lambda each: -each.growth())[:_MOST_NAMES]]  # fmt: skip
        lines += [f"    note    {note}" for note in self.notes]
        if self.trace is not None and self.trace:
            lines.append(str(self.trace))
        lines += [f"    mend    {remedy}" for remedy in self.remedies]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"BadStep({str(self).split(chr(10))[0]})"

    def _repr_html_(self) -> str:
        return lines_html(str(self), "bad")


def to_stderr(text: str) -> None:
    """Prints a report."""
    print(text, file=sys.stderr, flush=True)


def _bytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"


def _limit(series: ExponentSeries) -> str:
    return f"at most 2^{math.log2(series.largest):.0f}"


def _what(bad: list[Bad]) -> str:
    first = bad[0]
    if first.kind == "jump":
        return f"the loss is {first.words}, and its median was {first.name}"
    if first.kind == "scale":
        return f"the gradient scaler left out {first.name} steps in a row; its scale is {first.words}"
    if first.kind == "loss":
        return f"the loss is {first.words}"
    same = [each for each in bad if each.kind == first.kind]
    more = f" and {len(same) - 1} more" if len(same) > 1 else ""
    return f"the {first.kind} {first.name} is {first.words}{more}"


def _when(step: BadStep) -> str:
    if step.bad[0].kind == "scale":
        return "no parameter changes any more"
    if step.by_optimizer:
        return "the gradients were finite: the optimizer made it, and the parameters are those after it"
    if step.before:
        return "the optimizer has not run, and the parameters are those that the step began with"
    return "an optimizer has changed parameters in this step already"
