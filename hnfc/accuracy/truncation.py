"""Series cut off, as terms."""

from __future__ import annotations

from dataclasses import dataclass

from hnfc.accuracy.series import ExpansionPoint, Series, SeriesArithmetic, is_zero
from hnfc.accuracy.terms import Term


@dataclass(frozen=True)
class Truncated:
    """The first `count` coefficients of a series that are not 0, as a term."""

    place: ExpansionPoint
    count: int
    order: int
    """The series goes on with t^order."""
    first: int
    """First power of t."""
    term: Term


def truncations(e: SeriesArithmetic, series: Series, counts: tuple[int, ...]) -> list[Truncated]:
    """The series cut off after some of its coefficients, in Horner's form."""
    places = [i for i, x in enumerate(series.c) if not is_zero(x)]
    found = []
    for count in counts:
        if count >= len(places):
            # nothing is known of what was left off
            if count == len(places) and len(series.c) - 1 - places[-1] >= 2:
                found.append(Truncated(e.place, count, series.end, series.v, _horner(e, series, places)))
            break
        found.append(Truncated(e.place, count, series.v + places[count], series.v, _horner(e, series, places[:count])))
    return found


def _horner(e: SeriesArithmetic, series: Series, places: list[int]) -> Term:
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


def _power_term(e: SeriesArithmetic, t: Term, n: int) -> Term:
    terms = e.arithmetic.terms
    result = t
    for _ in range(n - 1):
        result = terms.make("mul", result, t)
    return result
