"""A model with a function of its output as one module, whose result is the loss."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from hnfc.core.errors import UsageError
from hnfc.pytorch.optimized import Optimized, wrapped

Loss = Callable[..., Any]


@dataclass(frozen=True)
class LossOf:
    """Answers the calls of a module: the loss of what its class returns. targets: how many of the last arguments are for the loss."""

    loss: Loss
    targets: int

    def __call__(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if len(args) < self.targets + (not kwargs):
            raise UsageError(
                f"the loss takes the output of the model and {self.targets} more, the last parts of a sample; the sample has {len(args)}"
            )
        inputs, targets = args[: len(args) - self.targets], args[len(args) - self.targets :]
        return self.loss(super(Optimized, module).forward(*inputs, **kwargs), *targets)  # type: ignore[misc]

    def guard(self, module: Any) -> None:
        """Nothing that rests on attributes."""

    def forget_others(self, module: Any) -> None:
        """Nothing to keep."""


def with_loss(model: torch.nn.Module, loss: Loss | None) -> torch.nn.Module:
    """The model, on the same tensors, with the loss as its result. Raises UsageError for a loss with parameters of its own."""
    if loss is None:
        return model
    if not callable(loss):
        raise UsageError(f"the loss is a function of what the model returns, not {type(loss).__name__}")
    if isinstance(loss, torch.nn.Module) and any(True for _ in loss.parameters()):
        raise UsageError(f"the loss {type(loss).__name__} has parameters of its own: make it a part of the model")
    return wrapped(model, LossOf(loss, _targets(loss)), same_call=False)


def _targets(loss: Loss) -> int:
    """Number of arguments that the loss takes after the output: those without a default; one where Python does not know."""
    try:
        parameters = inspect.signature(loss.forward if isinstance(loss, torch.nn.Module) else loss).parameters.values()
    except (ValueError, TypeError):
        return 1
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return max(sum(p.kind in positional and p.default is inspect.Parameter.empty for p in parameters) - 1, 0)
