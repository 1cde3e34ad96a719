"""Series of terms: what each operation makes of the series of its operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flint import fmpq

from hnfc.accuracy.arithmetic import TermSimplifier
from hnfc.accuracy.series import ONE, ZERO, Coefficient, ExpansionPoint, NoSeries, Series, SeriesArithmetic, is_zero, plain, plus, trimmed
from hnfc.accuracy.terms import Term, subterms


class Expander(SeriesArithmetic):
    """Series of terms at one place."""

    def __init__(self, arithmetic: TermSimplifier, place: ExpansionPoint, order: int) -> None:
        super().__init__(arithmetic, place, order)
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
            return self.monomial(ONE if self.place.at >= 0 else -ONE, 1 if self.place.at == 0 else -1)
        if term.op == "const":
            if term.value == 0:
                raise NoSeries("zero")
            return self.monomial(fmpq(term.value.numerator, term.value.denominator), 0)
        if x not in set(subterms(term)):
            polynomial = self.arithmetic.polynomial(term)
            if polynomial is None:
                raise NoSeries("too long")
            return self.monomial(plain(polynomial), 0)
        rule = _FUNCTIONS.get(term.op)
        if rule is None:
            raise NoSeries(f"{term.op} has no series here")
        result = rule(self, *(self.series(a) for a in term.args))
        if not isinstance(result, Series):
            raise NoSeries("zero")
        return result


def _exp(e: SeriesArithmetic, a: Series) -> Series:
    c, h = e.split(a)
    start = e.atom("exp", c)
    return e.constant(start) if h is None else e.solved(start, h)


def _log(e: SeriesArithmetic, a: Series) -> Series:
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
        constant = plus(constant, e.times(plain(logarithm), fmpq(a.v if e.place.at == 0 else -a.v)))
    if h is None:
        return e.constant(constant)
    slope = e.div(Series(h.v, tuple(e.derivative(h))), e.add(e.constant(ONE), h))
    return e.integral(constant, slope)


def _power_of(e: SeriesArithmetic, a: Series, p: fmpq, start: Coefficient) -> Series:
    """a^p, start being the power of the first coefficient."""
    if a.v * p != int(a.v * p):
        raise NoSeries("a fractional power")
    h = e.relative(a)
    result = e.constant(ONE) if h is None else e.power(h, p)
    return e.scale(Series(result.v + int(a.v * p), result.c), start)


def _sqrt(e: SeriesArithmetic, a: Series) -> Series:
    c = a.c[0]
    if isinstance(c, fmpq) and c < 0:
        raise NoSeries("the root of a negative number")
    return _power_of(e, a, fmpq(1, 2), e.atom("sqrt", c))


def _cbrt(e: SeriesArithmetic, a: Series) -> Series:
    return _power_of(e, a, fmpq(1, 3), e.atom("cbrt", a.c[0]))


def _pow(e: SeriesArithmetic, a: Series, b: Series) -> Series:
    if b.v == 0 and isinstance(b.c[0], fmpq) and all(is_zero(x) for x in b.c[1:]) and b.c[0].q == 1 and abs(b.c[0]) <= 8:
        n = int(b.c[0].p)
        result = a
        for _ in range(abs(n) - 1):
            result = e.mul(result, a)
        return result if n > 0 else e.reciprocal(result)
    return _exp(e, e.mul(b, _log(e, a)))


def _sin_cos(e: SeriesArithmetic, a: Series, sign: int) -> tuple[Series | None, Series, Coefficient]:
    """sin and cos (sign = -1) or sinh and cosh (+1) of what is left without the constant, and the constant."""
    c, h = e.split(a)
    if h is None:
        return None, e.constant(ONE), c
    slope = dict(enumerate(e.derivative(h), h.v))
    n = h.end
    s: list[Coefficient] = [ZERO]
    k: list[Coefficient] = [ONE]
    for i in range(1, n):
        ds: Coefficient = ZERO
        dk: Coefficient = ZERO
        for j in range(h.v, i + 1):
            if not is_zero(slope[j]):
                ds = plus(ds, e.times(slope[j], k[i - j]))
                dk = plus(dk, e.times(slope[j], s[i - j]))
        s.append(e.times(ds, fmpq(1, i)))
        k.append(e.times(dk, fmpq(sign, i)))
    return trimmed(0, s), trimmed(0, k), c


def _circular(names: tuple[str, str], sign: int) -> Callable[[SeriesArithmetic, Series], tuple[Series | None, Series]]:
    def both(e: SeriesArithmetic, a: Series) -> tuple[Series | None, Series]:
        s, k, c = _sin_cos(e, a, sign)
        if is_zero(c):
            return s, k
        sc, kc = e.constant(e.atom(names[0], c)), e.constant(e.atom(names[1], c))
        if s is None:
            return sc, kc
        return e.add(e.mul(sc, k), e.mul(kc, s)), e.add(e.mul(kc, k), e.mul(sc, s), sign)

    return both


_TRIGONOMETRIC = _circular(("sin", "cos"), -1)
_HYPERBOLIC = _circular(("sinh", "cosh"), 1)


def _quotient_of(both: Any) -> Callable[[SeriesArithmetic, Series], Series | None]:
    def quotient(e: SeriesArithmetic, a: Series) -> Series | None:
        s, k = both(e, a)
        return None if s is None else e.div(s, k)

    return quotient


def _by_slope(name: str, slope: Callable[[SeriesArithmetic, Series], Series]) -> Callable[[SeriesArithmetic, Series], Series]:
    """A function whose derivative is algebraic: slope(a) is f'(a)."""

    def function(e: SeriesArithmetic, a: Series) -> Series:
        c, h = e.split(a)
        start = e.atom(name, c) if not is_zero(c) else e.times(e.atom("atan", ONE), fmpq(2)) if name == "acos" else ZERO
        if h is None:
            return e.constant(start)
        return e.integral(start, e.mul(Series(h.v, tuple(e.derivative(h))), slope(e, a)))

    return function


def _one_plus_square(e: SeriesArithmetic, a: Series, sign: int) -> Series:
    return e.add(e.constant(ONE), e.mul(a, a), sign)


_ATAN = _by_slope("atan", lambda e, a: e.reciprocal(_one_plus_square(e, a, 1)))


def _atan(e: SeriesArithmetic, a: Series) -> Series:
    """atan(a) = ±π/2 - atan(1/a) at a pole."""
    if a.v >= 0:
        return _ATAN(e, a)
    if not isinstance(a.c[0], fmpq) or (e.place.at == 0 and a.v % 2):
        raise NoSeries("the sign of a pole")
    quarter = e.times(e.atom("atan", ONE), fmpq(2 if a.c[0] > 0 else -2))
    return e.add(e.constant(quarter), _ATAN(e, e.reciprocal(a)), -1)


def _abs(e: SeriesArithmetic, a: Series) -> Series:
    if not isinstance(a.c[0], fmpq) or (e.place.at == 0 and a.v % 2):
        raise NoSeries("a sign that is not known")
    return a if a.c[0] > 0 else e.scale(a, fmpq(-1))


def _log1p(e: SeriesArithmetic, a: Series) -> Series:
    return _log(e, e.add(e.constant(ONE), a))


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
    "expm1": lambda e, a: e.add(_exp(e, a), e.constant(ONE), -1),
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
