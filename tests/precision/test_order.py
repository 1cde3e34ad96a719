"""The order of formats: against the sets of their values, and its laws."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from hnfc.dialects.formats import Block, Fixed, Float, Format, Overflow, Specials, finite_values, includes, maximal, minimal
from hnfc.precision import format_named, round_to

SMALL = [
    "fp16", "bf16", "fp8_e5m2", "fp8_e5m2fnuz", "fp8_e4m3", "fp8_e4m3fn", "fp8_e4m3fn_saturating", "fp8_e4m3fnuz", "fp8_e4m3b11fnuz",
    "fp8_e3m4", "fp6_e3m2fn", "fp6_e2m3fn", "fp4_e2m1fn", "e8m0fnu", "minifloat_ieee(8, 4)", "minifloat_ieee(5, 2)",
    "minifloat_denorm(8, 4)",
    "minifloat_denorm(6, 3)", "log(4)", "log(8)", "binary", "int8_affine", "int4_affine", "int8_affine(0.5)", "int8_affine(0.1)",
    "uint8_affine", "uint8_affine(1, 128)", "fixed(3, 4)", "fixed(0, 3)", "ternary", "int2_affine",
]  # fmt: skip
WIDE = [
    Float(name="e9m8", exponent=9, fraction=8, bias=255),
    Float(name="e5m12", exponent=5, fraction=12, bias=15),
    Float(name="e5m12 top", exponent=5, fraction=12, bias=15, specials=Specials.NONE, overflow=Overflow.SATURATE),
    Float(name="e6m11 flush", exponent=6, fraction=11, bias=31, subnormals=False),
    Float(name="e6m11 no zero", exponent=6, fraction=11, bias=31, subnormals=False, zero=False),
    Float(name="e4m13 unsigned", exponent=4, fraction=13, bias=7, signed=False),
    Fixed(name="fixed 18", low=-(1 << 17), high=(1 << 17) - 1, scale=2.0**-9),
    Fixed(name="fixed 17 offset", low=0, high=(1 << 17) - 1, scale=2.0**-9, zero_point=100),
]
"""Too many values to be listed by the code; here they are listed from their definitions."""


def wide_values(form: Format) -> np.ndarray:
    if isinstance(form, Fixed):
        return form.scale * (np.arange(form.low, form.high + 1) - form.zero_point)
    assert isinstance(form, Float)
    fields = np.arange(int(form.zero and not form.subnormals), form._last_field + 1)
    fractions = np.arange(1 << form.fraction)
    exponent, fraction = (x.reshape(-1) for x in np.meshgrid(fields, fractions, indexing="ij"))
    subnormal = (exponent == 0) & form.subnormals
    significand = fraction + np.where(subnormal, 0, 1 << form.fraction)
    values = np.ldexp(significand.astype(float), np.where(subnormal, 1, exponent) - form.bias - form.fraction)
    values = np.concatenate([values, -values]) if form.signed else values
    return np.concatenate([values, [0.0]]) if form.zero else values


def test_small_formats_by_their_values() -> None:
    values = {name: set(finite_values(format_named(name)).tolist()) for name in SMALL}
    for a, b in product(SMALL, SMALL):
        assert (format_named(a) <= format_named(b)) == (values[a] <= values[b]), (a, b)


def test_wide_formats_by_their_values() -> None:
    """What is decided from a few values is decided as from all of them."""
    values = {form.name: set(wide_values(form).tolist()) for form in WIDE}
    small = [format_named(name) for name in SMALL]
    values |= {form.name: set(finite_values(form).tolist()) for form in small}
    forms = [*WIDE, *small]
    for a, b in product(forms, forms):
        if a in WIDE or b in WIDE:
            assert includes(b, a) == (values[a.name] <= values[b.name]), (a, b)


def test_the_usual_formats() -> None:
    named = {name: format_named(name) for name in ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8_e4m3fn", "fp8_e5m2")}
    assert named["fp16"] < named["tf32"] < named["fp32"] < named["fp64"] and named["bf16"] < named["tf32"]
    assert not named["bf16"] <= named["fp16"] and not named["fp16"] <= named["bf16"]
    assert named["fp8_e4m3fn"] < named["bf16"] and named["fp8_e4m3fn"] < named["fp16"] and not named["fp8_e4m3fn"] <= named["fp8_e5m2"]
    assert format_named("int8_affine") < format_named("bf16") and not format_named("uint8_affine(0.1)") <= named["fp32"]


@pytest.mark.parametrize(
    "names", [["fp16", "bf16", "fp8_e4m3", "fp32", "tf32", "fp64", "MXFP4_E2M1", "MXFP8_E4M3", "MXFP8_E5M2", "fixed(3, 4)", "NVFP4"]]
)
def test_it_is_a_preorder_and_rounding_to_a_wider_format_keeps_values(names: list[str]) -> None:
    forms = [format_named(name) for name in names]
    for a, b, c in product(forms, forms, forms):
        assert a <= a
        assert not (a <= b and b <= c) or a <= c, (a, b, c)
    x = np.random.default_rng(0).standard_normal(320)
    for a, b in product(forms, forms):
        if a <= b and not (isinstance(b, Block) and not isinstance(a, Block)):
            assert (round_to(round_to(x, a), b) == round_to(x, a)).all(), (a, b)


def test_blocks() -> None:
    assert format_named("MXFP4_E2M1") < format_named("MXFP6_E2M3") < format_named("MXFP8_E4M3")
    assert format_named("mx(fp16)") <= format_named("mx(fp32)")
    assert not format_named("MXFP4_E2M1") <= format_named("fp32") and format_named("MXFP4_E2M1") <= format_named("fp64")
    assert not format_named("fp32") <= format_named("MXFP8_E4M3") and format_named("fp4_e2m1fn") <= format_named("MXFP4_E2M1")
    assert format_named("NVFP4") <= format_named("fp64") and not format_named("NVFP4") <= format_named("fp32")
    assert format_named("block_fp(8, 5, 32)") <= format_named("block_fp(8, 8, 16)")
    assert not format_named("block_fp(8, 8, 16)") <= format_named("block_fp(8, 8, 32)")


def test_what_has_too_many_values_of_its_own_is_not_compared() -> None:
    long = Fixed(name="long", low=-(1 << 20), high=1 << 20, scale=0.1)
    with pytest.raises(ValueError, match="not listed"):
        includes(format_named("fp32"), long)
    assert includes(long, format_named("ternary(0.1)")) and includes(long, long)


def test_bounds_within_a_list() -> None:
    ladder = [format_named(name) for name in ("fp8_e4m3fn", "fp16", "bf16", "tf32", "fp32", "fp64")]
    assert [str(form) for form in minimal(ladder)] == ["fp8_e4m3fn"] and [str(form) for form in maximal(ladder)] == ["fp64"]
    both = [form for form in ladder if format_named("fp16") <= form and format_named("bf16") <= form]
    assert [str(form) for form in minimal(both)] == ["tf32"]
    below = [form for form in ladder if form <= format_named("fp16") and form <= format_named("bf16")]
    assert [str(form) for form in maximal(below)] == ["fp8_e4m3fn"]
    assert [str(form) for form in maximal(ladder[1:3])] == [str(form) for form in minimal(ladder[1:3])] == ["fp16", "bf16"]
    twins = [format_named("fp8_e4m3fn"), format_named("fp8_e4m3fn_saturating")]
    assert minimal(twins) == maximal(twins) == twins[:1] and minimal([]) == []
