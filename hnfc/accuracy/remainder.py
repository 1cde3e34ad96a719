"""A bound of what a truncated series leaves off, for all arguments in an interval.

A model of f at 0 is f(t) = Σ c_k·t^k (v ≤ k < m) + r·t^m with exact c_k and a ball r that holds for every t of a ball T: Taylor models with
relative remainders (Joldes: Rigorous polynomial approximations and applications, 2011, section 2.3), with which 0/0 at t = 0 is no
obstacle. What arb computes of r is rounded outward.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from flint import arb, arb_series, ctx, fmpq, fmpq_series

from hnfc.accuracy.terms import Term, subterms
from hnfc.accuracy.truncation import Truncated
from hnfc.dsl.polynomials import rational_root
from hnfc.dsl.soundness.balls import precision
from hnfc.dsl.soundness.elements import whole_power


class NoBound(Exception):
    """No bound is found."""


@dataclass(frozen=True)
class Model:
    v: int
    c: tuple[Any, ...]
    r: Any

    @property
    def m(self) -> int:
        return self.v + len(self.c)


@dataclass(frozen=True)
class Remainder:
    """|f - series| ≤ relative·|f| for every argument of the interval."""

    lo: float
    hi: float
    relative: float


def bound(original: Term, cut: Truncated, lo: float, hi: float) -> Remainder:
    """The bound for lo ≤ x ≤ hi. Raises NoBound."""
    try:
        return _bound(original, cut, lo, hi)
    except (ValueError, ZeroDivisionError):
        raise NoBound("the series does not converge on the whole interval") from None


def _bound(original: Term, cut: Truncated, lo: float, hi: float) -> Remainder:
    with precision(192):
        at = cut.place.at
        if at == 0:
            size = max(abs(lo), abs(hi))
            ball = arb(0, size) if lo < 0 < hi else arb(lo).union(arb(hi)).union(arb(0))
        else:
            near = lo if at > 0 else -hi
            if not near > 0:
                raise NoBound("the interval reaches 0")
            size = 1 / arb(near)
            ball = arb(0).union(size)
        models = _Models(ball, cut)
        found = models.of(original)
        if found.v != cut.first or found.m < cut.order:
            raise NoBound("too few terms are known")
        rest = _value(found.c[cut.order - found.v :], ball) + found.r * whole_power(ball, found.m - cut.order)
        whole = abs(_value(found.c, ball) + found.r * whole_power(ball, found.m - found.v)).lower()
        if not whole > 0:
            raise NoBound("the value may be 0 there")
        relative = (abs(rest).upper() * whole_power(arb(size), cut.order - found.v) / whole).upper()
        if not relative.is_finite():
            raise NoBound("the series does not converge on the whole interval")
        # one more ulp, since float() rounds to nearest
        return Remainder(lo, hi, float(relative) * (1 + 2**-50))


def _value(c: Any, t: Any) -> Any:
    total = arb(0)
    for x in reversed(c):
        total = total * t + arb(x)
    return total


class _Models:
    def __init__(self, ball: Any, cut: Truncated) -> None:
        self.ball = ball
        self.place = cut.place
        self.m = max(cut.order + 6, 12)
        self._known: dict[Term, Model] = {}

    def of(self, term: Term) -> Model:
        found = self._known.get(term)
        if found is None:
            found = self._known[term] = self._make(term)
        return found

    def _make(self, term: Term) -> Model:
        x = self.place.variable
        if term is x:
            power = 1 if self.place.at == 0 else -1
            return Model(power, (fmpq(-1 if self.place.at < 0 else 1), *(fmpq(0),) * (self.m - 1)), arb(0))
        if term.op == "const" and term.value != 0:
            return self._constant(fmpq(term.value.numerator, term.value.denominator))
        if term.op == "const" or x not in set(subterms(term)):
            raise NoBound("a constant that is no rational number")
        if term.op == "sub" and all(a.op == "atan" for a in term.args):
            turned = self._turned(*(a.args[0] for a in term.args))
            if turned is not None:
                return turned
        rule = _RULES.get(term.op)
        if rule is None:
            raise NoBound(f"{term.op} has no model")
        found = rule(self, *(self.of(a) for a in term.args))
        assert isinstance(found, Model)
        return found

    def _turned(self, x: Term, y: Term) -> Model | None:
        """atan x - atan y = atan(1/y) - atan(1/x) where both have a pole and one sign; None elsewhere."""
        models = [self.of(x), self.of(y)]
        signs = [_value(model.c, self.ball) + model.r * whole_power(self.ball, len(model.c)) for model in models]
        poles = all(model.v < 0 for model in models) and (models[0].v - models[1].v) % 2 == 0
        if not poles or not (all(sign > 0 for sign in signs) or all(sign < 0 for sign in signs)):
            return None
        arc = _RULES["atan"]
        return self.add(arc(self, self.reciprocal(models[1])), arc(self, self.reciprocal(models[0])), -1)

    def _constant(self, c: Any) -> Model:
        return Model(0, (c, *(fmpq(0),) * (self.m - 1)), arb(0))

    def _cut(self, v: int, c: list[Any], m: int, r: Any) -> Model:
        """Coefficients from t^m on join the remainder; leading zeros go."""
        rest = c[max(m - v, 0) :]
        if rest:
            r = r + _value(rest, self.ball)
        c = c[: max(m - v, 0)]
        start = next((i for i, x in enumerate(c) if x != 0), None)
        if start is None:
            raise NoBound("nothing is left to this order")
        return Model(v + start, tuple(c[start:]), r)

    def add(self, a: Model, b: Model, sign: int = 1) -> Model:
        v, m = min(a.v, b.v), min(a.m, b.m)
        c = [fmpq(0)] * (max(a.m, b.m) - v)
        for i, x in enumerate(a.c):
            c[a.v + i - v] += x
        for i, x in enumerate(b.c):
            c[b.v + i - v] += sign * x
        r = a.r * whole_power(self.ball, a.m - m) + sign * b.r * whole_power(self.ball, b.m - m)
        return self._cut(v, c, m, r)

    def mul(self, a: Model, b: Model) -> Model:
        v, m = a.v + b.v, min(a.m + b.v, b.m + a.v)
        c = [fmpq(0)] * (len(a.c) + len(b.c) - 1)
        for i, x in enumerate(a.c):
            if x != 0:
                for j, y in enumerate(b.c):
                    c[i + j] += x * y
        t = self.ball
        r = (
            _value(a.c, t) * b.r * whole_power(t, b.m + a.v - m)
            + _value(b.c, t) * a.r * whole_power(t, a.m + b.v - m)
            + a.r * b.r * whole_power(t, a.m + b.m - m)
        )
        return self._cut(v, c, m, r)

    def scale(self, a: Model, s: Any) -> Model:
        return Model(a.v, tuple(x * s for x in a.c), a.r * arb(s))

    def compose(self, h: Model, function: Callable[[Any], Any]) -> Model:
        """φ(h), h being 0 at t = 0: φ's series, and its next coefficient on all values of h."""
        if h.v < 1:
            raise NoBound("a constant within a function")
        count = max(-(-self.m // h.v), 1)
        coefficients = _with_length(count, lambda: function(fmpq_series([0, 1], prec=count)).coeffs())
        coefficients = [*coefficients, *[fmpq(0)] * (count - len(coefficients))]
        values = _value(h.c, self.ball) * whole_power(self.ball, h.v) + h.r * whole_power(self.ball, h.m)
        last = _with_length(count + 1, lambda: function(arb_series([values.union(arb(0)), 1], prec=count + 1)).coeffs())
        total: Model | None = self._constant(coefficients[0]) if coefficients[0] != 0 else None
        power = h
        for k in range(1, count):
            if coefficients[k] != 0:
                part = self.scale(power, coefficients[k])
                total = part if total is None else self.add(total, part)
            power = self.mul(power, h)
        after = last[count] if len(last) > count else arb(0)
        rest = after * (_value(power.c, self.ball) + power.r * whole_power(self.ball, power.m - power.v))
        if total is None:
            raise NoBound("nothing is left to this order")
        m = min(total.m, power.v)
        exact = self._cut(total.v, list(total.c), m, total.r * whole_power(self.ball, total.m - m))
        return Model(exact.v, exact.c, exact.r + rest * whole_power(self.ball, power.v - m))

    def relative(self, a: Model) -> Model | None:
        """h with a = c·t^v·(1 + h); None where h is 0."""
        c = [x / a.c[0] for x in a.c[1:]]
        r = a.r / arb(a.c[0])
        start = next((i for i, x in enumerate(c) if x != 0), None)
        if start is None:
            if r == 0:
                return None
            raise NoBound("nothing is left to this order")
        return Model(1 + start, tuple(c[start:]), r)

    def reciprocal(self, a: Model) -> Model:
        h = self.relative(a)
        result = self._constant(fmpq(1)) if h is None else self.compose(h, lambda s: 1 / (1 + s))
        return self.scale(Model(result.v - a.v, result.c, result.r), 1 / a.c[0])

    def root(self, a: Model, degree: int) -> Model:
        start = rational_root(Fraction(int(a.c[0].p), int(a.c[0].q)), degree)
        if start is None or a.v % degree or (self.place.at == 0 and a.v):
            raise NoBound("a root that is no rational number")
        h = self.relative(a)
        if h is None:
            result = self._constant(fmpq(1))
        elif degree == 2:
            result = self.compose(h, lambda s: (1 + s).sqrt())
        else:
            result = self.compose(h, lambda s: ((1 + s).log() / degree).exp())
        return self.scale(Model(result.v + a.v // degree, result.c, result.r), fmpq(start.numerator, start.denominator))


def _with_length(length: int, compute: Callable[[], Any]) -> Any:
    """Series have `ctx.cap` coefficients at most."""
    before = ctx.cap
    ctx.cap = length
    try:
        return compute()
    finally:
        ctx.cap = before


def _plain(name: str) -> Callable[[_Models, Model], Model]:
    return lambda e, a: e.compose(a, lambda s: getattr(s, name)())


def _log(e: _Models, a: Model) -> Model:
    if a.v != 0 or a.c[0] != 1:
        raise NoBound("the logarithm of a number other than 1")
    h = e.relative(a)
    if h is None:
        raise NoBound("zero")
    return e.compose(h, lambda s: (1 + s).log())


def _tan(e: _Models, a: Model) -> Model:
    return e.mul(e.compose(a, lambda s: s.sin()), e.reciprocal(e.compose(a, lambda s: s.cos())))


def _tanh(e: _Models, a: Model) -> Model:
    return e.mul(e.compose(a, _sinh), e.reciprocal(e.compose(a, _cosh)))


def _sinh(s: Any) -> Any:
    return (s.exp() - (-s).exp()) / 2


def _cosh(s: Any) -> Any:
    return (s.exp() + (-s).exp()) / 2


_RULES: dict[str, Callable[..., Model]] = {
    "add": lambda e, a, b: e.add(a, b),
    "sub": lambda e, a, b: e.add(a, b, -1),
    "neg": lambda e, a: e.scale(a, fmpq(-1)),
    "mul": lambda e, a, b: e.mul(a, b),
    "div": lambda e, a, b: e.mul(a, e.reciprocal(b)),
    "exp": _plain("exp"),
    "expm1": lambda e, a: e.compose(a, lambda s: s.exp() - 1),
    "log": _log,
    "log1p": lambda e, a: e.compose(a, lambda s: (1 + s).log()),
    "sin": _plain("sin"),
    "cos": _plain("cos"),
    "tan": _tan,
    "sinh": lambda e, a: e.compose(a, _sinh),
    "cosh": lambda e, a: e.compose(a, _cosh),
    "tanh": _tanh,
    "atan": _plain("atan"),
    "asin": _plain("asin"),
    "atanh": lambda e, a: e.compose(a, lambda s: ((1 + s).log() - (1 - s).log()) / 2),
    "asinh": lambda e, a: e.compose(a, lambda s: (s + (1 + s * s).sqrt()).log()),
    "sqrt": lambda e, a: e.root(a, 2),
    "cbrt": lambda e, a: e.root(a, 3),
}
