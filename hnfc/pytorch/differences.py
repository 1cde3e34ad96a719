"""Differences between a model and its optimized form: each rule, its location, its proof, and its effect on the error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from hnfc.core.errors import UsageError
from hnfc.pytorch.optimized import programs_of


@dataclass(frozen=True)
class Difference:
    """`text` is for people; `data` the same as the command line's `--json`, one entry for each kind of call that was captured."""

    text: str
    data: tuple[dict[str, Any], ...]

    def __str__(self) -> str:
        return self.text

    def __bool__(self) -> bool:
        return any(entry["rewrites"] for entry in self.data)


def diff(model: torch.nn.Module, better: torch.nn.Module) -> Difference:
    """The rewrites in `better` over `model`. Raises UsageError where `better` does not come from `model` by `hnfc.optimize`."""
    programs = programs_of(better)
    if model._parameters is not better._parameters or model._modules is not better._modules:
        raise UsageError("the second module was not made from the first: they do not share their parameters")
    sections = []
    for program in programs:
        mode = "train" if program.training else "eval"
        inputs = ", ".join("×".join(map(str, shape)) or "scalar" for shape in program.sizes.shapes if shape is not None)
        head = f"in {mode} mode, inputs {inputs}:\n" if len(programs) > 1 else ""
        sections.append(head + program.report.text)
    return Difference("\n\n".join(sections), tuple(program.report.data for program in programs))
