"""Array operations that rounding needs: the same few in NumPy and elsewhere, so that there is one algorithm."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np


class Arrays(Protocol):
    """Operations on arrays of float64 or float32. Elementwise; numbers of Python broadcast, and NaN stays NaN."""

    def is_single(self, x: Any) -> bool:
        """Return whether the elements are float32."""
        ...

    def double(self, x: Any) -> Any: ...
    def like(self, x: Any, other: Any) -> Any:
        """x in the element type of `other`."""
        ...

    def exponents(self, x: Any) -> Any:
        """⌊log₂ x⌋ as integers, for normal x > 0; -1023 (-127 in float32) for smaller ones, 1024 (128) for infinities and NaN."""
        ...

    def times_power(self, x: Any, exponents: Any) -> Any:
        """x·2^exponents: exact where the product is a number of the element type."""
        ...

    def where(self, condition: Any, x: Any, y: Any) -> Any: ...
    def clip(self, x: Any, low: Any, high: Any) -> Any: ...
    def abs(self, x: Any) -> Any: ...
    def floor(self, x: Any) -> Any: ...
    def rint(self, x: Any) -> Any:
        """The nearest integer, the even one of two."""
        ...

    def copysign(self, x: Any, sign: Any) -> Any: ...
    def remainder(self, x: Any, y: float) -> Any:
        """x - y·⌊x/y⌋, exactly."""
        ...

    def greatest(self, x: Any) -> Any:
        """The maximum along the last axis, which stays."""
        ...

    def greatest_of_all(self, x: Any) -> Any: ...
    def in_blocks(self, x: Any, size: int) -> Any:
        """(…, n) as (…, ⌈n/size⌉, size), the last block filled with zeros."""
        ...

    def out_of_blocks(self, x: Any, length: int) -> Any: ...


class _Numpy:
    def is_single(self, x: Any) -> bool:
        return bool(x.dtype == np.float32)

    def double(self, x: Any) -> Any:
        return np.asarray(x, np.float64)

    def like(self, x: Any, other: Any) -> Any:
        return np.asarray(x, other.dtype)

    def exponents(self, x: Any) -> Any:
        if x.dtype == np.float32:
            return ((x.view(np.int32) >> np.int32(23)) & np.int32(0xFF)) - np.int32(127)
        return ((x.view(np.int64) >> 52) & 0x7FF) - 1023

    def times_power(self, x: Any, exponents: Any) -> Any:
        half = exponents >> 1
        with np.errstate(all="ignore"):
            return x * self._power(half, x) * self._power(exponents - half, x)

    @staticmethod
    def _power(exponents: Any, like: Any) -> Any:
        if like.dtype == np.float32:
            return ((np.asarray(exponents, np.int32) + np.int32(127)) << np.int32(23)).view(np.float32)
        return ((np.asarray(exponents, np.int64) + 1023) << 52).view(np.float64)

    where = staticmethod(np.where)
    clip = staticmethod(np.clip)
    abs = staticmethod(np.abs)
    floor = staticmethod(np.floor)
    rint = staticmethod(np.rint)
    copysign = staticmethod(np.copysign)

    def remainder(self, x: Any, y: float) -> Any:
        return np.mod(x, y)

    def greatest(self, x: Any) -> Any:
        return np.max(x, axis=-1, keepdims=True)

    def greatest_of_all(self, x: Any) -> Any:
        return np.max(x, initial=0.0)

    def in_blocks(self, x: Any, size: int) -> Any:
        filled = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, -x.shape[-1] % size)])
        return filled.reshape(*x.shape[:-1], filled.shape[-1] // size, size)

    def out_of_blocks(self, x: Any, length: int) -> Any:
        return x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1])[..., :length]


NUMPY: Arrays = _Numpy()
