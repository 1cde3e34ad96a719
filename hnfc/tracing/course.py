"""Training on from a step with a change: a remedy must keep losses, gradients and parameters finite for some steps more."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from hnfc.pytorch.shadow import shadow
from hnfc.tracing.optimizers import copied_optimizer, update
from hnfc.tracing.surroundings import plain_kernels

STEPS = 50
_SECONDS = 20.0
"""Time after which no further step begins."""
GROWN = 1e5
"""Growth of the loss over the steps, beside the first and 1, above which training goes astray."""


def _as_it_is(module: torch.nn.Module) -> Callable[..., Any]:
    return module


@dataclass(frozen=True)
class StepChange:
    """A change of a step. call: what to call in the place of a module. scale: a factor of the loss. form: the type of all numbers."""

    call: Callable[[torch.nn.Module], Callable[..., Any]] = _as_it_is
    scale: float = 1.0
    form: torch.dtype | None = None


@dataclass(frozen=True)
class Trained:
    """Steps of training that went well. wrong: what is not finite in the step after them, or grows without end; empty where all went well,
    or time was up."""

    steps: int
    wrong: str = ""

    @property
    def is_finite(self) -> bool:
        return not self.wrong

    def __str__(self) -> str:
        if self.is_finite:
            return f"{self.steps} steps of training on the batch stay finite"
        return f"{self.wrong} in step {self.steps + 1} of training on the batch"


@dataclass(frozen=True)
class Course:
    """A step to train on from: its module, which returns the loss, its arguments, and an optimizer with the state that it begins with.

    scale: the factor of the loss, by which gradients are divided. Neither module nor optimizer change.
    """

    module: torch.nn.Module
    sample: tuple[Any, ...]
    optimizer: torch.optim.Optimizer
    scale: float = 1.0

    def train(self, change: StepChange, steps: int = STEPS) -> Trained:
        """Trains on with a change, on the same arguments."""
        replaced = copies_of(self.module, change.form)
        module = shadow(self.module, replaced)
        optimizer = copied_optimizer(self.optimizer, replaced)
        sample = pytree.tree_map_only(torch.Tensor, lambda x: as_form(x.detach(), change.form), self.sample)
        call, began = change.call(module), time.monotonic()
        with warnings.catch_warnings(), plain_kernels(), torch.random.fork_rng(devices=[]), torch.enable_grad():
            losses: list[float] = []
            for index in range(steps):
                loss, wrong = one_step(call, sample, module, optimizer, self.scale, change.scale)
                losses.append(loss)
                if not wrong and abs(loss) > GROWN * max(1.0, abs(losses[0])):
                    wrong = f"the loss has grown from {losses[0]:.3g} to {loss:.3g}"
                if wrong:
                    return Trained(index, wrong)
                if time.monotonic() - began > _SECONDS:
                    return Trained(index + 1)
        return Trained(steps)


def copies_of(module: torch.nn.Module, form: torch.dtype | None = None) -> dict[int, torch.Tensor]:
    """Copies of the parameters and buffers of a module, by identity."""
    made: dict[int, torch.Tensor] = {
        id(p): torch.nn.Parameter(as_form(p.detach(), form).clone(), requires_grad=p.requires_grad) for p in module.parameters()
    }
    return made | {id(b): as_form(b.detach(), form).clone() for b in module.buffers()}


def as_form(tensor: torch.Tensor, form: torch.dtype | None) -> torch.Tensor:
    return tensor.to(form) if form is not None and tensor.is_floating_point() else tensor


def one_step(
    call: Callable[..., Any], sample: tuple[Any, ...], module: torch.nn.Module, optimizer: torch.optim.Optimizer, scale: float,
    factor: float = 1.0,
) -> tuple[float, str]:  # fmt: skip
    """Trains one step: the loss, and what is not finite: the loss, a gradient or a parameter; empty if nothing."""
    loss = gradients_of(call, sample, module, scale, factor)
    trained = [(name, p) for name, p in module.named_parameters() if p.grad is not None]
    number = float(loss) / scale
    if not math.isfinite(number):
        return number, "the loss is not finite"
    for name, p in trained:
        if p.grad is not None and not bool(p.grad.isfinite().all()):
            return number, f"the gradient of {name} is not finite"
    with torch.no_grad():
        update(optimizer)
    return number, next((f"{name} is not finite" for name, p in trained if not bool(p.isfinite().all())), "")


def gradients_of(
    call: Callable[..., Any], sample: tuple[Any, ...], module: torch.nn.Module, scale: float, factor: float = 1.0
) -> torch.Tensor:
    """The loss of a step, whose gradients the parameters get."""
    loss = summed(call(*sample))
    given = [p for p in module.parameters() if p.requires_grad]
    found = torch.autograd.grad(loss * factor, given, allow_unused=True)
    for p, gradient in zip(given, found, strict=True):
        p.grad = None if gradient is None else gradient / (scale * factor) if scale * factor != 1 else gradient
    return loss.detach()


def summed(output: Any) -> torch.Tensor:
    """Sum of what a step returns. Raises ValueError where nothing of it depends on a parameter."""
    parts = [x for x in pytree.tree_leaves(output) if isinstance(x, torch.Tensor) and x.requires_grad]
    if not parts:
        raise ValueError("the step returns nothing that depends on a parameter")
    return parts[0].sum() if len(parts) == 1 else torch.stack([part.sum().to(parts[0].dtype) for part in parts]).sum()
