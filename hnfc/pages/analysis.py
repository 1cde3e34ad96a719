"""The page of `hnfc analyze`: range and error of every value of a model, and where accuracy is lost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hnfc.analysis.findings import Finding, Findings
from hnfc.analysis.spectral import Spectrum
from hnfc.pages.document import Block, Page, PageCell, PageSection, PlotBlock, TableBlock, TextBlock, Tone
from hnfc.pages.graphs import Column, graph_block, merged, range_fact, short
from hnfc.pages.places import line_of, module_of, source_lines
from hnfc.pages.plots import growth_spec
from hnfc.pipeline.graphs import FunctionGraph
from hnfc.report.analysis import rows_of

_TOP = 12
_LEVEL_LINES = ("certified", "probabilistic", "an estimate")
"""Beginnings of the lines that name the level of the numbers."""


def analysis_page(found: Findings, graph: FunctionGraph, weights: Sequence[Spectrum], model: str, command: str) -> Page:
    """graph: that of the function whose values the findings are about."""
    entries, of_graph, _ = merged(graph, None)
    for finding in found.findings:
        if finding.value in graph.index:
            entry = entries[of_graph[graph.index[finding.value]]]
            entry.facts = _certified(finding) if found.certified else _estimated(finding)
    worst = sorted(found.findings, key=lambda f: (f.growth, f.error), reverse=True)
    worst = [f for f in worst if f.growth > (1 if found.certified else 0)]
    headline, tone = _headline(found)
    sections = [
        PageSection("worst", "Where accuracy is lost", _meaning(found), [_worst(found), *_growth(found)]),
        PageSection(
            "model",
            "The model",
            "Choose a module to open it, a value for its source and its numbers.",
            [graph_block(0, graph.name, entries, _columns(found), "error", ("values",))],
        ),
        *_weights(weights),
    ]
    return Page(
        model,
        "analysis",
        command,
        headline,
        tone,
        [
            ("What was found", _outputs(found)),
            ("Where", _where(worst[:3], found)),
            ("What it means", [line for line in found.summary().split("\n") if line.startswith(_LEVEL_LINES)]),
            ("What next", _next(found)),
        ],
        sections,
        source_lines((entry.node.place for entry in entries), [Path.cwd(), Path(model).resolve().parent]),
    )


def _headline(found: Findings) -> tuple[str, Tone]:
    if found.probability is not None:
        bound = f"at most {short(found.error)} with probability {found.probability:.10g}" if math.isfinite(found.error) else "unbounded"
        return f"The outputs' error (root mean square) is {bound}, if roundings are independent and unbiased.", "plain"
    if not found.certified:
        return f"The outputs are off by about {short(found.error)}, on inputs like the samples.", "plain"
    if not math.isfinite(found.error):
        return "An output has no bound: somewhere on its way a value can be infinite or is not known.", "warn"
    return f"No input in the ranges has an error above {short(found.error)} at an output.", "good"


def _outputs(found: Findings) -> list[str]:
    if found.certified and not found.outputs:
        return ["No output has a bound."]
    return found.summary().split("\n")[: len(found.outputs) or 1]


def _where(worst: Sequence[Finding], found: Findings) -> list[str]:
    return [f"`{line_of(f.place)}`: {f.operation}, {_growth_words(f, found)}" for f in worst] or ["Nowhere."]


def _growth_words(f: Finding, found: Findings) -> str:
    if not found.certified:
        return f"{f.growth:.0%} of the squared error"
    return f"relative error grows {short(f.growth)}×" if math.isfinite(f.growth) else "its relative error has no bound"


def _next(found: Findings) -> list[str]:
    lines = ["`hnfc MODEL -O accuracy` searches for forms that lose less; `hnfc precision` finds the formats that a target needs."]
    if found.certified and not math.isfinite(found.error):
        lines.insert(0, "`hnfc MODEL -O stability` rewrites what overflows; smaller ranges may give a bound.")
    if found.missing:
        lines.append("No bound for: " + ", ".join(f"{why} ×{n}" if n > 1 else why for why, n in found.missing.items()) + ".")
    return lines


def _meaning(found: Findings) -> str:
    if found.certified:
        return (
            "`error ≤` bounds the error of every element, `grows ×` is how much larger its relative error is than that of the operands; "
            "`L` is by how much errors of operands grow, `Δ` the error that the operation adds, `κ` its condition number."
        )
    return "`moves outputs by` is how far the rounding of a value moves the outputs, `part` its share of their squared error."


def _worst(found: Findings) -> Block:
    headings, rows = rows_of(found, _TOP)
    return TableBlock(headings, [[PageCell(cell, code=i == 0) for i, cell in enumerate(row)] for row in rows])


def _growth(found: Findings) -> list[Block]:
    points = [(i, f) for i, f in enumerate(found.findings) if 0 < f.error < math.inf]
    if not points:
        return [TextBlock("No value has a finite error above 0, so that there is no plot of its growth.")]
    rows = [{"n": i, "error": f.error, "operation": f.operation, "at": f.place, "module": ".".join(module_of(f.place))} for i, f in points]
    what = "Bound of the error of each value" if found.certified else "How far the rounding of each value moves the outputs"
    missing = len(found.findings) - len(points)
    aside = f"; {missing} values with none, 0 or an infinite one are left out" if missing else ""
    return [PlotBlock("growth", growth_spec(rows), f"{what}, in the order of the program, on a logarithmic scale{aside}.")]


def _columns(found: Findings) -> list[Column]:
    if not found.certified:
        return [
            Column(
                "error",
                "moves outputs by",
                "how far the rounding of the value moves the outputs, no certified bound",
                "number",
                -10,
                0,
                "1e-10",
                "1",
            ),
            Column("part", "part", "share of the squared error of the outputs"),
            Column("range", "values on samples", "the finite values lie in this range", "range", -2, 38, "small", "1e38"),
            Column("median", "median size", "half of the elements are smaller on the samples"),
            Column("odd", "not finite, subnormal", "numbers of such elements on the samples"),
        ]
    return [
        Column("error", "error ≤", "bound of the absolute error of every element", "number", -8, 2, "1e-8 or less", "100 or no bound"),
        Column(
            "growth", "grows ×", "its relative error beside the largest one of its operands", "number", 0, 6, "as its operands", "10⁶ times"
        ),
        Column("range", "range", "no input in the ranges leads out of it", "range", -2, 38, "small", "1e38 or infinite"),
        Column("L", "L", "by how much errors of operands grow on the way"),
        Column("delta", "Δ", "the error that the operation adds by rounding"),
        Column("kappa", "κ", "its condition number"),
    ]


def _certified(f: Finding) -> dict[str, Any]:
    facts: dict[str, Any] = {"error": f.error, "growth": f.growth, "range": range_fact(f.low, f.high, " or NaN" if f.nan else "")}
    return facts | {key: short(x) for key, x in (("L", f.lipschitz), ("delta", f.rounding), ("kappa", f.condition)) if x is not None}


def _estimated(f: Finding) -> dict[str, Any]:
    facts: dict[str, Any] = {"error": f.error, "part": f"{f.growth:.1%}", "range": range_fact(f.low, f.high)}
    if f.quantiles:
        facts["median"] = short(f.quantiles[1])
    return facts | {"odd": f"{f.nonfinite}, {f.subnormals}"}


def _weights(weights: Sequence[Spectrum]) -> list[PageSection]:
    if not weights:
        return []
    rows = [(PageCell(m.name, code=True), "×".join(map(str, m.shape)), short(m.norm), short(m.condition)) for m in weights]
    return [
        PageSection(
            "weights",
            "Weight matrices",
            "The worst conditioned first.",
            [TableBlock(("weight", "shape", "spectral norm", "condition number"), rows)],
        )
    ]
