"""`hnfc analyze`: how large the values of a model are, how large their errors can be, and where accuracy is lost."""

from __future__ import annotations

import argparse
import json
from functools import partial
from typing import TYPE_CHECKING, Any

from hnfc.analysis.branch_and_bound import BoundLimits
from hnfc.analysis.curvature import curvature_of
from hnfc.analysis.findings import Findings, boxes_of, certified_findings, estimated_findings, probabilistic_findings
from hnfc.analysis.probabilistic import PROBABILITY
from hnfc.analysis.programs import Bounded, bound_program
from hnfc.analysis.reading import read_function
from hnfc.analysis.spectral import contracted_weights, spectra
from hnfc.analysis.taylor import NotAnalyzed
from hnfc.cli.jobs_options import no_programs
from hnfc.cli.progress import Progress
from hnfc.cli.terminal import DONE, WRONG, fault, finite, is_fpcore, say, show, write
from hnfc.core.errors import ModelError, UsageError
from hnfc.core.executors import executor_of, mapped
from hnfc.core.samples import from_file
from hnfc.frontend.fpcore import FPCoreProgram, read_programs
from hnfc.frontend.models import read_model
from hnfc.pipeline.graphs import graph_of
from hnfc.report.analysis import annotate, growth_picture, rows_of
from hnfc.report.table import filled, table

if TYPE_CHECKING:
    from hnfc.accuracy.improving import ProgramErrors


def run(options: argparse.Namespace) -> int:
    """Runs the command; the exit code."""
    if options.top < 1 or not options.seconds > 0:
        raise UsageError("--top takes a number from 1, and --seconds one above 0")
    if options.output and not options.emit:
        raise UsageError("-o says where --emit writes the model; give both")
    if options.estimate and options.bound not in (None, "estimate"):
        raise UsageError(f"--estimate is --bound estimate; it does not go with --bound {options.bound}")
    options.bound = options.bound or ("estimate" if options.estimate else "certified")
    options.estimate = options.bound == "estimate"
    if options.probability is not None and (options.bound != "probabilistic" or not 0 < options.probability < 1):
        raise UsageError("--probability takes a number between 0 and 1, with --bound probabilistic")
    if is_fpcore(options.model):
        given = [flag for flag, value in (("--range", options.ranges), ("--calibrate", options.calibrate), ("--estimate", options.estimate),
                                          ("--picture", options.picture), ("--emit", options.emit),
                                          ("--weights", options.weights)) if value]  # fmt: skip
        if given:
            raise UsageError(f"{given[0]} is for models; an FPCore program says its ranges itself, in :pre")
        return _programs(options)
    no_programs(options)
    if options.work:
        raise UsageError(f"--work is for a model in a folder, and {options.model} is a file; leave it out")
    if options.per != "tensor":
        options.per = _per(options)
    if options.bound != "certified" and not options.calibrate:
        raise UsageError(f"--bound {options.bound} needs samples: --calibrate F.npz")
    if options.ranges and options.calibrate:
        raise UsageError("--range bounds errors for a range of inputs, and --calibrate for samples; give one of them")
    return _model(options)


def _per(options: argparse.Namespace) -> int | str:
    if options.bound != "certified" or not options.json:
        raise UsageError("--per says what certified bounds --json has; it goes with --json, and not with --estimate or another --bound")
    try:
        return "element" if options.per == "element" else int(options.per)
    except ValueError:
        raise UsageError(f"--per takes tensor, element or the number of an axis, not `{options.per}`") from None


def _programs(options: argparse.Namespace) -> int:
    rows: list[list[str]] = []
    data: list[dict[str, Any]] = []
    bounded: dict[str, Any] = {}
    errors: dict[str, ProgramErrors | str] = {}
    refused: list[str] = []
    if options.report:
        from hnfc.cli import pages
    with Progress() as progress, executor_of(options.jobs, options.cluster) as executor:
        programs = list(read_programs(options.model, refused))
        outcomes = mapped(executor, partial(_bounded, seconds=options.seconds), programs)
        for program in programs:
            progress(f"bounding {program.name} …")
            found = next(outcomes)
            if isinstance(found, str):
                refused.append(f"{options.model}:{program.line}: {program.name}: {found}")
                data.append({"name": program.name, "problem": found})
                continue
            bounded[program.name] = found
            if options.report:
                progress(f"measuring {program.name} …")
                errors[program.name] = pages.errors_of(program)
            most = found.maximum
            culprit = f"{found.shares[0][1]:.0%} {found.shares[0][0]}" if found.shares else ""
            rows.append([program.name, f"{most.bound:.4g}", f"{most.attained:.4g}", culprit])
            at = dict(zip(found.ranges, most.point, strict=True))
            data.append({"name": program.name, "bound": most.bound, "attained": most.attained, "at": at, "seconds": most.seconds,
                         "ranges": {k: list(v) for k, v in found.ranges.items()}, "shares": [list(s) for s in found.shares]})  # fmt: skip
    if options.json:
        write(options.json, (json.dumps(finite(data), indent=1) + "\n").encode())
    for problem in refused:
        fault(f"error: {problem}")
    if not rows:
        raise ModelError(f"{options.model} has no program that can be analyzed")
    if options.report:
        pages.write_page(options.report, pages.bounded_page, bounded, errors, refused, options.model)
    show(table(["program", "error at most", "attained by the model", "most of it from"], rows, 3))
    say(filled("bounds hold for every input that meets the precondition, each operation being rounded correctly, as FPCore defines it"))
    return WRONG if refused else DONE


def _bounded(program: FPCoreProgram, seconds: float) -> Bounded | str:
    """Bound of a program's error; or the reason why there is none."""
    try:
        return bound_program(program, BoundLimits(seconds=seconds))
    except NotAnalyzed as error:
        return str(error)


def _model(options: argparse.Namespace) -> int:
    with Progress() as progress:
        progress("reading …")
        imported, function = read_function(read_model(options.model))
        block = function.body.block
        progress("analyzing …")
        found: Findings
        if options.estimate:
            found = estimated_findings(imported, block, _calibration(imported, block, function.sym_name.data, options.calibrate))
        elif options.bound == "probabilistic":
            samples = from_file(options.calibrate, block)
            found = probabilistic_findings(imported, block, samples, options.probability or PROBABILITY)
        else:
            found = certified_findings(imported, block, boxes_of(block, options.ranges, options.calibrate), options.per)
        if options.calibrate:
            found.curvature = curvature_of(block, from_file(options.calibrate, block)[0], imported.weight, imported.location)
        matrices = spectra(contracted_weights(block, imported.weight).items()) if options.weights else []
    headings, rows = rows_of(found, options.top)
    if options.json:
        data = found.data() | ({"weights": [matrix.data() for matrix in matrices]} if options.weights else {})
        write(options.json, (json.dumps(finite(data), indent=1) + "\n").encode())
    if options.picture:
        write(options.picture, growth_picture(found).encode())
    if options.report:
        from hnfc.cli import pages

        graph = graph_of(block, function.sym_name.data, imported.location)
        pages.write_page(options.report, pages.analysis_page, found, graph, matrices, options.model)
    if options.emit:
        annotate(found)
        write(options.output, (str(imported.module) + "\n").encode())
    to_terminal = say if options.emit and options.output is None else show
    to_terminal(table(headings, rows, 1))
    if options.weights:
        shown = [[m.name, "×".join(map(str, m.shape)), f"{m.norm:.3g}", f"{m.condition:.3g}"] for m in matrices[: options.top]]
        to_terminal(table(["weight", "shape", "spectral norm", "condition"], shown, 2))
    say(filled(found.summary()))
    return DONE


def _calibration(imported: Any, block: Any, function: str, samples: str) -> Any:
    try:
        from hnfc.analysis.calibrated import calibrate
        from hnfc.core.tensors import to_torch
    except ModuleNotFoundError:
        raise ModelError("--estimate runs the model in torch, which is not installed: pip install 'hnfc[torch]'") from None
    return calibrate(imported, [[to_torch(sample[a]) for a in block.args] for sample in from_file(samples, block)], function)
