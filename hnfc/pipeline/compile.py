"""The road of a model: import, canonical form, rewrite phase by phase, validate, hand back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from torch_mlir import ir
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from hnfc.analysis.ranges import Ranges, interval_of_array
from hnfc.backend.torch_mlir import export
from hnfc.core.dead_code import erase_dead
from hnfc.core.errors import ModelError
from hnfc.core.interpreter import evaluate
from hnfc.core.samples import Array, declared, drawn, from_file, lasting
from hnfc.core.size_arithmetic import KNOWN
from hnfc.dialects.interval import Interval
from hnfc.dialects.num.opaque import OpaqueOp
from hnfc.dialects.types import FORMATS, format_of
from hnfc.dsl import core
from hnfc.dsl.soundness import Verdict
from hnfc.egraph.explorer import Explorer
from hnfc.egraph.search import Search
from hnfc.frontend.torch_mlir import Imported, import_module
from hnfc.rewrite.canonicalization import lift
from hnfc.rewrite.conditions import Observations
from hnfc.rewrite.greedy import Greedy, compile_rules
from hnfc.rewrite.matcher import Matcher
from hnfc.rewrite.probing import Prober, is_pointwise
from hnfc.rewrite.record import NearMiss, RewriteOutcome, Statistics
from hnfc.rewrite.value_numbering import share
from hnfc.validation.differential import MOST_ELEMENTS, Runner, Trial, add_probes, cloned, elements_of, run_on, slots_of
from hnfc.validation.measurement import Error, Original, Reference, affordable, unit_roundoff

Progress = Callable[[str], None]


FOUND = "found"
"""Group of rules that were found for one program."""
FormSearch = Callable[[Block, Ranges, Observations], Mapping[core.Rule, Verdict]]


@dataclass
class Request:
    """Request to rewrite a model. phases: the rules of each phase, proved or allowed by name.

    samples: arrays by the place of the argument, instead of those of a file (`calibrate`). observed: whether conditions may be
    shown from the ranges of the samples where none are declared, which then hold for inputs like these.
    """

    phases: Sequence[Sequence[core.Rule]]
    ranges: Sequence[tuple[str, Interval]] = ()
    calibrate: str | None = None
    samples: Sequence[Sequence[Array]] = ()
    observed: bool = False
    assume: frozenset[str] = frozenset()
    unproved: frozenset[str] = frozenset()
    """Rules that run without a proof; like those of `assume` they are tried on the samples only, not on probes."""
    validate: bool = True
    search: Search = field(default_factory=Search)
    forms: FormSearch | None = None
    """Search for proved rules that are good for this program alone; they run after all phases."""
    runner: Runner | None = None
    """Runner of the user, on which errors are measured. None: hnfc's own evaluation."""
    fixed: frozenset[int] = frozenset()
    """Arguments that are parameters and buffers: probes leave them as they are."""
    native: bool = False
    """True if the model is exported for torch alone (see `Compiled.export`)."""
    measured: bool = True
    """True if old and new are compared; without it the samples serve conditions of rules only."""
    excluded: tuple[str, ...] = ()
    """Rules that do not run, since `withdrawn` was seen of them."""
    withdrawn: tuple[str, ...] = ()


@dataclass
class Applied:
    """One rewrite as the report shows it: the errors are those of the value at its place, before and after everything."""

    rule: core.Rule
    place: str
    given: str
    before: Error | None = None
    after: Error | None = None
    unit_roundoff: float = 0.0
    backwards: bool = False
    """True if the rule was read from right to left."""

    @property
    def worse(self) -> bool:
        return is_worse(self)


@dataclass
class Output:
    """The error of one result of the model, before and after. rules: those that changed something which it is made of."""

    name: str
    unit_roundoff: float
    before: Error | None
    after: Error | None
    rules: frozenset[str] = frozenset()

    @property
    def worse(self) -> bool:
        return is_worse(self)


def is_worse(change: Applied | Output) -> bool:
    before, after = change.before, change.after
    return before is not None and after is not None and after.worse_than(before, change.unit_roundoff)


@dataclass
class Compiled:
    """The rewritten model, and what is worth saying about how it came about."""

    imported: Imported
    replaced: dict[SSAValue, SSAValue] = field(default_factory=dict)
    applied: list[Applied] = field(default_factory=list)
    near_misses: list[NearMiss] = field(default_factory=list)
    statistics: dict[str, Statistics] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    opaque: dict[str, int] = field(default_factory=dict)
    operations: int = 0
    samples: int = 0
    observed: bool = False
    """True if the ranges that conditions were shown from are those of samples, not declared ones."""
    reference: str = "none"
    outputs: list[Output] = field(default_factory=list)
    rolled_back: list[str] = field(default_factory=list)
    regressions: list[tuple[int, str]] = field(default_factory=list)
    """Outputs that are worse on an input beyond the samples, and how."""
    withdrawn: list[str] = field(default_factory=list)
    """Reasons why rules or a search were undone."""
    found: dict[str, Verdict] = field(default_factory=dict)
    """Verdicts on the rules that were found for this program."""
    runner: str = ""
    """Name of the runner that output errors were measured on; empty for hnfc's own evaluation."""
    trials: list[Trial] = field(default_factory=list)
    mended_gradients: int = 0
    """Places whose gradient no longer multiplies 0 by infinity (see `backend.gradients`)."""
    _exported: bool = False

    def export(self, native: bool = False) -> ir.Module:
        """The torch module with the changes in it; the one that was read, byte by byte, where there are none.

        native: for `raise_function` alone, with functions of torch that are differentiated accurately.
        """
        if not self._exported:
            export(self.imported, self.replaced, native)
            self._exported = True
        return self.imported.torch


def compile_module(source: ir.Module, request: Request, progress: Progress = lambda text: None) -> Compiled:
    """Rewrites every function of the module. A rule whose rewrites make an output worse, on the samples or on a probe, is taken back.

    Raises ModelError where ranges or samples do not fit the model.
    """
    excluded, withdrawn = list(request.excluded), list(request.withdrawn)
    while True:
        compiled = _attempt(source, request, frozenset(excluded), progress)
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
        excluded += sufficient(guilty, partial(_is_right_without, source, request, frozenset(excluded), progress))


def _is_right_without(source: ir.Module, request: Request, excluded: frozenset[str], progress: Progress, rule: str) -> bool:
    return not _guilty(_attempt(source, request, excluded | {rule}, progress))[0]


def sufficient(guilty: list[str], mends: Callable[[str], bool]) -> list[str]:
    """One of the rules without which nothing is worse, as `mends` finds; all of them where one alone is not enough."""
    if len(guilty) == 1:
        return guilty
    return next(([rule] for rule in guilty[:_MOST_TRIED] if mends(rule)), guilty)


_MOST_TRIED = 6


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


def _attempt(source: ir.Module, request: Request, excluded: frozenset[str], progress: Progress) -> Compiled:
    progress("importing …")
    compiled = Compiled(import_module(cloned(source) if request.runner is not None else source))
    functions = [op for op in compiled.imported.module.ops if isinstance(op, FuncOp) and op.body.blocks]
    for function in functions:
        _function(compiled, function, request, excluded, progress)
    if request.runner is not None and any(t.inputs() for t in compiled.trials) and (compiled.applied or request.runner.adapts):
        progress(f"running old and new on {request.runner.name} …")
        _measure_on(compiled, request.runner, request.native)
    compiled.regressions = _regressions(compiled)
    return compiled


def _regressions(compiled: Compiled) -> list[tuple[int, str]]:
    found, first = [], 0
    for trial in compiled.trials:
        found += [(first + index, reason) for index, reason in trial.regressions()]
        first += len(trial.formats)
    return found


def _measure_on(compiled: Compiled, runner: Runner, native: bool) -> None:
    """Puts what the runner computes, before and after, in the place of hnfc's own evaluation."""
    try:
        old = [runner.load(compiled.imported.torch, trial.function) for trial in compiled.trials]
        wide = [runner.wide(compiled.imported.torch, trial.function) for trial in compiled.trials]
        new_module = runner.prepared(compiled.export(native))
        new = [runner.load(new_module, trial.function) for trial in compiled.trials]
    except ModelError as error:
        compiled.notes.append(f"errors are those of hnfc's own evaluation: {error}")
        return
    compiled.runner = runner.name
    outputs = iter(compiled.outputs)
    for trial, before, after, reference in zip(compiled.trials, old, new, wide, strict=True):
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


_MOST_OPERATIONS = 5_000
"""Operations of a function that is probed although no sample was given."""
_PLUMBING = ("torch.constant.", "torch.prim.ListConstruct", "torch.aten._assert", "torch_c.", *KNOWN)
"""Operands, sizes, casts and assertions of other operations: no mathematics of the model."""


def _function(compiled: Compiled, function: FuncOp, request: Request, excluded: frozenset[str], progress: Progress) -> None:
    imported, block = compiled.imported, function.body.block
    for op in block.ops:
        name = opaque_name(op) if op.name == "num.opaque" else ""
        if name.startswith(_PLUMBING):
            continue
        compiled.operations += 1
        if name and any(result.uses for result in op.results):
            compiled.opaque[name] = compiled.opaque.get(name, 0) + 1
    renamed, origins = lift(block)
    lifted = set(origins)
    erase_dead([op for op in block.ops if not any(r.uses for r in op.results)])
    imported.rebase(renamed, origins)

    intervals = declared(block, request.ranges)
    observed = request.observed or request.calibrate is not None
    inputs = _samples(block, request, intervals)
    if observed and inputs:
        for index, value in enumerate(block.args):
            columns = [interval_of_array(sample[value]) for sample in inputs if value in sample]
            for interval in columns if value not in intervals else ():
                interval = lasting(interval) if index in request.fixed else interval
                intervals[value] = interval if value not in intervals else intervals[value].hull(interval)
    samples = affordable(block, inputs) if request.validate else []
    small = elements_of(block) <= MOST_ELEMENTS and len(block.ops) <= _MOST_OPERATIONS
    compared = request.measured and (bool(samples) or (request.validate and small))
    original = Original(block) if compared else None
    compiled.samples += len(samples)
    compiled.observed = observed
    returned = list(block.ops)[-1].operands if block.ops else ()
    outputs = list(returned)

    outcome = RewriteOutcome()
    vouched = request.assume | request.unproved
    explorer = None
    if request.search.kind != "greedy":
        chosen = [rule for phase in (*request.phases, request.search.forms) for rule in phase if rule.name not in excluded]
        truth = original.reference(samples, imported.weight, outputs).truth if original is not None else []
        options = {"assume": request.assume, "weights": imported.weight, "samples": samples, "truth": truth}
        explorer = Explorer.of(block, request.search, intervals, rules=chosen, place=imported.location, **options)

    def rewrite(rules: Iterable[core.Rule], ranges: Ranges, observations: Observations) -> None:
        matcher = Matcher(compile_rules(rule for rule in rules if rule.name not in excluded))
        greedy = Greedy(matcher, ranges, observations, request.assume, imported.location, origins=origins, outcome=outcome)
        greedy.prober, greedy.vouched = Prober(ranges, observations), vouched
        greedy.run(block)

    def known() -> tuple[Ranges, Observations]:
        return Ranges(intervals, imported.weight), Observations([dict(sample) for sample in samples], imported.weight)

    for rules in request.phases:
        progress("rewriting …")
        rewrite(rules, *known())
    if request.forms is not None:
        progress("searching for better forms …")
        found = request.forms(block, *known())
        compiled.found.update({rule.name: verdict for rule, verdict in found.items()})
        rewrite(found, *known())
    if explorer is not None:
        progress("searching …")
        explorer.run(outcome, origins)
    share(block, origins.keys() - lifted, outcome.replaced)
    wanted = list(dict.fromkeys([*(rewrite.before for rewrite in outcome.rewrites), *outputs]))
    if samples:
        progress("running old and new on samples …")
    reference = original.reference(samples, imported.weight, wanted) if original is not None else Reference([], [], [], "none")
    compiled.reference = reference.kind
    trial = _report(compiled, block, outcome, reference, outputs, function.sym_name.data)
    # an approximation may lose what it says that it loses
    free = any(rewrite.rule.within is not None or rewrite.rule.name in vouched for rewrite in outcome.rewrites)
    if outcome.rewrites and original is not None and not free:
        slots = slots_of(block, inputs[0] if inputs else {}, intervals, request.fixed)
        now = [outcome.final(value) for value in outputs]
        if slots:
            add_probes(trial, original, block, outputs, now, slots, imported.weight, request.fixed)


def _samples(block: Block, request: Request, intervals: Mapping[SSAValue, Interval]) -> list[dict[SSAValue, Array]]:
    if request.samples:
        return [dict(zip(block.args, sample, strict=True)) for sample in request.samples]
    return from_file(request.calibrate, block) if request.calibrate else drawn(block, intervals)


def _report(
    compiled: Compiled, block: Block, outcome: RewriteOutcome, reference: Reference, outputs: list[SSAValue], function: str
) -> Trial:  # fmt: skip
    """Adds what was done to a function, with errors in hnfc's own evaluation; the function on the samples, before and after."""
    compiled.replaced.update(outcome.replaced)
    compiled.near_misses += outcome.near_misses
    compiled.statistics.update(outcome.statistics)
    compiled.notes += outcome.notes
    finally_ = {outcome.final(value) for value in [*(rewrite.before for rewrite in outcome.rewrites), *outputs]}
    now = [evaluate(block, sample, compiled.imported.weight, keep=finally_) for sample in reference.inputs]
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


def opaque_name(op: Operation) -> str:
    """The torch operation that it carries."""
    if isinstance(op, OpaqueOp) and op.operation.data == "torch.operator":
        carried = op.attributes_as_python()["carried"]
        return str(carried.get("name", op.operation.data)).strip('"')
    for attribute in op.properties.values():
        text = getattr(attribute, "data", None)
        if isinstance(text, str):
            return text
    return op.name
