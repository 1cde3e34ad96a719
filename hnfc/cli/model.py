"""The commands on models: rewriting one, and what else is done to a model that may have been rewritten first."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hnfc.cli.terminal import DONE, WRONG, Progress, report_diagnostics, say, write
from hnfc.core.errors import UsageError
from hnfc.report.table import width
from hnfc.validation.tolerance import TOLERANCE

EXAMPLE = """example:
  hnfc examples/naive_attention.mlir -O stability --range -40:40 -o stable.mlir
  hnfc programs.fpcore -O accuracy -o better.fpcore

`hnfc COMMAND --help` explains a command: run, analyze, precision, check, explain, test, fmt, rules."""

_MODEL = (
    "a .mlir or .mlirbc file in the torch dialect or StableHLO (text, bytecode, what jax.export serializes), or an .onnx file; - is stdin. "
    "Or FPCore programs (.fpcore), with -O accuracy"
)
TOLERATED = TOLERANCE.replace(", or", ",\nor")
_FORMS = ("torch", "num", "linalg", "stablehlo", "mlirbc", "vhlo", "iree")
_BINARY = ("mlirbc", "vhlo", "iree")


def optimize(arguments: Sequence[str]) -> int:
    """`hnfc MODEL`: rewrites a model and writes it."""
    return _optimize(_parser().parse_args(arguments))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hnfc", description="Rewrites a model so that it stays finite and accurate, and says why that is safe.\n"
        f"A rewrite is taken back unless each output has {TOLERATED}.",
        epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("model", metavar="MODEL", help=_MODEL)
    add_rewriting(parser, "stability")
    parser.add_argument("--calibrate", metavar="F.npz", help="samples of the inputs: arrays arg0, arg1, …")
    parser.add_argument("-o", dest="output", metavar="OUT", help="write the model to this file instead of stdout")
    parser.add_argument(
        "--emit", choices=_FORMS, default="torch",
        help="the form of the output: the torch dialect (default), hnfc's own, linalg or StableHLO as text; the torch dialect as "
        "bytecode (mlirbc), StableHLO as a portable artifact (vhlo), or compiled by IREE for this processor (iree)",
    )  # fmt: skip
    parser.add_argument("--unproved", action="store_true",
                        help="FPCore: also series without a proved remainder, and rules whose condition failed at points")  # fmt: skip
    parser.add_argument("--why-not", action="append", default=[], metavar="RULE",
                        help="say for the places that come closest to this rule what keeps it from running")  # fmt: skip
    parser.add_argument("--version", action="version", version=f"hnfc {_version()}")
    return parser


def add_rewriting(parser: argparse.ArgumentParser, level: str | None) -> None:
    """The options that say how a model is rewritten."""
    default, drawn = (f"{level} (default)", "; samples are drawn from it") if level else ("stability", "")
    scalar = "; accuracy for FPCore programs" if level else ""
    parser.add_argument(
        "-O", dest="level", default=level, metavar="LEVEL",
        help=f"{default}, fusion, folding, reassociation, precision, compensated, all, none; or rule groups{scalar}",
    )  # fmt: skip
    parser.add_argument("--rules", action="append", default=[], metavar="F.hnf", help="rules of your own, run with those of the level")
    parser.add_argument("--range", dest="ranges", action="append", default=[], metavar="arg0=LO:HI",
                        help=f"all values of an input lie there (LO:HI alone: of every input){drawn}")  # fmt: skip
    parser.add_argument(
        "--search", default="greedy", metavar="KIND",
        help="greedy (default): every rule that fits; egraph, beam, restarts: of all that rules can make, what costs least",
    )  # fmt: skip
    parser.add_argument("--cost", metavar="MIX", help="what a search minimises: error, bound, curvature, time, flops, or error+0.1*time "
                        "(default error+0.01*flops), each relative to what greedy found; error and bound need samples")  # fmt: skip
    parser.add_argument("--target", metavar="NAME", help="the machine: cpu, a100, h100, tpu_v5e, tpu_v5p, or one of a rule file; for the "
                        "cost time; rules that need a format which it lacks are off")  # fmt: skip
    parser.add_argument(
        "--deepening", type=float, default=0.0, metavar="G", help="operations at the outputs cost 1+G times as much (default 0)"
    )
    parser.add_argument("--seconds", type=float, metavar="S", help="the longest search (default 20)")
    parser.add_argument("--assume", action="append", default=[], metavar="RULE", help="you vouch for the `where` of this rule")
    parser.add_argument("--allow-unproved", action="append", default=[], metavar="RULE", help="let this rule run unproved, unless vacuous")
    parser.add_argument("--no-validate", action="store_true", help="do not run old and new on the samples")
    parser.add_argument("--json", metavar="OUT.json", help="write the report as JSON too")
    parser.add_argument("-q", "--quiet", action="store_true", help="no report")


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("hnfc")
    except PackageNotFoundError:
        return "(not installed)"


@dataclass
class Rewriting:
    """The rules that the options of a command name, and what is known of them."""

    options: argparse.Namespace
    request: Any
    rules: Any

    def report(self, compiled: Any) -> None:
        """The report, where the options want it."""
        from hnfc.report.text import json_report, text_report

        if not self.options.quiet:
            say(text_report(compiled, self.rules.verdicts, self.rules.withheld, width()))
        if self.options.json:
            write(self.options.json, json_report(compiled, self.rules.verdicts).encode())


def rewriting(options: argparse.Namespace, progress: Progress, **request: Any) -> Rewriting | None:
    """The rules, judged. None after a diagnostic of a rule file has been shown. Raises UsageError and ModelError."""
    from hnfc.core.samples import parse_range
    from hnfc.dsl.diagnostics import HnfError
    from hnfc.egraph.search import search_of
    from hnfc.pipeline.compile import Request
    from hnfc.pipeline.rulesets import load_rules

    ranges = [parse_range(text) for text in options.ranges]
    try:
        rules = load_rules(options.level, *options.rules, allow_unproved=options.allow_unproved, progress=progress)
    except HnfError as error:
        progress.stop()
        report_diagnostics(error)
        return None
    rules.check(options.assume)
    given = (options.search, options.cost, options.target, options.deepening, options.seconds)
    rules, search = rules.for_search(search_of(*given, targets=rules.targets), progress)
    made = Request(
        phases=rules.allowed(),
        ranges=ranges,
        assume=frozenset(options.assume),
        unproved=rules.unproved,
        validate=not options.no_validate,
        search=search,
        **request,
    )
    return Rewriting(options, made, rules)


def _optimize(options: argparse.Namespace) -> int:
    if options.model.endswith(".fpcore"):
        from hnfc.cli.accuracy import run

        return run(options)
    if options.unproved:
        raise UsageError("--unproved is for FPCore programs; --allow-unproved RULE lets a rule for models run unproved")
    if options.emit in _BINARY and options.output is None and sys.stdout.isatty():
        raise UsageError(f"--emit {options.emit} is binary; give it a file with -o OUT, or a pipe")
    with Progress() as progress:
        progress("reading …")
        from hnfc.frontend.models import read_model
        from hnfc.pipeline.compile import compile_module

        module = read_model(options.model)
        rules = rewriting(options, progress, calibrate=options.calibrate, runner=_runner(module, options.emit))
        if rules is None:
            return WRONG
        rules.rules.check(options.why_not)
        asked = _nearly(module, rules.rules, options.why_not)
        compiled = compile_module(module, rules.request, progress)
        progress("writing …")
        output = _emit(compiled, options.emit, rewritten=options.level != "none")
    rules.report(compiled)
    for name, places in asked.items():
        from hnfc.report.text import why_not

        say(why_not(compiled, name, places, width()))
    write(options.output, output)
    return DONE


def _nearly(module: Any, rules: Any, names: Sequence[str]) -> dict[str, list[Any]]:
    """For each rule the places that come closest to it in the model as it was read."""
    if not names:
        return {}
    from xdsl.dialects.func import FuncOp

    from hnfc.core.dead_code import erase_dead
    from hnfc.frontend.torch_mlir import import_module
    from hnfc.rewrite.canonicalization import lift
    from hnfc.rewrite.diagnosis import nearly

    imported = import_module(module)
    found: dict[str, list[Any]] = {name: [] for name in names}
    known = {rule.name: rule for phase in rules.phases for rule in phase}
    for function in (op for op in imported.module.ops if isinstance(op, FuncOp) and op.body.blocks):
        block = function.body.block
        renamed, origins = lift(block)
        erase_dead([op for op in block.ops if not any(result.uses for result in op.results)])
        imported.rebase(renamed, origins)
        for name in names:
            found[name] += nearly(known[name], block, imported.location)
    return found


def _runner(module: Any, form: str) -> Any:
    """Runner to measure errors on: the one that the output is for, if it is installed."""
    from hnfc.backend.execution import comparing

    return comparing(module, "iree" if form == "iree" else "torch")


def prepared(compiled: Any, runner: str) -> Any:
    """The rewritten module as it is written for a runner; a note says which operations have another form there."""
    if runner == "torch":
        return compiled.export()
    from hnfc.backend.on_iree import sentence, written

    module, counted = written(compiled.export(), library=runner == "stablehlo")
    if counted:
        compiled.notes.append(sentence(counted))
    return module


_RUNNERS = {"iree": "iree", "linalg": "iree", "stablehlo": "stablehlo", "vhlo": "stablehlo"}
"""By form of the output: what compiles it."""


def _emit(compiled: Any, form: str, rewritten: bool) -> bytes:
    from hnfc.backend.torch_mlir import emit_bytecode, emit_linalg, emit_torch

    if form == "num":
        return (str(compiled.imported.module) + "\n").encode()
    module = prepared(compiled, _RUNNERS.get(form, "torch") if rewritten else "torch")
    located = compiled.imported.located
    if form == "mlirbc":
        return bytes(emit_bytecode(module))
    if form == "iree":
        from hnfc.backend.iree import compile_iree

        return compile_iree(module)
    if form in ("stablehlo", "vhlo"):
        from hnfc.backend.stablehlo import emit_portable, emit_stablehlo

        return emit_portable(module) if form == "vhlo" else emit_stablehlo(module, located).encode()
    return (emit_linalg(module) if form == "linalg" else emit_torch(module, located)).encode()
