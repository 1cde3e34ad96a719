"""Every axiom that Z3 is given holds at random arguments, in 200-bit ball arithmetic."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
from flint import arb, fmpq

from hnfc.dsl.soundness import axioms
from hnfc.dsl.soundness.balls import precision
from hnfc.dsl.soundness.term import Cond, Rational, atom, of_atom

FUNCTIONS = {
    "exp": lambda x: x.exp(),
    "log": lambda x: x.log(),
    "abs": abs,
    "erf": lambda x: x.erf(),
    "sin": lambda x: x.sin(),
    "cos": lambda x: x.cos(),
    "atan": lambda x: x.atan(),
    "asin": lambda x: x.asin(),
    "acos": lambda x: x.acos(),
    "floor": lambda x: x.floor(),
    "i0": lambda x: x.bessel_i(0),
}
VALUES = [Fraction(k, 8) for k in range(-40, 41)] + [Fraction(1, 10**6), Fraction(-1, 10**6), Fraction(300), Fraction(-300)]


def value(x: Rational, known: dict) -> arb:
    def terms(source: dict) -> arb:
        result = arb(0)
        for mono, c in source.items():
            part = arb(fmpq(c.numerator, c.denominator))
            for base, e in mono:
                part *= known[base] ** int(e)
            result += part
        return result

    return terms(x.num) / terms(x.den)


def surely_false(cond: Cond, known: dict) -> bool:
    match cond.kind:
        case "not":
            return surely_true(cond.args[0], known)
        case "and":
            return any(surely_false(c, known) for c in cond.args)
        case "or":
            return all(surely_false(c, known) for c in cond.args)
    v = value(cond.args[0], known)
    return bool({">": v <= 0, ">=": v < 0, "=": v != 0}[cond.kind])


def surely_true(cond: Cond, known: dict) -> bool:
    match cond.kind:
        case "not":
            return surely_false(cond.args[0], known)
        case "and":
            return all(surely_true(c, known) for c in cond.args)
        case "or":
            return any(surely_true(c, known) for c in cond.args)
    v = value(cond.args[0], known)
    return bool({">": v > 0, ">=": v >= 0, "=": v.is_zero()}[cond.kind])


def in_domain(kind: str, x: Fraction) -> bool:
    return x > 0 if kind == "log" else abs(x) <= 1 if kind in ("asin", "acos") else True


@pytest.mark.parametrize("name", sorted(axioms.AXIOMS))
def test_axiom(name: str) -> None:
    kind, statement = axioms.AXIOMS[name]
    x = atom("cap", "x", ())
    t = atom(kind, of_atom(x))
    cond = statement(of_atom(t), (of_atom(x),))
    with precision(200):
        for v in VALUES:
            if in_domain(kind, v):
                ball = arb(fmpq(v.numerator, v.denominator))
                assert not surely_false(cond, {x: ball, t: FUNCTIONS[kind](ball)}), v


@pytest.mark.parametrize("name", sorted(axioms.PAIR_AXIOMS))
def test_pair_axiom(name: str) -> None:
    kind, statement = axioms.PAIR_AXIOMS[name]
    x, y = atom("cap", "x", ()), atom("cap", "y", ())
    t, u = atom(kind, of_atom(x)), atom(kind, of_atom(y))
    cond = statement(of_atom(t), of_atom(x), of_atom(u), of_atom(y))
    choose = random.Random(0)
    with precision(200):
        for _ in range(500):
            v, w = choose.choice(VALUES), choose.choice(VALUES)
            if in_domain(kind, v) and in_domain(kind, w):
                a, b = (arb(fmpq(z.numerator, z.denominator)) for z in (v, w))
                assert not surely_false(cond, {x: a, y: b, t: FUNCTIONS[kind](a), u: FUNCTIONS[kind](b)}), (v, w)
