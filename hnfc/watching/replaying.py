"""`hnfc.replay`: a step of a watched run, made again elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from hnfc.core.errors import UsageError
from hnfc.core.notebook import lines_html
from hnfc.core.progress import Progress, reporting
from hnfc.tracing import traced
from hnfc.tracing.attempts import ALL, attempt
from hnfc.tracing.findings import trace_of
from hnfc.tracing.patients import Patient
from hnfc.tracing.report import Trace
from hnfc.tracing.step import step_of
from hnfc.tracing.trials import RemedyTrial
from hnfc.watching.calls import Criterion, ModelCall, Step
from hnfc.watching.detours import ALL_DETOURS, DETOURS, DetourTrial, detour_trial
from hnfc.watching.explaining import course_of
from hnfc.watching.folder import load
from hnfc.watching.rewinding import ANY_SIZE, Detour, Rewind
from hnfc.watching.until import Arrival, ReachedOperation, RunUntil

_DETOURS = {name.partition("=")[0] for name in DETOURS}


@dataclass(repr=False)
class Replay:
    """A step from a folder. report: the words of the watch. model: with the parameters of the step."""

    model: torch.nn.Module
    report: str
    step: int
    _call: ModelCall
    _optimizer: torch.optim.Optimizer | None = None

    def run(self, dtype: torch.dtype | None = None) -> tuple[Any, dict[str, torch.Tensor]]:
        """The loss, and the gradient of each parameter, as the step had them; with everything in `dtype` if one is given."""
        with self._call.conditions.applied(self.model) as copied, torch.enable_grad():
            step = Step(copied, self._call)
            trained: dict[str, torch.Tensor] = {name: p for name, p in copied.named_parameters() if p.requires_grad}
            if dtype is None:
                loss = step(*step.sample)
            else:
                trained = {name: _as(p.detach(), dtype).requires_grad_() for name, p in trained.items()}
                state = {name: _as(value.detach(), dtype) for name, value in (*step.named_parameters(), *step.named_buffers())}
                state |= {f"model.{name}": p for name, p in trained.items()}
                loss = torch.func.functional_call(step, state, tuple(_as(t, dtype) for t in step.sample))
            summed = _summed(loss)
            found = torch.autograd.grad(summed, list(trained.values()), allow_unused=True) if trained and summed is not None else ()
        return loss, {name: gradient for name, gradient in zip(trained, found, strict=False) if gradient is not None}

    @property
    def sample(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments of the model's call."""
        return self._call.args, self._call.kwargs

    def until(self, text: str) -> list[ReachedOperation]:
        """Runs the step up to the first operation whose name, `exp in net.0 (policy.py:12)`, has a text in it: the last operations.

        Raises UsageError where the forward pass and the loss have none.
        """
        with self._call.conditions.applied(self.model) as copied, torch.no_grad():
            step = Step(copied, self._call)
            names = {id(part): name for name, part in copied.named_modules()}
            mode = RunUntil(names, text)
            try:
                with mode:
                    step(*step.sample)
            except Arrival:
                return list(mode.passed)
        last = f"; the last is {mode.passed[-1].name}" if mode.passed else ""
        raise UsageError(f"no operation of the forward pass has {text!r} in its name{last}")

    @reporting("trying remedies …")
    def attempt(self, *names: str, progress: Progress | None = None) -> list[RemedyTrial | DetourTrial]:
        """Remedies tried on the step, by their names (see `hnfc.tracing.attempts.REMEDIES` and `hnfc.watching.detours.DETOURS`); without
        names all. Those that the step has nothing for are left out. Where the loss and the optimizer are known, each trains on too.
        progress: takes the stage at hand in words; without it notebooks show a bar."""
        of_optimizer = [name for name in names or ALL_DETOURS if name.partition("=")[0] in _DETOURS]
        of_step = [name for name in names or ALL if name not in of_optimizer]
        found = self._detours(of_optimizer) if of_optimizer else []
        if not of_step:
            return found
        with self._call.conditions.applied(self.model) as copied:
            step = Step(copied, self._call)
            backward = self._call.criterion is not None or self._call.has_finite_gradients
            ran = step_of(step, step.sample, {}, backward)
            patient = Patient(step, step.sample, None, ran, backward, course_of(step, self._call, self._optimizer))
            first = trace_of(ran).first
            tried = [attempt(name, patient, first) for name in of_step]
        return [*(trial for trial in tried if trial is not None), *found]

    def _detours(self, names: Sequence[str]) -> list[RemedyTrial | DetourTrial]:
        """Changes of the optimizer tried on the step."""
        if self._optimizer is None or not self._call.has_loss:
            return []
        rewind = Rewind(self.model, ANY_SIZE)
        rewind.note(self.step, self._optimizer, [self._call])
        old = rewind.rerun(Detour(), 0)
        tried = [] if old is None else [detour_trial(rewind, old, name) for name in names]
        return [trial for trial in tried if trial is not None]

    @reporting("making the step again beside float64 …")
    def trace(self, progress: Progress | None = None) -> Trace:
        """The trace of the step: see `hnfc.trace`."""
        with self._call.conditions.applied(self.model) as copied:
            step = Step(copied, self._call)
            backward = self._call.criterion is not None or self._call.has_finite_gradients
            return traced(step, step.sample, "stability", backward, None, course_of(step, self._call, self._optimizer))

    def __repr__(self) -> str:
        return f"Replay(step {self.step} of {type(self.model).__name__})"

    def __str__(self) -> str:
        return self.report

    def _repr_html_(self) -> str:
        return lines_html(self.report, "bad")


def replay(folder: str | Path, model: torch.nn.Module | Callable[[], torch.nn.Module], *, loss: Callable[..., Any] | None = None) -> Replay:
    """A step that `hnfc.watch` saved, for a model of the same class, which takes the parameters of the step.

    model: a module, or a function that makes one. loss: the function of what the model returns, where the watched loop computed it outside
    of the model; without it the gradients that the step had there stand for it. Raises ModelError for a folder that is not such a step, or
    for another model.
    """
    made = model if isinstance(model, torch.nn.Module) else model()
    if not isinstance(made, torch.nn.Module):
        raise UsageError(f"hnfc.replay takes an nn.Module or a function that makes one, not {type(made).__name__}")
    call, data, optimizer = load(Path(folder), made)
    if loss is not None:
        call.criterion = Criterion(loss, (None,), {}, 0)
    return Replay(made, str(data["report"]), int(data["step"]), call, optimizer)


def _as(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return value.to(dtype) if value.is_floating_point() else value


def _summed(loss: Any) -> torch.Tensor | None:
    parts = [leaf for leaf in torch.utils._pytree.tree_leaves(loss) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    return torch.stack([part.sum() for part in parts]).sum() if parts else None
