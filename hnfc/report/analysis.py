"""An analysis for people: the worst values as a table, the growth of the error as a picture, the program with what is known of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from xdsl.dialects.builtin import Float64Type, FloatAttr

from hnfc.analysis.findings import Finding, Findings

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 960, 420, 70, 30, 60


def rows_of(found: Findings, top: int) -> tuple[list[str], list[list[str]]]:
    """Headings and the `top` worst values: those that make the relative error grow most; of an estimate those that contribute most."""
    worst = sorted(found.findings, key=lambda f: (f.growth, f.error), reverse=True)[:top]
    if found.certified:
        headings = ["operation", "at", "range", "error ≤", "grows ×", "L", "Δ", "κ"]
        rows = [[f.operation, _place(f), _range(f), *map(_short, (f.error, f.growth, f.lipschitz, f.rounding, f.condition))] for f in worst]
    else:
        headings = ["operation", "at", "range", "median |x|", "moves outputs by", "part", "not finite", "subnormal"]
        rows = [
            [f.operation, _place(f), _range(f), _short(f.quantiles[1] if f.quantiles else None), _short(f.error), f"{f.growth:.1%}",
             str(f.nonfinite or ""), str(f.subnormals or "")]
            for f in worst
        ]  # fmt: skip
    return headings, rows


def _range(finding: Finding) -> str:
    return f"[{_short(finding.low)}, {_short(finding.high)}]" + " or NaN" * finding.nan


def _place(finding: Finding) -> str:
    """The path of the module, or the place in a file."""
    return finding.place.partition(" (")[0]


def _short(x: float | None) -> str:
    return "" if x is None else f"{x:.3g}"


def annotate(found: Findings) -> None:
    """Writes range and error into the attributes of each operation: `hnfc.low`, `hnfc.high`, `hnfc.error`."""
    name = "error" if found.certified else "sensitivity"
    for finding in found.findings:
        for key, number in (("low", finding.low), ("high", finding.high), (name, finding.error)):
            # an infinity has no decimal digits in MLIR's text; what is not bounded is left out
            if math.isfinite(number):
                finding.value.owner.attributes[f"hnfc.{key}"] = FloatAttr(number, Float64Type())  # type: ignore[union-attr]


def growth_picture(found: Findings) -> str:
    """An SVG: the error after each operation, on a logarithmic scale; the worst ones are named."""
    points = [(i, f) for i, f in enumerate(found.findings) if 0 < f.error < math.inf]
    if not points:
        return _svg(['<text x="20" y="40">no value has a finite error above 0</text>'])
    logs = [math.log10(f.error) for _, f in points]
    low, high = math.floor(min(logs)), max(math.ceil(max(logs)), math.floor(min(logs)) + 1)
    across, down = _WIDTH - _LEFT - 20, _HEIGHT - _TOP - _BOTTOM

    def place(index: int, log: float) -> tuple[float, float]:
        return _LEFT + across * index / max(len(found.findings) - 1, 1), _TOP + down * (high - log) / (high - low)

    parts = []
    step = max(1, (high - low) // 8)
    for exponent in range(low, high + 1, step):
        _, y = place(0, exponent)
        parts.append(f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - 20}" y2="{y:.1f}" class="grid"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">1e{exponent}</text>')
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(i, log) for (i, _), log in zip(points, logs, strict=True)))
    parts.append(f'<polyline points="{line}" class="error"/>')
    named = {id(f) for f in sorted((f for _, f in points), key=lambda f: -f.growth)[:5]}
    above = False
    for (index, finding), log in zip(points, logs, strict=True):
        x, y = place(index, log)
        worst = id(finding) in named
        title = f"{finding.operation} at {finding.place}: {_range(finding)}, error {finding.error:.3g}"
        look = 'r="5" class="worst"' if worst else 'r="2.5" class="point"'
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" {look}><title>{escape(title)}</title></circle>')
        if worst:
            above = not above
            where = f'x="{x:.1f}" y="{y + (-12 if above else 20):.1f}" text-anchor="{"end" if x > _WIDTH * 0.7 else "start"}"'
            parts.append(f'<text {where} class="name">{escape(finding.operation)}</text>')
    what = "certified error bound of each value" if found.certified else "how far the rounding of each value moves the outputs (estimate)"
    parts.append(f'<text x="{_LEFT}" y="{_HEIGHT - 20}">{what}, in the order of the program ({len(found.findings)} operations)</text>')
    return _svg(parts)


def _svg(parts: Sequence[str]) -> str:
    style = (
        "text{font:13px system-ui,sans-serif;fill:#333} .grid{stroke:#ddd} .error{fill:none;stroke:#3b6ea5;stroke-width:1.5}"
        ".point{fill:#3b6ea5} .worst{fill:#c0392b} .name{fill:#c0392b;font-weight:600}"
    )
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}">\n'
        f'<style>{style}</style>\n<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )
