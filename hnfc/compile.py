"""The road of a model: import, canonical form, rewrite phase by phase, validate, hand back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from torch_mlir import ir
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from hnfc.analysis.ranges import Ranges, interval_of_array
from hnfc.backend.torch_mlir import export
from hnfc.dialects.interval import Interval
from hnfc.dialects.num.opaque import OpaqueOp
from hnfc.dsl import core
from hnfc.egraph.explorer import Explorer
from hnfc.evaluate import evaluate
from hnfc.frontend.torch_mlir import Imported, import_module
from hnfc.rewrite.conditions import Observations
from hnfc.rewrite.greedy import Greedy, compile_rules, erase_dead
from hnfc.rewrite.lift import lift
from hnfc.rewrite.matcher import Matcher
from hnfc.rewrite.numbering import share
from hnfc.rewrite.record import NearMiss, Outcome, Statistics
from hnfc.samples import Array, declared, drawn, from_file
from hnfc.search import Search
from hnfc.sizes import KNOWN
from hnfc.validate import Error, Original, Reference, affordable, unit_roundoff

Progress = Callable[[str], None]


@dataclass
class Request:
    """What to do to a model. phases: the rules of each phase, proved or allowed by name.

    samples: arrays by the place of the argument, instead of those of a file (`calibrate`). observed: whether conditions may be
    shown from the ranges of the samples where none are declared, which then hold for inputs like these.
    """

    phases: Sequence[Sequence[core.Rule]]
    ranges: Sequence[tuple[str, Interval]] = ()
    calibrate: str | None = None
    samples: Sequence[Sequence[Array]] = ()
    observed: bool = False
    assume: frozenset[str] = frozenset()
    validate: bool = True
    search: Search = field(default_factory=Search)


@dataclass
class Applied:
    """One rewrite as the report shows it: the errors are those of the value at its place, before and after everything."""

    rule: core.Rule
    place: str
    given: str
    before: Error | None = None
    after: Error | None = None
    unit_roundoff: float = 0.0

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
    """Whether the ranges that conditions were shown from are those of samples, not declared ones."""
    reference: str = "none"
    outputs: list[Output] = field(default_factory=list)
    rolled_back: list[str] = field(default_factory=list)
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
    """Rewrites every function of the module. A rule whose rewrites make an output worse on the samples is taken back.

    Raises ModelError where ranges or samples do not fit the model.
    """
    excluded: list[str] = []
    while True:
        compiled = _attempt(source, request, frozenset(excluded), progress)
        guilty = _guilty(compiled)
        if not guilty:
            compiled.rolled_back = excluded
            return compiled
        excluded += guilty


def _guilty(compiled: Compiled) -> list[str]:
    """The rules to take back: those whose places became worse, or if no place tells why, all that an output hangs on which became worse."""
    worse = [output for output in compiled.outputs if output.worse]
    if not worse:
        return []
    suspects = {applied.rule.name for applied in compiled.applied if applied.worse}
    behind = {rule for output in worse for rule in output.rules}
    return sorted(suspects or behind or {applied.rule.name for applied in compiled.applied})


def _attempt(source: ir.Module, request: Request, excluded: frozenset[str], progress: Progress) -> Compiled:
    progress("importing …")
    compiled = Compiled(import_module(source))
    functions = [op for op in compiled.imported.module.ops if isinstance(op, FuncOp) and op.body.blocks]
    for function in functions:
        _function(compiled, function.body.block, request, excluded, progress)
    return compiled


_PLUMBING = ("torch.constant.", "torch.prim.ListConstruct", "torch.aten._assert", "torch_c.", *KNOWN)
"""Operands, sizes, casts and assertions of other operations: no mathematics of the model."""


def _function(compiled: Compiled, block: Block, request: Request, excluded: frozenset[str], progress: Progress) -> None:
    imported = compiled.imported
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
        for value in block.args:
            columns = [interval_of_array(sample[value]) for sample in inputs if value in sample]
            for interval in columns if value not in intervals else ():
                intervals[value] = interval if value not in intervals else intervals[value].hull(interval)
    samples = affordable(block, inputs) if request.validate else []
    original = Original(block) if samples else None
    compiled.samples += len(samples)
    compiled.observed = observed
    returned = list(block.ops)[-1].operands if block.ops else ()
    outputs = list(returned)

    outcome = Outcome()
    explorer = None
    if request.search.kind != "greedy":
        chosen = [rule for phase in (*request.phases, request.search.forms) for rule in phase if rule.name not in excluded]
        truth = original.reference(samples, imported.weight, outputs).truth if original is not None else []
        options = {"assume": request.assume, "weights": imported.weight, "samples": samples, "truth": truth}
        explorer = Explorer.of(block, request.search, intervals, rules=chosen, place=imported.location, **options)
    for rules in request.phases:
        progress("rewriting …")
        matcher = Matcher(compile_rules(rule for rule in rules if rule.name not in excluded))
        ranges = Ranges(intervals, imported.weight)
        observations = Observations([dict(sample) for sample in samples], imported.weight)
        greedy = Greedy(matcher, ranges, observations, request.assume, imported.location, origins=origins, outcome=outcome)
        greedy.run(block)
    if explorer is not None:
        progress("searching …")
        explorer.run(outcome, origins)
    share(block, origins.keys() - lifted, outcome.replaced)
    wanted = list(dict.fromkeys([*(rewrite.before for rewrite in outcome.rewrites), *outputs]))
    reference = Reference([], [], [], "none")
    if original is not None:
        progress("running old and new on samples …")
        reference = original.reference(samples, imported.weight, wanted)
    compiled.reference = reference.kind
    _report(compiled, block, outcome, reference, outputs)


def _samples(block: Block, request: Request, intervals: Mapping[SSAValue, Interval]) -> list[dict[SSAValue, Array]]:
    if request.samples:
        return [dict(zip(block.args, sample, strict=True)) for sample in request.samples]
    return from_file(request.calibrate, block) if request.calibrate else drawn(block, intervals)


def _report(compiled: Compiled, block: Block, outcome: Outcome, reference: Reference, outputs: list[SSAValue]) -> None:
    compiled.replaced.update(outcome.replaced)
    compiled.near_misses += outcome.near_misses
    compiled.statistics.update(outcome.statistics)
    compiled.notes += outcome.notes
    finally_ = {outcome.final(value) for value in [*(rewrite.before for rewrite in outcome.rewrites), *outputs]}
    now = [evaluate(block, sample, compiled.imported.weight, keep=finally_) for sample in reference.inputs]
    for rewrite in outcome.rewrites:
        old = rewrite.before
        errors = reference.before(old), reference.after(old, outcome.final(old), now)
        compiled.applied.append(Applied(rewrite.rule, rewrite.place, rewrite.given, *errors, unit_roundoff(old)))
    for value in outputs:
        after = reference.after(value, outcome.final(value), now)
        name = f"output {len(compiled.outputs)}"
        made_of = _behind(outcome.final(value))
        rules = frozenset(rewrite.rule.name for rewrite in outcome.rewrites if outcome.final(rewrite.before) in made_of)
        compiled.outputs.append(Output(name, unit_roundoff(value), reference.before(value), after, rules))


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
