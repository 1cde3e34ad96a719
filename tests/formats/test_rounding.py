"""Rounding against ml_dtypes, torch, NumPy, and the definition; NumPy and torch against each other."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

from hnfc.dialects.formats import Block, Fixed, Float, Format, Overflow, finite_values
from hnfc.dialects.num.rounding import round_to as operation_round_to
from hnfc.precision import format_named, round_to
from tests.precision.rounding import BOTH, around_ties, in_numpy, in_torch, nearest, random_patterns, same

ML_DTYPES = {
    "fp8_e5m2": ml_dtypes.float8_e5m2,
    "fp8_e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "fp8_e4m3": ml_dtypes.float8_e4m3,
    "fp8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "fp8_e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "fp8_e4m3b11fnuz": ml_dtypes.float8_e4m3b11fnuz,
    "fp8_e3m4": ml_dtypes.float8_e3m4,
    "fp6_e3m2fn": ml_dtypes.float6_e3m2fn,
    "fp6_e2m3fn": ml_dtypes.float6_e2m3fn,
    "fp4_e2m1fn": ml_dtypes.float4_e2m1fn,
}
TORCH = {
    "fp8_e5m2": torch.float8_e5m2,
    "fp8_e5m2fnuz": torch.float8_e5m2fnuz,
    "fp8_e4m3fn_saturating": torch.float8_e4m3fn,
    "fp8_e4m3fnuz": torch.float8_e4m3fnuz,
}
TORCH_OF_ELEMENT_TYPES = {
    "f16": torch.float16, "bf16": torch.bfloat16, "f8E4M3FN": torch.float8_e4m3fn, "f8E5M2": torch.float8_e5m2,
    "f8E4M3FNUZ": torch.float8_e4m3fnuz, "f8E5M2FNUZ": torch.float8_e5m2fnuz, "f32": torch.float32,
}  # fmt: skip
OTHERS = [
    "minifloat_ieee(8, 4)", "minifloat_ieee(7, 2, 5)", "minifloat_denorm(8, 4)", "minifloat_denorm(6, 2, 3)", "log(6)", "log(4, 0)",
    "binary", "int8_affine", "int8_affine(0.25, 3)", "int4_affine(2, -3)", "uint8_affine(0.5, 128)", "ternary(0.5)",
    "fixed(3, 4)", "fixed(0, 7)",
]  # fmt: skip
BLOCKS = ["MXFP8_E4M3", "MXFP8_E5M2", "MXFP6_E3M2", "MXFP6_E2M3", "MXFP4_E2M1", "MXINT8", "NVFP4", "Q8_0", "block_fp(8, 8, 16)",
          "block_minifloat(8, 3, 8, 16)", "block_log(5, 8, 8)"]  # fmt: skip
ALL = [*ML_DTYPES, "fp8_e4m3fn_saturating", "e8m0fnu", "fp64", "fp32", "tf32", "bf16", "fp16", *OTHERS, "fixed_wrapping(3, 4)", *BLOCKS]


def cast(x: Any, dtype: Any) -> Any:
    with np.errstate(all="ignore"):
        return x.astype(dtype).astype(x.dtype)


# exhaustively, against other implementations -----------------------------------------------------------------------------


@pytest.mark.parametrize("round_in", BOTH)
@pytest.mark.parametrize("name", ML_DTYPES)
def test_formats_of_8_bits_and_fewer_agree_with_ml_dtypes(name: str, round_in: Any) -> None:
    """From float32, all values, ties and their neighbours, and all upper halves. Where a format has no NaN, ml_dtypes makes it -0."""
    x = np.concatenate([around_ties(finite_values(format_named(name)), np.float32), upper_patterns(0, 0x7FFF)])
    ours, theirs = round_in(x, name), cast(x, ML_DTYPES[name])
    form = format_named(name)
    assert isinstance(form, Float)
    equal = same(ours, theirs) if form.has_nan else np.where(np.isnan(x), np.isnan(ours), same(ours, theirs))
    assert equal.all(), (x[~equal][:5], ours[~equal][:5], theirs[~equal][:5])


@pytest.mark.parametrize("round_in", BOTH)
@pytest.mark.parametrize("name", TORCH)
def test_formats_of_8_bits_agree_with_torch(name: str, round_in: Any) -> None:
    x = np.concatenate([around_ties(finite_values(format_named(name)), np.float32), upper_patterns(0, 0x7FFF)])
    theirs = torch.tensor(x).to(TORCH[name]).to(torch.float32).numpy()
    equal = same(round_in(x, name), theirs)
    assert equal.all(), (x[~equal][:5], theirs[~equal][:5])


def upper_patterns(*lower: int) -> Any:
    """All upper halves of float32 numbers, with these lower halves."""
    upper = np.arange(1 << 16, dtype=np.uint32) << np.uint32(16)
    return np.concatenate([upper | np.uint32(bits) for bits in lower]).view(np.float32)


@pytest.mark.parametrize("round_in", BOTH)
@pytest.mark.parametrize(("name", "ml", "torch_type"), [("bf16", ml_dtypes.bfloat16, torch.bfloat16), ("fp16", np.float16, torch.float16)])
def test_formats_of_16_bits_agree_with_ml_dtypes_and_torch(name: str, ml: Any, torch_type: Any, round_in: Any) -> None:
    ties = around_ties(finite_values(format_named(name)), np.float32)
    x = np.concatenate([upper_patterns(0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF), ties, random_patterns(100_000, np.float32)])
    ours = round_in(x, name)
    for theirs in (cast(x, ml), torch.tensor(x).to(torch_type).to(torch.float32).numpy()):
        equal = same(ours, theirs)
        assert equal.all(), (x[~equal][:5], ours[~equal][:5], theirs[~equal][:5])


@pytest.mark.parametrize("round_in", BOTH)
def test_powers_of_two_agree_with_ml_dtypes_and_torch(round_in: Any) -> None:
    """Below 2^-126 both of them round up what is not a power of two, and torch takes 0 and signs away; here the nearer one is taken."""
    x = np.concatenate([around_ties(finite_values(format_named("e8m0fnu")), np.float32), upper_patterns(0, 0x7FFF, 0x8001)])
    ours, theirs = round_in(x, "e8m0fnu"), cast(x, ml_dtypes.float8_e8m0fnu)
    usual = (x >= 2.0**-126) | (x <= 0) | np.isnan(x)
    assert same(ours, theirs)[usual].all()
    assert same(ours, torch.tensor(x).to(torch.float8_e8m0fnu).to(torch.float32).numpy())[x >= 2.0**-126].all()
    low = (x > 0) & (x < 2.0**-126)
    assert (ours[low] == np.where(x[low] < 1.5 * 2.0**-127, np.float32(2.0**-127), np.float32(2.0**-126))).all()


@pytest.mark.parametrize("round_in", BOTH)
def test_from_float64_to_fp32_and_fp16_numpy_agrees(round_in: Any) -> None:
    x = random_patterns(50_000, np.float64)
    singles = random_patterns(20_000, np.float32)
    singles = np.sort(singles[np.isfinite(singles)].astype(np.float64))
    x = np.concatenate([x, around_ties(finite_values(format_named("fp16")), np.float64), singles, np.nextafter(singles, 0)])
    halves = (singles + np.nextafter(singles.astype(np.float32), np.float32(np.inf)).astype(np.float64)) / 2
    x = np.concatenate([x, halves, np.nextafter(halves, np.inf), np.nextafter(halves, -np.inf)])
    assert same(round_in(x, "fp32"), cast(x, np.float32)).all()
    assert same(round_in(x, "fp16"), cast(x, np.float16)).all()
    assert same(round_in(x, "fp64"), x).all()


def test_a_double_is_rounded_once() -> None:
    """ml_dtypes and torch go through float32, where this becomes a tie."""
    just_above_a_tie = np.array([1 + 2.0**-8 + 2.0**-30])
    assert cast(just_above_a_tie, ml_dtypes.bfloat16) == 1
    assert in_numpy(just_above_a_tie, "bf16") == in_torch(just_above_a_tie, "bf16") == 1 + 2.0**-7


# exhaustively, against the definition ---------------------------------------------------------------------------------------


def expected(x: Any, form: Float) -> Any:
    """From the list of values and exact rationals."""
    values = finite_values(form)
    positive = values[values > 0]
    if form.zero:
        positive = np.concatenate([[0.0], positive])
    step = Fraction(2) ** (form.emax - form.precision + 1)
    beyond = {Overflow.INFINITY: math.inf, Overflow.NAN: math.nan}.get(form.overflow, form.largest)
    below = 0.0 if form.zero else math.nan if form.overflow is Overflow.NAN else form.smallest
    magnitudes = np.array(nearest(x, positive, step, beyond, below, up_on_tie=form.precision == 1))
    if not form.signed:
        magnitudes = np.where(x < 0, math.nan, magnitudes)
    result = np.copysign(magnitudes, x) if form.zero else np.where(x < 0, -magnitudes, magnitudes)
    return np.where((result == 0) & (not form.has_negative_zero), 0.0, result)


@pytest.mark.parametrize("name", [*ML_DTYPES, "fp8_e4m3fn_saturating", "e8m0fnu", "minifloat_ieee(8, 4)", "minifloat_denorm(8, 4)"])
def test_doubles_next_to_ties_are_rounded_by_the_definition(name: str) -> None:
    form = format_named(name)
    assert isinstance(form, Float)
    x = np.concatenate([around_ties(finite_values(form), np.float64), random_patterns(300, np.float64)])
    for round_in in BOTH:
        ours = round_in(x, name)
        equal = same(ours, expected(x, form))
        assert equal.all(), (x[~equal][:5], ours[~equal][:5])


@pytest.mark.parametrize("round_in", BOTH)
@pytest.mark.parametrize("name", ["bf16", "fp16"])
def test_doubles_next_to_ties_of_16_bits(name: str, round_in: Any) -> None:
    """The tie goes to the value whose place in the list is even, its neighbours to the nearer value."""
    values = finite_values(format_named(name))
    positive = values[values >= 0]
    middle = positive[:-1] / 2 + positive[1:] / 2
    low, high = positive[:-1], positive[1:]
    assert (round_in(middle, name) == np.where(np.arange(len(low)) % 2 == 0, low, high)).all()
    assert (round_in(np.nextafter(middle, 0), name) == low).all()
    assert (round_in(np.nextafter(middle, np.inf), name) == high).all()
    assert (round_in(-np.nextafter(middle, np.inf), name) == -high).all()


def without_subnormals(zero: bool) -> Float:
    return Float(name="flushing", exponent=4, fraction=3, bias=7, subnormals=False, zero=zero)


def test_without_subnormals_what_is_below_the_normal_numbers_becomes_the_nearer_of_0_and_the_least() -> None:
    least = 2.0**-6
    x = np.array([least / 2, np.nextafter(least / 2, 1), least * 0.99, least, least * 1.1, least / 100, -least * 0.6])
    for round_in in BOTH:
        found = round_in(x, without_subnormals(True))
        assert found.tolist() == [0, least, least, least, least * 1.125, 0, -least]
        full = 2.0**-7
        found = round_in(np.array([full * 1.06, full / 100, 0.0, -full / 3]), without_subnormals(False))
        assert found.tolist() == [full, full, full, -full]


@pytest.mark.parametrize("round_in", BOTH)
def test_logarithms_are_rounded_to_the_nearest(round_in: Any) -> None:
    middle = math.sqrt(2)
    x = np.array([np.nextafter(middle, 0), middle, 3.0, -3.0, 2.8, -0.0, 0.0, 1e-9, -1e-9, 1e9, -math.inf, math.nan])
    found = round_in(x, "log(5)")
    assert found.tolist()[:-1] == [1, 2, 4, -4, 2, 2.0**-7, 2.0**-7, 2.0**-7, -(2.0**-7), 256, -256] and math.isnan(found[-1])
    assert round_in(np.array([-3.0, -1e-9, 0.0, 1e-9, 2.0]), "binary").tolist() == [-1, -1, 1, 1, 1]


@pytest.mark.parametrize("round_in", BOTH)
@pytest.mark.parametrize("name", ["int8_affine(0.25, 3)", "uint8_affine(0.5, 128)", "fixed(3, 4)", "ternary(0.5)", "int4_affine"])
def test_multiples_of_a_step_by_the_definition(name: str, round_in: Any) -> None:
    form = format_named(name)
    assert isinstance(form, Fixed)
    x = np.concatenate([around_ties(finite_values(form), np.float64), random_patterns(500, np.float64)])
    exact = [form.scale * (min(max(code(v, form), form.low), form.high) - form.zero_point) for v in x.tolist()]
    assert same(round_in(x, name), np.array(exact) + 0.0).all()


def code(value: float, form: Fixed) -> float:
    return value if not math.isfinite(value) else round(Fraction(value) / Fraction(form.scale)) + form.zero_point


@pytest.mark.parametrize("round_in", BOTH)
def test_fixed_point_wraps_where_it_says_so(round_in: Any) -> None:
    x = np.array([7.9375, 8.0, 8.0625, -8.0, -8.0625, 16.0, 24.0, 7.97, -100.3, 2.0**60])
    expected_codes = [((round(Fraction(v) * 16) + 128) % 256 - 128) / 16 for v in x.tolist()]
    assert round_in(x, "fixed_wrapping(3, 4)").tolist() == expected_codes
    assert round_in(x, "fixed(3, 4)").tolist() == [7.9375, 7.9375, 7.9375, -8, -8, 7.9375, 7.9375, 7.9375, -8, 7.9375]


def test_both_behaviours_of_e4m3_beyond_448() -> None:
    x = np.array([464.0, 464.1, 1e300, math.inf, -math.inf])
    assert in_numpy(x, "fp8_e4m3fn_saturating").tolist() == [448, 448, 448, 448, -448]
    assert in_numpy(x, "fp8_e4m3fn")[0] == 448 and np.isnan(in_numpy(x, "fp8_e4m3fn")[1:]).all()


# all formats ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ALL)
def test_numpy_and_torch_agree_bit_for_bit(name: str, dtype: Any) -> None:
    x = np.concatenate([random_patterns(5000, dtype), around_ties(finite_values(format_named("fp8_e5m2")), dtype)])
    with np.errstate(invalid="ignore"):  # of signaling NaN
        x = x if dtype is np.float32 else np.concatenate([x, random_patterns(5000, np.float32).astype(np.float64)])
    if isinstance(format_named(name), Block):
        # some blocks without infinities and NaN
        x = np.concatenate([x, np.random.default_rng(1).standard_normal(2000).astype(dtype)])
    for how in ("nearest", "toward_zero"):
        ours, theirs = in_numpy(x, name, rounding=how), in_torch(x, name, rounding=how)
        assert ours.dtype == theirs.dtype == dtype
        equal = same(ours, theirs)
        assert equal.all(), (x[~equal][:5], ours[~equal][:5], theirs[~equal][:5])


@pytest.mark.parametrize("name", ALL)
def test_float32_is_rounded_as_its_numbers_in_float64_are(name: str) -> None:
    x = np.concatenate([random_patterns(3000, np.float32), np.random.default_rng(1).standard_normal(2000).astype(np.float32)])
    with np.errstate(all="ignore"):
        wide = in_numpy(x.astype(np.float64), name).astype(np.float32)
    assert same(in_numpy(x, name), wide).all()


@pytest.mark.parametrize("name", ALL)
def test_rounding_twice_changes_nothing_more(name: str) -> None:
    x = np.concatenate([random_patterns(2000, np.float64), np.random.default_rng(2).standard_normal(3000)])
    if isinstance(format_named(name), Block):
        x = x[np.abs(x) <= 1e30]
    if name == "NVFP4":
        # where a scale is subnormal, the rounded elements would get another one
        x = np.random.default_rng(2).standard_normal(3000)
    once = in_numpy(x, name)
    if name != "fixed_wrapping(3, 4)":
        # an infinity or NaN saturates, or stays
        once = once[np.isfinite(once)]
    assert same(in_numpy(once, name), once).all()


@pytest.mark.parametrize("name", [name for name in ALL if name != "fixed_wrapping(3, 4)"])
@pytest.mark.parametrize("magnitude", [2.0**-12, 0.7, 30.0, 1e5])
def test_the_error_of_rounding_is_within_its_bound(name: str, magnitude: float) -> None:
    form = format_named(name)
    low, high = max(form.lowest, -magnitude), min(form.largest, magnitude)
    x = np.random.default_rng(3).uniform(low, high, 4000) * np.repeat(2.0 ** -np.arange(0, 40, 2), 200)
    x = np.clip(x, form.lowest, form.largest) if not form.lowest > 0 else np.maximum(np.abs(x), form.smallest)
    error = np.abs(in_numpy(x, name) - x)
    assert (error <= form.rounding_error(float(np.abs(x).max())) * (1 + 2.0**-50)).all()
    if not isinstance(form, Block):
        assert (error <= np.maximum(form.unit_roundoff * np.abs(x), form.absolute_error) * (1 + 2.0**-50)).all()


@pytest.mark.parametrize("name", [name for name in ALL if name not in BLOCKS and not name.startswith(("log", "binary", "fixed_w"))])
def test_toward_zero_is_never_larger(name: str) -> None:
    form = format_named(name)
    x = random_patterns(3000, np.float64)
    x = x[np.isfinite(x)] if form.lowest < 0 else np.abs(x[np.isfinite(x)])
    x = x[np.abs(x) >= form.smallest] if form.lowest > 0 else x
    found = in_numpy(x, name, rounding="toward_zero")
    offset = isinstance(form, Fixed) and (form.lowest > 0 or form.largest < 0)
    assert offset or (np.abs(found) <= np.abs(x)).all()
    if isinstance(form, Float):
        assert (np.abs(x - found) < np.maximum(2 * form.unit_roundoff * np.abs(x), form.smallest))[np.abs(x) <= form.largest].all()


def test_shapes_and_types_stay() -> None:
    for shape in ((), (0,), (3,), (2, 3, 5), (4, 0)):
        for name in ("bf16", "MXFP4_E2M1", "NVFP4", "fixed(3, 4)"):
            if shape == () and name in BLOCKS:
                continue
            x = np.ones(shape, np.float32)
            assert in_numpy(x, name).shape == in_torch(x, name).shape == shape
    strided = np.arange(24.0).reshape(4, 6).T[::2]
    assert same(in_numpy(strided, "fp8_e4m3"), in_numpy(np.ascontiguousarray(strided), "fp8_e4m3")).all()
    assert same(
        round_to(torch.arange(24.0).reshape(4, 6).T, "MXFP4_E2M1").numpy(), in_numpy(np.arange(24.0).reshape(4, 6).T, "MXFP4_E2M1")
    ).all()
    assert float(round_to(0.1, "bf16")) == 0.10009765625


def test_long_arrays_are_rounded_as_short_ones() -> None:
    x = np.random.default_rng(0).standard_normal(200_001)
    for name in ("bf16", "fixed(3, 4)"):
        pieces = [in_numpy(x[start : start + 999], name) for start in range(0, len(x), 999)]
        assert same(in_numpy(x, name), np.concatenate(pieces)).all()


def test_what_cannot_be_rounded_is_refused() -> None:
    for wrong in (np.arange(3), np.ones(3, np.float16), np.array(["a"]), torch.ones(3, dtype=torch.bfloat16), torch.arange(3)):
        with pytest.raises(TypeError, match="expected float64 or float32"):
            round_to(wrong, "bf16")
    with pytest.raises(ValueError, match="no format `bf61`; did you mean `bf16`"):
        round_to(np.ones(3), "bf61")
    with pytest.raises(ValueError, match="needs a generator"):
        round_to(np.ones(3), "bf16", "stochastic")
    with pytest.raises(ValueError, match="generator of NumPy"):
        round_to(np.ones(3), "bf16", "stochastic", generator=torch.Generator())
    with pytest.raises(ValueError, match="generator of torch"):
        round_to(torch.ones(3), "bf16", "stochastic", generator=np.random.default_rng(0))
    with pytest.raises(ValueError):
        round_to(np.ones(3), "bf16", "upward")
    for number in (1.0, torch.ones(())):
        with pytest.raises(ValueError, match="lie along an axis"):
            round_to(number, "MXFP4_E2M1")


# blocks -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in BLOCKS if name not in ("NVFP4", "Q8_0")])
def test_blocks_by_the_definition(name: str) -> None:
    """Each block by itself: the scale in exact powers of two, then the elements."""
    form = format_named(name)
    assert isinstance(form, Block)
    random = np.random.default_rng(5)
    x = random.standard_normal((4, 70)) * 2.0 ** random.integers(-140, 100, (4, 70))
    x[0, : form.size] = 0
    found = in_numpy(x, name)
    for row, result in zip(x, found, strict=True):
        for start in range(0, 70, form.size):
            block = row[start : start + form.size]
            greatest = np.abs(block).max()
            exponent = (math.frexp(greatest)[1] if greatest else -2000) - math.frexp(form.element.largest)[1]
            exponent = min(max(exponent, form.scale.emin), form.scale.emax)
            elements = element_by_element(np.ldexp(block, -exponent), form.element)
            assert same(result[start : start + form.size], np.ldexp(elements, exponent)).all()


def test_integers_with_a_float16_scale_by_the_definition() -> None:
    random = np.random.default_rng(5)
    x = random.standard_normal((64, 96)) * 2.0 ** random.integers(-20, 20, (64, 1))
    x[0, :32] = 0
    blocks = x.reshape(64, 3, 32)
    scales = (np.abs(blocks).max(-1, keepdims=True) / 127).astype(np.float16).astype(np.float64)
    with np.errstate(all="ignore"):
        integers = np.where(scales == 0, 0, np.clip(np.rint(blocks / scales), -127, 127))
    assert np.array_equal(in_numpy(x, "Q8_0"), (integers * scales).reshape(x.shape))


def element_by_element(x: Any, form: Format) -> Any:
    if isinstance(form, Fixed):
        codes = [min(max(round(Fraction(v) / Fraction(form.scale)), form.low), form.high) for v in x.tolist()]
        return np.array(codes) * form.scale + 0.0
    assert isinstance(form, Float)
    return in_numpy(x, form) if form.geometric else expected(x, form)


def test_a_block_of_nvfp4() -> None:
    """Two scales: amax of the tensor is the largest element times the largest scale; blocks differ in the 8-bit one."""
    x = np.concatenate([np.linspace(-2688.0, 2688.0, 16), np.linspace(-6.0, 6.0, 16), np.full(16, 1e-9), [448.0 * 5]])
    found = in_numpy(x, "NVFP4")
    assert found[0] == -2688 and found[15] == 2688 and found[16] == -6 and found[31] == 6
    assert set(np.abs(found[16:32]).tolist()) <= {0, 0.5, 1, 1.5, 2, 3, 4, 6} and (found[32:48] == 0).all()
    assert abs(found[48] - 2240) <= 2240 / 16
    assert same(in_numpy(x * 2.0**40, "NVFP4"), found * 2.0**40).all()


@pytest.mark.parametrize("round_in", BOTH)
@pytest.mark.parametrize("name", BLOCKS)
def test_an_infinity_or_a_nan_spoils_its_block(name: str, round_in: Any) -> None:
    form = format_named(name)
    assert isinstance(form, Block)
    x = np.ones(3 * form.size)
    x[form.size] = math.nan
    found = round_in(x, name)
    spoiled = np.ones(len(x), bool) if form.tensor_scale else np.arange(len(x)) // form.size == 1
    assert np.isnan(found[spoiled]).all() and (np.abs(found[~spoiled] - 1) <= 0.1).all()


@pytest.mark.parametrize("axis", [0, 1, -2, 2, -1])
def test_blocks_lie_along_an_axis(axis: int) -> None:
    x = np.random.default_rng(0).standard_normal((33, 34, 35))
    along = np.moveaxis(in_numpy(np.moveaxis(x, axis, -1), "MXFP4_E2M1"), -1, axis)
    assert same(in_numpy(x, "MXFP4_E2M1", axis=axis), along).all() and same(in_torch(x, "MXFP4_E2M1", axis=axis), along).all()


# stochastic rounding ------------------------------------------------------------------------------------------------------------

DRAWS = 20_000
SIDES = 1e-12
"""The probability with which a correct rounding would fail one of these tests, for each mean that is taken."""


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ["bf16", "fp8_e4m3fn", "fp8_e5m2fnuz", "fp4_e2m1fn", "log(6)", "fixed(3, 4)", "int4_affine(0.5, 1)"])
def test_stochastic_rounding_is_unbiased_and_takes_a_neighbour(name: str, dtype: Any, library: str) -> None:
    """Hoeffding: the mean of n numbers in an interval of length d is off by t with probability at most 2·exp(-2·n·(t/d)²)."""
    form = format_named(name)
    x = np.concatenate(
        [np.random.default_rng(0).uniform(max(form.lowest, -3), min(form.largest, 3), 40), [1.0, 1.03125, -2.9, 0.3]]
    ).astype(dtype)
    if form.lowest < 0 < form.smallest and isinstance(form, Float) and not form.zero:
        x = x[np.abs(x) >= form.smallest]
    tiled = np.tile(x, (DRAWS, 1))
    if library == "numpy":
        found = in_numpy(tiled, name, rounding="stochastic", generator=np.random.default_rng(7))
    else:
        found = in_torch(tiled, name, rounding="stochastic", generator=torch.Generator().manual_seed(7))
    values = finite_values(form)
    above = values[np.minimum(np.searchsorted(values, x.astype(np.float64)), len(values) - 1)]
    below = np.where(above == x, above, values[np.searchsorted(values, above) - 1])
    assert ((found == below) | (found == above)).all()
    allowed = (above - below) * math.sqrt(math.log(2 / SIDES) / (2 * DRAWS))
    assert (np.abs(found.astype(np.float64).mean(axis=0) - x) <= allowed).all()


@pytest.mark.parametrize("name", ["MXFP4_E2M1", "MXINT8", "NVFP4"])
def test_stochastic_rounding_of_blocks_is_unbiased(name: str) -> None:
    """The scale is not random; elements that saturate are left out."""
    x = np.random.default_rng(0).uniform(-0.7, 0.7, 64)
    x[::16] = 1.0
    found = in_numpy(np.tile(x, (DRAWS, 1)), name, rounding="stochastic", generator=np.random.default_rng(7))
    spread = found.max(axis=0) - found.min(axis=0)
    # one step of the elements at most
    assert (spread <= 0.5).all()
    allowed = spread * math.sqrt(math.log(2 / SIDES) / (2 * DRAWS)) + 1e-7
    assert (np.abs(found.mean(axis=0) - x) <= allowed).all()


def test_the_seed_decides() -> None:
    x = np.random.default_rng(0).standard_normal(100)
    draws = [in_numpy(x, "fp8_e4m3", rounding="stochastic", generator=np.random.default_rng(seed)) for seed in (1, 1, 2)]
    assert same(draws[0], draws[1]).all() and not same(draws[0], draws[2]).all()
    tensors = [in_torch(x, "fp8_e4m3", rounding="stochastic", generator=torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)]
    assert same(tensors[0], tensors[1]).all() and not same(tensors[0], tensors[2]).all()


# torch.compile --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["fp8_e4m3fn", "fixed(3, 4)", "NVFP4"])
def test_it_is_one_graph_for_torch_compile(name: str) -> None:
    form = format_named(name)
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: round_to(x, form), fullgraph=True, backend="aot_eager")
    x = torch.tensor(random_patterns(200, np.float32))
    assert same(compiled(x).numpy(), round_to(x, form).numpy()).all()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", ["bf16", "fp16", "fp8_e4m3fn", "fixed(3, 4)", "log(6)", "MXFP8_E4M3", "NVFP4"])
def test_compiled_code_gives_the_same_bits(name: str, dtype: Any) -> None:
    form = format_named(name)
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: round_to(x, form), fullgraph=True)
    x = np.concatenate([random_patterns(20_000, np.float32), around_ties(finite_values(format_named("fp16")), np.float32)])
    # for other lengths the inductor of torch 2.13 does not always write the last few elements
    tensor = torch.tensor(x[: len(x) // 64 * 64], dtype=dtype)
    assert same(compiled(tensor).numpy(), round_to(tensor, form).numpy()).all()


def test_the_operation_of_the_ir_rounds_once_too() -> None:
    just_above_a_tie = np.array([1 + 2.0**-8 + 2.0**-30])
    assert operation_round_to(just_above_a_tie, "bf16") == 1 + 2.0**-7
    x = np.concatenate([random_patterns(2000, np.float32), around_ties(finite_values(format_named("fp8_e4m3fn")), np.float32)])
    for dtype, theirs in TORCH_OF_ELEMENT_TYPES.items():
        assert same(operation_round_to(x, dtype), torch.tensor(x).to(theirs).to(torch.float32).numpy()).all()
        half = torch.tensor(x).half()
        assert same(operation_round_to(half.numpy(), dtype), half.to(theirs).half().numpy()).all()
