"""`hnfc run`: a model on arrays, as it is or rewritten, and both beside each other."""

from __future__ import annotations

import argparse
import io
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects.func import FuncOp

from hnfc.backend.entries import entry
from hnfc.backend.execution import arrays_for, comparing, runner
from hnfc.backend.references import is_of_onnx, run_with_references
from hnfc.cli.progress import Progress
from hnfc.cli.rewriting import prepared, rewriting
from hnfc.cli.terminal import DONE, WRONG, show, write
from hnfc.core.errors import UsageError
from hnfc.dialects.types import format_of
from hnfc.frontend.models import read_model
from hnfc.frontend.torch_mlir import import_module
from hnfc.pipeline.compile import compile_module
from hnfc.report.table import table
from hnfc.validation.measurement import Reference, measure

Array: TypeAlias = Any


def run(options: argparse.Namespace) -> int:
    """Runs the command; the exit code."""
    if options.level is None:
        searching = options.search != "greedy" or options.cost is not None or options.target is not None
        options.level = "stability" if options.compare or searching else "none"
        if options.report and options.level == "none" and not options.rules:
            raise UsageError("--report shows what rewriting changed; give --compare or -O LEVEL too")
    with Progress() as progress:
        progress("reading …")
        module = read_model(options.model)
        target = entry(module, options.function)
        inputs = arrays_for(target, options.inputs)
        results: dict[str, list[Array]] = {}
        reference: list[tuple[Array, Any] | None] = []
        kind = ""
        rewritten = options.level != "none" or bool(options.rules) or options.search != "greedy"
        if options.on == "torch" and options.model != "-" and is_of_onnx(module):
            progress("running on torch …")
            module, found = run_with_references(options.model, module, target.name, inputs)
            if options.compare or not rewritten:
                results["original" if options.compare else ""] = found
        elif options.compare or not rewritten:
            progress(f"running on {options.on} …")
            results["original" if options.compare else ""] = runner(module, target.name, options.on)(inputs)
        if options.compare:
            progress("computing what should come out …")
            reference, kind = _truth(module, target.name, inputs)
        compiled = rules = None
        if rewritten:
            rules = rewriting(options, progress, samples=[inputs], observed=True, runner=comparing(module, options.on))
            if rules is None:
                return WRONG
            compiled = compile_module(module, rules.request, progress)
            progress(f"running on {options.on} …")
            output = prepared(compiled, options.on)
            results["rewritten" if options.compare else ""] = runner(output, target.name, options.on)(inputs)
    headings, rows = _rows(results, reference)
    if rules is not None:
        rules.report(compiled, _section(headings, rows, kind) if options.report else ())
    if options.output:
        write(options.output, _stored(list(results.values())[-1]))
    show(_summary(headings, rows, kind))
    return DONE


def _section(headings: list[str], rows: list[list[str]], kind: str) -> list[Any]:
    """The results as a part of the page."""
    from hnfc.cli import pages

    intro = f"{_AGAINST.get(kind, _UNKNOWN)}." if "error" in headings else ""
    return [pages.table_section("results", "Results on the given inputs", intro, headings, rows)]


def _truth(module: Any, function: str, inputs: list[Array]) -> tuple[list[tuple[Array, Any] | None], str]:
    """Reference of each result and its format, where hnfc can compute it, and the method: exact, or float64."""
    imported = import_module(module)
    chosen = [op for op in imported.module.ops if isinstance(op, FuncOp) and op.sym_name.data == function]
    if not chosen:
        return [], ""
    block = chosen[0].body.block
    reference = Reference.of(block, [dict(zip(block.args, inputs, strict=True))], imported.weight)
    if not reference.truth or block.last_op is None:
        return [], ""
    truth: list[tuple[Array, Any] | None] = []
    for value in block.last_op.operands:
        form = format_of(value.type)
        truth.append((reference.truth[0][value], form) if value in reference.truth[0] and form is not None else None)
    return truth, reference.kind


_AGAINST = {"exact": "errors are relative to the values over the reals", "float64": "errors are relative to the model in float64"}
_UNKNOWN = "hnfc cannot compute what should come out: the model has operations that it does not know"


def _rows(results: dict[str, list[Array]], truth: list[tuple[Array, Any] | None]) -> tuple[list[str], list[list[str]]]:
    """Headings, and one line for each result, or two where the model and its rewritten form are compared."""
    compared = len(results) > 1
    headings = ["output", *(["of"] if compared else []), "type", "min", "max", "mean", "NaN", "inf", *(["error"] if compared else [])]
    rows = []
    for index in range(max(map(len, results.values()), default=0)):
        for name, arrays in results.items():
            row = [str(index), *([name] if compared else []), *_described(arrays[index])]
            rows.append([*row, *([_error(arrays[index], truth, index)] if compared else [])])
    return headings, rows


def _summary(headings: list[str], rows: list[list[str]], kind: str) -> str:
    if not rows:
        return "the function has no results"
    text = table(headings, rows, headings.index("type"))
    return f"{text}\n{_AGAINST.get(kind, _UNKNOWN)}" if "error" in headings else text


def _described(array: Array) -> list[str]:
    kind = f"{array.dtype.name}[{', '.join(map(str, array.shape))}]"
    if array.dtype.kind == "c":
        array = np.abs(array)
    wide = array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    ends = [f"{value:.6g}" for value in (finite.min(), finite.max(), finite.mean())] if finite.size else ["", "", ""]
    return [kind, *ends, str(int(np.isnan(wide).sum())), str(int(np.isinf(wide).sum()))]


def _error(array: Array, truth: list[tuple[Array, Any] | None], index: int) -> str:
    known = truth[index] if index < len(truth) else None
    return "unknown" if known is None else str(measure(array, *known))


def _stored(arrays: list[Array]) -> bytes:
    """An `.npz` file. Types that NumPy lacks are stored as raw bytes, as it would store most of them and can read them."""
    stream = io.BytesIO()
    plain = [array if array.dtype.isbuiltin == 1 else array.view(f"V{array.dtype.itemsize}") for array in arrays]
    np.savez(stream, **{f"output{index}": array for index, array in enumerate(plain)})
    return stream.getvalue()
