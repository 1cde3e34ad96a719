"""Functions and reductions of polynomials, simplified by what is known of signs.

Every simplification is an identity where both sides are defined. Signs come from intervals: those of the rule's `where`, of what makes
its left side defined, and of the ranges that the operations of the dialect declare.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from hnfc.dsl.core import Axis, Capture, Expr, Literal
from hnfc.dsl.error.intervals import EVERYTHING, Bounds, Intervals
from hnfc.dsl.error.polynomial import (
    ONE,
    POSITIVE,
    ZERO,
    ErrorAtom,
    Poly,
    const,
    content,
    excluded,
    joined,
    lowered,
    multiplied,
    of_atom,
    of_mono,
    power,
    under,
)
from hnfc.dsl.error.simplifying import Simplifying
from hnfc.dsl.polynomials import Exponent

NOTHING = Literal(Fraction(0))
"""The padding that adds nothing."""


class Algebra(Intervals, Simplifying):
    """The constructors of one analysis. `known`: the interval in which each captured value lies."""

    def __init__(self, known: Mapping[str, Bounds] | None = None) -> None:
        Intervals.__init__(self, known)
        Simplifying.__init__(self)
        self.lengths: dict[Any, Poly] = {}
        """Sizes that movement gives to axes of new tensors."""

    # functions

    def function(self, name: str, *operands: Poly, attributes: tuple[tuple[str, Any], ...] = ()) -> Poly:
        """The value of an operation of the dialect that is nothing simpler."""
        return of_atom(ErrorAtom("fn", (name, tuple(operands), attributes), joined(x.vary for x in operands)))

    def exp(self, x: Poly) -> Poly:
        """exp(c·p) = exp(p)^c, exp(c·log a) = a^c."""
        if x.zero:
            return ONE
        lone = x.single()
        if lone and len(lone[0]) == 1 and lone[0][0][1] == 1 and is_function(lone[0][0][0], "log"):
            return power(lone[0][0][0].args[1][0], lone[1])
        c, mono, rest = content(x)
        inner = multiplied(of_mono(dict(mono)), rest)
        return of_atom(ErrorAtom("exp", (inner,), inner.vary), c)

    def log(self, x: Poly) -> Poly:
        """log exp(p) = p, log 1 = 0."""
        if x == ONE:
            return ZERO
        lone = x.single()
        if lone and lone[1] == 1 and len(lone[0]) == 1 and lone[0][0][0].kind == "exp":
            return lone[0][0][0].args[0].scale(Fraction(lone[0][0][1]))  # type: ignore[no-any-return]
        return self.function("log", x)

    def absolute(self, x: Poly) -> Poly:
        """|c·p·q| = |c|·|p|·|q|, and |p| = ±p where the sign is known. Where one of several conditions holds, each term has its own."""
        if x.zero:
            return ZERO
        if len(x.terms) > 1 and (choice := self._by_cases(x)) is not None:
            return choice
        sign = self.sign(x)
        if sign and not any(a.kind in ("abs", "sign", "fn") for a in x.atoms):
            return x.scale(sign)
        below, top = lowered(x, "var")
        if below != ONE and len(x.terms) > 1:
            return self.absolute(below) * self.absolute(top)
        c, mono, rest = content(x)
        result = const(abs(c))
        for atom, e in mono:
            result = multiplied(result, self._absolute_power(atom, e))
        if rest == ONE:
            return result
        sign = self.sign(rest)
        return result * (rest.scale(sign) if sign else of_atom(ErrorAtom("abs", (rest,), rest.vary)))

    def _by_cases(self, x: Poly) -> Poly | None:
        """|[p]·a + [not p]·b| = [p]·|a| + [not p]·|b|."""
        for atom in sorted(a for a in x.atoms if a.kind == "ind"):
            sides = [atom, *(b for b in x.atoms if b.kind == "ind" and excluded(atom, b))]
            if len(sides) == 2 and all(any(side in dict(mono) for side in sides) for mono in x.terms):
                return sum((multiplied(of_atom(side), self.absolute(under(x, side))) for side in sides), ZERO)
        return None

    def _absolute_power(self, atom: ErrorAtom, e: Exponent) -> Poly:
        if atom.kind == "sign":
            return ONE
        if atom.kind == "abs" and (sign := self.sign(atom.args[0])):
            return power(atom.args[0].scale(sign), e)
        if not isinstance(e, int) or e % 2 == 0 or atom.kind in POSITIVE or atom.kind == "ind":
            return of_mono({atom: e})
        sign = self.sign(of_atom(atom))
        if sign > 0 or (sign and atom.kind != "fn"):
            return of_mono({atom: e}, sign)
        if atom.kind == "base":
            return power(self.absolute(atom.args[0]), e)
        if atom.kind == "move" and dict(atom.args[2]).get("value", NOTHING) == NOTHING:
            values, name, attributes = atom.args
            count = len(values) if name == "concat" else 1
            inside = (*map(self.absolute, values[:count]), *values[count:])
            return of_atom(ErrorAtom("move", (inside, name, attributes), atom.vary), e)
        return of_atom(ErrorAtom("abs", (of_atom(atom),), atom.vary), e)

    def direction(self, x: Poly) -> Poly:
        """sign(x), the derivative of |x|."""
        sign = self.sign(x)
        if sign:
            return const(sign)
        c, mono, rest = content(x)
        inner = multiplied(of_mono(dict(mono)), rest)
        return of_atom(ErrorAtom("sign", (inner,), inner.vary)).scale(1 if c > 0 else -1)

    def indicator(self, condition: Any, vary: Mapping[Any, frozenset[Any]]) -> Poly:
        """1 where the condition holds, else 0."""
        return of_atom(ErrorAtom("ind", (condition,), vary))

    # reductions; `like` is an expression in the shape of the operand, `shape` says what its sizes depend on

    def size(self, axes: Iterable[Axis], shape: Mapping[Axis, frozenset[Any]], like: Expr) -> Poly:
        """The number of elements along the axes of a tensor of this shape."""
        result = ONE
        for axis in axes:
            members = shape.get(axis)
            if members:
                (first, *others) = members
                known = None if others else self.lengths.get(first)
                result = result * (of_atom(ErrorAtom("size", (axis, members), {}, like)) if known is None else known)
        return result

    def sum(self, x: Poly, axes: Iterable[Axis], shape: Mapping[Axis, frozenset[Any]], like: Expr) -> Poly:
        """Σ is linear; a factor that does not vary along the axes comes out."""
        axes = tuple(sorted(axes, key=repr))
        result = ZERO
        for mono, c in x.terms.items():
            outer = {a: e for a, e in mono if not any(a.vary.get(axis) for axis in axes)}
            inner = of_mono({a: e for a, e in mono if a not in outer})
            lone = inner.single()
            if inner == ONE:
                total = self.size(axes, shape, like)
            elif lone and lone[1] == 1 and len(lone[0]) == 1 and lone[0][0][1] == 1 and lone[0][0][0].kind == "sum":
                # sums of sums are sums
                nested = lone[0][0][0]
                whole = joined((shape, dict(nested.args[2]), nested.args[1].vary))
                total = self._bound("sum", tuple(sorted((*axes, *nested.args[0]), key=repr)), nested.args[1], whole, nested.like)
            else:
                total = self._sum_of_moved(inner, axes) or self._bound("sum", axes, inner, shape, like)
            result = result + of_mono(outer, c) * total
        return result

    def _sum_of_moved(self, x: Poly, axes: tuple[Axis, ...]) -> Poly | None:
        """A sum does not depend on the order, zeros add nothing, and a sum of a whole is that of its parts."""
        lone = x.single()
        if not lone or lone[1] != 1 or len(lone[0]) != 1 or lone[0][0][1] != 1 or lone[0][0][0].kind != "move":
            return None
        parts, name, attributes = lone[0][0][0].args
        given = dict(attributes)
        along = (given.get("axis"),) == axes
        padded = name == "pad" and along and given["value"] == NOTHING and self._adds(given["low"]) and self._adds(given["high"])
        kept = padded or (name == "concat" and along) or (name == "reverse" and given["axes"] == axes)
        full = all(any(a.vary.get(axes[0]) for a, _ in mono) for part in parts for mono in part.terms)
        if len(axes) != 1 or not kept or not full:
            return None
        return sum((self.sum(part, axes, part.vary, NOTHING) for part in parts), ZERO)

    def _adds(self, bound: Any) -> bool:
        """Return whether a bound of a padding is not negative."""
        match bound:
            case Literal(value):
                return value >= 0
            case Capture(name):
                return self.known.get(name, EVERYTHING)[0] >= 0
        return False

    def prod(self, x: Poly, axes: Iterable[Axis], shape: Mapping[Axis, frozenset[Any]], like: Expr) -> Poly:
        return self._bound("prod", tuple(sorted(axes, key=repr)), x, shape, like)

    def extreme(self, kind: str, x: Poly, axes: Iterable[Axis], shape: Mapping[Axis, frozenset[Any]], like: Expr) -> Poly:
        """max(x + c) = max(x) + c, max(c·x) = c·max(x) for c ≥ 0, max(-x) = -min(x), for a c that does not vary along the axes."""
        axes = tuple(sorted(axes, key=repr))
        free = {m: c for m, c in x.terms.items() if not any(a.vary.get(axis) for a, _ in m for axis in axes)}
        rest = Poly({m: c for m, c in x.terms.items() if m not in free})
        if rest.zero:
            return x
        c, mono, inner = content(rest)
        outer = of_mono({a: e for a, e in mono if not any(a.vary.get(axis) for axis in axes)})
        inside = multiplied(of_mono({a: e for a, e in mono if any(a.vary.get(axis) for axis in axes)}), inner)
        sign = self.sign(outer) if outer != ONE else 1
        if not sign:
            outer, inside, sign = ONE, multiplied(outer, inside), 1
        if c * sign < 0:
            kind = "min" if kind == "max" else "max"
        return Poly(free) + multiplied(outer.scale(c), self._bound(kind, axes, inside, {}, like))

    def _bound(self, kind: str, axes: tuple[Axis, ...], body: Poly, shape: Mapping[Axis, frozenset[Any]], like: Expr) -> Poly:
        """The reduction of a body; `missing` names what the size depends on beyond what the body shows."""
        missing = tuple((axis, shape[axis]) for axis in axes if shape.get(axis, frozenset()) - body.vary.get(axis, frozenset()))
        vary = {axis: members for axis, members in body.vary.items() if axis not in axes}
        return of_atom(ErrorAtom(kind, (axes, body, missing), vary, like))

    def matmul(self, a: Poly, b: Poly, like_a: Expr, like_b: Expr, shapes: tuple[Mapping[Axis, Any], Mapping[Axis, Any]]) -> Poly:
        """Bilinear; what does not vary along the contracted axis comes out. `shapes`: those of the whole operands."""
        result = ZERO
        for m, c in a.terms.items():
            for n, d in b.terms.items():
                left_out = {x: e for x, e in m if not x.vary.get(-1)}
                right_out = {x: e for x, e in n if not x.vary.get(-2)}
                left = of_mono({x: e for x, e in m if x not in left_out})
                right = of_mono({x: e for x, e in n if x not in right_out})
                outside = multiplied(of_mono(left_out, c * d), of_mono(right_out))
                result = result + multiplied(outside, self._contracted(left, right, like_a, like_b, shapes))
        return result

    def _contracted(
        self, left: Poly, right: Poly, like_a: Expr, like_b: Expr, shapes: tuple[Mapping[Axis, Any], Mapping[Axis, Any]]
    ) -> Poly:
        if left == ONE and right == ONE:
            return self.size((-1,), shapes[0], like_a)
        if right == ONE:
            return self.sum(left, (-1,), shapes[0], like_a)
        if left == ONE:
            return self.sum(right, (-2,), shapes[1], like_b)
        whole = tuple(
            frozenset(axis for axis in (-1, -2) if shape.get(axis, frozenset()) - x.vary.get(axis, frozenset()))
            for x, shape in zip((left, right), shapes, strict=True)
        )
        vary = joined(({k: v for k, v in left.vary.items() if k != -1}, {k: v for k, v in right.vary.items() if k != -2}))
        return of_atom(ErrorAtom("matmul", (left, right, whole), vary, (like_a, like_b)))

    def conv(
        self, x: Poly, weight: Poly, attributes: tuple[tuple[str, Any], ...], shapes: tuple[Mapping[Axis, Any], Mapping[Axis, Any]],
        likes: tuple[Expr, Expr], vary: Mapping[Axis, frozenset[Any]],
    ) -> Poly:  # fmt: skip
        """The convolution, with numbers in front of it."""
        result = ONE
        parts = []
        for side, shape in zip((x, weight), shapes, strict=True):
            outer, inner = _numbers_out(side)
            result = result * outer
            parts.append((inner, any(shape.get(axis, frozenset()) - inner.vary.get(axis, frozenset()) for axis in shape)))
        (left, lacks_left), (right, lacks_right) = parts
        return result * of_atom(ErrorAtom("conv", (left, right, (lacks_left, lacks_right), attributes), vary, likes))

    def moved(self, x: Poly, name: str, attributes: tuple[tuple[str, Any], ...], source: Mapping[Axis, Axis | None]) -> Poly:
        """The elements of x elsewhere: along `axis`, the result varies as x does along source[axis] (None: not at all)."""
        lone = x.single()
        if name == "transpose" and lone and len(lone[0]) == 1:
            (atom, e) = lone[0][0]
            if atom.kind == "move" and atom.args[1:] == (name, attributes):
                return power(atom.args[0][0], e).scale(lone[1])
        result = ZERO
        for mono, c in x.terms.items():
            outer, inner = _numbers_out(of_mono(dict(mono), c))
            shape = moved_shape(inner.vary, source)
            result = result + outer * (inner if inner == ONE else of_atom(ErrorAtom("move", ((inner,), name, attributes), shape)))
        return result

    def selected(self, name: str, values: tuple[Poly, ...], attributes: tuple[tuple[str, Any], ...], vary: Mapping[Axis, Any]) -> Poly:
        """Elements of the values, which go into a new tensor."""
        if all(x.zero for x in values[: len(values) if name == "concat" else 1]) and dict(attributes).get("value", NOTHING) == NOTHING:
            return ZERO
        outer = ONE
        if name not in ("concat", "pad"):
            outer, first = _numbers_out(values[0])
            if first == ONE:
                return outer
            values = (first, *values[1:])
        return outer * of_atom(ErrorAtom("move", (values, name, attributes), vary))


def _numbers_out(x: Poly) -> tuple[Poly, Poly]:
    """(number, rest) whose product is x, the number being what does not vary along any axis."""
    lone = x.single()
    if lone is None:
        return ONE, x
    outer = {a: e for a, e in lone[0] if not a.vary}
    return of_mono(outer, lone[1]), of_mono({a: e for a, e in lone[0] if a not in outer})


def moved_shape(vary: Mapping[Axis, frozenset[Any]], source: Mapping[Axis, Axis | None]) -> dict[Axis, frozenset[Any]]:
    """The shape of the moved tensor; an axis that comes from beyond those that are known may vary in a way of its own."""
    shape = {axis: vary.get(o, frozenset()) if o in source else frozenset({("?", o)}) for axis, o in source.items() if o is not None}
    return {axis: members for axis, members in shape.items() if members}


def is_function(atom: ErrorAtom, name: str) -> bool:
    return atom.kind == "fn" and atom.args[0] == name
