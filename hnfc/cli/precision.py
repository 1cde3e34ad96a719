"""`hnfc precision`: the cheapest formats with which a model meets a target, or what stands in the way."""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from hnfc.cli.progress import Progress
from hnfc.cli.terminal import DONE, WRONG, report_diagnostics, say, show, write
from hnfc.core.errors import UsageError
from hnfc.dsl.diagnostics import HnfError
from hnfc.formats.named import UnknownFormat
from hnfc.precision.assignment import Requirements, machine_of
from hnfc.precision.files import FileAnalysis, analyze_file
from hnfc.precision.outcomes import cochain_of, rows_of
from hnfc.precision.picture import picture
from hnfc.precision.policy import Policy
from hnfc.report.table import filled, table


def run(options: argparse.Namespace) -> int:
    """Runs the command; the exit code: 1 also where no formats meet the target."""
    if not 1 <= options.headroom < float("inf"):
        raise UsageError("--headroom takes a number from 1")
    if not 0 <= options.width < float("inf") or (options.width and not options.certified):
        raise UsageError("--width takes a number from 0, and goes with --certified")
    if options.output and not options.emit:
        raise UsageError("-o says where --emit writes the model; give both")
    with Progress() as progress:
        progress("measuring …")
        try:
            width = options.width if options.certified else None
            found: FileAnalysis = analyze_file(options.model, options.calibrate, _requirements(options), width)
        except UnknownFormat as error:
            raise UsageError(_unknown(error)) from None
        except HnfError as error:
            progress.stop()
            report_diagnostics(error)
            return WRONG
        progress("writing …")
        if options.picture:
            write(options.picture, picture(found.sites, found.outcome, cochain_of(found.sites, found.outcome)).encode())
        if options.json:
            write(options.json, (json.dumps(found.data(), indent=1, allow_nan=False) + "\n").encode())
        if options.report:
            from hnfc.cli import pages

            words = [] if found.refused else _words(found, options)
            errors = () if found.refused else found.outputs
            pages.write_page(options.report, pages.precision_page, found.sites, found.outcome, words, errors, options.model)
        output = found.emit() if options.emit and not found.refused else None
    return _tell(found, options, output)


def _unknown(error: UnknownFormat) -> str:
    """The first fault of the names given to --formats, in one line."""
    fault = error.diagnostics[0]
    return f"{fault.message}; {fault.help}" if fault.help else fault.message


def _tell(found: Any, options: argparse.Namespace, output: bytes | None) -> int:
    to_terminal = say if options.emit and options.output is None else show
    if found.refused:
        to_terminal("no assignment of formats meets the target:")
        for reason in found.outcome.reasons:
            to_terminal(f"  {reason}")
        to_terminal(found.outcome.certificate)
        help_is = "any one of these would resolve it:" if found.outcome.relaxations else "no single change was found that resolves it"
        to_terminal(help_is)
        for relaxation in found.outcome.relaxations:
            to_terminal(f"  {relaxation.change} ({relaxation.cost})")
        return WRONG
    if output is not None:
        write(options.output, output)
    counts = Counter(found.outcome.formats.values())
    common = counts.most_common(1)[0][0]
    rows = [[*words, f"{part:.1%}"] for *words, part in rows_of(found.sites, found.outcome) if options.all or words[2] != common]
    if rows:
        to_terminal(table(["site", "role", "format", "range", "part of the error"], rows, 0))
    kinds = ", ".join(f"{n} sites in {form}" for form, n in counts.most_common())
    say(kinds + ("" if options.all else f"; all that are not shown are in {common}"))
    say(filled("\n".join(_words(found, options))))
    return DONE


def _words(found: Any, options: argparse.Namespace) -> list[str]:
    """Errors and costs of an assignment."""
    unit = "" if options.absolute else " of their root mean square"
    lines = [f"error of the outputs about {found.error:.3g}{unit}, {found.measured:.3g} on the samples{_allowed(found)}"]
    if found.outcome.not_counted:
        lines.append(f"  {found.outcome.not_counted}")
    for of in found.outputs:
        allowed = f"allowed {of.allowed:.3g}" if of.allowed < float("inf") else "no target"
        proved = "" if of.proved is None else f", at most {of.proved:.3g} proved"
        lines.append(f"  {of.name}: about {of.estimated:.3g}, {of.measured:.3g} on the samples{proved}, {allowed}")
    lines.append(
        f"{found.outcome.size:,.0f} bytes in all, {found.outcome.size / found.original_size:.0%} of the original's; "
        f"{found.outcome.peak:,.0f} live at the worst moment, {found.outcome.moved:,.0f} read and written"
    )
    if found.outcome.seconds is not None:
        late = options.least == "time" and found.outcome.bound < found.outcome.seconds * (1 - 1e-6)
        least = f"; what is proved is that nothing takes less than {found.outcome.bound:.3g} s" if late else ""
        lines.append(f"{found.outcome.seconds:.3g} s by the model of {options.machine}, with casts, nothing fused or overlapped{least}")
    if found.proved is not None:
        reach = f"all inputs within {options.width:g} of the samples" if options.width else "the samples"
        lines.append(f"at most {found.proved:.3g}{unit} for {reach}, where each operation rounds once: proved")
    by_estimates = "formats were chosen by estimates from the samples"
    lines.append(by_estimates if found.proved is not None else "an estimate from the samples, not a bound")
    return lines


def _allowed(found: Any) -> str:
    return "" if found.outputs else f", allowed {found.requirements.target:.3g}"


def _target(given: Sequence[str]) -> float | dict[int | str, float]:
    """One number for all outputs together, or numbers by outputs."""
    targets: dict[int | str, float] = {}
    for text in given or ("1e-3",):
        name, separator, number = text.rpartition("=")
        try:
            error = float(number)
        except ValueError:
            error = 0.0
        if not error > 0 or (separator and not name):
            raise UsageError(f"--target-accuracy takes a number above 0, or OUTPUT=NUMBER, not `{text}`")
        if not separator and len(given) > 1:
            raise UsageError("--target-accuracy takes one number for all outputs together, or OUTPUT=NUMBER for each, and not both")
        if not separator:
            return error
        targets[name] = error
    return targets


def _requirements(options: argparse.Namespace) -> Any:
    pins = {}
    for text in options.pin:
        pattern, separator, form = text.rpartition("=")
        if not separator or not pattern:
            raise UsageError(f"--pin takes PATTERN=FORMAT, not `{text}`")
        pins[pattern] = form
    pairs = []
    for text in options.no_cast:
        first, separator, second = text.partition(",")
        if not first or not second:
            raise UsageError(f"--no-cast takes two patterns, A,B, not `{text}`")
        pairs.append((first, second))
    # commas also stand between the arguments of formats, as in fixed(3, 4)
    formats = tuple(part.strip() for part in re.split(r",(?![^(]*\))", options.formats) if part.strip())
    if not formats:
        raise UsageError("--formats takes names of formats, such as bf16,fp32")
    policy = None
    if options.policy:
        try:
            policy = Policy.parse(options.policy)
        except ValueError as error:
            raise UsageError(str(error)) from None
    machine, least = machine_of(options.machine, options.least, formats)
    return Requirements(
        _target(options.target), not options.absolute, formats, pins, pairs, _size(options.memory_budget), policy, options.headroom,
        target_machine=machine, least=least, scaling=not options.plain, saturation=not options.plain,
        margin=options.margin,
    )  # fmt: skip


_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40, "B": 1}


def _size(text: str) -> float:
    number = text.strip().rstrip("BbIiKkMmGgTt")
    unit = text.strip()[len(number) :].upper()
    try:
        size = float("inf") if text == "inf" else float(number) * _UNITS[unit]
    except (ValueError, KeyError):
        size = float("nan")
    if not size >= 0:
        raise UsageError(f"--memory-budget takes bytes from 0 or a size such as 24GB, not `{text}`")
    return size
