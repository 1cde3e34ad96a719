"""Calls of operations that move elements along one axis, and the sizes and bounds that they take."""

from __future__ import annotations

import operator
from fractions import Fraction
from typing import Any

from hnfc.dialects.num import OPERATIONS
from hnfc.dsl import core, syntax
from hnfc.dsl.scope import Reader, Scope

FORMS = {
    "slice": "slice[k](x, start, stop)",
    "concat": "concat[k](x, y)",
    "pad": "pad[k](x, low, high)",
    "gather": "gather[k](x, index)",
    "broadcast": "broadcast[k](x, size)",
    "cumsum": "cumsum[k](x)",
}
"""Each acts along the one axis in brackets."""

_BOUNDS = {"slice": ("start", "stop", "step"), "pad": ("low", "high"), "broadcast": ("size",)}
ON_BOUNDS: dict[str, Any] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "neg": operator.neg, "maximum": max, "minimum": min
}  # fmt: skip
"""Functions that bounds and sizes may be computed by, which give integers of integers."""


def moved(reader: Reader, tree: syntax.Call, scope: Scope) -> core.Apply:
    """The application that the call means. Raises HnfError where it has not the form in FORMS."""
    name, form = tree.function, FORMS[tree.function]
    axes = reader.axes(tree, scope)
    if len(axes) != 1:
        does = "sums" if name == "cumsum" else "moves elements"
        raise reader.error("HNF0221", f"`{name}` {does} along one axis", tree.name_span, f"as in `{form}`")
    bounds = _BOUNDS.get(name, ())
    if bounds:
        reader.arity(tree, *((3, 4) if name == "slice" else (1 + len(bounds),)))
    elif name == "concat":
        reader.arity(tree, *range(2, 16))
    else:
        reader.arity(tree, 1 if name == "cumsum" else 2)
    count = 1 if bounds else len(tree.arguments)
    operands = tuple(reader.expression(argument, scope) for argument in tree.arguments[:count])
    attributes: list[tuple[str, Any]] = [("axis", axes[0])]
    given = dict(zip(bounds, tree.arguments[count:], strict=False))
    for key in bounds:
        attributes.append((key, _bound(reader, given[key], scope) if key in given else core.Literal(Fraction(1))))
    if name == "pad":
        attributes.append(("value", _padding(reader, tree, scope)))
    elif tree.keywords:
        key, value = tree.keywords[0]
        raise reader.error("HNF0225", f"`{name}` has no attribute `{key}`", value.span, f"as in `{form}`")
    return core.Apply(OPERATIONS[name], operands, tuple(attributes), tree.span)


def rearranged(reader: Reader, tree: syntax.Call, scope: Scope) -> core.Apply:
    """`reshape[k](x, const s)`: the axes k stay, the others get the sizes s. `permute(x, const p)`: axis j is axis p[j] of x."""
    name = tree.function
    axes = reader.axes(tree, scope)
    reader.arity(tree, 2)
    operand = reader.expression(tree.arguments[0], scope)
    order = reader.expression(tree.arguments[1], scope)
    if name == "reshape":
        if not (isinstance(order, core.Capture) and order.const):
            raise reader.error("HNF0239", "the sizes of a reshape are a `const` capture", tree.span, "as in `reshape(x, const s)`")
        return core.Apply(OPERATIONS["reshape"], (operand,), (("axes", axes), ("shape", order)), tree.span)
    if axes or not is_order(order):
        raise reader.error("HNF0239", "an order of axes is a `const` capture or a product of some", tree.span, "as in `permute(x, p @ q)`")
    return core.Apply(OPERATIONS["transpose"], (operand,), (("perm", order),), tree.span)


def is_order(value: core.Expr) -> bool:
    """Return whether the expression is an order of axes: a compile-time constant, or `p @ q`, which takes p[q[j]] to place j."""
    if isinstance(value, core.Capture):
        return value.const
    return isinstance(value, core.Apply) and value.name == "matmul" and all(map(is_order, value.operands))


def _padding(reader: Reader, tree: syntax.Call, scope: Scope) -> core.Expr:
    keywords = dict(tree.keywords)
    value = keywords.pop("value", None)
    for key, other in keywords.items():
        raise reader.error("HNF0225", f"`pad` has no attribute `{key}`", other.span, "as in `pad[k](x, 1, 1, value = 0)`")
    number = core.Literal(Fraction(0)) if value is None else reader.expression(value, scope)
    if not isinstance(number, core.Literal) and not (isinstance(number, core.Capture) and number.const):
        assert value is not None
        raise reader.error("HNF0226", "the padding is a number or a `const` capture", value.span, "as in `value = const v`")
    return number


def _bound(reader: Reader, tree: syntax.Tree, scope: Scope) -> core.Expr:
    value = reader.expression(tree, scope)
    if not is_integral(value):
        raise reader.error(
            "HNF0239", "a bound is made of integers, `const` captures and `size[k](x)`", tree.span, "as in `slice[k](x, 0, size[k](y) - 1)`"
        )
    return value


def is_integral(value: core.Expr) -> bool:
    """Return whether the expression is an integer that is known when a rule runs."""
    match value:
        case core.Literal(number):
            return isinstance(number, Fraction) and number.denominator == 1
        case core.Capture():
            return value.const
        case core.Size():
            return True
    return value.name in ON_BOUNDS and all(map(is_integral, value.operands))
