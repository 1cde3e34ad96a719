"""Movement: operations that put elements elsewhere and change none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, TensorType
from xdsl.ir import SSAValue
from xdsl.irdl import base, irdl_op_definition, operand_def, prop_def, result_def, var_operand_def

from hnfc.dialects.assembly import TYPES
from hnfc.dialects.facts import Access, Exactness, Facts
from hnfc.dialects.interval import Interval
from hnfc.dialects.num.base import NumOp, Tensor, UnaryOp, as_tensor, element_name
from hnfc.dialects.torch import TorchType
from hnfc.dialects.types import ANY, DYNAMIC, IntsAttr, TypeMismatch, reduced_shape, tensor


def unchanged(x: Interval, *_: Any, **__: Any) -> Interval:
    return x


def reshape(x: Any, *sizes: Any, shape: Sequence[int], source: Sequence[int] = ()) -> Any:
    """x of the type's shape `source` in `shape`, whose unknown sizes are `sizes`. Without these they are those of x in order, or follow
    from the number of elements where only one is unknown."""
    if not sizes and shape.count(DYNAMIC) > 1:
        sizes = tuple(size for size, known in zip(np.shape(x), source, strict=True) if known == DYNAMIC)
    known = iter(int(size) for size in sizes)
    return np.reshape(x, [next(known, -1) if size == DYNAMIC else size for size in shape])


def broadcast(x: Any, *sizes: Any, shape: Sequence[int]) -> Any:
    known = iter(int(size) for size in sizes)
    own = (1,) * (len(shape) - np.ndim(x)) + np.shape(x)
    return np.broadcast_to(x, [next(known, old) if size == DYNAMIC else size for size, old in zip(shape, own, strict=True)])


def slice_bounds(size: int, start: int, stop: int) -> tuple[int, int]:
    """start and stop within [0, size], as Python reads negative and large ones."""
    low, high, _ = slice(start, stop).indices(size)
    return low, max(low, high)


def slice_along(x: Any, axis: int, start: int, stop: int, step: int) -> Any:
    return x[(slice(None),) * axis + (slice(start, stop, step),)]


def pad(x: Any, low: Sequence[int], high: Sequence[int], value: float) -> Any:
    """x with `low` elements before and `high` after along each axis; a negative number cuts."""
    cut = tuple(slice(max(-a, 0), n - max(-b, 0)) for n, a, b in zip(np.shape(x), low, high, strict=True))
    widths = [(max(a, 0), max(b, 0)) for a, b in zip(low, high, strict=True)]
    return np.pad(x[cut], widths, constant_values=value)


def repeated(m: Any, x: Any, *sizes: Any, shape: Any = None, axis: Any = None, size: Any = None) -> Any:
    """x along a new shape, or (in rules) `size` times along an axis of size 1."""
    return x if axis is None else m.repeat(x, axis, size)


def padded_along(m: Any, x: Any, low: Any, high: Any, value: Any, axis: Any = None) -> Any:
    """Along one axis in a rule, along every axis in a model."""
    if axis is not None:
        return m.pad(x, axis, low, high, value)
    for place, (a, b) in enumerate(zip(low, high, strict=True)):
        x = m.pad(x, place, a, b, value)
    return x


def hull(*xs: Interval, axis: int = 0) -> Interval:
    result = xs[0]
    for x in xs[1:]:
        result = result.hull(x)
    return result


def same_but_for_units(first: Sequence[int], second: Sequence[int]) -> bool:
    """Return whether two shapes of types differ at most in axes of size 1."""
    return [size for size in first if size != 1] == [size for size in second if size != 1]


def _agree(a: int, b: int) -> bool:
    return a == b or DYNAMIC in (a, b)


@irdl_op_definition
class TransposeOp(UnaryOp):
    """result[i] = x[perm⁻¹(i)]: axis j of the result is axis perm[j] of x."""

    name = "num.transpose"
    perm = prop_def(base(IntsAttr))
    assembly_format = f"$x $perm {TYPES}"
    FACTS: ClassVar = Facts(
        access=Access.MOVEMENT,
        exactness=Exactness.SELECTION,
        accepts=ANY,
        real=lambda m, x, perm: m.transpose(x, perm),
        evaluate=lambda x, perm: np.transpose(x, perm),
        range=unchanged,
        torch=("aten.permute", "aten.transpose.int", "aten.t"),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
        shape, perm = operands[0].get_shape(), attributes["perm"]
        if sorted(perm) != list(range(len(shape))):
            raise TypeMismatch(f"expected a permutation of {len(shape)} axes, but got {list(perm)}")
        return tensor(operands[0].element_type, [shape[axis] for axis in perm])


class ShapedOp(NumOp):
    """x in the shape of the result, whose unknown sizes may be given as operands, one for each from left to right."""

    FROM_TYPE: ClassVar = frozenset({"shape"})
    x = operand_def(TensorType)
    sizes = var_operand_def(TorchType)
    result = result_def(TensorType)
    assembly_format = f"$x (`,` $sizes^)? {TYPES}"

    @classmethod
    def make(cls, *operands: SSAValue, **attributes: Any) -> Self:
        result = cls.infer([as_tensor(operands[0].type)], attributes)
        return cls.create(operands=operands, result_types=[result])

    def verify_(self) -> None:
        result = as_tensor(self.results[0].type)
        self.infer([as_tensor(self.x.type)], {"shape": result.get_shape()})
        if as_tensor(self.x.type).element_type != result.element_type:
            raise TypeMismatch(f"{self.name}: expected a result of {element_name(as_tensor(self.x.type))}, but got {result}")
        unknown = result.get_shape().count(DYNAMIC)
        if self.sizes and len(self.sizes) != unknown:
            raise TypeMismatch(f"{self.name}: expected a size for each of {unknown} unknown sizes, but got {len(self.sizes)}")


@irdl_op_definition
class ReshapeOp(ShapedOp):
    """The elements of x in the same order, in the shape of the result. Several unknown sizes without operands for them are those of x in
    order, between which only axes of size 1 come and go."""

    FROM_TYPE: ClassVar = frozenset({"shape", "source"})
    name = "num.reshape"
    FACTS: ClassVar = Facts(
        access=Access.MOVEMENT,
        exactness=Exactness.SELECTION,
        accepts=ANY,
        real=None,
        evaluate=reshape,
        range=unchanged,
        torch=("aten.view", "aten.reshape", "aten._unsafe_view", "aten.unsqueeze", "aten.squeeze.dim", "aten.flatten.using_ints"),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
        old, new = operands[0].get_shape(), tuple(attributes["shape"])
        if DYNAMIC not in (*old, *new) and math.prod(old) != math.prod(new):
            raise TypeMismatch(f"expected {math.prod(old)} elements, but got the shape {list(new)}")
        return tensor(operands[0].element_type, new)

    def verify_(self) -> None:
        super().verify_()
        old, new = as_tensor(self.x.type).get_shape(), as_tensor(self.results[0].type).get_shape()
        if not self.sizes and new.count(DYNAMIC) > 1 and not same_but_for_units(old, new):
            raise TypeMismatch(f"{self.name}: expected a size for each of {new.count(DYNAMIC)} unknown sizes, but got none")


@irdl_op_definition
class BroadcastOp(ShapedOp):
    """x repeated along axes of size 1, and along new axes on the left, to the shape of the result."""

    name = "num.broadcast"
    FACTS: ClassVar = Facts(
        access=Access.MOVEMENT,
        exactness=Exactness.SELECTION,
        accepts=ANY,
        real=repeated,
        evaluate=broadcast,
        range=unchanged,
        torch=("aten.broadcast_to", "aten.expand"),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
        old, new = operands[0].get_shape(), tuple(attributes["shape"])
        pairs = zip(old, new[len(new) - len(old) :], strict=False)
        if len(old) > len(new) or not all(a == 1 or _agree(a, b) for a, b in pairs):
            raise TypeMismatch(f"expected a shape that {list(old)} broadcasts to, but got {list(new)}")
        return tensor(operands[0].element_type, new)


@irdl_op_definition
class SliceOp(UnaryOp):
    """x[…, start:stop:step, …] along `axis`; negative and large bounds as in Python."""

    name = "num.slice"
    axis = prop_def(IntegerAttr)
    start = prop_def(IntegerAttr)
    stop = prop_def(IntegerAttr)
    step = prop_def(IntegerAttr)
    assembly_format = f"$x `axis` $axis `from` $start `to` $stop `by` $step {TYPES}"
    FACTS: ClassVar = Facts(
        access=Access.MOVEMENT,
        exactness=Exactness.SELECTION,
        accepts=ANY,
        real=lambda m, x, axis, start, stop, step: m.slice(x, axis, start, stop, step),
        evaluate=slice_along,
        range=unchanged,
        torch=("aten.slice.Tensor",),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
        shape, axis = operands[0].get_shape(), attributes["axis"]
        reduced_shape(shape, [axis])
        if shape[axis] == DYNAMIC:
            return tensor(operands[0].element_type, (*shape[:axis], DYNAMIC, *shape[axis + 1 :]))
        low, high = slice_bounds(shape[axis], attributes["start"], attributes["stop"])
        return tensor(operands[0].element_type, (*shape[:axis], -(-(high - low) // attributes["step"]), *shape[axis + 1 :]))


@irdl_op_definition
class ConcatOp(NumOp):
    """The operands one after the other along `axis`."""

    name = "num.concat"
    parts = var_operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    result = result_def(TensorType)
    assembly_format = f"$parts $axis {TYPES}"
    FACTS: ClassVar = Facts(
        access=Access.MOVEMENT,
        exactness=Exactness.SELECTION,
        accepts=ANY,
        real=lambda m, *parts, axis: m.concat(parts, axis),
        evaluate=lambda *parts, axis: np.concatenate(parts, axis=axis),
        range=hull,
        torch=("aten.cat",),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
        if not operands:
            raise TypeMismatch("expected at least one operand, but got none")
        axis, first = attributes["axis"], operands[0].get_shape()
        reduced_shape(first, [axis])
        shape = list(first)
        for operand in operands[1:]:
            other = operand.get_shape()
            if len(other) != len(first) or operand.element_type != operands[0].element_type:
                raise TypeMismatch(f"expected operands of one rank and element type, but got {operands[0]} and {operand}")
            for i, (a, b) in enumerate(zip(shape, other, strict=True)):
                if i == axis:
                    shape[i] = DYNAMIC if DYNAMIC in (a, b) else a + b
                elif not _agree(a, b):
                    raise TypeMismatch(f"expected sizes that agree but along axis {axis}, but got {operands[0]} and {operand}")
                elif a == DYNAMIC:
                    shape[i] = b
        return tensor(operands[0].element_type, shape)


@irdl_op_definition
class PadOp(UnaryOp):
    """x with `low` elements of `value` before it and `high` after it along each axis; negative numbers cut."""

    name = "num.pad"
    low = prop_def(base(IntsAttr))
    high = prop_def(base(IntsAttr))
    value = prop_def(FloatAttr)
    assembly_format = f"$x `low` $low `high` $high `value` $value {TYPES}"
    FACTS: ClassVar = Facts(
        access=Access.MOVEMENT,
        exactness=Exactness.CORRECT,
        accepts=ANY,
        real=padded_along,
        evaluate=pad,
        range=lambda x, low, high, value: x.hull(Interval.point(value)),
        torch=("aten.constant_pad_nd",),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
        shape, low, high = operands[0].get_shape(), attributes["low"], attributes["high"]
        if not len(shape) == len(low) == len(high):
            raise TypeMismatch(f"expected a width for each of {len(shape)} axes, but got {list(low)} and {list(high)}")
        if any(n != DYNAMIC and n + min(a, 0) + min(b, 0) < 0 for n, a, b in zip(shape, low, high, strict=True)):
            raise TypeMismatch(f"expected to cut no more than there is, but got {list(low)} and {list(high)} for {list(shape)}")
        sizes = [n if n == DYNAMIC else n + a + b for n, a, b in zip(shape, low, high, strict=True)]
        return tensor(operands[0].element_type, sizes)


@irdl_op_definition
class ReverseOp(UnaryOp):
    """x with its elements in the opposite order along `axes`."""

    name = "num.reverse"
    axes = prop_def(base(IntsAttr))
    assembly_format = f"$x $axes {TYPES}"
    FACTS: ClassVar = Facts(
        access=Access.MOVEMENT,
        exactness=Exactness.SELECTION,
        accepts=ANY,
        real=lambda m, x, axes: m.reverse(x, axes),
        evaluate=lambda x, axes: np.flip(x, axis=tuple(axes)),
        range=unchanged,
        torch=("aten.flip",),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
        reduced_shape(operands[0].get_shape(), attributes["axes"])
        return operands[0]
