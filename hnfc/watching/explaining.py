"""The reason of a bad step: the call made again beside float64, and what the optimizer makes of finite gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from hnfc.tracing import Trace, traced
from hnfc.tracing.course import Course
from hnfc.tracing.events import NOT_FINITE
from hnfc.watching.calls import ModelCall, Step
from hnfc.watching.gathering import gathered
from hnfc.watching.ranks import of_rank
from hnfc.watching.record import BadStep

_UNSEEN = (
    "the fault lies in how the loss is made of what the model returned, which was not seen: call it as "
    "`watching.loss(function, output, target)` and differentiate its result, or compute it in the model"
)


def explain_first(step: BadStep, calls: Sequence[ModelCall], model: torch.nn.Module) -> None:
    """Explains a step by the first of its calls that something goes wrong in."""
    for call in calls:
        step.call = call
        explain(step, model)
        if step.trace is not None and step.trace:
            break
    if step.trace is not None and not step.trace and of_rank():
        step.notes.append("the batch of this rank is right by itself: the report of another rank has the reason")


def gathered_for(step: BadStep, model: torch.nn.Module) -> torch.nn.Module:
    """The whole of a sharded model, which all ranks gather together; the step has the whole state of its optimizer then."""
    try:
        whole, step.optimizer = gathered(model, step.optimizer)
    except (ValueError, RuntimeError) as error:
        step.notes.append(f"the parts of the model could not be gathered: {str(error).splitlines()[0]}")
        return model
    return whole


def explain(step: BadStep, model: torch.nn.Module) -> None:
    """Writes into a bad step what a trace of its call finds. Nothing of the model or of torch changes."""
    call = step.call
    if call is None:
        return
    step.notes = [] if call.is_as_it_was else ["an input was changed in place after the call; what is traced is not what ran"]
    unseen = call.criterion is None and not call.has_finite_gradients
    try:
        with call.conditions.applied(model) as copied:
            whole = Step(copied, call)
            course = course_of(whole, call, step.optimizer)
            step.trace = traced(whole, whole.sample, "stability", not unseen, None, course)
        if course is None and step.trace.first is not None and step.trace.first.remedies:
            unknown = "no optimizer has run yet" if call.has_loss else "the function of the loss was not seen"
            step.notes.append(f"remedies were tried on this step alone, and none by training on: {unknown}")
        # where the loss and its gradients are finite, the loss is not at fault: another rank is, or a hook
        of_loss = unseen or step.bad[0].kind in ("loss", "jump")
        if call.criterion is None and of_loss and not _is_explained(step.trace):
            step.notes.append(_UNSEEN)
    except Exception as error:  # of the model's own code, run once more
        step.notes.append(f"the step could not be traced: {(str(error) or type(error).__name__).splitlines()[0]}")


def course_of(whole: Step, call: ModelCall, optimizer: torch.optim.Optimizer | None) -> Course | None:
    """The training that a call is a step of; None where its loss or its optimizer is not known."""
    if optimizer is None or not call.has_loss:
        return None
    return Course(whole, whole.sample, optimizer, call.scale)


def _is_explained(trace: Trace) -> bool:
    """Return whether the model itself gave something that is not finite."""
    return any(event.kind in NOT_FINITE and not event.weak and (event.source or event.kind == "input") for event in trace.events)


def reasons_of_update(optimizer: torch.optim.Optimizer, names: dict[int, str]) -> list[str]:
    """Reasons, read from the settings and the state of an optimizer, why finite gradients gave parameters that are not."""
    found: list[str] = []
    for group in optimizer.param_groups:
        for p in group["params"]:
            if id(p) in names and not bool(p.isfinite().all()):
                found.append(f"{names[id(p)]}: {_of_parameter(p, group, optimizer.state.get(p, {}))}")
    return found[:3]


def risks_of(optimizer: torch.optim.Optimizer, names: dict[int, str]) -> list[str]:
    """Settings of an optimizer that will fail, before it has run: an eps that is 0 in the type of a parameter."""
    for group in optimizer.param_groups:
        eps = group.get("eps")
        for p in group["params"]:
            if id(p) in names and isinstance(eps, float) and eps and not bool(torch.tensor(eps, dtype=p.dtype)):
                dtype = str(p.dtype).removeprefix("torch.")
                least = torch.finfo(p.dtype).smallest_normal
                kind = type(optimizer).__name__
                return [f"eps = {eps:g} of {kind} is 0 in {dtype}, the type of {names[id(p)]}: a moment that is 0 there gives NaN; "
                        f"take eps of at least {least:.1g}, or parameters in float32"]  # fmt: skip
    return []


def _of_parameter(p: torch.Tensor, group: dict[str, Any], state: dict[str, Any]) -> str:
    epsilon, rate = group.get("eps"), float(group.get("lr", 0.0))
    dtype = str(p.dtype).removeprefix("torch.")
    second = next((state[name] for name in ("exp_avg_sq", "square_avg", "sum") if isinstance(state.get(name), torch.Tensor)), None)
    if isinstance(epsilon, float) and epsilon and not bool(torch.tensor(epsilon, dtype=p.dtype)):
        zeros = f", where {int((second == 0).sum())} second moments are 0" if second is not None else ""
        return f"eps = {epsilon:g} is 0 in {dtype}{zeros}; the smallest that is not is {torch.finfo(p.dtype).smallest_normal:.3g}"
    if epsilon == 0 and second is not None and bool((second == 0).any()):
        return f"eps = 0, and {int((second == 0).sum())} second moments are 0: 0/0 is NaN; take eps of at least 1e-8"
    if second is not None and not bool(second.isfinite().all()):
        largest = "" if p.grad is None else f" of up to {float(p.grad.detach().abs().max()):.3g}"
        return f"the squares of its gradients{largest} overflow {str(second.dtype).removeprefix('torch.')}: clip them, or scale the loss"
    if not torch.isfinite(torch.tensor(rate)):
        return f"the learning rate is {rate}"
    return f"the update leaves the range of {dtype} at the learning rate {rate:g}"
