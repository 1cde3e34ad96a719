"""Plots of bits of error against each argument, before and after: of programs, and of pointwise rewrites in models."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hnfc.accuracy.element_types import TypedEvaluator, bits_lost, rounded_inputs
from hnfc.accuracy.everyday import everyday
from hnfc.accuracy.ordinals import Floats, from_ordinal, to_ordinal
from hnfc.accuracy.points import Domain
from hnfc.accuracy.reference import exact_values
from hnfc.accuracy.regions import condition_of, term_of
from hnfc.accuracy.terms import Terms
from hnfc.dialects.types import FORMATS
from hnfc.dsl import core
from hnfc.pages.document import Block, PlotBlock, anchor
from hnfc.pages.plots import bits_spec

_SCALE = 2.0**52
"""Doubles of one binade: places on an axis are counted in binades, so that they are exact as numbers of a page."""
_TICKS = (-1e300, -1e100, -1.0, -1e-100, 0.0, 1e-100, 1.0, 1e100, 1e300)
_EVEN = 1e3
"""Inverse of the size below which an axis of sizes is even."""
_POINTS, _LEAST_POINTS = 400, 40
_MOST_ARGUMENTS = 3


def bits_plots(
    name: str, inputs: Mapping[str, Floats], bits: Sequence[Floats], points: int, most: float, everyday_sizes: bool = False
) -> list[Block]:
    """One plot for each argument. bits: at each point of the inputs, before and after, or of one form; most: bits where no digit is right.

    everyday_sizes: the axis is one of sizes from 1e-3 to 1e3, not one on which all doubles stand evenly.
    """
    count = len(bits[0])
    chosen = np.linspace(0, count - 1, min(count, points)).astype(int)
    blocks: list[Block] = []
    for argument, values in inputs.items():
        places = _sizes(values) if everyday_sizes else to_ordinal(values).astype(np.float64) / _SCALE
        ticks = _size_ticks(places) if everyday_sizes else _ticks(float(places.min()), float(places.max()))
        rows: list[Mapping[str, Any]] = []
        for form, lost in zip(("before", "after"), bits, strict=False):
            rows += [
                {"x": round(float(places[i]), 4), "bits": round(float(lost[i]), 2), "form": form, "given": f"{float(values[i]):.6g}"}
                for i in chosen
            ]
        spec = bits_spec(rows, ticks, argument, both=len(bits) > 1, most=most)
        forms = ", before and after" if len(bits) > 1 else ""
        share = "" if len(chosen) == count else f", of which {len(chosen)} are drawn"
        caption = f"Bits of error of {name} against {argument} at {count} points{share}: points and their means{forms}."
        blocks.append(PlotBlock(anchor("plot", name, argument), spec, caption))
    return blocks


def rule_plots(rule: core.Rule, element: str, backwards: bool, points: int) -> list[Block]:
    """Plots of the two sides of a pointwise rule in an element type, at everyday points that meet its condition; none for other rules."""
    terms = Terms()
    sides = (rule.replacement, rule.pattern) if backwards else (rule.pattern, rule.replacement)
    before, after = (term_of(side, terms) for side in sides)
    condition = condition_of(rule.where, terms)
    names = tuple(core.captures(rule.pattern))
    if before is None or after is None or condition is None or not 0 < len(names) <= _MOST_ARGUMENTS:
        return []
    largest = FORMATS[element].largest
    domain = Domain(names, condition, dict.fromkeys(names, (-largest, largest)))
    inputs = rounded_inputs(everyday(before, domain, _POINTS, np.random.default_rng(1)).inputs, element)
    exact, _ = exact_values(before, inputs)
    counted = np.isfinite(exact) & (np.abs(exact) <= largest)
    inputs, exact = {name: values[counted] for name, values in inputs.items()}, exact[counted]
    if len(exact) < _LEAST_POINTS:
        return []
    lost = [bits_lost(TypedEvaluator(inputs, element).values(side), exact, element) for side in (before, after)]
    return bits_plots(
        rule.name, inputs, (lost[0], lost[1]), points, most=2 - math.log2(FORMATS[element].unit_roundoff), everyday_sizes=True
    )


def element_with(unit_roundoff: float) -> str:
    """The element type with this unit roundoff."""
    return next((name for name, form in FORMATS.items() if form.unit_roundoff == unit_roundoff), "f32")


def _sizes(values: Floats) -> Floats:
    """Places on an axis that is even near 0, and logarithmic from there on, for both signs."""
    found: Floats = np.sign(values) * np.log10(1 + np.abs(values) * _EVEN)
    return found


def _size_ticks(places: Floats) -> list[tuple[float, str]]:
    numbers = np.array([sign * 10.0**exponent for sign in (-1, 1) for exponent in (-2, 0, 2, 4)] + [0.0])
    found = [(float(place), f"{number:g}") for place, number in zip(_sizes(numbers), numbers, strict=True)]
    return sorted((place, text) for place, text in found if places.min() <= place <= places.max())


def _ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Round numbers between two places, and the ends where there are few."""
    places = to_ordinal(np.array(_TICKS)).astype(np.float64) / _SCALE
    found = [
        (float(place), f"{number:.0e}" if abs(number) not in (0, 1) else f"{number:.0f}")
        for place, number in zip(places, _TICKS, strict=True)
        if low <= place <= high
    ]
    if len(found) < 3:
        ends = np.linspace(low, high, 5)
        found = [(float(p), f"{from_ordinal(np.array([int(p * _SCALE)]))[0]:.3g}") for p in ends]
    return found
