"""Differences between a model and its optimized form: each rule, its location, its proof, and its effect on the error."""

from __future__ import annotations

import torch

from hnfc.core.errors import UsageError
from hnfc.pytorch.optimized import programs_of
from hnfc.report.difference import Difference


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
