"""Writers of `num` operations in the torch dialect, operand lists complete, in forms that torch-mlir lowers.

Where torch's operation has no lowering, or a poor one, `expansions` says it in other operations of `num`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from torch_mlir import ir
from xdsl.ir import SSAValue

from hnfc.core.torch_emitter import DTYPE_CODES, Emitter, scalar_operand
from hnfc.dialects.num.base import as_tensor
from hnfc.dialects.num.movement import ReshapeOp
from hnfc.dialects.types import DYNAMIC, ELEMENT_NAMES, FORMATS, tensor

Writer: TypeAlias = Callable[[Emitter, Any], "ir.Value | list[ir.Value]"]

WRITERS: dict[str, Writer] = {}
HALVES = ("f16", "bf16", "f8E4M3FN", "f8E5M2", "f8E4M3FNUZ", "f8E5M2FNUZ")
"""Formats that torch computes in float32 and rounds afterwards."""


def writes(*names: str) -> Callable[[Writer], Writer]:
    def register(writer: Writer) -> Writer:
        for name in names:
            WRITERS[f"num.{name}"] = writer
        return writer

    return register


def kind(value: SSAValue) -> Any:
    return as_tensor(value.type)


def shape(value: SSAValue) -> tuple[int, ...]:
    return tuple(as_tensor(value.type).get_shape())


# elementwise


def by_name(e: Emitter, op: Any) -> ir.Value:
    """The first of the operation's torch names, on its operands; `torch.operator` where the torch dialect has none of that name."""
    write = e.aten if in_dialect(e, op) else e.operator
    return write(op.FACTS.torch[0].removeprefix("aten."), [e.resolve(operand) for operand in op.operands], op.result.type)


def in_dialect(e: Emitter, op: Any) -> bool:
    """Return whether the torch dialect has the first of the operation's torch names."""
    return bool(op.FACTS.torch) and e.context.is_registered_operation(f"torch.{op.FACTS.torch[0]}")


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


@writes("constant")
def constant(e: Emitter, op: Any) -> ir.Value:
    return e.literal(op.value.value.data, kind(op.result))


@writes("iota")
def iota(e: Emitter, op: Any) -> ir.Value:
    element = ELEMENT_NAMES[kind(op.result).element_type]
    number: Any = float if element in FORMATS else int
    start, step, (count,) = number(op.start.value.data), number(op.step.value.data), shape(op.result)
    code, cpu = (
        DTYPE_CODES[element],
        e.create("torch.constant.device", [], "!torch.Device", attributes={"value": ir.StringAttr.get("cpu", e.context)})[0],
    )
    stop = start + count * step
    return e.aten("arange.start_step", [start, stop, step, code, None, cpu, False], op.result.type)


# reductions and what is made of them


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


# contraction


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


# movement


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


# weights, and what num does not know


@writes("weight")
def weight(e: Emitter, op: Any) -> ir.Value:
    return e.create("torch.vtensor.literal", [], op.result.type, attributes={"value": e.weight(op.weight_name, kind(op.result))})[0]


@writes("opaque")
def opaque(e: Emitter, op: Any) -> list[ir.Value]:
    attributes = {name: e.attribute(text.data) for name, text in op.carried.data.items()}
    return e.create(op.operation.data, [e.resolve(x) for x in op.inputs], *(r.type for r in op.outputs), attributes=attributes)
