"""Elementwise operations, conditions and casts in the torch dialect."""

from __future__ import annotations

from typing import Any

from torch_mlir import ir

from hnfc.backend.writer_registry import kind, writes
from hnfc.core.torch_emitter import DTYPE_CODES, Emitter, scalar_operand
from hnfc.dialects.types import ELEMENT_NAMES, tensor


@writes("add")
def add(e: Emitter, op: Any) -> ir.Value:
    for x, y in ((op.x, op.y), (op.y, op.x)):
        number = scalar_operand(y)
        if number is not None:
            return e.aten("add.Scalar", [e.resolve(x), number, 1], op.result.type)
    return e.aten("add.Tensor", [e.resolve(op.x), e.resolve(op.y), 1], op.result.type)


@writes("sub")
def sub(e: Emitter, op: Any) -> ir.Value:
    right, left = scalar_operand(op.y), scalar_operand(op.x)
    if right is not None:
        return e.aten("sub.Scalar", [e.resolve(op.x), right, 1], op.result.type)
    if left is not None:
        return e.aten("rsub.Scalar", [e.resolve(op.y), left, 1], op.result.type)
    return e.aten("sub.Tensor", [e.resolve(op.x), e.resolve(op.y), 1], op.result.type)


@writes("mul")
def mul(e: Emitter, op: Any) -> ir.Value:
    for x, y in ((op.x, op.y), (op.y, op.x)):
        number = scalar_operand(y)
        if number is not None:
            return e.aten("mul.Scalar", [e.resolve(x), number], op.result.type)
    return e.aten("mul.Tensor", [e.resolve(op.x), e.resolve(op.y)], op.result.type)


@writes("div")
def div(e: Emitter, op: Any) -> ir.Value:
    right = scalar_operand(op.y)
    if right is not None:
        return e.aten("div.Scalar", [e.resolve(op.x), right], op.result.type)
    return e.aten("div.Tensor", [e.resolve(op.x), e.resolve(op.y)], op.result.type)


@writes("reciprocal")
def reciprocal(e: Emitter, op: Any) -> ir.Value:
    """1 / x, since torch-mlir lowers aten.reciprocal to code that aborts where x is 0."""
    one = e.literal(1.0, tensor(kind(op.x).element_type, ()))
    return e.aten("div.Tensor", [one, e.resolve(op.x)], op.result.type)


@writes("pow")
def pow_(e: Emitter, op: Any) -> ir.Value:
    exponent, base = scalar_operand(op.y), scalar_operand(op.x)
    if exponent is not None:
        return e.aten("pow.Tensor_Scalar", [e.resolve(op.x), exponent], op.result.type)
    if base is not None:
        return e.aten("pow.Scalar", [base, e.resolve(op.y)], op.result.type)
    return e.aten("pow.Tensor_Tensor", [e.resolve(op.x), e.resolve(op.y)], op.result.type)


@writes("maximum", "minimum")
def maximum(e: Emitter, op: Any) -> ir.Value:
    low = op.name == "num.maximum"
    for x, y in ((op.x, op.y), (op.y, op.x)):
        number = scalar_operand(y)
        if number is not None:
            return e.aten("clamp", [e.resolve(x), *((number, None) if low else (None, number))], op.result.type)
    return e.aten("maximum" if low else "minimum", [e.resolve(op.x), e.resolve(op.y)], op.result.type)


_MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


@writes("compare")
def compare(e: Emitter, op: Any) -> ir.Value:
    predicate = op.predicate.data
    right, left = scalar_operand(op.y), scalar_operand(op.x)
    if right is not None:
        return e.aten(f"{predicate}.Scalar", [e.resolve(op.x), right], op.result.type)
    if left is not None:
        return e.aten(f"{_MIRRORED[predicate]}.Scalar", [e.resolve(op.y), left], op.result.type)
    return e.aten(f"{predicate}.Tensor", [e.resolve(op.x), e.resolve(op.y)], op.result.type)


@writes("where")
def where(e: Emitter, op: Any) -> ir.Value:
    return e.aten("where.self", [e.resolve(op.p), e.resolve(op.x), e.resolve(op.y)], op.result.type)


@writes("gelu")
def gelu(e: Emitter, op: Any) -> ir.Value:
    return e.aten("gelu", [e.resolve(op.x), op.approximate.data], op.result.type)


@writes("softplus")
def softplus(e: Emitter, op: Any) -> ir.Value:
    return e.aten("softplus", [e.resolve(op.x), 1.0, 20.0], op.result.type)


@writes("cast")
def cast(e: Emitter, op: Any) -> ir.Value:
    code = DTYPE_CODES[ELEMENT_NAMES[kind(op.result).element_type]]
    return e.aten("to.dtype", [e.resolve(op.x), code, False, False, None], op.result.type)
