"""Roundings in a proof: to a floating-point format in its range, to an integer type by its integer part, and modulo 2ⁿ."""

from __future__ import annotations

from fractions import Fraction

from hnfc.dialects.formats import Overflow
from hnfc.dialects.types import FLOATS
from hnfc.dsl.soundness.integers import BITS, CUT_OFF, bounds
from hnfc.dsl.soundness.normal_form import Normalizer
from hnfc.dsl.soundness.signs import NEG
from hnfc.dsl.soundness.term import ZERO, Rational, const


def rounded(n: Normalizer, format: str, x: Rational) -> Rational:
    """x as a number of the format; without a value where the format has none."""
    if format.startswith(CUT_OFF):
        return cut_off(n, format.removeprefix(CUT_OFF), x)
    if format in BITS:
        return wrapped(n, format, x)
    if (own := x.single()) and own[1] in (1, -1) and len(own[0]) == 1 and own[0][0][1] == 1 and own[0][0][0].kind == f"round to {format}":
        return x  # it is rounded already
    if (limit := overflow_from(format)) is not None:
        for room in (const(limit) - x, const(limit) + x):
            n.require(n.relation(">", room))
    return n.odd(f"round to {format}", x)


def overflow_from(format: str) -> Fraction | None:
    """The magnitude from which on rounding gives no number; None where there is none, or the format is not known."""
    form = FLOATS.get(format)
    if form is None or form.overflow is Overflow.SATURATE:
        return None
    return form.overflow_threshold


def cut_off(n: Normalizer, element: str, x: Rational) -> Rational:
    """The integer part of x, where the integer type holds it."""
    low, high = bounds(element)
    n.require(n.relation(">", x - const(Fraction(low - 1))))
    n.require(n.relation(">", const(Fraction(high + 1)) - x))
    if n.signs.whole(x):
        return x
    negative = n.relation(">", -x)
    known = n.decide(negative)
    if known is None:
        return n.ite(negative, -n.floor(-x), n.floor(x), True)
    return -n.floor(-x) if known else n.floor(x)


def wrapped(n: Normalizer, element: str, x: Rational) -> Rational:
    """x modulo 2ⁿ: x itself where it is known to be in range."""
    low, high = bounds(element)
    if not any(n.sign(room) & NEG for room in (x - const(Fraction(low)), const(Fraction(high)) - x)):
        return x
    if n.signs.whole(x):
        count = 2 ** BITS[element]
        x = Rational({mono: rest for mono, c in x.num.items() if (rest := (c + count // 2) % count - count // 2)})
    return ZERO if x.zero else n.opaque(f"wrap {element}", x)
