"""The watch over a training loop: a look at each loss, gradient and parameter, once a step, and at activations as time allows."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from hnfc.core.errors import UsageError
from hnfc.tracing import unwrapped
from hnfc.watching.calls import Criterion, ModelCall, float_results, named_loss, path_to
from hnfc.watching.explaining import explain
from hnfc.watching.folder import save
from hnfc.watching.looking import Look
from hnfc.watching.record import Bad, BadStep
from hnfc.watching.series import ExponentSeries, Forecast, not_finite, numbers_of

_MOST_CALLS = 64
"""Calls between two steps of the optimizer that are kept; of more, the last."""
_FAR_BACK = 20
"""Losses whose median a jump is measured against."""
_SKIPPED = 8
"""Steps in a row that a gradient scaler may leave out before it counts as a fault: one halves the scale."""


_GREW, _LARGE = 2.0, 3.0
"""Bits that a value grew by, and log2 of its size, from which a report names it."""


class StepStopped(Exception):
    """The end of a watched loop, at a step that would have spoiled the model."""


class Watch:
    """See `hnfc.watch`. bad: the steps that went wrong. series: by name the exponents of values over the steps."""

    def __init__(
        self, model: torch.nn.Module, optimizer: torch.optim.Optimizer | None = None, *, scaler: Any = None,
        folder: str | None = "hnfc-watch", stop: bool = True, budget: float = 0.05, jump: float | None = None,
        report: Callable[[str], None] | None = None,
    ) -> None:  # fmt: skip
        self.model, self.optimizer = model, optimizer
        self.step = 0
        self.bad: list[BadStep] = []
        self.series: dict[str, ExponentSeries] = {}
        self._inside = unwrapped(model)
        self._scaler, self._folder, self._stop, self._budget, self._jump = scaler, folder, stop, budget, jump
        self._say = report or _to_stderr
        self._calls: list[ModelCall] = []
        self._outputs: list[Any] = []
        self._losses: list[tuple[int, torch.Tensor]] = []
        self._past: list[float] = []
        self._names = {id(part): name for name, part in self._inside.named_modules() if name}
        # torch warns of hooks on all modules where some are compiled
        self._is_sharded = any(hasattr(p, "placements") for p in self._inside.parameters())
        self._compiled = any(hasattr(part, "_orig_mod") for part in model.modules())
        self._parameters = {id(p): name for name, p in self._inside.named_parameters()}
        self._spent, self._began, self._looking = 0.0, time.perf_counter(), True
        self._foretold: set[str] = set()
        self._scale, self._skipped = math.inf, 0
        self._removable: list[Any] = []
        self._look: Look | None = None
        self._plain_backward: Any = None

    def __enter__(self) -> Watch:
        if self._removable:
            raise UsageError("this watch is already in use")
        self._began, self._spent = time.perf_counter(), 0.0
        self._removable = [
            self.model.register_forward_pre_hook(self._before_call, with_kwargs=True, prepend=True),
            self.model.register_forward_hook(self._after_call, always_call=True),
            register_optimizer_step_pre_hook(self._before_update),
            register_optimizer_step_post_hook(self._after_update),
        ]
        if not self._compiled:
            self._removable.append(register_module_forward_pre_hook(self._before_module))
        self._plain_backward = torch.autograd.backward
        torch.autograd.backward = self._backward
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        torch.autograd.backward = self._plain_backward
        for hook in self._removable:
            hook.remove()
        self._removable = []
        self._end_look()
        if kind is None and self._losses:
            self._stop = False
            self._settle(())
        self._calls, self._outputs, self._losses = [], [], []
        return isinstance(error, StepStopped)

    @property
    def forecasts(self) -> list[Forecast]:
        """The values that leave the range of their types soon, the first to do so first."""
        found = (series.forecast() for series in self.series.values())
        return sorted((each for each in found if each is not None), key=lambda each: each.earliest)

    def __str__(self) -> str:
        lines = [str(step) for step in self.bad] or [f"{self.step} steps, nothing went wrong"]
        return "\n".join([*lines, *(f"forecast: {each}" for each in self.forecasts)])

    # the calls of the model

    def _before_call(self, module: torch.nn.Module, args: Any, kwargs: Any) -> None:
        if not torch.is_grad_enabled() or not module.training or torch.compiler.is_compiling():
            return
        with self._counted():
            self._look_at_scale()
            self._calls.append(ModelCall.now(self._inside, args, kwargs))
            self._outputs.append(None)
            del self._calls[:-_MOST_CALLS], self._outputs[:-_MOST_CALLS]
            if self._looking and self._look is None and not self._compiled:
                self._look = Look(self._names).__enter__()

    def _after_call(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        with self._counted():
            self._end_look()
        if not self._calls or not torch.is_grad_enabled() or not module.training or torch.compiler.is_compiling():
            return
        with self._counted():
            call, self._outputs[-1] = self._calls[-1], output
            if named_loss(output) is None:
                for index, part in enumerate(float_results(output)):
                    if part.requires_grad:
                        part.register_hook(_keeper(call, index))  # type: ignore[no-untyped-call]

    def _end_look(self) -> None:
        """Ends a look at a forward pass, and notes what it found."""
        if self._look is not None:
            look, self._look = self._look, None
            look.__exit__(None, None, None)
            sizes = numbers_of([size for _, size in look.found.values()])
            for (name, (dtype, _)), size in zip(look.found.items(), sizes, strict=True):
                self._note(name, dtype, size)

    def _before_module(self, module: torch.nn.Module, args: Any) -> None:
        """Notes a loss function that is a module, called with what the model returned."""
        if not self._calls or id(module) in self._names or torch.compiler.is_compiling():
            return
        output = self._outputs[-1]
        for place, given in enumerate(args if output is not None else ()):
            path = path_to(output, given) if isinstance(given, torch.Tensor) else None
            if path is not None and not any(True for _ in module.parameters()):
                self._calls[-1].criterion = Criterion(module, (*args[:place], None, *args[place + 1 :]), {}, place, path)

    def loss(self, function: Callable[..., Any], output: Any, *args: Any, **kwargs: Any) -> Any:
        """Calls a loss function on what the model returned and on targets, and notes it: a bad step is then explained through it."""
        if self._calls:
            self._calls[-1].criterion = Criterion(function, (None, *args), kwargs, 0)
        return function(output, *args, **kwargs)

    # losses and gradients

    def _backward(self, tensors: Any, *args: Any, **kwargs: Any) -> Any:
        with self._counted():
            losses = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
            self._losses += [(len(self._calls) - 1, loss.detach()) for loss in losses if loss.numel() == 1]
            if self._calls and self._is_scaled:
                self._calls[-1].scale = float(self._scaler.get_scale())
        return self._plain_backward(tensors, *args, **kwargs)

    def _before_update(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        parameters = self._updated_by(optimizer)
        if not parameters or not self._calls:
            return
        with self._counted():
            self._settle([(self._parameters[id(p)], _local(p.grad)) for p in parameters if p.grad is not None])

    def _after_update(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        parameters = self._updated_by(optimizer)
        if not parameters or not self._calls:
            return
        with self._counted():
            sizes, wrong = not_finite([_local(p.detach()) for p in parameters], self._looking)
            if wrong:
                self._found([Bad("parameter", self._parameters[id(parameters[i])], size) for i, size in wrong.items()], optimizer)
            self._note_all((self._parameters[id(p)] for p in parameters), parameters, sizes)
        self._end_step()

    def _settle(self, gradients: Any) -> None:
        """Looks at the losses and gradients of a step, all at once."""
        losses, count = self._losses, len(self._losses)
        tensors = [loss for _, loss in losses] + [gradient for _, gradient in gradients]
        sizes, wrong = not_finite(tensors, self._looking)
        bad = [
            Bad("loss", f"call {losses[i][0] + 1}", size, losses[i][0]) if i < count else Bad("gradient", gradients[i - count][0], size)
            for i, size in wrong.items()
            if i >= count or not self._is_scaled or math.isnan(size)  # a loss that is scaled may be too large for its type
        ]
        bad += self._jumped(sizes[:count])
        if self._is_sharded and gradients and _anywhere(bool(bad)) and not bad:
            bad = [Bad("gradient", "of another rank", math.nan)]
        self._losses = []
        if bad:
            self._found(bad, None)
        self._note_all((f"gradient of {name}" for name, _ in gradients), tensors[count:], sizes[count:])

    def _jumped(self, losses: list[float]) -> list[Bad]:
        if self._jump is None or not losses:
            return []
        past, now = sorted(self._past[-_FAR_BACK:]), sum(losses) / len(losses)
        self._past.append(now)
        if len(past) < _FAR_BACK or not now > self._jump * past[len(past) // 2]:
            return []
        return [Bad("jump", f"{past[len(past) // 2]:.3g}", now)]

    @property
    def _is_scaled(self) -> bool:
        return self._scaler is not None and self._scaler.is_enabled()

    def _look_at_scale(self) -> None:
        """Counts the steps that a gradient scaler left out: its scale is halved then."""
        if not self._is_scaled:
            return
        scale = float(self._scaler.get_scale())
        self._skipped = self._skipped + 1 if scale < self._scale else 0 if scale > self._scale or not self._losses else self._skipped
        left_out, self._scale = scale < self._scale, scale
        if self._skipped >= _SKIPPED:
            self._skipped = 0
            self._found([Bad("scale", f"{_SKIPPED}", scale)], None)
        if left_out:
            self._losses = []
            self._end_step()

    def _end_step(self) -> None:
        self._calls, self._outputs, self._losses = [], [], []
        self.step += 1
        looked, self._looking = self._looking, self._spent <= self._budget * (time.perf_counter() - self._began)
        if looked:
            for each in self.forecasts:
                if each.series.name not in self._foretold:
                    self._foretold.add(each.series.name)
                    self._say(f"hnfc watch, step {self.step}: {each}")

    # what was found

    def _found(self, bad: list[Bad], optimizer: Any) -> None:
        began = time.perf_counter()
        calls = [bad[0].call] if bad[0].call is not None and 0 <= bad[0].call < len(self._calls) else range(len(self._calls))
        step = BadStep(self.step, bad, optimizer is None)
        for index in calls:
            step.call = self._calls[index]
            explain(step, self._inside, optimizer)
            if step.trace is not None and step.trace:
                break
        if step.trace is not None and not step.trace and _of_rank():
            step.notes.append("the batch of this rank is right by itself: the report of another rank has the reason")
        step.growth = [each for each in self.series.values() if each.growth() >= _GREW and each.exponents[-1] > _LARGE]
        if self._folder is not None and step.call is not None:
            try:
                step.folder = str(save(Path(self._folder) / f"step-{self.step}{_of_rank()}", step, self._inside))
            except (OSError, UsageError) as error:
                step.notes.append(f"the step was not saved: {error}")
        self.bad.append(step)
        self._say(str(step))
        self._began += time.perf_counter() - began
        if self._stop:
            raise StepStopped(str(step).splitlines()[0])

    def _note_all(self, names: Iterable[str], tensors: Sequence[torch.Tensor], sizes: Sequence[float]) -> None:
        if self._looking:
            for name, tensor, size in zip(names, tensors, sizes, strict=True):
                self._note(name, tensor.dtype, size)

    def _note(self, name: str, dtype: torch.dtype, size: float) -> None:
        series = self.series.get(name)
        if series is None:
            series = self.series[name] = ExponentSeries(name, torch.finfo(dtype).max)
        series.add(self.step, size)

    def _updated_by(self, optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
        if self.optimizer is not None and optimizer is not self.optimizer:
            return []
        return [p for group in optimizer.param_groups for p in group["params"] if id(p) in self._parameters]

    @contextmanager
    def _counted(self) -> Iterator[None]:
        """Adds the time of the body to what the watch has taken."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._spent += time.perf_counter() - start


def _anywhere(found: bool) -> bool:
    """Return whether any of the ranks found something: all must leave the loop together."""
    flag = torch.tensor(float(found))
    torch.distributed.all_reduce(flag, torch.distributed.ReduceOp.MAX)
    return bool(flag)


def _of_rank() -> str:
    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    return f"-rank{torch.distributed.get_rank()}" if distributed else ""


def _keeper(call: ModelCall, index: int) -> Callable[[torch.Tensor], None]:
    def keep(gradient: torch.Tensor) -> None:
        call.gradients[index] = gradient

    return keep


def _local(tensor: torch.Tensor) -> torch.Tensor:
    """The part of a tensor that lies here, dense."""
    inside = getattr(tensor, "_local_tensor", tensor)
    return inside.coalesce().values() if inside.layout is torch.sparse_coo else inside


def _to_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
