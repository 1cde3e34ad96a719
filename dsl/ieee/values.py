"""Numbers at which floating point is likely to go wrong, for each format and rule."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

import numpy as np

from hnfc.dsl.core import Literal, Rule
from hnfc.dsl.ieee.arithmetic import INTEGERS, NotComputed
from hnfc.dsl.ieee.formats import Array, Binary, all_values, nearest, neighbours, rounded
from hnfc.dsl.soundness.scan import rule_expressions

SIMPLE = (
    0.0, 1.0, 2.0, 3.0, 0.5, 0.25, 10.0, 12.0, 100.0, 89.0, 104.0, 150.0, 200.0, 300.0, 710.0, 750.0, 1000.0, 1e4, 4e4, 6e4, 1e5, 1e6, 1e10,
    1e20, 1e30, 1e38, 1e100, 1e155, 1e200, 1e300, 0.1, 0.01, 1e-3, 1e-5, 1e-10, 1e-20, 1e-30, 1e-45, 1e-100, 1e-170, 1e-200, 1e-300,
)  # fmt: skip
"""Short numbers; every one that a format holds without overflow is tried in it."""

CORE = (0.0, 1.0, 2.0, 3.0, 0.5, 100.0, 200.0, 1e4, 1e20, 1e30, 1e-30, 1e200, 1e-200)
"""The numbers tried in all combinations by rules of three or more captures."""

SHORT_INTEGERS = (0, 1, -1, 2, 3, 7, 100, 127, 2047, 2048, 2049, 4095, 4097, 65519, 65520, 10**6, 2**24 + 1, 2**31 - 1, -(2**31))


def thresholds(form: Binary) -> list[float]:
    """Thresholds at which exponentials, logarithms, squares and sums of the format overflow, underflow or are absorbed."""
    unit, normal = 2.0**-form.precision, math.ldexp(1.0, form.least)
    top, bottom = math.log(form.largest), math.log(form.tiny)
    return [
        top, top / 2, bottom, bottom - math.log(2), math.log2(form.largest), math.sqrt(form.largest), math.sqrt(form.tiny),
        math.sqrt(normal), 1 / unit, 2 / unit, math.sqrt(unit), -math.log(unit),
    ]  # fmt: skip


def landmarks(form: Binary) -> list[float]:
    normal = math.ldexp(1.0, form.least)
    unit = 2.0**-form.precision
    return [form.tiny, normal, normal - form.tiny, 1 - unit, 1 + 2 * unit, form.largest, form.largest / 2, unit, 2 * unit]


def literals(rule: Rule) -> list[Fraction]:
    """The numbers that the rule speaks of, and their reciprocals."""
    found = {abs(n.value) for n in rule_expressions(rule) if isinstance(n, Literal) and isinstance(n.value, Fraction)} - {Fraction(0)}
    return sorted(found | {1 / value for value in found})


def without_sign(values: list[float]) -> Array:
    """The values and their opposites, each once; both zeros."""
    ordered = list(dict.fromkeys(abs(v) for v in values if math.isfinite(v)))
    return np.array([signed for v in ordered for signed in (v, -v)])


def specials(form: Binary, rule: Rule) -> Array:
    """Every number worth trying by itself: short ones first, infinities and NaN last."""
    return _specials(form, tuple(literals(rule)))


@cache
def _specials(form: Binary, numbers: tuple[Fraction, ...]) -> Array:
    found = [nearest(v, form) for v in (*SIMPLE, *landmarks(form))]
    for value in thresholds(form):
        found += neighbours(value, form, 1)
    for number in numbers:
        if number < Fraction(2) ** 1000:
            found += neighbours(nearest(number, form), form, 1)
    return np.concatenate([without_sign(found), not_finite(form)]) + _zero(form)


def core(form: Binary, rule: Rule) -> Array:
    """A few numbers of each sort."""
    found = [nearest(v, form) for v in CORE] + [form.tiny, 1 + 2.0 ** (1 - form.precision), form.largest]
    found += [nearest(number, form) for number in literals(rule)[:2]]
    return np.concatenate([without_sign(found), not_finite(form)]) + _zero(form)


def not_finite(form: Binary) -> Array:
    return np.array([np.inf, -np.inf, np.nan] if form.infinite else [np.nan])


def _zero(form: Binary) -> float:
    """Adding it makes -0 a +0 in formats without one, and changes nothing elsewhere."""
    return -0.0 if form.signed_zero else 0.0


def patterns(form: Binary, count: int, random: np.random.Generator) -> Array:
    """Uniform over the bit patterns of the format, except that NaN is one value of a small format."""
    if form.small:
        return random.choice(all_values(form), count)
    if form.name == "f32":
        with np.errstate(invalid="ignore"):  # of signaling NaN
            return random.integers(0, 2**32, count, dtype=np.uint32).view(np.float32).astype(np.float64)
    return random.integers(0, 2**64, count, dtype=np.uint64).view(np.float64)


def ordinary(form: Binary, count: int, random: np.random.Generator) -> Array:
    """Numbers as they occur: of every sign, mostly between 0.01 and 100."""
    scale = 10.0 ** random.uniform(-2, 2, count)
    return rounded(random.standard_normal(count) * scale, form)


def corners(form: Binary) -> Array:
    """Every exponent of f32 or f64 with the significands at which rounding is likely to differ."""
    bits = form.precision - 1
    significands = np.array([0, 1, 2, 3, 1 << (bits - 1), (1 << (bits - 1)) + 1, (1 << bits) // 3, (1 << bits) - 2, (1 << bits) - 1])
    unsigned = np.uint32 if form.name == "f32" else np.uint64
    exponents = np.arange(1 << (form.bits - form.precision)).astype(np.uint64)
    grid = (exponents[:, None] << np.uint64(bits)) | significands[None, :].astype(np.uint64)
    positive = grid.reshape(-1).astype(unsigned).view(np.float32 if form.name == "f32" else np.float64).astype(np.float64)
    return np.concatenate([positive, -positive])


def discrete(element: str, count: int, random: np.random.Generator) -> Array:
    """Truth values, or integers: short ones, those at which a float runs out of digits, and any. Raises Unsupported."""
    if element == "i1":
        return random.integers(0, 2, count).astype(np.bool_)
    if element not in INTEGERS:
        raise NotComputed(f"inputs of {element}")
    bounds = np.iinfo(INTEGERS[element])
    low, high = max(int(bounds.min), -(2**31)), min(int(bounds.max), 2**31 - 1)
    short = np.array([v for v in SHORT_INTEGERS if low <= v <= high])[:count]
    near = random.integers(max(low, -5000), min(high, 5000), count, endpoint=True)
    mixed = np.where(random.random(count) < 0.5, near, random.integers(low, high, count, endpoint=True))
    mixed[: len(short)] = short
    return mixed.astype(INTEGERS[element])
