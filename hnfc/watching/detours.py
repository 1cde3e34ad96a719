"""Remedies of the optimizer: clipped gradients, a smaller rate, a wider eps, moments in float32, each tried from an earlier state on."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from hnfc.tracing.attempts import positive
from hnfc.tracing.course import GROWN, STEPS
from hnfc.watching.record import BadStep
from hnfc.watching.rewinding import Detour, Rerun, Rewind

DETOURS = ("clip=C", "rate=F", "optimizer-eps=E", "optimizer-float32")
"""Names of remedies of the optimizer; C, F and E are numbers."""
ALL_DETOURS = ("rate=0.1", "clip=1", "optimizer-eps=1e-06", "optimizer-eps=0.0001", "optimizer-float32")
_DIVERGED = 10.0
"""Growth of losses or gradients from an earlier state to the fault from which the updates are at fault."""
_RATES = (0.1, 0.01)
_EPS = (1e-8, 1e-6, 1e-4, 1e-3)


@dataclass(frozen=True)
class DetourTrial:
    """A change of the optimizer that was tried. name: as `hnfc replay --with` takes it. code: how to write it. old: the steps without it.
    error: of the parameters after the recorded steps, relative to the largest, beside an optimizer in float64."""

    name: str
    code: str
    old: Rerun
    new: Rerun
    error: float

    @property
    def mends(self) -> bool:
        losses = self.new.losses
        return not self.new.wrong and self.new.further > 0 and abs(losses[-1]) <= GROWN * max(1.0, abs(losses[0]))

    def __str__(self) -> str:
        if self.new.wrong:
            where = f"step {self.new.faulty}" if self.new.faulty is not None else f"step {self.new.further + 1} after it"
            return f"{self.code}: {self.new.wrong} in {where}"
        losses = f"the loss, {self.old.losses[-1]:.3g} without it, is {self.new.losses[-1]:.3g} in the end"
        error = "" if math.isnan(self.error) else f"the error of the parameters goes from not finite to {self.error:.1e}; "
        since = f" from step {self.old.first} on" if self.old.faulty != self.old.first else ""
        return f"{self.code}{since}: {error}{losses}; {self.new.further} steps more stay finite"


def add_detours(step: BadStep, rewind: Rewind) -> None:
    """Adds to a bad step changes of the optimizer that mend it, if the update or growth before it is at fault; or the step left out, if its
    batch is. Nothing where the steps made again do not go wrong there."""
    first = step.trace.first if step.trace is not None else None
    poisoned = first is not None and first.kind == "input" and first.operation == "input"
    if not (step.by_optimizer or poisoned or (first is not None and first.kind == "overflow")):
        return
    old = rewind.rerun(Detour(), 0)
    if old is None or old.faulty != step.step:
        return
    if step.by_optimizer:
        step.start = rewind.before(step.step)
    if poisoned:
        code = 'hnfc.watch(…, stop="skip"), which leaves out the update of a bad step'
        tried = [_trial(rewind, old, "skip", Detour(without=step.step), code)]
    else:
        tried = list(_first_of_each_kind(rewind, old)) if step.by_optimizer or _diverged(old) else []
    step.remedies = [str(trial) for trial in tried if trial is not None and trial.mends]


def _diverged(old: Rerun) -> bool:
    """Return whether losses or gradients grew towards the fault; else a slower training meets it later, and no better."""
    for numbers in (old.losses, old.norms):
        sizes = [abs(number) for number in numbers if math.isfinite(number)]
        if len(sizes) > 1 and sizes[-1] > _DIVERGED * sizes[0] > 0:
            return True
    return False


def _first_of_each_kind(rewind: Rewind, old: Rerun) -> Iterator[DetourTrial]:
    """Of each kind of change the first that mends."""
    for names in (("rate=last", *(f"rate={factor:g}" for factor in _RATES)), _clips(old), _wider(rewind), ("optimizer-float32",)):
        for name in names:
            trial = detour_trial(rewind, old, name)
            if trial is not None and trial.mends:
                yield trial
                break


def detour_trial(rewind: Rewind, old: Rerun, name: str) -> DetourTrial | None:
    """The change of a name, tried; None where there is nothing that it could change. old: the steps without it."""
    made = _detour(rewind, name)
    if made is None:
        return None
    return _trial(rewind, old, name, *made)


def _trial(rewind: Rewind, old: Rerun, name: str, detour: Detour, code: str) -> DetourTrial | None:
    new = rewind.rerun(detour, STEPS)
    if new is None:
        return None
    true = rewind.rerun(Detour(detour.settings, detour.clip, torch.float64), 0) if old.wrong == "a parameter is not finite" else None
    return DetourTrial(name, code, old, new, math.nan if true is None else _error(new.after, true.after))


def _detour(rewind: Rewind, name: str) -> tuple[Detour, str] | None:
    kind, _, text = name.partition("=")
    now = rewind.records[-1].settings
    if kind == "rate" and text == "last":
        return _last_rate(rewind)
    if kind == "optimizer-float32":
        narrow = [p for p in rewind.parameters if p.dtype in (torch.float16, torch.bfloat16)]
        code = f"{rewind.kind} on float32 copies of the parameters, which take their gradients before and give them back after a step"
        return (Detour(form=torch.float32), code) if narrow else None
    value = positive(text, "clip=1, rate=0.1, optimizer-eps=1e-4")
    if kind == "rate":
        rates = ", ".join(f"{float(group['lr']) * value:g} in place of {float(group['lr']):g}" for group in now if "lr" in group)
        return Detour(lambda group: group.update(lr=group["lr"] * value)), f"lr={rates}"
    if kind == "clip":
        return Detour(clip=value), f"torch.nn.utils.clip_grad_norm_(model.parameters(), {value:g}) before the update"
    if not any(isinstance(group.get("eps"), float) and group["eps"] < value for group in now):
        return None
    least = min(group["eps"] for group in now if "eps" in group)
    return Detour(lambda group: group.update(eps=max(group["eps"], value))), f"eps={value:g} for {rewind.kind} (it is {least:g})"


def _last_rate(rewind: Rewind) -> tuple[Detour, str] | None:
    """The last finite rate, where the present one is no number."""
    rates = [float(record.settings[0].get("lr", 0.0)) for record in rewind.records]
    good = [rate for rate in rates if math.isfinite(rate)]
    if not good or math.isfinite(rates[-1]):
        return None

    def settle(group: dict[str, Any]) -> None:
        if not math.isfinite(float(group["lr"])):
            group["lr"] = good[-1]

    return Detour(settle), f"lr={good[-1]:g}, the last that was finite, in place of {rates[-1]:g}"


def _clips(old: Rerun) -> list[str]:
    """A usual norm of the gradients, and 1."""
    finite = sorted(norm for norm in old.norms[: max(1, len(old.norms) // 2)] if 0 < norm < math.inf)
    usual = [f"clip={finite[len(finite) // 2]:.1g}"] if finite else []
    return [*usual, "clip=1"]


def _wider(rewind: Rewind) -> list[str]:
    """Values of eps that are not 0 in the types of the parameters."""
    forms = {p.dtype for p in rewind.parameters}
    return [f"optimizer-eps={eps:g}" for eps in _EPS if all(bool(torch.tensor(eps, dtype=form)) for form in forms)]


def _error(given: dict[str, torch.Tensor], true: dict[str, torch.Tensor]) -> float:
    errors = [0.0]
    for name, other in true.items():
        size = float(other.double().abs().max()) if other.numel() else 0.0
        if name in given and size:
            errors.append(float((given[name].double() - other.double()).abs().max()) / size)
    return max(errors)
