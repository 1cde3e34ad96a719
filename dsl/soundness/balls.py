"""Ball arithmetic: the `Math` whose results carry a proof of their accuracy, and the value of an expression on given inputs.

An element is an exact rational (`fmpq`), a ball (`arb`) that surely holds the true value, a truth value, or one of two
marks: UNDEFINED (the real function surely has no value there) and UNDECIDED (the precision at hand cannot tell).
Two elements differ only where their balls are disjoint, so a difference found here is certain.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb, ctx, fmpq

from hnfc.dialects.num.base import NumOp
from hnfc.dsl.core import Apply, Axes, Capture, DTypeOf, Expr, Literal, Size

DEFAULT_PRECISION = 128
EXACT_BITS = 1200
"""Rationals with more bits than this become balls."""


class Mark(Enum):
    UNDEFINED = "undefined"
    UNDECIDED = "undecided"

    def __repr__(self) -> str:
        return self.value


UNDEFINED, UNDECIDED = Mark.UNDEFINED, Mark.UNDECIDED


class Undecided(Exception):
    """A value was asked for that the precision at hand does not determine."""


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


# Elements -----------------------------------------------------------------------------------------------------------


def element(value: Any) -> Any:
    """The element for a Python or NumPy number; ±inf and nan are no real numbers, hence UNDEFINED."""
    if isinstance(value, Mark | bool | fmpq | arb):
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return fmpq(int(value))
    if isinstance(value, Fraction):
        return fmpq(value.numerator, value.denominator)
    number = float(value)
    if not np.isfinite(number):
        return UNDEFINED
    numerator, denominator = number.as_integer_ratio()
    return fmpq(numerator, denominator)


def _number(x: Any) -> Any:
    return fmpq(int(x)) if isinstance(x, bool) else x


def _tidy(x: Any) -> Any:
    """Too long rationals become balls; balls without a finite bound are UNDECIDED; exact short balls become rationals."""
    if isinstance(x, fmpq):
        if x.p.bit_length() + x.q.bit_length() > EXACT_BITS:
            return arb(x)
        return x
    if isinstance(x, arb):
        if not x.is_finite():
            return UNDECIDED
        if x.is_exact() and abs(x) < 2**64 and (x.is_zero() or abs(x) > fmpq(1, 2**64)):
            return x.fmpq()
    return x


def _lift(function: Callable[..., Any]) -> Callable[..., Any]:
    """Strict in both marks: UNDEFINED first, since no precision makes such a value defined."""

    def lifted(*xs: Any) -> Any:
        if UNDEFINED in xs:
            return UNDEFINED
        if UNDECIDED in xs:
            return UNDECIDED
        return _tidy(function(*map(_number, xs)))

    return lifted


def _sign(x: Any) -> int | None:
    """-1, 0 or 1 where it is sure."""
    if isinstance(x, fmpq):
        return int(x.p > 0) - int(x.p < 0)
    if x > 0:
        return 1
    if x < 0:
        return -1
    return 0 if x.is_zero() else None


def _when(sign: int | None, wanted: tuple[int, ...], value: Callable[[], Any]) -> Any:
    """value() if the sign is one of the wanted ones."""
    if sign is None:
        return UNDECIDED
    return value() if sign in wanted else UNDEFINED


def _div(x: Any, y: Any) -> Any:
    return _when(_sign(y), (-1, 1), lambda: x / y)


def _integer(x: Any) -> int | bool | None:
    """The integer that x is; False if it surely is none; None if unsure."""
    if isinstance(x, fmpq):
        return int(x.p) if x.q == 1 else False
    return None if x.contains_integer() else False


def _pow(x: Any, y: Any) -> Any:
    """x^y: any y for x > 0; y ≥ 0 for x = 0 (0^0 = 1, as in IEEE and for polynomials); integer y for x < 0."""
    sign, power = _sign(x), _integer(y)
    if power is None and isinstance(y, arb) and sign != 1:
        return UNDECIDED
    if power is not None and power is not False:
        n = int(power)
        if n >= 0 or sign in (-1, 1):
            if isinstance(x, fmpq) and abs(n) * (x.p.bit_length() + x.q.bit_length()) < 4 * EXACT_BITS:
                return x**n
            return arb(x) ** n if abs(n) < 2**62 else UNDECIDED
        return UNDECIDED if sign is None else UNDEFINED
    if sign == 1:
        return (arb(x).log() * y).exp()
    if sign == 0:
        return _when(_sign(y), (1,), lambda: fmpq(0))
    return UNDEFINED if sign == -1 else UNDECIDED


def _log(x: Any) -> Any:
    return _when(_sign(x), (1,), lambda: arb(x).log())


def _sqrt(x: Any) -> Any:
    return _when(_sign(x), (0, 1), lambda: arb(x).sqrt())


def _arc(name: str) -> Callable[[Any], Any]:
    def value(x: Any) -> Any:
        sign = _sign(1 - x * x)
        if sign is None and (x == 1 or x == -1):
            sign = 0
        return _when(sign, (0, 1), lambda: getattr(arb(x), name)())

    return value


def _atan2(y: Any, x: Any) -> Any:
    sx, sy = _sign(x), _sign(y)
    if sx == 0 and sy == 0:
        return UNDEFINED
    if sy is None and sx != 1:
        return UNDECIDED
    return arb.atan2(arb(y), arb(x))


def _lgamma(x: Any) -> Any:
    """log |Γ(x)|, which has no value at 0, -1, -2, …"""
    sign = _sign(x)
    if sign == 1:
        return arb(x).lgamma()
    pole = _integer(x)
    if sign is None or pole is None:
        return UNDECIDED
    if pole is not False:
        return UNDEFINED
    # reflection: Γ(x)Γ(1-x) = π / sin πx
    return (arb.pi() / abs(arb(x).sin_pi())).log() - (1 - arb(x)).lgamma()


def _floor(x: Any) -> Any:
    if isinstance(x, fmpq):
        return fmpq(x.floor())
    below = x.floor().unique_fmpz()
    return UNDECIDED if below is None else fmpq(below)


def _order(x: Any, y: Any) -> int | None:
    """The sign of x - y where it is sure."""
    if isinstance(x, fmpq) and isinstance(y, fmpq):
        return int(x > y) - int(x < y)
    x, y = arb(x), arb(y)
    return 1 if x > y else -1 if x < y else _sign(x - y)


_PREDICATES: dict[str, tuple[int, ...]] = {"eq": (0,), "ne": (-1, 1), "lt": (-1,), "le": (-1, 0), "gt": (1,), "ge": (0, 1)}


def _compare(predicate: str) -> Callable[[Any, Any], Any]:
    wanted = _PREDICATES[predicate]

    def holds(x: Any, y: Any) -> Any:
        order = _order(x, y)
        if order is not None:
            return order in wanted
        # overlapping balls may still settle ≤ or ≥ where they touch in a point
        x, y = arb(x), arb(y)
        if predicate in ("le", "gt") and x <= y:
            return predicate == "le"
        if predicate in ("ge", "lt") and x >= y:
            return predicate == "ge"
        return UNDECIDED

    return holds


def _maximum(x: Any, y: Any) -> Any:
    order = _order(x, y)
    if order is None:
        return arb(x).max(arb(y))
    return x if order >= 0 else y


def _minimum(x: Any, y: Any) -> Any:
    return -_maximum(-x, -y)


def _truth(p: Any) -> Any:
    """p as a condition: a number is true where it is not 0."""
    if isinstance(p, bool | Mark):
        return p
    sign = _sign(p)
    return UNDECIDED if sign is None else sign != 0


def _and(p: Any, q: Any) -> Any:
    p, q = _truth(p), _truth(q)
    if UNDEFINED in (p, q):
        return UNDEFINED
    if p is False or q is False:
        return False
    return UNDECIDED if UNDECIDED in (p, q) else True


def _not(p: Any) -> Any:
    p = _truth(p)
    return p if isinstance(p, Mark) else not p


def _where(p: Any, x: Any, y: Any) -> Any:
    """Only the branch that is taken needs a value."""
    p = _truth(p)
    return p if isinstance(p, Mark) else x if p else y


# Tensors ------------------------------------------------------------------------------------------------------------


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
        return self.values.shape

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

    def to_float(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Midpoints as float64, nan where undefined. Raises Undecided where an element is not determined."""

        def number(x: Any) -> float:
            if x is UNDECIDED:
                raise Undecided("the precision at hand does not determine a value")
            return float("nan") if x is UNDEFINED else float(x) if isinstance(x, bool) else _float(x)

        return np.vectorize(number, otypes=[np.float64])(self.values) if self.values.size else np.zeros(self.shape)

    def __repr__(self) -> str:
        return f"Balls({self.values.tolist()!r})"


def _float(x: Any) -> float:
    try:
        return int(x.p) / int(x.q) if isinstance(x, fmpq) else float(x)
    except OverflowError:
        return float("inf") if x > 0 else float("-inf")


def _elementwise(function: Callable[..., Any], operands: int) -> Callable[..., Balls]:
    vectorized = np.frompyfunc(function, operands, 1)

    def on_tensors(*xs: Any) -> Balls:
        return Balls(vectorized(*(x.values if isinstance(x, Balls) else Balls.of(x).values for x in xs)))

    return on_tensors


_ADD = _elementwise(_lift(lambda x, y: x + y), 2)
_SUB = _elementwise(_lift(lambda x, y: x - y), 2)
_MUL = _elementwise(_lift(lambda x, y: x * y), 2)
_DIV = _elementwise(_lift(_div), 2)
_NEG = _elementwise(_lift(lambda x: -x), 1)
_COMPARE = {predicate: _elementwise(_lift(_compare(predicate)), 2) for predicate in _PREDICATES}


class ArbMath:
    """The `Math` protocol on `Balls`. Axes are integers; one that a tensor does not have is an axis of size 1."""

    exp = staticmethod(_elementwise(_lift(lambda x: arb(x).exp()), 1))
    log = staticmethod(_elementwise(_lift(_log), 1))
    sqrt = staticmethod(_elementwise(_lift(_sqrt), 1))
    pow = staticmethod(_elementwise(_lift(_pow), 2))
    sin = staticmethod(_elementwise(_lift(lambda x: arb(x).sin()), 1))
    cos = staticmethod(_elementwise(_lift(lambda x: arb(x).cos()), 1))
    atan = staticmethod(_elementwise(_lift(lambda x: arb(x).atan()), 1))
    asin = staticmethod(_elementwise(_lift(_arc("asin")), 1))
    acos = staticmethod(_elementwise(_lift(_arc("acos")), 1))
    atan2 = staticmethod(_elementwise(_lift(_atan2), 2))
    erf = staticmethod(_elementwise(_lift(lambda x: arb(x).erf()), 1))
    lgamma = staticmethod(_elementwise(_lift(_lgamma), 1))
    i0 = staticmethod(_elementwise(_lift(lambda x: arb(x).bessel_i(0)), 1))
    floor = staticmethod(_elementwise(_lift(_floor), 1))
    abs = staticmethod(_elementwise(_lift(abs), 1))
    maximum = staticmethod(_elementwise(_lift(_maximum), 2))
    minimum = staticmethod(_elementwise(_lift(_minimum), 2))
    logical_and = staticmethod(_elementwise(_and, 2))
    logical_not = staticmethod(_elementwise(_not, 1))
    where = staticmethod(_elementwise(_where, 3))
    true = Balls(True)
    pi = property(lambda self: Balls(arb.pi()))

    def const(self, value: Any) -> Balls:
        return Balls.of(value) if not isinstance(value, Fraction) else Balls(element(value))

    def compare(self, predicate: str, x: Any, y: Any) -> Balls:
        return _COMPARE[predicate](x, y)

    def logical_or(self, p: Any, q: Any) -> Balls:
        return self.logical_not(self.logical_and(self.logical_not(p), self.logical_not(q)))

    # reductions

    def sum(self, x: Balls, axes: Axes) -> Balls:
        return _reduce(_ADD, x, axes)

    def prod(self, x: Balls, axes: Axes) -> Balls:
        return _reduce(_MUL, x, axes)

    def amax(self, x: Balls, axes: Axes) -> Balls:
        return _reduce(self.maximum, x, axes)

    def amin(self, x: Balls, axes: Axes) -> Balls:
        return _reduce(self.minimum, x, axes)

    def size(self, x: Balls, axes: Axes) -> Balls:
        return Balls(fmpq(int(np.prod([x.shape[axis] for axis in positions(axes, x.values.ndim)], dtype=object))))

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
            if x.values.ndim < 2:
                raise ShapeMismatch("the last two axes of a tensor with fewer")
            return Balls(np.swapaxes(x.values, -1, -2))
        return Balls(np.transpose(x.values, perm))


class ShapeMismatch(Exception):
    """Operands of these shapes do not fit; the expression has no type."""


def positions(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """The axes that a tensor of this rank has, from the left and without repetition."""
    return tuple(sorted({axis % rank for axis in axes if -rank <= axis < rank})) if rank else ()


def _reduce(combine: Callable[[Balls, Balls], Balls], x: Balls, axes: Axes) -> Balls:
    values = x.values
    for axis in positions(axes, values.ndim):
        count = values.shape[axis]
        if count == 0:
            raise ShapeMismatch("a reduction over no elements")
        parts = [np.take(values, [i], axis=axis) for i in range(count)]
        total = Balls(parts[0])
        for part in parts[1:]:
            total = combine(total, Balls(part))
        values = total.values
    return Balls(values)


# Expressions --------------------------------------------------------------------------------------------------------


MATH = ArbMath()


def evaluate(
    expression: Expr,
    inputs: Mapping[str, Any],
    axes: Mapping[str, tuple[int, ...]] | None = None,
    bits: int = DEFAULT_PRECISION,
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

    def compute(node: Expr) -> Balls:
        match node:
            case Capture(name):
                return tensors[name]
            case Literal(number):
                return Balls(element(number))
            case Size(operand, over):
                return MATH.size(value(operand), resolve(over, known))
            case Apply(operation, operands):
                place = dict(node.attributes).get("unsqueeze", dict(node.attributes).get("squeeze"))
                if node.name == "reshape" and isinstance(place, int) and len(node.attributes) == 1:
                    return resized(value(operands[0]), node.attributes[0][0], place)
                attributes = {
                    k: value(v) if isinstance(v, Capture | Literal | Size | Apply) else v
                    for k, v in resolve_attributes(node, known).items()
                }
                return apply(MATH, operation, [value(x) for x in operands], attributes)
        raise TypeError(f"no expression: {node!r}")

    if not bits:
        return value(expression)
    with precision(bits):
        return value(expression)


def resized(x: Balls, how: str, place: int) -> Balls:
    """x with an axis of size 1 more, or less. Raises ShapeMismatch where it has no such axis."""
    if how == "unsqueeze":
        return Balls(np.expand_dims(x.values, place))
    if not -x.values.ndim <= place < x.values.ndim or x.shape[place] != 1:
        raise ShapeMismatch(f"axis {place} of {list(x.shape)} has not size 1")
    return Balls(np.squeeze(x.values, axis=place))


def apply(math: Any, operation: type[NumOp], operands: Sequence[Any], attributes: dict[str, Any]) -> Any:
    """The operation's own formula; the forms that only change a number's format are the identity over the reals."""
    real = operation.FACTS.real
    if real is None:
        raise Unsupported(f"{operation.name} has no formula over the reals")
    return real(math, *operands, **attributes)


def resolve(axes: Any, known: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(place for axis in axes for place in (known[axis] if isinstance(axis, str) else (axis,)))


def resolve_attributes(node: Apply, known: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """The attributes as `real` takes them: axis variables replaced by axes."""
    attributes = dict(node.attributes)
    for key, value in attributes.items():
        if key == "axes":
            attributes[key] = resolve(value, known)
        elif isinstance(value, DTypeOf):
            attributes[key] = None
    return attributes


def surely_different(x: Any, y: Any) -> bool:
    """Two defined elements whose balls are disjoint."""
    if isinstance(x, Mark) or isinstance(y, Mark):
        return False
    x, y = _number(x), _number(y)
    if isinstance(x, fmpq) and isinstance(y, fmpq):
        return bool(x != y)
    return not arb(x).overlaps(arb(y))


def exact(x: Any) -> Fraction | None:
    """The element as a fraction, where it is rational."""
    x = _number(x)
    return Fraction(int(x.p), int(x.q)) if isinstance(x, fmpq) else None


__all__ = [
    "MATH", "UNDECIDED", "UNDEFINED", "ArbMath", "Balls", "Mark", "ShapeMismatch", "Undecided", "Unsupported",
    "apply", "element", "evaluate", "exact", "positions", "precision", "surely_different",
]  # fmt: skip
