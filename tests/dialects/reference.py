"""`Math` over mpmath numbers in NumPy object arrays: what a `real` means, to 50 digits."""

from __future__ import annotations

import operator
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np

CONTEXT = mpmath.MPContext()
CONTEXT.dps = 50


class Undefined(Exception):
    """The formula has no value at this point."""


def lift(array: Any) -> Any:
    """The array's numbers, exactly."""
    values = np.asarray(array)
    return values if values.dtype == np.bool_ else np.frompyfunc(lambda v: CONTEXT.mpf(float(v)), 1, 1)(values)


def _elementwise(function: Any) -> Any:
    return np.frompyfunc(function, function.__code__.co_argcount, 1)


def _log(x: Any) -> Any:
    if x <= 0:
        raise Undefined
    return CONTEXT.log(x)


def _sqrt(x: Any) -> Any:
    if x < 0:
        raise Undefined
    return CONTEXT.sqrt(x)


def _pow(x: Any, y: Any) -> Any:
    if (x == 0 and y <= 0) or (x < 0 and y != CONTEXT.floor(y)):
        raise Undefined
    return CONTEXT.power(x, y)


def _arc(function: Any) -> Any:
    def guarded(x: Any) -> Any:
        if abs(x) > 1:
            raise Undefined
        return function(x)

    return guarded


class Reference:
    """Implements hnfc.dialects.facts.Math."""

    exp = staticmethod(_elementwise(lambda x: CONTEXT.exp(x)))
    log = staticmethod(_elementwise(_log))
    sqrt = staticmethod(_elementwise(_sqrt))
    pow = staticmethod(_elementwise(_pow))
    sin = staticmethod(_elementwise(lambda x: CONTEXT.sin(x)))
    cos = staticmethod(_elementwise(lambda x: CONTEXT.cos(x)))
    atan = staticmethod(_elementwise(lambda x: CONTEXT.atan(x)))
    asin = staticmethod(_elementwise(_arc(CONTEXT.asin)))
    acos = staticmethod(_elementwise(_arc(CONTEXT.acos)))
    atan2 = staticmethod(_elementwise(lambda y, x: CONTEXT.atan2(y, x)))
    erf = staticmethod(_elementwise(lambda x: CONTEXT.erf(x)))
    lgamma = staticmethod(_elementwise(lambda x: CONTEXT.log(abs(CONTEXT.gamma(x)))))
    i0 = staticmethod(_elementwise(lambda x: CONTEXT.besseli(0, x)))
    floor = staticmethod(_elementwise(lambda x: CONTEXT.floor(x)))
    abs = staticmethod(_elementwise(lambda x: abs(x)))
    maximum = staticmethod(_elementwise(lambda x, y: max(x, y)))
    minimum = staticmethod(_elementwise(lambda x, y: min(x, y)))
    logical_and, logical_or, logical_not = np.logical_and, np.logical_or, np.logical_not

    @staticmethod
    def const(value: float | Fraction) -> Any:
        exact = Fraction(value)
        return lift(0.0) + CONTEXT.mpf(exact.numerator) / exact.denominator

    @staticmethod
    def compare(predicate: str, x: Any, y: Any) -> Any:
        return (
            np.frompyfunc(getattr(operator, predicate), 2, 1)(x, y).astype(bool)
            if np.ndim(x) or np.ndim(y)
            else getattr(operator, predicate)(x, y)
        )

    @staticmethod
    def where(p: Any, x: Any, y: Any) -> Any:
        return np.where(p, x, y)

    @staticmethod
    def weight(mask: Any) -> Any:
        return lift(mask.astype(np.float64)) if mask.dtype == np.bool_ else np.frompyfunc(CONTEXT.exp, 1, 1)(mask)

    @staticmethod
    def sum(x: Any, axes: Any) -> Any:
        return np.sum(x, axis=tuple(axes), keepdims=True)

    @staticmethod
    def prod(x: Any, axes: Any) -> Any:
        return np.prod(x, axis=tuple(axes), keepdims=True)

    @staticmethod
    def amax(x: Any, axes: Any) -> Any:
        return np.max(x, axis=tuple(axes), keepdims=True)

    @staticmethod
    def amin(x: Any, axes: Any) -> Any:
        return np.min(x, axis=tuple(axes), keepdims=True)

    @staticmethod
    def cumsum(x: Any, axis: int) -> Any:
        return np.add.accumulate(x, axis=axis)

    @staticmethod
    def lower(x: Any) -> Any:
        return np.where(np.tri(*x.shape[-2:], dtype=np.bool_), x, lift(np.zeros(())))

    @staticmethod
    def index_of(x: Any, axes: Any, greatest: bool) -> Any:
        kept = [i for i in range(x.ndim) if i not in axes]
        rows = np.transpose(x, (*kept, *axes)).reshape([x.shape[i] for i in kept] + [-1])
        found = np.empty(rows.shape[:-1], dtype=np.int64)
        for place in np.ndindex(found.shape):
            row = rows[place].tolist()
            found[place] = row.index(max(row) if greatest else min(row))
        return lift(np.expand_dims(found.astype(np.float64), tuple(axes)))

    @staticmethod
    def size(x: Any, axes: Any) -> Any:
        return Reference.const(int(np.prod([np.shape(x)[axis] for axis in axes])))

    @staticmethod
    def matmul(a: Any, b: Any) -> Any:
        return np.matmul(a, b)

    @staticmethod
    def transpose(x: Any, perm: Any) -> Any:
        return np.swapaxes(x, -1, -2) if perm == "last_two" else np.transpose(x, perm)
