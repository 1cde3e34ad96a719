"""The table of docs/runners.md: errors of each operation on each runner, and what hnfc writes instead."""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from hnfc.backend.on_iree import IREE, form_named, written
from hnfc.backend.on_onnx import ONNX
from hnfc.dialects.num.base import NumOp
from hnfc.runners.measuring import SIZE, Accuracy, on_runner, subject
from hnfc.runners.programs import measured

FORMATS = ("f64", "f32", "f16")
HEADINGS = (
    "operation", "torch", "IREE", "hnfc on IREE", "instead of IREE's", "IREE at its worst", "onnxruntime", "hnfc on onnxruntime",
)  # fmt: skip
_BAD = 16.0
_INTRODUCTION = """# Operations on the runners

Largest error of each elementwise operation in units in the last place, for {formats}, as torch, IREE and onnxruntime (by torch's
exporter) compute it, and as IREE and onnxruntime compute what hnfc writes for it (`hnfc run --on iree -O stability`, `--emit iree`, `--emit
linalg`; `--on onnx`, `--emit onnx`; any level but `none`). For `--emit stablehlo` and `--emit vhlo`
functions that every mathematical library has stay. torch always runs its own.

Each is measured on {size} operands over the whole range of the format against ball arithmetic. "wrong" stands for an infinity or a NaN in
the place of a number, or for a number that has no right digit; "–" for an operation that the runner does not run in that format; † for
results below the smallest normal number that become 0, which do not count as errors. An error of 0.5 is correct rounding.

torch {torch}, IREE {iree}, onnxruntime {onnx}. `python -m hnfc.runners` writes this page.
"""
_NOTES = """
- `sin`, `cos` and `tan` are measured up to 8e8, `fmod` and `remainder` up to quotients of 2^52. Beyond, float32 has IREE's own functions
  (sin(1e10) is 1e23 there), and the forms for float64 give NaN.
- A power with a constant exponent stays IREE's, which is accurate for those.
- `lgamma` has no form yet.
- NaN: each operation gives NaN where torch does, in what hnfc writes for IREE. IREE's own maximum and minimum drop a NaN of their first
  operand, and its own power of NaN by 0 is NaN; torch's is 1.
- In float16 torch computes these functions in float32; so does what hnfc writes, and in bfloat16 too.
"""


def document(progress: Callable[[str], None]) -> str:
    """The page. progress: takes the name of each operation before it is measured."""
    names = ", ".join(f"{element[1:]}" for element in FORMATS[:-1]) + f" and {FORMATS[-1][1:]} bits"
    packages = {"torch": version("torch"), "iree": version("iree-base-compiler"), "onnx": version("onnxruntime")}
    rows = [f"| {' | '.join(HEADINGS)} |", f"|{' --- |' * len(HEADINGS)}"]
    for name, (kind, attributes) in measured().items():
        progress(name)
        rows.append(f"| {' | '.join(row(name, kind, attributes))} |")
    return _INTRODUCTION.format(formats=names, size=SIZE, **packages) + "\n" + "\n".join(rows) + "\n" + _NOTES


def row(name: str, kind: type[NumOp], attributes: dict[str, Any]) -> tuple[str, ...]:
    """The cells of one operation."""
    cells: dict[str, list[str]] = {"torch": [], "iree": [], "written": [], "onnx": [], "written for onnx": []}
    worst = Accuracy(0.0)
    where = ""
    for element in FORMATS:
        module, arrays, want = subject(kind, attributes, element)
        cells["torch"].append(cell(on_runner(module, arrays, want, element, "torch")))
        own = on_runner(module, arrays, want, element, "iree")
        cells["iree"].append(cell(own))
        if own.missing == "" and own.ulps > max(worst.ulps, _BAD):
            worst, where = own, element
        cells["onnx"].append(cell(on_runner(module, arrays, want, element, "onnx")))
        for column, forms, backend in (("written", IREE, "iree"), ("written for onnx", ONNX, "onnx")):
            other, counted = written(module, forms)
            cells[column].append(cell(on_runner(other, arrays, want, element, backend)) if counted else "own")
    for column in ("written", "written for onnx"):
        if set(cells[column]) == {"own"}:
            cells[column] = []
    torch, iree, ours, onnx, ours_there = (" / ".join(values) for values in cells.values())
    return f"`{name}`", torch, iree, ours, instead(name), _example(name, worst, where), onnx, ours_there


def instead(name: str) -> str:
    """Description of the form, from its docstring; empty without one."""
    form = form_named(name)
    return (form.__doc__ or "").split("\n")[0].rstrip(".").replace("|", "\\|") if form is not None else ""


def cell(accuracy: Accuracy) -> str:
    """The error in a few digits."""
    if accuracy.missing:
        return "–"
    wrong = accuracy.ulps > 1e3 and _no_digit(accuracy)
    text = "wrong" if wrong else f"{accuracy.ulps:.2g}" if accuracy.ulps < 100 else f"{accuracy.ulps:.0f}"
    return text + ("†" if accuracy.flushes else "")


def _no_digit(accuracy: Accuracy) -> bool:
    return not math.isfinite(accuracy.ulps) or not abs(accuracy.got - accuracy.want) < 0.5 * abs(accuracy.want)


def _example(name: str, worst: Accuracy, element: str) -> str:
    if not element:
        return ""
    arguments = ", ".join(f"{x:.3g}" for x in worst.at)
    return f"{element}: {name.split()[0]}({arguments}) = {worst.got:.4g}, {worst.want:.4g} is right"
