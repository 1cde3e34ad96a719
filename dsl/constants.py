"""Irrational numbers that a rule names: exact where rules are judged, the nearest float64 everywhere else."""

from __future__ import annotations

import math
from fractions import Fraction


class Constant(float):
    """factor · π. As a float it is the nearest one; two are equal where they are exactly, and none equals a rational number."""

    __slots__ = ("factor",)
    factor: Fraction

    def __new__(cls, factor: Fraction) -> Constant:
        # the product in integers: 60 digits of π, rounded once
        made = super().__new__(cls, float(factor * _PI))
        made.factor = factor
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and self.factor == other.factor

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(("pi", self.factor))

    def __neg__(self) -> Constant:
        return Constant(-self.factor)

    def __abs__(self) -> Constant:
        return Constant(abs(self.factor))

    def __repr__(self) -> str:
        return f"Constant({self.factor})"

    def __reduce__(self) -> tuple[type[Constant], tuple[Fraction]]:
        return Constant, (self.factor,)


_PI = Fraction("3.141592653589793238462643383279502884197169399375105820974944592307816406286")
PI = Constant(Fraction(1))
assert float(PI) == math.pi

Number = Fraction | float


def folded(symbol: str, x: Number, y: Number) -> Number | None:
    """x symbol y where it is a rational number, a multiple of π or not finite; None where it is none. Raises ZeroDivisionError."""
    if symbol == "/" and y == 0:
        raise ZeroDivisionError
    if not isinstance(x, Constant) and not isinstance(y, Constant):
        return {"+": lambda: x + y, "-": lambda: x - y, "*": lambda: x * y, "/": lambda: x / y}[symbol]()
    a, b = (v.factor if isinstance(v, Constant) else v for v in (x, y))
    if not isinstance(a, Fraction) or not isinstance(b, Fraction):
        return None
    both = isinstance(x, Constant) and isinstance(y, Constant)
    match symbol:
        case "+" | "-" if both:
            return _multiple(a + b if symbol == "+" else a - b)
        case "/" if both:
            return a / b
        case "*" if not both:
            return _multiple(a * b)
        case "/" if isinstance(x, Constant):
            return _multiple(a / b)
    return None


def _multiple(factor: Fraction) -> Number:
    return Constant(factor) if factor else Fraction(0)
