"""Another evaluation of rules, to replay examples with: one element at a time, on exact rationals and mpmath, with its own rounding."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np

from hnfc.dialects.num import OPERATIONS
from hnfc.dialects.num.comparison import PREDICATES
from hnfc.dialects.types import FORMATS
from hnfc.dsl.core import Apply, Capture, DTypeOf, Expr, Literal, Rule
from hnfc.dsl.ieee import IeeeExample

BITS = 300
FAR = 20000
"""Beyond it the functions are at their limits in every format, or need too many bits."""


def replayed(rule: Rule, example: IeeeExample, form: str) -> tuple[Any, Any]:
    """Both sides of a pointwise rule on the inputs of the example."""
    inputs = {name: tensor.to_numpy().item() for name, tensor in example.inputs}
    types = {name: tensor.element for name, tensor in example.inputs}
    scalars = Scalars(inputs, types, form)
    wanted = scalars.type_of(rule.pattern) or scalars.type_of(rule.replacement) or form
    return scalars.value(rule.pattern, wanted), scalars.value(rule.replacement, wanted)


def nearest(exact: Fraction, form: str) -> float:
    """The number of the format next to `exact`, ties to even, from the definition."""
    unit, tiny = Fraction(FORMATS[form].unit_roundoff), Fraction(FORMATS[form].tiny)
    if exact == 0:
        return 0.0
    magnitude = abs(exact)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > magnitude
    grid = max(Fraction(2) ** exponent * unit * 2, tiny)
    # Python rounds halves to even
    found = round(magnitude / grid) * grid
    unusual = form.endswith(("FN", "UZ"))
    result = float(found) if found <= Fraction(FORMATS[form].largest) else math.nan if unusual else math.inf
    return result if exact > 0 or (result == 0 and form.endswith("UZ")) else -result


def rounded(x: Any, form: str) -> Any:
    if isinstance(x, Fraction):
        return nearest(x, form)
    if not math.isfinite(x):
        return math.nan if form.endswith(("FN", "UZ")) else float(x)
    return (0.0 if form.endswith("UZ") else float(x)) if x == 0 else nearest(Fraction(x), form)


class Scalars:
    """Expressions on scalars of the given types."""

    def __init__(self, inputs: dict[str, Any], types: dict[str, str], form: str) -> None:
        self.inputs, self.types, self.form = inputs, types, form

    def type_of(self, node: Expr) -> str | None:
        if isinstance(node, Capture):
            return self.types[node.name]
        if not isinstance(node, Apply):
            return None
        if node.name == "cast":
            return self.named(dict(node.attributes)["to"])
        if node.name in ("compare", "isnan", "isinf", "isfinite") or node.name.startswith("logical_"):
            return "i1"
        return self.common(node.operands[1:] if node.name == "where" else node.operands)

    def named(self, element: str | DTypeOf) -> str:
        return self.types[element.capture] if isinstance(element, DTypeOf) else element

    def common(self, nodes: tuple[Expr, ...]) -> str | None:
        return next((found for x in nodes if (found := self.type_of(x)) is not None), None)

    def value(self, node: Expr, wanted: str) -> Any:
        element = self.type_of(node) or wanted
        if isinstance(node, Capture):
            return self.inputs[node.name]
        if isinstance(node, Literal):
            return rounded(node.value, element) if element in FORMATS else node.value
        assert isinstance(node, Apply)
        if node.name == "where":
            p, x, y = node.operands
            return self.value(x, element) if self.value(p, "i1") else self.value(y, element)
        inner = self.common(node.operands) or self.form if element == "i1" or node.name == "cast" else element
        operands = [self.value(x, inner) for x in node.operands]
        attributes = dict(node.attributes)
        if node.name == "cast":
            (x,) = operands
            return rounded(saturated(x, element), element) if element in FORMATS else x
        if node.name == "round_to":
            to = self.named(attributes["format"])
            return rounded(saturated(operands[0], to), to)
        if node.name == "compare":
            return bool(PREDICATES[attributes["predicate"]](*operands))
        return result(node.name, operands, element, attributes)


def saturated(x: Any, form: str) -> Any:
    return max(-448.0, min(448.0, x)) if form == "f8E4M3FN" and not math.isnan(x) else x


def result(name: str, operands: list[Any], form: str, attributes: dict[str, Any]) -> Any:
    if form.startswith("si"):
        bits = int(form[2:])
        return (int(EXACTLY[name](*operands)) + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)
    if name in EXACTLY and all(map(math.isfinite, operands)):
        return rounded(EXACTLY[name](*operands), form)
    if name in FUNCTIONS and all(math.isfinite(x) and abs(x) < FAR for x in operands):
        exact = by_mpmath(FUNCTIONS[name], operands)
        if exact is not None:
            return nearest(exact, form)
    # at 0, infinities and NaN, and where a function is at its limit: NumPy in float64
    with np.errstate(all="ignore"):
        found = OPERATIONS[name].FACTS.evaluate(*map(np.float64, operands), **attributes)  # type: ignore[misc]
    return bool(found) if form == "i1" else rounded(float(found), form)


def by_mpmath(function: Callable[..., Any], operands: list[Any]) -> Fraction | None:
    """The value to many bits, if it is a number that is not 0."""
    with mpmath.workprec(BITS):
        try:
            found = function(*map(mpmath.mpf, operands))
        except (ValueError, ZeroDivisionError):
            return None
    if not isinstance(found, mpmath.mpf) or not mpmath.isfinite(found) or found == 0:
        return None
    sign, mantissa, exponent, _ = found._mpf_
    return (-1) ** sign * int(mantissa) * Fraction(2) ** exponent


def unless_zero(exact: Fraction, zero: float) -> Any:
    """The exact value, or the zero with the sign that IEEE 754 gives it."""
    return exact if exact else zero


def quotient(x: float, y: float) -> Any:
    if y == 0:
        return math.nan if x == 0 else math.copysign(math.inf, x) * math.copysign(1, y)
    return unless_zero(Fraction(x) / Fraction(y), math.copysign(0, x) * math.copysign(1, y))


def root(x: float) -> Any:
    if x <= 0:
        return x if x == 0 else math.nan
    exact = Fraction(x)
    found = Fraction(math.isqrt((exact.numerator << 3000) // exact.denominator), 1 << 1500)
    # a last digit more tells a value that is not exact from a tie
    return found if found * found == exact else found + Fraction(1, 1 << 1501)


def greater(x: float, y: float) -> float:
    return math.copysign(0, max(math.copysign(1, x), math.copysign(1, y))) if x == y == 0 else max(x, y)


def product(x: float, y: float) -> Any:
    return unless_zero(Fraction(x) * Fraction(y), math.copysign(0, x) * math.copysign(1, y))


EXACTLY: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: unless_zero(Fraction(x) + Fraction(y), x + y),
    "sub": lambda x, y: unless_zero(Fraction(x) - Fraction(y), x - y),
    "mul": product,
    "square": lambda x: product(x, x),
    "div": quotient,
    "reciprocal": lambda x: quotient(1.0, x),
    "fma": lambda x, y, z: unless_zero(Fraction(x) * Fraction(y) + Fraction(z), product(x, y) + z if z == 0 else 0.0),
    "sqrt": root,
    "neg": lambda x: -x,
    "abs": abs,
    "maximum": greater,
    "minimum": lambda x, y: -greater(-x, -y),
    "relu": lambda x: greater(x, 0.0),
    "floor": lambda x: math.copysign(math.floor(x), x) if x >= 0 else float(math.floor(x)),
}


def sigmoid(x: Any) -> Any:
    return 1 / (1 + mpmath.exp(-x))


def softplus(x: Any) -> Any:
    return mpmath.log1p(mpmath.exp(x))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(mpmath, name) for name in ("exp", "log", "log1p", "expm1", "sin", "cos", "tanh", "sinh", "cosh", "erf", "hypot")},
    **{name: getattr(mpmath, name) for name in ("asinh", "acosh", "atanh")},
    "erfc": lambda x: mpmath.erfc(x) if abs(x) < 100 else None,
    "i0e": lambda x: mpmath.exp(-abs(x)) * mpmath.besseli(0, x) if abs(x) < 1000 else None,
    "i0": lambda x: mpmath.besseli(0, x) if abs(x) < 1000 else None,
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
    "pow": mpmath.power,
    "sigmoid": sigmoid,
    "log_sigmoid": lambda x: -softplus(-x),
    "softplus": softplus,
    "silu": lambda x: x * sigmoid(x),
    "mish": lambda x: x * mpmath.tanh(softplus(x)),
    "logaddexp": lambda x, y: mpmath.log(mpmath.exp(x) + mpmath.exp(y)),
    "xlogy": lambda x, y: x * mpmath.log(y),
}
