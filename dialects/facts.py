"""What must be known of an operation, and the interface its meaning is written in.

`Facts.real` states the meaning of an operation over the real numbers, once, over `Math`. Every reader of that
formula (the prover, ball arithmetic) brings a `Math` of its own, so they cannot disagree about what is computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, TypeAlias

from hnfc.dialects.types import Format

Formula: TypeAlias = Callable[..., Any]
"""`formula(m, *operands, **attributes)`: operands are tensors of the back end `m`."""


class Math(Protocol):
    """Primitives over the reals. A tensor of a back end supports `+ - * /` and unary `-` with broadcasting.

    `axes` is an opaque token: a formula hands it on and never looks inside. Conditions are back-end values too.
    """

    def const(self, value: float | Fraction) -> Any: ...

    # elementwise functions; each is partial exactly where the usual real function is
    def exp(self, x: Any) -> Any: ...
    def log(self, x: Any) -> Any: ...
    def sqrt(self, x: Any) -> Any: ...
    def pow(self, x: Any, y: Any) -> Any: ...
    def sin(self, x: Any) -> Any: ...
    def cos(self, x: Any) -> Any: ...
    def atan(self, x: Any) -> Any: ...
    def asin(self, x: Any) -> Any: ...
    def acos(self, x: Any) -> Any: ...
    def atan2(self, y: Any, x: Any) -> Any: ...
    def erf(self, x: Any) -> Any: ...
    def lgamma(self, x: Any) -> Any: ...
    def i0(self, x: Any) -> Any: ...
    def floor(self, x: Any) -> Any: ...
    def abs(self, x: Any) -> Any: ...
    def maximum(self, x: Any, y: Any) -> Any: ...
    def minimum(self, x: Any, y: Any) -> Any: ...

    # conditions
    def compare(self, predicate: str, x: Any, y: Any) -> Any: ...
    def logical_and(self, p: Any, q: Any) -> Any: ...
    def logical_or(self, p: Any, q: Any) -> Any: ...
    def logical_not(self, p: Any) -> Any: ...
    def where(self, p: Any, x: Any, y: Any) -> Any: ...

    # reductions over `axes`; the reduced axes stay with size 1
    def sum(self, x: Any, axes: Any) -> Any: ...
    def prod(self, x: Any, axes: Any) -> Any: ...
    def amax(self, x: Any, axes: Any) -> Any: ...
    def amin(self, x: Any, axes: Any) -> Any: ...
    def size(self, x: Any, axes: Any) -> Any: ...

    # contraction and movement
    def matmul(self, a: Any, b: Any) -> Any: ...
    def transpose(self, x: Any, perm: Any) -> Any: ...


class NoFormula(Exception):
    """Raised by a `real` for attributes under which the operation is no formula over `Math`."""


@dataclass(frozen=True)
class Context:
    """What the range of a reduction or contraction depends on besides its operands' intervals.

    count: how many elements each result combines (inf: not known). format: the element type of the arithmetic, None for integers.
    """

    count: float
    format: Format | None


UNKNOWN_CONTEXT = Context(math.inf, None)


@dataclass(frozen=True)
class Facts:
    """Everything that hnfc knows of an operation besides its types. A fact is given or the operation does not import.

    real: its meaning over the reals, or None where that is no formula over `Math` (the prover then treats it as an unknown function).
    evaluate: how floating point computes it: `evaluate(*arrays, **attributes)` on NumPy arrays in the working precision.
    range: `range(*intervals, **attributes)`: an interval that holds every value of the result, before its last rounding
        to the element type (`NumOp.transfer` adds that).
    torch: the names of the torch operations that mean exactly this (the first is what is written on export).
    ulps: how many units of roundoff an implementation may be off by, relative to the result (0: exact, 1: rounded correctly).
    contextual: whether `range` also takes `context=` (a Context); without one it assumes nothing of sizes and formats.
    """

    real: Formula | None
    evaluate: Callable[..., Any] | None
    range: Callable[..., Any]
    torch: tuple[str, ...]
    ulps: float = 8.0
    contextual: bool = False
