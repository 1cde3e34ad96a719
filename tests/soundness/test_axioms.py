"""What the prover believes, tried to fifty digits: axioms at values of their functions, theorems at tensors, both in ball arithmetic."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import pytest
from flint import arb, fmpq

from hnfc.dsl.core import Rule
from hnfc.dsl.soundness import axioms, elements
from hnfc.dsl.soundness.array_moves import ShapeMismatch
from hnfc.dsl.soundness.axioms import Axiom, Theorem
from hnfc.dsl.soundness.balls import evaluate, precision
from hnfc.dsl.soundness.element_roundings import rounding_to
from hnfc.dsl.soundness.elements import UNDEFINED, Mark
from hnfc.dsl.soundness.outcome import holds
from hnfc.dsl.soundness.sampling import Sampler
from hnfc.dsl.soundness.term import FALSE, TRUE, Proposition, Rational, atom, of_atom
from tests.soundness.reading import rule_of

BITS = 256
DIGITS = 50

FUNCTIONS: dict[str, Callable[..., Any]] = {
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
    "pi": lambda x: arb.pi(),
    "i0": lambda x: x.bessel_i(0),
    "round to": lambda x: arb(rounded) if (rounded := rounding_to("f16")(x.fmpq())) is not UNDEFINED else None,
    "size": lambda x: abs(x).floor() + 1,
    "ix": lambda x: abs(x).floor(),
}
"""Each function by flint, at a ball; a size and an index are any integers from 1 and from 0."""

CORNERS = [Fraction(k, 8) for k in range(-40, 41)] + [Fraction(s, 2**k) for s in (1, -1) for k in (10, 20, 100)] + [
    Fraction(s * k) for s in (1, -1) for k in (30, 300, 4000)
]  # fmt: skip


def values(seed: int, count: int) -> list[Fraction]:
    """Corners, and random fractions of every size; all are exact as balls."""
    choose = random.Random(seed)
    drawn = [Fraction(choose.randint(-(2**60), 2**60), 2 ** choose.choice((50, 57, 60, 64, 90))) for _ in range(count)]
    return [*CORNERS, *drawn]


def ball(x: Fraction) -> arb:
    return arb(fmpq(x.numerator, x.denominator))


def value(x: Rational, known: dict[Any, arb]) -> arb:
    def terms(source: Any) -> arb:
        result = arb(0)
        for mono, c in source.items():
            part = ball(c)
            for base, e in mono:
                part *= known[base] ** int(e)
            result += part
        return result

    return terms(x.num) / terms(x.den)


def truth(cond: Proposition, known: dict[Any, arb]) -> bool | None:
    """None where the balls cannot tell."""
    match cond.kind:
        case "true" | "false":
            return cond.kind == "true"
        case "not":
            inner = truth(cond.args[0], known)
            return None if inner is None else not inner
        case "and" | "or":
            found = [truth(part, known) for part in cond.args]
            stop = cond.kind == "or"
            return stop if stop in found else None if None in found else not stop
    v = value(cond.args[0], known)
    sign = 1 if v > 0 else -1 if v < 0 else 0 if v.is_zero() else None
    if cond.kind == ">=" and v >= 0:
        return True
    if cond.kind == ">" and v <= 0:
        return False
    return None if sign is None else sign in {">": (1,), ">=": (0, 1), "=": (0,)}[cond.kind]


def in_domain(kind: str, x: Fraction) -> bool:
    return x > 0 if kind == "log" else abs(x) <= 1 if kind in ("asin", "acos") else True


def judged(axiom: Axiom, points: list[tuple[Fraction, ...]]) -> tuple[int, list[tuple[Fraction, ...]]]:
    """How many points confirm the axiom, and those at which the balls touch so that they cannot tell. A point that denies it fails."""
    names = [atom("cap", name, ()) for name in ("x", "y")[: len(points[0])]]
    results = [atom(axiom.function, of_atom(name)) for name in names]
    pairs = [part for t, x in zip(results, names, strict=True) for part in (of_atom(t), (of_atom(x),))]
    cond = axiom.instance(*pairs)
    confirmed, touching = 0, []
    for point in points:
        known = dict(zip(names, map(ball, point), strict=True))
        known |= {t: FUNCTIONS[axiom.function](known[x]) for t, x in zip(results, names, strict=True)}
        holds_here = truth(cond, known)
        assert holds_here is not False, (axiom.name, point)
        if holds_here:
            confirmed += 1
        else:
            touching.append(point)
    return confirmed, touching


ONE_VALUE = [a for a in axioms.AXIOMS if a.function not in ("ind", "ite")]


@pytest.mark.parametrize("axiom", ONE_VALUE, ids=lambda a: a.name)
def test_axiom(axiom: Axiom) -> None:
    with precision(BITS):
        points = [(v,) for v in values(1, 500) if in_domain(axiom.function, v)]
        confirmed, touching = judged(axiom, points)
    # both sides of some axioms are equal in one point; beyond e^±4000 and erf(±13) a ball of 256 bits holds the bound itself
    assert confirmed > 0.8 * len(points)
    assert all(v in (0, 1) or abs(v) >= 13 for (v,) in touching), touching


@pytest.mark.parametrize("axiom", axioms.PAIR_AXIOMS, ids=lambda a: a.name)
def test_pair_axiom(axiom: Axiom) -> None:
    choose = random.Random(0)
    pool = [v for v in values(2, 200) if in_domain(axiom.function, v)]
    points = [(choose.choice(pool), choose.choice(pool)) for _ in range(1500)]
    points += [(v, v + Fraction(1, 10**DIGITS)) for v in pool[:120] if abs(v) < 5]
    with precision(2 * BITS):
        confirmed, touching = judged(axiom, points)
    assert confirmed > 0.8 * len(points)
    assert all(v == w or max(abs(v), abs(w)) >= 13 for v, w in touching), touching


@pytest.mark.parametrize("name", ["indicator", "choice"])
def test_a_choice_has_one_value(name: str) -> None:
    (axiom,) = (a for a in axioms.AXIOMS if a.name == name)
    t, a, b = (atom("cap", n, ()) for n in "tab")
    for cond, pick in ((TRUE, 0), (FALSE, 1)):
        branches = (1, 0) if name == "indicator" else (3, 7)
        args = (cond,) if name == "indicator" else (cond, of_atom(a), of_atom(b))
        for given in (0, 1, 3, 7):
            known = {t: arb(given), a: arb(3), b: arb(7)}
            assert truth(axiom.instance(of_atom(t), args), known) is (given == branches[pick])


def test_a_wrong_axiom_is_found() -> None:
    wrong = Axiom("wrong", "exp", "2·a ≤ exp a - 1", lambda t, a: axioms.ge(t - axioms.ONE - a[0].scale(Fraction(2))))
    with pytest.raises(AssertionError, match="wrong"), precision(BITS):
        judged(wrong, [(v,) for v in CORNERS])


def test_names_are_names() -> None:
    names = [entry.name for entry in (*axioms.AXIOMS, *axioms.PAIR_AXIOMS, *axioms.THEOREMS)]
    assert len(names) == len(set(names))


# Theorems ------------------------------------------------------------------------------------------------------------


def rule_for(theorem: Theorem) -> Rule:
    where = f"\n where {theorem.where}" if theorem.where else ""
    return rule_of(f"({theorem.left}) => ({theorem.right}){where}")


def sides(rule: Rule, seed: int, tries: int) -> Iterator[tuple[Any, Any]]:
    """Elements of both sides where the left is defined and the conditions hold."""
    sampler = Sampler(rule, random.Random(f"{rule.name}/{seed}"))
    for _ in range(tries):
        point = sampler.point()
        tensors = point.tensors()
        try:
            if holds(rule.where, point, tensors) is not True:
                continue
            left = evaluate(rule.pattern, tensors, point.axes, 0)
            right = evaluate(rule.replacement, tensors, point.axes, 0)
        except (ShapeMismatch, ValueError, IndexError):
            continue
        shape = (left + right).shape
        rank = len(shape)
        for place in itertools.product(*map(range, shape)):
            pair = []
            for side in (left, right):
                own = side.values.shape
                pair.append(side.values[tuple(i if n > 1 else 0 for i, n in zip(place[rank - len(own) :], own, strict=True))])
            if not isinstance(pair[0], Mark):
                yield pair[0], pair[1]


@pytest.mark.sampled(20)
@pytest.mark.parametrize("theorem", axioms.THEOREMS, ids=lambda t: t.name)
def test_theorem(theorem: Theorem) -> None:
    """Fifty digits of both sides agree at a hundred elements and more; inequalities hold, and are decided but for ties."""
    rule = rule_for(theorem)
    confirmed = 0
    with precision(BITS):
        for left, right in sides(rule, 0, 2500):
            assert right is not elements.UNDEFINED, f"{theorem.name}: the right side is undefined"
            if isinstance(right, Mark):
                continue
            x, y = arb(elements.number(left)), arb(elements.number(right))
            gap = x - y
            if theorem.relation == "=":
                assert gap.contains(0), f"{theorem.name}: {x} and {y}"
                confirmed += bool(abs(gap) <= arb(10) ** -DIGITS * (1 + abs(x)))
            else:
                assert not (gap < 0 or (theorem.relation == ">" and gap.is_zero())), f"{theorem.name}: {x} and {y}"
                confirmed += bool(gap > 0 if theorem.relation == ">" else gap >= 0)
            if confirmed >= 400:
                break
    assert confirmed >= 100, f"{confirmed} elements confirm {theorem.name}"


def test_a_wrong_theorem_is_found() -> None:
    with pytest.raises(AssertionError, match="no-theorem"):
        test_theorem(Theorem("no-theorem", (), "log(a * b)", "log(abs(a)) + log(b)", "a * b > 0 and b != 0"))
    with pytest.raises(AssertionError, match="no-theorem"):
        test_theorem(Theorem("no-theorem", (), "sqrt(a * a)", "a"))
