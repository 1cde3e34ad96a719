"""The replacement of a match, as operations that are not yet in the program.

Nothing is inserted until everything fits: a replacement whose types do not work out leaves no trace.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import FloatAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from hnfc.dialects.num import OPERATIONS
from hnfc.dialects.num.base import ReductionOp
from hnfc.dialects.num.rounding import INTEGERS, round_to
from hnfc.dialects.types import DYNAMIC, ELEMENT_NAMES, ELEMENT_TYPES, FORMATS, TypeMismatch, broadcast_shapes, tensor
from hnfc.dsl import core
from hnfc.rewrite.bindings import Binding, Bindings, Integers, bound_value, extent, resolve_axes
from hnfc.rewrite.extents import unknown_sizes
from hnfc.rewrite.fitting import fit
from hnfc.rewrite.matcher import Match
from hnfc.rewrite.movement import is_movement, order_of, properties
from hnfc.rewrite.nary_terms import ARITHMETIC, Number, Product, Root, Sum, over_reals

Built: TypeAlias = SSAValue | Fraction | float


class DoesNotFit(Exception):
    """The replacement cannot be built here; the message says why."""


@dataclass
class ReplacementBuilder:
    """Builds expressions over the bindings of one match; `operations` collects what was made, in order."""

    bindings: Bindings
    element: Attribute
    operations: list[Operation] = field(default_factory=list)
    _memo: dict[core.Expr, Built] = field(default_factory=dict)

    def discard(self) -> None:
        """Takes back what was built: operations that stay outside the program must not count as users of its values."""
        for operation in reversed(self.operations):
            operation.drop_all_references()
        self.operations.clear()

    def build(self, expression: core.Expr) -> Built:
        known = self._memo.get(expression)
        if known is None:
            known = self._memo[expression] = self._build(expression)
        return known

    def value(self, expression: core.Expr) -> SSAValue:
        return self.as_value(self.build(expression))

    def as_value(self, built: Built, element: Attribute | None = None) -> SSAValue:
        return built if isinstance(built, SSAValue) else self.constant(built, element or self.element)

    def constant(self, number: Number, element: Attribute) -> SSAValue:
        operation = OPERATIONS["constant"].create(
            operands=[], result_types=[tensor(element, ())], properties={"value": FloatAttr(held(number, element), 64)}
        )
        return self._add(operation)

    def _build(self, expression: core.Expr) -> Built:
        match expression:
            case core.Capture(name):
                return self.realize(self.bindings[name])
            case core.Literal(value):
                return value
            case core.Size(operand, axes):
                size = extent(bound_value(operand, self.bindings), resolve_axes(axes, self.bindings))
                if size is None:
                    raise DoesNotFit("a size that the replacement needs is not known when compiling")
                return Fraction(size)
        return self._apply(expression)

    def _apply(self, expression: core.Apply) -> Built:
        operands = [self.build(operand) for operand in expression.operands]
        name = expression.name
        if name == "cast" and not isinstance(operands[0], SSAValue):
            if self._element_named(expression.attribute("to")) not in FORMATS:
                raise DoesNotFit("a number would have to become an integer")
            return operands[0]  # a number has no type: it keeps its digits beside any tensor
        if name == "round_to" and not isinstance(operands[0], SSAValue):
            return round_number(operands[0], self._element_named(expression.attribute("format")))
        if all(not isinstance(operand, SSAValue) for operand in operands):
            return fold(name, [operand for operand in operands if not isinstance(operand, SSAValue)], dict(expression.attributes))
        if name in ARITHMETIC:
            return self.arithmetic(name, operands[0], operands[1])
        if name in ("logical_and", "logical_or") and (known := [o for o in operands if not isinstance(o, SSAValue)]):
            other = next(o for o in operands if isinstance(o, SSAValue))
            return other if bool(known[0]) == (name == "logical_and") else known[0]
        if name == "cast":
            return self.cast(self.as_value(operands[0]), self._element_named(expression.attribute("to")))
        values = self._values(operands)
        if name == "matmul" and any(len(_shape(value)) < 2 for value in values):
            raise DoesNotFit("an operand of the product is no matrix")
        if is_movement(name, dict(expression.attributes)):
            return self._moved(expression, values)
        if name == "reshape":
            return self._unit_reshape(values[0], *expression.attributes[0])
        return self.emit(name, *values, **self._attributes(expression, values))

    def _values(self, operands: list[Built]) -> list[SSAValue]:
        """The operands as values; numbers take the element type of their neighbours."""
        typed = [o.type.element_type for o in operands if isinstance(o, SSAValue) and isinstance(o.type, TensorType)]
        element = next((e for e in typed if e != ELEMENT_TYPES["i1"]), self.element)
        return [self.as_value(operand, element) for operand in operands]

    def _attributes(self, expression: core.Apply, values: list[SSAValue]) -> dict[str, Any]:
        rank = len(_shape(values[0]))
        attributes: dict[str, Any] = {}
        for key, value in expression.attributes:
            if key == "axes":
                axes = resolve_axes(value, self.bindings)
                if axes is None or any(-axis > rank for axis in axes):
                    raise DoesNotFit("an operand of the replacement lacks an axis")
                attributes[key] = tuple(sorted(axis + rank if axis < 0 else axis for axis in axes))
            elif value == "last_two":
                if rank < 2:
                    raise DoesNotFit("there are no two axes to swap")
                attributes[key] = (*range(rank - 2), rank - 1, rank - 2)
            elif isinstance(value, core.Capture):
                bound = self.bindings[value.name]
                if not isinstance(bound, Fraction | float):
                    raise DoesNotFit(f"`{value.name}` is no number that is known when compiling")
                attributes[key] = held(bound, ELEMENT_TYPES["f64"])
            elif isinstance(value, str | core.DTypeOf) and key in ("format", "accumulate"):
                attributes[key] = self._element_named(value)
            else:
                attributes[key] = value
        return attributes

    def _moved(self, expression: core.Apply, values: list[SSAValue]) -> SSAValue:
        name, settings = expression.name, dict(expression.attributes)
        shape = _shape(values[0])
        if name == "transpose":
            order = order_of(settings["perm"], self.bindings)
            if order is None:
                raise DoesNotFit("an order of axes is not known")
            return self.emit(name, values[0], perm=order)
        if name == "reshape":
            bound, kept = self.bindings[settings["shape"].name], resolve_axes(settings["axes"], self.bindings)
            if not isinstance(bound, Integers) or kept is None or kept != frozenset(range(-len(kept), 0)):
                raise DoesNotFit("a reshape keeps other axes than the last ones")
            return self.reshape(values[0], [*bound.values, *shape[len(shape) - len(kept) :]])
        axes = resolve_axes((settings["axis"],), self.bindings) if "axis" in settings else frozenset[int]()
        if axes is None or any(-axis > len(_shape(value)) for axis in axes for value in values):
            raise DoesNotFit("an operand of the replacement lacks an axis")
        known = {key: self.build(value) if key == "value" else self._setting(value) for key, value in settings.items() if key != "axis"}
        if name != "conv" and any(isinstance(value, tuple) for value in known.values()):
            raise DoesNotFit("a bound is a setting of a convolution, which has one for each axis")
        made = properties(name, shape, next(iter(axes), None), known)
        if name == "slice":
            size = shape[made["axis"]]
            if size == DYNAMIC or not 0 <= made["start"] <= made["stop"] <= size or made["step"] < 1:
                raise DoesNotFit("the bounds of a slice do not fit")
        if name == "broadcast" and shape[next(iter(axes))] != 1:
            raise DoesNotFit("what is repeated has another size than 1")
        return self.emit(name, *values, **made)

    def _setting(self, value: Any) -> int | tuple[int, ...]:
        """A bound or setting as an integer, or as one for each axis of a convolution."""
        if isinstance(value, core.Capture) and isinstance(bound := self.bindings[value.name], Integers):
            return bound.values
        number = self.build(value) if isinstance(value, core.Expr) else value
        if not isinstance(number, Fraction | float) or number != int(number):
            raise DoesNotFit("a bound is no integer that is known when compiling")
        return int(number)

    def _element_named(self, element: str | core.DTypeOf) -> str:
        if isinstance(element, str):
            return element
        bound = self.bindings[element.capture]
        if isinstance(bound, Fraction | float):
            return ELEMENT_NAMES[self.element]
        value = bound if isinstance(bound, SSAValue) else self.as_value(self.realize(bound))
        return ELEMENT_NAMES[_type(value).element_type]

    def cast(self, value: SSAValue, element: str) -> SSAValue:
        if _type(value).element_type == ELEMENT_TYPES[element]:
            return value
        return self._add(OPERATIONS["cast"].create(operands=[value], result_types=[tensor(element, _shape(value))]))

    def _unit_reshape(self, value: SSAValue, key: str, axis: int) -> SSAValue:
        shape = list(_shape(value))
        if key == "unsqueeze":
            position = len(shape) + 1 + axis
            if position < 0:
                raise DoesNotFit("there is no such place for an axis")
            shape.insert(position, 1)
        else:
            if -axis > len(shape) or shape[axis] != 1:
                raise DoesNotFit("the axis that should go has another size than 1")
            del shape[axis]
        if shape.count(DYNAMIC) > 1:
            raise DoesNotFit("a size that a reshape needs is not known when compiling")
        return self.reshape(value, shape)

    def reshape(self, value: SSAValue, shape: list[int]) -> SSAValue:
        type_ = tensor(_type(value).element_type, shape)
        return self._add(OPERATIONS["reshape"].create(operands=[value], result_types=[type_]))

    def emit(self, name: str, *operands: SSAValue, **attributes: Any) -> SSAValue:
        try:
            made = OPERATIONS[name].make(*operands, **attributes)
            if isinstance(made, ReductionOp) and 0 in (_shape(operands[0])[axis] for axis in attributes["axes"]):
                raise DoesNotFit("a reduction over no elements")
            return self._add(made)
        except TypeMismatch as error:
            raise DoesNotFit(str(error)) from None

    def _add(self, operation: Operation) -> SSAValue:
        if not over_reals(operation):
            raise DoesNotFit(f"integers and complex numbers have no `{operation.name.removeprefix('num.')}` over the reals")
        self.operations.append(operation)
        return operation.results[0]

    def arithmetic(self, name: str, x: Built, y: Built) -> Built:
        """x name y, without adding 0 or multiplying by ±1."""
        if not isinstance(x, SSAValue) and not isinstance(y, SSAValue):
            return fold(name, [x, y], {})
        if not isinstance(y, SSAValue):
            if (y == 0 and name in ("add", "sub")) or (y == 1 and name in ("mul", "div")):
                return x
            if y == -1 and name in ("mul", "div"):
                return self.emit("neg", self.as_value(x))
        elif not isinstance(x, SSAValue):
            if (x == 0 and name == "add") or (x == 1 and name == "mul"):
                return y
            if (x == -1 and name == "mul") or (x == 0 and name == "sub"):
                return self.emit("neg", y)
        return self.emit(name, *self._values([x, y]))

    # what captures and rests stand for

    def realize(self, binding: Binding) -> Built:
        match binding:
            case SSAValue() | Fraction() | float():
                return binding
            case Root(radicand):
                return self.emit("sqrt", radicand)
            case Product():
                return self._product(binding, None)
            case Sum():
                return self._sum(binding, None)
        raise DoesNotFit("an axis is no value")

    def _product(self, product: Product, first: Built | None) -> Built:
        """first · coefficient · Π itemᵉ, the products before the quotients."""
        result: Built = Fraction(1) if first is None else first
        coefficient: Number
        if not isinstance(result, SSAValue) and any(e > 0 for _, e in product.factors):
            coefficient = fold("mul", [product.coefficient, result], {})
            result = Fraction(1)
        else:
            coefficient = product.coefficient
        for item, exponent in sorted(product.factors, key=lambda factor: factor[1] < 0):
            for _ in range(abs(exponent)):
                if isinstance(item, Root) and exponent < 0 and not isinstance(result, SSAValue) and result == 1:
                    result = self.emit("rsqrt", item.radicand)
                else:
                    result = self.arithmetic("mul" if exponent > 0 else "div", result, self.realize(item))
        return self.arithmetic("mul", coefficient, result)

    def _sum(self, group: Sum, first: Built | None) -> Built:
        """first + constant + Σ terms; a difference where a term is negative."""
        result: Built | None = first
        for term in sorted(group.terms, key=lambda t: t.coefficient < 0) if first is None else group.terms:
            if result is None:
                result = self._product(term, None)
            elif term.coefficient < 0:
                result = self.arithmetic("sub", result, self._product(Product(-term.coefficient, term.factors), None))
            else:
                result = self.arithmetic("add", result, self._product(term, None))
        if result is None:
            return group.constant
        if group.constant < 0:
            return self.arithmetic("sub", result, -group.constant)
        return self.arithmetic("add", result, group.constant)

    def finish(self, match: Match) -> SSAValue:
        """The value that takes the place of the root, in the root's type. Raises DoesNotFit."""
        built = self.arithmetic("mul", match.scale, self.build(match.compiled.replacement))
        if isinstance(match.rest, Product):
            built = self._product(match.rest, built)
        elif isinstance(match.rest, Sum):
            built = self._sum(match.rest, built)
        root = match.root.results[0]
        value = self.as_value(built)
        if not fit(match.root, self.operations):
            raise DoesNotFit("sizes that are combined may differ, which is not known when compiling")
        if DYNAMIC in _shape(root) and value is not root and unknown_sizes(value) != unknown_sizes(root):
            raise DoesNotFit("the result may have another size, which is not known when compiling")
        return self.fit(value, _type(root))

    def fit(self, value: SSAValue, wanted: TensorType[Attribute]) -> SSAValue:
        found = _type(value)
        if found == wanted:
            return value
        if found.element_type != wanted.element_type:
            names = [ELEMENT_NAMES.get(t.element_type, str(t.element_type)) for t in (wanted, found)]
            raise DoesNotFit(f"the result would be {names[1]} instead of {names[0]}")
        source, target = tuple(found.get_shape()), tuple(wanted.get_shape())
        try:
            if broadcast_shapes(source, target) != target:
                raise DoesNotFit(f"the result would have shape {list(source)} instead of {list(target)}")
        except TypeMismatch as error:
            raise DoesNotFit(str(error)) from None
        if DYNAMIC in target:
            raise DoesNotFit("the result would have to be broadcast to a size that is not known when compiling")
        return self._add(OPERATIONS["broadcast"].create(operands=[value], result_types=[wanted]))


def fold(name: str, numbers: list[Number], attributes: dict[str, Any]) -> Number:
    """The operation on numbers, done when compiling: exactly where it is rational, else rounded once to float64."""
    if all(isinstance(number, Fraction) for number in numbers):
        match name, numbers:
            case "add", [x, y]:
                return x + y
            case "sub", [x, y]:
                return x - y
            case "mul", [x, y]:
                return x * y
            case "div", [x, y] if y != 0:
                return x / y
            case "neg", [x]:
                return -x
            case "square", [x]:
                return x * x
    evaluate = OPERATIONS[name].FACTS.evaluate
    if evaluate is None or any(not isinstance(value, int | float | str) for value in attributes.values()):
        raise DoesNotFit(f"`{name}` of numbers cannot be computed when compiling")
    try:
        with np.errstate(all="ignore"):
            result = float(evaluate(*(np.float64(number) for number in numbers), **attributes))
    except (OverflowError, TypeError, ValueError, IndexError):
        raise DoesNotFit(f"`{name}` of these numbers cannot be computed when compiling") from None
    if not math.isfinite(result) or (abs(result) < sys.float_info.min and OPERATIONS[name].FACTS.underflows):
        raise DoesNotFit(f"`{name}` of these numbers is too large or too small to be computed when compiling")
    return Fraction(result)


def held(number: Number, element: Attribute) -> float:
    """The number as a constant holds it. Raises DoesNotFit where the constant would be another number: 0, infinite, not whole."""
    name = ELEMENT_NAMES.get(element, "")
    try:
        result = float(number)
    except OverflowError:
        raise DoesNotFit("a constant of the replacement is too large") from None
    if number and abs(result) < sys.float_info.min:
        raise DoesNotFit("a constant of the replacement is too small")
    if name not in FORMATS:
        lo, hi = INTEGERS.get(name, (1.0, 0.0))
        if not (result.is_integer() and lo <= result <= hi):
            raise DoesNotFit(f"{result:g} is no {name or element}")
    elif math.isfinite(result) and abs(result) > FORMATS[name].largest:
        raise DoesNotFit(f"a constant of the replacement is too large for {name}")
    return result


def round_number(number: Number, element: str) -> Number:
    """The number of the format that is nearest."""
    try:
        result = float(round_to(np.float64(number), element))
    except OverflowError:
        result = math.inf
    if not math.isfinite(result):
        raise DoesNotFit(f"{element} cannot hold a constant of the replacement")
    return Fraction(result)


def _type(value: SSAValue) -> TensorType[Attribute]:
    if not isinstance(value.type, TensorType):
        raise DoesNotFit("a value is no tensor")
    return value.type


def _shape(value: SSAValue) -> tuple[int, ...]:
    return tuple(_type(value).get_shape())
