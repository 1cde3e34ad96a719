"""Arrays whose every step is rounded correctly in their own precision, whatever library NumPy was built with.

`FACTS.evaluate` of a reduction or norm runs on them unchanged. They replace what differs from machine to machine: the
elementary functions, and the order in which sums are taken (here from left to right, without fused multiply-adds).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

ROUNDED_BY_IEEE = frozenset((
    "add", "subtract", "multiply", "divide", "true_divide", "sqrt", "negative", "absolute", "fabs", "maximum", "minimum", "square",
    "reciprocal", "floor", "ceil", "trunc", "rint", "sign", "less", "less_equal", "greater", "greater_equal", "equal", "not_equal",
    "isnan", "isinf", "isfinite", "logical_not", "logical_and", "logical_or", "signbit", "copysign",
))  # fmt: skip
"""The functions of NumPy that IEEE 754 determines; every other one is evaluated in a wider type."""

WIDER: dict[Any, Any] = {np.dtype(np.float32): np.float64, np.dtype(np.float64): np.longdouble}


class Working(np.ndarray[Any, Any]):
    """A float32 or float64 array that computes as this module says."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: Any, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:
        arrays = [_plain(x) for x in inputs]
        if ufunc is np.matmul and method == "__call__":
            result = _ordered_product(*arrays)
        elif ufunc is np.add and method == "reduce":
            result = _ordered_sum(arrays[0], **kwargs)
        elif method == "__call__" and ufunc.__name__ not in ROUNDED_BY_IEEE:
            result = _correctly_rounded(ufunc, arrays, kwargs)
        else:
            result = getattr(ufunc, method)(*arrays, **kwargs)
        if out is not None:
            _plain(out[0])[...] = result
            return out[0]
        return _marked(result)

    def __array_function__(self, func: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
        return _marked(super().__array_function__(func, types, args, kwargs))


def _plain(x: Any) -> Any:
    return x.view(np.ndarray) if isinstance(x, Working) else x


def _marked(x: Any) -> Any:
    return x.view(Working) if isinstance(x, np.ndarray) and x.dtype in WIDER else x


def _correctly_rounded(ufunc: np.ufunc, arrays: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    narrow = np.result_type(*(x for x in arrays if isinstance(x, np.ndarray)))
    wide = WIDER.get(narrow)
    if wide is None:
        return ufunc(*arrays, **kwargs)
    try:
        return ufunc(*(np.asarray(x, wide) for x in arrays), **kwargs).astype(narrow)
    except TypeError:
        # scipy's functions know no longdouble
        return ufunc(*arrays, **kwargs)


def _ordered_sum(x: Any, axis: Any = 0, dtype: Any = None, keepdims: bool = False, **_: Any) -> Any:
    """Σ x from its first element on, along one axis after the other."""
    total = x if dtype is None else x.astype(dtype)
    axes = range(x.ndim) if axis is None else sorted({a % x.ndim for a in (axis if isinstance(axis, tuple) else (axis,))})
    for at in axes:
        parts = np.split(total, total.shape[at], axis=at)
        total = parts[0]
        for part in parts[1:]:
            total = total + part
    return total if keepdims else np.squeeze(total, axis=tuple(axes))


def _ordered_product(a: Any, b: Any) -> Any:
    """a @ b for operands with two axes or more."""
    total = a[..., :, :1] * b[..., :1, :]
    for i in range(1, a.shape[-1]):
        total = total + a[..., :, i : i + 1] * b[..., i : i + 1, :]
    return total
