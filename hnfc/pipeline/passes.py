"""The stages of a model as xDSL passes. `hnfc MODEL` and `hnfc.optimize` run `model_passes`; `hnfc-opt` runs any of `PASSES`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from hnfc.analysis.ranges import Ranges, interval_of_array
from hnfc.backend.torch_mlir import build, export
from hnfc.core.dead_code import erase_dead
from hnfc.core.errors import ModelError, UsageError
from hnfc.core.samples import Array, declared, drawn, from_file, lasting
from hnfc.core.value_numbering import eliminate_common
from hnfc.core.verdicts import verdicts
from hnfc.dialects.interval import Interval
from hnfc.dsl import core
from hnfc.dsl.rulebook import shipped, shipped_targets
from hnfc.egraph.explorer import Explorer
from hnfc.egraph.search import Search, search_of
from hnfc.frontend.torch_mlir import import_module
from hnfc.pipeline.compiled import Compiled
from hnfc.pipeline.context import PipelineContext
from hnfc.pipeline.graphs import Drawing, graph_of
from hnfc.pipeline.levels import FORMS, UnknownLevel, phases
from hnfc.pipeline.request import Request
from hnfc.pipeline.state import FunctionState
from hnfc.pipeline.validating import count_operations, intervals_of, is_observed, validate_function
from hnfc.rewrite.canonicalization import canonicalize
from hnfc.rewrite.conditions import Observations
from hnfc.rewrite.greedy import Greedy, compile_rules, origin_of
from hnfc.rewrite.matcher import CompiledRule, Matcher
from hnfc.rewrite.probing import Prober
from hnfc.validation.differential import MOST_ELEMENTS, elements_of
from hnfc.validation.measurement import Original, affordable
from hnfc.validation.variations import varied

_MOST_OPERATIONS = 5_000
"""Operations of a function that is probed although no sample was given."""


def model_passes(request: Request) -> tuple[ModulePass, ...]:
    """The passes of a request, in order."""
    searching: tuple[ModulePass, ...] = ()
    if request.search.kind != "greedy":
        rules = tuple(rule for phase in (*request.phases, request.search.forms) for rule in phase)
        searching = (BeginSearchPass(request.search, rules),)
    return (
        ImportTorchPass(),
        CanonicalizeMovementPass(),
        ObservePass(),
        *searching,
        *(RulesPass(tuple(rules)) for rules in request.phases),
        *((FormsPass(),) if request.forms is not None else ()),
        *((SearchPass(),) if searching else ()),
        *((WidenPass(),) if request.widening is not None else ()),
        CseRewrittenPass(),
        ValidatePass(),
    )


def _in(ctx: Context) -> PipelineContext:
    """The context with what passes hand on; an empty one for a tool of xDSL, which has none."""
    return ctx if isinstance(ctx, PipelineContext) else PipelineContext()


def _functions(context: PipelineContext, module: ModuleOp) -> Iterator[tuple[FuncOp, Block, FunctionState]]:
    for function in list(module.ops):
        if isinstance(function, FuncOp) and function.body.blocks:
            title = context.imported.bodies.get(function, "") if context.imported is not None else ""
            yield function, function.body.block, context.functions.setdefault(function, FunctionState(title=title))


def _request(context: PipelineContext, state: FunctionState | None = None) -> Request:
    """The request; for the body of a branch or a loop without what it says of the inputs of the model."""
    request = context.request if context.request is not None else Request()
    if state is None or not state.title:
        return request
    return replace(request, ranges=(), calibrate=None, samples=(), observed=False, fixed=frozenset(), least_size=0)


def _weights(context: PipelineContext) -> Callable[[str], Array] | None:
    return context.imported.weight if context.imported is not None else None


def _place(context: PipelineContext) -> Callable[[Operation], str]:
    return context.imported.location if context.imported is not None else lambda operation: operation.name


@dataclass(frozen=True)
class ImportTorchPass(ModulePass):
    """The torch module that was read, in the num dialect."""

    name = "import-torch"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not isinstance(ctx, PipelineContext) or ctx.source is None:
            raise ModelError("import-torch comes first, and needs a file in the torch dialect")
        ctx.progress("importing …")
        ctx.imported = import_module(ctx.source, bodies=True)
        for function in list(ctx.imported.module.ops):
            function.detach()  # type: ignore[no-untyped-call]
            op.body.block.add_op(function)
        ctx.imported.module = op
        ctx.compiled = Compiled(ctx.imported)
        for _, block, _ in _functions(ctx, op):
            count_operations(ctx.compiled, block)


@dataclass(frozen=True)
class CanonicalizeMovementPass(ModulePass):
    """Reshapes that only add or drop axes of size 1 sink below elementwise operations."""

    name = "canonicalize-movement"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        context = _in(ctx)
        all_renamed, all_made = dict[SSAValue, SSAValue](), dict[Operation, Operation]()
        for _, block, state in _functions(context, op):
            renamed, made = canonicalize(block)
            state.origins |= made
            state.canonicalized |= made.keys()
            erase_dead([o for o in block.ops if not any(r.uses for r in o.results)])
            all_renamed |= {old: new for old, new in renamed.items() if _is_there(new) or not _is_there(old)}
            all_made |= made
        if context.imported is not None:
            context.imported.rebase(all_renamed, all_made)


def _is_there(value: SSAValue) -> bool:
    """Return whether a value has not been erased."""
    return not isinstance(value.owner, Operation) or value.owner.parent is not None


@dataclass(frozen=True)
class ObservePass(ModulePass):
    """Ranges and samples of the inputs, as the request gives them; the function as it is, for comparison."""

    name = "observe"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        context = _in(ctx)
        for function, block, state in _functions(context, op):
            request = _request(context, state)
            state.intervals = declared(block, request.ranges)
            state.inputs = _samples(block, request, state.intervals)
            if is_observed(request) and state.inputs:
                _add_observed(block, request, state)
            state.samples = affordable(block, state.inputs) if request.validate else []
            small = elements_of(block) <= MOST_ELEMENTS and len(block.ops) <= _MOST_OPERATIONS
            compared = request.measured and (bool(state.samples) or (request.validate and small))
            state.original = Original(block) if compared else None
            state.outputs = list(block.last_op.operands) if block.last_op is not None else []
            if request.drawn:
                state.drawing = Drawing(graph_of(block, function.sym_name.data, origin_of(state.origins, _place(context))))
                state.drawing.intervals = intervals_of(block, state.intervals, _weights(context))


def _samples(block: Block, request: Request, intervals: Mapping[SSAValue, Interval]) -> list[dict[SSAValue, Array]]:
    if request.samples:
        return [dict(zip(block.args, sample, strict=True)) for sample in request.samples]
    return from_file(request.calibrate, block) if request.calibrate else drawn(block, intervals)


def _add_observed(block: Block, request: Request, state: FunctionState) -> None:
    """Takes the ranges of the samples for inputs that have none."""
    intervals = state.intervals
    for index, value in enumerate(block.args):
        columns = [interval_of_array(sample[value]) for sample in state.inputs if value in sample]
        for interval in columns if value not in intervals else ():
            interval = lasting(interval) if index in request.fixed else interval
            intervals[value] = interval if value not in intervals else intervals[value].hull(interval)


@dataclass(frozen=True)
class RulesPass(ModulePass):
    """Rules until none fits."""

    name = "rules"
    rules: tuple[core.Rule, ...]

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        context = _in(ctx)
        request = _request(context)
        compiled = compile_rules(rule for rule in self.rules if rule.name not in request.excluded)
        for _, block, state in _functions(context, op):
            context.progress("rewriting …")
            _rewrite(block, state, compiled, context)


def _rewrite(block: Block, state: FunctionState, rules: list[CompiledRule], context: PipelineContext) -> None:
    request, (ranges, observations) = _request(context, state), _known(state, context)
    greedy = Greedy(Matcher(rules), ranges, observations, request.assume, _place(context), origins=state.origins)
    greedy.outcome, greedy.vouched = state.outcome, request.assume | request.unproved
    greedy.prober = Prober(ranges, observations, request.least_size)
    greedy.run(block)


def _known(state: FunctionState, context: PipelineContext) -> tuple[Ranges, Observations]:
    weights = _weights(context)
    return Ranges(state.intervals, weights), Observations([dict(sample) for sample in state.samples], weights)


def _searched(block: Block, state: FunctionState, context: PipelineContext, costly: bool) -> Observations:
    """The inputs on which searches look for lost digits. costly: what is found takes time, so that beside the samples only what rounded
    inputs do not explain counts."""
    request, samples = _request(context, state), [dict(sample) for sample in state.samples]
    variations = 0
    if request.varied:
        near, scales = varied(block, state.samples, declared(block, request.ranges), request.fixed)
        samples, variations = [*samples, *near, *scales], len(scales) + (len(near) if costly else 0)
    return Observations(samples, _weights(context), variations)


@dataclass(frozen=True)
class FormsPass(ModulePass):
    """Rules that a search finds for this program, each proved."""

    name = "forms"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        context = _in(ctx)
        request = _request(context)
        for _, block, state in _functions(context, op):
            if request.forms is None or context.compiled is None:
                continue
            context.progress("searching for better forms …")
            observations = _searched(block, state, context, costly=False)
            found = request.forms(block, Ranges(state.intervals, _weights(context)), observations)
            context.compiled.found.rules.update(found)
            _rewrite(block, state, compile_rules(rule for rule in found if rule.name not in request.excluded), context)


@dataclass(frozen=True)
class WidenPass(ModulePass):
    """Parts in a wider type where digits are still lost on the samples."""

    name = "widen"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        context = _in(ctx)
        request = _request(context)
        for _, block, state in _functions(context, op):
            if request.widening is None or context.compiled is None:
                continue
            place = origin_of(state.origins, _place(context))
            found, made = request.widening(block, _searched(block, state, context, costly=True), state.outcome, place, request.excluded)
            context.compiled.found = context.compiled.found.with_(found)
            state.origins |= made


@dataclass(frozen=True)
class RewritePass(ModulePass):
    """The proved rules of a level or group, phase by phase."""

    name = "rewrite"
    group: str = field(default="stability")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for rules in _proved(self.group):
            RulesPass(tuple(rules)).apply(ctx, op)


@dataclass(frozen=True)
class BeginSearchPass(ModulePass):
    """The forms that a search starts from: those before the rewrites that follow."""

    name = "begin-search"
    search: Search
    rules: tuple[core.Rule, ...]

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        context = _in(ctx)
        request, weights = _request(context), _weights(context)
        chosen = [rule for rule in self.rules if rule.name not in request.excluded]
        for _, block, state in _functions(context, op):
            truth: Sequence[Mapping[SSAValue, Array]] = ()
            if state.original is not None and weights is not None:
                truth = state.original.reference(state.samples, weights, state.outputs).truth
            options: dict[str, Any] = {"assume": request.assume, "weights": weights, "samples": state.samples, "truth": truth}
            state.explorer = Explorer.of(block, self.search, state.intervals, rules=chosen, place=_place(context), **options)


@dataclass(frozen=True)
class SearchPass(ModulePass):
    """The cheapest form that the search finds, from where it began and what rewrites made since."""

    name = "search"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        context = _in(ctx)
        for _, _, state in _functions(context, op):
            if state.explorer is not None:
                context.progress("searching …")
                state.explorer.run(state.outcome, state.origins)
                state.explorer = None


@dataclass(frozen=True)
class SaturatePass(ModulePass):
    """Equality saturation under the rules of a level or group and the equal forms, and the choice that costs least."""

    name = "saturate"
    group: str = field(default="none")
    cost: str = field(default="flops")
    target: str = field(default="")
    seconds: float = field(default=20.0)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        context = _in(ctx)
        try:
            search = search_of("egraph", self.cost, self.target or None, seconds=self.seconds, targets=shipped_targets())
        except UsageError as error:
            raise ModelError(str(error)) from None
        plan = (*_proved(self.group), *_proved(",".join(FORMS)))
        rules = tuple(rule for phase in plan for rule in phase if search.target is None or search.target.lacks(rule) is None)
        BeginSearchPass(search, rules).apply(context, op)
        SearchPass().apply(context, op)


def _proved(group: str) -> list[list[core.Rule]]:
    """The proved rules of each phase of a level or of groups. Raises ModelError where there is none of that name."""
    book = shipped()
    try:
        plan = [book.only(names).rules for names in phases(group, set(book.groups()))]
    except UnknownLevel as error:
        raise ModelError(str(error)) from None
    proved = verdicts([rule for phase in plan for rule in phase])
    return [[rule for rule in phase if proved[rule.name].proved] for phase in plan]


@dataclass(frozen=True)
class CseRewrittenPass(ModulePass):
    """An operation that a rewrite made is dropped if one before it computes the same."""

    name = "cse-rewritten"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for _, block, state in _functions(_in(ctx), op):
            eliminate_common(block, state.origins.keys() - state.canonicalized, state.outcome.replaced)


@dataclass(frozen=True)
class EraseDeadPass(ModulePass):
    """Pure operations that nothing uses go away."""

    name = "erase-dead"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for _, block, _ in _functions(_in(ctx), op):
            erase_dead([o for o in block.ops if not any(r.uses for r in o.results)])


@dataclass(frozen=True)
class ValidatePass(ModulePass):
    """The record of what was done, with errors before and after on samples and probes."""

    name = "validate"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not isinstance(ctx, PipelineContext) or ctx.compiled is None:
            raise ModelError("validate needs a model that import-torch read")
        for function, _, state in _functions(ctx, op):
            if state.samples:
                ctx.progress("running old and new on samples …")
            validate_function(ctx.compiled, function, state, _request(ctx, state))


@dataclass(frozen=True)
class ExportTorchPass(ModulePass):
    """Back to the torch dialect: a patch of what was read, or a new module where nothing was."""

    name = "export-torch"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        context = _in(ctx)
        context.exported = export(context.imported, context.replaced) if context.imported is not None else build(op)


_NAMED = (ImportTorchPass, CanonicalizeMovementPass, RewritePass, SaturatePass, CseRewrittenPass, EraseDeadPass, ExportTorchPass)
PASSES: Mapping[str, type[ModulePass]] = {each.name: each for each in _NAMED}
"""Passes by name, for `hnfc-opt`."""
