"""Ranges of formulas: intervals with exact ends, for the signs that simplifications and proofs need."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, TypeAlias

from flint import arb, fmpq

from hnfc.dialects.interval import Interval, ends_around
from hnfc.dialects.num import OPERATIONS
from hnfc.dsl.core import Axis, Literal
from hnfc.dsl.error.polynomial import ErrorAtom, Poly, content, of_mono
from hnfc.dsl.polynomials import Exponent

Bounds: TypeAlias = tuple[Fraction | float, Fraction | float]
"""Least and greatest value: exact, or an infinity."""

EVERYTHING: Bounds = (-math.inf, math.inf)


class Intervals:
    """Signs of formulas. `known`: the interval of each captured value."""

    def __init__(self, known: Mapping[str, Bounds] | None = None) -> None:
        self.known = dict(known or {})
        self.nonnegative: set[str] = set()
        """Formulas that are not negative, by their keys."""
        self._bounds: dict[str, Bounds] = {}

    def assume_nonnegative(self, x: Poly) -> None:
        """x ≥ 0 from here on: a root or a logarithm of it is defined."""
        lone = x.single()
        if lone and len(lone[0]) == 1 and lone[0][0][0].kind == "var" and lone[0][0][1] == 1:
            name = lone[0][0][0].args[0]
            lo, hi = self.known.get(name, EVERYTHING)
            self.known[name] = (max(lo, Fraction(0)), hi) if lone[1] > 0 else (lo, min(hi, Fraction(0)))
            self._bounds.clear()
        c, mono, rest = content(x)
        if len(rest.terms) > 1 and all(self.sign(of_mono({a: e})) > 0 for a, e in mono):
            self.nonnegative |= {x.key, rest.scale(1 if c > 0 else -1).key}
            self._bounds.clear()

    def sign(self, x: Poly) -> int:
        """1 for x ≥ 0, -1 for x ≤ 0, 0 where neither is known."""
        lo, hi = self.bounds(x)
        if lo >= 0:
            return 1
        return -1 if hi <= 0 else 0

    def bounds(self, x: Poly) -> Bounds:
        if x.key not in self._bounds:
            self._bounds[x.key] = EVERYTHING  # while it is being computed
            self._bounds[x.key] = self._compute_bounds(x)
        return self._bounds[x.key]

    def _compute_bounds(self, x: Poly) -> Bounds:
        lo: Fraction | float = Fraction(0)
        hi: Fraction | float = Fraction(0)
        for mono, c in x.terms.items():
            part: Bounds = (Fraction(1), Fraction(1))
            for atom, e in mono:
                part = _times(part, _power(self._atom_bounds(atom), e))
            part = _times(part, (c, c))
            lo, hi = lo + part[0], hi + part[1]
        if lo < 0 and x.key in self.nonnegative:
            return Fraction(0), max(hi, Fraction(0))
        if hi > 0 and (-x).key in self.nonnegative:
            return min(lo, Fraction(0)), Fraction(0)
        if lo < 0 < hi and len(x.terms) > 1:
            side = self._against_extreme(x)
            if side:
                return (Fraction(0), hi) if side > 0 else (lo, Fraction(0))
        return lo, hi

    def _against_extreme(self, x: Poly) -> int:
        """1 for max(p) - p and p - min(p), -1 for their negations."""
        for mono, c in x.terms.items():
            if len(mono) == 1 and mono[0][1] == 1 and mono[0][0].kind in ("max", "min") and not mono[0][0].args[2]:
                rest = Poly({m: -d / c for m, d in x.terms.items() if m != mono})
                if rest == mono[0][0].args[1]:
                    return (1 if c > 0 else -1) * (1 if mono[0][0].kind == "max" else -1)
        return 0

    def _atom_bounds(self, atom: ErrorAtom) -> Bounds:
        match atom.kind:
            case "var":
                return self.known.get(atom.args[0], EVERYTHING)
            case "size":
                return Fraction(1), math.inf
            case "ind":
                return Fraction(0), Fraction(1)
            case "sign":
                return Fraction(-1), Fraction(1)
            case "abs":
                lo, hi = self.bounds(atom.args[0])
                return (lo, hi) if lo >= 0 else (-hi, -lo) if hi <= 0 else (Fraction(0), max(-lo, hi))
            case "exp":
                lo, hi = self.bounds(atom.args[0])
                return _exp(lo, -1), _exp(hi, 1)
            case "base" | "max" | "min":
                return self.bounds(atom.args[1] if atom.kind in ("max", "min") else atom.args[0])
            case "move":
                return self._moved_bounds(*atom.args)
            case "sum":
                lo, hi = self.bounds(atom.args[1])
                if self._holds_its_maximum(*atom.args[:2]):
                    lo = max(lo, Fraction(1))
                return (lo if lo >= 0 else -math.inf), (hi if hi <= 0 else math.inf)
            case "prod":
                lo, _ = self.bounds(atom.args[1])
                return (Fraction(0) if lo >= 0 else -math.inf), math.inf
            case "matmul" | "conv":
                lo, hi = _times(self.bounds(atom.args[0]), self.bounds(atom.args[1]))
                return (Fraction(0) if lo >= 0 else -math.inf), (Fraction(0) if hi <= 0 else math.inf)
            case "fn":
                return self._function_bounds(*atom.args)
        return EVERYTHING

    def _holds_its_maximum(self, axes: tuple[Axis, ...], body: Poly) -> bool:
        """Return whether the body is exp(p - max p), which is 1 somewhere along the axes."""
        lone = body.single()
        if not lone or lone[1] != 1 or len(lone[0]) != 1 or lone[0][0][0].kind != "exp":
            return False
        exponent = lone[0][0][0].args[0].scale(Fraction(lone[0][0][1]))
        return any(a.kind == "max" and a.args[0] == axes for a in exponent.atoms) and self._against_extreme(exponent) < 0

    def _moved_bounds(self, values: tuple[Poly, ...], name: str, attributes: tuple[tuple[str, Any], ...]) -> Bounds:
        found = [self.bounds(x) for x in (values if name == "concat" else values[:1])]
        padding = dict(attributes).get("value")
        if padding is not None:
            if not isinstance(padding, Literal) or not isinstance(padding.value, Fraction):
                return EVERYTHING
            found.append((padding.value, padding.value))
        return min(lo for lo, _ in found), max(hi for _, hi in found)

    def _function_bounds(self, name: str, operands: tuple[Poly, ...], attributes: tuple[tuple[str, Any], ...]) -> Bounds:
        """The range that the operation declares."""
        if attributes and not all(isinstance(value, str | float | int) for _, value in attributes):
            return EVERYTHING
        if name == "log":
            lo, hi = self.bounds(operands[0])
            return _log(lo, -1), _log(hi, 1)
        inner = [Interval(ends_around(lo)[0], ends_around(hi)[1]) for lo, hi in map(self.bounds, operands)]
        found: Interval = OPERATIONS[name].FACTS.range(*inner, **dict(attributes))
        return _exact(found.lo), _exact(found.hi)


def _times(a: Bounds, b: Bounds) -> Bounds:
    corners = [_product(x, y) for x in a for y in b]
    return min(corners), max(corners)


def _product(x: Fraction | float, y: Fraction | float) -> Fraction | float:
    return Fraction(0) if x == 0 or y == 0 else x * y


def _power(a: Bounds, e: Exponent) -> Bounds:
    lo, hi = a
    if not isinstance(e, int):
        return (Fraction(0), math.inf) if not (lo >= 1 and e > 0) else (Fraction(1), math.inf)
    if e == 1:
        return a
    if e < 0:
        lo, hi = _power(a, -e)
        if lo >= 0:
            return (1 / hi if isinstance(hi, Fraction) and hi else Fraction(0)), (1 / lo if lo > 0 else math.inf)
        if hi <= 0:
            return (1 / hi if hi < 0 else -math.inf), (1 / lo if isinstance(lo, Fraction) and lo else Fraction(0))
        return EVERYTHING
    if e > 64:
        return (Fraction(0) if lo >= 0 or e % 2 == 0 else -math.inf), (Fraction(0) if hi <= 0 and e % 2 else math.inf)
    corners = [_raised(lo, e), _raised(hi, e)]
    least, greatest = min(c[0] for c in corners), max(c[1] for c in corners)
    return (Fraction(0) if e % 2 == 0 and lo < 0 < hi else least), greatest


def _raised(x: Fraction | float, e: int) -> Bounds:
    """Bounds of x^e for e > 0; of what is huge only that it is."""
    if isinstance(x, Fraction) and abs(x) <= _HUGE:
        return x**e, x**e
    positive = x > 0 or e % 2 == 0
    return (Fraction(_HUGE), math.inf) if positive else (-math.inf, Fraction(-_HUGE))


_HUGE = 2**64


def _exp(x: Fraction | float, direction: int) -> Fraction | float:
    """A bound of exp(x) from below (direction -1) or above (1)."""
    if x > 700:
        return math.inf if direction > 0 else Fraction(2) ** 1000
    if x < -700:
        return Fraction(0) if direction < 0 else Fraction(1, 2**1000)
    return _end(arb.exp, Fraction(x), direction)


def _log(x: Fraction | float, direction: int) -> Fraction | float:
    """A bound of log(x) from below (direction -1) or above (1)."""
    if x <= 0 or x == math.inf:
        return math.inf if direction > 0 and x > 1 else -math.inf if direction < 0 and x < 1 else Fraction(0)
    return _end(arb.log, Fraction(x), direction)


def _end(function: Callable[[arb], arb], x: Fraction, direction: int) -> Fraction:
    """The lower (direction -1) or upper (1) end of a ball that holds f(x)."""
    ball = function(arb(fmpq(x.numerator, x.denominator)))
    end = (ball.lower() if direction < 0 else ball.upper()).fmpq()
    return Fraction(int(end.p), int(end.q))


def _exact(x: float) -> Fraction | float:
    return Fraction(x) if math.isfinite(x) else x
