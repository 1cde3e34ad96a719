"""The page of a watched run: exponents of all modules over the steps beside the ends of formats, and what went wrong."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from hnfc.pages.document import Block, CodeBlock, Page, PageSection, PlotBlock, TableBlock, TextBlock, rendered
from hnfc.pages.plots import heat_spec, limits_spec, loss_spec
from hnfc.watching.faults import Fault
from hnfc.watching.history import History, ObservedStep
from hnfc.watching.record import BadStep
from hnfc.watching.series import ExponentSeries

_COLUMNS, _ROWS = 120, 48
_LINES = 8
"""Values whose exponents are drawn as lines."""
_TITLES = {
    "value": ("Results of operations", "The largest result of an operation in each module."),
    "gradient": ("Gradients", "The largest gradient of a parameter in each module."),
    "moment": ("Moments", "The largest moment of the optimizer in each module."),
    "parameter": ("Parameters", "The largest parameter in each module."),
    "update": ("Updates", "The largest update of a parameter in each module, of 1,024 elements of each parameter."),
}
_OF_MODEL = "(the model)"
_CROSS = "a cross: not finite there"


def write_run_page(path: Path, history: History, bad: Sequence[BadStep]) -> None:
    """Writes the page of a run."""
    path.write_text(rendered(run_page(history, [Fault.of(each) for each in bad])), encoding="utf-8")


def run_page(history: History, faults: Sequence[Fault], command: str = "") -> Page:
    chain = [place for fault in faults for place in fault.chain]
    sections = [_wrong(faults)] if faults else []
    sections += [_limits(history, chain)] if history.series else []
    sections += [_heat(kind, history, faults) for kind in _TITLES if any(s.kind == kind and s.steps for s in history.series.values())]
    sections += [_losses(history, faults)] if history.losses else []
    sections += [_last(history.last)] if history.last is not None else []
    forecasts = [str(each) for each in history.forecasts]
    lines = faults[0].report.splitlines() if faults else []
    answers: list[tuple[str, Sequence[str]]] = [
        ("What went wrong", lines[:1] or ["Nothing that was looked at."]),
        ("Why", [line.strip() for line in lines if line.strip().startswith(("why", "after", "grew"))][:3] or ["–"]),
        ("What mends it", [line.strip().removeprefix("mend").strip() for line in lines if line.strip().startswith("mend")] or ["–"]),
        ("What grows", forecasts[:3] or ["No value is foretold to leave its type."]),
    ]
    steps = max((series.steps[-1] for series in history.series.values() if series.steps), default=0)
    headline = f"Step {faults[0].step} went wrong." if faults else f"Nothing went wrong in {steps + 1} steps."
    tone = "bad" if faults else "warn" if forecasts else "good"
    return Page("A watched run", "training", command, headline, tone, answers, sections)


def _wrong(faults: Sequence[Fault]) -> PageSection:
    return PageSection("wrong", "What went wrong", "", [CodeBlock(fault.report, f"step {fault.step}") for fault in faults[:5]])


# heat maps


def _heat(kind: str, history: History, faults: Sequence[Fault]) -> PageSection:
    found = [series for series in history.series.values() if series.kind == kind and series.steps]
    short = _shortening(list(dict.fromkeys(series.module for series in found)))
    chain = {short(module) for fault in faults for module, _ in fault.chain}
    first, last = min(s.steps[0] for s in found), max(s.steps[-1] for s in found)
    width = max(1, math.ceil((last + 1 - first) / _COLUMNS))
    cells: dict[tuple[str, int], tuple[float, ExponentSeries]] = {}
    for series in found:
        for step, power in zip(series.steps, series.exponents, strict=True):
            key = short(series.module), (step - first) // width
            if key not in cells or cells[key][0] < power:
                cells[key] = power, series
    gap = _gap(found)
    rows: list[dict[str, Any]] = [
        {
            "module": _label(module, chain), "from": first + column * width, "to": first + column * width + max(width, gap),
            "exponent": round(power, 1), "value": series.name, "format": series.format,
            "left": round(math.log2(series.largest) - power, 1),
        }
        for (module, column), (power, series) in cells.items()
    ]  # fmt: skip
    modules = list(dict.fromkeys(_label(short(series.module), chain) for series in found))
    marks = [
        {"module": _label(short(module), chain), "step": fault.step, "what": name}
        for fault in faults for module, name in fault.chain if _label(short(module), chain) in modules
    ] if kind == "value" else []  # fmt: skip
    title, intro = _TITLES[kind]
    plot = PlotBlock(f"map-{kind}", heat_spec(rows, marks, modules), _caption(marks))
    return PageSection(f"heat-{kind}", title, f"{intro} {_ends(found)}", [plot])


def _caption(marks: Sequence[Any]) -> str:
    chain = f"; a triangle marks modules on the way to the fault, {_CROSS}" if marks else ""
    return f"Colours change at powers of two where formats end{chain}."


def _label(module: str, chain: set[str]) -> str:
    return f"▶ {module}" if module in chain else module


def _gap(found: Sequence[ExponentSeries]) -> int:
    """Steps between two looks, of the series with the most."""
    steps = max((series.steps for series in found), key=len)
    return math.ceil((steps[-1] - steps[0]) / (len(steps) - 1)) if len(steps) > 1 else 1


def _shortening(modules: Sequence[str]) -> Any:
    """The function that gives modules the longest common beginnings at which no more than 48 are left."""
    depth = max((module.count(".") + 1 for module in modules), default=1)
    while depth > 1 and len({_cut(module, depth) for module in modules}) > _ROWS:
        depth -= 1
    return lambda module: _cut(module, depth)


def _cut(module: str, depth: int) -> str:
    return ".".join(module.split(".")[:depth]) or _OF_MODEL


# limits


def _ends_of(found: Sequence[ExponentSeries]) -> Iterator[tuple[str, float, float]]:
    """Each format in use with the exponents of its largest and of its smallest normal number."""
    for form in dict.fromkeys(series.format for series in found if series.format):
        info = torch.finfo(getattr(torch, form))
        yield form, math.log2(info.max), math.log2(info.smallest_normal)


def _ends(found: Sequence[ExponentSeries]) -> str:
    return "; ".join(f"{form} ends at 2^{high:.0f}, and loses bits below 2^{low:.0f}" for form, high, low in _ends_of(found)) + "."


def _limits(history: History, chain: Sequence[tuple[str, str]]) -> PageSection:
    names = [re.sub(r", time \d+$", "", name) for _, name in chain]
    values = [series for series in history.series.values() if series.steps and series.kind != "update"]
    on_chain = [series for series in values if re.sub(r", time \d+$", "", series.name) in names]
    grown = sorted((s for s in values if s not in on_chain), key=lambda s: s.exponents[-1] - s.exponents[0], reverse=True)
    shown = [*on_chain, *grown][:_LINES]
    rows = [
        {"step": step, "exponent": round(power, 2), "value": ("▶ " if series in on_chain else "") + series.name}
        for series in shown for step, power in zip(series.steps, series.exponents, strict=True)
    ]  # fmt: skip
    top = max(max(series.exponents) for series in shown)
    bottom = min(min(series.exponents) for series in shown)
    limits = [{"exponent": high, "text": f"{form} ends"} for form, high, _ in _ends_of(values)]
    limits += [{"exponent": low, "text": f"{form}: smallest normal number"} for form, _, low in _ends_of(values) if bottom < low + 40]
    limits += [{"exponent": 16.0, "text": "float16 would end"}] if "float16" not in {s.format for s in values} and top > 8 else []
    what = "Values on the way to the fault (▶), and those that grew most." if on_chain else "Values that grew most."
    plot = PlotBlock("lines", limits_spec(rows, limits), "Each line is a value.")
    return PageSection("limits", "Beside the ends of formats", what, [plot])


# the rest


def _losses(history: History, faults: Sequence[Fault]) -> PageSection:
    rows = [{"step": step, "loss": loss} for step, loss in history.losses if math.isfinite(loss)]
    lost = [step for step, loss in history.losses if not math.isfinite(loss)]
    blocks: list[Block] = [PlotBlock("loss", loss_spec(rows, [fault.step for fault in faults]), "A red line: a step that went wrong.")]
    blocks += [TextBlock(f"The loss is not finite in {len(lost)} steps, first in step {lost[0]}.", "bad")] if lost else []
    return PageSection("loss", "The loss", "", blocks)


def _last(step: ObservedStep) -> PageSection:
    headings = ["value", "type", "largest", "bits left", "not finite", "zero", "subnormal", "saturated"]
    rows = []
    for each in sorted(step.values, key=lambda each: each.headroom)[:200]:
        shares = (each.shares.not_finite, each.shares.zeros, each.shares.subnormal, each.shares.saturated)
        left = f"{each.headroom:.1f}" if math.isfinite(each.headroom) else ""
        rows.append([each.name, each.format, f"{each.largest:.3g}", left, *(f"{100 * share:.1f} %" if share else "" for share in shares)])
    intro = f"Values at step {step.step}, those with the fewest bits left first. Shares are of at most 1,024 elements of each."
    return PageSection("last", "The last look", intro, [TableBlock(headings, rows, numbers=frozenset(range(2, 8)))])
