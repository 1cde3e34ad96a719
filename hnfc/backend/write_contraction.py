"""Matrix products, convolutions, pooling and look-ups in the torch dialect."""

from __future__ import annotations

from typing import Any

from torch_mlir import ir

from hnfc.backend.writer_registry import shape, writes
from hnfc.core.torch_emitter import Emitter


@writes("matmul")
def matmul(e: Emitter, op: Any) -> ir.Value:
    ranks = (len(shape(op.a)), len(shape(op.b)))
    name = {(2, 2): "mm", (3, 3): "bmm"}.get(ranks, "matmul")
    if ranks == (3, 3) and shape(op.a)[0] != shape(op.b)[0]:
        name = "matmul"
    return e.aten(name, [e.resolve(op.a), e.resolve(op.b)], op.result.type)


@writes("affine")
def affine(e: Emitter, op: Any) -> ir.Value:
    x, weight, bias = (e.resolve(operand) for operand in op.operands)
    if len(shape(op.x)) == 2 and len(shape(op.weight)) == 2:
        return e.aten("addmm", [bias, x, weight, 1, 1], op.result.type)
    return e.aten("add.Tensor", [e.aten("matmul", [x, weight], op.result.type), bias, 1], op.result.type)


@writes("conv")
def conv(e: Emitter, op: Any) -> ir.Value:
    window = [op.stride.data, op.padding.data, op.dilation.data]
    zeros = [0] * len(op.stride.data)
    operands = [e.resolve(op.x), e.resolve(op.weight), None, *window, False, zeros, op.groups.value.data]
    return e.aten("convolution", operands, op.result.type)


@writes("max_pool")
def max_pool(e: Emitter, op: Any) -> ir.Value:
    window = [op.kernel.data, op.stride.data, op.padding.data, op.dilation.data]
    return e.aten(f"max_pool{len(op.kernel.data)}d", [e.resolve(op.x), *window, bool(op.ceil.value.data)], op.result.type)


@writes("avg_pool")
def avg_pool(e: Emitter, op: Any) -> ir.Value:
    rank = len(op.kernel.data)
    operands = [
        e.resolve(op.x),
        op.kernel.data,
        op.stride.data,
        op.padding.data,
        bool(op.ceil.value.data),
        bool(op.count_padding.value.data),
    ]
    return e.aten(f"avg_pool{rank}d", [*operands, None] if rank > 1 else operands, op.result.type)


@writes("embedding")
def embedding(e: Emitter, op: Any) -> ir.Value:
    return e.aten("embedding", [e.resolve(op.table), e.resolve(op.indices), -1, False, False], op.result.type)


@writes("gather")
def gather(e: Emitter, op: Any) -> ir.Value:
    return e.aten("gather", [e.resolve(op.x), op.axis.value.data, e.resolve(op.index), False], op.result.type)


@writes("index_select")
def index_select(e: Emitter, op: Any) -> ir.Value:
    return e.aten("index_select", [e.resolve(op.x), op.axis.value.data, e.resolve(op.index)], op.result.type)
