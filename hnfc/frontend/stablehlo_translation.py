"""Parts of the translation of a StableHLO function: torch operations with known types, and the table of handlers.

A handler gets an operation of StableHLO with its operands in the torch dialect, and returns what replaces its results; None
where torch has no such operation. A broadcast is kept beside what it spreads (`thin`), so that elementwise operations take the
small operand, which torch broadcasts by itself.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, TypeAlias

import numpy as np
from torch_mlir import ir

from hnfc.core.torch_emitter import DTYPE_CODES, Emitter, Operand
from hnfc.dialects.types import DYNAMIC, ELEMENT_TYPES, TypeMismatch, broadcast_shapes, tensor
from hnfc.frontend import weights

Made: TypeAlias = "ir.Value | tuple[ir.Value, ...] | None"
Handler: TypeAlias = Callable[..., Made]
Size: TypeAlias = "int | ir.Value"
"""A number, or a `!torch.int` that is known when the model runs."""

HANDLERS: dict[str, Handler] = {}

_ON_SIZES: dict[str, tuple[str, Callable[[int, int], int]]] = {
    "add": ("aten.add.int", operator.add), "subtract": ("aten.sub.int", operator.sub), "multiply": ("aten.mul.int", operator.mul),
    "divide": ("aten.floordiv.int", operator.floordiv), "maximum": ("prim.max.int", max), "minimum": ("prim.min.int", min),
}  # fmt: skip


def translates(*names: str) -> Callable[[Handler], Handler]:
    """Registers a handler for operations of these names, `stablehlo.` where no dialect is given."""

    def register(handler: Handler) -> Handler:
        for name in names:
            HANDLERS[name if "." in name else f"stablehlo.{name}"] = handler
        return handler

    return register


def element_of(kind: ir.Type) -> str | None:
    """The element type of a builtin tensor as torch calls it; None where torch has no tensors of it.

    Complex ones are left out, which torch-mlir cannot lower, and tensors with bounds of their sizes, which torch's type cannot say.
    """
    if not isinstance(kind, ir.RankedTensorType) or kind.encoding is not None or isinstance(kind.element_type, ir.ComplexType):
        return None
    name = str(kind.element_type)
    name = f"s{name}" if name in ("i8", "i16", "i32", "i64") else name
    return name if name in ELEMENT_TYPES else None


def shape_of(kind: ir.Type) -> tuple[int, ...]:
    shaped = ir.ShapedType(kind)
    return tuple(DYNAMIC if shaped.is_dynamic_dim(i) else shaped.get_dim_size(i) for i in range(shaped.rank))


def vtensor(element: str, shape: Sequence[int]) -> str:
    return f"!torch.vtensor<[{','.join('?' if size == DYNAMIC else str(size) for size in shape)}],{element}>"


class Translation:
    """The torch operations of one function so far.

    kinds: the element type and shape of every torch tensor. dims: of those with sizes that are only known at run time, the
    `!torch.int` that each is, where that is known.
    """

    def __init__(self, context: ir.Context) -> None:
        self.emitter = Emitter(context, _unresolved, {})
        self.kinds: dict[ir.Value, tuple[str, tuple[int, ...]]] = {}
        self.dims: dict[ir.Value, list[Size | None]] = {}
        self.thin: dict[ir.Value, ir.Value] = {}
        self.counts: dict[ir.Value, list[Size]] = {}
        """The sizes that a StableHLO tensor of integers lists, where they have been requested."""
        self._numbers: dict[ir.Value, Any] = {}

    def inside(self) -> Translation:
        """The same within a region, whose values nothing around it may use: what becomes known there stays there."""
        inner = copy(self)
        inner.kinds, inner.thin, inner.counts, inner._numbers = dict(self.kinds), dict(self.thin), dict(self.counts), dict(self._numbers)
        inner.dims = {value: list(sizes) for value, sizes in self.dims.items()}
        return inner

    # what is known of a torch tensor

    def shape(self, value: ir.Value) -> tuple[int, ...]:
        return self.kinds[value][1]

    def element(self, value: ir.Value) -> str:
        return self.kinds[value][0]

    def is_float(self, value: ir.Value) -> bool:
        return "f" in self.element(value)

    def number(self, value: ir.Value) -> Any:
        """The Python number that all elements of a constant are, or None."""
        return self._numbers.get(value)

    def sizes(self, value: ir.Value) -> list[Size]:
        """The sizes of a tensor, numbers where they are known."""
        return [self.size(value, i) for i in range(len(self.shape(value)))]

    def size(self, value: ir.Value, axis: int) -> Size:
        known = self.known_size(value, axis)
        if known is None:
            known = self.emitter.create("torch.aten.size.int", [value, axis], "!torch.int")[0]
            self.dims.setdefault(value, list(self._fixed(value)))[axis] = known
        return known

    def known_size(self, value: ir.Value, axis: int) -> Size | None:
        return self.dims[value][axis] if value in self.dims else self._fixed(value)[axis]

    def _fixed(self, value: ir.Value) -> list[int | None]:
        return [size if size != DYNAMIC else None for size in self.shape(value)]

    def know(self, value: ir.Value, sizes: Sequence[Size | None]) -> ir.Value:
        """Remembers the sizes of a tensor that has unknown ones."""
        if DYNAMIC in self.shape(value):
            self.dims[value] = [fixed if fixed is not None else size for fixed, size in zip(self._fixed(value), sizes, strict=True)]
        return value

    def _as(self, value: ir.Value, source: ir.Value) -> ir.Value:
        return self.know(value, [self.known_size(source, axis) for axis in range(len(self.shape(source)))])

    def count(self, value: ir.Value) -> list[Size] | None:
        """The sizes that a tensor of integers of the StableHLO function lists: what shapes known at run time are computed from."""
        if value not in self.counts:
            found = self._count(getattr(value.owner, "operation", value.owner))
            if found is None:
                return None
            self.counts[value] = found
        return self.counts[value]

    def _count(self, owner: Any) -> list[Size] | None:
        if not isinstance(owner, ir.Operation):
            return None
        name = owner.name.removeprefix("stablehlo.")
        if name == "constant":
            return [int(item) for item in np.asarray(weights.read(owner.attributes["value"])).ravel()]
        parts = [self.count(operand) for operand in owner.operands]
        if not parts or None in parts:
            return None
        if name in ("reshape", "convert", "concatenate", "slice"):
            listed = [item for part in parts for item in part or []]
            if name != "slice":
                return listed
            first, last = (integers(owner.attributes, f"{bound}_indices")[0] for bound in ("start", "limit"))
            return listed[first:last]
        if name == "broadcast_in_dim":
            return parts[0] if shape_of(owner.results[0].type) == (len(parts[0] or []),) else None
        if name in _ON_SIZES:
            return [self._arithmetic(name, x, y) for x, y in zip(parts[0] or [], parts[1] or [], strict=True)]
        return None

    def _arithmetic(self, name: str, x: Size, y: Size) -> Size:
        torch, function = _ON_SIZES[name]
        if isinstance(x, int) and isinstance(y, int):
            return function(x, y)
        return self.emitter.create(f"torch.{torch}", [x, y], "!torch.int")[0]

    # operations

    def note(self, value: ir.Value, element: str, shape: Sequence[int]) -> ir.Value:
        self.kinds[value] = element, tuple(shape)
        return value

    def aten(self, name: str, operands: Sequence[Operand], element: str, shape: Sequence[int]) -> ir.Value:
        """One operation of torch with one tensor for a result."""
        return self.note(self.emitter.aten(name, operands, vtensor(element, shape)), element, shape)

    def like(self, name: str, x: ir.Value, *rest: Operand) -> ir.Value:
        """An operation whose result has the type of its first operand."""
        return self._as(self.aten(name, [x, *rest], *self.kinds[x]), x)

    def literal(self, attribute: ir.Attribute, element: str, shape: Sequence[int]) -> ir.Value:
        made = self.emitter.create("torch.vtensor.literal", [], vtensor(element, shape), attributes={"value": attribute})[0]
        return self.note(made, element, shape)

    def constant(self, attribute: ir.Attribute, element: str, shape: Sequence[int]) -> ir.Value:
        """A constant of StableHLO; its bytes stay where they are, but torch's integers say that they are signed."""
        if element.startswith(("si", "ui")):
            attribute = self._with_sign(attribute, element, shape)
        value = self.literal(attribute, element, shape)
        if isinstance(attribute, ir.DenseElementsAttr) and attribute.is_splat:
            self._numbers[value] = attribute.get_splat_value().value
            if shape:
                scalar = ir.RankedTensorType.get([], ir.ShapedType(attribute.type).element_type, loc=self.emitter.location)
                small = self.literal(ir.DenseElementsAttr.get_splat(scalar, attribute.get_splat_value()), element, ())
                self._numbers[small] = self._numbers[value]
                self.thin[value] = small
        return value

    def _with_sign(self, attribute: ir.Attribute, element: str, shape: Sequence[int]) -> ir.Attribute:
        context = self.emitter.context
        kind = ir.Type.parse(f"tensor<{''.join(f'{size}x' for size in shape)}{element}>", context)
        if isinstance(attribute, ir.DenseElementsAttr) and attribute.is_splat:
            number = attribute.get_splat_value().value
            return ir.DenseElementsAttr.get_splat(kind, ir.IntegerAttr.get(ir.ShapedType(kind).element_type, number))
        array = np.ascontiguousarray(weights.read(attribute))
        return ir.DenseElementsAttr.get(array, signless=False, context=context)

    def scalar(self, number: float, element: str) -> ir.Value:
        """The tensor of rank 0."""
        value = self.note(self.emitter.literal(number, tensor(element, ())), element, ())
        self._numbers[value] = number
        return value

    # forms that several handlers use

    def thinned(self, operands: Sequence[ir.Value], shape: Sequence[int]) -> list[ir.Value]:
        """Operands of an elementwise operation whose result has this shape, before their broadcasts where torch broadcasts alike."""
        chosen = list(operands)
        for index, operand in enumerate(operands):
            small = self.thin.get(operand)
            if small is None:
                continue
            attempt = [*chosen[:index], small, *chosen[index + 1 :]]
            try:
                fits = broadcast_shapes(*(self.shape(value) for value in attempt)) == tuple(shape)
            except TypeMismatch:
                fits = False
            if fits:
                chosen = attempt
        return chosen

    def elementwise(self, name: str, operands: Sequence[ir.Value], element: str, *rest: Operand) -> ir.Value:
        """An operation on operands of one shape, element by element."""
        return self.of_one_shape(name, operands, element, self.shape(operands[0]), *rest)

    def of_one_shape(self, name: str, operands: Sequence[ir.Value], element: str, shape: Sequence[int], *rest: Operand) -> ir.Value:
        """The same with operands of rank 0 beside those of the result's shape."""
        made = self.aten(name, [*self.thinned(operands, shape), *rest], element, shape)
        for operand in operands:
            if self.shape(operand) == tuple(shape):
                self._as(made, operand)
        return made

    def cast(self, x: ir.Value, element: str) -> ir.Value:
        if self.element(x) == element:
            return x
        return self._as(self.aten("to.dtype", [x, DTYPE_CODES[element], False, False, None], element, self.shape(x)), x)

    def permute(self, x: ir.Value, order: Sequence[int]) -> ir.Value:
        order, shape = list(order), self.shape(x)
        if order == sorted(order):
            return x
        result = [shape[axis] for axis in order]
        moved = [i for i, axis in enumerate(order) if i != axis]
        name, how = ("transpose.int", moved) if len(moved) == 2 else ("permute", [order])
        made = self.aten(name, [x, *how], self.element(x), result)
        return self.know(made, [self.known_size(x, axis) for axis in order])

    def reshape(self, x: ir.Value, sizes: Sequence[Size]) -> ir.Value:
        """The elements in another shape; sizes that are not numbers are those at run time."""
        shape = tuple(size if isinstance(size, int) else DYNAMIC for size in sizes)
        if shape == self.shape(x) and shape.count(DYNAMIC) <= 1:
            return x
        added = [axis for axis, size in enumerate(shape) if size == 1]
        if len(shape) == len(self.shape(x)) + 1:
            for axis in added:
                if shape[:axis] + shape[axis + 1 :] == self.shape(x):
                    return self.know(self.aten("unsqueeze", [x, axis], self.element(x), shape), sizes)
        given = [size if isinstance(size, int) else -1 for size in sizes] if shape.count(DYNAMIC) == 1 else list(sizes)
        return self.know(self.aten("reshape", [x, given], self.element(x), shape), sizes)

    def expand(self, x: ir.Value, sizes: Sequence[Size]) -> ir.Value:
        """The tensor spread along its axes of size 1, and remembered as what it was."""
        shape = tuple(size if isinstance(size, int) else DYNAMIC for size in sizes)
        before = self.shape(x)
        same = [self.known_size(x, i - len(shape) + len(before)) == sizes[i] for i in range(len(shape) - len(before), len(shape))]
        if len(before) == len(shape) and all(same):
            return x
        spread = self.know(self.aten("broadcast_to", [x, list(sizes)], self.element(x), shape), sizes)
        if x in self._numbers:
            self._numbers[spread] = self._numbers[x]
        # a size that may or may not be 1 must stay in the graph
        if all(equal or size == 1 for equal, size in zip(same, before, strict=True)):
            self.thin[spread] = self.thin.get(x, x) if not self.shape(self.thin.get(x, x)) else x
        return spread


def _unresolved(value: Any) -> ir.Value:
    raise ValueError("nothing of num is written here")


def integers(attributes: Mapping[str, Any], name: str, default: Sequence[int] = ()) -> list[int]:
    """An attribute that is a list of integers."""
    return [int(item) for item in attributes[name]] if name in attributes else list(default)


def integer(attributes: Mapping[str, Any], name: str, default: int = 0) -> int:
    return int(ir.IntegerAttr(attributes[name]).value) if name in attributes else default
