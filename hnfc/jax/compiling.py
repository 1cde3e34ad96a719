"""A traced function through all passes: the closed jaxpr of its rewritten form, and the record of what was done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any

import jax

from hnfc.accuracy.searches import searches
from hnfc.analysis.ranges import interval_of_array
from hnfc.core.errors import ModelError
from hnfc.core.samples import intervals_of
from hnfc.dialects.interval import Interval
from hnfc.egraph.search import Search
from hnfc.jax.bodies import with_bodies
from hnfc.jax.capture import MarkedModule
from hnfc.jax.gradients import FunctionGradients
from hnfc.jax.rewriting import Plan
from hnfc.jax.runner import JaxRunner, apart
from hnfc.jax.samples import sample_of
from hnfc.jax.steps import Equations, with_literals
from hnfc.pipeline.compile import compile_module, to_exclude
from hnfc.pipeline.compiled import Compiled
from hnfc.pipeline.request import Found, Request
from hnfc.pipeline.rulesets import RuleSet
from hnfc.report.text import report_data, text_report

_MOST_REASONS = 3


@dataclass(frozen=True)
class FunctionSettings:
    """FunctionSettings of the rewriting of functions; `hnfc.jax.optimize` explains each."""

    rules: RuleSet
    ranges: Mapping[str, tuple[float, float]] | str | None = None
    assume: frozenset[str] = frozenset()
    validate: bool = True
    search: Search = field(default_factory=Search)
    found: Found | None = None
    """Findings of an earlier capture of the function; None where they are still to be searched for."""

    @property
    def observed(self) -> bool:
        return self.ranges == "sample"


@dataclass(frozen=True)
class Outcome:
    """function: the closed jaxpr of the rewritten function; None where the original stays. text, data: the report."""

    function: Any
    text: str
    data: dict[str, Any]
    found: Found
    rewrites: int = 0


@dataclass(frozen=True)
class Inputs:
    """Names of the inputs of a function, an array for each (None: none is known), and those that probes leave as they are."""

    names: Sequence[str]
    sample: Sequence[Any] | None = None
    fixed: frozenset[int] = frozenset()


def rewritten(closed: Any, inputs: Inputs, settings: FunctionSettings, title: str) -> Outcome:
    """The function of a closed jaxpr with the rules of the settings applied. Raises ModelError, UsageError.

    A rule by which a result or a gradient becomes worse is taken back; bodies of loops and branches are rewritten first.
    """
    original = Equations.of(closed)
    program, bodies = with_bodies(original, partial(_body, settings=settings))
    attempt = _Attempt(closed, program, inputs, settings, title, bool(bodies))
    compiled, function = attempt.run()
    if bodies and (compiled.regressions or any(output.worse for output in compiled.outputs) or attempt.worse_bodies):
        bodies = []
        attempt = _Attempt(closed, original, inputs, settings, title, False)
        compiled, function = attempt.run()
    verdicts = settings.rules.verdicts
    stays = _is_what_it_was(compiled)
    own = _STAYS if stays else text_report(compiled, verdicts, settings.rules.withheld, 100)
    parts = [*([own] if compiled.applied or not bodies else []), *(f"in {name}:\n{body.text}" for name, body in bodies)]
    data = report_data(compiled, verdicts)
    data["bodies"] = [part for _, body in bodies for part in (body.data, *body.data["bodies"])]
    if stays:
        data["rewrites"] = []
    count = len(data["rewrites"]) + sum(body.rewrites for _, body in bodies)
    return Outcome(function if count else None, "\n\n".join(parts), data, compiled.found, count)


def _is_what_it_was(compiled: Compiled) -> bool:
    """Return whether all that rules found are softmaxes that subtract their maximum already, as JAX's own does."""
    found = Counter(applied.rule.name for applied in compiled.applied)
    return found.keys() == _STABLE and len(set(found.values())) == 1


_STAYS = "nothing to rewrite: each softmax subtracts its maximum already"
_STABLE = {"softmax_fusion", "softmax_shift"}


def _body(closed: Any, title: str, settings: FunctionSettings) -> Outcome:
    """A function that the original calls, rewritten for any input."""
    names = [str(index) for index in range(len(closed.jaxpr.invars))]
    return rewritten(closed, Inputs(names), replace(settings, ranges=None, found=None), title)


class _Attempt:
    """One program, and what rules make of it."""

    def __init__(self, closed: Any, program: Equations, inputs: Inputs, settings: FunctionSettings, title: str, adapts: bool) -> None:
        self.closed, self.program, self.inputs, self.settings = closed, program, inputs, settings
        self.captured = MarkedModule.of(program, title)
        self.sample = sample_of(program, inputs.sample)
        given = inputs.sample is not None
        self.runner = JaxRunner(self.captured, closed, self.sample, given, adapts) if self.sample is not None else None
        self.intervals = self._intervals(inputs.names)
        self.worse_bodies = False

    @property
    def _fixed(self) -> frozenset[int]:
        """The arguments of the module that probes leave as they are."""
        keys = {self.program.inputs[i] for i in self.inputs.fixed}
        return frozenset(i for i, key in enumerate(self.captured.arguments) if key in keys)

    def _intervals(self, names: Sequence[str]) -> list[Interval | None]:
        ranges = self.settings.ranges
        if ranges is not None and not self.settings.observed:
            known = intervals_of(ranges, names)
            return [known.get(name) for name in names]
        if not self.settings.observed or self.sample is None:
            return [None for _ in names]
        return [interval_of_array(x) if getattr(x.dtype, "kind", "") in "fV" else None for x in self.sample]

    def _request(self) -> Request:
        settings, keys = self.settings, self.captured.arguments
        by_key = dict(zip(self.program.inputs, self.intervals, strict=True))
        samples = []
        if self.sample is not None:
            arrays = {**self.program.constants, **dict(zip(self.program.inputs, self.sample, strict=True))}
            samples = [[jax.device_get(arrays[key]) for key in keys]]
        declared = [(f"arg{i}", interval) for i, key in enumerate(keys) if (interval := by_key.get(key)) is not None]
        return Request(
            phases=settings.rules.allowed(), ranges=declared if isinstance(settings.ranges, Mapping) else [], samples=samples,
            observed=settings.observed, assume=settings.assume, unproved=settings.rules.unproved, validate=settings.validate,
            search=settings.search, runner=self.runner if settings.validate else None, fixed=self.captured.fixed | self._fixed,
            **searches(settings.rules.searches, settings.found, ("f32", "f64") if jax.config.jax_enable_x64 else ("f32",)),
        )  # fmt: skip

    def run(self) -> tuple[Compiled, Any]:
        """The record, and the closed jaxpr of the rewritten program."""
        request = self._request()
        compiled, function = self._compiled(request)
        excluded: list[str] = []
        reasons = self._worse(compiled, function)
        while reasons and compiled.applied:
            guilty = sorted({applied.rule.name for applied in compiled.applied})
            excluded += to_exclude(guilty, request, partial(self._is_right_without, replace(request, excluded=tuple(excluded))))
            request = replace(request, excluded=tuple(excluded), withdrawn=(*request.withdrawn, *reasons))
            compiled, function = self._compiled(request)
            reasons = self._worse(compiled, function)
        self.worse_bodies = bool(reasons)
        return compiled, function

    def _compiled(self, request: Request) -> tuple[Compiled, Any]:
        assert self.captured.module is not None
        compiled = compile_module(self.captured.module, request)
        plan = Plan(self.captured, compiled)
        avals = [self.program.avals[key] for key in self.program.inputs]
        with apart():
            function = with_literals(jax.make_jaxpr(plan)(*avals))
        for found, wanted in zip(function.out_avals, self.closed.out_avals, strict=True):
            if not (found.shape == wanted.shape and found.dtype == wanted.dtype and found.weak_type == wanted.weak_type):
                raise ModelError(f"a result of the rewritten function is {found}, and {wanted} in the original")
        return compiled, function

    def _is_right_without(self, request: Request, rule: str) -> bool:
        tried = replace(request, excluded=(*request.excluded, rule))
        return not self._worse(*self._compiled(tried))

    def _worse(self, compiled: Compiled, function: Any) -> list[str]:
        changed = compiled.applied or (self.runner is not None and self.runner.adapts)
        if self.runner is None or not self.settings.validate or not changed:
            return []
        trial = FunctionGradients(self.captured, self.closed, function, self.runner, self.intervals, self.inputs.fixed)
        found = list(islice(trial.regressions(), _MOST_REASONS))
        if trial.skipped:
            compiled.notes.append(f"gradients were not compared: {trial.skipped}")
        return found
