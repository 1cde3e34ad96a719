"""Differences between a model and its optimized form: each rule, its location, its proof, and its effect on the error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from hnfc.core.errors import UsageError
from hnfc.core.notebook import NotebookTable, notebook_html
from hnfc.pytorch.optimized import programs_of
from hnfc.validation.measurement import Error


@dataclass(frozen=True, repr=False)
class Difference:
    """`text` is for people, and notebooks show it as HTML; `data` the same as the command line's `--json`, one entry for each kind of call
    that was captured."""

    text: str
    data: tuple[dict[str, Any], ...]

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        rewrites = sum(len(entry["rewrites"]) for entry in self.data)
        return f"Difference({rewrites} rewrites in {len(self.data)} captured calls)"

    def _repr_html_(self) -> str:
        parts: list[str | NotebookTable] = []
        for entry in self.data:
            changes = [
                [r["rule"], r["place"], r["reason"], r["verdict"].lower(), _error(r["error_before"]), _error(r["error_after"])]
                for r in entry["rewrites"]
            ]
            if changes:
                parts.append(NotebookTable(("rule", "at", "why", "over the reals", "error before", "error after"), changes))
            outputs = [[o["name"], _error(o["error_before"]), _error(o["error_after"])] for o in entry["outputs"]]
            parts.append(NotebookTable(("output", "error before", "error after"), outputs))
            parts += entry["notes"]
        count = sum(len(entry["rewrites"]) for entry in self.data)
        return notebook_html(f"{count} rewrites" if count else "nothing to rewrite", "good" if count else "plain", *parts)

    def __bool__(self) -> bool:
        return any(entry["rewrites"] for entry in self.data)


def _error(data: dict[str, Any] | None) -> str:
    """An error of a report, in words."""
    if data is None:
        return "not known"
    return str(Error(data["not_finite"], data["relative"], data["elements"], 0.0, 0.0, data["undefined"]))


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
