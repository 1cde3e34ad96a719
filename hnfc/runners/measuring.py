"""The largest error of an operation as a runner computes it, in units in the last place, against ball arithmetic."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from torch_mlir import ir

from hnfc.backend.execution import runner
from hnfc.backend.iree_trigonometry import FARTHEST
from hnfc.core.errors import ModelError
from hnfc.dialects.facts import NoFormula
from hnfc.dialects.num.base import NumOp
from hnfc.dialects.types import FLOATS
from hnfc.dsl.soundness.balls import ArbMath, Balls, precision
from hnfc.dsl.soundness.elements import UNDECIDED
from hnfc.runners.points import operands
from hnfc.runners.programs import FUNCTION, example, program

Array: TypeAlias = "np.ndarray[Any, Any]"
SIZE = 2048
_BITS = (120, 500, 2600, 9000)


@dataclass(frozen=True)
class Accuracy:
    """The worst element: `ulps` is infinite for a wrong infinity or NaN. flushes: whether subnormal results become 0.

    missing: why the runner does not run the operation; the rest says nothing then.
    """

    ulps: float
    at: tuple[float, ...] = ()
    got: float = math.nan
    want: float = math.nan
    flushes: bool = False
    missing: str = ""


def truth(kind: type[NumOp], attributes: dict[str, Any], arrays: list[Array]) -> Array:
    """The values over the reals in float64; NaN where there is none, or where no precision that is tried determines it."""
    found, open_ = np.full(arrays[0].shape, np.nan), np.arange(arrays[0].size)
    assert kind.FACTS.real is not None
    for bits in _BITS:
        if not open_.size:
            break
        with precision(bits):
            balls = [Balls.of(array[open_].astype(np.float64)) for array in arrays]
            result = kind.FACTS.real(ArbMath(), *balls, **attributes)
            known = result.accurate() & np.frompyfunc(lambda x: x is not UNDECIDED, 1, 1)(result.values).astype(bool)
            found[open_[known]] = Balls(result.values[known]).to_float()
        open_ = open_[~known]
    return found


def accuracy(got: Array, want: Array, arrays: list[Array], element: str) -> Accuracy:
    """The worst element of an array beside the true values."""
    form, result = FLOATS[element], got.astype(np.float64)
    normal, unit = form.smallest_normal, 2 * form.unit_roundoff
    with np.errstate(all="ignore"):
        size = np.abs(want)
        ulp = np.exp2(np.floor(np.log2(np.maximum(size, normal)))) * unit
        error = np.abs(result - want) / ulp
        error[~np.isfinite(result)] = math.inf
        beyond = size > form.largest
        right = (np.sign(result) == np.sign(want)) & (np.abs(result) >= form.largest * (1 - 8 * unit))
        near = np.isinf(result) & (size >= form.largest * (1 - form.unit_roundoff)) & (np.sign(result) == np.sign(want))
        error = np.where(beyond, np.where(right, 0.0, math.inf), np.where(near, 0.0, error))
        flushed = (result == 0) & (want != 0) & (size < normal)
        error[flushed | np.isnan(want)] = 0.0
        lost = flushed & (size > form.smallest)
    worst = int(np.argmax(error))
    at = tuple(float(array[worst]) for array in arrays)
    return Accuracy(float(error[worst]), at, float(result[worst]), float(want[worst]), bool(lost.any()))


def on_runner(module: ir.Module, arrays: list[Array], want: Array, element: str, backend: str) -> Accuracy:
    """The accuracy of the module's one function on a runner (`torch`, `iree`)."""
    try:
        (got,) = runner(module, FUNCTION, backend)(arrays)
    except ModelError as error:
        return Accuracy(math.nan, missing=str(error))
    return accuracy(got, want, arrays, element)


def _within_reach(name: str, arrays: list[Array]) -> list[Array]:
    """The operands without those for which the forms make no claim: too many quarter turns, and quotients of too many digits."""
    first = arrays[0]
    with np.errstate(all="ignore"):
        if name in ("num.sin", "num.cos", "num.tan"):
            first[np.abs(first) > FARTHEST] = 3.0
        if name in ("num.fmod", "num.remainder"):
            far = ~(np.abs(first.astype(np.float64) / arrays[1].astype(np.float64)) < 2.0**52)
            first[far] = arrays[1][far]
    return arrays


def subject(kind: type[NumOp], attributes: dict[str, Any], element: str, size: int = SIZE) -> tuple[ir.Module, list[Array], Array]:
    """The operation as a module, operands for it, and its true values."""
    operation = example(kind, attributes, element, size)
    arrays = _within_reach(operation.name, operands(element, len(operation.operands), size))
    try:
        want = truth(kind, attributes, arrays)
    except NoFormula as error:
        raise ModelError(f"{operation.name} has no value over the reals: {error}") from None
    return program(operation), arrays, want
