"""What would mend a place where a model goes wrong: rewrites that hnfc has, and number formats that hold the values. Each is tried."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from hnfc.errors import ModelError
from hnfc.modules.program import Program
from hnfc.rewriter import Settings
from hnfc.tracing.events import GRADIENT, Event, Trace
from hnfc.tracing.gradients import with_gradients
from hnfc.tracing.run import Pair, Run, result_error

_MOST = 3
"""Places that are told."""
_WIDER = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def add_remedies(
    trace: Trace,
    model: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    settings: Settings,
    results: Sequence[Pair],
    backward: bool,
) -> None:
    """Adds to each event what mends it on the sample. results: those of the model, and what they should be."""
    try:
        program = Program.of(model, tuple(args), dict(kwargs), settings)
    except ModelError:
        program = None
    if program is not None and program.report.data["rewrites"]:
        _add_rewrites(trace, program, *_errors(model, args, kwargs, program, results, backward))
    for event in trace.events:
        held = _format_that_holds(event)
        if held:
            event.remedies.append(held)


def _errors(model: Any, args: Any, kwargs: Any, program: Program, results: Sequence[Pair], backward: bool) -> tuple[float, float]:
    """The largest relative error of the results of the model, and of its rewritten graph.

    The rewritten graph in float64 is what both are measured by, where it is finite: the same function over the reals, but stable.
    """
    given = program.signature.gather(model, torch.utils._pytree.tree_leaves((args, kwargs)))
    copies = [value.detach().clone() if isinstance(value, torch.Tensor) else value for value in given]
    run = Run(with_gradients(program.graph, copies) if backward else program.graph)
    with torch.no_grad():
        run.run(*copies)
    before = after = 0.0
    for (old, wide), (new, stable) in zip(results, run.results, strict=True):
        true = torch.where(torch.isfinite(stable), stable, wide)
        before, after = max(before, result_error(old, true)), max(after, result_error(new, true))
    return before, after


def _add_rewrites(trace: Trace, program: Program, before: float, after: float) -> None:
    by_place: dict[str, set[str]] = {}
    for rewrite in program.report.data["rewrites"]:
        by_place.setdefault(rewrite["place"], set()).add(rewrite["rule"])
    everything = [f"{', '.join(sorted(rules))} at {place}" for place, rules in by_place.items()]
    elsewhere = "; ".join(everything[:_MOST]) + (f" and {len(everything) - _MOST} more places" if len(everything) > _MOST else "")
    effect = f"the error of the results goes from {_shown(before)} to {_shown(after)}" if after < before else "it is not enough here"
    for event in trace.events:
        here = sorted(by_place.get(event.place.removeprefix(GRADIENT), ()))
        if here:
            event.remedies.append(f"hnfc.optimize rewrites this place by {', '.join(here)}: {effect}")
        elif event is trace.first and after < before:
            event.remedies.append(f"hnfc.optimize applies {elsewhere}: {effect}")


def _shown(error: float) -> str:
    return f"{error:.1e}" if math.isfinite(error) else "not finite"


def _format_that_holds(event: Event) -> str | None:
    """The narrowest format in which an overflow does not happen."""
    if event.reached is None:
        return None
    for dtype in _WIDER:
        largest = torch.finfo(dtype).max
        if largest > torch.finfo(event.result.dtype).max and event.reached <= largest:
            return f"{str(dtype).removeprefix('torch.')} holds the result ({event.reached:.3g} ≤ {largest:.3g})"
    return None
