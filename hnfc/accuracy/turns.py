"""Sines, cosines and tangents less whole turns of multiples of π: sin(π·x/180) as a sine of at most a quarter turn, sin(x + π/2) as cos(x).

π·x is rounded, and the error is as large as the last digit of the argument: for x = 1e9 degrees only eight digits are left, for 1e17
none. The remainder of x by the period is exact, and so are the differences that fold it to a quarter of a turn. Over the reals all forms
are equal: fmod(x, P) is x less a whole multiple of the period P, and the folded argument has the same sine.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from hnfc.accuracy.arithmetic import TermSimplifier
from hnfc.accuracy.terms import Term

PERIODIC = ("sin", "cos", "tan")
"""The functions with a period that is a multiple of π; each folds in its own way, so there is no fact to ask."""


def without_turns(arithmetic: TermSimplifier, term: Term) -> Iterator[Term]:
    """Other writings of a function of a rational multiple of π; none where no whole number of periods is a double."""
    if term.op not in PERIODIC:
        return
    yield from _without_quarters(arithmetic, term)
    found = _multiple(arithmetic, term.args[0])
    if found is None:
        return
    coefficient, x = found
    terms = arithmetic.terms
    sign = 1 if coefficient > 0 else -1
    period = abs(8 / coefficient)

    def angle(turn: Term) -> Term:
        polynomial = arithmetic.polynomial(terms.make("mul", turn, _quarter(arithmetic)))
        assert polynomial is not None
        return arithmetic.term({m: c * abs(coefficient) for m, c in polynomial.items()})

    def remainder(by: Fraction) -> Term:
        if x.op == "div" and by.numerator & (by.numerator - 1) == 0 and by.denominator & (by.denominator - 1) == 0:
            # of a/b with its remainder exact before the quotient is rounded
            a, b = x.args
            return terms.make("div", terms.make("fmod", a, terms.make("mul", terms.const(by), b)), b)
        return terms.make("fmod", x, terms.const(by))

    def less(a: Fraction, b: Term) -> Term:
        return terms.make("sub", terms.const(a), b)

    def signed(form: Term) -> Term:
        return form if sign > 0 or term.op == "cos" else terms.make("neg", form)

    odd = period.denominator // (period.denominator & -period.denominator)
    whole = odd * period / (2 if term.op == "tan" else 1)
    if not _double(whole):
        return
    yield signed(terms.make(term.op, angle(remainder(whole))))
    if odd > 1 or not _double(3 * period / 4) or term.op == "tan":
        return
    turn = remainder(period)
    size = terms.make("abs", turn)
    if term.op == "cos":
        folded = terms.make("maximum", less(period / 4, size), terms.make("neg", less(3 * period / 4, size)))
        yield terms.make("sin", angle(folded))
        return
    half = terms.make("maximum", less(period / 2, size), terms.make("neg", less(period, size)))
    sine = signed(terms.make("sin", angle(terms.make("minimum", size, half))))
    yield terms.make("where", terms.make("compare", x, terms.zero, value="lt"), terms.make("neg", sine), sine)


def _without_quarters(arithmetic: TermSimplifier, term: Term) -> Iterator[Term]:
    """The function of an angle from which quarter turns were taken, for tan eighths too: the sum rounds away digits of the angle."""
    terms, polynomial = arithmetic.terms, arithmetic.polynomial(term.args[0])
    constant = ((arithmetic.index_of(_quarter(arithmetic)), 1),)
    if polynomial is None or len(polynomial) < 2 or polynomial.get(constant, Fraction(1, 2)).denominator != 1:
        return
    eighths = int(polynomial[constant])
    rest = arithmetic.term({m: c for m, c in polynomial.items() if m != constant})
    sine, cosine = (terms.make(name, rest) for name in ("sin", "cos"))
    if term.op == "tan":
        above = (sine, terms.make("add", cosine, sine), terms.make("neg", cosine), terms.make("sub", sine, cosine))[eighths % 4]
        below = (cosine, terms.make("sub", cosine, sine), sine, terms.make("add", cosine, sine))[eighths % 4]
        yield terms.make("tan", rest) if eighths % 4 == 0 else terms.make("div", above, below)
    elif eighths % 2 == 0:
        around = (sine, cosine, terms.make("neg", sine), terms.make("neg", cosine))
        yield around[(eighths // 2 + (term.op == "cos")) % 4]


def _double(number: Fraction) -> bool:
    return Fraction(float(number)) == number


def _quarter(arithmetic: TermSimplifier) -> Term:
    return arithmetic.terms.make("atan", arithmetic.terms.one)


def _multiple(arithmetic: TermSimplifier, angle: Term) -> tuple[Fraction, Term] | None:
    """The numbers c and x for which the angle is c·(π/4)·x; None where it has parts without π, or no part besides."""
    polynomial = arithmetic.polynomial(angle)
    quarter = arithmetic.index_of(_quarter(arithmetic))
    if not polynomial or any((quarter, 1) not in monomial for monomial in polynomial):
        return None
    rest = {tuple(part for part in monomial if part != (quarter, 1)): c for monomial, c in polynomial.items()}
    lead = next((c for monomial, c in rest.items() if monomial), None)
    return None if lead is None else (lead, arithmetic.term({monomial: c / lead for monomial, c in rest.items()}))
