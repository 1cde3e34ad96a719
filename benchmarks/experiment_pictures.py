"""Pictures as SVG, by hand: points over two logarithmic axes, and bars on one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 640, 460, 70, 20, 58, 56
_COLOURS = ("#3b6ea5", "#c0392b", "#7f8c3d", "#8e6bbf")


def scatter(title: str, x_label: str, y_label: str, groups: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Points by group, on two axes of which both are logarithms already."""
    points = [p for group in groups.values() for p in group]
    xs, ys = _ends([x for x, _ in points]), _ends([y for _, y in points])
    parts = [*_axes(title, x_label, y_label, xs, ys)]
    for index, (name, group) in enumerate(groups.items()):
        dots = "".join(f"M{_across(x, xs):.1f} {_down(y, ys):.1f}h0" for x, y in group)
        parts.append(f'<path d="{dots}" class="dots" stroke="{_COLOURS[index]}"/>')
        parts += _legend(f"{name} ({len(group)})", index)
    return _svg(parts, _WIDTH, _HEIGHT)


def bars(title: str, names: Sequence[str], series: Mapping[str, Sequence[float | None]], label: str) -> str:
    """Bars on a logarithmic axis, one for each name and series; what is not finite is pale and says so."""
    known = [v for values in series.values() for v in values if v is not None and math.isfinite(v) and v > 0]
    low, high = _decades([math.log10(v) for v in known])
    row = 14 * len(series) + 10
    left, width = 20 + 7 * max(map(len, names)), 720
    height = _TOP + row * len(names) + 50
    across = (width - left - 90) / (high - low)
    parts = [f'<text x="{width / 2}" y="20" class="title">{escape(title)}</text>']
    for tick in range(low, high + 1, max(1, round((high - low) / 8))):
        x = left + across * (tick - low)
        parts.append(f'<line x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{height - 44}" class="grid"/>')
        parts.append(f'<text x="{x:.1f}" y="{height - 28}" text-anchor="middle">1e{tick}</text>')
    for place, name in enumerate(names):
        y = _TOP + row * place
        parts.append(f'<text x="{left - 6}" y="{y + row / 2 + 4:.1f}" text-anchor="end">{escape(name)}</text>')
        for index, values in enumerate(series.values()):
            parts.append(_bar(values[place], left, y + 5 + 14 * index, low, across, _COLOURS[index], width - 90))
    x = left
    for index, name in enumerate(series):
        parts.append(f'<rect x="{x}" y="{height - 18}" width="10" height="10" fill="{_COLOURS[index]}"/>')
        parts.append(f'<text x="{x + 14}" y="{height - 9}">{escape(name)}</text>')
        x += 34 + 7 * len(name)
    parts.append(f'<text x="{width - 10}" y="{height - 9}" text-anchor="end">{escape(label)}</text>')
    return _svg(parts, width, height)


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """Whole powers of ten around the values, and one below, so that each has a bar."""
    low = math.floor(min(values, default=0.0) - 0.1)
    return low, max(math.ceil(max(values, default=1.0)), low + 1)


def _bar(value: float | None, left: int, y: float, low: float, across: float, colour: str, end: int) -> str:
    if value is None:
        return ""
    if not math.isfinite(value):
        return f'<rect x="{left}" y="{y}" width="{end - left}" height="11" fill="{colour}" opacity="0.35"/>' \
               f'<text x="{end + 4}" y="{y + 10}" fill="{colour}">not finite</text>'  # fmt: skip
    length = max(across * (math.log10(value) - low), 1) if value > 0 else 1
    return f'<rect x="{left}" y="{y}" width="{length:.1f}" height="11" fill="{colour}"/>'


def _ends(values: Sequence[float]) -> tuple[float, float]:
    """A little more than the range of the values."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    room = 0.05 * (high - low) or 1.0
    return low - room, high + room


def _across(x: float, ends: tuple[float, float]) -> float:
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (x - ends[0]) / (ends[1] - ends[0])


def _down(y: float, ends: tuple[float, float]) -> float:
    return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (ends[1] - y) / (ends[1] - ends[0])


def _ticks(low: float, high: float) -> list[float]:
    step = next(s for s in (1, 2, 5, 10, 20, 50, 100) if (high - low) / s <= 9)
    return [step * k for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _axes(title: str, x_label: str, y_label: str, xs: tuple[float, float], ys: tuple[float, float]) -> list[str]:
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    parts = [f'<text x="{_WIDTH / 2}" y="20" class="title">{escape(title)}</text>']
    for x in _ticks(*xs):
        parts.append(f'<line x1="{_across(x, xs):.1f}" y1="{_TOP}" x2="{_across(x, xs):.1f}" y2="{bottom}" class="{_look(x)}"/>')
        parts.append(f'<text x="{_across(x, xs):.1f}" y="{bottom + 18}" text-anchor="middle">{x:g}</text>')
    for y in _ticks(*ys):
        parts.append(f'<line x1="{_LEFT}" y1="{_down(y, ys):.1f}" x2="{right}" y2="{_down(y, ys):.1f}" class="{_look(y)}"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{_down(y, ys) + 4:.1f}" text-anchor="end">{y:g}</text>')
    parts.append(f'<text x="{(_LEFT + right) / 2}" y="{_HEIGHT - 14}" text-anchor="middle">{escape(x_label)}</text>')
    middle = (_TOP + bottom) / 2
    parts.append(f'<text x="18" y="{middle}" text-anchor="middle" transform="rotate(-90 18 {middle})">{escape(y_label)}</text>')
    return parts


def _look(tick: float) -> str:
    return "zero" if tick == 0 else "grid"


def _legend(name: str, index: int) -> list[str]:
    """Below the title, one beside the other."""
    x, y = _LEFT + 8 + 240 * index, _TOP - 18
    dot = f'<path d="M{x} {y}h0" class="dots" stroke="{_COLOURS[index]}"/>'
    return [dot, f'<text x="{x + 10}" y="{y + 4}">{escape(name)}</text>']


def _svg(parts: Sequence[str], width: float, height: float) -> str:
    style = (
        "text{font:13px system-ui,sans-serif;fill:#333} .title{font-weight:600;text-anchor:middle} .grid{stroke:#e4e4e4} .zero{stroke:#999}"
        " .dots{fill:none;stroke-width:6;stroke-linecap:round;opacity:.55}"
    )
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}">\n'
        f'<style>{style}</style>\n<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )
