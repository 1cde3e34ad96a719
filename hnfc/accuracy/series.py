"""Laurent series of terms in one variable, at 0 and at ±∞, with exact coefficients.

With t = x, 1/x or -1/x a series is Σ c_k·t^k from k = v on, known for a number of k. A coefficient is a rational number or a Laurent
polynomial in subterms that are free of x; at ∞ log(x) may occur in it too, being slower than any power. Functions are expanded by the
differential equations they obey (Knuth, TAOCP 2, section 4.7).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from flint import fmpq

from hnfc.accuracy.arithmetic import Polynomial, TermSimplifier
from hnfc.accuracy.terms import Term
from hnfc.dsl.polynomials import added

Coefficient: TypeAlias = Any
"""An fmpq, or a Polynomial with more than a constant."""

ZERO, ONE = fmpq(0), fmpq(1)


class NoSeries(Exception):
    """There is no Laurent series, or none that is found."""


@dataclass(frozen=True)
class Series:
    """Σ c[i]·t^(v + i) + O(t^(v + len(c))); c[0] is not 0."""

    v: int
    c: tuple[Coefficient, ...]

    @property
    def end(self) -> int:
        return self.v + len(self.c)


@dataclass(frozen=True)
class ExpansionPoint:
    """Point at which a term is expanded: `at` is 0, 1 (+∞) or -1 (-∞)."""

    variable: Term
    at: int

    def __str__(self) -> str:
        return f"{self.variable.value} = {('0', '∞', '-∞')[self.at]}"


class SeriesArithmetic:
    """Series at one place, with `order` coefficients each before any cancel."""

    def __init__(self, arithmetic: TermSimplifier, place: ExpansionPoint, order: int) -> None:
        self.arithmetic = arithmetic
        self.terms = arithmetic.terms
        self.place = place
        self.order = order

    # coefficients -----------------------------------------------------------------------------------------------------

    def times(self, a: Coefficient, b: Coefficient) -> Coefficient:
        if isinstance(a, fmpq) and isinstance(b, fmpq):
            return a * b
        product = self.arithmetic.multiplied(_polynomial(a), _polynomial(b))
        if product is None:
            raise NoSeries("coefficients grow too long")
        return plain(product)

    def inverse(self, a: Coefficient) -> Coefficient:
        if isinstance(a, fmpq):
            return 1 / a
        if len(a) == 1:
            ((m, c),) = a.items()
            return plain({tuple((n, -p) for n, p in m): 1 / c})
        (m,) = self.arithmetic._atom(self.arithmetic.term(a))
        return {tuple((n, -p) for n, p in m): Fraction(1)}

    def atom(self, op: str, a: Coefficient) -> Coefficient:
        """A function of a coefficient, as a coefficient."""
        polynomial = self.arithmetic.polynomial(self.arithmetic.make(op, self.term(a)))
        if polynomial is None:
            raise NoSeries("too long")
        return plain(polynomial)

    def term(self, a: Coefficient) -> Term:
        return self.arithmetic.term(_polynomial(a))

    # arithmetic of series -----------------------------------------------------------------------------------------------

    def monomial(self, c: Coefficient, power: int) -> Series:
        return Series(power, (c,) + (ZERO,) * (self.order - 1))

    def constant(self, c: Coefficient) -> Series:
        return self.monomial(c, 0)

    def add(self, a: Series, b: Series, sign: int = 1) -> Series:
        low, end = min(a.v, b.v), min(a.end, b.end)
        c = [ZERO] * max(end - low, 0)
        for i, x in enumerate(a.c):
            if a.v + i < end:
                c[a.v + i - low] = x
        for i, x in enumerate(b.c):
            if b.v + i < end:
                c[b.v + i - low] = plus(c[b.v + i - low], x, sign)
        return trimmed(low, c)

    def mul(self, a: Series, b: Series) -> Series:
        n = min(len(a.c), len(b.c))
        c: list[Coefficient] = [ZERO] * n
        for i, x in enumerate(a.c[:n]):
            if not is_zero(x):
                for j in range(n - i):
                    if not is_zero(b.c[j]):
                        c[i + j] = plus(c[i + j], self.times(x, b.c[j]))
        return trimmed(a.v + b.v, c)

    def scale(self, a: Series, factor: Coefficient) -> Series:
        return Series(a.v, tuple(self.times(x, factor) for x in a.c))

    def reciprocal(self, a: Series) -> Series:
        first = self.inverse(a.c[0])
        c = [first]
        for k in range(1, len(a.c)):
            total: Coefficient = ZERO
            for i in range(1, k + 1):
                if not is_zero(a.c[i]) and not is_zero(c[k - i]):
                    total = plus(total, self.times(a.c[i], c[k - i]))
            c.append(self.times(total, self.times(first, fmpq(-1))))
        return Series(-a.v, tuple(c))

    def div(self, a: Series, b: Series) -> Series:
        return self.mul(a, self.reciprocal(b))

    def split(self, a: Series) -> tuple[Coefficient, Series | None]:
        """The constant term, and the rest, whose limit is 0. Raises NoSeries at a pole."""
        if a.v < 0:
            raise NoSeries("a pole within a function")
        if a.v > 0:
            return ZERO, a
        try:
            return a.c[0], trimmed(1, list(a.c[1:]))
        except NoSeries:
            return a.c[0], None

    def derivative(self, a: Series) -> list[Coefficient]:
        """k·c_k·t^k, the derivative times t."""
        return [self.times(x, fmpq(a.v + i)) for i, x in enumerate(a.c)]

    def solved(self, start: Coefficient, h: Series, sign: int = 1) -> Series:
        """y with t·y' = sign·(t·h')·y and y(0) = start: start·exp(±h)."""
        slope = dict(enumerate(self.derivative(h), h.v))
        n = h.end
        y = [start]
        for k in range(1, n):
            total: Coefficient = ZERO
            for j in range(h.v, k + 1):
                if not is_zero(slope[j]) and not is_zero(y[k - j]):
                    total = plus(total, self.times(slope[j], y[k - j]))
            y.append(self.times(total, fmpq(sign, k)))
        return trimmed(0, y)

    def integral(self, start: Coefficient, slope: Series) -> Series:
        """start + ∫ of the series of t·y' over t."""
        if slope.v <= 0:
            raise NoSeries("a logarithm appears")
        rest = Series(slope.v, tuple(self.times(x, fmpq(1, slope.v + i)) for i, x in enumerate(slope.c)))
        if is_zero(start):
            return rest
        return Series(0, (start, *(ZERO,) * (rest.v - 1), *rest.c))

    def power(self, h: Series, p: Coefficient) -> Series:
        """(1 + h)^p."""
        n = h.end
        terms = dict(enumerate(h.c, h.v))
        y: list[Coefficient] = [ONE]
        for k in range(1, n):
            total: Coefficient = ZERO
            for j in range(h.v, k + 1):
                if not is_zero(terms[j]) and not is_zero(y[k - j]):
                    factor = plus(self.times(p, fmpq(j)), fmpq(j - k))
                    total = plus(total, self.times(self.times(terms[j], factor), y[k - j]))
            y.append(self.times(total, fmpq(1, k)))
        return trimmed(0, y)

    def relative(self, a: Series) -> Series | None:
        """h with a = c·t^v·(1 + h)."""
        first = self.inverse(a.c[0])
        try:
            return trimmed(1, [self.times(x, first) for x in a.c[1:]])
        except NoSeries:
            return None


def trimmed(v: int, c: list[Coefficient]) -> Series:
    """Without leading zeros. Raises NoSeries where nothing is left."""
    start = next((i for i, x in enumerate(c) if not is_zero(x)), None)
    if start is None:
        raise NoSeries("nothing is left to this order")
    return Series(v + start, tuple(c[start:]))


def is_zero(a: Coefficient) -> bool:
    return bool(a == 0) if isinstance(a, fmpq) else not a


def plus(a: Coefficient, b: Coefficient, sign: int = 1) -> Coefficient:
    if isinstance(a, fmpq) and isinstance(b, fmpq):
        return a + b if sign > 0 else a - b
    total = added(_polynomial(a), _polynomial(b), sign)
    if len(total) > 40:
        raise NoSeries("coefficients grow too long")
    return plain(total)


def _polynomial(a: Coefficient) -> Polynomial:
    if isinstance(a, fmpq):
        return {(): Fraction(int(a.p), int(a.q))} if a != 0 else {}
    return a  # type: ignore[no-any-return]


def plain(a: Polynomial) -> Coefficient:
    if not a:
        return ZERO
    if len(a) == 1 and () in a:
        return fmpq(a[()].numerator, a[()].denominator)
    return a
