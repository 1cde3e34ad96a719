"""The picture of an assignment, or of why there is none: sites as boxes coloured by format, the edges where bits change drawn strongly."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from hnfc.precision.assignment import Assignment, Refusal
from hnfc.precision.scaled import stored_format
from hnfc.precision.sites import Sites

_MOST = 36
_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 190, 40, 26, 44, 24
_COLOURS = ((8, "#f6c65b"), (11, "#8fc1a9"), (24, "#7ba7d7"), (10**9, "#b89bd9"))
"""The colour of a format with at most so many bits of significand."""
_SHORT = "#e07a6a"


def picture(sites: Sites, outcome: Assignment | Refusal, cochain: Mapping[tuple[str, str], int]) -> str:
    """At most 36 sites: those that the cochain or the refusal names, then those with the widest formats, in layers along the data."""
    chosen = _chosen(sites, outcome, cochain)
    edges = [(u, v) for u, v in sites.edges if u in chosen and v in chosen]
    layer = {name: 0 for name in (site.name for site in sites.sites) if name in chosen}
    for name in layer:
        for u, v in edges:
            if v == name:
                layer[name] = max(layer[name], layer[u] + 1)
    rows: dict[int, list[str]] = {}
    for name, depth in layer.items():
        rows.setdefault(depth, []).append(name)
    where = {
        name: (_MARGIN + i * (_WIDTH + _GAP_X), _MARGIN + row * (_HEIGHT + _GAP_Y))
        for row, depth in enumerate(sorted(rows))
        for i, name in enumerate(rows[depth])
    }
    parts = [_edge(where[u], where[v], cochain.get((u, v), 0)) for u, v in edges]
    parts += [_box(name, where[name], *_look(name, outcome)) for name in where]
    width = max((x for x, _ in where.values()), default=0) + _WIDTH + _MARGIN
    height = max((y for _, y in where.values()), default=0) + _HEIGHT + _MARGIN
    lines = _caption(outcome)
    for i, line in enumerate(lines):
        parts.append(f'<text x="{_MARGIN}" y="{height + 18 * i + 6}" class="caption">{escape(line)}</text>')
    width = max(width, _MARGIN * 2 + max((len(line) for line in lines), default=0) * 7)
    return _svg(parts, width, height + 18 * len(lines) + 10)


def _chosen(sites: Sites, outcome: Assignment | Refusal, cochain: Mapping[tuple[str, str], int]) -> set[str]:
    known = {site.name for site in sites.sites}
    found: dict[str, None] = {}
    if isinstance(outcome, Refusal):
        found.update(dict.fromkeys(outcome.nodes))
        for u, v in sites.edges:
            if u in outcome.nodes or v in outcome.nodes:
                found.update({u: None, v: None})
    for u, v in sorted(cochain, key=lambda edge: -abs(cochain[edge])):
        found.update({name: None for name in (u, v) if name in known})
    for site in sites.sites:
        found.setdefault(site.name, None)
    return set(list(found)[:_MOST])


def _look(name: str, outcome: Assignment | Refusal) -> tuple[str, str]:
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


def _caption(outcome: Assignment | Refusal) -> list[str]:
    if isinstance(outcome, Refusal):
        return ["no assignment of formats meets the wishes:", *outcome.reasons]
    return [f"estimated error of the outputs {outcome.error:.3g}, allowed {outcome.limit:.3g}; {outcome.size:,.0f} bytes in all"]


def _svg(parts: list[str], width: int, height: int) -> str:
    style = (
        "text{font:12px system-ui,sans-serif;fill:#222} .second{fill:#444} .edge{stroke:#bbb} .cast{stroke:#c0392b;stroke-width:2.5}"
        " .bits{fill:#c0392b;font-weight:600} .caption{font-size:13px}"
    )
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    body = "\n".join(parts)
    ground = '<rect width="100%" height="100%" fill="white"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n<style>{style}</style>\n{ground}\n{body}\n</svg>\n'
