"""Operations that change how a number is represented: rounding to integers, to a format, and casts."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import StringAttr
from xdsl.irdl import irdl_op_definition, prop_def

from hnfc.dialects.assembly import TYPES
from hnfc.dialects.facts import Access, Exactness, Facts, RealDomain, Result
from hnfc.dialects.formats import NUMPY, Rounding, rounded
from hnfc.dialects.interval import Interval, increasing
from hnfc.dialects.num.base import Tensor, UnaryOp
from hnfc.dialects.types import ANY, FLOATS, FORMATS, NUMBER, TypeMismatch, tensor

NUMPY_TYPES: dict[str, Any] = {
    "f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz, "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "i1": np.bool_, "si8": np.int8, "ui8": np.uint8, "si16": np.int16, "si32": np.int32, "si64": np.int64,
    "complex<f32>": np.complex64, "complex<f64>": np.complex128,
}  # fmt: skip
"""The NumPy type of each element type of the dialect."""


def round_to(x: Any, format: str) -> Any:
    """Every element rounded once to `format` (to nearest, ties to even), in the type of x; 8-bit e4m3 saturates, as torch does."""
    array = np.asarray(x)
    wide = array if array.dtype in (np.float64, np.float32) else array.astype(np.float64 if array.dtype.itemsize > 4 else np.float32)
    return rounded(np.ascontiguousarray(wide).reshape(wide.shape), FLOATS[format], Rounding.NEAREST, NUMPY).astype(array.dtype)


def round_to_range(x: Interval, format: str) -> Interval:
    form = FORMATS[format]
    return x.widened(form.unit_roundoff, form.tiny, form.largest)


def cast(x: Any, to: str) -> Any:
    """x in the element type; a float becomes an integer by truncation, and a complex number its real part."""
    if to in FORMATS:
        array = np.real(x)
        if to == "f8E4M3FN":
            return round_to(array.astype(np.float32), to).astype(NUMPY_TYPES[to])
        return array.astype(NUMPY_TYPES[to])
    return (np.asarray(x) != 0) if to == "i1" else np.trunc(x).astype(NUMPY_TYPES[to])


def cast_range(x: Interval, to: str) -> Interval:
    if to in FORMATS:
        return round_to_range(x, to)
    if to == "i1":
        return Interval(0.0 if 0.0 in x else 1.0, 0.0 if x.lo == x.hi == 0 and not x.nan else 1.0)
    least, greatest = INTEGERS.get(to, (-float("inf"), float("inf")))
    if x.nan or x.lo < least or x.hi > greatest:
        return Interval(least, greatest)
    return Interval(float(np.trunc(x.lo)), float(np.trunc(x.hi)))


INTEGERS: dict[str, tuple[float, float]] = {
    "i1": (0, 1), "si8": (-128, 127), "ui8": (0, 255), "si16": (-32768, 32767),
    "si32": (-(2.0**31), 2.0**31 - 1), "si64": (-(2.0**63), 2.0**63),
}  # fmt: skip
"""The least and the greatest value of each integer type."""


def floor_range(x: Interval) -> Interval:
    """NaN for an infinity too: a division that rounds down, which is written as a floor of a quotient, gives that in torch."""
    y: Interval = increasing(np.floor)(x)
    return Interval(y.lo, y.hi, y.nan or np.isinf(x.magnitude), y.minus)


def nearest(m: Any, x: Any) -> Any:
    """⌊x⌋ or ⌊x⌋ + 1, whichever is nearer; at a tie the even one, 2·⌊(⌊x⌋ + 1)/2⌋."""
    low, one, half = m.floor(x), m.const(1), m.const(Fraction(1, 2))
    even = m.const(2) * m.floor((low + one) * half)
    return m.where(m.compare("lt", x - low, half), low, m.where(m.compare("gt", x - low, half), low + one, even))


@irdl_op_definition
class FloorOp(UnaryOp):
    """The largest integer ≤ x."""

    name = "num.floor"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.EXACT,
        accepts=NUMBER,
        real=lambda m, x: m.floor(x),
        evaluate=np.floor,
        range=floor_range,
        torch=("aten.floor",),
    )


@irdl_op_definition
class CeilOp(UnaryOp):
    """The smallest integer ≥ x."""

    name = "num.ceil"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.EXACT,
        accepts=NUMBER,
        real=lambda m, x: -m.floor(-x),
        evaluate=np.ceil,
        range=increasing(np.ceil, signed=True),
        torch=("aten.ceil",),
    )


@irdl_op_definition
class TruncOp(UnaryOp):
    """x without its fraction."""

    name = "num.trunc"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.EXACT,
        accepts=NUMBER,
        real=lambda m, x: m.where(m.compare("lt", x, m.const(0)), -m.floor(-x), m.floor(x)),
        evaluate=np.trunc,
        range=increasing(np.trunc, signed=True),
        torch=("aten.trunc",),
    )


@irdl_op_definition
class RoundOp(UnaryOp):
    """The integer nearest to x; the even one of two."""

    name = "num.round"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.EXACT,
        accepts=NUMBER,
        real=nearest,
        evaluate=lambda x: np.rint(x) if np.asarray(x).dtype.kind not in "biu" else np.asarray(x),
        range=increasing(np.rint, signed=True),
        torch=("aten.round",),
    )


@irdl_op_definition
class RoundToOp(UnaryOp):
    """x rounded to the nearest number of `format`, in the type of x."""

    name = "num.round_to"
    format = prop_def(StringAttr)
    assembly_format = f"$x $format {TYPES}"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.CORRECT,
        accepts=ANY,
        domain=RealDomain(irregular=True),
        real=lambda m, x, format: m.round_to(x, format),
        evaluate=round_to,
        range=round_to_range,
        torch=(),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
        if attributes["format"] not in FORMATS:
            raise TypeMismatch(f"expected a format, one of {', '.join(FORMATS)}, but got {attributes['format']}")
        return operands[0]


@irdl_op_definition
class CastOp(UnaryOp):
    """x in the element type of the result."""

    name = "num.cast"
    FROM_TYPE: ClassVar = frozenset({"to"})
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.CORRECT,
        accepts=ANY,
        result=Result.ATTRIBUTE,
        real=lambda m, x, to: x,
        evaluate=cast,
        range=cast_range,
        torch=("aten.to.dtype",),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
        return tensor(attributes["to"], operands[0].get_shape())
