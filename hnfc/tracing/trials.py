"""Changes of a step that are tried on it: guards of operands, a wider eps of modules, another scale of the loss."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from hnfc.pytorch.losses import with_loss
from hnfc.pytorch.optimized import arguments_of
from hnfc.tracing.comparing import RunComparison, compare
from hnfc.tracing.course import StepChange, Trained
from hnfc.tracing.errors import is_wrong
from hnfc.tracing.events import Event, first_of
from hnfc.tracing.findings import trace_of
from hnfc.tracing.guards import MOST_STRENGTHS, Guarded, OperandGuard, guards_of, widened_eps
from hnfc.tracing.memory import WIDE
from hnfc.tracing.patients import REFUSALS, Patient
from hnfc.tracing.step import TracedStep, step_of

_MOST_GUARDS = 3
_WIDER_EPS = (1e-6, 1e-5, 1e-3)
_SCALES = (2.0**-8, 2.0**8, 2.0**-16, 2.0**16, 2.0**-24, 2.0**24)
_ALLOWED = 1e-2
"""Change of finite results and gradients, relative to the largest element of each, up to which a change of the function is offered."""

_GROWN = 1e5
"""Growth of results and gradients above which training would go astray though the step is finite, where it cannot be tried."""


@dataclass(frozen=True)
class RemedyTrial:
    """A change that was tried. name: as `hnfc replay --with` takes it. code: how to write it. changed: how much it moves what had a finite
    exact value, relative to the largest element."""

    name: str
    code: str
    comparison: RunComparison
    changed: float = 0.0
    grown: float = 1.0
    """Size of the largest result or gradient relative to the one before, or to 1."""
    trained: Trained | None = None
    """Outcome of training on with it, where that was tried."""

    @property
    def mends_step(self) -> bool:
        """Return whether it mends the step alone."""
        return self.comparison.mends and self.changed <= _ALLOWED

    @property
    def mends(self) -> bool:
        return self.mends_step and (self.grown <= _GROWN if self.trained is None else self.trained.is_finite)

    def trained_on(self, patient: Patient, change: StepChange) -> RemedyTrial:
        """The trial with the outcome of training on, if it mends the step."""
        return replace(self, trained=patient.train(change)) if self.mends_step else self

    def __str__(self) -> str:
        moved = f", and changes what is finite by {self.changed:.1e}" if self.changed > 1e-6 else ""
        return f"{self.code}: the error {self.comparison}{moved}{after(self.trained)}"


def after(trained: Trained | None) -> str:
    """The end of a remedy's text: what training on with it gave."""
    return "" if trained is None else f"; {trained}"


def guard_trial(patient: Patient, first: Event) -> RemedyTrial | None:
    """Guards of one strength at the first event, and at what then comes first, until the step is mended; else the last that were tried."""
    last: RemedyTrial | None = None
    tried: list[OperandGuard] = []
    for strength in range(MOST_STRENGTHS):
        guards: list[OperandGuard] = []
        last = _guards_of_strength(patient, first, strength, guards) or last
        if guards == tried or (last is not None and last.mends):
            return last
        tried = guards
    return last


def _guards_of_strength(patient: Patient, first: Event, strength: int, guards: list[OperandGuard]) -> RemedyTrial | None:
    """The last trial of guards of a strength, which go to `guards`."""
    event: Event | None = first
    last: RemedyTrial | None = None
    while event is not None and len(guards) < _MOST_GUARDS:
        found = guards_of(event)
        if not found or found[min(strength, len(found) - 1)] in guards:
            return last
        guards.append(found[min(strength, len(found) - 1)])
        tried = _guarded(patient, guards)
        if tried is None:
            return last
        last, step = tried
        if last.mends:
            return last
        event = first_of(trace_of(step).events)
    return last


def _guarded(patient: Patient, guards: Sequence[OperandGuard]) -> tuple[RemedyTrial, TracedStep] | None:
    mode = Guarded(guards)

    def guarded(module: torch.nn.Module) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            with mode:
                return module(*args, **kwargs)

        return call

    step = _step(patient, guarded(with_loss(patient.model, patient.loss)))
    if step is None or not mode.count:
        return None
    return _trial("guard", "; ".join(map(str, guards)), patient, step).trained_on(patient, StepChange(guarded)), step


def eps_trials(patient: Patient) -> Iterator[RemedyTrial]:
    """A wider eps of all modules that have a smaller one."""
    for eps in _WIDER_EPS:
        trial = eps_trial(patient, eps)
        if trial is not None:
            yield trial


def eps_trial(patient: Patient, eps: float) -> RemedyTrial | None:
    """A wider eps of all modules that have a smaller one; None where none has."""
    changed = list(widened_eps(patient.model, eps))
    if not changed:
        return None
    before = [part.__dict__[name] for part, name in changed]
    with contextlib.ExitStack() as stack:
        for (part, name), old in zip(changed, before, strict=True):
            part.__dict__[name] = eps
            stack.callback(partial(part.__dict__.__setitem__, name, old))
        step = _step(patient, None)
    if step is None:
        return None

    def widened(module: torch.nn.Module) -> torch.nn.Module:
        for part, name in widened_eps(module, eps):
            part.__dict__[name] = eps
        return module

    kinds = ", ".join(sorted({type(part).__name__ for part, _ in changed}))
    trial = _trial(f"eps={eps:g}", f"eps={eps:g} for {kinds} (it is {min(before):g})", patient, step)
    return trial.trained_on(patient, StepChange(widened))


def scale_trials(patient: Patient) -> Iterator[RemedyTrial]:
    """Other scales of the loss."""
    for scale in _SCALES if patient.backward else ():
        trial = scale_trial(patient, scale)
        if trial is not None:
            yield trial


def scale_trial(patient: Patient, scale: float) -> RemedyTrial | None:
    """The loss, multiplied before its gradients are taken; these are divided in float32."""
    step = _step(patient, None, scale)
    code = f"(loss * {scale:g}).backward(), and the gradients in float32 divided by {scale:g} (torch.amp.GradScaler does so)"
    if step is None:
        return None
    trial = _trial(f"scale={scale:g}", code, patient, step)
    # a parameter in a narrow type takes no gradient in float32, as the optimizer would get
    narrow = any(p.dtype in (torch.float16, torch.bfloat16) for p in patient.model.parameters())
    return trial if narrow else trial.trained_on(patient, StepChange(scale=scale))


def _step(patient: Patient, call: Any, scale: float = 1.0) -> TracedStep | None:
    args, kwargs = arguments_of(patient.sample)
    try:
        return step_of(with_loss(patient.model, patient.loss), args, kwargs, patient.backward, call, scale)
    except REFUSALS:
        return None


def _trial(name: str, code: str, patient: Patient, step: TracedStep) -> RemedyTrial:
    grown = _largest(step) / max(1.0, _largest(patient.step))
    return RemedyTrial(name, code, compare(patient.step, step), _change(patient.step, step), grown)


def _largest(step: TracedStep) -> float:
    """Size of the largest finite element of the results and gradients."""
    found = (final.given.to(WIDE).abs() for final in step.finals if final.given.numel())
    return max((float(torch.where(size.isfinite(), size, 0.0).max()) for size in found), default=0.0)


def _change(old: TracedStep, new: TracedStep) -> float:
    """The largest difference from exact values that lie within their types, and from what was there, relative to the largest of each
    tensor."""
    others = {(final.kind, final.name): final for final in new.finals}
    most = 0.0
    for final in old.finals:
        other = others.get((final.kind, final.name))
        if other is None or other.given.shape != final.given.shape or not final.given.numel():
            continue
        if not is_wrong(other.given, final.true, final.kind == "gradient", new.run.epsilon):
            continue  # rounding, as of a gradient that is exactly 0
        given = other.given.to(WIDE)
        # what lies beyond the type, or near its end and was lost, nobody has ever had
        info = torch.finfo(final.given.dtype)
        least = torch.where(final.given.isfinite(), info.max, info.max * info.eps)
        good = (final.true.abs() <= least) & torch.isfinite(given)
        size = float(torch.where(good, final.true.abs(), 0.0).max())
        before = final.given.to(WIDE)
        moved = torch.where(before.isfinite(), (given - before).abs(), math.inf).minimum((given - final.true).abs())
        off = float(torch.where(good, moved, 0.0).max())
        if size > torch.finfo(torch.float32).smallest_normal and math.isfinite(off):
            most = max(most, off / size)
    return most
