"""The error function's complement, the normal distribution's logarithm, and Bessel's I0, which the torch dialect lacks.

Chebyshev series in float64, computed with 50 digits from the functions' definitions; each is within 2e-15 of its function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from hnfc.backend.expansions import expands
from hnfc.backend.term import EmittedTerm

ERFCX = (
    -1.3026537197817094, 0.6419697923564902, 0.019476473204185836, -0.009561514786808632, -0.0009465953444820369,
    0.00036683949785276145, 4.252332480690777e-05, -2.0278578112534242e-05, -1.6242900046470256e-06, 1.3036558355805232e-06,
    1.5626441722066142e-08, -8.523809591492654e-08, 6.5290544390988515e-09, 5.059343495551469e-09, -9.91364156493033e-10,
    -2.273651222931836e-10, 9.646791102015527e-11, 2.3940380830391146e-12, -6.886027526497553e-12, 8.944879273090725e-13,
    3.130921399342958e-13, -1.1270822361367252e-13, 3.810905255189232e-16, 7.106097613609237e-15, -1.5230282014571041e-15,
    -9.457494571291254e-17, 1.210237189224273e-16, -2.816663087746774e-17,
)  # fmt: skip
"""log(e^(z²)·erfc(z)/t) in 2t - 1, for z ≥ 0 and t = 2/(2 + z)."""

I0E_NEAR = (
    0.6767952744094761, -0.3046826723431984, 0.17162090152220877, -0.09490109704804764, 0.04930528423967071, -0.02373741480589947,
    0.010546460394594998, -0.004324309995050576, 0.0016394756169413357, -0.0005763755745385824, 0.00018850288509584165,
    -5.754195010082104e-05, 1.6448448070728896e-05, -4.4167383584587505e-06, 1.1173875391201037e-06, -2.670793853940612e-07,
    6.046995022541919e-08, -1.300025009986248e-08, 2.6598237246823866e-09, -5.189795601635263e-10, 9.675809035373237e-11,
    -1.726826291441556e-11, 2.95505266312964e-12, -4.856446783111929e-13, 7.676185498604936e-14, -1.1685332877993451e-14,
    1.715391285555133e-15, -2.431279846547955e-16, 3.3307945188222384e-17, -4.4153416464793395e-18,
)  # fmt: skip
"""e^-x·I0(x) in x/4 - 1, for 0 ≤ x ≤ 8."""

I0E_FAR = (
    0.8044904110141088, 0.0033691164782556943, 6.889758346916825e-05, 2.8913705208347567e-06, 2.0489185894690638e-07,
    2.266668990498178e-08, 3.3962320257083865e-09, 4.94060238822497e-10, 1.1889147107846439e-11, -3.1499165279632416e-11,
    -1.3215811840447713e-11, -1.7941785315068062e-12, 7.180124451383666e-13, 3.8527783827421426e-13, 1.54008621752141e-14,
    -4.150569347287222e-14, -9.554846698828307e-15, 3.811680669352621e-15, 1.7725601330565245e-15, -3.425485619677142e-16,
    -2.827623980516646e-16, 3.461222867695658e-17, 4.465621420302078e-17, -4.8305044859640105e-18,
)  # fmt: skip
"""√x·e^-x·I0(x) in 16/x - 1, for x ≥ 8."""


def in_f64(form: Callable[[EmittedTerm], EmittedTerm]) -> Callable[[Any], EmittedTerm]:
    """`form` in float64, and its result in the operand's type; NaN stays NaN, which torch-mlir's maximum and minimum would lose."""

    def expansion(operation: Any) -> EmittedTerm:
        x = EmittedTerm(operation.x)
        return x.of("isnan").where(x, form(x.cast("f64")).cast(x.element))

    return expansion


def chebyshev(coefficients: Sequence[float], y: EmittedTerm) -> EmittedTerm:
    """c₀/2 + Σ cⱼ·Tⱼ(y), by Clenshaw's recurrence."""
    twice = y + y
    last: EmittedTerm | float = coefficients[-1]
    before: EmittedTerm | float = 0.0
    for c in reversed(coefficients[1:-1]):
        last, before = twice * last + c - before, last
    return y * last + coefficients[0] / 2 - before


def _log_erfcx(z: EmittedTerm) -> tuple[EmittedTerm, EmittedTerm]:
    """t and log(e^(z²)·erfc(z)/t) for z ≥ 0."""
    t = 2.0 / (z + 2.0)
    return t, chebyshev(ERFCX, t * 2.0 - 1.0)


def erfc(x: EmittedTerm) -> EmittedTerm:
    """t·e^(series - z²) for z = |x|, reflected for x < 0; z² is split, so that its rounding does not grow in e^(-z²)."""
    z = x.of("abs").of("minimum", 30.0)
    t, series = _log_erfcx(z)
    head = z.cast("f32").cast("f64")
    right = t * series.of("exp") * (-(head * head)).of("exp") * (-((z - head) * (z + head))).of("exp")
    return x.compare("lt", 0.0).where(2.0 - right, right)


def erfcx(x: EmittedTerm) -> EmittedTerm:
    """t·e^series for z = |x|, and 2·e^(x²) less that for x < 0; x² is split, so that its rounding does not grow in e^(x²)."""
    z = x.of("abs")
    t, series = _log_erfcx(z)
    right = t * series.of("exp")
    left = z.of("minimum", 30.0)
    head = left.cast("f32").cast("f64")
    grown = (head * head).of("exp") * ((left - head) * (left + head)).of("exp")
    return x.compare("lt", 0.0).where(grown * 2.0 - right, right)


def log_ndtr(x: EmittedTerm) -> EmittedTerm:
    """log(t/2) + series - x²/2 for x < -1, else log1p(-erfc(x/√2)/2)."""
    left = x.of("minimum", -1.0)
    t, series = _log_erfcx(left * -math.sqrt(0.5))
    tail = (t * 0.5).of("log") + series - left * left * 0.5
    body = (erfc(x.of("maximum", -1.0) * math.sqrt(0.5)) * -0.5).of("log1p")
    return x.compare("lt", -1.0).where(tail, body)


def i0e(x: EmittedTerm) -> EmittedTerm:
    """e^-|x|·I0(x), by one series on each side of 8."""
    a = x.of("abs")
    near = chebyshev(I0E_NEAR, a.of("minimum", 8.0) * 0.25 - 1.0)
    far = a.of("maximum", 8.0)
    return a.compare("le", 8.0).where(near, chebyshev(I0E_FAR, 16.0 / far - 1.0) / far.of("sqrt"))


def i0(x: EmittedTerm) -> EmittedTerm:
    """e^|x|·(e^-|x|·I0(x))."""
    return x.of("abs").of("exp") * i0e(x)


for _name, _form in (("erfc", erfc), ("erfcx", erfcx), ("log_ndtr", log_ndtr), ("i0", i0), ("i0e", i0e)):
    expands(_name)(in_f64(_form))
