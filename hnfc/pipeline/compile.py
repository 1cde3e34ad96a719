"""A model through all passes, again without the rules whose rewrites made it worse."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import takewhile

from torch_mlir import ir
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import PassPipeline

from hnfc.core.progress import Progress, tell
from hnfc.egraph.search import Search
from hnfc.pipeline.compiled import Compiled
from hnfc.pipeline.context import PipelineContext
from hnfc.pipeline.passes import model_passes
from hnfc.pipeline.request import Request
from hnfc.pipeline.validating import excuse_rounded_inputs, measure_on, regressions
from hnfc.validation.differential import cloned


def compile_module(source: ir.Module, request: Request, progress: Progress = tell) -> Compiled:
    """Rewrites every function of the module. A rule whose rewrites make an output worse, on the samples or on a probe, is taken back.

    What a search found for variations of the samples may fail where that for the samples alone holds, so that this is tried too.
    Raises ModelError where ranges or samples do not fit the model.
    """
    found = _sound(source, request, progress)
    if request.varied and not _given(request).issuperset(found.rolled_back):
        for_samples = _sound(source, replace(request, varied=False), progress)
        if _more_accurate(for_samples, found):
            return for_samples
    return found


def _given(request: Request) -> set[str]:
    """The names of the rules that the request names, not found by a search."""
    return {rule.name for phase in request.phases for rule in phase}


def _more_accurate(first: Compiled, second: Compiled) -> bool:
    """Return whether the outputs of the first err less on the samples than those of the second, of which none errs less."""
    others = {output.name: output for output in second.outputs}  # results of a body are there where something in it was rewritten
    pairs = [(one.after, others[one.name].after, one.unit_roundoff) for one in first.outputs if one.name in others]
    known = [(one, two, unit) for one, two, unit in pairs if one is not None and two is not None]
    return any(two.worse_than(one, unit) for one, two, unit in known) and not any(one.worse_than(two, unit) for one, two, unit in known)


def _sound(source: ir.Module, request: Request, progress: Progress) -> Compiled:
    """The module without the rules that made an output worse."""
    excluded, withdrawn = list(request.excluded), list(request.withdrawn)
    deadline = time.monotonic() + _SEARCH_SECONDS
    while True:
        if time.monotonic() > deadline:
            request = replace(request, forms=None, widening=None)
        compiled = _attempt(source, replace(request, excluded=tuple(excluded)), progress)
        guilty, why = _guilty(compiled)
        if not guilty:
            compiled.rolled_back, compiled.withdrawn = excluded, withdrawn
            return compiled
        withdrawn += why
        if request.search.kind != "greedy":
            # a search may only look for what is cheaper among forms that are as stable
            withdrawn.append(f"the form that the {request.search.kind} search found was given up for that of the greedy search")
            request = replace(request, search=Search())
            continue
        excluded += to_exclude(guilty, request, partial(_is_right_without, source, replace(request, excluded=tuple(excluded)), progress))


def _is_right_without(source: ir.Module, request: Request, progress: Progress, rule: str) -> bool:
    return not _guilty(_attempt(source, replace(request, excluded=(*request.excluded, rule)), progress))[0]


def to_exclude(guilty: list[str], request: Request, mends: Callable[[str], bool]) -> list[str]:
    """One of the rules without which nothing is worse, as `mends` finds; where there is none, those that a search added, or all."""
    given = _given(request)
    searched = [name for name in guilty if name not in given]
    enough = _sufficient([*searched, *(name for name in guilty if name in given)], mends)
    return searched if searched and len(enough) > 1 else enough


def _sufficient(guilty: list[str], mends: Callable[[str], bool]) -> list[str]:
    """One of the rules without which nothing is worse; all of them where no such rule is found in time."""
    if len(guilty) == 1:
        return guilty
    deadline = time.monotonic() + _SECONDS
    tried = takewhile(lambda _: time.monotonic() < deadline, guilty[:_MOST_TRIED])
    return next(([rule] for rule in tried if mends(rule)), guilty)


_MOST_TRIED = 6
_SECONDS = 8.0
_SEARCH_SECONDS = 20.0
"""Time after which an attempt searches no more: each one without a rule that made something worse searches again."""


def _guilty(compiled: Compiled) -> tuple[list[str], list[str]]:
    """The rules to take back, and why: those whose places became worse, or if no place tells, all that a worse output hangs on."""
    worse = {index for index, output in enumerate(compiled.outputs) if output.worse} | {index for index, _ in compiled.regressions}
    if not worse:
        return [], []
    suspects = {applied.rule.name for applied in compiled.applied if applied.worse}
    behind = {rule for index in worse for rule in compiled.outputs[index].rules}
    outputs = [compiled.outputs[index] for index in sorted(worse)]
    why = [f"{o.name} was worse: error {o.before} → {o.after}" for o in outputs if o.worse]
    why += list(dict.fromkeys(f"{compiled.outputs[index].name} was worse: {reason}" for index, reason in compiled.regressions))[:3]
    return sorted(suspects or behind or {applied.rule.name for applied in compiled.applied}), why


def _attempt(source: ir.Module, request: Request, progress: Progress) -> Compiled:
    context, module = PipelineContext(), ModuleOp([])
    context.begin(cloned(source) if request.runner is not None else source, request, progress)
    PassPipeline(model_passes(request)).apply(context, module)
    compiled = context.compiled
    assert compiled is not None
    if request.runner is not None and any(t.inputs() for t in compiled.trials) and (compiled.applied or request.runner.adapts):
        progress(f"running old and new on {request.runner.name} …")
        measure_on(compiled, request.runner, request.native)
    excuse_rounded_inputs(compiled)
    compiled.regressions = regressions(compiled)
    return compiled
