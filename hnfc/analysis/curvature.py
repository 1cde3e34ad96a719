"""Curvature of a model at the values it takes: how much each operation bends, as a measure of how it loses digits.

The formulas of the homotopical numerical foundations where they hold: exp e^(2x), log 1/x², division 1/|d|³, softmax ½. A product is
called linear there, but is bilinear, with a second derivative of 1; matrices are taken by the product of their condition numbers.
Where the sources have no formula it is the largest |f''|. All are estimates at the sample, not bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from hnfc.analysis.spectral import condition_number
from hnfc.core.interpreter import WeightReader, evaluate

Array: TypeAlias = "np.ndarray[Any, Any]"
_LARGEST_MATRIX = 1024
"""Shorter side of the matrices whose condition numbers are computed; larger ones count as 1."""


@dataclass(frozen=True)
class Curvature:
    """The sum over the operations of a model, and the operations that have the most of it, with their places."""

    total: float
    largest: tuple[tuple[str, str, float], ...]

    def __float__(self) -> float:
        return self.total

    def __str__(self) -> str:
        lines = [f"curvature {self.total:.3g}"]
        lines += [f"  {value:10.3g}  {operation.removeprefix('num.')} at {place}" for operation, place, value in self.largest]
        return "\n".join(lines)


def curvature_of(
    block: Block, sample: Mapping[SSAValue, Array], weights: WeightReader | None, place: Callable[[Operation], str]
) -> Curvature:
    """The curvature of a function of `num` on one sample, its values taken in float64."""
    found = [
        (operation.name, place(operation), value)
        for operation, value in curvatures(block, evaluate(block, sample, weights, wide=True)).items()
    ]
    found.sort(key=lambda entry: -entry[2])
    return Curvature(float(sum(value for _, _, value in found)), tuple(found[:10]))


def curvatures(block: Block, values: Mapping[SSAValue, Array]) -> dict[Operation, float]:
    """The curvature of each operation that has any, at the values that it takes."""
    found = {}
    with np.errstate(all="ignore"):
        for operation in block.ops:
            formula = _FORMULAS.get(operation.name)
            operands = [values.get(operand) for operand in operation.operands]
            if formula is None or any(operand is None for operand in operands):
                continue
            value = formula(*(np.asarray(operand, np.float64) for operand in operands))
            if value:
                found[operation] = value
    return found


def curvature_at(operation: Operation, operands: Sequence[Array]) -> float:
    """The curvature of one operation at values of its operands, in float64; 0 where it has none, or no formula."""
    formula = _FORMULAS.get(operation.name)
    if formula is None:
        return 0.0
    with np.errstate(all="ignore"):
        return float(formula(*operands))


def _largest(f: Callable[[Array], Array]) -> Callable[..., float]:
    """The largest value of f over the elements of the first operand."""

    def formula(x: Array, *_: Array) -> float:
        values = np.abs(f(x))
        return float(np.nanmax(values)) if values.size and not np.isnan(values).all() else 0.0

    return formula


def _condition(x: Array) -> float:
    """Of the first matrix of a batch."""
    if x.ndim < 2 or min(x.shape[-2:]) > _LARGEST_MATRIX or not np.isfinite(x).all():
        return 1.0
    return condition_number(x.reshape(-1, *x.shape[-2:])[0])


def _matmul(a: Array, b: Array) -> float:
    return _condition(a) * _condition(b)


def _div(_: Array, d: Array) -> float:
    return _largest(lambda x: 1 / np.abs(x) ** 3)(d)


_FORMULAS: dict[str, Callable[..., float]] = {
    "num.exp": _largest(lambda x: np.exp(2 * x)),
    "num.expm1": _largest(lambda x: np.exp(2 * x)),
    "num.exp2": _largest(lambda x: np.exp2(2 * x)),
    "num.log": _largest(lambda x: 1 / x**2),
    "num.log2": _largest(lambda x: 1 / x**2),
    "num.log10": _largest(lambda x: 1 / x**2),
    "num.log1p": _largest(lambda x: 1 / (1 + x) ** 2),
    "num.div": _div,
    "num.reciprocal": _largest(lambda x: 1 / np.abs(x) ** 3),
    "num.sqrt": _largest(lambda x: 0.25 * np.abs(x) ** -1.5),
    "num.rsqrt": _largest(lambda x: 0.75 * np.abs(x) ** -2.5),
    "num.square": lambda x: 2.0,
    "num.mul": lambda x, y: 1.0,
    "num.pow": lambda x, p: float(np.nanmax(np.abs(p * (p - 1) * np.abs(x) ** (p - 2)))),
    "num.sin": _largest(np.sin),
    "num.cos": _largest(np.cos),
    "num.tan": _largest(lambda x: 2 * np.tan(x) * (1 + np.tan(x) ** 2)),
    "num.tanh": _largest(lambda x: 2 * np.tanh(x) * (1 - np.tanh(x) ** 2)),
    "num.sinh": _largest(np.sinh),
    "num.cosh": _largest(np.cosh),
    "num.softmax": lambda x: 0.5,
    "num.log_softmax": lambda x: 0.5,
    "num.logsumexp": lambda x: 0.5,
    "num.sigmoid": _largest(lambda x: np.tanh(x / 2) / (4 * np.cosh(x / 2) ** 2)),
    "num.softplus": _largest(lambda x: 1 / (4 * np.cosh(x / 2) ** 2)),
    "num.matmul": _matmul,
}
