"""Ball arithmetic: the `Math` whose results carry a proof of their accuracy, and the value of an expression on given inputs.

`evaluate` is the reference of the search for counterexamples and of the validation of models.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from math import inf, prod
from typing import Any

import numpy as np
from flint import arb, ctx, fmpq

from hnfc.dialects.num.base import NumOp
from hnfc.dsl.core import Apply, Capture, DTypeOf, Expr, Literal, Size
from hnfc.dsl.soundness import array_moves, elements
from hnfc.dsl.soundness.array_moves import OutOfBounds, ShapeMismatch, integer, integers
from hnfc.dsl.soundness.element_roundings import rounding_to
from hnfc.dsl.soundness.element_types import NO_TYPE
from hnfc.dsl.soundness.elements import DEFAULT_PRECISION, MINUS_INFINITY, UNDECIDED, UNDEFINED, Mark, element, exact, surely_different


class Undecided(Exception):
    """The precision does not determine the value."""


class Unsupported(Exception):
    """An operation whose meaning is no formula over `Math`."""


@contextlib.contextmanager
def precision(bits: int) -> Iterator[None]:
    """Balls are computed with `bits` bits inside the block."""
    before = ctx.prec
    ctx.prec = bits
    try:
        yield
    finally:
        ctx.prec = before


class Balls:
    """A tensor of elements, with NumPy's broadcasting."""

    __slots__ = ("values",)

    def __init__(self, values: Any) -> None:
        array = np.empty(np.shape(values), dtype=object)
        array[...] = values
        self.values = array

    @staticmethod
    def of(array: Any) -> Balls:
        """The tensor of exactly these numbers."""
        if isinstance(array, Balls):
            return array
        source = np.asarray(array)
        result = np.empty(source.shape, dtype=object)
        flat = result.reshape(-1)
        for i, value in enumerate(source.reshape(-1).tolist()):
            flat[i] = element(value)
        return Balls(flat.reshape(source.shape))

    @property
    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.values.shape
        return shape

    def __add__(self, other: Any) -> Balls:
        return _ADD(self, other)

    def __radd__(self, other: Any) -> Balls:
        return _ADD(other, self)

    def __sub__(self, other: Any) -> Balls:
        return _SUB(self, other)

    def __rsub__(self, other: Any) -> Balls:
        return _SUB(other, self)

    def __mul__(self, other: Any) -> Balls:
        return _MUL(self, other)

    def __rmul__(self, other: Any) -> Balls:
        return _MUL(other, self)

    def __truediv__(self, other: Any) -> Balls:
        return _DIV(self, other)

    def __rtruediv__(self, other: Any) -> Balls:
        return _DIV(other, self)

    def __neg__(self) -> Balls:
        return _NEG(self)

    def to_float(self, undecided: float | None = None) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Midpoints as float64, nan where undefined. An element that is not determined is `undecided`; without it, raises Undecided."""

        def number(x: Any) -> float:
            if x is UNDECIDED:
                if undecided is not None:
                    return undecided
                raise Undecided("the precision at hand does not determine a value")
            return float("nan") if x is UNDEFINED else float(x) if isinstance(x, bool) else elements.to_float(x)

        return np.vectorize(number, otypes=[np.float64])(self.values) if self.values.size else np.zeros(self.shape)

    def accurate(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return whether each element is known to a float64's digits (undefined ones are)."""
        known = np.frompyfunc(elements.is_accurate, 1, 1)
        return np.asarray(known(self.values), dtype=bool) if self.values.size else np.ones(self.shape, bool)

    def __repr__(self) -> str:
        return f"Balls({self.values.tolist()!r})"


def _elementwise(function: Callable[..., Any], operands: int) -> Callable[..., Balls]:
    vectorized = np.frompyfunc(function, operands, 1)

    def on_tensors(*xs: Any) -> Balls:
        return Balls(vectorized(*(x.values if isinstance(x, Balls) else Balls.of(x).values for x in xs)))

    return on_tensors


_ADD = _elementwise(elements.lift_binary(operator.add, lambda x, y: MINUS_INFINITY), 2)
_SUB = _elementwise(elements.lift_binary(operator.sub, elements.limit_of_difference), 2)
_MUL = _elementwise(elements.lift_binary(operator.mul, elements.limit_of_product), 2)

_DIV = _elementwise(elements.lift_binary(elements.div, elements.limit_of_scaled), 2)

_NEG = _elementwise(elements.lift(lambda x: -x), 1)

_COMPARE = {predicate: _elementwise(elements.lift(elements.comparison(predicate)), 2) for predicate in elements.PREDICATES}


class ArbMath:
    """The `Math` protocol on `Balls`. Axes are integers; one that a tensor does not have is an axis of size 1."""

    exp = staticmethod(_elementwise(elements.lift(lambda x: arb(x).exp(), lambda x: fmpq(0)), 1))
    log = staticmethod(_elementwise(elements.lift(elements.log), 1))
    sqrt = staticmethod(_elementwise(elements.lift(elements.sqrt), 1))
    pow = staticmethod(_elementwise(elements.lift(elements.power), 2))
    sin = staticmethod(_elementwise(elements.lift(lambda x: arb(x).sin()), 1))
    cos = staticmethod(_elementwise(elements.lift(lambda x: arb(x).cos()), 1))
    atan = staticmethod(_elementwise(elements.lift(lambda x: arb(x).atan()), 1))
    asin = staticmethod(_elementwise(elements.lift(elements.arc("asin")), 1))
    acos = staticmethod(_elementwise(elements.lift(elements.arc("acos")), 1))
    atan2 = staticmethod(_elementwise(elements.lift(elements.atan2), 2))
    erf = staticmethod(_elementwise(elements.lift(lambda x: arb(x).erf()), 1))
    lgamma = staticmethod(_elementwise(elements.lift(elements.lgamma), 1))
    i0 = staticmethod(_elementwise(elements.lift(lambda x: arb(x).bessel_i(0)), 1))
    floor = staticmethod(_elementwise(elements.lift(elements.floor), 1))
    abs = staticmethod(_elementwise(elements.lift(abs), 1))
    maximum = staticmethod(_elementwise(elements.lift(elements.maximum, elements.limit_of_maximum), 2))
    minimum = staticmethod(_elementwise(elements.lift(elements.minimum), 2))
    logical_and = staticmethod(_elementwise(elements.logical_and, 2))
    logical_not = staticmethod(_elementwise(elements.logical_not, 1))
    where = staticmethod(_elementwise(elements.choose, 3))
    weight = staticmethod(_elementwise(elements.weight, 1))
    true = Balls(True)
    pi = property(lambda self: Balls(arb.pi()))

    def const(self, value: Any) -> Balls:
        return Balls.of(value) if not isinstance(value, Fraction) else Balls(element(value))

    def round_to(self, x: Balls, format: Any) -> Balls:
        if format == NO_TYPE:
            raise ShapeMismatch("element types that an operation cannot take together")
        function = rounding_to(str(format))
        if function is None:
            raise Unsupported(f"a rounding to {format}, which is no one format")
        return _elementwise(elements.lift(function), 1)(x)

    def compare(self, predicate: str, x: Any, y: Any) -> Balls:
        return _COMPARE[predicate](x, y)

    def logical_or(self, p: Any, q: Any) -> Balls:
        return self.logical_not(self.logical_and(self.logical_not(p), self.logical_not(q)))

    # reductions

    def sum(self, x: Balls, axes: Sequence[int]) -> Balls:
        return _reduce(_ADD, x, axes, Balls(fmpq(0)))

    def prod(self, x: Balls, axes: Sequence[int]) -> Balls:
        return _reduce(_MUL, x, axes, Balls(fmpq(1)))

    def amax(self, x: Balls, axes: Sequence[int]) -> Balls:
        return _reduce(self.maximum, x, axes)

    def amin(self, x: Balls, axes: Sequence[int]) -> Balls:
        return _reduce(self.minimum, x, axes)

    def size(self, x: Balls, axes: Sequence[int]) -> Balls:
        return Balls(fmpq(prod(x.shape[axis] for axis in positions(axes, x.values.ndim))))

    # contraction and movement

    def matmul(self, a: Balls, b: Balls) -> Balls:
        """Σ_c A[…,i,c]·B[…,c,j]; a vector is a row on the left and a column on the right, as in NumPy."""
        left, right = a.values, b.values
        if left.ndim == 0 or right.ndim == 0:
            raise ShapeMismatch("matmul of a scalar")
        row, column = left.ndim == 1, right.ndim == 1
        left = left[None, :] if row else left
        right = right[:, None] if column else right
        if left.shape[-1] != right.shape[-2]:
            raise ShapeMismatch(f"contracted sizes differ: {left.shape[-1]} and {right.shape[-2]}")
        products = _MUL(Balls(left[..., :, :, None]), Balls(right[..., None, :, :]))
        values = self.sum(products, (-2,)).values[..., 0, :]
        if column:
            values = values[..., 0]
        return Balls(values[..., 0] if row and column else values[..., 0, :] if row else values)

    def transpose(self, x: Balls, perm: Any) -> Balls:
        if perm == "last_two":
            return Balls(array_moves.swap_of(x.values))
        return Balls(np.transpose(x.values, perm))

    def slice(self, x: Balls, axis: int, start: Any, stop: Any, step: Any) -> Balls:
        return Balls(array_moves.slice_of(x.values, axis, *map(integer, (start, stop, step))))

    def concat(self, parts: Sequence[Balls], axis: int) -> Balls:
        return Balls(array_moves.concat_of([part.values for part in parts], axis))

    def pad(self, x: Balls, axis: int, low: Any, high: Any, value: Any) -> Balls:
        return Balls(array_moves.pad_of(x.values, axis, integer(low), integer(high), Balls.of(value).values.reshape(-1)[0]))

    def reverse(self, x: Balls, axes: Sequence[int]) -> Balls:
        return Balls(array_moves.reverse_of(x.values, axes))

    def repeat(self, x: Balls, axis: int, size: Any) -> Balls:
        return Balls(array_moves.repeat_of(x.values, axis, integer(size)))

    def gather(self, x: Balls, index: Balls, axis: int) -> Balls:
        whole = np.array(integers(index), dtype=np.int64).reshape(index.shape)
        return Balls(array_moves.gather_of(x.values, whole, axis))

    def cumsum(self, x: Balls, axis: int) -> Balls:
        return Balls(array_moves.running_of(x.values, axis, lambda a, b: _ADD(Balls(a), Balls(b)).values))

    def lower(self, x: Balls) -> Balls:
        return self.where(Balls(array_moves.triangle_of(x.values)), x, Balls(fmpq(0)))

    def index_of(self, x: Balls, axes: Sequence[int], greatest: bool) -> Balls:
        order = elements.index_of_greatest if greatest else elements.index_of_least
        return Balls(array_moves.rows_to_one(x.values, positions(axes, x.values.ndim), order))

    def conv(self, x: Balls, weight: Balls, stride: Any, padding: Any, dilation: Any, groups: Any) -> Balls:
        def add(values: Any) -> Any:
            return self.sum(Balls(values), (-1,)).values[..., 0]

        def multiply(a: Any, b: Any) -> Any:
            return _MUL(Balls(a), Balls(b)).values

        return Balls(array_moves.conv_of(x.values, weight.values, (stride, padding, dilation, groups), multiply, add))


class MatrixMath(ArbMath):
    """The same, without the promotion of vectors by `matmul`: a proof is one about matrices (see `judge.shape_conditions`)."""

    def matmul(self, a: Balls, b: Balls) -> Balls:
        if a.values.ndim < 2 or b.values.ndim < 2:
            raise NoMatrix("an operand of a matmul is no matrix")
        return super().matmul(a, b)


class NoMatrix(Exception):
    """A vector as an operand of a matmul, where a rule is judged."""


def positions(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """The axes that a tensor of this rank has, from the left and without repetition."""
    return tuple(sorted({axis % rank for axis in axes if -rank <= axis < rank})) if rank else ()


def _reduce(combine: Callable[[Balls, Balls], Balls], x: Balls, axes: Sequence[int], neutral: Balls | None = None) -> Balls:
    values = x.values
    for axis in positions(axes, values.ndim):
        count = values.shape[axis]
        if count == 0:
            if neutral is None:
                raise OutOfBounds("an extremum of no elements")
            values = np.full((*values.shape[:axis], 1, *values.shape[axis + 1 :]), neutral.values[()], dtype=object)
            continue
        parts = [np.take(values, [i], axis=axis) for i in range(count)]
        total = Balls(parts[0])
        for part in parts[1:]:
            total = combine(total, Balls(part))
        values = total.values
    return Balls(values)


MATH = ArbMath()
OF_MATRICES = MatrixMath()


def evaluate(
    expression: Expr,
    inputs: Mapping[str, Any],
    axes: Mapping[str, tuple[int, ...]] | None = None,
    bits: int = DEFAULT_PRECISION,
    math: ArbMath = MATH,
) -> Balls:
    """The value of a side of a rule: `inputs` by the captures' names, `axes` says which axes each axis variable stands for;
    `bits` is the precision of balls (0: the one in force).

    Raises Unsupported for an operation without a formula, and ShapeMismatch or ValueError where shapes do not fit.
    """
    known = dict(axes or {})
    tensors = {name: Balls.of(value) for name, value in inputs.items()}
    memo: dict[int, Balls] = {}

    def value(node: Expr) -> Balls:
        if id(node) not in memo:
            memo[id(node)] = compute(node)
        return memo[id(node)]

    def order_of(order: Expr) -> list[int]:
        if isinstance(order, Apply):
            first, second = (order_of(part) for part in order.operands)
            if len(first) != len(second) or not set(second) <= set(range(len(first))):
                raise ShapeMismatch("orders of different length")
            return [first[place] for place in second]
        return integers(value(order))

    def compute(node: Expr) -> Balls:
        match node:
            case Capture(name):
                return tensors[name]
            case Literal(number):
                return Balls(MINUS_INFINITY if number == -inf else element(number))
            case Size(operand, over):
                return math.size(value(operand), resolve(over, known))
            case Apply(operation, operands):
                place = dict(node.attributes).get("unsqueeze", dict(node.attributes).get("squeeze"))
                if node.name == "reshape" and isinstance(place, int) and len(node.attributes) == 1:
                    return Balls(array_moves.resize_of(value(operands[0]).values, node.attributes[0][0], place))
                settings = dict(node.attributes)
                if isinstance(settings.get("shape"), Capture):
                    kept = resolve(settings["axes"], known)
                    return Balls(array_moves.reshape_of(value(operands[0]).values, kept, integers(value(settings["shape"]))))
                if isinstance(settings.get("perm"), Capture | Apply):
                    return Balls(array_moves.permute_of(value(operands[0]).values, order_of(settings["perm"])))
                attributes = {k: value(v) if isinstance(v, Expr) else v for k, v in resolve_attributes(node, known).items()}
                return apply(math, operation, [value(x) for x in operands], attributes)
        raise TypeError(f"no expression: {node!r}")

    with precision(bits) if bits else contextlib.nullcontext():
        return _numbers(value(expression))


def _numbers(x: Balls) -> Balls:
    """The tensor with -∞, which is no real number, as undefined."""
    return Balls(_NUMBER(x.values)) if MINUS_INFINITY in x.values.reshape(-1).tolist() else x


_NUMBER = np.frompyfunc(lambda x: UNDEFINED if x is MINUS_INFINITY else x, 1, 1)


def apply(backend: Any, operation: type[NumOp], operands: Sequence[Any], attributes: dict[str, Any]) -> Balls:
    """The operation's own formula; the forms that only change a number's format are the identity over the reals."""
    real = operation.FACTS.real
    if real is None:
        raise Unsupported(f"{operation.name} has no formula over the reals")
    value: Balls = real(backend, *operands, **attributes)
    return value


def resolve(axes: Any, known: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(place for axis in axes for place in (known[axis] if isinstance(axis, str) else (axis,)))


def resolve_attributes(node: Apply, known: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """The attributes as `real` takes them: axis variables replaced by axes."""
    attributes = dict(node.attributes)
    for key, value in attributes.items():
        if key == "axes":
            attributes[key] = resolve(value, known)
        elif key == "axis" and isinstance(value, str):
            places = known[value]
            if len(places) != 1:
                raise ShapeMismatch(f"{value} is more than one axis")
            attributes[key] = places[0]
        elif isinstance(value, DTypeOf):
            # any format will do where the rule names none
            attributes[key] = "f32" if key == "format" else None
    return attributes


__all__ = [
    "MATH", "UNDECIDED", "UNDEFINED", "ArbMath", "Balls", "Mark", "ShapeMismatch", "Undecided", "Unsupported",
    "apply", "element", "evaluate", "exact", "positions", "precision", "surely_different",
]  # fmt: skip
