"""Models in folders of shards: `hnfc precision`, `hnfc analyze` and `hnfc MODEL` layer by layer."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from hnfc import sharded
from hnfc.cli.parsing import command_parser
from hnfc.cli.progress import Progress
from hnfc.cli.terminal import DONE, WRONG, finite, say, show, write
from hnfc.core.archives import read_arrays
from hnfc.core.errors import ModelError, UsageError, first_line
from hnfc.core.saved_steps import is_step
from hnfc.core.tensors import to_torch
from hnfc.pytorch.saved_calls import saved_arguments
from hnfc.report.table import table
from hnfc.sharded.analyzing import HEADINGS

_FLAGS = {"output": "-o", "ranges": "--range", "machine": "--target"}
"""Flags whose names differ from those of their values."""
_FORMATS = ("int8", "int4/group128")


def run(options: argparse.Namespace) -> int:
    """Runs the command `options.folder_command`; the exit code."""
    command = options.folder_command
    given = ["--calibrate", "x"] if command == "precision" else []
    defaults = command_parser(command).parse_args([options.model, *given])
    return _COMMANDS[command](options, defaults)


def _precision(options: argparse.Namespace, defaults: argparse.Namespace) -> int:
    """Writes the model of a folder in the cheapest formats that meet the target; the exit code."""
    _check(options, defaults, {"calibrate", "target", "formats", "margin", "output", "json", "all"})
    if options.output is None:
        raise UsageError("-o names the folder that a model in a folder is written to; give it")
    if len(options.target) > 1 or any("=" in text for text in options.target):
        raise UsageError("a model in a folder has one target for all outputs: --target-accuracy 1e-2")
    try:
        target = float(options.target[0]) if options.target else 1e-2
    except ValueError:
        raise UsageError(f"--target-accuracy takes a number above 0, not `{options.target[0]}`") from None
    formats = _FORMATS if options.formats == defaults.formats else tuple(filter(None, options.formats.split(",")))

    def run(model: sharded.ShardedModel, sample: Any, progress: Callable[[str], None]) -> sharded.ShardedPrecision:
        return sharded.precision(model, sample, options.output, target, formats, options.margin, progress)

    found = _run(options, run)
    if options.json:
        write(options.json, (json.dumps(finite(found.data()), indent=1) + "\n").encode())
    counts: dict[str, int] = {}
    for form in found.formats.values():
        counts[form] = counts.get(form, 0) + 1
    if options.all:
        rows = [[name, form] for name, form in found.formats.items()]
        show(table(["weight", "format"], rows, 0))
    size, before = (sum(getattr(layer, key) for layer in found.layers) for key in ("bytes", "original_bytes"))
    say(", ".join(f"{count} weights in {form}" for form, count in sorted(counts.items())))
    say(f"{size:,.0f} bytes of these weights, {before:,} before; others are as they were")
    say(f"error of the outputs {found.measured:.3g} of their root mean square on the sample, allowed {target:.3g}: measured, not a bound")
    if found.refused:
        margin = options.margin * max(found.measured / target, 1.1)
        more = f"--margin {math.ceil(margin * 10) / 10:g} or " if math.isfinite(margin) else ""
        say(f"the target is missed, and {options.output} is no model: delete it, and try {more}a larger --target-accuracy")
        return WRONG
    return DONE


def _analyze(options: argparse.Namespace, defaults: argparse.Namespace) -> int:
    """Shows the errors of a folder's model layer by layer; the exit code."""
    _check(options, defaults, {"calibrate", "estimate", "json", "work", "top"})

    def run(model: sharded.ShardedModel, sample: Any, progress: Callable[[str], None]) -> sharded.ShardedErrors:
        return sharded.analyze(model, sample, options.work, progress)

    found = _run(options, run)
    if options.json:
        write(options.json, (json.dumps(finite(found.data()), indent=1) + "\n").encode())
    show(table(HEADINGS, found.rows(), 1))
    infinite = sum(layer.infinite for layer in found.layers)
    if infinite:
        say(f"{infinite} elements are not finite, first in {next(layer.name for layer in found.layers if layer.infinite)}")
    say(found.summary())
    return DONE


def _rewrite(options: argparse.Namespace, defaults: argparse.Namespace) -> int:
    """Says what rewrites do to a folder's model; the exit code. Its weights are what they are, so that nothing is written."""
    _check(options, defaults, {"calibrate", "level", "rules", "json", "work"})
    group = (*options.level.split(","), *options.rules)

    def run(model: sharded.ShardedModel, sample: Any, progress: Callable[[str], None]) -> sharded.RewrittenModel:
        return sharded.optimize(model, sample, group, options.work, progress)

    found = _run(options, run)
    if options.json:
        write(options.json, (json.dumps(finite({"layers": list(found.layers)}), indent=1) + "\n").encode())
    say(found.report())
    say("weights stay as they are; hnfc.sharded.optimize returns the rewritten model, which runs layer by layer")
    return DONE


_COMMANDS = {"precision": _precision, "analyze": _analyze, "model": _rewrite}


def _run(options: argparse.Namespace, run: Callable[[sharded.ShardedModel, Any, Callable[[str], None]], Any]) -> Any:
    with Progress() as progress:
        progress("reading …")
        model = sharded.open_folder(options.model)
        return run(model, sample_from(options.calibrate), progress)


def sample_from(file: str | None) -> Any:
    """Arrays arg0, arg1 … as positional arguments, or arrays by the names of arguments; or those of a step that `hnfc.watch` saved."""
    if file is None:
        raise UsageError("a model in a folder needs a sample: --calibrate F.npz, with arrays by the names of its arguments, as input_ids")
    if is_step(file):
        args, kwargs = saved_arguments(Path(file))
        if args and kwargs:
            raise ModelError("the step has positional and keyword arguments; give one kind in a .npz", file)
        return args or kwargs
    try:
        found = {name: to_torch(array) for name, array in read_arrays(file, "samples").items()}
    except (ValueError, TypeError) as error:
        raise ModelError(f"it is no .npz file of arrays: {first_line(error)}", file) from None
    places = [name for name in found if name.startswith("arg") and name[3:].isdigit()]
    if places and len(places) == len(found):
        return tuple(found[name] for name in sorted(found, key=lambda name: int(name[3:])))
    return found


def _check(options: argparse.Namespace, defaults: argparse.Namespace, taken: Collection[str]) -> None:
    """Raises UsageError for an option that is given and not taken."""
    for name, value in vars(options).items():
        if name not in {"model", "no_cache", "quiet", "verbose", "folder_command", *taken} and value != getattr(defaults, name):
            flag = _FLAGS.get(name, f"--{name.replace('_', '-')}")
            raise UsageError(f"{Path(options.model).name} is a folder, and {flag} is for models in files; leave it out")
