"""The shipped formats: their constants against a table that was made without them, and that every one of that table is declared."""

from __future__ import annotations

import csv
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import torch

from hnfc.dialects.formats import Block, Fixed, Float, Overflow, Specials, finite_values
from hnfc.dialects.types import FLOATS
from hnfc.precision import format_named, known_formats

ROWS = {row["name"]: row for row in csv.DictReader((Path(__file__).parent / "formats.tsv").read_text().splitlines(), delimiter="\t")}
USUAL = [name for name in ROWS if name.startswith(("fp", "tf", "bf"))]
BLOCKS = [name for name, row in ROWS.items() if name.startswith(("MX", "NV"))]
SPELLED = {
    "MSFP/block_fp(w,e,B)": "block_fp(8, 5, 16)",
    "block_minifloat(w,e,be,B)": "block_minifloat(8, 3, 4, 16)",
    "block_log(w,be,B)": "block_log(8, 4, 16)",
    "minifloat_ieee(w,e,bias)": "minifloat_ieee(8, 4)",
    "minifloat_denorm(w,e,bias)": "minifloat_denorm(8, 4)",
    "log(w,bias)": "log(8)",
    "int8_affine(scale,zp)": "int8_affine(0.5, 3)",
    "int4_affine(scale,zp)": "int4_affine(0.5, 3)",
    "int3_affine(scale,zp)": "int3_affine(0.5, 1)",
    "int2_affine(scale,zp)": "int2_affine(0.5, 1)",
    "uint8_affine(scale,zp)": "uint8_affine(0.5, 3)",
    "fixed_Qm.n signed": "fixed(3, 4)",
}
"""What a row with letters in it is called."""


def power(text: str) -> Fraction:
    """A number, or a sum of powers of two as 2^1024-2^970."""
    if "^" not in text:
        return Fraction(text)
    plus, _, minus = text.partition("-")
    return Fraction(2) ** int(plus[2:]) - (Fraction(2) ** int(minus[2:]) if minus else 0)


def test_each_row_of_the_table_is_declared() -> None:
    assert len(ROWS) == 37
    for name in ROWS:
        assert format_named(SPELLED.get(name, name)).bits > 0


@pytest.mark.parametrize("name", USUAL)
def test_the_constants_of_floating_point_formats(name: str) -> None:
    row, form = ROWS[name], format_named(name)
    assert isinstance(form, Float)
    assert (form.bits, form.exponent, form.fraction, form.precision) == (
        int(row["bits"]),
        int(row["exponent"]),
        int(row["fraction"]),
        int(row["fraction"]) + 1,
    )
    assert (form.emax, form.emin, form.exact_integers) == (int(row["emax"]), int(row["emin"]), int(row["exact_integers"]))
    assert (form.largest, form.lowest) == (float(row["largest"]), -float(row["largest"]))
    assert (form.smallest_normal, form.smallest) == (float(row["smallest_normal"]), float(row["smallest_subnormal"]))
    assert form.unit_roundoff == float(row["unit_roundoff"])
    assert abs(form.overflow_threshold - power(row["overflow_threshold"])) <= abs(form.overflow_threshold) * Fraction(2) ** -52
    assert form.has_infinity == (row["infinity"] == "yes")
    assert form.has_nan == (row["nan"] != "no")
    assert form.has_negative_zero == (row["negative_zero"] == "yes")


@pytest.mark.parametrize("name", USUAL)
def test_the_constants_are_those_of_ml_dtypes_and_torch(name: str) -> None:
    row, form = ROWS[name], format_named(name)
    theirs = []
    if row["ml_dtypes"] not in ("-", "numpy"):
        theirs.append(ml_dtypes.finfo(getattr(ml_dtypes, row["ml_dtypes"])))
    if row["torch"] != "-":
        theirs.append(torch.finfo(getattr(torch, row["torch"])))
    for info in theirs:
        assert (form.largest, form.lowest, form.smallest_normal, form.bits) == (
            float(info.max),
            float(info.min),
            float(info.tiny),
            info.bits,
        )


@pytest.mark.parametrize("name", [n for n in USUAL if ROWS[n]["ml_dtypes"] not in ("-", "numpy")] + ["e8m0fnu"])
def test_the_values_are_those_of_the_codes(name: str) -> None:
    form = format_named(name)
    codes = np.arange(1 << form.bits, dtype=np.uint16 if form.bits == 16 else np.uint8)
    with np.errstate(invalid="ignore"):
        decoded = codes.view(getattr(ml_dtypes, ROWS[name]["ml_dtypes"])).astype(np.float64)
    assert (np.unique(decoded[np.isfinite(decoded)] + 0.0) == finite_values(form)).all()


def test_fp16_has_the_values_of_its_codes() -> None:
    decoded = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float64)
    assert (np.unique(decoded[np.isfinite(decoded)] + 0.0) == finite_values(format_named("fp16"))).all()


@pytest.mark.parametrize("name", BLOCKS)
def test_the_memory_and_the_range_of_blocks(name: str) -> None:
    row, form = ROWS[name], format_named(name)
    assert isinstance(form, Block)
    assert (form.bits, form.stored_bits) == (int(row["bits"]), float(row["stored_bits"]))
    expected = 6 * 448 * format_named("fp32").largest if name == "NVFP4" else 2.0**127 * float(row["largest"].partition(" * ")[2])
    assert form.largest == expected


@pytest.mark.parametrize("width", [4, 8, 10])
def test_blocks_with_parameters_have_the_memory_of_their_formula(width: int) -> None:
    assert format_named(f"block_fp({width}, 5, 16)").stored_bits == width + 5 / 16
    assert format_named(f"block_minifloat({width}, 2, 4, 32)").stored_bits == width + 4 / 32
    assert format_named(f"block_log({width}, 3, 8)").stored_bits == width + 3 / 8


@pytest.mark.parametrize(("width", "exponent", "bias"), [(8, 4, 7), (6, 3, 2), (5, 2, 0), (12, 5, 20)])
def test_minifloats_by_their_formulas(width: int, exponent: int, bias: int) -> None:
    fraction = width - exponent - 1
    top, bottom = 2**exponent - 1 - bias, 1 - bias
    ieee = format_named(f"minifloat_ieee({width}, {exponent}, {bias})")
    assert isinstance(ieee, Float)
    assert (ieee.emax, ieee.emin, ieee.bits) == (top, bottom, width)
    assert ieee.largest == (2 - 2.0**-fraction) * 2.0**top
    assert (ieee.smallest_normal, ieee.smallest, ieee.unit_roundoff) == (2.0**bottom, 2.0 ** (bottom - fraction), 2.0 ** -(fraction + 1))
    assert (ieee.overflow, ieee.specials, ieee.has_negative_zero) == (Overflow.SATURATE, Specials.NONE, True)
    denorm = format_named(f"minifloat_denorm({width}, {exponent}, {bias})")
    assert isinstance(denorm, Float)
    # the table's exponents are those of significands in [1/2, 1), one more than ours
    assert (denorm.emax, denorm.emin) == (top - 1, -bias - 1)
    assert denorm.largest == (1 - 2.0**-fraction) * 2.0**top
    assert (denorm.smallest, denorm.unit_roundoff, denorm.bits) == (2.0 ** (-bias - fraction), 2.0**-fraction, width)
    codes = np.arange(2 ** (width - 1))
    decoded = np.ldexp((codes % 2**fraction) / 2**fraction, codes // 2**fraction - bias)
    assert (np.unique(np.concatenate([decoded, -decoded]) + 0.0) == finite_values(denorm)).all()


def test_logarithmic_numbers_by_their_formula() -> None:
    for width, bias in ((4, 3), (8, 63), (6, 0)):
        form = format_named(f"log({width}, {bias})")
        exponents = np.arange(2 ** (width - 1)) - bias
        assert (finite_values(form) == np.concatenate([-np.ldexp(1.0, exponents[::-1]), np.ldexp(1.0, exponents)])).all()
        assert isinstance(form, Float) and (form.largest, form.smallest, form.bits) == (2.0 ** exponents[-1], 2.0**-bias, width)
        assert math.isclose(form.unit_roundoff, 0.41421, rel_tol=1e-5) and form.overflow is Overflow.SATURATE
    assert format_named("log(8)").smallest == 2.0**-63


@pytest.mark.parametrize(
    ("name", "low", "high"), [("int8", -128, 127), ("int4", -8, 7), ("int3", -4, 3), ("int2", -2, 1), ("uint8", 0, 255)]
)
def test_integers_with_a_scale(name: str, low: int, high: int) -> None:
    row, form = ROWS[f"{name}_affine(scale,zp)"], format_named(f"{name}_affine(0.25, 1)")
    assert isinstance(form, Fixed)
    assert (form.bits, form.stored_bits, form.precision) == (int(row["bits"]), float(row["stored_bits"]), int(row["fraction"]))
    assert (form.lowest, form.largest, form.smallest, form.absolute_error) == (0.25 * (low - 1), 0.25 * (high - 1), 0.25, 0.125)
    plain = format_named(f"{name}_affine")
    assert isinstance(plain, Fixed) and plain.exact_integers == int(row["exact_integers"])
    assert (finite_values(form) == 0.25 * (np.arange(low, high + 1) - 1)).all()


@pytest.mark.parametrize(("m", "n"), [(3, 4), (0, 7), (7, 0), (15, 16)])
def test_fixed_point(m: int, n: int) -> None:
    form, wrapping = format_named(f"fixed({m}, {n})"), format_named(f"fixed_wrapping({m}, {n})")
    assert isinstance(form, Fixed) and wrapping.overflow is Overflow.WRAP
    assert (form.bits, form.precision, form.stored_bits) == (1 + m + n, m + n, 1 + m + n)
    assert (form.largest, form.lowest, form.smallest) == (2.0**m - 2.0**-n, -(2.0**m), 2.0**-n)
    assert (form.absolute_error, form.exact_integers) == (2.0 ** -(n + 1), 2**m - 1)


def test_what_has_one_or_two_bits() -> None:
    assert finite_values(format_named("binary")).tolist() == [-1, 1]
    assert finite_values(format_named("ternary(0.5)")).tolist() == [-0.5, 0, 0.5]
    assert (format_named("binary").bits, format_named("ternary").bits, format_named("ternary").stored_bits) == (1, 2, 1.58)


def test_tf32_takes_the_memory_of_fp32() -> None:
    """The table counts its 19 bits and says that they take 32."""
    assert (format_named("tf32").bits, format_named("tf32").stored_bits) == (19, 32)


def test_formats_are_found_by_element_types_too() -> None:
    assert format_named("f16") == format_named("fp16")
    assert format_named("f8E4M3FN").overflow is Overflow.SATURATE
    assert format_named("fp8_e4m3fn").overflow is Overflow.NAN


@pytest.mark.parametrize(
    "fields",
    [
        {"exponent": 12, "bias": 2047},
        {"fraction": 53},
        {"bias": 1100},
        {"exponent": 0, "bias": 0},
        {"zero": False},
        {"specials": Specials.NONE},
        {"specials": Specials.NONE, "overflow": Overflow.NAN},
        {"fraction": 0, "implicit": False},
        {"overflow": Overflow.WRAP},
        {"specials": Specials.NEGATIVE_ZERO, "overflow": Overflow.NAN, "signed": False},
    ],
)
def test_what_is_no_format(fields: dict) -> None:
    with pytest.raises(ValueError):
        Float(**{"name": "wrong", "exponent": 4, "fraction": 3, "bias": 7, **fields})


def test_the_element_types_of_the_ir_are_the_declared_formats() -> None:
    """The dialect may not read rule files, so both say what a format is; here they say the same."""
    declared = {form.dtype: form for form in known_formats().formats() if form.dtype}
    assert declared.keys() == FLOATS.keys()
    for name, form in FLOATS.items():
        assert replace(declared[name], name=name) == form
