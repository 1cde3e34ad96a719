"""Do the attributes of an operation fit those of a pattern? Axes, element types, settings, and bounds that are computed from others."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from xdsl.ir import SSAValue

from hnfc.dialects.num.base import NumOp, decode
from hnfc.dialects.types import ELEMENT_NAMES
from hnfc.dsl import core
from hnfc.dsl.movement import ON_BOUNDS
from hnfc.rewrite.bindings import AXIS, Bindings, bound_value, extent, resolve_axes, shape_of, type_of
from hnfc.rewrite.nary_terms import Number


def fit_attributes(wanted: Mapping[str, Any], op: NumOp, bindings: Bindings) -> Sequence[Bindings]:
    """The bindings under which the operation has the attributes that are wanted, and no others."""
    if not wanted and not op.properties:
        return (bindings,)
    fitting: Iterable[Bindings] = (bindings,)
    if "axes" in op.properties and "axes" in wanted:
        shape = shape_of(op.operands[0])
        found = frozenset(axis - len(shape) for axis in decode(op.properties["axes"]))
        fitting = () if any(shape[axis] == 0 for axis in found) else fit_axes(wanted["axes"], found, bindings)
    return [after for start in fitting if (after := _fit_others(wanted, op, start)) is not None]


def _fit_others(wanted: Mapping[str, Any], op: NumOp, bindings: Bindings) -> Bindings | None:
    """The same, of what are no axes."""
    for key, attribute in op.properties.items():
        if key not in wanted:
            return None
        value = wanted[key]
        if key == "axes":
            continue
        if value == "last_two":
            if not _swaps_last_two(decode(attribute)):
                return None
        elif isinstance(value, core.Capture):
            number = _exactly(decode(attribute))
            if number is None or bindings.get(value.name, number) != number:
                return None
            bindings = {**bindings, value.name: number}
        elif not _same_attribute(value, decode(attribute)):
            return None
    if len(wanted) > len(op.properties) and not all(key in op.properties or _by_type(key, wanted[key], op, bindings) for key in wanted):
        return None
    return bindings


def _by_type(key: str, value: Any, op: NumOp, bindings: Bindings) -> bool:
    """Return whether the operation's types say what a rule names as an attribute: the target of a cast, the place of an axis of size 1."""
    if key == "to":
        if isinstance(value, core.DTypeOf):
            captured = bindings.get(value.capture)
            value = ELEMENT_NAMES.get(type_of(captured).element_type) if isinstance(captured, SSAValue) else None
        return bool(value == ELEMENT_NAMES.get(type_of(op.results[0]).element_type))
    return key in ("unsqueeze", "squeeze") and _is_unit_reshape(key, value, shape_of(op.operands[0]), shape_of(op.results[0]))


def fit_axes(wanted: core.Axes, found: frozenset[int], bindings: Bindings) -> list[Bindings]:
    """The bindings under which the axes of a rule are these axes. Two names share those that are left in every way; there are no more."""
    literal = frozenset(axis for axis in wanted if isinstance(axis, int))
    if not literal <= found:
        return []
    left = found - literal
    unbound = []
    for axis in wanted:
        if isinstance(axis, str):
            bound = bindings.get(AXIS + axis)
            if bound is None:
                unbound.append(axis)
            elif isinstance(bound, frozenset) and bound <= left:
                left -= bound
            else:
                return []
    if not unbound:
        return [] if left else [bindings]
    if len(unbound) > 2 or len(left) < len(unbound):
        return []
    if any(left & bound for name, bound in bindings.items() if name.startswith(AXIS) and isinstance(bound, frozenset)):
        return []
    if len(unbound) == 1:
        return [{**bindings, AXIS + unbound[0]: left}]
    ways = [frozenset(part) for size in range(1, len(left)) for part in itertools.combinations(sorted(left), size)]
    return [{**bindings, AXIS + unbound[0]: way, AXIS + unbound[1]: left - way} for way in ways]


def integer(expression: core.Expr, bindings: Bindings) -> Fraction | None:
    """The value of a bound that is computed from others; None where it is not known when compiling."""
    match expression:
        case core.Literal(Fraction() as number):
            return number
        case core.Capture(name):
            bound = bindings.get(name)
            return bound if isinstance(bound, Fraction) else None
        case core.Size():
            size = size_of(expression, bindings)
            return None if size is None else Fraction(size)
        case core.Apply():
            numbers = [integer(operand, bindings) for operand in expression.operands]
            known = [number for number in numbers if number is not None]
            return Fraction(ON_BOUNDS[expression.name](*known)) if len(known) == len(numbers) else None
    return None


def size_of(size: core.Size, bindings: Bindings) -> int | None:
    return extent(bound_value(size.operand, bindings), resolve_axes(size.axes, bindings))


def _exactly(attribute: Any) -> Number | None:
    """An attribute as a number; None where it is none that a rule could be proved for."""
    if isinstance(attribute, float):
        return Fraction(attribute) if attribute - attribute == 0 else None
    return Fraction(attribute) if isinstance(attribute, int) else None


def _same_attribute(wanted: Any, found: Any) -> bool:
    if isinstance(wanted, Fraction | float) and isinstance(found, int | float):
        return float(wanted) == float(found)
    return bool(wanted == found)


def _swaps_last_two(perm: tuple[int, ...]) -> bool:
    rank = len(perm)
    return rank >= 2 and perm == (*range(rank - 2), rank - 1, rank - 2)


def _is_unit_reshape(key: str, axis: int, source: tuple[int, ...], target: tuple[int, ...]) -> bool:
    if key == "squeeze":
        source, target = target, source
    position = len(target) + axis
    return 0 <= position < len(target) and target[position] == 1 and target[:position] + target[position + 1 :] == source
