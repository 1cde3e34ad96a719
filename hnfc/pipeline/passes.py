"""The stages of the pipeline as xDSL passes, so that `hnfc-opt` runs any part of it and prints the IR between."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from hnfc.backend.torch_mlir import build, export
from hnfc.core.dead_code import erase_dead
from hnfc.core.errors import ModelError, UsageError
from hnfc.core.verdicts import verdicts
from hnfc.dsl import core
from hnfc.dsl.rulebook import shipped, shipped_targets
from hnfc.egraph.explorer import Explorer
from hnfc.egraph.search import search_of
from hnfc.frontend.torch_mlir import import_module
from hnfc.pipeline.context import PipelineContext
from hnfc.pipeline.levels import FORMS, UnknownLevel, phases
from hnfc.rewrite.canonicalization import lift
from hnfc.rewrite.greedy import Greedy, compile_rules
from hnfc.rewrite.matcher import Matcher
from hnfc.rewrite.record import RewriteOutcome


def _functions(module: ModuleOp) -> list[FuncOp]:
    return [op for op in module.ops if isinstance(op, FuncOp) and op.body.blocks]


@dataclass(frozen=True)
class ImportTorchPass(ModulePass):
    """The torch module that was read, in the num dialect."""

    name = "import-torch"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not isinstance(ctx, PipelineContext) or ctx.source is None:
            raise ModelError("import-torch comes first, and needs a file in the torch dialect")
        ctx.imported = import_module(ctx.source)
        for function in list(ctx.imported.module.ops):
            function.detach()  # type: ignore[no-untyped-call]
            op.body.block.add_op(function)
        ctx.imported.module = op


@dataclass(frozen=True)
class LiftPass(ModulePass):
    """Reshapes that only add or drop axes of size 1 sink below elementwise operations."""

    name = "lift"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in _functions(op):
            block = function.body.block
            renamed, made = lift(block)
            erase_dead([o for o in block.ops if not any(r.uses for r in o.results)])
            if isinstance(ctx, PipelineContext) and ctx.imported is not None:
                ctx.imported.rebase(renamed, made)


@dataclass(frozen=True)
class RewritePass(ModulePass):
    """The proved rules of a level or group, phase by phase."""

    name = "rewrite"
    group: str = field(default="stability")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        plan = _proved(self.group)
        for function in _functions(op):
            for rules in plan:
                outcome = Greedy(Matcher(compile_rules(rules)), place=_place(ctx)).run(function.body.block)
                if isinstance(ctx, PipelineContext):
                    ctx.replaced.update(outcome.replaced)


@dataclass(frozen=True)
class SaturatePass(ModulePass):
    """Equality saturation under the rules of a level or group and the equal forms, and the choice that costs least."""

    name = "saturate"
    group: str = field(default="none")
    cost: str = field(default="flops")
    target: str = field(default="")
    seconds: float = field(default=20.0)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        try:
            search = search_of("egraph", self.cost, self.target or None, seconds=self.seconds, targets=shipped_targets())
        except UsageError as error:
            raise ModelError(str(error)) from None
        plan = (*_proved(self.group), *_proved(",".join(FORMS)))
        rules = [rule for phase in plan for rule in phase if search.target is None or search.target.lacks(rule) is None]
        weights = ctx.imported.weight if isinstance(ctx, PipelineContext) and ctx.imported is not None else None
        for function in _functions(op):
            outcome = RewriteOutcome()
            Explorer.of(function.body.block, search, {}, rules=rules, place=_place(ctx), weights=weights).run(outcome, {})
            if isinstance(ctx, PipelineContext):
                ctx.replaced.update(outcome.replaced)


def _proved(group: str) -> list[list[core.Rule]]:
    """The proved rules of each phase of a level or of groups. Raises ModelError where there is none of that name."""
    book = shipped()
    try:
        plan = [book.only(names).rules for names in phases(group, set(book.groups()))]
    except UnknownLevel as error:
        raise ModelError(str(error)) from None
    proved = verdicts([rule for phase in plan for rule in phase])
    return [[rule for rule in phase if proved[rule.name].proved] for phase in plan]


def _place(ctx: Context) -> Callable[[Operation], str]:
    return ctx.imported.location if isinstance(ctx, PipelineContext) and ctx.imported is not None else lambda o: o.name


@dataclass(frozen=True)
class EraseDeadPass(ModulePass):
    """Pure operations that nothing uses go away."""

    name = "erase-dead"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in _functions(op):
            erase_dead([o for o in function.body.block.ops if not any(r.uses for r in o.results)])


@dataclass(frozen=True)
class ExportTorchPass(ModulePass):
    """Back to the torch dialect: a patch of what was read, or a new module where nothing was."""

    name = "export-torch"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not isinstance(ctx, PipelineContext):
            raise ModelError("export-torch needs the context of hnfc-opt")
        ctx.exported = export(ctx.imported, ctx.replaced) if ctx.imported is not None else build(op)


PASSES: Mapping[str, type[ModulePass]] = {
    p.name: p for p in (ImportTorchPass, LiftPass, RewritePass, SaturatePass, EraseDeadPass, ExportTorchPass)
}  # fmt: skip
