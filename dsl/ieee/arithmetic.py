"""One operation on arrays of a format: what it gives, element by element.

Basic operations are rounded once. Every other pointwise operation is evaluated in a wider format and rounded once, so that
no result depends on whose library of functions it is. Operations along axes are computed step by step in the working
precision: float32 for the narrow formats, as torch does, and the format itself for f32 and f64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from hnfc.dialects.facts import Access, Exactness
from hnfc.dialects.num.base import NumOp
from hnfc.dialects.types import FORMATS, Kind
from hnfc.dsl.ieee.formats import BINARY, Array, Binary, rounded
from hnfc.dsl.ieee.ties import rounded_safely
from hnfc.dsl.ieee.working import Working
from hnfc.dsl.soundness.array_moves import ShapeMismatch

INTEGERS: dict[str, Any] = {"si8": np.int8, "ui8": np.uint8, "si16": np.int16, "si32": np.int32, "si64": np.int64}


def is_pointwise(operation: type[NumOp]) -> bool:
    """Return whether each element of the result is one function of the elements at its index, which IEEE 754 or a library rounds."""
    return operation.FACTS.access is Access.ELEMENTWISE and operation.FACTS.exactness is not Exactness.ALGORITHM


class NotComputed(Exception):
    """An operation that cannot be computed here; the message says which and why."""


FAULTS = (TypeError, ZeroDivisionError, OverflowError, AttributeError, NotImplementedError)
"""Exceptions of `FACTS.evaluate` for attributes or element types that it does not take; of shapes, NumPy raises the others."""


def pointwise(operation: type[NumOp], element: str, operands: Sequence[Array], attributes: dict[str, Any]) -> Array:
    """The result for operands of the element type `element`, whose shapes broadcast."""
    name = operation.name.removeprefix("num.")
    if name in ("maximum", "minimum"):
        x, y = operands
        return extreme(x, y, name == "maximum")
    if name == "relu":
        return extreme(operands[0], np.zeros((), operands[0].dtype), True)
    if element in INTEGERS:
        return _on_integers(operation, operands, attributes)
    form = BINARY.get(element)
    if form is None:
        return _evaluated(operation, operands, attributes)
    if name == "fma":
        x, y, z = operands
        return fused(x, y, z, form)
    if operation.FACTS.exactness is not Exactness.FUNCTION:
        return _in_format(_evaluated(operation, operands, attributes), form)
    return _in_format(_wide(operation, operands, attributes, form), form)


def along_axes(operation: type[NumOp], element: str, operands: Sequence[Array], attributes: dict[str, Any]) -> Array:
    """The result of a reduction, norm or contraction, in the working precision and rounded to the element type at the end."""
    return in_working_precision(element, lambda *xs: _evaluated(operation, xs, attributes), operands)


def in_working_precision(element: str, function: Callable[..., Array], operands: Sequence[Array]) -> Array:
    form = BINARY.get(element)
    if form is None:
        result = np.asarray(function(*operands))
        if result.dtype.kind == "f" and element in INTEGERS:
            raise NotComputed(f"a function of {element} that is no integer")
        return result
    working = np.float64 if form.name == "f64" else np.float32
    given = [x if x.dtype.kind in "biu" else x.astype(working).view(Working) for x in operands]
    return _in_format(np.asarray(function(*given)), form)


def _in_format(result: Array, form: Binary) -> Array:
    """Floating-point results rounded; truth values and indices as they are."""
    if result.dtype.kind in "biu":
        return result
    return rounded(result if form.name == "f64" else result.astype(np.float64, copy=False), form)


def _evaluated(operation: type[NumOp], operands: Sequence[Array], attributes: dict[str, Any]) -> Array:
    evaluate = operation.FACTS.evaluate
    if evaluate is None:
        raise NotComputed(f"{operation.name} cannot be evaluated")
    try:
        result = evaluate(*operands, **attributes)
    except FAULTS as error:
        raise NotComputed(f"{operation.name} cannot be evaluated: {error}") from error
    except (ValueError, IndexError) as error:
        raise ShapeMismatch(str(error)) from error
    if isinstance(result, tuple):
        raise NotComputed(f"{operation.name} gives {len(result)} results")
    return np.asarray(result)


def _wide(operation: type[NumOp], operands: Sequence[Array], attributes: dict[str, Any], form: Binary) -> Array:
    """In float64; for f64 in NumPy's longdouble, where it is wider and has the function."""
    if form.name != "f64":
        return _evaluated(operation, operands, attributes)
    try:
        result = _evaluated(operation, [x if x.dtype.kind in "biu" else x.astype(np.longdouble) for x in operands], attributes)
    except NotComputed:
        return _evaluated(operation, operands, attributes)
    return rounded_safely(operation, operands, attributes, result)


def extreme(x: Array, y: Array, greatest: bool) -> Array:
    """`maximum` or `minimum` of IEEE 754-2019: NaN where either operand is, and -0 below +0.

    NumPy leaves open which zero it gives: that depends on the element type and the order of the operands.
    """
    result = np.maximum(x, y) if greatest else np.minimum(x, y)
    if result.dtype.kind in "biu":
        return result
    zeros = (x == 0) & (y == 0)
    if zeros.any():
        negative = np.signbit(x) & np.signbit(y) if greatest else np.signbit(x) | np.signbit(y)
        result = np.where(zeros, np.where(negative, -0.0, 0.0), result)
    return result


def fused(x: Array, y: Array, z: Array, form: Binary) -> Array:
    """x·y + z with one rounding: by way of float64, rounded to odd, for the formats that leave room there."""
    if form.name == "f64":
        return _fused_doubles(x, y, z)
    product = x * y
    total = product + z
    back = total - product
    lost = (product - (total - back)) + (z - back)
    inexact = np.isfinite(total) & (lost != 0) & ((total.view(np.int64) & 1) == 0)
    odd = np.nextafter(total, np.where(lost > 0, np.inf, -np.inf))
    return rounded(np.where(inexact, odd, total), form)


def _fused_doubles(x: Array, y: Array, z: Array) -> Array:
    """In longdouble where its error cannot change the rounding (Ziv's test), else with exact rationals."""
    x, y, z = np.broadcast_arrays(x, y, z)
    product = x.astype(np.longdouble) * y
    total = product + z
    error = (np.abs(product) + np.abs(total)) * np.finfo(np.longdouble).eps * 2
    result, other = (np.asarray(x, np.float64) for x in (total - error, total + error))
    finite = np.isfinite(x) & np.isfinite(y) & np.isfinite(z)
    result = np.where(finite, result, x * y + z)
    undecided = finite & ~((result == other) & np.isfinite(total) & (np.abs(result) > np.finfo(np.float64).tiny))
    result[undecided] = [
        _fused_exactly(*numbers) for numbers in zip(x[undecided].tolist(), y[undecided].tolist(), z[undecided].tolist(), strict=True)
    ]
    return result


def _fused_exactly(x: float, y: float, z: float) -> float:
    """For finite numbers."""
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact == 0:
        # the product is 0 or exactly -z; only the signs of zeros are left to find
        return x * y + z if z == 0 and (x == 0 or y == 0) else 0.0
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _on_integers(operation: type[NumOp], operands: Sequence[Array], attributes: dict[str, Any]) -> Array:
    """Integer arithmetic wraps around in its type."""
    if Kind.INTEGER not in operation.FACTS.accepts or operation.FACTS.exactness is Exactness.FUNCTION:
        raise NotComputed(f"{operation.name} on integers")
    return _evaluated(operation, operands, attributes)


def cast(x: Array, source: str, to: str) -> Array:
    """x in another element type. Integers out of range become the nearest one there is, and NaN becomes 0."""
    if to == "i1":
        return np.asarray(x != 0)
    if to in INTEGERS:
        if source in FORMATS:
            bounds = np.iinfo(INTEGERS[to])
            whole = np.trunc(np.where(np.isnan(x), 0.0, x))
            inside = (whole >= float(bounds.min)) & (whole < float(bounds.max) + 1)
            low, high = np.asarray(bounds.min, INTEGERS[to]), np.asarray(bounds.max, INTEGERS[to])
            return np.where(inside, np.where(inside, whole, 0.0).astype(INTEGERS[to]), np.where(whole < 0, low, high))
        return x.astype(INTEGERS[to])
    if to not in BINARY:
        raise NotComputed(f"a cast to {to}")
    array = x.astype(np.float64)
    return rounded(saturated(array, to), BINARY[to])


def round_to(x: Array, format: str, form: Binary) -> Array:
    return rounded(rounded(saturated(x, format), BINARY[format]), form)


def saturated(x: Array, to: str) -> Array:
    """The conversion to e4m3 of numbers beyond its largest, in torch and in the dialect; NaN stays NaN."""
    return np.clip(x, -BINARY[to].largest, BINARY[to].largest) if to == "f8E4M3FN" else x
