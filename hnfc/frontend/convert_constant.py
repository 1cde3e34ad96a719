"""Tensors that torch fills with numbers."""

from __future__ import annotations

import math

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from hnfc.dialects.num.constant import IotaOp
from hnfc.dialects.types import DYNAMIC
from hnfc.frontend.builder import Entry, ImportBuilder
from hnfc.frontend.registry import converts, is_number


@converts("aten.full_like", "aten.fill.Scalar", "aten.new_full")
def full_like(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    value = next((entry for entry in args[1:3] if is_number(entry)), None)
    return filled(b, value, result)


@converts("aten.full")
def full(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    return filled(b, args[1], result)


@converts("aten.scalar_tensor", "prim.NumToTensor.Scalar", "aten.tensor.int", "aten.tensor.float", "aten.tensor.bool")
def scalar_tensor(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    return filled(b, args[0], result)


@converts("aten.ones", "aten.ones_like", "aten.new_ones")
def ones(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    return filled(b, 1.0, result)


@converts("aten.zeros", "aten.zeros_like", "aten.new_zeros")
def zeros(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    return filled(b, 0.0, result)


def filled(b: ImportBuilder, value: Entry, result: Attribute) -> SSAValue | None:
    """A splat, where the shape is known."""
    if (
        not isinstance(result, TensorType)
        or not is_number(value)
        or DYNAMIC in result.get_shape()
        or (abs(value) > 2**53 and isinstance(value, int))
    ):
        return None
    return b.splat(value, result)


@converts("aten.arange", "aten.arange.start", "aten.arange.start_step")
def arange(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    """start + step·i, for constant bounds."""
    numbers = [entry for entry in args[:3] if is_number(entry)]
    if not isinstance(result, TensorType) or DYNAMIC in result.get_shape() or len(result.get_shape()) != 1:
        return None
    if any(isinstance(entry, SSAValue) for entry in args[:3]) or not all(math.isfinite(n) for n in numbers):
        return None
    count = len(args) - 4
    if count == 1:
        return b.emit(IotaOp, (), result, start=0.0, step=1.0)
    step = float(args[2]) if count == 3 else 1.0
    return b.emit(IotaOp, (), result, start=float(args[0]), step=step)
