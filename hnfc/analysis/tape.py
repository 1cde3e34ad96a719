"""Reverse differentiation over intervals: the `Math` that reads the meaning of an operation (`FACTS.real`) and records it on a tape.

Every array has a first axis of its own, for what is done at once: the boxes of a search, or the elements of an output that derivatives are
taken of. The axes of a formula are those after it. A derivative where a function has none (max, abs, a branch) is the interval of the
slopes on both sides, Clarke's generalized gradient, for which the mean value theorem holds too (Lebourg 1975).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hnfc.analysis.batch_axis import (
    SIGMA,
    anywhere,
    arc_slope,
    either,
    extremum_places,
    filled,
    gathered,
    inside,
    lifted,
    places_of,
    product,
    raised,
    rows_of,
    scaled,
    spread,
    total,
)  # fmt: skip
from hnfc.analysis.contraction import convolution, gathered_along, vector_product
from hnfc.analysis.movement import moved
from hnfc.analysis.nodes import ABOVE, Function, KleeneTruth, Slope, TapeNode, WholeFunction
from hnfc.dialects import interval_arrays
from hnfc.dialects.facts import Facts, NoFormula
from hnfc.dialects.interval_arrays import ONE, ZERO, Array, IntervalArray
from hnfc.dialects.num import OPERATIONS


@dataclass
class Tape:
    """The `Math` protocol on nodes. recording: whether derivatives will be requested; otherwise nothing is kept."""

    nodes: list[TapeNode] = field(default_factory=list)
    recording: bool = True

    def input(self, value: IntervalArray) -> TapeNode:
        """A value that is given."""
        lo, hi = np.where(np.isnan(value.lo), -np.inf, value.lo), np.where(np.isnan(value.hi), np.inf, value.hi)
        return TapeNode(self, IntervalArray(lo, hi) if np.isinf(lo).any() or np.isinf(hi).any() else value, exact=True)

    def node(self, value: Any) -> TapeNode:
        if isinstance(value, TapeNode):
            return value
        if isinstance(value, KleeneTruth):
            return self.where(value, 1, 0)
        if isinstance(value, float) and value - value != 0:
            raise NoFormula("an infinity or a nan is no real number")
        return TapeNode(self, IntervalArray.of(value).map(lambda v: np.reshape(v, (1, *np.shape(v)))), exact=True)

    const = node

    def function(self, x: TapeNode, f: Function, slope: Slope) -> TapeNode:
        """f(x), element by element, with the derivative `slope(x, f(x))`."""
        value = f(x.value)
        steep = slope(x.value, value)
        error = None if x.error is None else scaled(x.error, steep)
        return TapeNode(self, value, [(x, lambda adjoint: adjoint * steep)], lost=x.lost, error=error)

    def whole(self, x: TapeNode, f: WholeFunction) -> TapeNode:
        """f(x), where an element of the result depends on several of x."""
        value = f.values(x.value)
        error = None if x.error is None else f.growth(filled(x.error, x.value.shape), x.value, value)
        return TapeNode(self, value, [(x, lambda g: f.pull(g, x.value, value))], lost=rows_of(x.lost, x.value.shape, f.places), error=error)

    def copy(self, x: TapeNode) -> TapeNode:
        """The same value, for a rounding of its own."""
        return TapeNode(self, x.value, [(x, lambda adjoint: adjoint)], lost=x.lost, error=x.error)

    def rising(self, x: TapeNode, facts: Facts) -> TapeNode:
        """A function that rises: between its values at the ends, which its evaluation in float64 gives up to `ulps`."""
        evaluate, derivative, domain = facts.evaluate, facts.derivative, facts.domain
        assert evaluate is not None and derivative is not None

        def slope(x: IntervalArray, y: IntervalArray) -> IntervalArray:
            inner = Tape(recording=False)
            found: IntervalArray = derivative(inner, TapeNode(inner, x), TapeNode(inner, y)).value
            return found.meet(0.0, np.inf)

        return self.function(x, lambda v: v.rising(evaluate, domain.least, domain.greatest, error=2.0**-52 * facts.ulps), slope)

    def joined(
        self,
        combine: Callable[[IntervalArray, IntervalArray], IntervalArray],
        x: Any,
        y: Any,
        slopes: Callable[[IntervalArray, IntervalArray], tuple[IntervalArray, IntervalArray]],
    ) -> TapeNode:
        """f(x, y), element by element, with broadcasting."""
        x, y = self.node(x), self.node(y)
        rank = max(len(x.shape), len(y.shape))
        a, b = lifted(x.value, rank), lifted(y.value, rank)
        pulls = [(x, lambda g: gathered(g * slopes(a, b)[0], x.shape)), (y, lambda g: gathered(g * slopes(a, b)[1], y.shape))]
        error = None
        if x.error is not None or y.error is not None:
            parts = [scaled(raised(n.error, rank), s) for n, s in zip((x, y), slopes(a, b), strict=True) if n.error is not None]
            error = parts[0] if len(parts) == 1 else parts[0] + parts[1]
        return TapeNode(self, combine(a, b), pulls, lost=either(x.lost, y.lost, rank), error=error)

    # elementwise functions

    def elementary(self, name: str) -> Function:
        """Values of an operation of one operand, by the range that its class declares."""
        found: Function = OPERATIONS[name].FACTS.range
        return found

    def exp(self, x: Any) -> TapeNode:
        return self.function(self.node(x), interval_arrays.exp, lambda x, y: y)

    def log(self, x: Any) -> TapeNode:
        return self.function(self.node(x), self.elementary("log"), lambda x, y: inside(x.reciprocal(), x.lo > 0))

    def sqrt(self, x: Any) -> TapeNode:
        return self.function(self.node(x), self.elementary("sqrt"), lambda x, y: inside(0.5 / y, x.lo > 0))

    def pow(self, x: Any, y: Any) -> TapeNode:
        x, y = self.node(x), self.node(y)
        exponent = y.value.lo.reshape(-1)
        if y.value.lo is y.value.hi and y.exact and exponent.size and (exponent == exponent[0]).all():
            c = float(exponent[0])
            shape = np.broadcast_shapes(x.shape, y.shape)
            result = self.function(
                x, lambda v: interval_arrays.power(v, c), lambda v, _: interval_arrays.power(v, c - 1) * c if c else ZERO
            )
            return result if shape == x.shape else result + self.node(np.zeros(shape))

        def slopes(a: IntervalArray, b: IntervalArray) -> tuple[IntervalArray, IntervalArray]:
            return b * interval_arrays.general_power(a, b - ONE), interval_arrays.general_power(a, b) * interval_arrays.log(a)

        return self.joined(interval_arrays.general_power, x, y, slopes)

    def sin(self, x: Any) -> TapeNode:
        return self.function(self.node(x), interval_arrays.sin, lambda x, y: interval_arrays.cos(x))

    def cos(self, x: Any) -> TapeNode:
        return self.function(self.node(x), interval_arrays.cos, lambda x, y: -interval_arrays.sin(x))

    def atan(self, x: Any) -> TapeNode:
        return self.function(self.node(x), self.elementary("atan"), lambda x, y: (x.square() + ONE).reciprocal())

    def asin(self, x: Any) -> TapeNode:
        return self.function(self.node(x), self.elementary("asin"), lambda x, y: arc_slope(x))

    def acos(self, x: Any) -> TapeNode:
        return self.function(self.node(x), self.elementary("acos"), lambda x, y: -arc_slope(x))

    def atan2(self, y: Any, x: Any) -> TapeNode:
        def slopes(a: IntervalArray, b: IntervalArray) -> tuple[IntervalArray, IntervalArray]:
            squares = a.square() + b.square()
            apart = (b.lo > 0) | (a.lo > 0) | (a.hi < 0)
            return inside(b / squares, apart), inside(-(a / squares), apart)

        y, x = self.node(y), self.node(x)
        result = self.joined(interval_arrays.atan2, y, x, slopes)
        rank = max(len(x.shape), len(y.shape))
        # at 0 there is no angle, and left of it the sign of a zero makes a difference of a whole turn
        a, b = lifted(y.value, rank), lifted(x.value, rank)
        torn = ~((b.lo > 0) | (a.lo > 0) | (a.hi < 0))
        result.lost = either(result.lost, np.broadcast_to(torn, result.value.shape), rank) if torn.any() else result.lost
        return result

    def erf(self, x: Any) -> TapeNode:
        def slope(x: IntervalArray, y: IntervalArray) -> IntervalArray:
            return interval_arrays.exp(-x.square()) * IntervalArray(np.float64(1.1283791670955123), np.float64(1.128379167095513))

        return self.function(self.node(x), lambda v: self.elementary("erf")(v).meet(-1.0, 1.0), slope)

    def lgamma(self, x: Any) -> TapeNode:
        raise NoFormula("intervals of lgamma")

    def i0(self, x: Any) -> TapeNode:
        raise NoFormula("intervals of the Bessel function")

    def floor(self, x: Any) -> TapeNode:
        """Flat, and a jump of 1 wherever an error before it may cross an integer."""
        x = self.node(x)
        value = IntervalArray(np.floor(x.value.lo), np.floor(x.value.hi))
        result = TapeNode(self, value, exact=x.exact)
        jumps = (value.lo != value.hi) & (not x.exact)
        if np.any(jumps):
            self.round(result, np.where(jumps, value.hi - value.lo, 0.0))
        return result

    def abs(self, x: Any) -> TapeNode:
        def slope(v: IntervalArray, y: IntervalArray) -> IntervalArray:
            return IntervalArray(np.where(v.lo >= 0, 1.0, -1.0), np.where(v.hi <= 0, -1.0, 1.0))

        return self.function(self.node(x), lambda v: IntervalArray(v.smallest, v.magnitude), slope)

    def round_to(self, x: Any, format: Any) -> TapeNode:
        raise NoFormula("a rounding is no smooth function")

    def maximum(self, x: Any, y: Any) -> TapeNode:
        def slopes(a: IntervalArray, b: IntervalArray) -> tuple[IntervalArray, IntervalArray]:
            first = IntervalArray(np.where(a.lo > b.hi, 1.0, 0.0), np.where(a.hi < b.lo, 0.0, 1.0))
            return first, ONE - first

        return self.joined(lambda a, b: IntervalArray(np.maximum(a.lo, b.lo), np.maximum(a.hi, b.hi)), x, y, slopes)

    def minimum(self, x: Any, y: Any) -> TapeNode:
        return -self.maximum(-self.node(x), -self.node(y))

    # conditions

    def compare(self, predicate: str, x: Any, y: Any) -> KleeneTruth:
        x, y = self.node(x), self.node(y)
        rank = max(len(x.shape), len(y.shape))
        a, b = lifted(x.value, rank), lifted(y.value, rank)
        exact, unsure = x.exact and y.exact, either(x.lost, y.lost, rank)
        if x is y:
            # rounded or not, a number is itself; where it is none, nothing is sure
            holds = np.full((1,) * (rank + 1), predicate in ("eq", "ge", "le"))
            return KleeneTruth(holds, ~holds, unsure, True)
        match predicate:
            case "gt" | "le":
                may, may_not = a.hi > b.lo, a.lo <= b.hi
            case "ge" | "lt":
                may, may_not = a.hi >= b.lo, a.lo < b.hi
            case _:
                same = (a.lo == a.hi) & (b.lo == b.hi) & (a.lo == b.lo)
                may, may_not = (a.lo <= b.hi) & (b.lo <= a.hi), ~same
        return KleeneTruth(*((may_not, may) if predicate in ("le", "lt", "ne") else (may, may_not)), unsure, exact)

    def condition(self, p: Any) -> KleeneTruth:
        return p if isinstance(p, KleeneTruth) else self.compare("ne", p, self.node(0))

    def logical_and(self, p: Any, q: Any) -> KleeneTruth:
        p, q = self.condition(p), self.condition(q)
        rank = max(p.may.ndim, q.may.ndim) - 1
        may, other, may_not, other_not = (raised(m, rank) for m in (p.may, q.may, p.may_not, q.may_not))
        return KleeneTruth(may & other, may_not | other_not, either(p.unsure, q.unsure, rank), p.exact and q.exact)

    def logical_or(self, p: Any, q: Any) -> KleeneTruth:
        return self.logical_not(self.logical_and(self.logical_not(p), self.logical_not(q)))

    def logical_not(self, p: Any) -> KleeneTruth:
        p = self.condition(p)
        return KleeneTruth(p.may_not, p.may, p.unsure, p.exact)

    def weight(self, mask: Any) -> TapeNode:
        return self.where(mask, self.node(1.0), self.node(0.0)) if isinstance(mask, KleeneTruth) else self.exp(mask)

    def where(self, p: Any, x: Any, y: Any) -> TapeNode:
        """One branch where the condition is decided; else either, and where rounding may decide it, an error as large as their distance."""
        p, x, y = self.condition(p), self.node(x), self.node(y)
        rank = max(np.ndim(p.may) - 1, len(x.shape), len(y.shape))
        may, may_not = raised(p.may, rank), raised(p.may_not, rank)

        def choice(a: IntervalArray, b: IntervalArray) -> IntervalArray:
            return a.where(~may_not, b.where(~may, a.hull(b)))

        first = IntervalArray(np.where(may_not, 0.0, 1.0), np.where(may, 1.0, 0.0))
        result = self.joined(choice, x, y, lambda a, b: (first, ONE - first))
        apart = (lifted(x.value, rank) - lifted(y.value, rank)).magnitude if x is not y and not p.exact else np.zeros(())
        # what the branch that is not taken may lack is not missed
        first_lost, second_lost = (raised(n.lost, rank) if n.lost is not None else np.zeros((1,) * (rank + 1), bool) for n in (x, y))
        lost = (may & first_lost) | (may_not & second_lost) | (raised(p.unsure, rank) if p.unsure is not None else False)
        result.lost = lost if lost.any() else None
        if x.error is not None or y.error is not None:
            first_error, second_error = (raised(n.error, rank) if n.error is not None else np.zeros(()) for n in (x, y))
            result.error = np.maximum(np.where(may, first_error, 0.0), np.where(may_not, second_error, 0.0))
        jump = np.where(may & may_not, apart, 0.0)
        return self.round(result, jump) if np.any(jump) else result

    # reductions

    def sum(self, x: Any, axes: Sequence[int]) -> TapeNode:
        x = self.node(x)
        places = places_of(len(x.shape), axes)
        error = None
        if x.error is not None:
            n = math.prod(x.value.shape[place] for place in places)
            error = np.sum(filled(x.error, x.value.shape), axis=places, keepdims=True) * (1 + n * SIGMA)
        return TapeNode(
            self, total(x.value, places), [(x, lambda g: spread(g, x.shape))], lost=anywhere(x.lost, x.shape, places), error=error
        )

    def prod(self, x: Any, axes: Sequence[int]) -> TapeNode:
        """By one factor after the other, so that each derivative is the product of the other factors."""
        x = self.node(x)
        result: TapeNode = x
        for axis in (place - 1 for place in places_of(len(x.shape), axes)):
            parts = [self.slice(result, axis, i, i + 1, 1) for i in range(result.shape[axis])]
            result = parts[0] if parts else self.node(np.ones([1 if i == axis else n for i, n in enumerate(result.shape)]))
            for part in parts[1:]:
                result = result * part
        return result

    def amax(self, x: Any, axes: Sequence[int]) -> TapeNode:
        x = self.node(x)
        places = extremum_places(x.shape, axes)
        value = x.value.map(lambda a: np.max(a, axis=places, keepdims=True))
        sole = math.prod(x.value.shape[place] for place in places) == 1
        taken = IntervalArray(np.full(x.value.shape, 1.0 if sole else 0.0), np.where(x.value.hi >= value.lo, 1.0, 0.0))
        error = None
        if x.error is not None:
            # |max a - max b| ≤ max |a - b|
            error = np.max(filled(x.error, x.value.shape), axis=places, keepdims=True)
        return TapeNode(self, value, [(x, lambda g: g * taken)], lost=anywhere(x.lost, x.shape, places), error=error)

    def amin(self, x: Any, axes: Sequence[int]) -> TapeNode:
        return -self.amax(-self.node(x), axes)

    def size(self, x: Any, axes: Sequence[int]) -> TapeNode:
        return self.node(float(math.prod(self.node(x).shape[axis] for axis in axes)))

    # contraction and movement

    def matmul(self, a: Any, b: Any) -> TapeNode:
        a, b = self.node(a), self.node(b)
        if not a.shape or not b.shape:
            raise NoFormula("a matrix product with a number")
        if len(a.shape) < 2 or len(b.shape) < 2:
            return vector_product(self, a, b)
        rank = max(len(a.shape), len(b.shape))
        left, right = lifted(a.value, rank), lifted(b.value, rank)

        def turned(x: IntervalArray) -> IntervalArray:
            return x.map(lambda v: np.swapaxes(v, -1, -2))

        lost = np.ones((1,) * (rank + 1), bool) if a.lost is not None or b.lost is not None else None
        pulls = [(a, lambda g: gathered(product(g, turned(right)), a.shape)), (b, lambda g: gathered(product(turned(left), g), b.shape))]
        error = None
        if a.error is not None or b.error is not None:
            parts = []
            if a.error is not None:
                parts.append(filled(raised(a.error, rank), left.shape) @ right.magnitude)
            if b.error is not None:
                parts.append(left.magnitude @ filled(raised(b.error, rank), right.shape))
            error = sum(parts[1:], parts[0]) * (1 + 2 * left.shape[-1] * SIGMA)
        return TapeNode(self, product(left, right), pulls, lost=lost, error=error)

    def transpose(self, x: Any, perm: Any) -> TapeNode:
        return self.moved([x], lambda parts: np.swapaxes(parts[0], -1, -2) if perm == "last_two" else np.transpose(parts[0], perm))

    def slice(self, x: Any, axis: int, start: Any, stop: Any, step: Any) -> TapeNode:
        return self.moved([x], lambda parts: parts[0][(slice(None),) * axis + (slice(start, stop, step),)])

    def reverse(self, x: Any, axes: Sequence[int]) -> TapeNode:
        return self.moved([x], lambda parts: np.flip(parts[0], tuple(axes)))

    def concat(self, parts: Sequence[Any], axis: int) -> TapeNode:
        return self.moved(parts, lambda arrays: np.concatenate(arrays, axis))

    def gather(self, x: Any, index: Any, axis: int) -> TapeNode:
        return gathered_along(self, self.node(x), self.node(index), axis)

    def conv(self, x: Any, weight: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> TapeNode:
        return convolution(self, self.node(x), self.node(weight), stride, padding, dilation, groups)

    def moved(self, operands: Sequence[Any], move: Callable[[list[Array]], Array], filling: IntervalArray = ZERO) -> TapeNode:
        return moved(self, [self.node(x) for x in operands], move, filling)

    # rounding, and derivatives

    def round(self, x: TapeNode, noise: Array, origin: Any = None) -> TapeNode:
        """x moved by at most `noise`; the value of x itself is changed, so what was made of it before must not be.

        A rounding does not change a sign, nor does a sum of numbers of one sign.
        """
        before = x.value
        x.value = before.widened(noise)
        x.value = IntervalArray(np.where(before.lo >= 0, np.maximum(x.value.lo, 0.0), x.value.lo),
                        np.where(before.hi <= 0, np.minimum(x.value.hi, 0.0), x.value.hi))  # fmt: skip
        x.noise = noise if x.noise is None else x.noise + noise
        x.error = noise if x.error is None else (x.error + noise) * ABOVE
        if np.isinf(noise).any():
            x.lost = either(x.lost, np.broadcast_to(np.isinf(noise), x.value.shape), len(x.shape))
        x.exact, x.origin = False, origin if origin is not None else x.origin
        return x

    def adjoints(self, result: TapeNode, seed: IntervalArray) -> dict[int, IntervalArray]:
        """The derivative of the result, weighted by `seed`, by every node that it depends on."""
        found = {result.index: seed}
        for node in reversed(self.nodes[: result.index + 1]):
            adjoint = found.get(node.index)
            if adjoint is None:
                continue
            for parent, pull in node.parents:
                if parent.exact and parent.noise is None:
                    continue  # no rounding lies behind it
                part = pull(adjoint)
                before = found.get(parent.index)
                found[parent.index] = part if before is None else before + part
        return found
