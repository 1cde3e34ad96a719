"""Matrix products, convolutions and look-ups of StableHLO in the torch dialect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo

from hnfc.dialects.types import DYNAMIC
from hnfc.frontend.stablehlo_translation import Made, Size, Translation, element_of, integer, integers, shape_of, translates


@translates("dot_general")
def dot_general(t: Translation, op: ir.Operation, operands: list[ir.Value]) -> Made:
    """Batch axes first, contracted ones innermost, and one product of matrices."""
    numbers = _stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    batch = list(numbers.lhs_batching_dimensions), list(numbers.rhs_batching_dimensions)
    inner = list(numbers.lhs_contracting_dimensions), list(numbers.rhs_contracting_dimensions)
    return _product(t, op, operands, batch, inner)


@translates("dot")
def dot(t: Translation, op: ir.Operation, operands: list[ir.Value]) -> Made:
    last = len(t.shape(operands[0])) - 1
    return _product(t, op, operands, ([], []), ([last], [0]))


def _product(
    t: Translation, op: ir.Operation, operands: list[ir.Value], batch: tuple[list[int], list[int]], inner: tuple[list[int], list[int]]
) -> Made:
    kind = op.results[0].type
    element, result = element_of(kind), shape_of(kind)
    if element is None or element == "i1":
        return None
    x, y = (t.cast(operand, element) for operand in operands)
    rows = [axis for axis in range(len(t.shape(x))) if axis not in (*batch[0], *inner[0])]
    columns = [axis for axis in range(len(t.shape(y))) if axis not in (*batch[1], *inner[1])]
    if len(inner[0]) == 1 and len(columns) == 1 and not batch[0] and rows:
        # a linear layer: all axes of x but the last one are rows
        left, right = t.permute(x, [*rows, *inner[0]]), t.permute(y, [*inner[1], *columns])
        made = t.aten("mm" if len(rows) == 1 else "matmul", [left, right], element, result)
        return t.know(made, [*(t.known_size(x, axis) for axis in rows), t.known_size(y, columns[0])])
    left, right = t.permute(x, [*batch[0], *rows, *inner[0]]), t.permute(y, [*batch[1], *inner[1], *columns])
    if len(inner[0]) == len(rows) == len(columns) == 1:
        made = t.aten("matmul", [left, right], element, result)
        return t.know(made, [*(t.known_size(x, axis) for axis in (*batch[0], *rows)), t.known_size(y, columns[0])])
    both: list[Size] = [t.size(x, axis) for axis in batch[0]]
    merged = [_merged(t, value, axes) for value, axes in ((x, rows), (x, inner[0]), (y, columns))]
    if None in merged:
        return None
    row, middle, column = merged
    left, right = t.reshape(left, [*both, row, middle]), t.reshape(right, [*both, middle, column])
    known = [size if isinstance(size, int) else DYNAMIC for size in (*both, row, column)]
    made = t.aten("matmul", [left, right], element, known)
    return t.reshape(made, [*both, *(t.size(x, axis) for axis in rows), *(t.size(y, axis) for axis in columns)])


def _merged(t: Translation, value: ir.Value, axes: list[int]) -> Size | None:
    """The size of several axes together; None where more than one of them would have to be multiplied at run time."""
    known = 1
    for axis in axes:
        size = t.shape(value)[axis]
        if size == DYNAMIC:
            return t.size(value, axis) if len(axes) == 1 else None
        known *= size
    return known


@translates("convolution")
def convolution(t: Translation, op: ir.Operation, operands: list[ir.Value]) -> Made:
    x, weight = operands
    numbers = _stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    rank = len(t.shape(x)) - 2
    one = [1] * rank
    strides = integers(op.attributes, "window_strides", one)
    dilations = integers(op.attributes, "rhs_dilation", one)
    edges = [int(item) for item in op.attributes["padding"]] if "padding" in op.attributes else [0] * (2 * rank)
    spread = integers(op.attributes, "lhs_dilation", one) != one
    element = element_of(op.results[0].type)
    unknown = DYNAMIC in t.shape(x)[1:] or integer(op.attributes, "batch_group_count", 1) != 1
    if rank not in (1, 2, 3) or spread or unknown or element is None:
        return None
    x = t.permute(t.cast(x, element), [numbers.input_batch_dimension, numbers.input_feature_dimension, *numbers.input_spatial_dimensions])
    weight = t.permute(
        t.cast(weight, element),
        [numbers.kernel_output_feature_dimension, numbers.kernel_input_feature_dimension, *numbers.kernel_spatial_dimensions],
    )
    if "window_reversal" in op.attributes:
        turned = [2 + i for i, flag in enumerate(op.attributes["window_reversal"]) if flag]
        weight = t.like("flip", weight, turned) if turned else weight
    low, high = edges[::2], edges[1::2]
    if low != high or min(low, default=0) < 0:
        if min(edges) < 0:
            return None
        around = [edge for pair in reversed(list(zip(low, high, strict=True))) for edge in pair]
        shape = [*t.shape(x)[:2], *(size + a + b for size, a, b in zip(t.shape(x)[2:], low, high, strict=True))]
        x = t.aten("constant_pad_nd", [x, around, 0.0 if t.is_float(x) else 0], element, shape)
        low = [0] * rank
    order = [numbers.output_batch_dimension, numbers.output_feature_dimension, *numbers.output_spatial_dimensions]
    wanted = shape_of(op.results[0].type)
    groups = integer(op.attributes, "feature_group_count", 1)
    made = t.aten(
        "convolution", [x, weight, None, strides, low, dilations, False, [0] * rank, groups], element, [wanted[axis] for axis in order]
    )
    return t.permute(made, sorted(range(len(order)), key=order.__getitem__))


# look-ups


@translates("gather")
def gather(t: Translation, op: ir.Operation, operands: list[ir.Value]) -> Made:
    """Whole slices at places of one or several axes. Places outside are moved inside, as StableHLO does and torch does not."""
    x, places = operands
    numbers = _stablehlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    shape, wanted = t.shape(x), integers(op.attributes, "slice_sizes")
    indexed, collapsed = list(numbers.start_index_map), list(numbers.collapsed_slice_dims)
    paired = list(numbers.operand_batching_dims), list(numbers.start_indices_batching_dims)
    rest = [axis for axis in range(len(shape)) if axis not in (*collapsed, *paired[0])]
    whole = all(wanted[axis] == shape[axis] for axis in rest) and all(wanted[axis] == 1 for axis in collapsed)
    if DYNAMIC in (*shape, *t.shape(places)) or not whole or not t.element(places).startswith(("si", "ui")):
        return None
    columns = _columns(t, places, numbers.index_vector_dim, len(indexed))
    offsets, result = list(numbers.offset_dims), shape_of(op.results[0].type)
    if paired[0]:
        if numbers.index_vector_dim < len(paired[1]):
            return None
        return _paired(t, x, columns, indexed, paired, rest, offsets)
    used = [(axis, column) for axis, column in zip(indexed, columns, strict=True) if axis in collapsed]
    if not used:
        return None
    return _looked_up(t, x, used, rest, offsets, result)


def _columns(t: Translation, places: ir.Value, axis: int, count: int) -> list[ir.Value]:
    """The tensor of places for each indexed axis."""
    shape = t.shape(places)
    if axis == len(shape):
        return [places]
    batch = [size for i, size in enumerate(shape) if i != axis]
    if count == 1:
        return [t.reshape(places, batch)]
    return [t.aten("select.int", [places, axis, i], t.element(places), batch) for i in range(count)]


def _inside(t: Translation, place: ir.Value, size: int) -> ir.Value:
    return t.like("clamp", t.cast(place, "si64"), 0, size - 1)


def _looked_up(
    t: Translation, x: ir.Value, used: Sequence[tuple[int, ir.Value]], rest: list[int], offsets: list[int], result: tuple[int, ...]
) -> ir.Value:
    """x at the places, whose axes come first, then what is read whole; then all of them where the result has them."""
    shape, element = t.shape(x), t.element(x)
    batch = t.shape(used[0][1])
    kept = [shape[axis] for axis in rest]
    collapsed = [axis for axis in range(len(shape)) if axis not in rest]
    if len(used) == len(collapsed) == 1 and len(batch) <= 1:
        # one line of places: what is read lies where it lay
        ((axis, place),) = used
        line = t.reshape(_inside(t, place, shape[axis]), [batch[0] if batch else 1])
        sizes = [line_size if i == axis else size for i, size in enumerate(shape) for line_size in [t.shape(line)[0]]]
        made = t.aten("index_select", [x, axis, line], element, sizes)
        made = t.permute(made, [axis, *rest])
    else:
        made = _indexed(t, t.permute(x, [*collapsed, *rest]), collapsed, dict(used), [shape[axis] for axis in collapsed], batch, kept)
    made = t.reshape(made, [*batch, *kept])
    return t.permute(made, _placed(len(batch), offsets, len(result)))


def _indexed(
    t: Translation, x: ir.Value, axes: list[int], used: dict[int, ir.Value], sizes: list[int], batch: Sequence[int], kept: list[int]
) -> ir.Value:
    """x[i, j, …] of its leading axes; one that nobody indexes has size 1, and one that is read whole starts at 0."""
    lists: list[Any] = []
    for axis, size in zip(axes, sizes, strict=True):
        place = used.get(axis)
        lists.append(_inside(t, place, size) if place is not None else t.like("mul.Scalar", _inside(t, next(iter(used.values())), 1), 0))
    if len(lists) == 1 and len(kept) == 1:
        return t.aten("embedding", [x, lists[0], -1, False, False], t.element(x), [*batch, *kept])
    values = [t.emitter.operand(place) for place in lists]
    listed = t.emitter.create("torch.prim.ListConstruct", values, "!torch.list<optional<vtensor>>")[0]
    return t.aten("index.Tensor", [x, listed], t.element(x), [*batch, *kept])


def _placed(batch: int, offsets: list[int], rank: int) -> list[int]:
    """The permutation that puts batch axes, then offset axes, where the result has them."""
    order = [axis for axis in range(rank) if axis not in offsets] + offsets
    return sorted(range(rank), key=order.__getitem__)


def _paired(
    t: Translation, x: ir.Value, columns: list[ir.Value], indexed: list[int], paired: tuple[list[int], list[int]], rest: list[int],
    offsets: list[int],
) -> ir.Value | None:  # fmt: skip
    """One place for each element of the paired axes: what NumPy calls take_along_axis."""
    if len(indexed) != 1 or rest or offsets or not _is_prefix(paired, len(t.shape(columns[0]))):
        return None
    (axis,) = indexed
    shape, place = t.shape(x), columns[0]
    front = [shape[i] for i in paired[0]]
    moved = t.permute(x, [*paired[0], axis])
    ahead = len(t.shape(place)) - len(front)
    count = 1
    for size in t.shape(place)[len(front) :]:
        count *= size
    flat = t.reshape(_inside(t, place, shape[axis]), [*front, count])
    made = t.aten("gather", [moved, len(front), flat, False], t.element(x), [*front, count])
    return made if ahead == 1 else t.reshape(made, t.shape(place))


def _is_prefix(paired: tuple[list[int], list[int]], rank: int) -> bool:
    """Return whether the paired axes of the places are their first ones, in the order in which the operand is permuted."""
    return paired[1] == list(range(len(paired[1]))) and len(paired[1]) <= rank
