"""The watch over a training loop: a look at each loss, gradient and parameter, once a step, and at results of operations as time allows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import is_
from pathlib import Path
from typing import Any, Literal

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from hnfc.core.errors import UsageError
from hnfc.core.notebook import lines_html
from hnfc.tracing import unwrapped
from hnfc.watching.calls import ModelCall
from hnfc.watching.detours import add_detours
from hnfc.watching.explaining import explain_first, gathered_for, reasons_of_update, risks_of
from hnfc.watching.folder import save
from hnfc.watching.gathering import is_sharded_model
from hnfc.watching.history import History, ObservedStep
from hnfc.watching.hooks import Hook, ModuleCalls, follow_backward, leave_backward
from hnfc.watching.jumps import LossJumps
from hnfc.watching.looking import Look
from hnfc.watching.outputs import CallResults
from hnfc.watching.page import write_run_page
from hnfc.watching.ranks import of_rank, with_other_ranks
from hnfc.watching.record import Bad, BadStep, to_stderr
from hnfc.watching.rewinding import Rewind
from hnfc.watching.samples import sample_of
from hnfc.watching.series import ExponentSeries, Forecast, not_finite, numbers_of
from hnfc.watching.updates import dense, note_optimizer

_MOST_CALLS = 64
"""Calls between two steps of the optimizer that are kept; of more, the last."""
_MOST_SAVED = 3
"""Bad steps of a loop that goes on which are saved, and whose batches are kept."""
_SKIPPED = 8
"""Steps in a row that a gradient scaler may leave out before it counts as a fault: one halves the scale."""
_COUNTED = 0.8
"""Share of the budget for what is counted; hooks and hand-overs of torch, which are not, take the rest."""
_GREW, _LARGE = 2.0, 3.0
"""Bits that a value grew by, and log2 of its size, from which a report names it."""


class StepStopped(BaseException):
    """The end of a watched loop, at a step that would have spoiled the model; no `except Exception` of the loop is meant for it."""

    def __init__(self, watch: Watch, message: str) -> None:
        super().__init__(message)
        self.watch = watch


class Watch:
    """See `hnfc.watch`. bad: the steps that went wrong. history: the exponents of values over the steps."""

    def __init__(
        self, model: torch.nn.Module, optimizer: torch.optim.Optimizer | None = None, *, scaler: Any = None,
        folder: str | None = "hnfc-watch", stop: bool | Literal["skip"] = True, budget: float = 0.05, jump: float | None = None,
        report: Callable[[str], None] | None = None, checkpoint: str | Path | None = None,
        to: Sequence[Callable[[ObservedStep], None]] = (), rewind: int = 2**28,
    ) -> None:  # fmt: skip
        self.model = model
        inside = getattr(optimizer, "optimizer", None)  # accelerate wraps them
        self.optimizer = inside if isinstance(inside, torch.optim.Optimizer) else optimizer
        self.step = 0
        self.bad: list[BadStep] = []
        self.history = History(to)
        self._inside = unwrapped(model)
        self._scaler, self._folder, self._stop, self._jumps = scaler, folder, stop, LossJumps(jump)
        self._share = _COUNTED * budget if budget < 1 else 1.0
        self._say = report or to_stderr
        self._calls, self._outputs = list[ModelCall](), CallResults()
        self._pending: list[torch.Tensor] = []
        self._losses: list[tuple[ModelCall, torch.Tensor]] = []
        self._names = {id(part): name for name, part in self._inside.named_modules()}
        self._parameters = {id(p): name for name, p in self._inside.named_parameters()}
        self._steady: set[str] = set()
        self._versions: dict[str, tuple[int, int]] = {}
        self._checkpoint = Path(checkpoint) if checkpoint is not None else None
        self._is_sharded = is_sharded_model(self._inside)
        self._rewind = Rewind(self._inside, 0 if self._is_sharded else rewind)
        self._compiled = any(hasattr(part, "_orig_mod") for part in model.modules())
        self._spent, self._began, self._looking = 0.0, time.perf_counter(), True
        self._last_optimizer: torch.optim.Optimizer | None = None
        self._old: dict[int, torch.Tensor] = {}
        """Samples of parameters before an update."""
        self._those: tuple[Any, list[torch.Tensor], list[torch.Tensor]] = None, [], []
        """An optimizer, all that it updates, and what of it belongs to the model."""
        self._skipped = 0
        self._removable: list[Any] = []
        self._loss_modules = ModuleCalls(None if self._compiled else self._after_module)
        self._look: Look | None = None
        self._updating: torch.optim.Optimizer | None = None
        self._updated = self._reported = self._failed = False

    def __enter__(self) -> Watch:
        if self._removable:
            raise UsageError("this watch is already in use")
        self._began, self._spent = time.perf_counter(), 0.0
        self._removable = [
            self.model.register_forward_pre_hook(Hook(self._before_call), with_kwargs=True, prepend=True),
            self.model.register_forward_hook(Hook(self._after_call), always_call=True),
            register_optimizer_step_pre_hook(self._before_update),
            register_optimizer_step_post_hook(self._after_update),
        ]
        follow_backward(self)
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        leave_backward(self)
        self._updating = None
        self._loss_modules.close()
        for hook in self._removable:
            hook.remove()
        self._removable = []
        self._end_look()
        if kind is None and self._losses:
            with self._guarded():
                self._settle((), stop=False)
        if kind is None and self._updated:
            self._end_step()
        self._forget_step()
        with self._guarded():
            self.history.end_step(self.step)
            self.history.close()
        return isinstance(error, StepStopped) and error.watch is self

    @property
    def forecasts(self) -> list[Forecast]:
        """The values that leave the range of their types soon, the first to do so first."""
        return self.history.forecasts

    @property
    def series(self) -> dict[str, ExponentSeries]:
        """The exponents of values over the steps, by name."""
        return self.history.series

    def page(self, path: str | Path) -> None:
        """Writes a page for a browser: the exponents of all modules over the steps, the limits of formats, and what went wrong."""
        write_run_page(Path(path), self.history, self.bad)

    def __repr__(self) -> str:
        return f"Watch({type(self.model).__name__}: {self.step} steps, {len(self.bad)} bad)"

    def __str__(self) -> str:
        lines = [str(step) for step in self.bad] or [f"{self.step} steps, nothing went wrong"]
        return "\n".join([*lines, *(f"forecast: {each}" for each in self.forecasts)])

    def _repr_html_(self) -> str:
        return lines_html(str(self), "bad" if self.bad else "warn" if self.forecasts else "good")

    # the calls of the model

    def begin_call(self, *args: Any, **kwargs: Any) -> None:
        """Notes a call of the model that its own hooks do not see: `end_call` follows."""
        self._before_call(self.model, args, kwargs)

    def end_call(self, output: Any) -> None:
        """Notes the result of the call that began last."""
        self._after_call(self.model, (), output)

    def _before_call(self, module: torch.nn.Module, args: Any, kwargs: Any) -> None:
        if not torch.is_grad_enabled() or torch.compiler.is_compiling():
            return
        with self._guarded():
            self._look_at_scale()
            if self._updated:
                self._end_step()
            buffers = dict(self._inside.named_buffers())
            self._calls.append(ModelCall.now(self._inside, args, kwargs, self._steady, buffers))
            self._versions = {name: (id(b), b._version) for name, b in buffers.items()}
            del self._calls[:-_MOST_CALLS]
            if self._looking and self._look is None and not self._compiled:
                self._look = Look(self._names, self.history.is_followed).__enter__()

    def _after_call(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        if torch.compiler.is_compiling():
            return
        with self._guarded():
            self._end_look()
            if self._calls and torch.is_grad_enabled() and output is not None:
                self._outputs.add(self._calls[-1], output)
                self._loss_modules.open()
                after = {name: (id(b), b._version) for name, b in self._inside.named_buffers()} if self._versions else {}
                self._steady = {name for name, version in after.items() if self._versions.get(name) == version}

    def _after_module(self, module: torch.nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        """Notes a loss function that is a module, called with what the model returned."""
        if self._calls and id(module) not in self._names and module is not self.model and not torch.compiler.is_compiling():
            with self._guarded():
                self._outputs.made(output, module, args, kwargs)

    def loss(self, function: Callable[..., Any], output: Any, *args: Any, **kwargs: Any) -> Any:
        """Calls a loss function on what the model returned and on targets, and notes it: a bad step is then explained through it."""
        result = function(output, *args, **kwargs)
        with self._guarded():
            self._outputs.made(result, function, (output, *args), kwargs)
        return result

    def _end_look(self) -> None:
        """Ends a look at a forward pass, and notes what it found."""
        if self._look is not None:
            look, self._look = self._look, None
            look.__exit__(None, None, None)
            self._spent += look.spent
            sizes = numbers_of([size for _, size, _ in look.found.values()])
            for (name, (module, _, sample)), size in zip(look.found.items(), sizes, strict=True):
                self.history.note(self.step, name, "value", module, size, sample)

    # losses and gradients

    def before_backward(self, tensors: Any) -> None:
        """Notes what is about to be differentiated."""
        self._loss_modules.close()
        with self._guarded():
            given = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
            self._pending = [loss for loss in given if isinstance(loss, torch.Tensor) and loss.numel() == 1]
            self._outputs.touched = []

    def after_backward(self) -> None:
        """Counts the losses that a result of the model took part in."""
        with self._guarded():
            for call in self._outputs.touched[-1:]:
                call.scale = float(self._scaler.get_scale()) if self._is_scaled else 1.0
                for loss in self._pending:
                    self._outputs.settle(loss)
                    self._losses.append((call, loss.detach()))
            self._pending = []
            if self._updating is not None:  # inside of a closure
                self._settle(self._gradients_of(self._updating))

    def _before_update(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        with self._guarded():
            if not self._updated_by(optimizer):
                return
            if self._last_optimizer is not optimizer:
                self._last_optimizer = optimizer
                for risk in risks_of(optimizer, self._parameters):
                    self._say(f"hnfc watch, step {self.step}: {risk}")
            if self._looking:
                self._old = {id(p): sample_of(dense(p.detach())) for p in self._updated_by(optimizer)}
            has_closure = any(callable(given) for given in (*args[1:], *kwargs.values()))
            self._updating = optimizer if has_closure else None
            if not has_closure:
                self._rewind.note(self.step, optimizer, self._calls)
                self._settle(self._gradients_of(optimizer))

    def _after_update(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        self._updating = None
        with self._guarded():
            parameters = self._updated_by(optimizer)
            if not parameters:
                return
            self._updated = True
            sizes, wrong = not_finite([dense(p.detach()) for p in parameters], self._looking)
            bad = [Bad("parameter", self._parameters[id(parameters[i])], size) for i, size in wrong.items()]
            if bad := with_other_ranks(bad, "parameter", self._is_sharded):
                self._found(bad, optimizer)
            self._note_all("parameter", [self._parameters[id(p)] for p in parameters], [dense(p) for p in parameters], sizes)
            if self._looking:
                note_optimizer(self.history, self.step, optimizer, self._parameters, self._old)
                self._old = {}

    def _gradients_of(self, optimizer: torch.optim.Optimizer) -> list[tuple[str, torch.Tensor]]:
        return [(self._parameters[id(p)], dense(p.grad)) for p in self._updated_by(optimizer) if p.grad is not None]

    def _settle(self, gradients: Sequence[tuple[str, torch.Tensor]], stop: bool | None = None) -> None:
        """Looks at the losses and gradients of a step, all at once."""
        losses, count = self._losses, len(self._losses)
        tensors = [loss for _, loss in losses] + [gradient for _, gradient in gradients]
        sizes, wrong = not_finite(tensors, self._looking, count)
        bad = [
            Bad("loss", "", size, losses[i][0]) if i < count else Bad("gradient", gradients[i - count][0], size)
            for i, size in wrong.items()
            if i >= count or not self._is_scaled or math.isnan(size)  # a loss that is scaled may be too large for its type
        ]
        bad += self._jumps.found(sizes[:count])
        if gradients:
            bad = with_other_ranks(bad, "gradient", self._is_sharded)
        self._losses = []
        if losses:
            self.history.note_loss(self.step, sizes[:count], losses[-1][0].scale if self._is_scaled else None, losses[-1][1].dtype)
        self._note_all("gradient", [name for name, _ in gradients], tensors[count:], sizes[count:])
        if bad:
            self._found(bad, None, stop)

    @property
    def _is_scaled(self) -> bool:
        return self._scaler is not None and self._scaler.is_enabled()

    def _look_at_scale(self) -> None:
        """Counts the steps that a gradient scaler left out: its scale is halved then."""
        if not self._is_scaled or not self._losses:
            return
        scale = float(self._scaler.get_scale())
        left_out = not self._updated and scale < self._losses[-1][0].scale
        self._skipped = self._skipped + 1 if left_out else 0
        if self._skipped >= _SKIPPED:
            self._skipped = 0
            self._found([Bad("scale", f"{_SKIPPED}", scale)], None)
        if left_out:
            self._end_step()

    def _end_step(self) -> None:
        self._forget_step()
        self.step += 1
        self._looking = self._spent <= self._share * (time.perf_counter() - self._began)
        for each in self.history.end_step(self.step - 1):
            self._say(f"hnfc watch, step {self.step}: {each}")

    def _forget_step(self) -> None:
        self._outputs.clear()
        self._calls, self._losses, self._pending = [], [], []
        self._updated = self._reported = False

    # what was found

    def _found(self, bad: list[Bad], optimizer: torch.optim.Optimizer | None, stop: bool | Literal["skip"] | None = None) -> None:
        if self._reported:
            return  # it follows from what was found
        self._reported = True
        began = time.perf_counter()
        step = BadStep(self.step, bad, not self._updated, optimizer is not None)
        step.optimizer = self._last_optimizer
        first = bad[0].call
        calls = self._calls if first is None else [first]
        if optimizer is not None:
            step.notes = reasons_of_update(optimizer, self._parameters)
            step.call, calls = (calls[-1] if calls else None), []
        for call in calls:
            self._outputs.leave_outside(call)
        inside = gathered_for(step, self._inside) if self._is_sharded and (optimizer is not None or stop is None) else self._inside
        explain_first(step, calls, inside)
        add_detours(step, self._rewind)
        step.growth = [each for each in self.series.values() if each.growth() >= _GREW and each.exponents[-1] > _LARGE]
        if step.call is not None and len(self.bad) < _MOST_SAVED:
            self._save(step, inside)
        else:
            step.call = None
        step.optimizer = step.start = None
        self.bad.append(step)
        self._say(str(step))
        self._began += time.perf_counter() - began
        stop = self._stop if stop is None else stop
        if stop == "skip":  # optimizers leave out what has no gradient
            for p in self._inside.parameters():
                p.grad = None
        elif stop:
            raise StepStopped(self, str(step).splitlines()[0])

    def _save(self, step: BadStep, inside: torch.nn.Module) -> None:
        if self._folder is None:
            return
        try:
            place = Path(self._folder) / f"step-{self.step}{of_rank()}"
            folder, step.size = save(place, step, inside, self.history, self._checkpoint)
            step.folder = str(folder)
        except (OSError, UsageError, RuntimeError, KeyError, ValueError) as error:
            step.notes.append(f"the step was not saved: {error}")

    @torch.no_grad()
    def _note_all(self, kind: str, names: Iterable[str], tensors: Sequence[torch.Tensor], sizes: Sequence[float]) -> None:
        if self._looking:
            for name, tensor, size in zip(names, tensors, sizes, strict=True):
                if tensor.is_floating_point() and tensor.numel():
                    title = name if kind == "parameter" else f"{kind} of {name}"
                    self.history.note(self.step, title, kind, name.rpartition(".")[0], size, tensor)

    def _updated_by(self, optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
        if self.optimizer is not None and optimizer is not self.optimizer:
            return []
        given = [p for group in optimizer.param_groups for p in group["params"]]
        if self._those[0] is optimizer and len(self._those[1]) == len(given) and all(map(is_, self._those[1], given)):
            return self._those[2]
        if any(id(p) not in self._parameters for p in given):  # of another model, or new in this one
            self._parameters = {id(p): name for name, p in self._inside.named_parameters()}
        self._those = optimizer, given, [p for p in given if id(p) in self._parameters and p.numel()]
        return self._those[2]

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Counts the time of the body as the watch's own. The first error in it is reported; the loop goes on."""
        start = time.perf_counter()
        if self._look is not None:
            self._look.paused = True
        try:
            yield
        except Exception as error:
            if not self._failed:
                self._failed = True
                self._say(f"hnfc watch: step {self.step} could not be looked at: {type(error).__name__}: {error}")
        finally:
            if self._look is not None:
                self._look.paused = False
            self._spent += time.perf_counter() - start
