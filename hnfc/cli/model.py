"""`hnfc MODEL`: a model is rewritten and written."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import PassPipeline

from hnfc.backend.execution import comparing
from hnfc.backend.iree import compile_iree
from hnfc.backend.stablehlo import emit_portable, emit_stablehlo
from hnfc.backend.torch_mlir import emit_bytecode, emit_linalg, emit_torch
from hnfc.cli.jobs_options import no_programs
from hnfc.cli.model_options import CODE
from hnfc.cli.progress import Progress
from hnfc.cli.rewriting import form_of, prepared, rewriting
from hnfc.cli.terminal import DONE, WRONG, say, write
from hnfc.core.errors import ModelError, UsageError
from hnfc.frontend.models import read_model
from hnfc.pipeline.compile import compile_module
from hnfc.pipeline.context import PipelineContext
from hnfc.pipeline.passes import CanonicalizeMovementPass, ImportTorchPass
from hnfc.report.table import width
from hnfc.report.text import why_not
from hnfc.rewrite.diagnosis import nearly

_BINARY = ("mlirbc", "vhlo", "iree", "onnx")


def run(options: argparse.Namespace) -> int:
    """Rewrites a model and writes it; the exit code."""
    no_programs(options)
    if options.work:
        raise UsageError(f"--work is for a model in a folder, and {options.model} is a file; leave it out")
    if options.unproved:
        raise UsageError("--unproved is for FPCore programs; --allow-unproved RULE lets a rule for models run unproved")
    form = form_of(options.output, options.emit)
    if form in CODE:
        raise UsageError(f"--emit {form} is for FPCore programs")
    if form in _BINARY and options.output is None and sys.stdout.isatty():
        raise UsageError(f"--emit {form} is binary; give it a file with -o OUT, or a pipe")
    with Progress() as progress:
        progress("reading …")
        module = read_model(options.model)
        rules = rewriting(options, progress, calibrate=options.calibrate, runner=_runner(module, form))
        if rules is None:
            return WRONG
        rules.rules.check(options.why_not)
        near = _nearly(module, rules.rules, options.why_not)
        compiled = compile_module(module, rules.request, progress)
        progress("writing …")
        output = _emit(compiled, form, rewritten=options.level != "none")
    rules.report(compiled)
    for name, places in near.items():
        say(why_not(compiled, name, places, width()))
    write(options.output, output)
    return DONE


def _nearly(module: Any, rules: Any, names: Sequence[str]) -> dict[str, list[Any]]:
    """For each rule the places that come closest to it in the model as it was read."""
    if not names:
        return {}
    context = PipelineContext()
    context.begin(module)
    PassPipeline((ImportTorchPass(), CanonicalizeMovementPass())).apply(context, ModuleOp([]))
    imported = context.imported
    assert imported is not None
    found: dict[str, list[Any]] = {name: [] for name in names}
    known = {rule.name: rule for phase in rules.phases for rule in phase}
    for function in (op for op in imported.module.ops if isinstance(op, FuncOp) and op.body.blocks):
        for name in names:
            found[name] += nearly(known[name], function.body.block, imported.location)
    return found


def _runner(module: Any, form: str) -> Any:
    """Runner to measure errors on: the one that the output is for, if it is installed."""
    return comparing(module, "iree" if form == "iree" else "torch")


_RUNNERS = {"iree": "iree", "linalg": "iree", "stablehlo": "stablehlo", "vhlo": "stablehlo", "onnx": "onnx"}
"""By form of the output: what compiles it."""


def _emit(compiled: Any, form: str, rewritten: bool) -> bytes:
    if form == "num":
        return (str(compiled.imported.module) + "\n").encode()
    # what torch's exporter makes of the operations themselves would lose digits, rewritten or not
    module = prepared(compiled, _RUNNERS.get(form, "torch") if rewritten or form == "onnx" else "torch")
    located = compiled.imported.located
    if form == "mlirbc":
        return bytes(emit_bytecode(module))
    if form == "iree":
        return compile_iree(module)
    if form == "onnx":
        return _onnx(module)
    if form in ("stablehlo", "vhlo"):
        return emit_portable(module) if form == "vhlo" else emit_stablehlo(module, located).encode()
    return (emit_linalg(module) if form == "linalg" else emit_torch(module, located)).encode()


def _onnx(module: Any) -> bytes:
    try:
        from hnfc.backend.onnx import emit_onnx
    except ImportError as error:
        raise ModelError(f"--emit onnx takes torch, which is not here ({error.name}): pip install 'hnfc[onnx,torch]'") from None
    return emit_onnx(module)
