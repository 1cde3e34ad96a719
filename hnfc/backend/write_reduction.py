"""Reductions, norms and attention in the torch dialect."""

from __future__ import annotations

from typing import Any

from torch_mlir import ir
from xdsl.ir import SSAValue

from hnfc.backend.writer_registry import HALVES, kind, shape, writes
from hnfc.core.torch_emitter import DTYPE_CODES, Emitter
from hnfc.dialects.num.movement import ReshapeOp
from hnfc.dialects.types import ELEMENT_NAMES, tensor


@writes("sum", "mean")
def sum_(e: Emitter, op: Any) -> ir.Value:
    """Added up in `accumulate`, and in float32 where the elements are narrower, as torch does; lowered code would add them as they are."""
    name = "sum.dim_IntList" if op.name == "num.sum" else "mean.dim"
    element = ELEMENT_NAMES[kind(op.result).element_type]
    given = getattr(op, "accumulate", None)
    wide = given.data if given is not None else "f32" if element in HALVES else element
    if wide == element:
        return e.aten(name, [e.resolve(op.x), op.axes.data, True, None], op.result.type)
    total = e.aten(name, [e.resolve(op.x), op.axes.data, True, DTYPE_CODES[wide]], e.ranked(wide, shape(op.result)))
    return e.aten("to.dtype", [total, DTYPE_CODES[element], False, False, None], op.result.type)


@writes("max", "min")
def amax(e: Emitter, op: Any) -> ir.Value:
    return e.aten("amax" if op.name == "num.max" else "amin", [e.resolve(op.x), op.axes.data, True], op.result.type)


@writes("var")
def var(e: Emitter, op: Any) -> ir.Value:
    correction = op.correction.value.data
    number = int(correction) if correction == int(correction) else correction
    return e.aten("var.correction", [e.resolve(op.x), op.axes.data, number, True], op.result.type)


@writes("prod", "any", "all")
def one_axis_at_a_time(e: Emitter, op: Any) -> ir.Value:
    name = {"num.prod": "prod.dim_int", "num.any": "any.dim", "num.all": "all.dim"}[op.name]
    value, sizes, element = e.resolve(op.x), list(shape(op.x)), kind(op.result).element_type
    for axis in op.axes.data:
        sizes[axis] = 1
        extra = [None] if op.name == "num.prod" else []
        value = e.aten(name, [value, axis, True, *extra], e.ranked(element, sizes))
    return value if op.axes.data else e.aten("clone", [value, None], op.result.type)


@writes("argmax", "argmin")
def argmax(e: Emitter, op: Any) -> ir.Value:
    """torch knows one axis; several next to each other are merged first."""
    name, axes, sizes = op.name.removeprefix("num."), op.axes.data, shape(op.x)
    if len(axes) == 1:
        return e.aten(name, [e.resolve(op.x), axes[0], True], op.result.type)
    if len(axes) == len(sizes):
        place = e.aten(name, [e.resolve(op.x), None, False], e.ranked("si64", ()))
        return e.aten("view", [place, list(shape(op.result))], op.result.type)
    kept = [i for i in range(len(sizes)) if i not in axes]
    perm = [*kept, *axes]
    element = kind(op.x).element_type
    turned = e.aten("permute", [e.resolve(op.x), perm], e.ranked(element, [sizes[i] for i in perm]))
    count = 1
    for axis in axes:
        count *= sizes[axis]
    flat = [*(sizes[i] for i in kept), count]
    merged = e.aten("view", [turned, flat], e.ranked(element, flat))
    place = e.aten(name, [merged, len(kept), False], e.ranked("si64", flat[:-1]))
    return e.aten("view", [place, list(shape(op.result))], op.result.type)


@writes("cumsum")
def cumsum(e: Emitter, op: Any) -> ir.Value:
    return e.aten("cumsum", [e.resolve(op.x), op.axis.value.data, None], op.result.type)


@writes("softmax", "log_softmax")
def softmax(e: Emitter, op: Any) -> ir.Value:
    (axis,) = op.axes.data
    return e.aten(f"{op.name.removeprefix('num.')}.int", [e.resolve(op.x), axis, None], op.result.type)


@writes("layer_norm")
def layer_norm(e: Emitter, op: Any) -> ir.Value:
    sizes = [shape(op.x)[axis] for axis in op.axes.data]
    weight, bias = [e.resolve(p) for p in op.parameters] + [None] * (2 - len(op.parameters))
    return e.aten("layer_norm", [e.resolve(op.x), sizes, weight, bias, op.eps.value.data, False], op.result.type)


@writes("batch_norm")
def batch_norm(e: Emitter, op: Any) -> ir.Value:
    mean_, variance, *parameters = [_vector(e, p, shape(op.x)[1]) for p in (op.mean, op.variance, *op.parameters)]
    weight, bias = parameters + [None] * (2 - len(parameters))
    operands = [e.resolve(op.x), weight, bias, mean_, variance, False, 0.1, op.eps.value.data, True]
    return e.aten("batch_norm", operands, op.result.type)


def _vector(e: Emitter, parameter: SSAValue, channels: int) -> ir.Value:
    """A statistic per channel as the vector that torch wants."""
    owner = parameter.owner
    if isinstance(owner, ReshapeOp) and shape(owner.x) == (channels,):
        return e.resolve(owner.x)
    return e.aten("view", [e.resolve(parameter), [channels]], e.ranked(kind(parameter).element_type, [channels]))


@writes("group_norm")
def group_norm(e: Emitter, op: Any) -> ir.Value:
    weight, bias = [e.resolve(p) for p in op.parameters] + [None] * (2 - len(op.parameters))
    operands = [e.resolve(op.x), op.groups.value.data, weight, bias, op.eps.value.data, False]
    return e.aten("group_norm", operands, op.result.type)


def batch_of_one(value: SSAValue) -> Any:
    return tensor(kind(value).element_type, (1, *shape(value)))


@writes("attention")
def attention(e: Emitter, op: Any) -> ir.Value:
    mask = e.resolve(op.mask[0]) if op.mask else None
    causal = bool(op.causal.value.data)
    rest = [mask, 0.0, causal, op.scale.value.data, False]
    inputs = [e.resolve(operand) for operand in (op.q, op.k, op.v)]
    if len(shape(op.result)) > 2:
        return e.aten("scaled_dot_product_attention", [*inputs, *rest], op.result.type)
    # lowerings know attention on batches only
    batches = [e.aten("unsqueeze", [x, 0], batch_of_one(value)) for x, value in zip(inputs, (op.q, op.k, op.v), strict=True)]
    result = e.aten("scaled_dot_product_attention", [*batches, *rest], batch_of_one(op.result))
    return e.aten("squeeze.dim", [result, 0], op.result.type)
