"""Every operation against torch, against its meaning over the reals, and against its range transfer."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from hnfc.dialects.interval import BELOW_ZERO, Interval
from hnfc.dialects.num import OPERATIONS
from hnfc.dialects.types import FORMATS
from tests.dialects.building import assert_close, doubles, flat, operation, to_numpy, to_torch
from tests.dialects.reference import Reference, Undefined, lift
from tests.dialects.samples import ALL, NOT_IN_TORCH, NUMPY, SAMPLES, SOURCES, SPECIAL, Sample


def test_every_operation_has_samples() -> None:
    assert set(SAMPLES) == set(OPERATIONS) - {"weight", "opaque"}


@pytest.mark.sampled(200)
@pytest.mark.parametrize("precision", ["f64", "f32"])
@pytest.mark.parametrize(("name", "sample"), ALL)
def test_evaluate_agrees_with_torch(name: str, sample: Sample, precision: str) -> None:
    for seed in range(3):
        arrays = sample.operands(seed, NUMPY[precision])
        _, made = operation(name, arrays, sample.attributes)
        got, expected = flat(made.compute(*arrays)), flat(sample.torch(*map(to_torch, arrays)))
        for a, b in zip(got, expected, strict=True):
            if name not in SOURCES:
                assert np.asarray(a).dtype == to_numpy(b).dtype
            assert_close(a, to_numpy(b), FORMATS[precision].unit_roundoff, 0 if sample.exact else sample.slack)


@pytest.mark.parametrize("precision", ["f16", "bf16"])
@pytest.mark.parametrize(("name", "sample"), ALL)
def test_torch_agrees_in_narrow_formats(name: str, sample: Sample, precision: str) -> None:
    """evaluate in float32, rounded at the end, is what torch gives in a narrow format, but for what torch rounds on the way."""
    if name in (*SOURCES, "two_sum", "cumsum") or (name, precision) in NOT_IN_TORCH or not any(kind == "f" for kind in sample.kinds or "f"):
        pytest.skip("no narrow form")
    arrays = sample.operands(0, NUMPY[precision])
    wide = [array.astype(np.float32) if array.dtype == NUMPY[precision] else array for array in arrays]
    _, made = operation(name, wide, sample.attributes)
    got, expected = flat(made.compute(*wide)), flat(sample.torch(*map(to_torch, arrays)))
    for a, b in zip(got, expected, strict=True):
        assert_close(a, doubles(to_numpy(b)), FORMATS[precision].unit_roundoff, max(sample.slack, 8.0))


@pytest.mark.parametrize("name", [name for name, samples in SAMPLES.items() if samples[0].shapes in (((3, 5),), ((3, 5), (3, 5)))])
def test_evaluate_agrees_with_torch_on_special_values(name: str) -> None:
    sample = SAMPLES[name][0]
    if "axes" in sample.attributes or "axis" in sample.attributes or "b" in sample.kinds or name in _SHAPED:
        pytest.skip("not elementwise")
    x = SPECIAL.astype(np.float32)
    arrays = [x] if len(sample.shapes) == 1 else [np.repeat(x, len(x)), np.tile(x, len(x))]
    if name == "cast":
        arrays = [x]
    _, made = operation(name, arrays, sample.attributes)
    got, expected = doubles(made.compute(*arrays)), doubles(to_numpy(sample.torch(*map(to_torch, arrays))))
    for index in range(got.size):
        a, b = got.ravel()[index], expected.ravel()[index]
        operands = [array.ravel()[index] for array in arrays]
        if tuple(operands) in _DISAGREE.get(name, set()) or _beyond(name, operands):
            continue
        same = (math.isnan(a) and math.isnan(b)) or a == b or abs(a - b) <= 64 * 2.0**-24 * abs(b) + 1e-37
        assert same, f"{name}{operands}: {a}, but torch says {b}"


_SHAPED = {"reshape", "broadcast", "slice", "concat", "pad", "reverse", "transpose"}
_DISAGREE: dict[str, set[tuple[float, ...]]] = {}


def _beyond(name: str, operands: list[Any]) -> bool:
    """Where torch itself is known to lose all digits or to differ between its own kernels."""
    x = float(operands[0])
    if name in ("remainder", "fmod"):
        return any(not math.isfinite(v) or v == 0 or abs(v) > 1e20 or abs(v) < 1e-30 for v in map(float, operands))
    return name in ("gelu", "silu", "mish", "sin", "cos", "tan") and abs(x) > 80


# over the reals


@pytest.mark.parametrize(("name", "sample"), [case for case in ALL if case.values[1].real])
def test_evaluate_agrees_with_the_real_meaning(name: str, sample: Sample) -> None:
    arrays = sample.operands(1)
    if 0 in [n for shape in sample.shapes for n in shape]:
        pytest.skip("nothing to evaluate")
    _, made = operation(name, arrays, sample.attributes)
    real = type(made).FACTS.real
    assert real is not None
    exact = real(Reference, *map(lift, arrays), **made.attributes_as_python())
    got = made.compute(*arrays)
    assert_close(got, np.broadcast_to(doubles(exact), np.shape(got)), 2.0**-53, 0 if sample.exact else sample.slack)


OUTSIDE = {
    "log": -1.0, "log2": 0.0, "log10": -2.0, "log1p": -1.5, "sqrt": -1.0, "rsqrt": 0.0, "reciprocal": 0.0, "asin": 1.5, "acos": -1.5,
    "acosh": 0.5, "atanh": 1.5,
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(OUTSIDE))
def test_real_is_undefined_where_the_operation_is(name: str) -> None:
    real = OPERATIONS[name].FACTS.real
    assert real is not None
    with pytest.raises((Undefined, ZeroDivisionError)):
        real(Reference, lift(np.array(OUTSIDE[name])))


# ranges


def _interval(array: Any) -> Interval:
    values = doubles(array).ravel()
    if not values.size:
        return Interval(0.0, 0.0)
    nan, values = bool(np.isnan(values).any()), values[~np.isnan(values)]
    low = BELOW_ZERO if values.min() == 0 and np.signbit(values[values == 0]).any() else float(values.min())
    return Interval(low, float(values.max()), nan)


@pytest.mark.sampled(300)
@pytest.mark.parametrize("precision", ["f64", "f32", "f16", "bf16"])
@pytest.mark.parametrize(("name", "sample"), ALL)
def test_range_holds_what_torch_computes(name: str, sample: Sample, precision: str) -> None:
    if (name in SOURCES and precision != "f64") or (name, precision) in NOT_IN_TORCH:
        pytest.skip("nothing to compare with")
    for seed in range(4):
        arrays = sample.operands(seed, NUMPY[precision])
        _, made = operation(name, arrays, sample.attributes)
        held = made.transfer(*map(_interval, arrays))
        for result in flat(sample.torch(*map(to_torch, arrays))):
            _assert_holds(held, result, f"{name} of {[_interval(a) for a in arrays]}")


def _rounded(values: Any, precision: str) -> np.ndarray[Any, Any]:
    with np.errstate(over="ignore"):
        return np.asarray(values).astype(NUMPY[precision])


def _assert_holds(held: Interval, result: torch.Tensor, what: str) -> None:
    for value in doubles(to_numpy(result)).ravel():
        assert value in held or _subnormal_of(value, held), f"{what}: {value} is not in {held}"


def _subnormal_of(value: float, held: Interval) -> bool:
    return value == 0 and (abs(held.lo) < 1e-300 or abs(held.hi) < 1e-300)


UNARY = [name for name, samples in SAMPLES.items() if samples[0].shapes == ((3, 5),) and not {"axes", "axis"} & set(samples[0].attributes)]
ENDS = [-math.inf, -1e30, -200.0, -30.0, -3.0, -1.0, -0.5, -1e-3, -1e-40, 0.0, 1e-40, 1e-3, 0.5, 1.0, 3.0, 30.0, 200.0, 1e30, math.inf]


@pytest.mark.parametrize("precision", ["f64", "f32", "f16", "bf16"])
@pytest.mark.parametrize("name", [name for name in UNARY if name not in _SHAPED and "b" not in SAMPLES[name][0].kinds])
def test_range_of_every_pair_of_ends(name: str, precision: str) -> None:
    """All intervals between corner values; the operands are the ends themselves and values between them."""
    if (name, precision) in NOT_IN_TORCH:
        pytest.skip("nothing to compare with")
    sample = SAMPLES[name][0]
    rng = np.random.default_rng(0)
    _, made = operation(name, [np.zeros(1, NUMPY[precision])], sample.attributes)
    for i, low in enumerate(ENDS):
        for high in ENDS[i:]:
            some = [math.nan] if rng.random() < 0.2 else []
            picked = _rounded([low, high, *np.clip(rng.standard_cauchy(6) * 5, low, high), *some], precision)
            _assert_holds(made.transfer(_interval(picked)), sample.torch(to_torch(picked)), f"{name} of [{low}, {high}]")


BINARY = [name for name, samples in SAMPLES.items() if samples[0].shapes == ((3, 5), (3, 5)) and "b" not in samples[0].kinds]


@pytest.mark.parametrize("precision", ["f64", "f32", "f16", "bf16"])
@pytest.mark.parametrize("name", BINARY)
def test_range_of_two_operands_at_their_ends(name: str, precision: str) -> None:
    sample = SAMPLES[name][0]
    rng = np.random.default_rng(1)
    _, made = operation(name, [np.zeros(1, NUMPY[precision])] * 2, sample.attributes)
    for _ in range(150):
        picked, intervals = [], []
        for _ in range(2):
            low, high = sorted(rng.choice(len(ENDS), 2))
            other = rng.standard_cauchy(2) * 3
            values = _rounded([ENDS[low], ENDS[high], *np.clip(other, ENDS[low], ENDS[high])], precision)
            if rng.random() < 0.2:
                values[-1] = math.nan
            intervals.append(_interval(values))
            picked.append(values)
        x, y = np.repeat(picked[0], 4), np.tile(picked[1], 4)
        _assert_holds(made.transfer(*intervals), sample.torch(to_torch(x), to_torch(y)), f"{name} of {intervals}")


AXES = [
    name
    for name, samples in SAMPLES.items()
    if "axes" in samples[0].attributes and "b" not in samples[0].kinds and len(samples[0].shapes) == 1
]


@pytest.mark.parametrize("precision", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("name", [name for name in AXES if name not in ("argmax", "argmin", "reverse")])
def test_range_along_axes_of_large_and_close_values(name: str, precision: str) -> None:
    """Sums that overflow, values that differ in their last digit, and single elements."""
    sample = next(s for s in SAMPLES[name] if s.attributes["axes"] == (1,))
    rng = np.random.default_rng(2)
    for size in (1, 2, 40):
        for scale, spread in ((1e-6, 1.0), (1.0, 1e-3), (200.0, 1e-3), (60000.0, 2.0), (1e38, 2.0)):
            values = _rounded(scale * (1 + spread * rng.uniform(-1, 1, (3, size))), precision)
            if not np.isfinite(doubles(values)).all():
                continue
            _, made = operation(name, [values], sample.attributes)
            call = sample.torch(to_torch(values))
            _assert_holds(made.transfer(_interval(values)), call, f"{name} of {size} values in {_interval(values)}")
