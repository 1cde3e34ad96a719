"""Matrix products, convolutions, pooling and look-ups of torch."""

from __future__ import annotations

import math

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from hnfc.dialects.num.arithmetic import AddOp, MulOp
from hnfc.dialects.num.comparison import CompareOp, WhereOp
from hnfc.dialects.num.constant import IotaOp
from hnfc.dialects.num.convolution import AvgPoolOp, ConvOp, MaxPoolOp
from hnfc.dialects.num.lookup import EmbeddingOp, GatherOp, IndexSelectOp
from hnfc.dialects.num.matmul import MatmulOp, matmul_shape
from hnfc.dialects.num.movement import BroadcastOp, ReshapeOp, TransposeOp
from hnfc.dialects.num.reduction import MeanOp
from hnfc.dialects.types import DYNAMIC, ELEMENT_NAMES, ELEMENT_TYPES, broadcast_shapes
from hnfc.frontend.builder import Entry, ImportBuilder
from hnfc.frontend.registry import converts, element, ints, is_number, is_tensor, shape


@converts("aten.mm", "aten.bmm", "aten.matmul", "aten.mv", "aten.dot")
def matmul(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    x, y = args
    if not isinstance(result, TensorType) or element(x) != result.element_type or element(y) != result.element_type:
        return None
    return b.emit(MatmulOp, (x, y), result)


@converts("aten.linear")
def linear(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    """x @ weightᵀ + bias."""
    x, weight, bias = args
    if not isinstance(result, TensorType) or element(x) != element(weight) or len(shape(weight)) != 2:
        return None
    turned = b.emit(TransposeOp, (weight,), b.tensor(element(weight), shape(weight)[::-1]), perm=(1, 0))
    if bias is None:
        return b.emit(MatmulOp, (x, turned), result)
    product = b.emit(MatmulOp, (x, turned), result)
    return b.emit(AddOp, (product, bias), result) if element(bias) == result.element_type else None


@converts("aten.addmm", "aten.baddbmm", "aten.addmv")
def addmm(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    """beta·c + alpha·(x @ y)."""
    c, x, y, beta, alpha = args
    if not isinstance(result, TensorType) or not is_number(beta) or not is_number(alpha) or len({element(t) for t in (c, x, y)}) > 1:
        return None
    product = b.emit(MatmulOp, (x, y), b.tensor(element(x), matmul_shape(shape(x), shape(y))))
    if alpha != 1:
        product = b.emit(MulOp, (product, b.constant(alpha, element(x))), product.type)
    if beta == 0:
        return product if product.type == result else None
    if beta != 1:
        c = b.emit(MulOp, (c, b.constant(beta, element(x))), c.type)
    return b.emit(AddOp, (product, c), result)


def batched_matmul(b: ImportBuilder, product: SSAValue, result: TensorType[Attribute]) -> SSAValue | None:
    """For view(bmm(view(a), view(b))) that only merges and splits batch axes: a @ b with those axes."""
    if not isinstance(product.owner, MatmulOp) or len(shape(product)) != 3:
        return None
    sizes = result.get_shape()
    if len(sizes) < 4 or sizes[-2:] != shape(product)[-2:] or DYNAMIC in sizes or math.prod(sizes[:-2]) != shape(product)[0]:
        return None
    left, right = (_unmerged(operand, sizes[:-2]) for operand in product.owner.operands)
    if left is None or right is None or broadcast_shapes(shape(left)[:-2], shape(right)[:-2]) != sizes[:-2]:
        return None
    return b.emit(MatmulOp, (left, right), result)


def _unmerged(merged: SSAValue, batch: tuple[int, ...]) -> SSAValue | None:
    """Source of `merged` before its batch axes were merged (and before it was broadcast along them)."""
    if not isinstance(merged.owner, ReshapeOp):
        return None
    source: SSAValue = merged.owner.x
    if shape(source) != (*batch, *shape(merged)[1:]):
        return None
    while isinstance(source.owner, BroadcastOp) and shape(source.owner.x)[-2:] == shape(source)[-2:]:
        source = source.owner.x
    return source


# convolution and pooling


def _sized(entry: Entry, rank: int) -> tuple[int, ...] | None:
    found = ints(entry)
    return found * rank if found is not None and len(found) == 1 else found if found is not None and len(found) == rank else None


@converts("aten.convolution")
def convolution(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    x, weight, bias, stride, padding, dilation, transposed, _, groups = args
    rank = len(shape(x)) - 2
    window = [_sized(entry, rank) for entry in (stride, padding, dilation)]
    if transposed is not False or rank < 1 or None in window or not isinstance(groups, int) or element(x) != element(weight):
        return None
    stride, padding, dilation = window
    product = b.emit(ConvOp, (x, weight), result, stride=stride, padding=padding, dilation=dilation, groups=groups)
    if bias is None:
        return product
    if not is_tensor(bias) or element(bias) != element(x):
        return None
    per_channel = b.emit(ReshapeOp, (bias,), b.tensor(element(bias), (1, *shape(bias), *(1,) * rank)))
    return b.emit(AddOp, (product, per_channel), result)


@converts("aten.conv1d", "aten.conv2d", "aten.conv3d")
def conv(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    x, weight, bias, stride, padding, dilation, groups = args
    return convolution(b, [x, weight, bias, stride, padding, dilation, False, [], groups], result)  # type: ignore[no-any-return]


@converts("aten.max_pool1d", "aten.max_pool2d", "aten.max_pool3d")
def max_pool(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    x, kernel, stride, padding, dilation, ceil = args
    rank = len(kernel)
    window = [_sized(entry, rank) for entry in (kernel, stride or kernel, padding, dilation)]
    if None in window or not isinstance(ceil, bool) or len(shape(x)) != rank + 2:
        return None
    kernel, stride, padding, dilation = window
    return b.emit(MaxPoolOp, (x,), result, kernel=kernel, stride=stride, padding=padding, dilation=dilation, ceil=ceil)


@converts("aten.max_pool2d_with_indices")
def max_pool_with_indices(b: ImportBuilder, args: list[Entry], result: Attribute, indices: Attribute) -> tuple[SSAValue, None] | None:
    value = max_pool(b, args, result)
    return None if value is None else (value, None)


@converts("aten.avg_pool1d", "aten.avg_pool2d", "aten.avg_pool3d")
def avg_pool(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    x, kernel, stride, padding, ceil, count_padding, *divisor = args
    rank = len(kernel)
    window = [_sized(entry, rank) for entry in (kernel, stride or kernel, padding)]
    if None in window or divisor not in ([], [None]) or len(shape(x)) != rank + 2:
        return None
    kernel, stride, padding = window
    return b.emit(AvgPoolOp, (x,), result, kernel=kernel, stride=stride, padding=padding, ceil=ceil, count_padding=count_padding)


@converts("aten.adaptive_avg_pool1d", "aten.adaptive_avg_pool2d", "aten.adaptive_avg_pool3d", "aten._adaptive_avg_pool2d")
def adaptive_avg_pool(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    """The mean over all places, where one place is requested."""
    x, sizes = args
    if ints(sizes) is None or set(sizes) != {1}:
        return None
    rank = len(shape(x))
    return b.emit(MeanOp, (x,), result, axes=tuple(range(rank - len(sizes), rank)))


# look-ups


@converts("aten.embedding")
def embedding(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    table, indices, *_ = args
    return b.emit(EmbeddingOp, (table, indices), result)


@converts("aten.gather")
def gather(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    x, axis, index, *_ = args
    if not isinstance(axis, int) or not shape(x):
        return None
    return b.emit(GatherOp, (x, index), result, axis=axis % len(shape(x)))


@converts("aten.index_select")
def index_select(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    x, axis, index = args
    if not isinstance(axis, int) or len(shape(index)) != 1 or not shape(x):
        return None
    return b.emit(IndexSelectOp, (x, index), result, axis=axis % len(shape(x)))


@converts("aten.index.Tensor", "aten.index.Tensor_hacked_twin", "aten._unsafe_index.Tensor")
def index(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    """x[…, index, …] with tensors of integers, of axes that lie side by side."""
    x, places = args
    if not isinstance(places, list) or not is_tensor(x):
        return None
    given = [(axis, place) for axis, place in enumerate(places) if place is not None]
    if not given or not all(is_tensor(place) and ELEMENT_NAMES.get(element(place)) in ("si64", "si32") for _, place in given):
        return None
    if len(given) > 1:
        return _indexed_together(b, x, [axis for axis, _ in given], [place for _, place in given], result)
    ((axis, place),) = given
    place = _from_the_front(b, place, shape(x)[axis])
    if axis == 0 and len(shape(place)) != 1:
        return b.emit(EmbeddingOp, (x, place), result)
    return b.emit(IndexSelectOp, (x, place), result, axis=axis) if len(shape(place)) == 1 else None


def _indexed_together(b: ImportBuilder, x: SSAValue, axes: list[int], places: list[SSAValue], result: Attribute) -> SSAValue | None:
    """The axes merged into one, and one index i·size + j into it."""
    sizes, first, last = shape(x), axes[0], axes[-1] + 1
    together = broadcast_shapes(*(shape(place) for place in places))
    wanted = (*sizes[:first], *together, *sizes[last:])
    known = DYNAMIC not in (*sizes, *together) and isinstance(result, TensorType) and result.get_shape() == wanted
    if axes != list(range(first, last)) or not known:
        return None
    flat: SSAValue | None = None
    whole = ELEMENT_TYPES["si64"]
    for axis, place in zip(axes, places, strict=True):
        place = _from_the_front(b, b.cast(place, whole), sizes[axis])
        flat = place if flat is None else b.make(AddOp, b.make(MulOp, flat, b.constant(sizes[axis], whole)), place)
    assert flat is not None
    count, merged = math.prod(together), math.prod(sizes[first:last])
    line = b.emit(ReshapeOp, (flat,), b.tensor(whole, (count,)))
    source = b.emit(ReshapeOp, (x,), b.tensor(element(x), (*sizes[:first], merged, *sizes[last:])))
    kind = b.tensor(element(x), (*sizes[:first], count, *sizes[last:]))
    return b.emit(ReshapeOp, (b.emit(IndexSelectOp, (source, line), kind, axis=first),), result)


def _from_the_front(b: ImportBuilder, place: SSAValue, size: int) -> SSAValue:
    """Indices with -1 for the last element, as numbers from 0 on, which is what look-ups of `num` take."""
    source = place
    while isinstance(source.owner, ReshapeOp | BroadcastOp):
        source = source.owner.x
    if size == DYNAMIC or (isinstance(source.owner, IotaOp) and source.owner.start.value.data >= 0 and source.owner.step.value.data >= 0):
        return place
    whole = element(place)
    negative = b.make(CompareOp, place, b.constant(0, whole), predicate="lt")
    return b.make(WhereOp, negative, b.make(AddOp, place, b.constant(size, whole)), place)
