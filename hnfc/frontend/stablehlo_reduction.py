"""Reductions of StableHLO whose body is one operation of two operands, windows of them, and argmax, in the torch dialect."""

from __future__ import annotations

import math
from typing import Any

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo

from hnfc.core.torch_emitter import DTYPE_CODES
from hnfc.dialects.types import DYNAMIC
from hnfc.frontend.stablehlo_elementwise import combine
from hnfc.frontend.stablehlo_translation import Made, Translation, integers, shape_of, translates


def _body(op: ir.Operation) -> list[ir.Operation]:
    return [view.operation for view in op.regions[0].blocks[0].operations]


def _combiner(op: ir.Operation) -> str | None:
    """The operation that a body consists of, where it is one and takes the two arguments as they are."""
    operations = _body(op)
    arguments = list(op.regions[0].blocks[0].arguments)
    if len(operations) != 2 or len(arguments) != 2 or set(operations[0].operands) != set(arguments):
        return None
    if list(operations[1].operands) != list(operations[0].results):
        return None
    commutes = operations[0].name.removeprefix("stablehlo.")
    return commutes if commutes in ("add", "multiply", "maximum", "minimum", "and", "or") else None


def _is_neutral(combiner: str, number: Any, element: str) -> bool:
    """Return whether a reduction by it may start with this number and be as if it had not."""
    if number is None:
        return False
    if element == "i1":
        return bool(number) == (combiner in ("and", "multiply", "minimum"))
    if combiner in ("add", "multiply"):
        return bool(number == (0 if combiner == "add" else 1))
    lowest, highest = _limits(element)
    return bool(number == (lowest if combiner == "maximum" else highest)) if combiner in ("maximum", "minimum") else False


def _limits(element: str) -> tuple[float, float]:
    if element.startswith("si"):
        half = 2 ** (int(element[2:]) - 1)
        return -half, half - 1
    return (0, 255) if element == "ui8" else (-math.inf, math.inf)


@translates("reduce")
def reduce(t: Translation, op: ir.Operation, operands: list[ir.Value]) -> Made:
    axes = integers(op.attributes, "dimensions")
    if len(operands) == 4:
        return _arg_reduce(t, op, operands, axes)
    combiner = _combiner(op)
    if len(operands) != 2 or combiner is None:
        return None
    x, initial = operands
    reduced = _reduced(t, combiner, x, axes, shape_of(op.results[0].type))
    if reduced is not None:
        t.know(reduced, [t.known_size(x, axis) for axis in range(len(t.shape(x))) if axis not in axes])
    if reduced is None or _is_neutral(combiner, t.number(initial), t.element(x)):
        return reduced
    if not t.shape(reduced):
        return combine(t, combiner, [reduced, initial])
    return combine(t, combiner, [reduced, t.expand(initial, t.sizes(reduced))])


def _reduced(t: Translation, combiner: str, x: ir.Value, axes: list[int], shape: tuple[int, ...]) -> ir.Value | None:
    element = t.element(x)
    if not axes:
        return x
    if any(t.shape(x)[axis] == 0 for axis in axes) and combiner not in ("add", "multiply"):
        return None
    if element == "i1":
        return _one_by_one(t, "all.dim" if combiner in ("and", "multiply", "minimum") else "any.dim", x, axes)
    dtype = None if t.is_float(x) else DTYPE_CODES[element]
    if combiner == "add":
        return t.aten("sum.dim_IntList", [x, axes, False, dtype], element, shape)
    if combiner == "multiply":
        return _one_by_one(t, "prod.dim_int", x, axes, dtype)
    if combiner in ("maximum", "minimum"):
        return t.aten("amax" if combiner == "maximum" else "amin", [x, axes, False], element, shape)
    return None


def _one_by_one(t: Translation, name: str, x: ir.Value, axes: list[int], *rest: Any) -> ir.Value:
    """A reduction that torch has for one axis at a time."""
    for axis in sorted(axes, reverse=True):
        kept = [size for i, size in enumerate(t.shape(x)) if i != axis]
        x = t.aten(name, [x, axis, False, *rest], t.element(x), kept)
    return x


_ARG = (
    ("compare", "x", "y"), ("compare", "x", "x"), ("or", 0, 1), ("compare", "x", "y"), ("compare", "i", "j"), ("and", 3, 4), ("or", 2, 5),
    ("select", 2, "x", "y"), ("select", 6, "i", "j"), ("return", 7, 8),
)  # fmt: skip
"""JAX's argmax and argmin of elements x, y with indices i, j: the greater, the first NaN, of equal ones the first. A number is a line."""
_DIRECTIONS = {("GT", "NE", "EQ", "LT"): "max", ("LT", "NE", "EQ", "LT"): "min"}


def _arg_reduce(t: Translation, op: ir.Operation, operands: list[ir.Value], axes: list[int]) -> Made:
    places = op.operands[1].owner
    counts = getattr(places, "name", "") == "stablehlo.iota" and [int(places.attributes["iota_dimension"])] == axes
    which = _which(op)
    x, _, initial, first = operands
    element = t.element(x)
    if which is None or not counts or element == "i1" or t.number(first) != 0:
        return None
    if not _is_neutral(f"{which}imum", t.number(initial), element):
        return None
    shape = shape_of(op.results[0].type)
    place = t.aten(f"arg{which}", [x, axes[0], False], "si64", shape)
    value = t.aten(f"a{which}", [x, axes, False], element, shape)
    return value, t.cast(place, t.element(operands[1]))


def _which(op: ir.Operation) -> str | None:
    """`max` or `min` where the body of a reduction is that of an argmax or argmin, line by line."""
    body = _body(op)
    names: dict[ir.Value, Any] = dict(zip(op.regions[0].blocks[0].arguments, "xiyj", strict=True))
    names |= {result: line for line, operation in enumerate(body) for result in operation.results}
    lines = tuple((one.name.removeprefix("stablehlo."), *(names.get(operand) for operand in one.operands)) for one in body)
    if lines != _ARG:
        return None
    comparisons = (body[line].attributes["comparison_direction"] for line in (0, 1, 3, 4))
    better, nan, equal, before = (str(_stablehlo.ComparisonDirectionAttr(one).value) for one in comparisons)
    return _DIRECTIONS.get((better, nan, equal, before))


# windows


@translates("reduce_window")
def reduce_window(t: Translation, op: ir.Operation, operands: list[ir.Value]) -> Made:
    """Pooling and running sums."""
    if len(operands) != 2:
        return None
    x, initial = operands
    shape, combiner = t.shape(x), _combiner(op)
    rank = len(shape)
    one = [1] * rank
    window = integers(op.attributes, "window_dimensions")
    strides = integers(op.attributes, "window_strides", one)
    dilated = integers(op.attributes, "base_dilations", one) != one
    dilations = integers(op.attributes, "window_dilations", one)
    padding = [int(item) for item in op.attributes["padding"]] if "padding" in op.attributes else [0] * (2 * rank)
    edges = list(zip(padding[::2], padding[1::2], strict=True))
    known = combiner is not None and not dilated and DYNAMIC not in shape and t.is_float(x)
    if not known or not _is_neutral(combiner or "", t.number(initial), t.element(x)):
        return None
    running = _running_sum(t, x, combiner or "", window, edges) if strides == one and dilations == one else None
    if running is not None:
        return running
    return _pool(t, x, combiner or "", window, strides, dilations, edges, shape_of(op.results[0].type))


def _running_sum(t: Translation, x: ir.Value, combiner: str, window: list[int], edges: list[tuple[int, int]]) -> ir.Value | None:
    shape = t.shape(x)
    moved = [axis for axis, size in enumerate(window) if size != 1]
    if combiner != "add" or len(moved) != 1:
        return None
    (axis,) = moved
    size = shape[axis]
    if window[axis] != size or any(edge != (0, 0) for i, edge in enumerate(edges) if i != axis):
        return None
    if edges[axis] == (size - 1, 0):
        return t.like("cumsum", x, axis, None)
    if edges[axis] == (0, size - 1):
        return t.like("flip", t.like("cumsum", t.like("flip", x, [axis]), axis, None), [axis])
    return None


def _pool(
    t: Translation, x: ir.Value, combiner: str, window: list[int], strides: list[int], dilations: list[int],
    edges: list[tuple[int, int]], result: tuple[int, ...],
) -> ir.Value | None:  # fmt: skip
    """Over the last two axes, with the pooled ones moved there."""
    pooled = [axis for axis in range(len(window)) if (window[axis], strides[axis], edges[axis]) != (1, 1, (0, 0))]
    if combiner not in ("maximum", "add") or len(pooled) > 2 or (combiner == "add" and any(dilations[axis] != 1 for axis in pooled)):
        return None
    kept = [axis for axis in range(len(window)) if axis not in pooled]
    while len(pooled) < 2 and kept:
        pooled.insert(0, kept.pop())
    if len(pooled) < 2 or len(kept) > 2:
        return None
    order = kept + pooled
    moved = t.permute(x, order)
    sizes = [t.shape(x)[axis] for axis in pooled]
    front = [t.shape(x)[axis] for axis in kept]
    moved = t.reshape(moved, [1] * (2 - len(front)) + front + sizes)
    filling = -math.inf if combiner == "maximum" else 0.0
    widened = [sizes[i] + sum(edges[axis]) for i, axis in enumerate(pooled)]
    if any(any(edges[axis]) for axis in pooled):
        around = [edge for axis in reversed(pooled) for edge in edges[axis]]
        if min(around) < 0:
            return None
        moved = t.aten("constant_pad_nd", [moved, around, filling], t.element(x), [*t.shape(moved)[:2], *widened])
    kernel, steps, gaps = ([values[axis] for axis in pooled] for values in (window, strides, dilations))
    after = [*t.shape(moved)[:2], *(result[axis] for axis in pooled)]
    if combiner == "maximum":
        made = t.aten("max_pool2d", [moved, kernel, steps, [0, 0], gaps, False], t.element(x), after)
    else:
        made = _summed(t, moved, kernel, steps, after)
    made = t.reshape(made, [result[axis] for axis in order])
    return t.permute(made, sorted(range(len(order)), key=order.__getitem__))


def _summed(t: Translation, x: ir.Value, kernel: list[int], steps: list[int], result: list[int]) -> ir.Value:
    """The sums of windows: a convolution with ones, image by image, which every backend has, and which rounds as a sum does."""
    images = t.shape(x)[0] * t.shape(x)[1]
    flat = t.reshape(x, [images, 1, *t.shape(x)[2:]])
    ones = t.expand(t.scalar(1.0, t.element(x)), [1, 1, *kernel])
    made = t.aten("convolution", [flat, ones, None, steps, [0, 0], [1, 1], False, [0, 0], 1], t.element(x), [images, 1, *result[2:]])
    return t.reshape(made, result)
