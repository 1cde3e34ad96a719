"""Movement and convolution between the two forms of their settings: in a rule along one axis, in a program as properties and shapes.

A rule's bounds are integers within the operand; a program's may be negative or too large, as Python reads them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, TypeAlias

from xdsl.ir import Operation

from hnfc.dialects.num.base import NumOp
from hnfc.dialects.num.movement import slice_bounds
from hnfc.dialects.types import DYNAMIC
from hnfc.dsl import core
from hnfc.rewrite.bindings import AXIS, Binding, Bindings, Integers, resolve_axes, shape_of

Value: TypeAlias = "Fraction | Integers"

MOVES = frozenset(("slice", "concat", "pad", "gather", "broadcast", "conv", "cumsum"))


def is_movement(name: str, attributes: Mapping[str, Any]) -> bool:
    """Return whether a rule's application has its settings in the rule's own form."""
    if name in ("reshape", "transpose"):
        return any(isinstance(attributes.get(key), core.Capture | core.Apply) for key in ("shape", "perm"))
    return name in MOVES and ("axis" in attributes or name == "conv")


def settings(op: NumOp) -> tuple[int | None, dict[str, Value]] | None:
    """The axis, counted from the right, and the settings of the operation as a rule names them; None where no rule fits it."""
    found = op.attributes_as_python()
    shape = shape_of(op.operands[0])
    name = op.name.removeprefix("num.")
    if name == "conv":
        return None, {**{k: Integers(tuple(found[k])) for k in ("stride", "padding", "dilation")}, "groups": Fraction(found["groups"])}
    if name == "transpose":
        return None, {"perm": Integers(tuple(found["perm"]))}
    if name == "reshape":
        return (None, {"shape": Integers(tuple(found["shape"]))}) if DYNAMIC not in (*found["shape"], *shape) else None
    if name == "pad":
        return _padding(found, shape)
    if name == "broadcast":
        return _repeated(tuple(found["shape"]), shape)
    axis = found["axis"] - len(shape)
    if name == "slice":
        if shape[axis] == DYNAMIC:
            return None
        start, stop = slice_bounds(shape[axis], found["start"], found["stop"])
        return axis, {"start": Fraction(start), "stop": Fraction(stop), "step": Fraction(found["step"])}
    if name == "gather":
        index = shape_of(op.operands[1])
        others = [(a, b) for i, (a, b) in enumerate(zip(shape, index, strict=True)) if i != found["axis"]]
        return (axis, {}) if all(a == b != DYNAMIC for a, b in others) else None
    return (axis, {}) if all(shape_of(operand)[axis] != 0 for operand in op.operands) else None


def _padding(found: dict[str, Any], shape: tuple[int, ...]) -> tuple[int, dict[str, Value]] | None:
    places = [i for i, (a, b) in enumerate(zip(found["low"], found["high"], strict=True)) if a or b]
    if len(places) != 1 or not math.isfinite(found["value"]):
        return None
    (place,) = places
    bounds = {key: Fraction(found[key][place]) for key in ("low", "high")}
    return place - len(shape), {**bounds, "value": Fraction(found["value"])}


def _repeated(wanted: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, dict[str, Value]] | None:
    if len(wanted) != len(shape) or DYNAMIC in wanted:
        return None
    places = [i for i, (a, b) in enumerate(zip(shape, wanted, strict=True)) if a != b]
    return (places[0] - len(shape), {"size": Fraction(wanted[places[0]])}) if len(places) == 1 else None


def match_settings(wanted: Mapping[str, Any], op: NumOp, bindings: Bindings) -> tuple[Bindings, list[tuple[core.Expr, Value]]] | None:
    """The bindings under which the settings fit, and what must still be compared once all names are bound."""
    found = settings(op)
    if found is None:
        return None
    axis, values = found
    after: dict[str, Binding] = dict(bindings)
    if axis is not None:
        own = wanted["axis"]
        if isinstance(own, int):
            if own != axis:
                return None
        elif after.setdefault(AXIS + own, frozenset((axis,))) != frozenset((axis,)):
            return None
    later: list[tuple[core.Expr, Value]] = []
    kept = wanted.get("axes") or ()
    if kept:
        resolved = resolve_axes(kept, after)
        if resolved is None or (own_shape := _beside(op, resolved)) is None:
            return None
        values = {"shape": own_shape}
    for key, value in values.items():
        expression = wanted[key]
        if isinstance(expression, core.Capture):
            if after.setdefault(expression.name, value) != value:
                return None
        elif isinstance(expression, core.Size | core.Apply):
            later.append((expression, value))
        elif not _equals(expression, value):
            return None
    return after, later


def _beside(op: Operation, kept: frozenset[int]) -> Integers | None:
    """The sizes of the result without the last axes, which the reshape leaves alone; None where it does not."""
    source, target = shape_of(op.operands[0]), shape_of(op.results[0])
    count = len(kept)
    if kept != frozenset(range(-count, 0)) or count > min(len(source), len(target)) or source[-count:] != target[-count:]:
        return None
    return Integers(target[:-count])


def _equals(wanted: Any, value: Value) -> bool:
    number = wanted.value if isinstance(wanted, core.Literal) else wanted
    if isinstance(value, Integers):
        return all(part == number for part in value.values)
    return bool(number == value)


def order_of(order: core.Expr, bindings: Bindings) -> tuple[int, ...] | None:
    """The order of axes that a rule names; `p @ q` takes p[q[j]] to place j."""
    if isinstance(order, core.Capture):
        bound = bindings.get(order.name)
        return bound.values if isinstance(bound, Integers) else None
    assert isinstance(order, core.Apply)
    first, second = (order_of(part, bindings) for part in order.operands)
    if first is None or second is None or len(first) != len(second):
        return None
    return tuple(first[place] for place in second)


def properties(name: str, shape: tuple[int, ...], axis: int | None, values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a rule's application as `NumOp.make` takes them; `values` holds integers, or a list of them for a convolution."""
    rank = len(shape)
    if name == "conv":
        given = {key: values[key] for key in ("stride", "padding", "dilation")}
        each = {key: value if isinstance(value, tuple) else (value,) * (rank - 2) for key, value in given.items()}
        return {**each, "groups": values["groups"]}
    assert axis is not None
    place = axis + rank
    match name:
        case "slice":
            return {"axis": place, **{key: values[key] for key in ("start", "stop", "step")}}
        case "pad":
            bounds = {key: tuple(values[key] if i == place else 0 for i in range(rank)) for key in ("low", "high")}
            return {**bounds, "value": float(values["value"])}
        case "broadcast":
            return {"shape": (*shape[:place], values["size"], *shape[place + 1 :])}
    return {"axis": place}
