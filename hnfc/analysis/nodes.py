"""Values on a tape, and conditions on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from hnfc.analysis.batch_axis import multiplied
from hnfc.dialects.interval_arrays import ONE, Array, IntervalArray

Pull: TypeAlias = Callable[[IntervalArray], IntervalArray]
"""From the derivative by a result to the derivative by an operand, through this result."""

Function: TypeAlias = Callable[[IntervalArray], IntervalArray]
"""Values on a box, element by element."""
Slope: TypeAlias = Callable[[IntervalArray, IntervalArray], IntervalArray]
"""Derivatives on a box, from it and the values there."""

ABOVE = 1 + 2.0**-48
"""Keeps a bound above the rounding of its own few operations."""


class WholeFunction(Protocol):
    """A function along axes of which an element depends on several of its operand.

    values: on a box. growth: bound of the change of the result by a change of at most e. pull: from the derivative by the result to the
    one by the operand. at: its derivative at a point.
    """

    @property
    def places(self) -> tuple[int, ...]: ...
    def values(self, x: IntervalArray) -> IntervalArray: ...
    def growth(self, e: Array, x: IntervalArray, y: IntervalArray) -> Array: ...
    def pull(self, g: IntervalArray, x: IntervalArray, y: IntervalArray) -> IntervalArray: ...
    def at(self, centre: Array, value: Array, x: IntervalArray, y: IntervalArray) -> PointDerivative: ...


@dataclass(frozen=True)
class PointDerivative:
    """A matrix J beside the derivatives on a box. pull: g·J. push: |J|·e. change: bound of |J' - J|·e for any derivative J' on the box."""

    pull: Callable[[Array], Array]
    push: Callable[[Array], Array]
    change: Callable[[Array], Array]


class Recording(Protocol):
    """A tape, as values on it and functions of them use it."""

    nodes: list[TapeNode]
    recording: bool

    def node(self, value: Any) -> TapeNode: ...
    def function(self, x: TapeNode, f: Function, slope: Slope) -> TapeNode: ...
    def joined(
        self,
        combine: Callable[[IntervalArray, IntervalArray], IntervalArray],
        x: Any,
        y: Any,
        slopes: Callable[[IntervalArray, IntervalArray], tuple[IntervalArray, IntervalArray]],
    ) -> TapeNode: ...
    def matmul(self, a: Any, b: Any) -> TapeNode: ...
    def moved(self, operands: Sequence[Any], move: Callable[[list[Array]], Array], filling: IntervalArray = ...) -> TapeNode: ...


class TapeNode:
    """A value on the tape, and how derivatives go from it to what it was made of.

    exact: the value is the same with and without rounding. noise: how far its own rounding may move it (None: not at all).
    lost: where the value may be infinite or no number at all (None: nowhere); no bound holds there.
    error: a bound of the distance to the true value, from the operands' (None: 0), by |∂f|·error: what cancels is not seen to.
    line: the value as a linear function of errors, on a tape that keeps it (see `linear`).
    """

    __slots__ = ("error", "exact", "index", "line", "lost", "noise", "origin", "parents", "tape", "value")
    exact: bool

    def __init__(
        self, tape: Recording, value: IntervalArray, parents: Sequence[tuple[TapeNode, Pull]] = (), exact: bool | None = None,
        lost: Array | None = None, error: Array | None = None,
    ) -> None:  # fmt: skip
        self.tape, self.value, self.parents, self.lost = tape, value, tuple(parents), lost
        self.error = None if error is None else error * ABOVE
        infinite = ~np.isfinite(value.magnitude)
        if infinite.any():
            self.lost = infinite if lost is None else infinite | lost
        self.exact = all(parent.exact for parent, _ in parents) if exact is None else exact
        if not tape.recording:
            self.parents = ()
        self.noise: Array | None = None
        self.origin: Any = None
        self.line: Any = None
        self.index = len(tape.nodes)
        if tape.recording:
            tape.nodes.append(self)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the tensor, without the first axis."""
        return self.value.shape[1:]

    def __add__(self, other: Any) -> TapeNode:
        return self.tape.joined(lambda x, y: x + y, self, other, lambda x, y: (ONE, ONE))

    def __sub__(self, other: Any) -> TapeNode:
        if other is self and self.lost is None:
            return TapeNode(self.tape, IntervalArray.of(np.zeros(self.value.shape)), exact=True)
        return self.tape.joined(lambda x, y: x - y, self, other, lambda x, y: (ONE, -ONE))

    def __mul__(self, other: Any) -> TapeNode:
        if isinstance(other, TapeNode) and other is self:
            return self.tape.function(self, lambda x: x.square(), lambda x, y: x * 2.0)
        return self.tape.joined(multiplied, self, other, lambda x, y: (y, x))

    def __truediv__(self, other: Any) -> TapeNode:
        return self.tape.joined(lambda x, y: x / y, self, other, lambda x, y: (y.reciprocal(), -(x / y.square())))

    def __neg__(self) -> TapeNode:
        return self.tape.function(self, lambda x: -x, lambda x, y: -ONE)

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: Any) -> TapeNode:
        return self.tape.node(other) - self

    def __rtruediv__(self, other: Any) -> TapeNode:
        return self.tape.node(other) / self


@dataclass
class KleeneTruth:
    """A condition: where it may hold, where it may fail, where it may have no value, and whether rounding cannot change it."""

    may: Array
    may_not: Array
    unsure: Array | None
    exact: bool


def running_error(node: TapeNode) -> Array:
    """The bound that the pass forward gave, element by element."""
    error = np.zeros((1,) * (len(node.shape) + 1)) if node.error is None else node.error
    error = np.broadcast_to(error, np.broadcast_shapes(error.shape, (1, *node.shape)))
    return np.where(np.isnan(error) | (False if node.lost is None else node.lost), np.inf, error)
