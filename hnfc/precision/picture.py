"""The picture of an assignment, or of why there is none: sites as boxes coloured by format, the edges where bits change drawn strongly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from textwrap import wrap

from hnfc.formats.scaled import stored_format
from hnfc.precision.assignment import Assignment, Infeasible
from hnfc.precision.certificates import GROUND, Cycle
from hnfc.precision.values import PrecisionSites

_MOST = 36
_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 190, 40, 26, 44, 24
_COLOURS = ((8, "#f6c65b"), (11, "#8fc1a9"), (24, "#7ba7d7"), (10**9, "#b89bd9"))
"""The colour of a format with at most so many bits of significand."""
_SHORT = "#e07a6a"
_ROUTE = 110
"""Room at both sides for the edges of a cycle to the ground."""
_LINE = 120
"""Characters of a line of the caption."""


def picture(sites: PrecisionSites, outcome: Assignment | Infeasible, cochain: Mapping[tuple[str, str], int]) -> str:
    """At most 36 sites: those that the cochain or the refusal names, then those with the widest formats, in layers along the data."""
    chosen = _chosen(sites, outcome, cochain)
    edges = [(u, v) for u, v in sites.edges if u in chosen and v in chosen]
    layer = {name: 0 for name in (site.name for site in sites.sites) if name in chosen}
    for name in layer:
        for u, v in edges:
            if v == name:
                layer[name] = max(layer[name], layer[u] + 1)
    cycle = outcome.obstruction if isinstance(outcome, Infeasible) else None
    margin = _MARGIN if cycle is None else _ROUTE
    rows: dict[int, list[str]] = {}
    for name, depth in layer.items():
        rows.setdefault(depth, []).append(name)
    where = {
        name: (margin + i * (_WIDTH + _GAP_X), _MARGIN + row * (_HEIGHT + _GAP_Y))
        for row, depth in enumerate(sorted(rows))
        for i, name in enumerate(rows[depth])
    }
    parts = [_edge(where[u], where[v], cochain.get((u, v), 0)) for u, v in edges]
    parts += [_box(name, where[name], *_look(name, outcome)) for name in where]
    width = max((x for x, _ in where.values()), default=0) + _WIDTH + margin
    height = max((y for _, y in where.values()), default=0) + _HEIGHT + _MARGIN
    if cycle is not None:
        parts += _around(cycle, where, (margin, height + _GAP_Y), width)
        height += _GAP_Y + _HEIGHT + _MARGIN
    lines = _caption(outcome)
    for i, line in enumerate(lines):
        parts.append(f'<text x="{_MARGIN}" y="{height + 18 * i + 6}" class="caption">{escape(line)}</text>')
    width = max(width, _MARGIN * 2 + max((len(line) for line in lines), default=0) * 7)
    return _svg(parts, width, height + 18 * len(lines) + 10)


def _chosen(sites: PrecisionSites, outcome: Assignment | Infeasible, cochain: Mapping[tuple[str, str], int]) -> set[str]:
    known = {site.name for site in sites.sites}
    found: dict[str, None] = {}
    if isinstance(outcome, Infeasible):
        found.update(dict.fromkeys(outcome.nodes))
        for u, v in sites.edges:
            if u in outcome.nodes or v in outcome.nodes:
                found.update({u: None, v: None})
    for u, v in sorted(cochain, key=lambda edge: -abs(cochain[edge])):
        found.update({name: None for name in (u, v) if name in known})
    for site in sites.sites if isinstance(outcome, Assignment) or not outcome.nodes else ():
        found.setdefault(site.name, None)
    return set(list(found)[:_MOST])


def _look(name: str, outcome: Assignment | Infeasible) -> tuple[str, str]:
    """The second line of a box, and its colour."""
    if isinstance(outcome, Assignment):
        form = outcome.formats[name]
        return form, next(colour for bits, colour in _COLOURS if stored_format(form).precision <= bits)
    if name in outcome.needed:
        needs, has = outcome.needed[name]
        return (f"needs {needs} bits, has {has}", _SHORT) if needs > has else (f"{has} bits", "#f0d0c8")
    return "", "#eeeeee"


def _box(name: str, at: tuple[int, int], second: str, colour: str) -> str:
    x, y = at
    short = name if len(name) <= 26 else f"…{name[-25:]}"
    return (
        f'<g><title>{escape(name)}</title><rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="6" fill="{colour}"/>'
        f'<text x="{x + 8}" y="{y + 16}">{escape(short)}</text><text x="{x + 8}" y="{y + 32}" class="second">{escape(second)}</text></g>'
    )


def _edge(start: tuple[int, int], end: tuple[int, int], bits: int) -> str:
    (x1, y1), (x2, y2) = (start[0] + _WIDTH // 2, start[1] + _HEIGHT), (end[0] + _WIDTH // 2, end[1])
    line = f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" class="{"cast" if bits else "edge"}"/>'
    if not bits:
        return line
    return f'{line}<text x="{(x1 + x2) // 2 + 4}" y="{(y1 + y2) // 2 + 4}" class="bits">{bits:+d} bits</text>'


def _around(cycle: Cycle, where: Mapping[str, tuple[int, int]], ground: tuple[int, int], width: int) -> Iterator[str]:
    """The ground below all sites, and the edges of the cycle: from it to the site that needs most at the left, back to it at the right."""
    x, y = ground
    right = width - _ROUTE
    yield (
        f'<rect x="{x}" y="{y}" width="{right - x}" height="{_HEIGHT}" rx="6" fill="#444"/>'
        f'<text x="{x + 8}" y="{y + 25}" style="fill:white">ground: 0 {escape(cycle.measure)}</text>'
    )
    middle = y + _HEIGHT // 2
    for u, v, bits in cycle.edges:
        if u == GROUND and v in where:
            end_x, end_y = where[v][0] + _WIDTH // 3, where[v][1] + _HEIGHT
            points = [(x, middle), (30, middle), (30, end_y + 10), (end_x, end_y + 10), (end_x, end_y)]
            yield _route(points, f"needs {bits}", (36, (middle + end_y) // 2))
        elif v == GROUND and u in where:
            start_x, start_y = where[u][0] + 2 * _WIDTH // 3, where[u][1] + _HEIGHT
            points = [(start_x, start_y), (start_x, start_y + 20), (width - 30, start_y + 20), (width - 30, middle), (right, middle)]
            yield _route(points, f"has {-bits}", (width - 80, (middle + start_y) // 2))
        elif u in where and v in where:
            (x1, y1), (x2, y2) = where[u], where[v]
            down, level = y2 > y1, y2 == y1
            start = (x1 + _WIDTH // 2, y1 + (_HEIGHT if down else 0))
            end = (x2 + _WIDTH // 2, y2 + (0 if down or level else _HEIGHT))
            points = [start, (start[0], start[1] - 14), (end[0], end[1] - 14), end] if level else [start, end]
            text = "no cast" if bits == 0 else f"{-bits} at most"
            yield _route(points, text, ((start[0] + end[0]) // 2 - 60, (start[1] + end[1]) // 2 + (-18 if level else 4)))


def _route(points: list[tuple[int, int]], text: str, at: tuple[int, int]) -> str:
    line = " ".join(f"{x},{y}" for x, y in points)
    return f'<polyline points="{line}" class="cycle"/><text x="{at[0]}" y="{at[1]}" class="bits">{escape(text)}</text>'


def _caption(outcome: Assignment | Infeasible) -> list[str]:
    if isinstance(outcome, Infeasible):
        lines = ["no assignment of formats meets the requirements:", *outcome.reasons, outcome.certificate]
        return [part for line in lines for part in wrap(line, _LINE, subsequent_indent="\u2003")]
    return [f"estimated error of the outputs {outcome.error:.3g}, allowed {outcome.limit:.3g}; {outcome.size:,.0f} bytes in all"]


def _svg(parts: list[str], width: int, height: int) -> str:
    style = (
        "text{font:12px system-ui,sans-serif;fill:#222} .second{fill:#444} .edge{stroke:#bbb} .cast{stroke:#c0392b;stroke-width:2.5}"
        " .cycle{stroke:#c0392b;stroke-width:2.5;fill:none;marker-end:url(#tip)} .bits{fill:#c0392b;font-weight:600}"
        " .caption{font-size:13px}"
    )
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    body = "\n".join(parts)
    tip = '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="5" markerHeight="5" orient="auto">'
    tip = f'<defs>{tip}<path d="M0 0L8 4L0 8z" fill="#c0392b"/></marker></defs>'
    ground = tip + '<rect width="100%" height="100%" fill="white"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n<style>{style}</style>\n{ground}\n{body}\n</svg>\n'
