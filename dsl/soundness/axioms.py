"""Assumptions on functions that are not polynomial: axioms, of which Z3 is given instances at the terms that occur, and
theorems, by which normal forms are made. This is the whole list; `tests/soundness/test_axioms.py` tries each to fifty digits.

Arithmetic itself (sums, products, quotients of reals; polynomials and their signs) is not listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from hnfc.dsl.soundness.term import ONE, Atom, Proposition, Rational, const, of_atom


def ge(x: Rational) -> Proposition:
    return Proposition(">=", x)


def gt(x: Rational) -> Proposition:
    return Proposition(">", x)


def eq(x: Rational) -> Proposition:
    return Proposition("=", x)


def no(cond: Proposition) -> Proposition:
    return Proposition("not", cond)


def either(*conds: Proposition) -> Proposition:
    return Proposition("or", *conds)


def both(*conds: Proposition) -> Proposition:
    return Proposition("and", *conds)


def same(p: Proposition, q: Proposition) -> Proposition:
    return either(both(p, q), both(no(p), no(q)))


def implies(p: Proposition, q: Proposition) -> Proposition:
    return either(no(p), q)


def within(t: Rational, bound: Fraction) -> Proposition:
    """-bound < t < bound"""
    return both(gt(const(bound) - t), gt(const(bound) + t))


def same_order(x: Rational, y: Rational) -> Proposition:
    """x and y have the same sign."""
    return both(same(ge(x), ge(y)), same(gt(x), gt(y)))


@dataclass(frozen=True)
class Axiom:
    """A statement about a value of a function, or about two.

    function: the kind of atom. statement: in mathematics; it holds wherever the function is defined. instance: the statement about the
    value t at arguments a (and the value u at arguments b).
    """

    name: str
    function: str
    statement: str
    instance: Callable[..., Proposition]


AXIOMS: tuple[Axiom, ...] = (
    Axiom("exp-positive", "exp", "0 < exp a", lambda t, a: gt(t)),
    Axiom("exp-above-tangent", "exp", "1 + a ≤ exp a", lambda t, a: ge(t - ONE - a[0])),
    Axiom("exp-below-hyperbola", "exp", "(1 - a)·exp a ≤ 1", lambda t, a: ge(ONE - t * (ONE - a[0]))),
    Axiom("exp-sign", "exp", "0 ≤ a iff 1 ≤ exp a, 0 < a iff 1 < exp a", lambda t, a: same_order(a[0], t - ONE)),
    Axiom("log-below-tangent", "log", "log a ≤ a - 1", lambda t, a: implies(gt(a[0]), ge(a[0] - ONE - t))),
    Axiom("log-above-hyperbola", "log", "a - 1 ≤ a·log a", lambda t, a: implies(gt(a[0]), ge(t * a[0] - a[0] + ONE))),
    Axiom(
        "log-sign", "log", "0 ≤ log a iff 1 ≤ a, 0 < log a iff 1 < a",
        lambda t, a: implies(gt(a[0]), same_order(t, a[0] - ONE)),
    ),
    Axiom(
        "abs-square", "abs", "0 ≤ |a|, a ≤ |a|, -a ≤ |a|, and |a| is a or -a",
        lambda t, a: both(ge(t), ge(t - a[0]), ge(t + a[0]), either(eq(t - a[0]), eq(t + a[0]))),
    ),
    Axiom("erf-bounded", "erf", "-1 < erf a < 1", lambda t, a: within(t, Fraction(1))),
    Axiom("erf-sign", "erf", "erf a has the sign of a", lambda t, a: same_order(t, a[0])),
    Axiom("sin-bounded", "sin", "-1 ≤ sin a ≤ 1", lambda t, a: both(ge(ONE - t), ge(ONE + t))),
    Axiom("cos-bounded", "cos", "-1 ≤ cos a ≤ 1", lambda t, a: both(ge(ONE - t), ge(ONE + t))),
    Axiom("atan-bounded", "atan", "-11/7 < atan a < 11/7", lambda t, a: within(t, Fraction(11, 7))),
    Axiom("atan-sign", "atan", "atan a has the sign of a", lambda t, a: same_order(t, a[0])),
    Axiom("asin-bounded", "asin", "-11/7 < asin a < 11/7", lambda t, a: within(t, Fraction(11, 7))),
    Axiom("asin-sign", "asin", "asin a has the sign of a", lambda t, a: same_order(t, a[0])),
    Axiom("acos-bounded", "acos", "0 ≤ acos a < 22/7", lambda t, a: both(ge(t), gt(const(Fraction(22, 7)) - t))),
    Axiom(
        "pi-bounds", "pi", "π is between 3.14159265358979323 and 3.14159265358979324",
        lambda t, a: both(gt(t - const(Fraction("3.14159265358979323"))), gt(const(Fraction("3.14159265358979324")) - t)),
    ),
    Axiom("floor-below", "floor", "floor a ≤ a < floor a + 1", lambda t, a: both(ge(a[0] - t), gt(t + ONE - a[0]))),
    Axiom("i0-above-one", "i0", "1 ≤ I₀ a", lambda t, a: ge(t - ONE)),
    Axiom(
        "round-sign", "round to", "a rounded number has the sign of the number, or is 0",
        lambda t, a: both(implies(ge(a[0]), ge(t)), implies(ge(-a[0]), ge(-t))),
    ),
    Axiom("size-at-least-one", "size", "a size is at least 1: what is reduced has an element", lambda t, a: ge(t - ONE)),
    Axiom("index-nonnegative", "ix", "an index is at least 0", lambda t, a: ge(t)),
    Axiom(
        "indicator", "ind", "[p] is 1 where p holds, and 0 elsewhere",
        lambda t, a: either(both(a[0], eq(t - ONE)), both(no(a[0]), eq(t))),
    ),
    Axiom(
        "choice", "ite", "where(p, a, b) is a where p holds, and b elsewhere",
        lambda t, a: either(both(a[0], eq(t - a[1])), both(no(a[0]), eq(t - a[2]))),
    ),
)  # fmt: skip
"""About one value."""

PAIR_AXIOMS: tuple[Axiom, ...] = (
    Axiom("exp-increasing", "exp", "a < b iff exp a < exp b", lambda t, a, u, b: same_order(t - u, a[0] - b[0])),
    Axiom(
        "log-increasing", "log", "a < b iff log a < log b",
        lambda t, a, u, b: implies(both(gt(a[0]), gt(b[0])), same_order(t - u, a[0] - b[0])),
    ),
    Axiom("erf-increasing", "erf", "a < b iff erf a < erf b", lambda t, a, u, b: same(gt(t - u), gt(a[0] - b[0]))),
    Axiom("atan-increasing", "atan", "a < b iff atan a < atan b", lambda t, a, u, b: same(gt(t - u), gt(a[0] - b[0]))),
)  # fmt: skip
"""About two values of one function."""

PAIRED = tuple(dict.fromkeys(axiom.function for axiom in PAIR_AXIOMS))
"""The functions that have axioms about two of their values."""


def by_function(axioms: tuple[Axiom, ...]) -> dict[str, list[Axiom]]:
    return {function: [a for a in axioms if a.function == function] for function in {a.function for a in axioms}}


_OF_ONE, _OF_TWO = by_function(AXIOMS), by_function(PAIR_AXIOMS)


def of(base: Atom) -> Iterator[tuple[str, Proposition]]:
    """The instances at one atom."""
    for axiom in _OF_ONE.get("round to" if base.kind.startswith("round to") else base.kind, ()):
        yield axiom.name, axiom.instance(of_atom(base), base.args)


def of_pair(x: Atom, y: Atom) -> Iterator[tuple[str, Proposition]]:
    """The instances at two atoms of one function."""
    for axiom in _OF_TWO.get(x.kind, ()):
        yield axiom.name, axiom.instance(of_atom(x), x.args, of_atom(y), y.args)


@dataclass(frozen=True)
class Theorem:
    """An identity or inequality, as a text of the rule language: left `relation` right wherever the left side is defined and `where` holds.

    functions: the operations whose normal form rests on it, or that Z3 knows by it.
    """

    name: str
    functions: tuple[str, ...]
    left: str
    right: str
    where: str = ""
    relation: str = "="


EXP, LOG, POWER, TURN = ("exp",), ("log",), ("sqrt", "pow"), ("sin", "cos")
ARCS = ("asin", "acos")
SUM, PROD, EXTREME = ("sum",), ("prod",), ("largest", "least")

THEOREMS: tuple[Theorem, ...] = (
    # exponentials and logarithms
    Theorem("exp-of-sum", EXP, "exp(a + b)", "exp(a) * exp(b)"),
    Theorem("exp-of-multiple", (*EXP, *POWER), "exp(a * const c)", "exp(a) ** c"),
    Theorem("exp-of-log", EXP, "exp(const c * log(a))", "a ** c"),
    Theorem("exp-injective", EXP, "(exp(a) - 1) * a", "0", "a != 0", ">"),
    Theorem("log-of-product", LOG, "log(a * b)", "log(a) + log(b)", "a > 0 and b > 0"),
    Theorem("log-of-two-negatives", LOG, "log(a * b)", "log(-a) + log(-b)", "a < 0 and b < 0"),
    Theorem("log-of-power", LOG, "log(a ** const c)", "c * log(a)", "a > 0"),
    Theorem("log-of-inverse", LOG, "log(1 / a)", "-log(a)"),
    Theorem("log-of-exp", LOG, "log(exp(a))", "a"),
    Theorem("log-of-prod", LOG, "log(prod[k](a))", "sum[k](log(a))", "a > 0"),
    # powers and roots
    Theorem("power-positive", POWER, "a ** const c", "0", "a > 0", ">"),
    Theorem("root-nonnegative", POWER, "sqrt(a)", "0", "", ">="),
    Theorem("root-power", POWER, "sqrt(a) * sqrt(a)", "a"),
    Theorem("root-power-of-three", POWER, "(a ** (1 / 3)) ** 3", "a", "a >= 0"),
    Theorem("power-of-product", POWER, "(a * b) ** const c", "a ** c * b ** c", "a > 0 and b > 0"),
    Theorem("root-of-product", POWER, "sqrt(a * b)", "sqrt(a) * sqrt(b)", "a >= 0 and b >= 0"),
    Theorem("root-of-two-negatives", POWER, "sqrt(a * b)", "sqrt(-a) * sqrt(-b)", "a <= 0 and b <= 0"),
    Theorem("root-of-positive-factor", POWER, "sqrt(a * b)", "sqrt(a) * sqrt(b)", "a > 0"),
    Theorem("root-of-square", POWER, "sqrt(a * a)", "abs(a)"),
    Theorem("power-of-power", POWER, "(a ** const b) ** const c", "a ** (b * c)", "a > 0"),
    Theorem("sum-of-exponents", POWER, "a ** const b * a ** const c", "a ** (b + c)", "a > 0"),
    Theorem("integer-power", POWER, "a ** 3", "a * a * a"),
    Theorem("negative-power", POWER, "a ** (-2)", "1 / (a * a)"),
    Theorem("power-as-exp", POWER, "a ** b", "exp(b * log(a))", "a > 0"),
    Theorem(
        "power-of-negative", POWER, "a ** floor(b)", "exp(floor(b) * log(-a)) * (1 - 2 * where(cos(pi * floor(b)) < 0, 1, 0))", "a < 0"
    ),
    Theorem("power-of-zero", POWER, "(0 * a) ** b", "where(b > 0, 0, 1)"),
    # absolute values, parity, choices
    Theorem("abs-of-positive", ("abs",), "abs(a)", "a", "a >= 0"),
    Theorem("abs-of-negative", ("abs",), "abs(a)", "-a", "a <= 0"),
    Theorem("abs-of-product", ("abs",), "abs(a * b)", "abs(a) * abs(b)"),
    Theorem("max-by-abs", ("max",), "max(a, b)", "(a + b + abs(a - b)) / 2"),
    Theorem("min-by-abs", ("min",), "min(a, b)", "(a + b - abs(a - b)) / 2"),
    Theorem("erf-odd", ("erf",), "erf(-a)", "-erf(a)"),
    Theorem("erf-at-zero", ("erf",), "erf(0 * a)", "0"),
    Theorem("atan-odd", ("atan",), "atan(-a)", "-atan(a)"),
    Theorem("atan-at-zero", ("atan",), "atan(0 * a)", "0"),
    Theorem("asin-odd", ("asin",), "asin(-a)", "-asin(a)"),
    Theorem("asin-at-zero", ("asin",), "asin(0 * a)", "0"),
    Theorem("acos-by-asin", ("acos",), "acos(a)", "pi / 2 - asin(a)"),
    Theorem("asin-of-root", ARCS, "asin(sqrt(a))", "pi / 4 - asin(1 - 2 * a) / 2"),
    Theorem("asin-of-half", ARCS, "asin(1 / 2 + 0 * a)", "pi / 6"),
    Theorem("asin-of-one", ARCS, "asin(1 + 0 * a)", "pi / 2"),
    Theorem("atan-of-one", ("atan",), "atan(1 + 0 * a)", "pi / 4"),
    Theorem("asin-of-sin", ARCS, "asin(sin(a))", "a", "a >= -pi / 2 and a <= pi / 2"),
    Theorem("acos-of-cos", ("acos",), "acos(cos(a))", "a", "a >= 0 and a <= pi"),
    Theorem("atan-of-tan", ("atan",), "atan(sin(a) / cos(a))", "a", "a >= -pi / 2 and a <= pi / 2"),
    Theorem("asin-of-tangent", ("atan",), "atan(a)", "asin(a / sqrt(1 + a * a))"),
    Theorem("atan-of-inverse", ("atan",), "atan(1 / a)", "pi / 2 - atan(a)", "a > 0"),
    Theorem("angle-on-the-right", ("atan2",), "atan2(b, a)", "atan(b / a)", "a > 0"),
    Theorem("angle-on-the-left", ("atan2",), "atan2(b, a)", "atan(b / a) + where(b >= 0, pi, -pi)", "a < 0"),
    Theorem("angle-upright", ("atan2",), "atan2(b, 0 * a)", "where(b > 0, pi / 2, -pi / 2)", "b != 0"),
    Theorem("sin-of-asin", TURN, "sin(asin(a))", "a"),
    Theorem("cos-of-asin", TURN, "cos(asin(a))", "sqrt(1 - a * a)"),
    Theorem("sin-of-atan", TURN, "sin(atan(a))", "a / sqrt(1 + a * a)"),
    Theorem("cos-of-atan", TURN, "cos(atan(a))", "1 / sqrt(1 + a * a)"),
    Theorem("i0-even", ("i0",), "i0(-a)", "i0(a)"),
    Theorem("i0-at-zero", ("i0",), "i0(0 * a)", "1"),
    Theorem("round-odd", ("round to",), "round_to(-a, f16)", "-round_to(a, f16)"),
    Theorem("choice-of-equals", ("ite",), "where(p, a, a)", "a"),
    Theorem("choice-by-indicator", ("ite",), "where(p, a, b)", "where(p, 1, 0) * a + (1 - where(p, 1, 0)) * b"),
    Theorem("floor-of-fraction", ("floor",), "floor(a)", "0", "a >= 0 and a < 1"),
    Theorem("floor-of-shift", ("floor",), "floor(a + floor(b))", "floor(a) + floor(b)"),
    Theorem("floor-of-quotient", ("floor",), "floor((floor(a) + floor(b)) / 3)", "floor((a + floor(b)) / 3)"),
    Theorem(
        "floor-of-negative-quotient", ("floor",), "floor(-floor(a) / floor(b))", "-floor((floor(a) - 1) / floor(b)) - 1", "floor(b) > 0"
    ),
    Theorem("integers-are-discrete", ("floor",), "floor(a)", "1", "floor(a) > 0", ">="),
    # sines and cosines
    Theorem("sin-of-sum", TURN, "sin(a + b)", "sin(a) * cos(b) + cos(a) * sin(b)"),
    Theorem("cos-of-sum", TURN, "cos(a + b)", "cos(a) * cos(b) - sin(a) * sin(b)"),
    Theorem("sin-odd", TURN, "sin(-a)", "-sin(a)"),
    Theorem("sin-at-zero", TURN, "sin(0 * a)", "0"),
    Theorem("cos-even", TURN, "cos(-a)", "cos(a)"),
    Theorem("cos-at-zero", TURN, "cos(0 * a)", "1"),
    Theorem("pythagoras", TURN, "sin(a) * sin(a) + cos(a) * cos(a)", "1"),
    Theorem("multiple-angle", TURN, "cos(3 * a)", "2 * cos(a) * cos(2 * a) - cos(a)"),
    Theorem("multiple-angle-of-sin", TURN, "sin(3 * a)", "2 * cos(a) * sin(2 * a) - sin(a)"),
    Theorem("double-angle", TURN, "cos(2 * a)", "2 * cos(a) * cos(a) - 1"),
    Theorem("double-angle-of-sin", TURN, "sin(2 * a)", "2 * sin(a) * cos(a)"),
    # sums
    Theorem("sum-of-sum", SUM, "sum[k](a + b)", "sum[k](a) + sum[k](b)", "size[k](a) == size[k](b)"),
    Theorem("sum-of-multiple", SUM, "sum[k](c * a)", "c * sum[k](a)", "free[k](c)"),
    Theorem("sum-of-constant", SUM, "sum[k](c + 0 * a)", "size[k](a) * c", "free[k](c)"),
    Theorem("sum-of-sums", SUM, "sum[j](sum[k](a))", "sum[j, k](a)"),
    Theorem("product-of-sums", SUM, "sum[j](a) * sum[k](b)", "sum[j, k](a * b)", "free[k](a) and free[j](b)"),
    Theorem("sum-times-sum", SUM, "sum[k](b * sum[j](a))", "sum[j, k](b * a)", "free[j](b) and size[k](a) == size[k](b)"),
    Theorem("sum-by-parts", SUM, "sum[k](concat[k](a, b))", "sum[k](a) + sum[k](b)"),
    Theorem("sum-in-any-order", SUM, "sum[k](reverse[k](a))", "sum[k](a)"),
    Theorem("term-below-sum", SUM, "sum[k](a)", "a", "a >= 0", ">="),
    Theorem("cauchy-schwarz", SUM, "size[k](a) * sum[k](a * a)", "sum[k](a) * sum[k](a)", "", ">="),
    Theorem("log-sum-exp-bounds", LOG, "log(sum[k](exp(a)))", "a", "", ">="),
    # products
    Theorem("product-of-positives", PROD, "prod[k](a)", "exp(sum[k](log(a)))", "a > 0"),
    Theorem("product-of-product", PROD, "prod[k](a * b)", "prod[k](a) * prod[k](b)", "size[k](a) == size[k](b)"),
    Theorem("product-of-power", PROD, "prod[k](a * a)", "prod[k](a) * prod[k](a)"),
    Theorem("product-vanishes", PROD, "where(a == 0, prod[k](a), 0)", "0"),
    Theorem("product-by-parts", PROD, "prod[k](concat[k](a, b))", "prod[k](a) * prod[k](b)"),
    # extrema
    Theorem("max-of-shift", EXTREME, "max[k](a + c)", "max[k](a) + c", "free[k](c)"),
    Theorem("max-of-multiple", EXTREME, "max[k](c * a)", "c * max[k](a)", "c >= 0 and free[k](c)"),
    Theorem("max-of-negative-multiple", EXTREME, "max[k](c * a)", "c * min[k](a)", "c <= 0 and free[k](c)"),
    Theorem("max-of-negative", EXTREME, "max[k](-a)", "-min[k](a)"),
    Theorem("min-of-shift", EXTREME, "min[k](a + c)", "min[k](a) + c", "free[k](c)"),
    Theorem("min-of-multiple", EXTREME, "min[k](c * a)", "c * min[k](a)", "c >= 0 and free[k](c)"),
    Theorem("max-of-max", EXTREME, "max[j](max[k](a))", "max[j, k](a)"),
    Theorem("max-of-exp", EXTREME, "max[k](exp(a))", "exp(max[k](a))"),
    Theorem("max-of-log", EXTREME, "max[k](log(a))", "log(max[k](a))"),
    Theorem("max-of-root", EXTREME, "max[k](sqrt(a))", "sqrt(max[k](a))"),
    Theorem("min-of-exp", EXTREME, "min[k](exp(a))", "exp(min[k](a))"),
    Theorem("max-by-parts", EXTREME, "max[k](concat[k](a, b))", "max(max[k](a), max[k](b))"),
    Theorem("min-by-parts", EXTREME, "min[k](concat[k](a, b))", "min(min[k](a), min[k](b))"),
    Theorem("extremum-bounds", EXTREME, "max[k](a)", "a", "", ">="),
    Theorem("extremum-bounds-below", EXTREME, "a - min[k](a)", "0", "", ">="),
    Theorem("extremum-attained", EXTREME, "prod[k](max[k](a) - a)", "0 * max[k](a)"),
    Theorem("extremum-attained-below", EXTREME, "prod[k](a - min[k](a))", "0 * min[k](a)"),
    # signs of reductions
    Theorem("sign-of-reduction", SUM, "sum[k](a)", "0", "a > 0", ">"),
    Theorem("sign-of-reduction-weakly", SUM, "sum[k](a)", "0", "a >= 0", ">="),
    Theorem("sign-of-product", PROD, "prod[k](a)", "0", "a > 0", ">"),
    Theorem("sign-of-product-nonzero", PROD, "abs(prod[k](a))", "0", "a != 0", ">"),
    Theorem("sign-of-maximum", EXTREME, "max[k](a)", "0", "a > 0", ">"),
    Theorem("sign-of-minimum", EXTREME, "min[k](a)", "0", "a > 0", ">"),
)
"""Two more facts are used and need no numbers: a function has equal values at equal arguments, and Z3's own arithmetic."""


__all__ = ["AXIOMS", "PAIRED", "PAIR_AXIOMS", "THEOREMS", "Axiom", "Theorem", "of", "of_pair"]
