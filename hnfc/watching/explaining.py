"""The reason of a bad step: the call made again beside float64, and what the optimizer makes of finite gradients."""

from __future__ import annotations

from typing import Any

import torch

from hnfc.core.errors import ModelError, UsageError
from hnfc.tracing import trace
from hnfc.watching.calls import Step
from hnfc.watching.record import BadStep


def explain(step: BadStep, model: torch.nn.Module, optimizer: Any) -> None:
    """Writes into a bad step what a trace of its call finds, or what the optimizer did. Nothing of the model or of torch changes."""
    call = step.call
    if call is None:
        return
    if optimizer is not None:
        step.notes += _of_optimizer(optimizer, model)
        return
    if not call.is_as_it_was:
        step.notes.append("an input was changed in place after the call; what is traced is not what ran")
    gradients = [index for index, gradient in call.gradients.items() if not bool(gradient.isfinite().all())]
    if call.criterion is None and gradients:
        step.notes.append(
            "the loss function gives gradients that are not finite for what the model returned; it was not seen: call it as "
            "`watching.loss(function, output, target)`, or compute it in the model"
        )
    try:
        with call.conditions.restored(model):
            whole = Step(model, call)
            whole.train(model.training)
            step.trace = trace(whole, whole.sample, backward=True)
    except (ModelError, UsageError, RuntimeError, TypeError, ValueError, NotImplementedError) as error:
        step.notes.append(f"the step could not be traced: {str(error).splitlines()[0] if str(error) else type(error).__name__}")


def _of_optimizer(optimizer: torch.optim.Optimizer, model: torch.nn.Module) -> list[str]:
    """Reasons, read from the settings and the state of an optimizer, why finite gradients gave parameters that are not."""
    names = {id(p): name for name, p in model.named_parameters()}
    found: list[str] = []
    for group in optimizer.param_groups:
        for p in group["params"]:
            if id(p) not in names or bool(p.isfinite().all()):
                continue
            found += [f"{names[id(p)]}: {reason}" for reason in _of_parameter(p, group, optimizer.state.get(p, {}))]
    return found[:3]


def _of_parameter(p: torch.Tensor, group: dict[str, Any], state: dict[str, Any]) -> list[str]:
    epsilon, rate = group.get("eps"), float(group.get("lr", 0.0))
    dtype = str(p.dtype).removeprefix("torch.")
    second = next((state[name] for name in ("exp_avg_sq", "square_avg", "sum") if isinstance(state.get(name), torch.Tensor)), None)
    if isinstance(epsilon, float) and epsilon and not float(torch.tensor(epsilon, dtype=p.dtype)):
        zeros = f", where {int((second == 0).sum())} second moments are 0" if second is not None else ""
        return [f"eps = {epsilon:g} is 0 in {dtype}{zeros}; the smallest that is not is {torch.finfo(p.dtype).smallest_normal:.3g}"]
    if second is not None and not bool(second.isfinite().all()):
        largest = "" if p.grad is None else f" of up to {float(p.grad.detach().abs().max()):.3g}"
        return [f"the squares of its gradients{largest} overflow {str(second.dtype).removeprefix('torch.')}: clip them, or scale the loss"]
    if not torch.isfinite(torch.tensor(rate)):
        return [f"the learning rate is {rate}"]
    return [f"the update leaves the range of {dtype} at the learning rate {rate:g}"]
