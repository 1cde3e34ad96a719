"""The rules of the settings on a captured model: what makes a result or a gradient worse is taken back, and gradients that are lost are
kept in a wider type where that helps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import fx
from torch._subclasses import FakeTensor
from torch.utils import _pytree as pytree

import hnfc.backend.opaque_on_torch  # noqa: F401  (the evaluation of what hnfc does not know)
from hnfc.accuracy.searches import PartsForGradients, searches
from hnfc.accuracy.widening import WIDE_ELEMENTS
from hnfc.analysis.ranges import interval_of_array
from hnfc.backend.aliasing import separate_results
from hnfc.backend.deviations import keep_small_deviations
from hnfc.backend.fx import raise_function, raise_graph
from hnfc.backend.gradients import keep_cancelled, mend_gradients
from hnfc.backend.on_torch import TorchRunner
from hnfc.core.tensors import to_numpy
from hnfc.dialects.interval import Interval
from hnfc.frontend.pytorch import Captured
from hnfc.frontend.signature import FixedResult, Given, Returned
from hnfc.pipeline.compile import compile_module, to_exclude
from hnfc.pipeline.compiled import Compiled
from hnfc.pipeline.request import Found, Request
from hnfc.pytorch.gradients import GradientTrial, ignoring_unused
from hnfc.pytorch.settings import Settings
from hnfc.report.text import report_data, text_report
from hnfc.validation.measurement import Array, measure
from hnfc.validation.tolerance import TOLERATED_ULPS

OnSample: TypeAlias = "tuple[Array, Array, Any]"
"""A gradient, the same in float64, and its format."""
_MOST_REASONS = 3
_BECAME_NAN = " became nan"
"""Part of a reason of `regression`."""


def rewrite_values(model: torch.nn.Module, captured: Captured, args: Any, kwargs: Any, settings: Settings) -> Compiled:
    """A captured model with the rules of the settings applied, the call being the sample; results are compared, and no gradients."""
    return compile_module(captured.module, _request(model, captured, pytree.tree_leaves((args, kwargs)), settings)[0])


def _request(model: torch.nn.Module, captured: Captured, inputs: Sequence[Any], settings: Settings) -> tuple[Request, list[Any]]:
    """Request for a capture, and the arguments of the captured function."""
    signature = captured.signature
    given = [signature.argument(model, inputs, source) for source in signature.arguments]
    real = not any(isinstance(tensor, FakeTensor) for tensor in given)
    fixed = frozenset(index for index, source in enumerate(signature.arguments) if not isinstance(source, Given))
    request = Request(
        phases=settings.rules.allowed(), ranges=settings.intervals(captured.names),
        samples=[[to_numpy(tensor) for tensor in given]] if real else [], observed=settings.observed,
        assume=settings.assume, unproved=settings.rules.unproved,
        validate=settings.validate, search=settings.search, runner=TorchRunner(), fixed=fixed,
        least_size=captured.least_size, **_searches(settings, given),
    )  # fmt: skip
    return request, given


def _searches(settings: Settings, given: Sequence[Any]) -> dict[str, Any]:
    """The searches for better forms; what an earlier capture found stands for them, so that no call waits for another search."""
    found = searches(settings.rules.searches, settings.found)
    if any(isinstance(tensor, torch.Tensor) and tensor.device.type in _WITHOUT_FLOAT64 for tensor in given):
        found.pop("widening", None)
    return found


_WITHOUT_FLOAT64 = ("mps",)


class Made(NamedTuple):
    """A rewritten model, and its graph."""

    compiled: Compiled
    graph: fx.GraphModule


def rewrite(model: torch.nn.Module, captured: Captured, args: Any, kwargs: Any, settings: Settings, like: Report | None = None) -> Made:
    """A captured model with the rules of the settings applied, the call being the sample; what was done to it, and the graph.

    A rule by which a result or a gradient becomes worse is taken back; where that is one that the search of an earlier capture found, the
    search begins anew. like: what was done to another capture of the model, which is done here too.
    """
    request, given = _request(model, captured, pytree.tree_leaves((args, kwargs)), settings)
    request = replace(request, native=True)
    if like is not None:
        request = replace(request, runner=None, measured=False, excluded=tuple(like.data["taken_back"]))
    named = dict(request.ranges)
    intervals = [named.get(f"arg{index}") or (seen(tensor) if settings.observed else None) for index, tensor in enumerate(given)]
    trials = _Trials(captured, given, intervals, request.fixed)
    made = trials.made(request)
    if like is not None and like.ignores_unused:
        made = Made(*ignoring_unused(*made))
    if not (settings.validate and request.samples and like is None):
        return made
    if made.compiled.applied:
        request, made = trials.without_worse_gradients(request, made)
    if settings.found is not None and settings.found.verdicts.keys() & {*made.compiled.rolled_back}:
        return rewrite(model, captured, args, kwargs, replace(settings, found=None))
    return trials.with_lost_gradients(request, made)


@dataclass
class _Trials:
    """Rewrites of one captured function. given: its arguments on the sample. intervals: their ranges. fixed: those that probes leave
    alone."""

    captured: Captured
    given: Sequence[Any]
    intervals: Sequence[Interval | None]
    fixed: frozenset[int]

    def __post_init__(self) -> None:
        self._returned = [isinstance(sink, Returned) for sink in self.captured.signature.results if not isinstance(sink, FixedResult)]
        self._before = raise_function(self.captured.module)

    def made(self, request: Request) -> Made:
        compiled = compile_module(self.captured.module, request)
        compiled.notes += self.captured.notes
        root, graph = raise_graph(compiled.export(native=True))
        if request.phases:
            separate_results(self._before.graph, graph, self._returned)
            keep_cancelled(self._before.graph, graph, self._returned)
            compiled.mended_gradients = mend_gradients(graph)
            keep_small_deviations(graph)
        return Made(compiled, fx.GraphModule(root, graph))

    def without_worse_gradients(self, request: Request, made: Made) -> tuple[Request, Made]:
        """The rewrites by which no gradient becomes worse."""
        excluded = list[str]()
        while reasons := self._worse(made) if made.compiled.applied else []:
            calmed = self._calmed(made, reasons)
            if calmed is not None:
                return request, calmed
            guilty = sorted({applied.rule.name for applied in made.compiled.applied})
            excluded += to_exclude(guilty, request, partial(self._is_right_without, replace(request, excluded=tuple(excluded))))
            request = replace(request, excluded=tuple(excluded), withdrawn=(*request.withdrawn, *reasons))
            made = self.made(request)
        return request, made

    def with_lost_gradients(self, request: Request, made: Made) -> Made:
        """The same, or in a wider type where elements of a gradient on the sample are no numbers, and are some in that type."""
        if request.widening is None:
            return made
        before = self._trial(made).on_sample(self.given)
        for element in WIDE_ELEMENTS:
            if _lost(before):
                found = self._right(self.made(replace(request, widening=PartsForGradients(element))))
                after = self._trial(found).on_sample(self.given) if found is not None else before
                if found is not None and _lost(after) < _lost(before) and all(map(_keeps, before, after)) and not _errs_more(found, made):
                    before, made = after, found
        return made

    def _worse(self, made: Made) -> list[str]:
        """Reasons why gradients are worse than those of the graph before."""
        trial = self._trial(made)
        found = list(islice(trial.regressions(self.given, self.intervals), _MOST_REASONS))
        if trial.skipped:
            made.compiled.notes.append(f"gradients were not compared: {trial.skipped}")
        return found

    def _trial(self, made: Made) -> GradientTrial:
        return GradientTrial(self._before, made.graph, self._returned, self.fixed, self.captured.module)

    def _right(self, made: Made) -> Made | None:
        """The same, or where elements that no caller uses add nothing; None where a gradient is worse in both."""
        reasons = self._worse(made)
        return self._calmed(made, reasons) if reasons else made

    def _calmed(self, made: Made, reasons: Sequence[str]) -> Made | None:
        """The same where elements that no caller uses add nothing, if what was worse is only that they made NaN of numbers."""
        if not all(_BECAME_NAN in reason for reason in reasons):
            return None
        calmed = Made(*ignoring_unused(*made))
        return None if self._worse(calmed) else calmed

    def _is_right_without(self, request: Request, rule: str) -> bool:
        return self._right(self.made(replace(request, excluded=(*request.excluded, rule)))) is not None


def _lost(gradients: Sequence[OnSample]) -> int:
    """Elements of gradients that are no numbers and should be."""
    return sum(measure(*gradient).not_finite for gradient in gradients)


def _keeps(before: OnSample, after: OnSample) -> bool:
    """Return whether no element of a gradient that was a number errs by more than some units in the last place more."""
    old, true, form = before
    with np.errstate(all="ignore"):
        first, second = (np.abs(array.astype(np.float64) - true) for array in (old, after[0]))
        units = TOLERATED_ULPS * (2 * form.unit_roundoff * np.abs(true) + form.tiny)
        return bool(np.all((second <= first + units) | ~np.isfinite(first)))


def _errs_more(found: Made, made: Made) -> bool:
    """Return whether a result of the first errs by more than the tolerance beyond that of the second."""
    pairs = ((new.after, old.after, new.unit_roundoff) for new, old in zip(found.compiled.outputs, made.compiled.outputs, strict=True))
    return any(new is not None and old is not None and new.worse_than(old, unit) for new, old, unit in pairs)


def seen(given: Any) -> Interval | None:
    """The range of a sample."""
    return interval_of_array(to_numpy(given)) if isinstance(given, torch.Tensor) and given.is_floating_point() else None


@dataclass(frozen=True)
class Report:
    """Record of the changes to a graph, free of MLIR objects."""

    text: str
    data: dict[str, Any]
    found: Found
    """Findings for the model, which other captures of it take as they are."""
    ignores_unused: bool

    @staticmethod
    def of(compiled: Compiled, settings: Settings) -> Report:
        verdicts = settings.rules.verdicts
        text = text_report(compiled, verdicts, settings.rules.withheld, 100)
        return Report(text, report_data(compiled, verdicts), compiled.found, compiled.ignores_unused)
