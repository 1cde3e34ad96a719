"""The last stage: errors of a model before and after its rewrites, and inputs on which it became worse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from hnfc.analysis.ranges import Ranges
from hnfc.core.errors import ModelError
from hnfc.core.interpreter import WeightReader, evaluate
from hnfc.core.samples import input_names
from hnfc.dialects.interval import Interval
from hnfc.dialects.num.rounding import NUMPY_TYPES
from hnfc.dialects.torch import TorchType
from hnfc.dialects.types import DYNAMIC, ELEMENT_NAMES, FORMATS, format_of
from hnfc.pipeline.compiled import Applied, Compiled, Output
from hnfc.pipeline.graphs import Drawing, graph_of, is_affordable, is_plumbing, opaque_name
from hnfc.pipeline.request import Request
from hnfc.pipeline.state import FunctionState
from hnfc.rewrite.greedy import origin_of
from hnfc.rewrite.record import RewriteOutcome
from hnfc.validation.differential import Runner, Trial, add_probes, run_on, slots_of
from hnfc.validation.invented import is_pointwise
from hnfc.validation.measurement import Reference, unit_roundoff


def count_operations(compiled: Compiled, block: Block) -> None:
    """Adds the operations of an imported function, and those that hnfc does not know by their names."""
    for op in block.ops:
        if is_plumbing(op):
            continue
        name = opaque_name(op) if op.name == "num.opaque" else ""
        compiled.operations += 1
        if name and any(result.uses for result in op.results):
            compiled.opaque[name] = compiled.opaque.get(name, 0) + 1


def validate_function(compiled: Compiled, function: FuncOp, state: FunctionState, request: Request) -> None:
    """Adds what was done to the function, with its errors on samples and probes."""
    block, outcome, outputs, original = function.body.block, state.outcome, state.outputs, state.original
    if state.title and not outcome.rewrites:
        return
    weight = compiled.imported.weight
    compiled.samples += len(state.samples)
    if not state.title:
        compiled.unmeasured = "" if state.samples else _unmeasured(block, state, request)
        compiled.observed = is_observed(request)
    compiled.whole_rows |= outcome.whole_rows()
    drawing = state.drawing
    if drawing is not None:
        finish(drawing, block, state, compiled, original is not None and is_affordable(block, len(state.samples)))
    all_values = drawing.before.index if drawing is not None and drawing.measured else ()
    wanted = list(dict.fromkeys([*(rewrite.before for rewrite in outcome.rewrites), *outputs, *all_values]))
    reference = original.reference(state.samples, weight, wanted) if original is not None else Reference([], [], [], "none")
    if not state.title:
        compiled.reference = reference.kind
    first = len(compiled.outputs)
    trial = _report(compiled, block, outcome, reference, outputs, function.sym_name.data, drawing)
    if state.title:
        trial.is_body, trial.is_counted = True, bool(_counts(block))
        for index, output in enumerate(compiled.outputs[first:]):
            output.name = f"result {index} of a body of {state.title}"
    # an approximation may lose what it says that it loses
    vouched = request.assume | request.unproved
    free = any(rewrite.rule.within is not None or rewrite.rule.name in vouched for rewrite in outcome.rewrites)
    if outcome.rewrites and original is not None and not free:
        given = state.inputs[0] if state.inputs else _counts(block) if state.title else {}
        slots = slots_of(block, given, state.intervals, request.fixed, request.least_size)
        now = [outcome.final(value) for value in outputs]
        if slots:
            add_probes(trial, original, block, outputs, now, slots, weight, request.fixed)
            trial.sensitivity = lambda place: original.sensitivity(_inputs_at(place, reference, trial, block), weight, outputs)
            trial.error_near = lambda place: original.error_near(_inputs_at(place, reference, trial, block), weight, outputs)
            trial.invented = lambda place, index, lost: original.invented(
                _inputs_at(place, reference, trial, block), weight, outputs[index], lost
            )
            kept = original.kept(now)
            trial.from_kept = lambda place: original.from_kept(_inputs_at(place, reference, trial, block), weight, outputs, kept)


def _counts(block: Block) -> dict[SSAValue, Any]:
    """Arrays for what a body takes beside floats: counters and indices are 1, conditions hold."""
    found: dict[SSAValue, Any] = {}
    for argument in block.args:
        kind = argument.type
        element = ELEMENT_NAMES.get(kind.element_type, "") if isinstance(kind, TensorType) else ""
        if isinstance(kind, TensorType) and element in NUMPY_TYPES and element not in FORMATS and DYNAMIC not in kind.get_shape():
            found[argument] = np.ones(kind.get_shape(), NUMPY_TYPES[element])
        elif isinstance(kind, TorchType) and kind.text.data == "!torch.int":
            found[argument] = np.ones((), np.int64)
    return found


def _unmeasured(block: Block, state: FunctionState, request: Request) -> str:
    """The reason why there are no samples, and a way out."""
    if not request.validate:
        return "--no-validate leaves it out"
    if state.inputs:
        return "the model is too large to be run beside its rewritten form here"
    missing = [name for name, value in input_names(block).items() if value not in state.intervals]
    if not request.ranges or not missing:
        return "give --range arg0=LO:HI or --calibrate F.npz"
    verb = "have" if len(missing) > 1 else "has"
    return f"{', '.join(missing)} {verb} no range: give --range {missing[0]}=LO:HI, --range LO:HI for every input, or --calibrate F.npz"


def _inputs_at(place: int, reference: Reference, trial: Trial, block: Block) -> dict[SSAValue, Any]:
    """The inputs at a place of a trial: those of a sample, or of a probe behind the samples."""
    count = len(trial.samples)
    return reference.inputs[place] if place < count else dict(zip(block.args, trial.probes[place - count], strict=True))


def finish(drawing: Drawing, block: Block, state: FunctionState, compiled: Compiled, measured: bool) -> None:
    """Adds the function as it is after its rewrites."""
    drawing.after = graph_of(block, drawing.before.name, origin_of(state.origins, compiled.imported.location))
    drawing.intervals |= intervals_of(block, state.intervals, compiled.imported.weight)
    first = len(compiled.applied)
    drawing.rewrites = [(first + i, r.before, state.outcome.final(r.before)) for i, r in enumerate(state.outcome.rewrites)]
    drawing.measured = measured
    compiled.drawings.append(drawing)


def intervals_of(block: Block, inputs: Mapping[SSAValue, Interval], weights: WeightReader | None) -> dict[SSAValue, Interval]:
    """The interval of every value, by those of the inputs; empty where nothing is known of these."""
    if not inputs:
        return {}
    ranges = Ranges(inputs, weights)
    return {value: ranges.of(value) for op in (block, *block.ops) for value in (op.args if isinstance(op, Block) else op.results)}


def is_observed(request: Request) -> bool:
    """Return whether ranges may be those of samples."""
    return request.observed or request.calibrate is not None


def excuse_rounded_inputs(compiled: Compiled) -> None:
    """Notes the outputs whose errors on the samples grew to what inputs that are rounded have in any form (see `Trial`)."""
    outputs = iter(compiled.outputs)
    for trial in compiled.trials:
        for index, output in zip(range(len(trial.formats)), outputs, strict=False):
            output.as_rounded_inputs = output.worse and trial.is_rounding_of_inputs(index)


def regressions(compiled: Compiled) -> list[tuple[int, str]]:
    found, first = [], 0
    for trial in compiled.trials:
        found += [(first + index, reason) for index, reason in trial.regressions()]
        first += len(trial.formats)
    return found


def measure_on(compiled: Compiled, runner: Runner, native: bool) -> None:
    """Puts what the runner computes, before and after, in the place of hnfc's own evaluation."""
    trials = [trial for trial in compiled.trials if not trial.is_body]  # which come first
    try:
        old = [runner.load(compiled.imported.torch, trial.function) for trial in trials]
        wide = [runner.wide(compiled.imported.torch, trial.function) for trial in trials]
        load = runner.rewritten(compiled, native)
        new = [load(trial.function) for trial in trials]
    except ModelError as error:
        compiled.notes.append(f"errors are those of hnfc's own evaluation: {error}")
        return
    compiled.runner = runner.name
    outputs = iter(compiled.outputs)
    for trial, before, after, reference in zip(trials, old, new, wide, strict=True):
        count = len(trial.formats)
        trial.old, trial.new = run_on(before, trial.inputs(), count), run_on(after, trial.inputs(), count)
        if reference is not None and any(t is None for truth in trial.sample_truth for t in truth):
            compiled.reference = "float64"
            trial.sample_truth = _filled(trial.sample_truth, run_on(reference, trial.samples, count), trial.formats)
        for index, output in zip(range(count), outputs, strict=False):
            output.before, output.after = trial.errors(trial.old, index), trial.errors(trial.new, index)


def _filled(truth: list[list[Any]], wide: list[list[Any]], formats: list[Any]) -> list[list[Any]]:
    """The truth, and for results where hnfc knows none those in float64, if that is wider than their format."""
    narrow = [form is not None and form.unit_roundoff > FORMATS["f64"].unit_roundoff for form in formats]
    return [
        [w if t is None and ok else t for t, w, ok in zip(known, found, narrow, strict=True)]
        for known, found in zip(truth, wide, strict=True)
    ]


def _report(
    compiled: Compiled, block: Block, outcome: RewriteOutcome, reference: Reference, outputs: list[SSAValue], function: str,
    drawing: Drawing | None,
) -> Trial:  # fmt: skip
    """Adds what was done to a function, with errors in hnfc's own evaluation; the function on the samples, before and after."""
    compiled.replaced.update(outcome.replaced)
    compiled.near_misses += outcome.near_misses
    compiled.statistics.update(outcome.statistics)
    compiled.notes += outcome.notes
    finally_ = {outcome.final(value) for value in [*(rewrite.before for rewrite in outcome.rewrites), *outputs]}
    if drawing is not None and drawing.measured and drawing.after is not None:
        finally_ |= drawing.after.index.keys()
    now = [evaluate(block, sample, compiled.imported.weight, keep=finally_) for sample in reference.inputs]
    if drawing is not None and drawing.measured:
        drawing.observe(reference, now)
    for rewrite in outcome.rewrites:
        old = rewrite.before
        errors = reference.before(old), reference.after(old, outcome.final(old), now)
        compiled.applied.append(Applied(rewrite.rule, rewrite.place, rewrite.given, *errors, unit_roundoff(old), rewrite.backwards))
    for value in outputs:
        after = reference.after(value, outcome.final(value), now)
        name = f"output {len(compiled.outputs)}"
        made_of = _behind(outcome.final(value))
        rules = frozenset(rewrite.rule.name for rewrite in outcome.rewrites if outcome.final(rewrite.before) in made_of)
        compiled.outputs.append(Output(name, unit_roundoff(value), reference.before(value), after, rules))
    trial = Trial(
        function, [[sample[argument] for argument in block.args] for sample in reference.inputs if all(a in sample for a in block.args)],
        [format_of(value.type) for value in outputs], [[truth.get(value) for value in outputs] for truth in reference.truth],
        mixing=not all(is_pointwise(op) for op in block.ops if op.results),
    )  # fmt: skip
    if len(trial.samples) == len(reference.observed):
        trial.old = [[values.get(value) for value in outputs] for values in reference.observed]
        trial.new = [[values.get(outcome.final(value)) for value in outputs] for values in now]
    compiled.trials.append(trial)
    return trial


def _behind(value: SSAValue) -> set[SSAValue]:
    """The value, and what it is made of."""
    found = {value}
    stack = [value]
    while stack:
        owner = stack.pop().owner
        for operand in owner.operands if isinstance(owner, Operation) else ():
            if operand not in found:
                found.add(operand)
                stack.append(operand)
    return found
