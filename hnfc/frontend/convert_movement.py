"""Operations of torch that move elements and change none."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from hnfc.dialects.num.arithmetic import SubOp
from hnfc.dialects.num.movement import BroadcastOp, ConcatOp, PadOp, ReshapeOp, ReverseOp, SliceOp, TransposeOp, same_but_for_units
from hnfc.dialects.types import BOOL, DYNAMIC
from hnfc.frontend.builder import Entry, ImportBuilder
from hnfc.frontend.convert_contraction import batched_matmul
from hnfc.frontend.registry import axes_of, converts, element, ints, is_number, is_tensor, shape

_END = 2**63 - 1


def sizes_of(entries: Entry, result: TensorType[Attribute]) -> tuple[SSAValue, ...] | None:
    """The operands for the unknown sizes of a result; () where at most one is unknown, None where that does not suffice."""
    unknown = [i for i, size in enumerate(result.get_shape()) if size == DYNAMIC]
    if not unknown:
        return ()
    if isinstance(entries, list) and len(entries) == len(result.get_shape()):
        given = [entries[i] for i in unknown]
        if all(isinstance(entry, SSAValue) for entry in given):
            return tuple(given)
    return () if len(unknown) == 1 else None


@converts("aten.view", "aten.reshape", "aten._unsafe_view", "aten._reshape_alias")
def view(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    x, entries = args[0], args[1]
    if not is_tensor(x) or not isinstance(result, TensorType):
        return None
    if x.type is result and DYNAMIC not in result.get_shape():
        return x  # type: ignore[no-any-return]
    product = batched_matmul(b, x, result)
    if product is not None:
        return product
    sizes = sizes_of(entries, result)
    return None if sizes is None else b.emit(ReshapeOp, (x, *sizes), result)


@converts(
    "aten.unsqueeze", "aten.squeeze", "aten.squeeze.dim", "aten.squeeze.dims", "prims.squeeze", "aten.flatten.using_ints",
    "aten.unflatten.int", "prims.collapse", "aten.atleast_1d",
)  # fmt: skip
def reshape(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    x = args[0]
    if not is_tensor(x) or not isinstance(result, TensorType):
        return None
    if x.type is result and DYNAMIC not in result.get_shape():
        return x  # type: ignore[no-any-return]
    return _unit_reshape(b, x, result)


def _unit_reshape(b: ImportBuilder, x: SSAValue, result: TensorType[Attribute]) -> SSAValue | None:
    """x reshaped, where axes keep their order; None where that does not say what several unknown sizes are."""
    several = result.get_shape().count(DYNAMIC) > 1
    return None if several and not same_but_for_units(shape(x), result.get_shape()) else b.emit(ReshapeOp, (x,), result)


@converts("aten.view_as")
def view_as(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    x = args[0]
    if not is_tensor(x) or not isinstance(result, TensorType) or sizes_of(None, result) is None:
        return None
    return b.emit(ReshapeOp, (x,), result)


@converts("aten.expand", "aten.broadcast_to", "aten.expand_as")
def expand(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    x, entries = args[0], args[1]
    if not is_tensor(x) or not isinstance(result, TensorType):
        return None
    if x.type == result and DYNAMIC not in result.get_shape():
        return x  # type: ignore[no-any-return]
    sizes = sizes_of(entries, result)
    if sizes is None or (DYNAMIC in result.get_shape() and not sizes and shape(x).count(DYNAMIC) != result.get_shape().count(DYNAMIC)):
        return None
    return b.emit(BroadcastOp, (x, *sizes), result)


@converts("aten.permute")
def permute(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    x, perm = args
    if ints(perm) is None or not is_tensor(x):
        return None
    rank = len(shape(x))
    return b.emit(TransposeOp, (x,), result, perm=tuple(axis % rank for axis in perm))


@converts("aten.transpose.int", "prims.transpose")
def transpose(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    x, first, second = args
    rank = len(shape(x))
    if not isinstance(first, int) or not isinstance(second, int):
        return None
    if rank == 0:
        return x  # type: ignore[no-any-return]
    perm = list(range(rank))
    perm[first], perm[second] = perm[second], perm[first]
    return b.emit(TransposeOp, (x,), result, perm=tuple(perm))


@converts("aten.t", "aten.numpy_T")
def t(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    x = args[0]
    rank = len(shape(x))
    return x if rank < 2 else b.emit(TransposeOp, (x,), result, perm=tuple(reversed(range(rank))))


def sliced(b: ImportBuilder, x: SSAValue, axis: int, start: int, stop: int, result: Attribute, step: int = 1) -> SSAValue:
    return b.emit(SliceOp, (x,), result, axis=axis, start=start, stop=stop, step=step)


@converts("aten.slice.Tensor")
def slice_(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    x, axis, start, stop, step = args
    start, stop = 0 if start is None else start, _END if stop is None else stop
    if not all(isinstance(entry, int) for entry in (axis, start, stop, step)) or step < 1 or not is_tensor(x):
        return None
    axis %= len(shape(x))
    size = shape(x)[axis]
    if x.type == result and size != DYNAMIC and step == 1:
        return x  # type: ignore[no-any-return]
    return sliced(b, x, axis, start, stop, result, step)


@converts("aten.select.int")
def select(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    """x[…, index, …]: a slice of size 1, then reshaped."""
    x, axis, index = args
    if not isinstance(axis, int) or not isinstance(index, int) or not is_tensor(x) or not isinstance(result, TensorType):
        return None
    axis %= len(shape(x))
    kind = b.tensor(element(x), (*shape(x)[:axis], 1, *shape(x)[axis + 1 :]))
    cut = sliced(b, x, axis, index, index + 1 if index != -1 else _END, kind)
    return _unit_reshape(b, cut, result)


def diagonal_of(b: ImportBuilder, x: SSAValue, offset: int, first: int, second: int) -> SSAValue | None:
    """Every (columns + 1)-th element of the matrices along two axes, in one row behind the other axes."""
    rank = len(shape(x))
    first, second = first % rank, second % rank
    rows, columns = shape(x)[first], shape(x)[second]
    others = [axis for axis in range(rank) if axis not in (first, second)]
    sizes = [shape(x)[axis] for axis in others]
    count = min(rows - max(-offset, 0), columns - max(offset, 0))
    if DYNAMIC in shape(x) or count <= 0:
        return None
    order = (*others, first, second)
    moved = order != tuple(range(rank))
    matrix = b.emit(TransposeOp, (x,), b.tensor(element(x), (*sizes, rows, columns)), perm=order) if moved else x
    row = b.emit(ReshapeOp, (matrix,), b.tensor(element(x), (*sizes, rows * columns)))
    start = max(-offset, 0) * columns + max(offset, 0)
    stop = start + (count - 1) * (columns + 1) + 1
    return sliced(b, row, rank - 2, start, stop, b.tensor(element(x), (*sizes, count)), columns + 1)


@converts("aten.diagonal")
def diagonal(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    x, *settings = args
    return diagonal_of(b, x, *settings) if is_tensor(x) and all(isinstance(entry, int) for entry in settings) else None


@converts("aten.diag")
def diag(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    """The diagonal of a matrix; a matrix made of a row is left to torch."""
    x, offset = args
    return diagonal_of(b, x, offset, 0, 1) if is_tensor(x) and len(shape(x)) == 2 and isinstance(offset, int) else None


@converts("aten.narrow")
def narrow(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    x, axis, start, length = args
    return slice_(b, [x, axis, start, start + length if isinstance(length, int) else None, 1], result)  # type: ignore[no-any-return]


@converts("aten.split.Tensor", "aten.split_with_sizes", "aten.split.sizes")
def split(b: ImportBuilder, args: list[Entry], result: Attribute) -> list[SSAValue] | None:
    """A list of slices: parts of one size (the last may be shorter), or of the sizes given."""
    x, how, axis = args
    if not is_tensor(x) or not isinstance(axis, int) or ints(how) is None:
        return None
    axis %= len(shape(x))
    total = shape(x)[axis]
    if total == DYNAMIC or how == 0:
        return None
    sizes = how if isinstance(how, list) else [min(how, total - start) for start in range(0, total, how)]
    parts, start = [], 0
    for size in sizes:
        kind = b.tensor(element(x), (*shape(x)[:axis], size, *shape(x)[axis + 1 :]))
        parts.append(sliced(b, x, axis, start, start + size, kind))
        start += size
    return parts


@converts("aten.chunk")
def chunk(b: ImportBuilder, args: list[Entry], result: Attribute) -> list[SSAValue] | None:
    x, count, axis = args
    if not is_tensor(x) or not isinstance(axis, int) or not isinstance(count, int) or shape(x)[axis] == DYNAMIC:
        return None
    return split(b, [x, max(1, -(-shape(x)[axis] // count)), axis], result)  # type: ignore[no-any-return]


@converts("aten.unbind.int")
def unbind(b: ImportBuilder, args: list[Entry], result: Attribute) -> list[SSAValue] | None:
    x, axis = args
    parts = split(b, [x, 1, axis], result)
    if parts is None or DYNAMIC in shape(x):
        return None
    axis %= len(shape(x))
    kind = b.tensor(element(x), (*shape(x)[:axis], *shape(x)[axis + 1 :]))
    return [b.emit(ReshapeOp, (part,), kind) for part in parts]


@converts("prim.ListUnpack")
def unpack(b: ImportBuilder, args: list[Entry], *results: Attribute) -> Any:
    parts = args[0]
    return tuple(parts) if isinstance(parts, list) and [getattr(part, "type", None) for part in parts] == list(results) else None


@converts("aten.__getitem__.t")
def getitem(b: ImportBuilder, args: list[Entry], result: Attribute) -> Any:
    parts, place = args
    return parts[place] if isinstance(parts, list) and isinstance(place, int) and getattr(parts[place], "type", None) == result else None


@converts("aten.cat", "prims.cat")
def cat(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    parts, axis = args
    if not isinstance(parts, list) or not isinstance(axis, int) or not isinstance(result, TensorType) or not all(map(is_tensor, parts)):
        return None
    rank = len(result.get_shape())
    if any(len(shape(part)) != rank for part in parts):
        return None
    return b.emit(ConcatOp, tuple(b.cast(part, result.element_type) for part in parts), result, axis=axis % rank)


@converts("aten.diff")
def diff(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    """Each element less the one before it along an axis, with what is put before and after."""
    x, times, axis, before, after = args
    parts = [part for part in (before, x, after) if part is not None]
    if times != 1 or not isinstance(axis, int) or not isinstance(result, TensorType) or not all(map(is_tensor, parts)):
        return None
    axis %= len(shape(x))
    size = sum(shape(part)[axis] for part in parts)
    if any(shape(part)[axis] == DYNAMIC for part in parts) or any(len(shape(part)) != len(shape(x)) for part in parts):
        return None
    if element(x) == BOOL or size < 1:
        return None
    whole = b.tensor(element(x), (*shape(x)[:axis], size, *shape(x)[axis + 1 :]))
    joined = x if len(parts) == 1 else b.emit(ConcatOp, tuple(b.cast(part, element(x)) for part in parts), whole, axis=axis)
    kind = b.tensor(element(x), result.get_shape())
    return b.emit(SubOp, (sliced(b, joined, axis, 1, _END, kind), sliced(b, joined, axis, 0, size - 1, kind)), result)


@converts("aten.stack")
def stack(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    """Each part with a new axis, one after the other along it."""
    parts, axis = args
    if not isinstance(parts, list) or not isinstance(axis, int) or not isinstance(result, TensorType) or not all(map(is_tensor, parts)):
        return None
    axis %= len(result.get_shape())
    lifted = []
    for part in parts:
        kind = b.tensor(result.element_type, (*shape(part)[:axis], 1, *shape(part)[axis:]))
        lifted.append(b.emit(ReshapeOp, (b.cast(part, result.element_type),), kind))
    return b.emit(ConcatOp, tuple(lifted), result, axis=axis)


@converts("aten.constant_pad_nd", "aten.pad")
def pad(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    """torch lists the widths from the last axis, low before high."""
    x, widths, *rest = args
    value = rest[-1] if rest else 0.0
    if (len(rest) == 2 and rest[0] != "constant") or ints(widths) is None or not (value is None or is_number(value)):
        return None
    rank = len(shape(x))
    low, high = [0] * rank, [0] * rank
    for i in range(len(widths) // 2):
        low[rank - 1 - i], high[rank - 1 - i] = widths[2 * i], widths[2 * i + 1]
    return b.emit(PadOp, (x,), result, low=tuple(low), high=tuple(high), value=float(value or 0.0))


@converts("aten.flip")
def flip(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    x, dims = args
    axes = axes_of(dims, len(shape(x))) if dims else ()
    return x if axes == () else None if axes is None else b.emit(ReverseOp, (x,), result, axes=axes)
