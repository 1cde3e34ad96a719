"""Operations that move elements in the torch dialect."""

from __future__ import annotations

from typing import Any

from torch_mlir import ir

from hnfc.backend.writer_registry import kind, shape, writes
from hnfc.core.torch_emitter import Emitter
from hnfc.dialects.types import DYNAMIC, ELEMENT_NAMES, FORMATS


@writes("transpose")
def transpose(e: Emitter, op: Any) -> ir.Value:
    return e.aten("permute", [e.resolve(op.x), op.perm.data], op.result.type)


def _sizes(e: Emitter, op: Any) -> list[Any]:
    """The sizes of the result: numbers, the operands for unknown ones, and -1 for one that follows from the rest."""
    given = iter(op.sizes)
    return [e.resolve(next(given)) if op.sizes and size == DYNAMIC else -1 if size == DYNAMIC else size for size in shape(op.result)]


@writes("reshape")
def reshape(e: Emitter, op: Any) -> ir.Value:
    sizes: list[Any] = _sizes(e, op)
    if not op.sizes and sizes.count(-1) > 1:
        own = (e.aten("size.int", [e.resolve(op.x), axis], "!torch.int") for axis, size in enumerate(shape(op.x)) if size == DYNAMIC)
        sizes = [next(own) if size == -1 else size for size in sizes]
    return e.aten("view", [e.resolve(op.x), sizes], op.result.type)


@writes("broadcast")
def broadcast(e: Emitter, op: Any) -> ir.Value:
    return e.aten("broadcast_to", [e.resolve(op.x), _sizes(e, op)], op.result.type)


@writes("slice")
def slice_(e: Emitter, op: Any) -> ir.Value:
    bounds = [op.axis.value.data, op.start.value.data, op.stop.value.data, op.step.value.data]
    return e.aten("slice.Tensor", [e.resolve(op.x), *bounds], op.result.type)


@writes("concat")
def concat(e: Emitter, op: Any) -> ir.Value:
    return e.aten("cat", [[e.resolve(part) for part in op.parts], op.axis.value.data], op.result.type)


@writes("pad")
def pad(e: Emitter, op: Any) -> ir.Value:
    widths = [w for pair in zip(reversed(op.low.data), reversed(op.high.data), strict=True) for w in pair]
    value = op.value.value.data
    number = value if ELEMENT_NAMES[kind(op.result).element_type] in FORMATS else int(value)
    return e.aten("constant_pad_nd", [e.resolve(op.x), widths, number], op.result.type)


@writes("reverse")
def reverse(e: Emitter, op: Any) -> ir.Value:
    return e.aten("flip", [e.resolve(op.x), op.axes.data], op.result.type)
