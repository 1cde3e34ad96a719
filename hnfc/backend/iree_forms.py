"""Forms for IREE of functions that its own code computes badly, or not at all, made of what it computes well.

IREE's sinh, cosh, asinh, acosh and atanh are the textbook formulas; in float64 so are expm1 and log1p, and the functions of C's
mathematical library are missing. `python -m hnfc.runners` measures which (docs/runners.md). A form holds NaN and infinities too.
"""

from __future__ import annotations

import math

from hnfc.backend.special import erfc
from hnfc.backend.term import EmittedTerm
from hnfc.dialects.types import FORMATS

_BIG = 2.0**28
"""From here on x² + 1 = x² and log(2x) is asinh(x) and acosh(x)."""
_LN2_HIGH, _LN2_LOW = 0.6931471787393093, 1.8206359985041462e-09
"""29 bits of log 2, whose product with a float32 is exact in float64, and the rest."""


def infinite(x: EmittedTerm) -> EmittedTerm:
    """Return whether x > 0 is infinite."""
    return x.compare("gt", FORMATS[x.element].largest)


def signed(x: EmittedTerm, magnitude: EmittedTerm) -> EmittedTerm:
    """An odd function by its value at |x|; x itself at 0."""
    return x.compare("eq", 0.0).where(x, x.compare("lt", 0.0).where(-magnitude, magnitude))


def negated(x: EmittedTerm) -> EmittedTerm:
    """x - x - x, for integers, whose negation IREE's front end computes in float32."""
    return (x - x) - x


def itself(x: EmittedTerm) -> EmittedTerm:
    """x, for integers without a sign, whose absolute value IREE's front end takes of signed ones."""
    return x


def log1p(x: EmittedTerm) -> EmittedTerm:
    """log(u)·x/(u - 1) with u = 1 + x (Kahan)."""
    u = x + 1.0
    return u.compare("eq", 1.0).where(x, infinite(u).where(u, u.of("log") * (x / (u - 1.0))))


def expm1(x: EmittedTerm) -> EmittedTerm:
    """(u - 1)·x/log(u) with u = e^x (Kahan)."""
    u = x.of("exp")
    rest = u - 1.0
    found = infinite(u).where(u, rest * (x / u.of("log")))
    return u.compare("eq", 1.0).where(x, rest.compare("le", -1.0).where(-1.0, found))


def tanh(x: EmittedTerm) -> EmittedTerm:
    """-d/(d + 2) with d = e^(-2|x|) - 1."""
    d = (x.of("abs") * -2.0).of("expm1")
    return signed(x, -d / (d + 2.0))


def sinh(x: EmittedTerm) -> EmittedTerm:
    """(d + d/(d + 1))/2 with d = e^|x| - 1; e^(|x|/2)²/2 where d overflows or all but does."""
    a = x.of("abs")
    d, half = a.of("expm1"), (a * 0.5).of("exp")
    return signed(x, a.compare("gt", 40.0).where(half * (half * 0.5), (d + d / (d + 1.0)) * 0.5))


def cosh(x: EmittedTerm) -> EmittedTerm:
    """(e^|x| + e^-|x|)/2; e^(|x|/2)²/2 where e^|x| overflows or all but does."""
    a = x.of("abs")
    half = (a * 0.5).of("exp")
    return a.compare("gt", 40.0).where(half * (half * 0.5), (a.of("exp") + (-a).of("exp")) * 0.5)


def asinh(x: EmittedTerm) -> EmittedTerm:
    """log1p(|x| + x²/(1 + √(x² + 1)))."""
    a = x.of("abs")
    square = a * a
    near = (a + square / ((square + 1.0).of("sqrt") + 1.0)).of("log1p")
    return signed(x, a.compare("gt", _BIG).where(a.of("log") + math.log(2), near))


def acosh(x: EmittedTerm) -> EmittedTerm:
    """log1p(t + √t·√(t + 2)) with t = x - 1."""
    t = x - 1.0
    near = (t + t.of("sqrt") * (t + 2.0).of("sqrt")).of("log1p")
    return x.compare("gt", _BIG).where(x.of("log") + math.log(2), near)


def atanh(x: EmittedTerm) -> EmittedTerm:
    """log1p(2|x|/(1 - |x|))/2."""
    a = x.of("abs")
    return signed(x, ((a * 2.0) / (1.0 - a)).of("log1p") * 0.5)


def log2(x: EmittedTerm) -> EmittedTerm:
    """log(x)/log 2."""
    return x.of("log") * (1 / math.log(2))


def log10(x: EmittedTerm) -> EmittedTerm:
    """log(x)/log 10."""
    return x.of("log") * (1 / math.log(10))


def exp2(x: EmittedTerm) -> EmittedTerm:
    """e^(h·log 2)·e^rest with h the first 24 bits of x, whose product with the first 29 bits of log 2 is exact."""
    head = x.cast("f32").cast("f64")
    rest = head * _LN2_LOW + (x - head) * math.log(2)
    plain = (x * math.log(2)).of("exp")
    return x.of("abs").compare("lt", 2000.0).where((head * _LN2_HIGH).of("exp") * rest.of("exp"), plain)


def erf(x: EmittedTerm) -> EmittedTerm:
    """The Maclaurin series for |x| ≤ 1, 1 - erfc(|x|) beyond."""
    square, a = x * x, x.of("abs")
    series = square * _SERIES[-1] + _SERIES[-2]
    for coefficient in _SERIES[-3::-1]:
        series = series * square + coefficient
    return a.compare("le", 1.0).where(x * series, signed(x, 1.0 - erfc(a)))


_SERIES = tuple(2 / math.sqrt(math.pi) * (-1) ** n / (math.factorial(n) * (2 * n + 1)) for n in range(20))


def gelu(x: EmittedTerm) -> EmittedTerm:
    """x·erfc(-x/√2)/2."""
    return x * 0.5 * erfc(x * -math.sqrt(0.5))


def gelu_tanh(x: EmittedTerm) -> EmittedTerm:
    """x·σ(2·√(2/π)·(x + 0.044715·x³))."""
    return x * ((x + 0.044715 * x * x * x) * (2 * math.sqrt(2 / math.pi))).of("sigmoid")


def silu(x: EmittedTerm) -> EmittedTerm:
    """x/(1 + e^-|x|), times e^-|x| for x < 0."""
    small = (-x.of("abs")).of("exp")
    scaled = x.compare("lt", 0.0).where(x * small, x)
    return scaled / (small + 1.0)


def mish(x: EmittedTerm) -> EmittedTerm:
    """x·tanh(log(1 + e^x)) by e = e^-|x|: x·(1 + 2e)/(1 + 2e + 2e²) for x ≥ 0, x·e·(e + 2)/(e² + 2e + 2) below."""
    e = (-x.of("abs")).of("exp")
    left = x * (e * (e + 2.0)) / (e * (e + 2.0) + 2.0)
    right = x * ((e * 2.0 + 1.0) / (e * 2.0 + e * e * 2.0 + 1.0))
    return x.compare("lt", 0.0).where(left, right)


def softplus(x: EmittedTerm) -> EmittedTerm:
    """max(x, 0) + log1p(e^-|x|); NaN stays NaN."""
    tail = (-x.of("abs")).of("exp").of("log1p")
    return x.compare("gt", 0.0).where(x + tail, tail)


def log_sigmoid(x: EmittedTerm) -> EmittedTerm:
    """min(x, 0) - log1p(e^-|x|); NaN stays NaN."""
    tail = (-x.of("abs")).of("exp").of("log1p")
    return x.compare("lt", 0.0).where(x - tail, -tail)


def logaddexp(x: EmittedTerm, y: EmittedTerm) -> EmittedTerm:
    """max(x, y) + log1p(e^-|x - y|), with 0 for the difference of equal infinities."""
    top = x.compare("ge", y).where(x, y.compare("gt", x).where(y, x + y))
    gap = x.compare("eq", y).where(0.0, (x - y).of("abs"))
    return top + (-gap).of("exp").of("log1p")


def fmod(x: EmittedTerm, y: EmittedTerm) -> EmittedTerm:
    """The remainder of |x| by |y| with the sign of x; IREE has that remainder in float32."""
    rest = x.of("abs").of("remainder", y.of("abs"))
    return x.compare("lt", 0.0).where(-rest, rest)


def fmod_of_doubles(x: EmittedTerm, y: EmittedTerm) -> EmittedTerm:
    """x - y·trunc(x/y), one step of y up or down where the quotient was rounded across an integer; NaN for quotients beyond 2^52."""
    a, b = x.of("abs"), y.of("abs")
    quotient = a / b
    rest = a - b * quotient.of("floor")
    rest = rest.compare("lt", 0.0).where(rest + b, rest.compare("ge", b).where(rest - b, rest))
    rest = quotient.compare("le", 2.0**52).where(rest, math.nan)
    rest = infinite(b).of("logical_and", infinite(a).of("logical_not")).where(a, rest)
    return x.compare("lt", 0.0).where(-rest, rest)


def remainder(x: EmittedTerm, y: EmittedTerm) -> EmittedTerm:
    """fmod, plus y where its sign is not y's."""
    return with_sign_of(y, fmod_of_doubles(x, y))


def with_sign_of(y: EmittedTerm, rest: EmittedTerm) -> EmittedTerm:
    """A remainder by y, plus y where its sign is not y's."""
    other = rest.compare("lt", 0.0).of("logical_xor", y.compare("lt", 0.0)).of("logical_and", rest.compare("ne", 0.0))
    return other.where(rest + y, rest)


def power(x: EmittedTerm, y: EmittedTerm) -> EmittedTerm:
    """|x|^y with the sign that an odd y gives it; NaN for a negative x and a y that is no integer; 1 for y = 0 and x = 1, whatever the
    other is."""
    size = x.of("abs").of("pow", y)
    half = y * 0.5
    whole = y.compare("eq", y.of("floor"))
    odd = whole.of("logical_and", half.compare("ne", half.of("floor")))
    negative = odd.where(-size, whole.where(size, math.nan))
    one = y.compare("eq", 0.0).of("logical_or", x.compare("eq", 1.0))
    return one.where(1.0, x.compare("lt", 0.0).where(negative, size))


def larger(x: EmittedTerm, y: EmittedTerm) -> EmittedTerm:
    """The larger operand; NaN if the first is NaN too, which IREE's own drops."""
    return x.compare("ne", x).where(x, x.of("maximum", y))


def smaller(x: EmittedTerm, y: EmittedTerm) -> EmittedTerm:
    """The smaller operand; NaN if the first is NaN too, which IREE's own drops."""
    return x.compare("ne", x).where(x, x.of("minimum", y))


def xlogy(x: EmittedTerm, y: EmittedTerm) -> EmittedTerm:
    """x·log(y), and 0 where x is 0 unless y is NaN."""
    known = x.compare("eq", 0.0).of("logical_and", y.compare("eq", y))
    return x * known.where(1.0, y).of("log")


def hypot(x: EmittedTerm, y: EmittedTerm) -> EmittedTerm:
    """√(x² + y²) of the operands divided by the larger one."""
    a, b = x.of("abs"), y.of("abs")
    large, small = a.compare("ge", b).where(a, b), a.compare("ge", b).where(b, a)
    ratio = small / large.compare("eq", 0.0).where(1.0, large)
    finite = large * (ratio * ratio + 1.0).of("sqrt")
    return infinite(a).where(a, infinite(b).where(b, finite + (x - x) + (y - y)))
