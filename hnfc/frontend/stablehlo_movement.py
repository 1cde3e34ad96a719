"""Movement, constants and sizes of StableHLO in the torch dialect."""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir

from hnfc.core.torch_emitter import DTYPE_CODES
from hnfc.dialects.types import DYNAMIC
from hnfc.frontend.stablehlo_translation import Made, Size, Translation, element_of, integer, integers, shape_of, translates


@translates("constant", "chlo.constant")
def constant(t: Translation, op: ir.Operation, operands: list[ir.Value]) -> Made:
    kind = op.results[0].type
    element = element_of(kind)
    return t.constant(op.attributes["value"], element, shape_of(kind)) if element is not None else None


@translates("iota")
def iota(t: Translation, op: ir.Operation, operands: list[ir.Value]) -> Made:
    kind = op.results[0].type
    element, shape, axis = element_of(kind), shape_of(kind), integer(op.attributes, "iota_dimension")
    return None if element is None or DYNAMIC in shape else _iota(t, element, shape, shape, axis)


def _iota(t: Translation, element: str, shape: Sequence[int], sizes: Sequence[Size], axis: int) -> ir.Value:
    """0, 1, 2, … along one axis. torch counts in integers."""
    line = t.aten("arange", [sizes[axis], DTYPE_CODES["si64"], None, None, None], "si64", (shape[axis],))
    line = t.cast(line, element)
    placed = t.reshape(line, [sizes[axis] if i == axis else 1 for i in range(len(shape))])
    return t.expand(placed, sizes)


@translates("reshape")
def reshape(t: Translation, op: ir.Operation, operands: list[ir.Value]) -> Made:
    shape = shape_of(op.results[0].type)
    number = t.number(operands[0])
    made = t.reshape(operands[0], shape)
    if number is not None and operands[0] in t.thin:
        t.thin[made] = t.thin[operands[0]]
    return made


@translates("broadcast_in_dim")
def broadcast_in_dim(t: Translation, op: ir.Operation, operands: list[ir.Value]) -> Made:
    return _broadcast(t, operands[0], integers(op.attributes, "broadcast_dimensions"), list(shape_of(op.results[0].type)))


@translates("dynamic_broadcast_in_dim")
def dynamic_broadcast_in_dim(t: Translation, op: ir.Operation, operands: list[ir.Value]) -> Made:
    sizes = _sizes_of(t, op.operands[1], op.results[0].type)
    return None if sizes is None else _broadcast(t, operands[0], integers(op.attributes, "broadcast_dimensions"), sizes)


def _broadcast(t: Translation, x: ir.Value, axes: list[int], sizes: Sequence[Size]) -> ir.Value:
    """Axis i of x becomes axis axes[i]; the others are new."""
    order = sorted(range(len(axes)), key=axes.__getitem__)
    x = t.permute(x, order)
    places = {axes[i]: axis for axis, i in enumerate(order)}
    number = t.number(x)
    if number is not None and x in t.thin:
        return t.expand(t.thin[x], sizes) if sizes else t.thin[x]
    trailing = [len(sizes) - len(axes) + i for i in range(len(axes))]
    if sorted(axes) != trailing:
        x = t.reshape(x, [t.size(x, places[i]) if i in places else 1 for i in range(len(sizes))])
    return t.expand(x, sizes)


@translates("dynamic_reshape")
def dynamic_reshape(t: Translation, op: ir.Operation, operands: list[ir.Value]) -> Made:
    sizes = _sizes_of(t, op.operands[1], op.results[0].type)
    return None if sizes is None else t.reshape(operands[0], sizes)


@translates("dynamic_iota")
def dynamic_iota(t: Translation, op: ir.Operation, operands: list[ir.Value]) -> Made:
    kind = op.results[0].type
    sizes, element = _sizes_of(t, op.operands[0], kind), element_of(kind)
    if sizes is None or element is None:
        return None
    return _iota(t, element, shape_of(kind), sizes, integer(op.attributes, "iota_dimension"))


@translates("get_dimension_size")
def get_dimension_size(t: Translation, op: ir.Operation, operands: list[ir.Value]) -> Made:
    size = t.size(operands[0], integer(op.attributes, "dimension"))
    if isinstance(size, int):
        return t.scalar(size, "si32")
    number = t.note(t.emitter.create("torch.prim.NumToTensor.Scalar", [size], "!torch.vtensor<[],si64>")[0], "si64", ())
    t.counts[op.results[0]] = [size]
    return t.cast(number, "si32")


def _sizes_of(t: Translation, value: ir.Value, kind: ir.Type) -> list[Size] | None:
    """The sizes that a tensor of integers lists, known ones from the type of the result."""
    found = t.count(value)
    if found is None:
        return None
    return [size if known == DYNAMIC else known for size, known in zip(found, shape_of(kind), strict=True)]


@translates("transpose")
def transpose(t: Translation, op: ir.Operation, operands: list[ir.Value]) -> Made:
    return t.permute(operands[0], integers(op.attributes, "permutation"))


@translates("reverse")
def reverse(t: Translation, op: ir.Operation, operands: list[ir.Value]) -> Made:
    return t.like("flip", operands[0], integers(op.attributes, "dimensions"))


@translates("concatenate")
def concatenate(t: Translation, op: ir.Operation, operands: list[ir.Value]) -> Made:
    if len(operands) == 1:
        return operands[0]
    return t.aten("cat", [operands, integer(op.attributes, "dimension")], t.element(operands[0]), shape_of(op.results[0].type))


# parts


@translates("slice")
def slice_(t: Translation, op: ir.Operation, operands: list[ir.Value]) -> Made:
    starts, limits, steps = (integers(op.attributes, name) for name in ("start_indices", "limit_indices", "strides"))
    (x,) = operands
    for axis, (start, limit, step) in enumerate(zip(starts, limits, steps, strict=True)):
        x = _part(t, x, axis, start, limit, step)
    return x


def _part(t: Translation, x: ir.Value, axis: int, start: int, limit: int, step: int = 1) -> ir.Value:
    shape = list(t.shape(x))
    if (start, limit, step) == (0, shape[axis], 1):
        return x
    shape[axis] = max(0, -((start - limit) // step))
    return t.aten("slice.Tensor", [x, axis, start, limit, step], t.element(x), shape)


@translates("dynamic_slice")
def dynamic_slice(t: Translation, op: ir.Operation, operands: list[ir.Value]) -> Made:
    """Starts are moved so that the part lies inside."""
    x, *starts = operands
    shape, wanted = t.shape(x), integers(op.attributes, "slice_sizes")
    if DYNAMIC in shape:
        return None
    for axis, (size, start) in enumerate(zip(wanted, starts, strict=True)):
        if size == shape[axis]:
            continue
        known = t.number(start)
        if known is not None:
            first = min(max(known, 0), shape[axis] - size)
            x = _part(t, x, axis, first, first + size)
            continue
        rest = [size if i == axis else s for i, s in enumerate(t.shape(x))]
        x = t.aten("index_select", [x, axis, _places(t, start, size, shape[axis] - size)], t.element(x), rest)
    return x


def _places(t: Translation, start: ir.Value, count: int, last: int) -> ir.Value:
    """start, start + 1, …, where start lies between 0 and last."""
    first = t.like("clamp", t.cast(start, "si64"), 0, last)
    line = t.aten("arange", [count, DTYPE_CODES["si64"], None, None, None], "si64", (count,))
    return t.like("add.Tensor", line, first, 1)


@translates("dynamic_update_slice")
def dynamic_update_slice(t: Translation, op: ir.Operation, operands: list[ir.Value]) -> Made:
    """Each element is that of the update, read at its own place in it, where that exists; else it is what it was."""
    x, update, *starts = operands
    shape, sizes = t.shape(x), t.shape(update)
    if DYNAMIC in shape or DYNAMIC in sizes or 0 in sizes:
        return None
    mask: ir.Value | None = None
    for axis, start in enumerate(starts):
        if sizes[axis] == shape[axis]:
            continue
        line = t.aten("arange", [shape[axis], DTYPE_CODES["si64"], None, None, None], "si64", (shape[axis],))
        first = t.like("clamp", t.cast(start, "si64"), 0, shape[axis] - sizes[axis])
        place = t.like("sub.Tensor", line, first, 1)
        inside = t.like("clamp", place, 0, sizes[axis] - 1)
        spread = [shape[axis] if i == axis else size for i, size in enumerate(t.shape(update))]
        update = t.aten("index_select", [update, axis, inside], t.element(update), spread)
        here = t.aten("eq.Tensor", [place, inside], "i1", t.shape(place))
        here = t.reshape(here, [shape[axis] if i == axis else 1 for i in range(len(shape))])
        if mask is None:
            mask = here
        else:
            both = [max(a, b) for a, b in zip(t.shape(mask), t.shape(here), strict=True)]
            mask = t.aten("logical_and", [mask, here], "i1", both)
    return update if mask is None else t.aten("where.self", [mask, update, x], t.element(x), shape)


@translates("pad")
def pad(t: Translation, op: ir.Operation, operands: list[ir.Value]) -> Made:
    x, filling = operands
    low, high, between = (integers(op.attributes, name) for name in ("edge_padding_low", "edge_padding_high", "interior_padding"))
    number = t.number(filling)
    if any(between) or number is None or DYNAMIC in t.shape(x):
        return None
    for axis, (before, after) in enumerate(zip(low, high, strict=True)):
        if before < 0 or after < 0:
            size = t.shape(x)[axis]
            x = _part(t, x, axis, max(-before, 0), size - max(-after, 0))
    edges = [max(edge, 0) for pair in reversed(list(zip(low, high, strict=True))) for edge in pair]
    if not any(edges):
        return x
    return t.aten("constant_pad_nd", [x, edges, number], t.element(x), shape_of(op.results[0].type))
