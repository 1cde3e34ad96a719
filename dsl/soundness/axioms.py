"""The axioms of the functions that are not polynomial, as ground instances for Z3. Few, named, each tested numerically.

Each is stated at one atom (or a pair), for all real arguments where the function is defined; `AXIOMS` and `PAIR_AXIOMS` are the whole list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

from hnfc.dsl.soundness.term import ONE, ZERO, Atom, Cond, Rational, const, of_atom


def ge(x: Rational) -> Cond:
    return Cond(">=", x)


def gt(x: Rational) -> Cond:
    return Cond(">", x)


def eq(x: Rational) -> Cond:
    return Cond("=", x)


def no(cond: Cond) -> Cond:
    return Cond("not", cond)


def either(*conds: Cond) -> Cond:
    return Cond("or", *conds)


def both(*conds: Cond) -> Cond:
    return Cond("and", *conds)


def same(p: Cond, q: Cond) -> Cond:
    return either(both(p, q), both(no(p), no(q)))


def implies(p: Cond, q: Cond) -> Cond:
    return either(no(p), q)


AXIOMS: dict[str, tuple[str, Callable[[Rational, tuple[Rational, ...]], Cond]]] = {
    "exp-positive": ("exp", lambda t, a: gt(t)),
    "exp-above-tangent": ("exp", lambda t, a: ge(t - ONE - a[0])),
    "exp-below-hyperbola": ("exp", lambda t, a: ge(ONE - t * (ONE - a[0]))),
    "exp-sign": ("exp", lambda t, a: both(same(ge(a[0]), ge(t - ONE)), same(gt(a[0]), gt(t - ONE)))),
    "log-below-tangent": ("log", lambda t, a: implies(gt(a[0]), ge(a[0] - ONE - t))),
    "log-above-hyperbola": ("log", lambda t, a: implies(gt(a[0]), ge(t * a[0] - a[0] + ONE))),
    "log-sign": ("log", lambda t, a: implies(gt(a[0]), both(same(ge(t), ge(a[0] - ONE)), same(gt(t), gt(a[0] - ONE))))),
    "abs-square": ("abs", lambda t, a: both(ge(t), ge(t - a[0]), ge(t + a[0]), either(eq(t - a[0]), eq(t + a[0])))),
    "erf-bounded": ("erf", lambda t, a: both(gt(ONE - t), gt(ONE + t))),
    "erf-sign": ("erf", lambda t, a: both(same(ge(t), ge(a[0])), same(gt(t), gt(a[0])))),
    "sin-bounded": ("sin", lambda t, a: both(ge(ONE - t), ge(ONE + t))),
    "cos-bounded": ("cos", lambda t, a: both(ge(ONE - t), ge(ONE + t))),
    "atan-bounded": ("atan", lambda t, a: both(gt(const(Fraction(11, 7)) - t), gt(const(Fraction(11, 7)) + t))),
    "atan-sign": ("atan", lambda t, a: both(same(ge(t), ge(a[0])), same(gt(t), gt(a[0])))),
    "asin-bounded": ("asin", lambda t, a: both(gt(const(Fraction(11, 7)) - t), gt(const(Fraction(11, 7)) + t))),
    "asin-sign": ("asin", lambda t, a: both(same(ge(t), ge(a[0])), same(gt(t), gt(a[0])))),
    "acos-bounded": ("acos", lambda t, a: both(ge(t), gt(const(Fraction(22, 7)) - t))),
    "floor-below": ("floor", lambda t, a: both(ge(a[0] - t), gt(t + ONE - a[0]))),
    "i0-above-one": ("i0", lambda t, a: ge(t - ONE)),
}
"""name → (function, statement about its value t at arguments a)."""

PAIR_AXIOMS: dict[str, tuple[str, Callable[[Rational, Rational, Rational, Rational], Cond]]] = {
    "exp-increasing": ("exp", lambda t, a, u, b: both(same(ge(t - u), ge(a - b)), same(gt(t - u), gt(a - b)))),
    "log-increasing": ("log", lambda t, a, u, b: implies(both(gt(a), gt(b)), both(same(ge(t - u), ge(a - b)), same(gt(t - u), gt(a - b))))),
    "erf-increasing": ("erf", lambda t, a, u, b: same(gt(t - u), gt(a - b))),
    "atan-increasing": ("atan", lambda t, a, u, b: same(gt(t - u), gt(a - b))),
}

PAIRED = tuple(dict.fromkeys(kind for kind, _ in PAIR_AXIOMS.values()))
"""The functions that have axioms about two of their values."""


def of(base: Atom) -> Iterator[tuple[str, Cond]]:
    """The instances at one atom."""
    t = of_atom(base)
    match base.kind:
        case "size":
            yield "size-at-least-one", ge(t - ONE)
        case "ind":
            (cond,) = base.args
            yield "indicator", either(both(cond, eq(t - ONE)), both(no(cond), eq(t)))
        case "ite":
            cond, x, y = base.args
            yield "choice", either(both(cond, eq(t - x)), both(no(cond), eq(t - y)))
    for name, (kind, statement) in AXIOMS.items():
        if kind == base.kind:
            yield name, statement(t, base.args)


def of_pair(x: Atom, y: Atom) -> Iterator[tuple[str, Cond]]:
    for name, (kind, statement) in PAIR_AXIOMS.items():
        if kind == x.kind == y.kind:
            yield name, statement(of_atom(x), x.args[0], of_atom(y), y.args[0])


__all__ = ["AXIOMS", "PAIR_AXIOMS", "ZERO", "of", "of_pair"]
