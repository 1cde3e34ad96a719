"""Movement of elements: errors go where their elements go. And convolution, which moves and then adds up products."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from hnfc.dialects.facts import Access, Exactness
from hnfc.dialects.num import OPERATIONS
from hnfc.dsl.core import Apply, Axis, Literal
from hnfc.dsl.error.algebra import Algebra
from hnfc.dsl.error.differentiation import JetMath
from hnfc.dsl.error.jets import Jet, NoErrorFormula, Source
from hnfc.dsl.error.polynomial import ONE, ZERO, Poly, joined

NO_NUMBER = Literal(Fraction(0))


def moves_one_axis(node: Apply) -> bool:
    """A reshape that only adds or drops an axis of size 1."""
    return node.name == "reshape" and len(node.attributes) == 1 and node.attributes[0][0] in ("unsqueeze", "squeeze")


def is_selection(node: Apply) -> bool:
    """Return whether the operation only puts elements elsewhere (other than by swapping the last two axes, or by an axis of size 1)."""
    attributes = dict(node.attributes)
    if node.name == "broadcast":
        return "axis" in attributes
    chosen = node.facts.moves or (node.facts.access is Access.CONTRACTION and node.facts.exactness is Exactness.SELECTION)
    return chosen and not moves_one_axis(node) and attributes.get("perm") != "last_two"


def moved_operands(name: str, count: int) -> int:
    """Number of operands that supply elements; the others say which."""
    return count if name == "concat" else 1


class Moving(ABC):
    """Movement on the jets of one side."""

    math: JetMath
    algebra: Algebra
    axes: tuple[Axis, ...]
    spatial: int

    @abstractmethod
    def bound_value(self, value: Any) -> Poly:
        """The value of a bound or a size."""

    # one axis

    def reshaped(self, node: Apply, x: Jet) -> Jet:
        """An axis of size 1 comes in, or goes away."""
        (how, place) = node.attributes[0]
        source: dict[Axis, Axis | None] = {}
        for axis in self.axes:
            if not isinstance(axis, int):
                raise NoErrorFormula("an axis that is added or dropped in a rule over named axes")
            if how == "unsqueeze":
                source[axis] = axis if axis > place else None if axis == place else axis + 1
            else:
                source[axis] = axis if axis > place else axis - 1
        return self.math.moved(x, "reshape", node.attributes, source)

    def selection(self, node: Apply, jets: list[Jet]) -> Jet:
        count = moved_operands(node.name, len(jets))
        moving, choosing = jets[:count], tuple(x.value for x in jets[count:])
        vary = self._shape(node, jets)
        if node.name == "broadcast":
            (x,) = jets
            return Jet(self.math, x.value, dict(x.terms), vary, node)

        def image(values: list[Poly], attributes: tuple[tuple[str, Any], ...]) -> Poly:
            return self.algebra.selected(node.name, (*values, *choosing), attributes, vary)

        result = Jet(self.math, image([x.value for x in moving], node.attributes), {}, vary, node)
        quiet = tuple((key, NO_NUMBER if key == "value" else value) for key, value in node.attributes)
        if len(moving) == 1:
            for source, c in moving[0].terms.items():
                key = ("selected", node, id(source))
                if key not in self.math.sums:
                    self.math.sums[key] = Source(image([source.bound], quiet), vary, source.exact)
                result.terms[self.math.sums[key]] = image([c], quiet)
        elif any(x.terms for x in moving):
            bound = image([x.magnitude() for x in moving], quiet)
            exact = all(x.exact for x in moving)
            result.terms = {self.math.collected(("selected", node, *map(id, moving)), bound, vary, exact): ONE}
        return result

    def _shape(self, node: Apply, jets: list[Jet]) -> Mapping[Axis, frozenset[Any]]:
        """Along the axis of the movement a size of its own, elsewhere that of the operands."""
        attributes = dict(node.attributes)
        if node.name == "reverse":
            return jets[0].vary
        if node.name == "gather":
            return {**joined(x.vary for x in jets), attributes["axis"]: jets[1].vary.get(attributes["axis"], frozenset())}
        if node.name not in ("slice", "concat", "pad", "broadcast"):
            return {axis: frozenset({(repr(node), axis)}) for axis in self.axes}
        axis = attributes["axis"]
        if axis not in self.axes:
            raise NoErrorFormula(f"how axis {axis} lies to the others of this rule is not known")
        token = (repr(node), axis)
        length = self._length(node, jets, axis)
        if length is not None:
            self.algebra.lengths[token] = length
        return {**joined(x.vary for x in jets), axis: frozenset({token})}

    def _length(self, node: Apply, jets: list[Jet], axis: Axis) -> Poly | None:
        """The size of the result along the axis of the movement."""
        attributes = dict(node.attributes)
        own = [self.algebra.size((axis,), x.vary, x.like) for x in jets]
        match node.name:
            case "concat":
                return sum(own, ZERO)
            case "broadcast":
                return self.bound_value(attributes["size"])
            case "pad":
                return self.bound_value(attributes["low"]) + own[0] + self.bound_value(attributes["high"])
        if attributes.get("step") != Literal(Fraction(1)):
            return None
        return self.bound_value(attributes["stop"]) - self.bound_value(attributes["start"])

    # convolution

    def conv(self, node: Apply, x: Jet, weight: Jet) -> tuple[Jet, Poly]:
        """δ(x∗w) = δx∗w + x∗δw, and the rounding of the n products that each element is the sum of: n·|x|∗|w|."""
        spatial = self.spatial
        kernel = tuple(range(-spatial - 1, 0))
        vary: dict[Axis, frozenset[Any]] = {axis: frozenset({(repr(node), axis)}) for axis in range(-spatial, 0)}
        vary |= {-spatial - 2: x.vary.get(-spatial - 2, frozenset()), -spatial - 1: weight.vary.get(-spatial - 2, frozenset())}
        shape = {axis: members for axis, members in vary.items() if members}
        sides = (x, weight)

        def product(a: Poly, b: Poly) -> Poly:
            return self.algebra.conv(a, b, node.attributes, (x.vary, weight.vary), (x.like, weight.like), shape)

        bound = ZERO
        if x.terms:
            bound = bound + product(x.magnitude(), self.algebra.absolute(weight.value))
        if weight.terms:
            bound = bound + product(self.algebra.absolute(x.value), weight.magnitude())
        like = Apply(OPERATIONS["conv"], (x.like, weight.like), node.attributes)
        result = Jet(self.math, product(x.value, weight.value), {}, shape, like)
        if not bound.zero:
            exact = all(side.exact and all(s.vary for s in side.terms) for side in sides) and not all(side.terms for side in sides)
            result.terms = {self.math.collected(("conv", id(x), id(weight)), bound, shape, exact): ONE}
        count = self.algebra.size(kernel, weight.vary, weight.like)
        return result, count * product(self.algebra.absolute(x.value), self.algebra.absolute(weight.value))
