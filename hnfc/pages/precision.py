"""The page of `hnfc precision`: formats by module and what they cost; of a refusal the cycle that forbids them, and what would help."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hnfc.pages.document import Block, DiagramBlock, Page, PageCell, PageSection, PlotBlock, TableBlock, TextBlock
from hnfc.pages.graphs import Column, GraphEntry, graph_block, range_fact, short
from hnfc.pages.places import module_of, source_lines
from hnfc.pages.plots import formats_spec
from hnfc.pipeline.graphs import GraphNode
from hnfc.precision.assignment import Assignment, Infeasible, bytes_of
from hnfc.precision.certificates import GROUND, Cycle
from hnfc.precision.outcomes import cochain_of, rows_of
from hnfc.precision.targets import OutputError
from hnfc.precision.values import PrecisionSites

_MOST_MODULES = 40


def precision_page(
    sites: PrecisionSites, outcome: Assignment | Infeasible, lines: Sequence[str], errors: Sequence[OutputError], model: str, command: str
) -> Page:
    """lines: the words of the command on the outcome. errors: of single outputs, where targets are for them."""
    entries = _entries(sites, outcome)
    places = (entry.node.place for entry in entries)
    first = "format" if isinstance(outcome, Assignment) else "short"
    graph = graph_block(0, "the model", entries, _columns(outcome), first, ("values",))
    sources = source_lines(places, [Path.cwd(), Path(model).resolve().parent])
    shown = PageSection(
        "model", "The model", "Each box is a value, with the format that it is stored in; choose one for its numbers.", [graph]
    )
    if isinstance(outcome, Infeasible):
        return Page(
            model,
            "precision",
            command,
            "No assignment of formats meets the target.",
            "bad",
            [
                ("What stands in the way", list(outcome.reasons)[:4]),
                ("How it is known", [outcome.certificate]),
                ("What next", [f"{r.change} ({r.cost})" for r in outcome.relaxations] or ["No single change was found that resolves it."]),
            ],
            [_refusal(outcome), shown],
            sources,
        )
    # estimates decide; a run may be off by a little more
    above = outcome.measured is not None and outcome.measured > outcome.limit
    aside = " The error on the samples is above the target." if above else ""
    counts = _by_format(sites, outcome)
    kinds = ", ".join(f"{values} values in {form}" for form, (values, _) in counts.items())
    sections = [_modules(sites, outcome), *_outputs(errors), _sites(sites, outcome), shown]
    return Page(
        model,
        "precision",
        command,
        f"{kinds}: {outcome.size:,.0f} bytes.{aside}",
        "warn" if aside else "good",
        [
            ("How far off it is", lines[:1]),
            ("What it costs", lines[1:-1]),
            ("What is known of it", lines[-1:]),
            ("What next", ["`--emit torch -o FILE` writes the model with its casts; `--certified` asks for a proof of the error."]),
        ],
        sections,
        sources,
    )


def _entries(sites: PrecisionSites, outcome: Assignment | Infeasible) -> list[GraphEntry]:
    position = {site.name: i for i, site in enumerate(sites.sites)}
    operands: dict[str, list[int]] = defaultdict(list)
    for u, v in sites.edges:
        operands[v].append(position[u])
    casts = cochain_of(sites, outcome)
    shares = {name: share for name, _, _, _, share in rows_of(sites, outcome)} if isinstance(outcome, Assignment) else {}
    entries = []
    for site in sites.sites:
        # a parameter's place is its name
        place = f"{site.module} ({site.place})" if site.module and ":" in site.place else site.module or site.place
        place = place if ":" in place or not site.module else f"{site.module} (-:0)"
        given = site.place == site.operation == site.name and not operands[site.name]
        kind = "weight" if site.role.value == "param" else "input" if given else "operation"
        node = GraphNode(
            kind, site.operation, "", "×".join(map(str, site.shape)) or f"{site.elements} elements", place, tuple(operands[site.name])
        )
        facts: dict[str, Any] = {"range": range_fact(site.low, site.high), "role": site.role.value}
        notes = [f"cast from {u}: {bits:+d} bits" for (u, v), bits in casts.items() if v == site.name and u in position]
        if isinstance(outcome, Assignment):
            form = outcome.formats[site.name]
            facts |= {"format": form, "share": shares[site.name], "bytes": _bytes_fact(bytes_of(site, form))}
        elif site.name in outcome.needed:
            needs, has = outcome.needed[site.name]
            facts |= {"short": max(needs - has, 0), "needed": f"needs {needs} bits, has {has}"}
        entries.append(GraphEntry(node, before=node.operands, facts=facts, notes=notes))
    return entries


def _bytes_fact(size: float) -> tuple[float, float, str]:
    return size, size, f"{size:,.0f}"


def _columns(outcome: Assignment | Infeasible) -> list[Column]:
    seen = Column("range", "values on samples", "the values lie in this range", "range", -2, 38, "small", "1e38")
    role = Column("role", "role", "parameter, computed value or output", "category")
    if isinstance(outcome, Infeasible):
        short_of = Column("short", "bits short", "bits of significand that its format lacks", "number", 0, 1.5, "none", "many")
        return [short_of, Column("needed", "bits", "bits of significand that it needs and has"), seen, role]
    return [
        Column("format", "format", "the format that it is stored in", "category"),
        Column("share", "part of the error", "its share of the squared error of the outputs", "number", -4, 0, "none", "all"),
        Column("bytes", "bytes", "bytes that it takes", "number", 0, 9, "few", "1 GB"),
        seen,
        role,
    ]


def _by_format(sites: PrecisionSites, outcome: Assignment) -> dict[str, tuple[int, float]]:
    found: dict[str, tuple[int, float]] = {}
    for site in sites.sites:
        form = outcome.formats[site.name]
        values, size = found.get(form, (0, 0.0))
        found[form] = values + 1, size + bytes_of(site, form)
    return dict(sorted(found.items(), key=lambda item: -item[1][0]))


def _modules(sites: PrecisionSites, outcome: Assignment) -> PageSection:
    """Bytes by the outermost modules."""
    rows: dict[tuple[str, str], list[float]] = {}
    for site in sites.sites:
        path = module_of(f"{site.module} (-:0)") if site.module else ()
        key = path[0] if path else "the model itself", outcome.formats[site.name]
        known = rows.setdefault(key, [0, 0.0])
        known[0] += 1
        known[1] += bytes_of(site, key[1])
    names = list(dict.fromkeys(module for module, _ in rows))
    kept = set(names[:_MOST_MODULES])
    data = [{"module": m, "format": f, "values": v, "bytes": b} for (m, f), (v, b) in rows.items() if m in kept]
    table = TableBlock(
        ("module", "format", "values", "bytes"),
        [(PageCell(m, code=True), f, f"{v:,.0f}", f"{b:,.0f}") for (m, f), (v, b) in rows.items()],
        numbers=frozenset((2, 3)),
    )
    left = len(names) - len(kept)
    caption = "Bytes by module and format" + (f"; {left} more modules are in the table alone." if left > 0 else ".")
    return PageSection("modules", "Formats by module", "", [PlotBlock("formats", formats_spec(data), caption), table])


def _outputs(errors: Sequence[OutputError]) -> list[PageSection]:
    if not errors:
        return []
    rows = [
        (e.name, short(e.allowed) if math.isfinite(e.allowed) else "no target", short(e.estimated), _known(e.measured), _known(e.proved))
        for e in errors
    ]
    proved = "proved at most" if errors[0].probability is None else f"at most, with probability {errors[0].probability:.10g}"
    return [PageSection("outputs", "Outputs", "", [TableBlock(("output", "allowed", "estimated", "on the samples", proved), rows)])]


def _known(number: float | None) -> str:
    return "not known" if number is None else short(number)


def _sites(sites: PrecisionSites, outcome: Assignment) -> PageSection:
    rows = sorted(rows_of(sites, outcome), key=lambda row: -row[-1])[:20]
    cells = [(PageCell(name, code=True), role, form, span, f"{share:.1%}") for name, role, form, span, share in rows]
    intro = "The values whose rounding contributes most to the error of the outputs."
    return PageSection(
        "sites",
        "Where the error comes from",
        intro,
        [TableBlock(("value", "role", "format", "range", "part of the error"), cells, numbers=frozenset((4,)))],
    )


def _refusal(outcome: Infeasible) -> PageSection:
    blocks: list[Block] = [TextBlock(reason) for reason in outcome.reasons]
    if outcome.obstruction is not None:
        blocks += _cycle(outcome.obstruction)
    if outcome.needed:
        rows = [
            (PageCell(name, code=True), str(needs), str(has), PageCell(str(needs - has), "bad") if needs > has else "0")
            for name, (needs, has) in outcome.needed.items()
        ]
        blocks.append(TableBlock(("value", "bits needed", "bits that it has", "short"), rows, numbers=frozenset((1, 2, 3))))
    if outcome.relaxations:
        blocks.append(TableBlock(("any one of these resolves it", "cost"), [(r.change, r.cost) for r in outcome.relaxations]))
    return PageSection("obstruction", "Why there is none", outcome.certificate, blocks)


def _cycle(cycle: Cycle) -> list[Block]:
    """The cycle of constraints, as a drawing and as a table."""
    items: list[Mapping[str, str]] = [
        {"id": GROUND, "title": f"ground: 0 {cycle.measure}", "sub": "", "kind": "outside", "label": "ground"}
    ]
    forced = cycle.forced
    items += [
        {"id": name, "title": name, "sub": f"at least {forced[name]} {cycle.measure}", "kind": "removed", "label": name}
        for name in cycle.nodes
    ]
    edges = [(u, v) for u, v, _ in cycle.edges]
    rows = [
        (PageCell(u, code=True), PageCell(v, code=True), f"{bits:+d}", reason)
        for (u, v, bits), reason in zip(cycle.edges, cycle.reasons, strict=False)
    ]
    words = "; ".join(f"{v} has at least {bits:+d} {cycle.measure} beside {u}" for u, v, bits in cycle.edges)
    return [
        TextBlock(
            f"The constraints around this cycle add up to {cycle.short} {cycle.measure}; differences around a cycle add up to 0.", "bad"
        ),
        DiagramBlock({"items": items, "edges": edges}, words),
        TableBlock(("from", "to", f"at least so many more {cycle.measure}", "since"), rows, numbers=frozenset((2,))),
    ]
