"""Tables of an outcome, of a module or of a file."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping

from hnfc.formats.scaled import stored_format
from hnfc.precision.assignment import Assignment, Infeasible, Requirements
from hnfc.precision.policy import SemanticDType
from hnfc.precision.targets import OutputError, name_of
from hnfc.precision.values import PrecisionSites

MOST_SHOWN = 60
"""Sites in the text of an outcome: those with the largest parts of the error."""


def cochain_of(sites: PrecisionSites, outcome: Assignment | Infeasible) -> dict[tuple[str, str], int]:
    """By how many bits formats differ along edges, without zeros; of a refusal ω on its cycle, or without one how many bits sites lack, on
    edges to "outputs"."""
    if isinstance(outcome, Infeasible) and outcome.obstruction is not None:
        return outcome.obstruction.cochain
    if isinstance(outcome, Infeasible):
        return {(name, "outputs"): needs - has for name, (needs, has) in outcome.needed.items() if needs > has}
    bits = {name: stored_format(form).precision for name, form in outcome.formats.items()}
    return {(u, v): bits[v] - bits[u] for u, v in sites.edges if bits[u] != bits[v]}


def rows_of(sites: PrecisionSites, found: Assignment) -> Iterator[tuple[str, str, str, str, float]]:
    """Name, role, format, range and share of the squared error of every site."""
    whole = found.error**2
    for site in sites.sites:
        form = found.formats[site.name]
        part = site.moved[form] ** 2 / whole if whole else 0.0
        yield site.name, str(site.role.value), form, f"[{site.low:.3g}, {site.high:.3g}]", part


def table_of(sites: PrecisionSites, outcome: Assignment | Infeasible) -> str:
    """The sites in columns; of a refusal its reasons, and the changes that help."""
    if isinstance(outcome, Infeasible):
        helps = (f"help: {change.change} ({change.cost})" for change in outcome.relaxations)
        return "\n".join(("no assignment of formats meets the target:", *(f"  {reason}" for reason in outcome.reasons), *helps))
    every = list(rows_of(sites, outcome))
    least = sorted((part for *_, part in every), reverse=True)[:MOST_SHOWN][-1:] or [0.0]
    shown = every if len(every) <= MOST_SHOWN else [row for row in every if row[-1] >= least[0]][:MOST_SHOWN]
    rows: list[tuple[str, ...]] = [("site", "role", "format", "range", "part of the error")]
    rows += [(*words, f"{part:.1%}") for *words, part in shown]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    if len(shown) < len(every):
        kinds = Counter(form for _, _, form, _, _ in every)
        counts = ", ".join(f"{n} in {form}" for form, n in kinds.items())
        lines.append(f"… and {len(every) - len(shown)} sites with smaller parts; in all {counts}")
    return "\n".join(lines)


def errors_of(sites: PrecisionSites, requirements: Requirements, found: Assignment) -> tuple[OutputError, ...]:
    """Errors of each output in the terms of the targets, where these are for single ones."""
    limits = {a.output: a for a in requirements.allowances(sites)}
    rows = []
    for output, size in sites.outputs.items():
        scale = size if requirements.relative and size else 1.0
        allowed = limits[output].limit * requirements.margin / scale if output in limits else math.inf
        measured, proved = (
            errors[output] / scale if output in errors else None for errors in (found.measured_errors, found.certified_errors)
        )
        rows.append(OutputError(name_of(output, sites.names), allowed, found.errors[output] / scale, measured, proved, found.probability))
    return tuple(rows)


def as_given(error: float, sites: PrecisionSites, requirements: Requirements) -> float:
    """An error of all outputs in the terms of the target: relative to their root mean square, or absolute."""
    return error / sites.rms if requirements.relative and sites.rms else error


INTEGER_WEIGHTS = ("int8/channel", "int8/channel/mse", "int8/channel/percentile99.9", "int8/tensor")
"""Formats of weights that products in integers take."""


def beside_tokens(sites: PrecisionSites, formats: Mapping[str, str]) -> set[str]:
    """Parameters that are only multiplied with values in int8 by token."""
    roles = {site.name: site.role for site in sites.sites}
    reads: dict[str, list[str]] = {}
    for u, v in sites.edges:
        reads.setdefault(v, []).append(u)
    beside: dict[str, list[bool]] = {}
    for names in reads.values():
        values = {formats[u] for u in names if roles[u] is not SemanticDType.PARAM}
        for u in names:
            if roles[u] is SemanticDType.PARAM:
                beside.setdefault(u, []).append(values == {"int8/token"})
    return {name for name, each in beside.items() if all(each)}
