"""Singular values of weight matrices: by how much they can make an error larger in the Euclidean norm, and how near singular they are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from hnfc.core.interpreter import WeightReader
from hnfc.dialects.num.constant import WeightOp

Array: TypeAlias = "np.ndarray[Any, Any]"
_STEPS = 500
_CLOSE = 1e-4
"""Relative change of the norm in one step at which the iteration ends."""
_WHOLE = 512
"""Side up to which all singular values are computed themselves."""
_GRAM_SEES = 1e7
"""Beyond this condition the Gram matrix, whose own is the square, has lost the least singular value to rounding."""
_CONTRACTING = {"num.matmul": (0, 1), "num.conv": (1,)}
_MOVING = ("num.transpose", "num.cast", "num.reshape")


@dataclass(frozen=True)
class Spectrum:
    """norm: the largest singular value, by power iteration: an estimate from below. condition: the largest by the least one; infinite for
    a singular matrix, and where more than 10⁷ is all that is known."""

    name: str
    shape: tuple[int, ...]
    norm: float
    condition: float

    def data(self) -> dict[str, Any]:
        return {"name": self.name, "shape": list(self.shape), "norm": self.norm, "condition": self.condition}


def spectral_norm(matrix: Array) -> float:
    """The largest singular value by power iteration on AᵀA (Golub, Van Loan: Matrix computations, 8.2): at most the true one."""
    if not matrix.size:
        return 0.0
    a = np.asarray(matrix, np.float64)
    a = a if a.shape[0] >= a.shape[1] else a.T
    start = np.random.default_rng(0).normal(size=a.shape[1])
    x: Array = np.asarray(start / np.linalg.norm(start))
    norm = 0.0
    for _ in range(_STEPS):
        y = a @ x
        now = float(np.linalg.norm(y))
        if now == 0 or not math.isfinite(now):
            return now
        if abs(now - norm) <= _CLOSE * now * 0.1:
            return now
        norm = now
        x = a.T @ y
        x = np.asarray(x / np.linalg.norm(x))
    return norm


def condition_number(matrix: Array) -> float:
    """σ_max/σ_min, from the singular values of small matrices and from the eigenvalues of the Gram matrix of large ones."""
    a = np.asarray(matrix, np.float64)
    if not a.size or not np.isfinite(a).all():
        return math.inf
    if min(a.shape) <= _WHOLE:
        singular = np.linalg.svd(a, compute_uv=False)
        return float(singular[0] / singular[-1]) if singular[-1] > 0 else math.inf
    gram = a.T @ a if a.shape[0] >= a.shape[1] else a @ a.T
    values = np.linalg.eigvalsh(gram)
    found = math.sqrt(values[-1] / values[0]) if values[0] > 0 else math.inf
    return found if found < _GRAM_SEES else math.inf


def spectra(named: Iterable[tuple[str, Array]]) -> list[Spectrum]:
    """Of arrays of two axes or more, the ones after the first taken together as in a convolution; the worst conditioned first."""
    found = []
    for name, array in named:
        if array.ndim >= 2 and array.size:
            matrix = np.asarray(array).reshape(array.shape[0], -1)
            found.append(Spectrum(name, tuple(array.shape), spectral_norm(matrix), condition_number(matrix)))
    return sorted(found, key=lambda spectrum: (-spectrum.condition, spectrum.name))


def contracted_weights(block: Block, weights: WeightReader) -> dict[str, Array]:
    """The weights that products of matrices and convolutions take, by name."""
    return {owner.weight_name: weights(owner.weight_name) for owner in _contracted(block) if isinstance(owner, WeightOp)}


def contracted_arguments(block: Block, arrays: Mapping[SSAValue, tuple[str, Array]]) -> dict[str, Array]:
    """The arguments of a function that they take, by the names that are given."""
    return dict(arrays[value] for value in _contracted(block) if isinstance(value, SSAValue) and value in arrays)


def _contracted(block: Block) -> Iterable[SSAValue | Operation]:
    for operation in block.ops:
        for place in _CONTRACTING.get(operation.name, ()):
            value = operation.operands[place]
            while isinstance(value.owner, Operation) and value.owner.name in _MOVING:
                value = value.owner.operands[0]
            yield value.owner if isinstance(value.owner, Operation) else value
