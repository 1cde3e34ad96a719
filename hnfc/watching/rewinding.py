"""Earlier states of a run with the batches since, from which the steps up to a fault are made again with a change."""

from __future__ import annotations

import time
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from hnfc.pytorch.shadow import shadow
from hnfc.tracing.course import STEPS, copies_of, summed
from hnfc.tracing.optimizers import copied_optimizer, update
from hnfc.tracing.patients import REFUSALS
from hnfc.tracing.surroundings import plain_kernels
from hnfc.watching.calls import ModelCall, Step
from hnfc.watching.record import StepStart

ANY_SIZE = 2**62
_APART = 16
"""Steps between two states that are kept."""
_FAR_APART = 64
"""The same where copies take more than their share of time."""
_MOST_BATCHES = 2**26
"""Bytes of arguments that are kept."""
_SHARE = 0.005
"""Share of the loop's time for copies of the state."""
_SECONDS = 20.0


@dataclass(frozen=True)
class RecordedStep:
    """A step with one update: its calls, and the settings of the optimizer's groups."""

    step: int
    calls: list[ModelCall]
    settings: list[dict[str, Any]]
    size: int = 0
    """Bytes of the arguments."""

    @property
    def is_whole(self) -> bool:
        """Return whether it can be made again: each loss is known, and no argument was changed in place."""
        return bool(self.calls) and all(call.has_loss and call.is_as_it_was for call in self.calls)


@dataclass(frozen=True)
class EarlierState:
    """Copies of the parameters before a step, by the identity of the model's, and an optimizer on them with the state before it."""

    step: int
    tensors: dict[int, torch.Tensor]
    optimizer: torch.optim.Optimizer


@dataclass(frozen=True)
class Detour:
    """A change of the optimizer's steps. settings: changes those of a group. clip: the largest norm of all gradients together. form: the
    type of copies of the parameters that the optimizer runs on. without: a step that is left out."""

    settings: Callable[[dict[str, Any]], None] = lambda group: None
    clip: float | None = None
    form: torch.dtype | None = None
    without: int | None = None


@dataclass
class Rerun:
    """Steps made again. first: the one that they began with. losses and norms: of each step the loss and the norm of all gradients.
    faulty: the step that went wrong, and what in it."""

    first: int
    losses: list[float] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)
    faulty: int | None = None
    wrong: str = ""
    after: dict[str, torch.Tensor] = field(default_factory=dict)
    """The parameters after the last of the recorded steps."""
    further: int = 0
    """Steps after the recorded ones."""


class Rewind:
    """Two earlier states of a model and its optimizer, and the steps since. most: bytes that a state may have; 0 keeps none."""

    def __init__(self, model: torch.nn.Module, most: int) -> None:
        self.records: deque[RecordedStep] = deque()
        self._model, self._most = model, most
        self._states: list[EarlierState] = []
        self._bytes = 0
        self._spent, self._began = 0.0, time.perf_counter()
        self._optimizer: torch.optim.Optimizer | None = None

    def note(self, step: int, optimizer: torch.optim.Optimizer, calls: Sequence[ModelCall]) -> None:
        """Notes a step before its update, and now and then the state that it begins with. Of several optimizers nothing is kept."""
        if self._optimizer is not None and optimizer is not self._optimizer:
            self._most = 0
        self._optimizer = optimizer
        if not self._most:
            self.records, self._states = deque(), []
            return
        start = time.perf_counter()
        if self._is_due(step, start):
            try:
                self._keep(step, optimizer)
            except REFUSALS:  # an optimizer that cannot be copied
                self._most = 0
                return
        size = sum(tensor.nbytes for call in calls for tensor in call.tensors())
        self.records.append(RecordedStep(step, list(calls), settings_of(optimizer), size))
        self._bytes += size
        self._drop()
        self._spent += time.perf_counter() - start

    def _is_due(self, step: int, now: float) -> bool:
        if not self._states:
            return True
        apart = step - self._states[-1].step
        return apart >= _FAR_APART or (apart >= _APART and self._spent <= _SHARE * (now - self._began))

    def _keep(self, step: int, optimizer: torch.optim.Optimizer) -> None:
        copies = copies_of(self._model)
        size = sum(t.nbytes for t in copies.values())
        size += sum(t.nbytes for state in optimizer.state.values() for t in state.values() if isinstance(t, torch.Tensor))
        if 2 * size > self._most:
            self._most = 0
            return
        self._states = [*self._states[-1:], EarlierState(step, copies, copied_optimizer(optimizer, copies))]

    def _drop(self) -> None:
        """Leaves out steps before the first state, and states whose batches take too much."""
        while self.records and (not self._states or self.records[0].step < self._states[0].step or self._bytes > _MOST_BATCHES):
            gone = self.records.popleft()
            self._bytes -= gone.size
            if self._states and gone.step >= self._states[0].step:
                del self._states[0]

    @property
    def parameters(self) -> list[torch.Tensor]:
        return [] if self._optimizer is None else [p for group in self._optimizer.param_groups for p in group["params"]]

    @property
    def kind(self) -> str:
        """The class of the optimizer."""
        return type(self._optimizer).__name__

    @property
    def start(self) -> EarlierState | None:
        """The first state that all steps since are known of."""
        known = {record.step for record in self.records if record.is_whole}
        last = self.records[-1].step if self.records else -1
        return next((state for state in self._states if all(step in known for step in range(state.step, last + 1))), None)

    def rerun(self, detour: Detour, further: int = STEPS) -> Rerun | None:
        """Makes the steps since an earlier state again, and some more on the same batches; None where they cannot be made again."""
        start = self.start
        if start is None:
            return None
        made = self._again(start, [record for record in self.records if record.step >= start.step], detour, further)
        return None if made is None else made[1]

    def before(self, step: int) -> StepStart | None:
        """The state before a step; None where the steps before it cannot be made again."""
        start = self.start
        if start is None:
            return None
        made = self._again(start, [record for record in self.records if start.step <= record.step < step], Detour(), 0)
        return None if made is None or made[1].wrong else StepStart(dict(made[0].module.named_parameters()), made[0].optimizer)

    def _again(
        self, start: EarlierState, records: Sequence[RecordedStep], detour: Detour, further: int
    ) -> tuple[_Rerunning, Rerun] | None:  # fmt: skip
        try:
            with warnings.catch_warnings(), plain_kernels(), torch.random.fork_rng(devices=[]), torch.enable_grad():
                again = _Rerunning(self._model, start, detour)
                return again, again.run(records, further)
        except REFUSALS:
            return None


class _Rerunning:
    """A run of recorded steps on copies of an earlier state."""

    def __init__(self, model: torch.nn.Module, start: EarlierState, detour: Detour) -> None:
        self._detour = detour
        copies = {key: _copied(tensor) for key, tensor in start.tensors.items()}
        self.module = shadow(model, copies)
        self._masters = {
            id(p): torch.nn.Parameter(copies[key].detach().to(detour.form)) if detour.form is not None else copies[key]
            for key, p in start.tensors.items() if isinstance(p, torch.nn.Parameter)
        }  # fmt: skip
        self._pairs = [(copies[key], self._masters[id(p)]) for key, p in start.tensors.items() if id(p) in self._masters]
        self.optimizer = copied_optimizer(start.optimizer, self._masters)

    def run(self, records: Sequence[RecordedStep], further: int) -> Rerun:
        done, began = Rerun(records[0].step if records else 0), time.monotonic()
        taken = [record for record in records if record.step != self._detour.without]
        for index in range(len(taken) + further if taken else 0):
            known = index < len(taken)
            record = taken[index % len(taken)]
            wrong = self._step(record, (record if known else taken[-1]).settings, done)
            if wrong:
                done.faulty, done.wrong = record.step if known else None, wrong
                break
            if index == len(taken) - 1:
                done.after = self.values()
            done.further += not known
            if time.monotonic() - began > _SECONDS:
                break
        return done

    def values(self) -> dict[str, torch.Tensor]:
        """The parameters by name."""
        return {name: p.detach().clone() for name, p in self.module.named_parameters()}

    def _step(self, record: RecordedStep, settings: Sequence[dict[str, Any]], done: Rerun) -> str:
        for copied, _ in self._pairs:
            copied.grad = None
        losses = [self._add_gradients(call) for call in record.calls]
        done.losses.append(sum(losses) / len(losses))
        if not torch.tensor(losses).isfinite().all():
            return "the loss is not finite"
        given = [(copied, master, copied.grad) for copied, master in self._pairs if copied.grad is not None]
        done.norms.append(float(torch.nn.utils.get_total_norm([g.float() for *_, g in given])))
        if not all(bool(g.isfinite().all()) for *_, g in given):
            return "a gradient is not finite"
        if self._detour.clip is not None:
            torch.nn.utils.clip_grad_norm_([copied for copied, *_ in given], self._detour.clip)
        self._update(settings)
        return "" if all(bool(copied.isfinite().all()) for copied, *_ in given) else "a parameter is not finite"

    def _add_gradients(self, call: ModelCall) -> float:
        """The loss of a call, without its scale; parameters get its gradients."""
        with call.conditions.applied(self.module) as applied:
            step = Step(applied, call)
            loss = summed(step(*step.sample))
            trained = [copied for copied, _ in self._pairs if copied.requires_grad]
            found = torch.autograd.grad(loss, trained, allow_unused=True)
        for p, gradient in zip(trained, found, strict=True):
            if gradient is not None:
                part = gradient / call.scale if call.scale != 1 else gradient
                p.grad = part if p.grad is None else p.grad + part
        return float(loss.detach()) / call.scale

    @torch.no_grad()
    def _update(self, settings: Sequence[dict[str, Any]]) -> None:
        for group, given in zip(self.optimizer.param_groups, settings, strict=True):
            group.update(given)
            self._detour.settings(group)
        for copied, master in self._pairs:
            if master is not copied:
                master.grad = None if copied.grad is None else copied.grad.to(master.dtype)
        update(self.optimizer)
        for copied, master in self._pairs:
            if master is not copied:
                copied.copy_(master)


def settings_of(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    """Settings of the groups of an optimizer, as they are now."""
    return [
        {key: value.clone() if isinstance(value, torch.Tensor) else value for key, value in group.items() if key != "params"}
        for group in optimizer.param_groups
    ]


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    made = tensor.detach().clone()
    return torch.nn.Parameter(made, requires_grad=tensor.requires_grad) if isinstance(tensor, torch.nn.Parameter) else made
