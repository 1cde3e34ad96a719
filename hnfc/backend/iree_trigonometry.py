"""Trigonometric functions and their inverses in float64, which IREE lacks and whose float32 versions it computes badly.

The polynomials and constants are those of fdlibm (Sun Microsystems, 1993).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from hnfc.backend.iree_forms import infinite, signed
from hnfc.backend.term import EmittedTerm

_SIN = (
    -1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04, 2.75573137070700676789e-06,
    -2.50507602534068634195e-08, 1.58969099521155010221e-10,
)  # fmt: skip
_COS = (
    4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05, -2.75573143513906633035e-07,
    2.08757232129817482790e-09, -1.13596475577881948265e-11,
)  # fmt: skip
_ATAN = (
    3.33333333333329318027e-01, -1.99999999998764832476e-01, 1.42857142725034663711e-01, -1.11111104054623557880e-01,
    9.09088713343650656196e-02, -7.69187620504482999495e-02, 6.66107313738753120669e-02, -5.83357013379057348645e-02,
    4.97687799461593236017e-02, -3.65315727442169155270e-02, 1.62858201153657823623e-02,
)  # fmt: skip
_ANGLES = (4.63647609000806093515e-01, 7.85398163397448278999e-01, 9.82793723247329054082e-01, 1.57079632679489655800e00)
_ANGLE_RESTS = (2.26987774529616870924e-17, 3.06161699786838301793e-17, 1.39033110312309984516e-17, 6.12323399573676603587e-17)
"""atan of 1/2, 1, 3/2 and infinity, and what rounding left of them."""
_HALF_PI = (1.570796251296997, 7.549789415861596e-08, 5.390302529957765e-15, 3.282003415807913e-22, 1.270655753080676e-29)
"""π/2 in parts of 24 bits: the product of each with an integer below 2^29 is exact."""
FARTHEST = 8e8
"""Beyond it the number of quarter turns has more than 29 bits; the forms give NaN there."""


def _polynomial(coefficients: Sequence[float], x: EmittedTerm) -> EmittedTerm:
    total = x * coefficients[-1] + coefficients[-2]
    for coefficient in coefficients[-3::-1]:
        total = total * x + coefficient
    return total


def _reduced(x: EmittedTerm) -> tuple[EmittedTerm, EmittedTerm, EmittedTerm]:
    """sin r, cos r and the quarter turn n mod 4, for x = n·π/2 + r."""
    turns = (x * (2 / math.pi) + 0.5).of("floor")
    rest = x
    for part in _HALF_PI:
        rest = rest - turns * part
    rest = x.of("abs").compare("le", FARTHEST).where(rest, math.nan)
    square = rest * rest
    sine = rest + rest * square * _polynomial(_SIN, square)
    cosine = 1.0 - (square * 0.5 - square * square * _polynomial(_COS, square))
    return sine, cosine, turns - (turns * 0.25).of("floor") * 4.0


def sin(x: EmittedTerm) -> EmittedTerm:
    """fdlibm's polynomials after a reduction by π/2 in five parts; for |x| ≤ 8e8."""
    sine, cosine, quarter = _reduced(x)
    return _chosen(sine, cosine, quarter)


def cos(x: EmittedTerm) -> EmittedTerm:
    """sin of a quarter turn more; for |x| ≤ 8e8."""
    sine, cosine, quarter = _reduced(x)
    return _chosen(sine, cosine, quarter.compare("eq", 3.0).where(0.0, quarter + 1.0))


def _chosen(sine: EmittedTerm, cosine: EmittedTerm, quarter: EmittedTerm) -> EmittedTerm:
    odd = quarter.compare("eq", 1.0).of("logical_or", quarter.compare("eq", 3.0))
    value = odd.where(cosine, sine)
    return quarter.compare("ge", 2.0).where(-value, value)


def tan(x: EmittedTerm) -> EmittedTerm:
    """sin x/cos x; for |x| ≤ 8e8."""
    sine, cosine, quarter = _reduced(x)
    odd = quarter.compare("eq", 1.0).of("logical_or", quarter.compare("eq", 3.0))
    return odd.where(-cosine / sine, sine / cosine)


def atan(x: EmittedTerm) -> EmittedTerm:
    """atan(c) + atan((|x| - c)/(1 + c·|x|)) for the nearest of 0, 1/2, 1, 3/2 and infinity."""
    a = x.of("abs")
    cases = [
        (0.4375, a, 0.0, 0.0),
        (0.6875, (a * 2.0 - 1.0) / (a + 2.0), _ANGLES[0], _ANGLE_RESTS[0]),
        (1.1875, (a - 1.0) / (a + 1.0), _ANGLES[1], _ANGLE_RESTS[1]),
        (2.4375, (a - 1.5) / (a * 1.5 + 1.0), _ANGLES[2], _ANGLE_RESTS[2]),
    ]
    t: EmittedTerm = -1.0 / a.compare("eq", 0.0).where(1.0, a)
    high, low = t * 0.0 + _ANGLES[3], t * 0.0 + _ANGLE_RESTS[3]
    for bound, reduced, angle, rest in reversed(cases):
        below = a.compare("lt", bound)
        t, high, low = below.where(reduced, t), below.where(angle, high), below.where(rest, low)
    square = t * t
    return signed(x, high - ((t * square * _polynomial(_ATAN, square) - low) - t))


def asin(x: EmittedTerm) -> EmittedTerm:
    """atan(x/√((1 - x)(1 + x)))."""
    return atan(x / ((1.0 - x) * (x + 1.0)).of("sqrt"))


def acos(x: EmittedTerm) -> EmittedTerm:
    """2·atan(√((1 - x)/(1 + x)))."""
    return atan(((1.0 - x) / (x + 1.0)).of("sqrt")) * 2.0


def atan2(y: EmittedTerm, x: EmittedTerm) -> EmittedTerm:
    """atan|y/x|, from π where x < 0, with the sign of y."""
    a, b = y.of("abs"), x.of("abs")
    both = infinite(a).of("logical_and", infinite(b)).of("logical_or", a.compare("eq", 0.0).of("logical_and", b.compare("eq", 0.0)))
    ratio = both.where(infinite(a).where(1.0, 0.0 * a.compare("eq", a).where(b, a)), a / b)
    angle = atan(ratio)
    angle = x.compare("lt", 0.0).where(math.pi - angle, angle)
    return y.compare("lt", 0.0).where(-angle, angle)
