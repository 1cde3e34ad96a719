"""Laurent series of terms in one variable, at 0 and at ±∞, with exact coefficients.

With t = x, 1/x or -1/x a series is Σ c_k·t^k from k = v on, known for a number of k. A coefficient is a rational number or a Laurent
polynomial in subterms that are free of x; at ∞ log(x) may occur in it too, being slower than any power. Functions are expanded by the
differential equations they obey (Knuth, TAOCP 2, section 4.7).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from flint import fmpq

from hnfc.accuracy.arithmetic import Arithmetic, Polynomial
from hnfc.accuracy.terms import Term, subterms

Coefficient: TypeAlias = Any
"""An fmpq, or a Polynomial with more than a constant."""

_ZERO, _ONE = fmpq(0), fmpq(1)


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
class Place:
    """Where a term is expanded: `at` is 0, 1 (+∞) or -1 (-∞)."""

    variable: Term
    at: int

    def __str__(self) -> str:
        return f"{self.variable.value} = {('0', '∞', '-∞')[self.at]}"


class Expander:
    """Series of terms at one place, with `order` coefficients each before any cancel."""

    def __init__(self, arithmetic: Arithmetic, place: Place, order: int) -> None:
        self.arithmetic = arithmetic
        self.terms = arithmetic.terms
        self.place = place
        self.order = order
        self._known: dict[Term, Series] = {}

    def series(self, term: Term) -> Series:
        """Raises NoSeries."""
        found = self._known.get(term)
        if found is None:
            found = self._known[term] = self._expand(term)
        return found

    def _expand(self, term: Term) -> Series:
        x = self.place.variable
        if term is x:
            return self._monomial(_ONE if self.place.at >= 0 else -_ONE, 1 if self.place.at == 0 else -1)
        if term.op == "const":
            if term.value == 0:
                raise NoSeries("zero")
            return self._monomial(fmpq(term.value.numerator, term.value.denominator), 0)
        if x not in set(subterms(term)):
            polynomial = self.arithmetic.polynomial(term)
            if polynomial is None:
                raise NoSeries("too long")
            return self._monomial(_plain(polynomial), 0)
        rule = _FUNCTIONS.get(term.op)
        if rule is None:
            raise NoSeries(f"{term.op} has no series here")
        result = rule(self, *(self.series(a) for a in term.args))
        if not isinstance(result, Series):
            raise NoSeries("zero")
        return result

    # coefficients -----------------------------------------------------------------------------------------------------

    def times(self, a: Coefficient, b: Coefficient) -> Coefficient:
        if isinstance(a, fmpq) and isinstance(b, fmpq):
            return a * b
        product = self.arithmetic._multiplied(_polynomial(a), _polynomial(b))
        if product is None:
            raise NoSeries("coefficients grow too long")
        return _plain(product)

    def inverse(self, a: Coefficient) -> Coefficient:
        if isinstance(a, fmpq):
            return 1 / a
        if len(a) == 1:
            ((m, c),) = a.items()
            return _plain({tuple((n, -p) for n, p in m): 1 / c})
        (m,) = self.arithmetic._atom(self.arithmetic.term(a))
        return {tuple((n, -p) for n, p in m): Fraction(1)}

    def atom(self, op: str, a: Coefficient) -> Coefficient:
        """A function of a coefficient, as a coefficient."""
        polynomial = self.arithmetic.polynomial(self.arithmetic.make(op, self.term(a)))
        if polynomial is None:
            raise NoSeries("too long")
        return _plain(polynomial)

    def term(self, a: Coefficient) -> Term:
        return self.arithmetic.term(_polynomial(a))

    # arithmetic of series -----------------------------------------------------------------------------------------------

    def _monomial(self, c: Coefficient, power: int) -> Series:
        return Series(power, (c,) + (_ZERO,) * (self.order - 1))

    def constant(self, c: Coefficient) -> Series:
        return self._monomial(c, 0)

    def add(self, a: Series, b: Series, sign: int = 1) -> Series:
        low, end = min(a.v, b.v), min(a.end, b.end)
        c = [_ZERO] * max(end - low, 0)
        for i, x in enumerate(a.c):
            if a.v + i < end:
                c[a.v + i - low] = x
        for i, x in enumerate(b.c):
            if b.v + i < end:
                c[b.v + i - low] = plus(c[b.v + i - low], x, sign)
        return trimmed(low, c)

    def mul(self, a: Series, b: Series) -> Series:
        n = min(len(a.c), len(b.c))
        c: list[Coefficient] = [_ZERO] * n
        for i, x in enumerate(a.c[:n]):
            if not _is_zero(x):
                for j in range(n - i):
                    if not _is_zero(b.c[j]):
                        c[i + j] = plus(c[i + j], self.times(x, b.c[j]))
        return trimmed(a.v + b.v, c)

    def scale(self, a: Series, factor: Coefficient) -> Series:
        return Series(a.v, tuple(self.times(x, factor) for x in a.c))

    def reciprocal(self, a: Series) -> Series:
        first = self.inverse(a.c[0])
        c = [first]
        for k in range(1, len(a.c)):
            total: Coefficient = _ZERO
            for i in range(1, k + 1):
                if not _is_zero(a.c[i]) and not _is_zero(c[k - i]):
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
            return _ZERO, a
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
            total: Coefficient = _ZERO
            for j in range(h.v, k + 1):
                if not _is_zero(slope[j]) and not _is_zero(y[k - j]):
                    total = plus(total, self.times(slope[j], y[k - j]))
            y.append(self.times(total, fmpq(sign, k)))
        return trimmed(0, y)

    def integral(self, start: Coefficient, slope: Series) -> Series:
        """start + ∫ of the series of t·y' over t."""
        if slope.v <= 0:
            raise NoSeries("a logarithm appears")
        rest = Series(slope.v, tuple(self.times(x, fmpq(1, slope.v + i)) for i, x in enumerate(slope.c)))
        if _is_zero(start):
            return rest
        return Series(0, (start, *(_ZERO,) * (rest.v - 1), *rest.c))

    def power(self, h: Series, p: Coefficient) -> Series:
        """(1 + h)^p."""
        n = h.end
        terms = dict(enumerate(h.c, h.v))
        y: list[Coefficient] = [_ONE]
        for k in range(1, n):
            total: Coefficient = _ZERO
            for j in range(h.v, k + 1):
                if not _is_zero(terms[j]) and not _is_zero(y[k - j]):
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
    start = next((i for i, x in enumerate(c) if not _is_zero(x)), None)
    if start is None:
        raise NoSeries("nothing is left to this order")
    return Series(v + start, tuple(c[start:]))


def _is_zero(a: Coefficient) -> bool:
    return bool(a == 0) if isinstance(a, fmpq) else not a


def plus(a: Coefficient, b: Coefficient, sign: int = 1) -> Coefficient:
    if isinstance(a, fmpq) and isinstance(b, fmpq):
        return a + b if sign > 0 else a - b
    total = dict(_polynomial(a))
    for m, c in _polynomial(b).items():
        value = total.get(m, Fraction(0)) + sign * c
        if value:
            total[m] = value
        else:
            total.pop(m, None)
    if len(total) > 40:
        raise NoSeries("coefficients grow too long")
    return _plain(total)


def _polynomial(a: Coefficient) -> Polynomial:
    if isinstance(a, fmpq):
        return {(): Fraction(int(a.p), int(a.q))} if a != 0 else {}
    return a  # type: ignore[no-any-return]


def _plain(a: Polynomial) -> Coefficient:
    if not a:
        return _ZERO
    if len(a) == 1 and () in a:
        return fmpq(a[()].numerator, a[()].denominator)
    return a


# functions ---------------------------------------------------------------------------------------------------------------


def _exp(e: Expander, a: Series) -> Series:
    c, h = e.split(a)
    start = e.atom("exp", c)
    return e.constant(start) if h is None else e.solved(start, h)


def _log(e: Expander, a: Series) -> Series:
    c = a.c[0]
    if isinstance(c, fmpq) and c < 0:
        raise NoSeries("the logarithm of a negative number")
    h = e.relative(a)
    constant = e.atom("log", c)
    if a.v:
        x = e.place.variable
        size = e.terms.make("neg", x) if e.place.at < 0 else x
        logarithm = e.arithmetic.polynomial(e.terms.make("log", size))
        assert logarithm is not None
        constant = plus(constant, e.times(_plain(logarithm), fmpq(a.v if e.place.at == 0 else -a.v)))
    if h is None:
        return e.constant(constant)
    slope = e.div(Series(h.v, tuple(e.derivative(h))), e.add(e.constant(_ONE), h))
    return e.integral(constant, slope)


def _power_of(e: Expander, a: Series, p: fmpq, start: Coefficient) -> Series:
    """a^p, start being the power of the first coefficient."""
    if a.v * p != int(a.v * p):
        raise NoSeries("a fractional power")
    h = e.relative(a)
    result = e.constant(_ONE) if h is None else e.power(h, p)
    return e.scale(Series(result.v + int(a.v * p), result.c), start)


def _sqrt(e: Expander, a: Series) -> Series:
    c = a.c[0]
    if isinstance(c, fmpq) and c < 0:
        raise NoSeries("the root of a negative number")
    return _power_of(e, a, fmpq(1, 2), e.atom("sqrt", c))


def _cbrt(e: Expander, a: Series) -> Series:
    return _power_of(e, a, fmpq(1, 3), e.atom("cbrt", a.c[0]))


def _pow(e: Expander, a: Series, b: Series) -> Series:
    if b.v == 0 and isinstance(b.c[0], fmpq) and all(_is_zero(x) for x in b.c[1:]) and b.c[0].q == 1 and abs(b.c[0]) <= 8:
        n = int(b.c[0].p)
        result = a
        for _ in range(abs(n) - 1):
            result = e.mul(result, a)
        return result if n > 0 else e.reciprocal(result)
    return _exp(e, e.mul(b, _log(e, a)))


def _sin_cos(e: Expander, a: Series, sign: int) -> tuple[Series | None, Series, Coefficient]:
    """sin and cos (sign = -1) or sinh and cosh (+1) of what is left without the constant, and the constant."""
    c, h = e.split(a)
    if h is None:
        return None, e.constant(_ONE), c
    slope = dict(enumerate(e.derivative(h), h.v))
    n = h.end
    s: list[Coefficient] = [_ZERO]
    k: list[Coefficient] = [_ONE]
    for i in range(1, n):
        ds: Coefficient = _ZERO
        dk: Coefficient = _ZERO
        for j in range(h.v, i + 1):
            if not _is_zero(slope[j]):
                ds = plus(ds, e.times(slope[j], k[i - j]))
                dk = plus(dk, e.times(slope[j], s[i - j]))
        s.append(e.times(ds, fmpq(1, i)))
        k.append(e.times(dk, fmpq(sign, i)))
    return trimmed(0, s), trimmed(0, k), c


def _circular(names: tuple[str, str], sign: int) -> Callable[[Expander, Series], tuple[Series | None, Series]]:
    def both(e: Expander, a: Series) -> tuple[Series | None, Series]:
        s, k, c = _sin_cos(e, a, sign)
        if _is_zero(c):
            return s, k
        sc, kc = e.constant(e.atom(names[0], c)), e.constant(e.atom(names[1], c))
        if s is None:
            return sc, kc
        return e.add(e.mul(sc, k), e.mul(kc, s)), e.add(e.mul(kc, k), e.mul(sc, s), sign)

    return both


_TRIGONOMETRIC = _circular(("sin", "cos"), -1)
_HYPERBOLIC = _circular(("sinh", "cosh"), 1)


def _quotient_of(both: Any) -> Callable[[Expander, Series], Series | None]:
    def quotient(e: Expander, a: Series) -> Series | None:
        s, k = both(e, a)
        return None if s is None else e.div(s, k)

    return quotient


def _by_slope(name: str, slope: Callable[[Expander, Series], Series]) -> Callable[[Expander, Series], Series]:
    """A function whose derivative is algebraic: slope(a) is f'(a)."""

    def function(e: Expander, a: Series) -> Series:
        c, h = e.split(a)
        start = e.atom(name, c) if not _is_zero(c) else e.times(e.atom("atan", _ONE), fmpq(2)) if name == "acos" else _ZERO
        if h is None:
            return e.constant(start)
        return e.integral(start, e.mul(Series(h.v, tuple(e.derivative(h))), slope(e, a)))

    return function


def _one_plus_square(e: Expander, a: Series, sign: int) -> Series:
    return e.add(e.constant(_ONE), e.mul(a, a), sign)


_ATAN = _by_slope("atan", lambda e, a: e.reciprocal(_one_plus_square(e, a, 1)))


def _atan(e: Expander, a: Series) -> Series:
    """atan(a) = ±π/2 - atan(1/a) at a pole."""
    if a.v >= 0:
        return _ATAN(e, a)
    if not isinstance(a.c[0], fmpq) or (e.place.at == 0 and a.v % 2):
        raise NoSeries("the sign of a pole")
    quarter = e.times(e.atom("atan", _ONE), fmpq(2 if a.c[0] > 0 else -2))
    return e.add(e.constant(quarter), _ATAN(e, e.reciprocal(a)), -1)


def _abs(e: Expander, a: Series) -> Series:
    if not isinstance(a.c[0], fmpq) or (e.place.at == 0 and a.v % 2):
        raise NoSeries("a sign that is not known")
    return a if a.c[0] > 0 else e.scale(a, fmpq(-1))


def _log1p(e: Expander, a: Series) -> Series:
    return _log(e, e.add(e.constant(_ONE), a))


_FUNCTIONS: dict[str, Callable[..., Series | None]] = {
    "add": lambda e, a, b: e.add(a, b),
    "sub": lambda e, a, b: e.add(a, b, -1),
    "mul": lambda e, a, b: e.mul(a, b),
    "div": lambda e, a, b: e.div(a, b),
    "neg": lambda e, a: e.scale(a, fmpq(-1)),
    "fma": lambda e, a, b, c: e.add(e.mul(a, b), c),
    "exp": _exp,
    "log": _log,
    "sqrt": _sqrt,
    "cbrt": _cbrt,
    "pow": _pow,
    "expm1": lambda e, a: e.add(_exp(e, a), e.constant(_ONE), -1),
    "log1p": _log1p,
    "sin": lambda e, a: _TRIGONOMETRIC(e, a)[0],
    "cos": lambda e, a: _TRIGONOMETRIC(e, a)[1],
    "tan": _quotient_of(_TRIGONOMETRIC),
    "sinh": lambda e, a: _HYPERBOLIC(e, a)[0],
    "cosh": lambda e, a: _HYPERBOLIC(e, a)[1],
    "tanh": _quotient_of(_HYPERBOLIC),
    "atan": _atan,
    "asin": _by_slope("asin", lambda e, a: e.reciprocal(_sqrt(e, _one_plus_square(e, a, -1)))),
    "acos": _by_slope("acos", lambda e, a: e.scale(e.reciprocal(_sqrt(e, _one_plus_square(e, a, -1))), fmpq(-1))),
    "asinh": _by_slope("asinh", lambda e, a: e.reciprocal(_sqrt(e, _one_plus_square(e, a, 1)))),
    "atanh": _by_slope("atanh", lambda e, a: e.reciprocal(_one_plus_square(e, a, -1))),
    "hypot": lambda e, a, b: _sqrt(e, e.add(e.mul(a, a), e.mul(b, b))),
    "abs": _abs,
}


# series as terms ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Truncated:
    """The first `count` coefficients of a series that are not 0, as a term."""

    place: Place
    count: int
    order: int
    """The series goes on with t^order."""
    first: int
    """It begins with t^first."""
    term: Term


def truncations(e: Expander, series: Series, counts: tuple[int, ...]) -> list[Truncated]:
    """The series cut off after some of its coefficients, in Horner's form."""
    places = [i for i, x in enumerate(series.c) if not _is_zero(x)]
    found = []
    for count in counts:
        if count >= len(places):
            # nothing is known of what was left off
            if count == len(places) and len(series.c) - 1 - places[-1] >= 2:
                found.append(Truncated(e.place, count, series.end, series.v, _horner(e, series, places)))
            break
        found.append(Truncated(e.place, count, series.v + places[count], series.v, _horner(e, series, places[:count])))
    return found


def _horner(e: Expander, series: Series, places: list[int]) -> Term:
    terms = e.arithmetic.terms
    x = e.place.variable
    t = x if e.place.at == 0 else terms.make("div", terms.const(e.place.at), x)
    total = e.term(series.c[places[-1]])
    for here, after in zip(places[-2::-1], places[:0:-1], strict=True):
        total = terms.make("mul", _power_term(e, t, after - here), total)
        total = terms.make("add", e.term(series.c[here]), total)
    if series.v == 0:
        return total
    if (series.v > 0) == (e.place.at == 0):
        base, n = x, abs(series.v)
    else:
        base, n = (t, series.v) if series.v > 0 else (x, -series.v)
    if e.place.at == 0 and series.v < 0:
        return terms.make("div", total, _power_term(e, x, n))
    if e.place.at and series.v < 0:
        power = _power_term(e, x, n)
        power = power if e.place.at > 0 or n % 2 == 0 else terms.make("neg", power)
        return terms.make("mul", power, total)
    for _ in range(n):
        total = terms.make("mul", total, base)
    return total


def _power_term(e: Expander, t: Term, n: int) -> Term:
    terms = e.arithmetic.terms
    result = t
    for _ in range(n - 1):
        result = terms.make("mul", result, t)
    return result
