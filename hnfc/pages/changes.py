"""A function before and after its rewrites, with what is known of each value, as the pages of models show it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.ir import SSAValue

from hnfc.dialects.interval import Interval
from hnfc.dialects.types import FORMATS
from hnfc.pages.document import anchor
from hnfc.pages.graphs import Column, GraphEntry, merged, range_fact, regions
from hnfc.pipeline.compiled import Compiled
from hnfc.pipeline.graphs import Drawing, Spread
from hnfc.report.text import telling
from hnfc.validation.measurement import Error


@dataclass
class ChangedRegion:
    """Values that rewrites replaced, those in their places, and the rules. Numbers are positions in the entries."""

    before: list[int]
    after: list[int]
    roots_after: list[int] = field(default_factory=list)
    """Values that were there before and take the place of a root."""
    rules: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class DrawnFunction:
    name: str
    entries: Sequence[GraphEntry]
    regions: Sequence[ChangedRegion]


def drawn_function(drawing: Drawing, compiled: Compiled) -> DrawnFunction:
    """The function for the page, with the rules that changed it."""
    entries, of_before, of_after = merged(drawing.before, drawing.after)
    after = drawing.after.index if drawing.after is not None else {}
    position: dict[SSAValue, int] = {value: of_after[i] for value, i in after.items()}
    position |= {value: of_before[i] for value, i in drawing.before.index.items() if i in of_before}
    for value, place in position.items():
        entries[place].facts = _facts(entries[place], drawing, value)
    found = _regions(entries, drawing, position, compiled)
    misses: dict[str, dict[str, None]] = {}
    for miss in telling(compiled):
        misses.setdefault(miss.place, {})[f"{miss.rule.name} fitted here and did not run: {miss.reason}"] = None
    for entry in entries:
        if entry.node.kind == "operation":
            entry.notes += misses.get(entry.node.place, ())
    return DrawnFunction(drawing.before.name, entries, found)


def _regions(entries: Sequence[GraphEntry], drawing: Drawing, position: dict[SSAValue, int], compiled: Compiled) -> list[ChangedRegion]:
    roots = {position[old]: position.get(new) for _, old, new in drawing.rewrites if old in position}
    found = []
    for _, before, after in regions(entries, roots):
        region = ChangedRegion(before, after)
        inside = {*before, *after}
        for index, old, new in drawing.rewrites:
            ends = {position.get(old), position.get(new)}
            if not ends & inside:
                continue
            rule = compiled.applied[index].rule
            if rule.name not in region.rules:
                region.rules.append(rule.name)
            end = position.get(new)
            if end is not None and entries[end].status == "same":
                region.roots_after.append(end)
        for i in inside if region.rules else ():
            entries[i].change = (anchor("rewrite", region.rules[0]), ", ".join(region.rules))
        found.append(region)
    return found


def columns(entries: Sequence[GraphEntry]) -> list[Column]:
    """The facts of values of a model, in order."""
    kinds = {entry.node.type.rpartition(" ")[2] for entry in entries}
    largest = min((FORMATS[kind].largest for kind in kinds if kind in FORMATS), default=FORMATS["f32"].largest)
    top = math.log10(largest)
    wrong = "the largest relative error of an element on the samples"
    return [
        Column(
            "error",
            "error before",
            f"{wrong}, before any rewrite",
            "number",
            -8,
            0,
            "1e-8 or less",
            "no digit right, or not finite",
            "error_after",
        ),
        Column("error_after", "error after", f"{wrong}, after all rewrites", ""),
        Column(
            "seen",
            "values before",
            "the finite values on the samples lie in this range",
            "range",
            -2,
            top,
            "small",
            f"{largest:.0e}, or not finite",
            "seen_after",
        ),
        Column("seen_after", "values after", "the finite values on the samples lie in this range, after all rewrites"),
        Column(
            "range",
            "range by the inputs",
            "the interval by which conditions of rules are decided: no input in the declared or observed "
            "ranges leads out of it, rounding included",
            "range",
            -2,
            top,
            "small",
            f"{largest:.0e} or infinite",
        ),
        Column("format", "format", "the type of the elements", "category"),
    ]


def _facts(entry: GraphEntry, drawing: Drawing, value: SSAValue) -> dict[str, Any]:
    facts: dict[str, Any] = {"format": entry.node.type.rpartition(" ")[2]}
    for suffix, spreads, errors in zip(("", "_after"), drawing.spreads, drawing.errors, strict=True):
        spread, error = spreads.get(value), errors.get(value)
        if spread is not None:
            facts[f"seen{suffix}"] = _seen(spread)
        if error is not None:
            facts[f"error{suffix}"] = _error(error, spread)
    interval = drawing.intervals.get(value)
    if interval is not None and (interval.lo > -math.inf or interval.hi < math.inf):
        facts["range"] = _interval(interval)
    return facts


def _seen(spread: Spread) -> tuple[float, float, str]:
    if spread.not_finite == spread.elements:
        return math.inf, math.inf, f"none of {spread.elements} finite"
    more = f", {spread.not_finite} of {spread.elements} not finite" if spread.not_finite else ""
    return (
        range_fact(spread.low, spread.high, more)
        if not spread.not_finite
        else (spread.low, math.inf, range_fact(spread.low, spread.high, more)[2])
    )


def _interval(interval: Interval) -> tuple[float, float, str]:
    return range_fact(interval.lo, interval.hi, " or NaN" if interval.nan else "")


def _error(error: Error, spread: Spread | None) -> tuple[float, float, str]:
    if error.not_finite:
        return math.inf, math.inf, str(error)
    if spread is not None and spread.not_finite:
        # the true values are not numbers of the type either: no error counts them
        return math.inf, math.inf, f"{spread.not_finite} of {spread.elements} not finite, as no number of the type is right there"
    return error.relative, error.relative, str(error)
