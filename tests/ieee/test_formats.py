"""Numbers of the formats: rounding against other implementations of it, texts, distances, and the basic operations."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from hnfc.dialects.num import OPERATIONS
from hnfc.dialects.num.rounding import NUMPY_TYPES
from hnfc.dsl.ieee import formats
from hnfc.dsl.ieee.arithmetic import extreme, fused, pointwise
from hnfc.dsl.ieee.formats import BINARY, all_values, distance, magnitudes, nearest, neighbours, next_after, number, rounded, text, value_at
from hnfc.dsl.ieee.values import ordinary, patterns
from tests.ieee import reference

SMALL = [form for form in BINARY.values() if form.small]
RANDOM = np.random.default_rng(0)


def same(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return ((x == y) & (np.signbit(x) == np.signbit(y))) | (np.isnan(x) & np.isnan(y))


@pytest.mark.parametrize("form", SMALL, ids=lambda f: f.name)
def test_all_values_are_those_of_the_bit_patterns(form: formats.Binary) -> None:
    bits = np.arange(2**form.bits, dtype=np.uint16 if form.bits == 16 else np.uint8)
    with np.errstate(invalid="ignore"):  # of signaling NaN
        theirs = bits.view(NUMPY_TYPES[form.name]).astype(np.float64)
    assert {x.hex() for x in all_values(form).tolist()} == {(math.nan if math.isnan(x) else x).hex() for x in theirs.tolist()}


@pytest.mark.parametrize("form", SMALL, ids=lambda f: f.name)
def test_rounding_from_float32_agrees_with_ml_dtypes(form: formats.Binary) -> None:
    grid = magnitudes(form)
    halves = (grid[:-1] + grid[1:]) / 2
    near = np.concatenate([halves, np.nextafter(halves.astype(np.float32), np.float32(0)).astype(np.float64), halves * (1 + 2.0**-20)])
    with np.errstate(invalid="ignore"):
        raw = RANDOM.integers(0, 2**32, 20000, dtype=np.uint32).view(np.float32).astype(np.float64)
    with np.errstate(all="ignore"):
        x = np.concatenate([near, -near, raw, raw * 2.0**-100, raw * 2.0**100]).astype(np.float32)
        theirs = x.astype(NUMPY_TYPES[form.name]).astype(np.float64)
        ours = rounded(x.astype(np.float64), form)
    assert same(ours, theirs).all(), x[~same(ours, theirs)][:5]


def test_rounding_from_float64_is_one_rounding() -> None:
    """ml_dtypes goes through float32 and rounds 1 + 2^-8 + 2^-30 to the even 1."""
    just_above_a_tie = np.array([1 + 2.0**-8 + 2.0**-30])
    assert just_above_a_tie.astype(ml_dtypes.bfloat16)[0] == 1
    assert rounded(just_above_a_tie, BINARY["bf16"])[0] == 1 + 2.0**-7


@pytest.mark.parametrize("form", BINARY.values(), ids=lambda f: f.name)
def test_rounding_agrees_with_the_definition(form: formats.Binary) -> None:
    numbers = [Fraction(float(v)) for v in ordinary(BINARY["f64"], 200, RANDOM)]
    numbers += [Fraction(float(v)) for v in patterns(BINARY["f64"], 200, RANDOM) if math.isfinite(v)]
    numbers += [Fraction(1, 3), Fraction(10) ** 40, Fraction(1, 10**60), Fraction(form.largest) * 2, Fraction(form.tiny) / 2]
    for exact in [*numbers, *(Fraction(form.largest) - x / 10**9 for x in numbers[:20])]:
        ours, theirs = nearest(exact, form), reference.nearest(exact, form.name)
        assert same(np.array(ours), np.array(theirs)), (exact, ours, theirs)


@pytest.mark.parametrize("form", BINARY.values(), ids=lambda f: f.name)
def test_texts_are_read_back(form: formats.Binary) -> None:
    values = [*patterns(form, 300, RANDOM).tolist(), 0.0, form.largest, form.tiny, -form.largest, 1.0, math.nan]
    for value in values:
        again = number(text(value, form), form)
        assert same(np.array(again), np.array(value)), (value, text(value, form))


def test_texts_are_short() -> None:
    f32, f16 = BINARY["f32"], BINARY["f16"]
    written = [text(nearest(v, f32), f32) for v in (1e20, 0.1, 200.0, -0.0, 1e-30, 5.5e21, 65504.0, math.nan)]
    assert written == ["1e20", "0.1", "200", "-0", "1e-30", "5.5e21", "65504", "nan"]
    assert text(nearest(1 / 3, f16), f16) == "0.3333"


@pytest.mark.parametrize("form", BINARY.values(), ids=lambda f: f.name)
def test_neighbours_are_one_apart(form: formats.Binary) -> None:
    values = np.array([v for v in patterns(form, 100, RANDOM) if math.isfinite(v) and abs(v) < form.largest] + [0.0, 1.0, -1.0])
    above = np.array([next_after(float(v), math.inf, form) for v in values])
    assert (distance(values, above, form) == 1).all()
    assert (above > values).all()
    assert neighbours(1.0, form, 2)[2] == 1.0
    places = np.where(np.signbit(values), -formats.ordinals(values, form), formats.ordinals(values, form))
    assert (value_at(places, form) == values).all()


def test_distance_counts_numbers_on_both_sides_of_0() -> None:
    for form in BINARY.values():
        tiny = np.array([form.tiny])
        assert distance(tiny, -tiny, form)[0] == 2
        assert distance(np.array([0.0]), np.array([-0.0]), form)[0] == 0


@pytest.mark.parametrize("form", BINARY.values(), ids=lambda f: f.name)
def test_fma_rounds_once(form: formats.Binary) -> None:
    for draw in (patterns, ordinary):
        x, y, z = (draw(form, 150, RANDOM) for _ in range(3))
        with np.errstate(all="ignore"):
            cancelling = rounded(-x * y, form)
            for third in (z, cancelling):
                for a, b, c, ours in zip(x.tolist(), y.tolist(), third.tolist(), fused(x, y, third, form).tolist(), strict=True):
                    if all(map(math.isfinite, (a, b, c))):
                        theirs = reference.result("fma", [a, b, c], form.name, {})
                        assert same(np.array(ours), np.array(theirs)), (a, b, c, ours, theirs)


@pytest.mark.parametrize("form", BINARY.values(), ids=lambda f: f.name)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "sqrt", "square", "reciprocal"])
def test_basic_operations_round_once(name: str, form: formats.Binary) -> None:
    """Division by 0 and sqrt of negative numbers included."""
    count = 1 if name in ("sqrt", "square", "reciprocal") else 2
    special = np.array([0.0, form.tiny, 1.0, form.largest, math.ldexp(1.0, form.least)])
    draws = [np.concatenate([patterns(form, 150, RANDOM), RANDOM.permutation(special), -special + 0.0]) for _ in range(count)]
    with np.errstate(all="ignore"):
        found = pointwise(OPERATIONS[name], form.name, draws, {})
    for ours, operands in zip(found.tolist(), zip(*(d.tolist() for d in draws), strict=True), strict=True):
        if all(map(math.isfinite, operands)):
            theirs = reference.result(name, list(operands), form.name, {})
            assert same(np.array(ours), np.array(theirs)), (operands, ours, theirs)


@pytest.mark.parametrize("form", BINARY.values(), ids=lambda f: f.name)
@pytest.mark.parametrize("name", ["exp", "log", "log1p", "expm1", "tanh", "sigmoid", "rsqrt", "pow", "sin"])
def test_elementary_functions_are_rounded_correctly(name: str, form: formats.Binary) -> None:
    draws = [ordinary(form, 120, RANDOM) for _ in range(2 if name == "pow" else 1)]
    with np.errstate(all="ignore"):
        found = pointwise(OPERATIONS[name], form.name, draws, {})
    for ours, operands in zip(found.tolist(), zip(*(d.tolist() for d in draws), strict=True), strict=True):
        theirs = reference.result(name, list(operands), form.name, {})
        assert same(np.array(ours), np.array(theirs)), (operands, ours, theirs)


def test_maximum_is_that_of_ieee_754_2019() -> None:
    zero, minus = np.array([0.0]), np.array([-0.0])
    for x, y in ((zero, minus), (minus, zero)):
        assert not np.signbit(extreme(x, y, True))[0]
        assert np.signbit(extreme(x, y, False))[0]
    assert np.isnan(extreme(np.array([np.nan]), zero, True))[0]
    assert np.signbit(extreme(minus, minus, True))[0]
