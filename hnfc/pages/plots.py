"""Plots of reports as specifications of Vega-Lite."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

_SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
BEFORE, AFTER = "#e69f00", "#2a87c8"
"""Two colours that everybody can tell apart, beside different shapes."""


def growth_spec(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The error after each value, in the order of the program."""
    powers = _powers([row["error"] for row in rows])
    tips = [{"field": name, "type": kind} for name, kind in (("operation", "nominal"), ("at", "nominal"), ("error", "quantitative"))]
    return _spec(
        rows,
        {
            "mark": {"type": "line", "point": {"filled": True, "size": 30}, "color": AFTER, "strokeWidth": 1},
            "encoding": {
                "x": {
                    "field": "n",
                    "type": "quantitative",
                    "title": "position in the program",
                    "axis": {"grid": False, "tickMinStep": 1, "format": "d"},
                    "scale": {"zero": False, "nice": False},
                },
                "y": {
                    "field": "error",
                    "type": "quantitative",
                    "scale": {"type": "log"},
                    "title": "error",
                    "axis": {"format": ".0e", "tickCount": 8, "values": powers},
                },
                "tooltip": tips,
            },
        },
    )


def _powers(errors: Sequence[float]) -> list[float]:
    """At most nine powers of ten across the errors: a line at each multiple of one would fill the plot."""
    ends = [math.log10(error) for error in errors if 0 < error < math.inf] or [0.0]
    low, high = math.floor(min(ends)), math.ceil(max(ends))
    return [10.0**power for power in range(low, high + 1, max(1, math.ceil((high - low) / 8)))]


def bits_spec(
    rows: Sequence[Mapping[str, Any]], ticks: Sequence[tuple[float, str]], argument: str, both: bool, most: float = 64
) -> dict[str, Any]:
    """Bits of error against one argument, whose doubles stand evenly. rows: `x`, `bits`, `form` and the argument as a text.

    ticks: places of round numbers on the axis, and their texts. most: the bits of a result without a right digit.
    """
    label = "".join(f"abs(datum.value - {place!r}) < 1e-9 ? '{text}' : " for place, text in ticks) + "''"
    forms = ["before", "after"] if both else ["before"]
    colour = {
        "field": "form",
        "type": "nominal",
        "scale": {"domain": forms, "range": [BEFORE, AFTER][: len(forms)]},
        "title": None,
        "legend": {"orient": "top", "symbolOpacity": 1} if both else None,
    }
    axis = {
        "field": "x",
        "type": "quantitative",
        "title": argument,
        "scale": {"zero": False, "nice": False},
        "axis": {"values": [place for place, _ in ticks], "labelExpr": label},
    }
    bits = {"field": "bits", "type": "quantitative", "title": "bits of error", "scale": {"domain": [0, most]}}
    points = {
        "mark": {"type": "point", "filled": True, "size": 14, "opacity": 0.35},
        "encoding": {
            "x": axis,
            "y": bits,
            "color": colour,
            "shape": {"field": "form", "type": "nominal", "legend": None},
            "tooltip": [{"field": "given", "title": argument}, {"field": "bits", "format": ".1f"}, *([{"field": "form"}] if both else [])],
        },
    }
    means = {
        "transform": [
            {"bin": {"maxbins": 40}, "field": "x", "as": "part"},
            {
                "aggregate": [{"op": "mean", "field": "bits", "as": "mean"}, {"op": "mean", "field": "x", "as": "middle"}],
                "groupby": ["part", "form"],
            },
        ],
        "mark": {"type": "line", "strokeWidth": 2.2},
        "encoding": {"x": {**axis, "field": "middle"}, "y": {**bits, "field": "mean"}, "color": colour},
    }
    return _spec(rows, {"layer": [points, means]})


def formats_spec(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Bytes by module and format."""
    modules = len({row["module"] for row in rows})
    return _spec(
        rows,
        {
            "mark": {"type": "bar", "height": {"band": 0.8}},
            "encoding": {
                "y": {"field": "module", "type": "nominal", "sort": None, "title": None, "axis": {"labelLimit": 260}},
                "x": {"field": "bytes", "type": "quantitative", "title": "bytes", "axis": {"format": ".2s"}},
                "color": {
                    "field": "format",
                    "type": "nominal",
                    "scale": {"range": ["#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#f0e442", "#0072b2"]},
                },
                "tooltip": [{"field": "module"}, {"field": "format"}, {"field": "bytes", "format": ",.0f"}, {"field": "values"}],
            },
        },
        height=max(60, 20 * modules),
    )


_BOUNDS = (-149, -126, -24, -14, -7, 0, 7, 16, 64, 128)
"""Powers of two at which a heat map of exponents changes its colour, ends of formats among them."""
_HEAT = ("#2d1160", "#4a2380", "#5b6fb5", "#6a9bc9", "#9cc9d8", "#d9ecd9", "#fdf3c0", "#fdd27c", "#f59b4a", "#d95030", "#8f0d1f")


def heat_spec(rows: Sequence[Mapping[str, Any]], marks: Sequence[Mapping[str, Any]], modules: Sequence[str]) -> dict[str, Any]:
    """The exponents of modules over steps. rows: `module`, `from`, `to` (steps), `exponent`, `value`, `format` and `left`; marks: `module`
    and `step` of what was not finite; modules: their order from above."""
    y = {"field": "module", "type": "nominal", "sort": list(modules), "title": None, "axis": {"labelLimit": 260}}
    tips = [{"field": name, "title": title} for name, title in (("module", "module"), ("value", "value"), ("from", "from step"))]
    tips += [{"field": "exponent", "title": "log2 of the largest"}, {"field": "format"}, {"field": "left", "title": "bits left"}]
    colour = {
        "field": "exponent",
        "type": "quantitative",
        "scale": {"type": "threshold", "domain": list(_BOUNDS), "range": list(_HEAT)},
        "title": "log2 of the largest",
        "legend": {"type": "symbol", "symbolType": "square", "orient": "right"},
    }
    x = {"field": "from", "type": "quantitative", "title": "step", "scale": {"zero": False, "nice": False}, "axis": {"grid": False}}
    cells = {"mark": {"type": "rect"}, "encoding": {"x": x, "x2": {"field": "to"}, "y": y, "color": colour, "tooltip": tips}}
    crosses = {
        "data": {"values": list(marks)},
        "mark": {"type": "point", "shape": "cross", "size": 90, "filled": True, "color": "#d00020", "stroke": "white", "strokeWidth": 1},
        "encoding": {"x": {"field": "step", "type": "quantitative"}, "y": y, "tooltip": [{"field": "module"}, {"field": "what"}]},
    }
    return _spec(rows, {"layer": [cells, crosses]}, height=max(120, 18 * len(modules) + 50))


def limits_spec(rows: Sequence[Mapping[str, Any]], limits: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Exponents of single values over steps, with the ends of formats. rows: `step`, `exponent`, `value`; limits: `exponent`, `text`."""
    lines = {
        "mark": {"type": "line", "point": {"size": 12}},
        "encoding": {
            "x": {"field": "step", "type": "quantitative", "axis": {"grid": False}, "scale": {"zero": False, "nice": False}},
            "y": {"field": "exponent", "type": "quantitative", "title": "log2 of the largest"},
            "color": {"field": "value", "type": "nominal", "title": None, "legend": {"orient": "top", "columns": 1, "labelLimit": 700}},
            "tooltip": [{"field": "value"}, {"field": "step"}, {"field": "exponent"}],
        },
    }
    y = {"field": "exponent", "type": "quantitative"}
    rules = {"data": {"values": list(limits)}, "mark": {"type": "rule", "strokeDash": [5, 3], "color": "#d00020"}, "encoding": {"y": y}}
    texts = {
        "data": {"values": list(limits)},
        "mark": {"type": "text", "align": "left", "baseline": "bottom", "dx": 4, "color": "#d00020"},
        "encoding": {"x": {"value": 0}, "y": y, "text": {"field": "text"}},
    }
    return _spec(rows, {"layer": [lines, rules, texts]}, height=340)


def loss_spec(rows: Sequence[Mapping[str, Any]], marks: Sequence[int]) -> dict[str, Any]:
    """A loss over steps: `step` and `loss`. marks: steps that went wrong."""
    x = {"field": "step", "type": "quantitative", "axis": {"grid": False}, "scale": {"zero": False, "nice": False}}
    y = {"field": "loss", "type": "quantitative", "scale": {"type": "symlog"}}
    line = {"mark": {"type": "line", "color": AFTER, "strokeWidth": 1.2}, "encoding": {"x": x, "y": y}}
    steps = [{"step": step} for step in marks]
    rules = {"data": {"values": steps}, "mark": {"type": "rule", "color": "#d00020"}, "encoding": {"x": x}}
    return _spec(rows, {"layer": [line, rules]}, height=180)


def _spec(rows: Sequence[Mapping[str, Any]], body: Mapping[str, Any], height: int = 260) -> dict[str, Any]:
    size = {"width": "container", "height": height, "autosize": {"type": "fit", "contains": "padding"}}
    return {"$schema": _SCHEMA, **size, "data": {"values": list(rows)}, **body}
