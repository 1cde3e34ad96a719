"""Automatic differentiation with formulas for numbers: the `Math` that reads the meaning of an operation (`FACTS.real`) as jets.

No operation needs a derivative of its own: what is known is how the primitives of `Math` change with their operands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from hnfc.dialects.facts import NoFormula
from hnfc.dialects.num import OPERATIONS
from hnfc.dsl.core import Apply, Axis, Literal
from hnfc.dsl.error.algebra import Algebra, moved_shape
from hnfc.dsl.error.jets import Condition, Jet, NoErrorFormula, Source, identity, multiplied_absolute, shape_of
from hnfc.dsl.error.polynomial import ONE, ZERO, Poly, const, expanded, joined, power


@dataclass
class JetMath:
    """The `Math` protocol on jets."""

    algebra: Algebra
    axes: tuple[Axis, ...]
    """Every axis that the rule speaks of."""
    definite: bool = False
    """Every operation is carried out: what a root or a logarithm needs is true."""
    sums: dict[Any, Source] = field(default_factory=dict)
    notes: set[str] = field(default_factory=set)

    # tensors

    def jet(self, value: Any) -> Jet:
        if isinstance(value, Condition):
            return self.where(value, 1, 0)
        return value if isinstance(value, Jet) else self.const(value)

    def const(self, value: Any) -> Jet:
        if isinstance(value, Jet):
            return value
        if isinstance(value, float) and value - value != 0:
            raise NoFormula("an infinity or a nan is no real number")
        return Jet(self, const(Fraction(value)), {}, {}, Literal(Fraction(value)))

    def chain(self, value: Poly, *parts: tuple[Poly, Jet]) -> Jet:
        """The jet with this value whose derivative is Σ coefficient·derivative of the part."""
        terms: dict[Source, Poly] = {}
        for coefficient, jet in parts:
            for source, c in jet.terms.items():
                terms[source] = terms.get(source, ZERO) + coefficient * c
        terms = {source: c for source, c in ((s, self.algebra.tidy(c)) for s, c in terms.items()) if not c.zero}
        jets = [jet for _, jet in parts]
        return Jet(self, value, terms, joined(j.vary for j in jets), shape_of([(j.vary, j.like) for j in jets]))

    def unary(self, value: Poly, derivative: Callable[[], Poly], x: Jet) -> Jet:
        return self.chain(value, (derivative() if x.terms else ZERO, x))

    # elementwise functions

    def exp(self, x: Jet) -> Jet:
        value = self.algebra.exp(x.value)
        return self.unary(value, lambda: value, x)

    def log(self, x: Jet) -> Jet:
        self._defined(x)
        return self.unary(self.algebra.log(x.value), lambda: power(x.value, -1), x)

    def _defined(self, x: Jet) -> None:
        if self.definite:
            self.algebra.assume_nonnegative(x.value)

    def sqrt(self, x: Jet) -> Jet:
        self._defined(x)
        half = Fraction(1, 2)
        return self.unary(power(x.value, half), lambda: power(x.value, -half).scale(half), x)

    def pow(self, x: Jet, y: Jet) -> Jet:
        exponent = y.value.constant()
        if exponent is not None and abs(exponent) <= 64:
            return self.unary(power(x.value, exponent), lambda: power(x.value, exponent - 1).scale(exponent), x)
        value = self.algebra.function("pow", x.value, y.value)
        by_exponent = value * self.algebra.log(x.value) if y.terms else ZERO
        return self.chain(value, (y.value * value * power(x.value, -1), x), (by_exponent, y))

    def sin(self, x: Jet) -> Jet:
        return self.unary(self.algebra.function("sin", x.value), lambda: self.algebra.function("cos", x.value), x)

    def cos(self, x: Jet) -> Jet:
        return self.unary(self.algebra.function("cos", x.value), lambda: -self.algebra.function("sin", x.value), x)

    def atan(self, x: Jet) -> Jet:
        return self.unary(self.algebra.function("atan", x.value), lambda: power(ONE + power(x.value, 2), -1), x)

    def asin(self, x: Jet) -> Jet:
        return self.unary(self.algebra.function("asin", x.value), lambda: power(ONE - power(x.value, 2), Fraction(-1, 2)), x)

    def acos(self, x: Jet) -> Jet:
        return self.unary(self.algebra.function("acos", x.value), lambda: -power(ONE - power(x.value, 2), Fraction(-1, 2)), x)

    def atan2(self, y: Jet, x: Jet) -> Jet:
        inverse = power(power(x.value, 2) + power(y.value, 2), -1)
        return self.chain(self.algebra.function("atan2", y.value, x.value), (x.value * inverse, y), (-(y.value * inverse), x))

    def erf(self, x: Jet) -> Jet:
        """erf′(x) = 2/√π·e^-x²."""

        def derivative() -> Poly:
            pi = self.algebra.function("atan", ONE).scale(4)
            return (self.algebra.exp(-power(x.value, 2)) * power(pi, Fraction(-1, 2))).scale(2)

        return self.unary(self.algebra.function("erf", x.value), derivative, x)

    def lgamma(self, x: Jet) -> Jet:
        if x.terms:
            raise NoErrorFormula("the derivative of lgamma is no formula over the operations of the dialect")
        return self.unary(self.algebra.function("lgamma", x.value), lambda: ZERO, x)

    def i0(self, x: Jet) -> Jet:
        if x.terms:
            raise NoErrorFormula("the derivative of i0 is no formula over the operations of the dialect")
        return self.unary(self.algebra.function("i0", x.value), lambda: ZERO, x)

    def floor(self, x: Jet) -> Jet:
        if x.terms:
            raise NoErrorFormula("an error before a rounding to integers may become a whole unit: there is no first order")
        return self.unary(self.algebra.function("floor", x.value), lambda: ZERO, x)

    def abs(self, x: Jet) -> Jet:
        return self.unary(self.algebra.absolute(x.value), lambda: self.algebra.direction(x.value), x)

    def maximum(self, x: Jet, y: Jet) -> Jet:
        return self._choice("maximum", x, y)

    def minimum(self, x: Jet, y: Jet) -> Jet:
        return self._choice("minimum", x, y)

    def _choice(self, name: str, x: Jet, y: Jet) -> Jet:
        """The larger (smaller) one: its derivative is that of the operand which is taken."""
        sign = self.algebra.sign(x.value - y.value) * (1 if name == "maximum" else -1)
        vary, like = joined((x.vary, y.vary)), shape_of([(x.vary, x.like), (y.vary, y.like)])
        if sign:
            taken = x if sign > 0 else y
            return Jet(self, taken.value, dict(taken.terms), vary, like)
        value = self.algebra.function(name, *sorted((x.value, y.value), key=lambda p: p.key))
        if not x.terms and not y.terms:
            return Jet(self, value, {}, vary, like)
        first = self.compare("ge" if name == "maximum" else "le", x, y)
        return self.chain(value, (self._indicator(first), x), (self._indicator(self.logical_not(first)), y))

    # conditions

    def compare(self, predicate: str, x: Jet, y: Jet) -> Condition:
        """ge, gt and eq; the others are their negations."""
        difference = x.value - y.value
        vary, like = joined((x.vary, y.vary)), shape_of([(x.vary, x.like), (y.vary, y.like)])
        match predicate:
            case "ge" | "gt" | "eq":
                tree: Any = (predicate, difference)
            case "ne":
                tree = ("not", ("eq", difference))
            case "lt":
                tree = ("not", ("ge", difference))
            case "le":
                tree = ("not", ("gt", difference))
            case _:
                raise NoErrorFormula(f"an unknown comparison `{predicate}`")
        return Condition(tree, vary, like, bool(x.terms or y.terms))

    def condition(self, p: Any) -> Condition:
        if isinstance(p, Condition):
            return p
        return self.logical_not(self.compare("eq", p, self.const(0)))

    def logical_and(self, p: Any, q: Any) -> Condition:
        p, q = self.condition(p), self.condition(q)
        parts = tuple(sorted((p.tree, q.tree), key=repr))
        shape = [(p.vary, p.like), (q.vary, q.like)]
        return Condition(("and", *parts), joined((p.vary, q.vary)), shape_of(shape), p.inexact or q.inexact)

    def logical_or(self, p: Any, q: Any) -> Condition:
        return self.logical_not(self.logical_and(self.logical_not(p), self.logical_not(q)))

    def logical_not(self, p: Any) -> Condition:
        p = self.condition(p)
        return Condition(p.tree[1] if p.tree[0] == "not" else ("not", p.tree), p.vary, p.like, p.inexact)

    def _indicator(self, p: Condition) -> Poly:
        return self.algebra.indicator(p.tree, p.vary)

    def weight(self, mask: Any) -> Jet:
        return self.where(mask, self.const(1), self.const(0)) if isinstance(mask, Condition) else self.exp(mask)

    def where(self, p: Any, x: Any, y: Any) -> Jet:
        p, x, y = self.condition(p), self.jet(x), self.jet(y)
        if p.inexact:
            self.notes.add("the branch is taken that exact arithmetic takes")
        yes, no = self._indicator(p), self._indicator(self.logical_not(p))
        parts = [(p.vary, p.like), (x.vary, x.like), (y.vary, y.like)]
        jet = self.chain(x.value if x.value == y.value else yes * x.value + no * y.value, (yes, x), (no, y))
        return Jet(self, jet.value, jet.terms, joined(vary for vary, _ in parts), shape_of(parts))

    # reductions

    def size(self, x: Jet, axes: Iterable[Axis]) -> Jet:
        return Jet(self, self.algebra.size(axes, x.vary, x.like), {}, {}, Literal(Fraction(1)))

    def sum(self, x: Jet, axes: Iterable[Axis]) -> Jet:
        axes = self._known(axes)
        value = self.algebra.sum(x.value, axes, x.vary, x.like)
        return self._reduced(x, axes, value, lambda c: self.algebra.sum(c, axes, x.vary, x.like), "sum")

    def prod(self, x: Jet, axes: Iterable[Axis]) -> Jet:
        """δΠx = Πx·Σ δx/x."""
        axes = self._known(axes)
        value = self.algebra.prod(x.value, axes, x.vary, x.like)
        inverse = power(x.value, -1)
        logarithmic = Jet(self, x.value, {s: c * inverse for s, c in x.terms.items()}, x.vary, x.like)
        relative = self._reduced(logarithmic, axes, value, lambda c: self.algebra.sum(c, axes, x.vary, x.like), "prod")
        return Jet(self, value, {s: c * value for s, c in relative.terms.items()}, relative.vary, relative.like)

    def amax(self, x: Jet, axes: Iterable[Axis]) -> Jet:
        return self._extreme("max", x, axes)

    def amin(self, x: Jet, axes: Iterable[Axis]) -> Jet:
        return self._extreme("min", x, axes)

    def _extreme(self, kind: str, x: Jet, axes: Iterable[Axis]) -> Jet:
        """|max a - max b| ≤ max |a - b|."""
        axes = self._known(axes)
        result = self._without(x, axes, self.algebra.extreme(kind, x.value, axes, x.vary, x.like), kind)
        if x.terms:
            largest = self.algebra.extreme("max", x.magnitude(), axes, x.vary, x.like)
            result.terms = {self.collected((kind, axes, identity(x)), largest, result.vary, False): ONE}
        return result

    def _reduced(self, x: Jet, axes: tuple[Axis, ...], value: Poly, total: Callable[[Poly], Poly], kind: str) -> Jet:
        result = self._without(x, axes, value, kind if kind != "prod" else "sum")
        bound, varying = ZERO, []
        for source, c in x.terms.items():
            if any(source.vary.get(axis) for axis in axes):
                bound = bound + total(multiplied_absolute(self.algebra, c, source.bound))
                varying.append(source)
            else:
                free = min(map(self.algebra.tidy, (total(c), total(expanded(c)))), key=lambda p: p.size)
                if not free.zero:
                    result.terms[source] = free
        if not bound.zero:
            exact = len(varying) == 1 and varying[0].exact and all(varying[0].vary.get(axis) for axis in axes)
            result.terms[self.collected((kind, axes, identity(x)), bound, result.vary, exact)] = ONE
        return result

    def collected(self, key: tuple[Any, ...], bound: Poly, vary: Mapping[Axis, frozenset[Any]], exact: bool) -> Source:
        """The error that a reduction collects: the same one wherever the same reduction occurs."""
        if key not in self.sums:
            self.sums[key] = Source(bound, vary, exact)
        return self.sums[key]

    def _without(self, x: Jet, axes: tuple[Axis, ...], value: Poly, kind: str) -> Jet:
        vary = {axis: members for axis, members in x.vary.items() if axis not in axes}
        return Jet(self, value, {}, vary, Apply(OPERATIONS[kind], (x.like,), (("axes", axes),)))

    def _known(self, axes: Iterable[Axis]) -> tuple[Axis, ...]:
        axes = tuple(axes)
        if any(axis not in self.axes for axis in axes):
            raise NoErrorFormula(f"how the axes {', '.join(map(str, axes))} lie to the others of this rule is not known")
        return tuple(sorted(axes, key=repr))

    # contraction and movement

    def matmul(self, a: Jet, b: Jet) -> Jet:
        """δ(AB) = δA·B + A·δB; what arrives is collected in one source."""
        if -1 not in self.axes or -2 not in self.axes:
            raise NoErrorFormula("a matrix product in a rule over named axes")
        shapes = (a.vary, b.vary)

        def product(x: Poly, y: Poly) -> Poly:
            return self.algebra.matmul(x, y, a.like, b.like, shapes)

        batch = {k: v for k, v in joined(shapes).items() if k not in (-1, -2)}
        vary = {**batch, **{-2: a.vary.get(-2, frozenset()), -1: b.vary.get(-1, frozenset())}}
        result = Jet(self, product(a.value, b.value), {}, vary, Apply(OPERATIONS["matmul"], (a.like, b.like)))
        bound = ZERO
        if a.terms:
            bound = bound + product(a.magnitude(), self.algebra.absolute(b.value))
        if b.terms:
            bound = bound + product(self.algebra.absolute(a.value), b.magnitude())
        exact = a.varies_along(-1) and b.varies_along(-2) and not (a.terms and b.terms)
        if not bound.zero:
            result.terms = {self.collected(("matmul", identity(a), identity(b)), bound, vary, exact): ONE}
        return result

    def transpose(self, x: Jet, perm: Any) -> Jet:
        if perm != "last_two":
            raise NoFormula("a permutation of axes that are counted from the left")
        swapped = {axis: -2 if axis == -1 else -1 if axis == -2 else axis for axis in self.axes}
        return self.moved(x, "transpose", (("perm", "last_two"),), swapped)

    def moved(self, x: Jet, name: str, attributes: tuple[tuple[str, Any], ...], source: Mapping[Axis, Axis | None]) -> Jet:
        """The elements of x elsewhere: along each axis the result varies as x does along its source."""

        def image(p: Poly) -> Poly:
            return self.algebra.moved(p, name, attributes, source)

        vary = moved_shape(x.vary, source)
        result = Jet(self, image(x.value), {}, vary, Apply(OPERATIONS[name], (x.like,), attributes))
        for s, c in x.terms.items():
            key = ("moved", name, attributes, id(s))
            if key not in self.sums:
                self.sums[key] = Source(image(s.bound), moved_shape(s.vary, source), s.exact)
            result.terms[self.sums[key]] = image(c)
        return result
