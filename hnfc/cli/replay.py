"""`hnfc replay`: a step that `hnfc.watch` saved."""

from __future__ import annotations

import argparse
import json
import runpy
from pathlib import Path
from typing import Any

import torch

from hnfc.cli.progress import Progress
from hnfc.cli.terminal import DONE, show, write
from hnfc.core.errors import ModelError, UsageError, missing
from hnfc.watching import Replay, replay
from hnfc.watching.folder import report_of, run_of
from hnfc.watching.page import run_page


def run(options: argparse.Namespace) -> int:
    """Prints what was found at the step, or what its run gives; the exit code."""
    if options.report is not None:
        from hnfc.cli.pages import write_page

        history, fault = run_of(Path(options.folder))
        write_page(options.report, run_page, history, [fault])
    text, data = _found(options)
    show(text)
    if options.json:
        write(options.json, (json.dumps({"folder": options.folder, **data}, indent=1) + "\n").encode())
    return DONE


def _found(options: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """The words, and the same as data: its kind, and an entry for each operation, remedy or value."""
    if options.model is None:
        for option, given in (("--in", options.dtype), ("--until", options.until), ("--with", options.remedies)):
            if given is not None:
                raise UsageError(f"{option} runs the step again: give --model FILE.py:NAME, a function that makes the model")
        text = report_of(Path(options.folder))
        return text, {"kind": "report", "text": text, "entries": []}
    with Progress() as progress:
        progress("making the model …")
        step = replay(options.folder, maker(options.model))
    if options.until is not None:
        with Progress() as progress:
            progress("running the step …")
            reached = [str(operation) for operation in step.until(options.until)]
        return "\n".join(reached), {"kind": "operations", "entries": [{"text": text} for text in reached]}
    if options.remedies is not None:
        return _tried(step, [] if "all" in options.remedies else options.remedies)
    if options.dtype is None:
        with Progress() as progress:
            progress("tracing the step …")
            text = str(step.trace())
        return text, {"kind": "trace", "text": text, "entries": []}
    with Progress() as progress:
        progress(f"running the step in {options.dtype} …")
        loss, gradients = step.run(getattr(torch, options.dtype))
    named = (("the loss", loss), *((f"the gradient of {name}", gradient) for name, gradient in gradients.items()))
    values = [(name, _words(value)) for name, value in named]
    text = "\n".join([f"in {options.dtype}", *(f"  {name}: {words}" for name, words in values)])
    return text, {"kind": "values", "in": options.dtype, "entries": [{"name": name, "text": words} for name, words in values]}


def _tried(step: Replay, names: list[str]) -> tuple[str, dict[str, Any]]:
    """The effect of each remedy on the step."""
    with Progress() as progress:
        progress("trying remedies …")
        tried = step.attempt(*names)
    entries: list[dict[str, Any]] = [{"name": trial.name, "mends": trial.mends, "text": str(trial)} for trial in tried]
    lines = [f"{'mends' if trial.mends else 'does not mend':14}{trial.name:18}{trial}" for trial in tried]
    for name in names:
        if all(trial.name.partition("=")[0] != name.partition("=")[0] for trial in tried):
            nothing = "the step has nothing that it could change"
            lines.append(f"{'not tried':14}{name:18}{nothing}")
            entries.append({"name": name, "mends": None, "text": nothing})
    return "\n".join(lines), {"kind": "remedies", "entries": entries}


def maker(named: str) -> Any:
    """The function FILE.py:NAME. Raises UsageError and ModelError."""
    file, _, name = named.rpartition(":")
    if not file:
        raise UsageError(f"a model is FILE.py:NAME, not {named!r}")
    if not Path(file).is_file():
        raise missing(file)
    try:
        found = runpy.run_path(file, run_name="__hnfc__")
    except Exception as error:  # whatever the user's file does
        raise ModelError(f"running it failed: {type(error).__name__}: {error}", file) from error
    if not callable(found.get(name)):
        raise ModelError(f"it defines no function {name}", file)
    return found[name]


def _words(value: Any) -> str:
    leaves = [leaf.detach().double() for leaf in torch.utils._pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]
    if not leaves:
        return "none"
    bad = sum(int((~leaf.isfinite()).sum()) for leaf in leaves)
    count = sum(leaf.numel() for leaf in leaves)
    if count == 1:
        return f"{float(leaves[0].reshape(())):.6g}"
    return f"{bad} of {count} not finite" if bad else f"finite, at most {max(float(leaf.abs().max()) for leaf in leaves):.3g}"
