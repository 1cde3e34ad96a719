"""`hnfc.trace`: the first operation of a model that overflows, underflows, cancels or has no value, and what would mend it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from hnfc.errors import UsageError
from hnfc.frontend.pytorch import capture
from hnfc.modules.optimized import arguments_of
from hnfc.rewriter import Settings, load_rules
from hnfc.tracing.events import Event, Span, Trace, first_of
from hnfc.tracing.gradients import with_gradients
from hnfc.tracing.remedies import add_remedies
from hnfc.tracing.run import Run

__all__ = ["Event", "Span", "Trace", "trace"]


def trace(model: torch.nn.Module, sample: Any, *, group: str | Sequence[str] = "stability", backward: bool = False) -> Trace:
    """Runs the model on the sample, one operation after another, beside float64, and says where it first goes wrong.

    backward: also what computes the gradients of the sum of the results. group: the rules that are tried as a remedy. A module that
    torch.compile returned is traced by the operations that it was compiled from; what the compiled code gives for the same sample is
    said beside it. The model is not changed. Raises ModelError where torch.export cannot capture the model.
    """
    if not isinstance(model, torch.nn.Module):
        raise UsageError(f"hnfc.trace takes an nn.Module, not {type(model).__name__}")
    plain = getattr(model, "_orig_mod", model)
    args, kwargs = arguments_of(sample)
    captured = capture(plain, args, kwargs)
    inputs = [_copied(value) for value in captured.signature.gather(plain, torch.utils._pytree.tree_leaves((args, kwargs)))]
    graph = captured.program.graph_module
    run = Run(with_gradients(graph, inputs) if backward else graph)
    with torch.no_grad():
        run.run(*inputs)
    if not run.events and run.error > run.epsilon**0.5:
        run.events += run.absorbed[:1] or run.largest[1:]
    events = _with_consequences(run.events, wrong=run.error > run.epsilon**0.5)
    found = Trace(events, run.count, first_of(events), run.error)
    if plain is not model:
        found.compiled = _compiled_results(model, args, kwargs)
    if found.first is not None:
        add_remedies(found, plain, args, kwargs, Settings(load_rules(*([group] if isinstance(group, str) else group)), ranges="sample"),
                     run.results, backward)  # fmt: skip
    return found


def _with_consequences(events: list[Event], wrong: bool) -> list[Event]:
    """Without what underflowed and harmed nothing, as the tail of a softmax does."""
    causes = set[int]()
    for event in events:
        cause = event.cause
        while cause is not None and event.kind != "underflow" and id(cause) not in causes:
            causes.add(id(cause))
            cause = cause.cause
    return [event for event in events if wrong or event.kind != "underflow" or id(event) in causes]


def _copied(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def _compiled_results(model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Span]:
    with torch.no_grad():
        results = torch.utils._pytree.tree_leaves(model(*args, **kwargs))
    return [Span.of(result) for result in results if isinstance(result, torch.Tensor) and result.is_floating_point()]
