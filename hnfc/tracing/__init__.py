"""`hnfc.trace`: the first operation of a model that overflows, underflows, cancels or has no value, and what would mend it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from hnfc.core.arguments import callable_of, check_kind, names_of
from hnfc.core.progress import Progress, reporting
from hnfc.pytorch.losses import Loss, with_loss
from hnfc.pytorch.optimized import arguments_of
from hnfc.tracing.course import Course
from hnfc.tracing.events import Event, ValueRange
from hnfc.tracing.findings import trace_of
from hnfc.tracing.patients import Patient
from hnfc.tracing.remedies import add_remedies
from hnfc.tracing.report import Trace
from hnfc.tracing.step import step_of

__all__ = ["Event", "Trace", "ValueRange", "trace"]


@reporting("running each operation beside float64 …")
def trace(
    model: torch.nn.Module,
    sample: Any,
    *,
    group: str | Sequence[str] = "stability",
    backward: bool = False,
    loss: Loss | None = None,
    progress: Progress | None = None,
) -> Trace:
    """Runs the model on the sample, one operation after another, beside float64, and says where it first goes wrong.

    backward: also the gradients of the loss, by the parameters and inputs that require one; by all floating-point inputs where nothing
    does. loss: computes it from what the model returns and from as many of the last parts of the sample as it has further arguments
    without a default; without it the gradients are those of the sum of the results, or of the result called `loss`. group: the rules that
    are tried as a remedy. progress: takes the stage at hand in words; without it notebooks show a bar.

    The model runs eagerly, so that anything that torch runs can be traced. A module that torch.compile returned is traced by the operations
    that it was compiled from; the result of the compiled code for the same sample stands beside it. The model is not changed.

    sample: as for `hnfc.analyze`, of any shapes that the model takes. Raises UsageError for what is no module, ModelError for a folder
    that holds no saved step, and whatever the model itself raises.
    """
    check_kind(model, torch.nn.Module, "hnfc.trace")
    return traced(model, sample, names_of(group, "group"), backward, callable_of(loss, "loss"), None)


def traced(
    model: torch.nn.Module, sample: Any, group: str | Sequence[str], backward: bool, loss: Loss | None, course: Course | None
) -> Trace:
    """See `trace`. course: the training that the sample is a step of; remedies then keep it finite too."""
    inside = unwrapped(model)
    args, kwargs = arguments_of(sample)
    whole = with_loss(inside, loss)
    step = step_of(whole, args, kwargs, backward)
    found = trace_of(step)
    if getattr(model, "_orig_mod", None) is not None:
        found.compiled = _compiled_results(model, args, kwargs) if loss is None else []
        for index, span in enumerate(found.compiled):
            if span.not_finite and not found.events:
                found.notes.append(f"result {index} of the compiled code is not finite in {span.not_finite} elements")
    if found.first is not None:
        add_remedies(found, Patient(inside, sample, loss, step, backward, course), group)
    return found


def unwrapped(model: torch.nn.Module) -> torch.nn.Module:
    """The module that compiling and distributing ones were made from."""
    while True:
        inside = getattr(model, "_orig_mod", None)
        if inside is None and isinstance(model, torch.nn.parallel.DistributedDataParallel | torch.nn.DataParallel):
            inside = model.module
        if not isinstance(inside, torch.nn.Module):
            return model
        model = inside


def _compiled_results(model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[ValueRange]:
    with torch.no_grad():
        results = torch.utils._pytree.tree_leaves(model(*args, **kwargs))
    return [ValueRange.of(result) for result in results if isinstance(result, torch.Tensor) and result.is_floating_point()]
