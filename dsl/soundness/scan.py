"""Parts of a rule that its proof must know: axes, ranks, truth values, constants."""

from __future__ import annotations

import math
from fractions import Fraction

from hnfc.dialects.types import FORMATS
from hnfc.dsl.core import (
    ALL,
    ORTHOGONAL,
    Apply,
    Axis,
    Capture,
    Comparison,
    Condition,
    Expr,
    Free,
    Literal,
    Property,
    Rule,
    SameSize,
    Size,
    attribute_expressions,
    condition_expressions,
    condition_parts,
    conjuncts,
)
from hnfc.dsl.core import walk as walk_expression
from hnfc.dsl.soundness.axis_classes import Unrelated

VALUES = "values"
"""The property of a capture to hold numbers of given element types only; written by `integers.explicit_integers`."""

EXPLICIT = Property("explicit", ())
"""Always true: the rule's casts and integers are written as operations."""


def value_types(rule: Rule) -> dict[str, tuple[str, ...]]:
    """The element types whose numbers captures may be, where a rule says so."""
    return {
        part.operands[0].name: part.arguments
        for part in conjuncts(rule.where)
        if isinstance(part, Property) and part.name == VALUES and isinstance(part.operands[0], Capture)
    }


def orthogonal_captures(rule: Rule) -> frozenset[str]:
    """Parameters that are orthogonal matrices."""
    return frozenset(
        part.operands[0].name
        for part in conjuncts(rule.where)
        if isinstance(part, Property) and part.name == ORTHOGONAL and isinstance(part.operands[0], Capture)
    )


def bounds_of(condition: Condition) -> tuple[str, Fraction | float, Fraction | float] | None:
    """(capture, least, greatest) for a comparison of a capture with a number."""
    match condition:
        case Comparison(predicate, Capture(name), Literal(Fraction() as value)):
            pass
        case Comparison(predicate, Literal(Fraction() as value), Capture(name)):
            predicate = {"gt": "lt", "ge": "le", "lt": "gt", "le": "ge"}.get(predicate, predicate)
        case Comparison("le", Apply(operands=(Capture(name),)) as x, Literal(Fraction() as value)) if x.name == "abs":
            return name, -value, value
        case _:
            return None
    match predicate:
        case "gt" | "ge":
            return name, value, math.inf
        case "lt" | "le":
            return name, -math.inf, value
        case "eq":
            return name, value, value
    return None


def declared_bounds(rule: Rule) -> dict[str, tuple[Fraction | float, Fraction | float]]:
    """The ends between which comparisons with numbers keep captures."""
    known: dict[str, tuple[Fraction | float, Fraction | float]] = {}
    for bounds in filter(None, map(bounds_of, conjuncts(rule.where))):
        name, least, greatest = bounds
        before = known.get(name, (-math.inf, math.inf))
        known[name] = max(before[0], least), min(before[1], greatest)
    return known


def rule_expressions(rule: Rule) -> list[Expr]:
    """Every node of both sides and of the conditions, those in attributes included."""
    stack = [rule.pattern, rule.replacement, *condition_expressions(rule.where)]
    found: list[Expr] = []
    while stack:
        for node in walk_expression(stack.pop(0)):
            found.append(node)
            stack += attribute_expressions(node)
    return found


def used_axes(rule: Rule) -> set[Axis]:
    axes: set[Axis] = set()
    for node in rule_expressions(rule):
        if isinstance(node, Size):
            axes |= set(node.axes)
        elif isinstance(node, Apply):
            attributes = dict(node.attributes)
            axes |= set(attributes.get("axes") or ())
            axes |= {attributes["axis"]} if "axis" in attributes else set()
    for part in condition_parts(rule.where):
        if isinstance(part, Free | SameSize):
            axes |= set(part.axes)
    return axes


CONTRACTING = frozenset(("matmul", "attention", "transpose"))

INDICES = frozenset(("argmax", "argmin"))
"""Operations whose elements are indices along their axis."""

MAX_AXES = 8


def of_matrices(node: Expr) -> bool:
    """Return whether the operation is one on the last two axes."""
    return isinstance(node, Apply) and node.name in CONTRACTING and not isinstance(dict(node.attributes).get("perm"), Capture | Apply)


def with_axes(node: Apply) -> tuple[Expr, ...]:
    """The operands that must have the axes along which the operation works: a number has none. The mask of an attention may be one."""
    if node.name == "concat":
        return node.operands
    if of_matrices(node):
        return node.operands[:3]
    return node.operands[:1] if "axis" in dict(node.attributes) else ()


def reshaping(node: Expr) -> tuple[str, int] | None:
    """The reshapes that only add or drop an axis of size 1, as (`unsqueeze` or `squeeze`, axis)."""
    if isinstance(node, Apply) and node.name == "reshape" and len(node.operands) == 1 and len(node.attributes) == 1:
        key, place = node.attributes[0]
        if key in ("unsqueeze", "squeeze") and isinstance(place, int) and place < 0:
            return key, place
    return None


def known_ranks(rule: Rule) -> dict[str, int]:
    """The captures' ranks that the conditions fix."""
    conditions = conjuncts(rule.where)
    found = {
        c.operands[0].name: int(c.arguments[1])
        for c in conditions
        if isinstance(c, Property) and c.name == "rank" and isinstance(c.operands[0], Capture) and c.arguments[0] == "eq"
    }
    alike = [
        (c.x.name, c.y.name)
        for c in conditions
        if isinstance(c, SameSize) and ALL in c.axes and isinstance(c.x, Capture) and isinstance(c.y, Capture)
    ]
    for _ in alike:
        for x, y in alike:
            for one, other in ((x, y), (y, x)):
                if one in found:
                    found.setdefault(other, found[one])
    return found


def all_ranks_known(rule: Rule) -> bool:
    """Every capture's rank is fixed, so that every axis has a number from the right."""
    names = {n.name for n in rule_expressions(rule) if isinstance(n, Capture)} - scalar_captures(rule)
    return names <= known_ranks(rule).keys()


def universe(rule: Rule) -> tuple[Axis, ...]:
    """The axes that matter. Raises Unrelated where named and positional axes occur together."""
    axes = used_axes(rule)
    named = sorted(a for a in axes if isinstance(a, str))
    placed = {a for a in axes if isinstance(a, int)}
    if any(map(of_matrices, rule_expressions(rule))):
        placed |= {-1, -2}
    if spatial := spatial_rank(rule):
        placed |= set(range(-spatial - 2, 0))
    steps = [step for n in rule_expressions(rule) if (step := reshaping(n)) is not None]
    if steps and named and all_ranks_known(rule):
        raise Unrelated(f"how axis {named[0]} lies to an axis that is added or dropped is not known")
    if steps and all_ranks_known(rule):
        deepest = max(known_ranks(rule).values(), default=0) + sum(step[0] == "unsqueeze" for step in steps)
        placed |= set(range(-deepest, 0)) | {step[1] for step in steps}
    if placed and ALL in named and not order_captures(rule):
        # a condition that two shapes are equal, which is used along the other axes
        named.remove(ALL)
    if named and placed:
        raise Unrelated(f"how axis {named[0]} lies to the axes {', '.join(map(str, sorted(placed)))} is not known")
    tensors = {n.name for n in rule_expressions(rule) if isinstance(n, Capture)} - scalar_captures(rule)
    if any(a >= 0 for a in placed) and (len(tensors) > 1 or any(a < 0 for a in placed)):
        raise Unrelated("axes counted from the left, which are not the same for tensors of different rank")
    found: tuple[Axis, ...] = tuple(named) if named else tuple(sorted(placed))
    if order_captures(rule):
        found = (*found, ALL)
    if len(found) > MAX_AXES:
        raise Unrelated(f"{len(found)} axes")
    return found


def boolean_captures(rule: Rule) -> frozenset[str]:
    """Captures that stand where only a truth value may."""
    found = set()
    for node in rule_expressions(rule):
        if isinstance(node, Capture) and node.dtypes == ("i1",):
            found.add(node.name)
        if not isinstance(node, Apply):
            continue
        places = node.operands[:1] if node.name == "where" else node.operands if node.name.startswith("logical_") else ()
        found |= {x.name for x in places if isinstance(x, Capture)}
    return frozenset(found)


def scalar_captures(rule: Rule) -> frozenset[str]:
    """Compile-time constants: each is one number."""
    nodes = rule_expressions(rule)
    return frozenset(n.name for n in nodes if isinstance(n, Capture) and n.const) | frozenset(
        v.name for n in nodes for v in attribute_expressions(n) if isinstance(v, Capture)
    )


def integral_captures(rule: Rule) -> frozenset[str]:
    """Captures that are integers by their place: bounds, sizes and indices."""
    found = set()
    for node in rule_expressions(rule):
        if isinstance(node, Apply) and "axis" in dict(node.attributes):
            bounds = [v for k, v in node.attributes if k != "value" and isinstance(v, Capture | Size | Apply)]
            found |= {n.name for v in bounds for n in walk_expression(v) if isinstance(n, Capture) and n.const}
            if node.name == "gather":
                found |= {n.name for n in node.operands[1:] if isinstance(n, Capture)}
        if isinstance(node, Apply) and node.name == "conv":
            found |= {v.name for v in attribute_expressions(node) if isinstance(v, Capture)}
    return frozenset(found) | {name for name, known in value_types(rule).items() if known[0] not in FORMATS}


def whole_constants(rule: Rule) -> frozenset[str]:
    """Captures that a condition says are whole numbers."""
    return frozenset(
        part.operands[0].name
        for part in conjuncts(rule.where)
        if isinstance(part, Property) and part.name == "integral" and isinstance(part.operands[0], Capture)
    )


def numbers_beside_convolutions(rule: Rule) -> frozenset[str]:
    """Captured settings of convolutions that also stand where one number is needed."""
    nodes = [n for n in rule_expressions(rule) if isinstance(n, Apply)]
    places = [x for n in nodes for x in (*n.operands, *(attribute_expressions(n) if n.name != "conv" else ()))]
    return frozenset(part.name for place in places for part in walk_expression(place) if isinstance(part, Capture))


def order_captures(rule: Rule) -> dict[str, str]:
    """Captures that stand for a list of integers: `shape` (of a reshape), `perm` (of a permutation)."""
    found: dict[str, str] = {}
    for node in rule_expressions(rule):
        for key, value in node.attributes if isinstance(node, Apply) else ():
            if key in ("shape", "perm") and isinstance(value, Capture | Apply):
                found |= {n.name: key for n in walk_expression(value) if isinstance(n, Capture)}
    return found


def spatial_rank(rule: Rule) -> int:
    """The number of spatial axes of the rule's convolutions, 0 if it has none. Raises Unrelated where no condition fixes it."""
    found = convolution_ranks(rule)
    if not found:
        return 0
    if len(found) > 1 or min(found) < 1:
        raise Unrelated("how many axes a convolution has is not known; state it, as in `where rank(w) = 4`")
    return found.pop()


def convolution_ranks(rule: Rule) -> set[int]:
    """For each convolution the number of its spatial axes, by the ranks that the conditions fix; below 1 where they fix none."""
    ranks = known_ranks(rule)
    found = set()
    for node in rule_expressions(rule):
        if isinstance(node, Apply) and node.name == "conv":
            names = {n.name for n in walk_expression(node.operands[1]) if isinstance(n, Capture)}
            found |= {max((ranks[name] for name in names if name in ranks), default=0) - 2}
    return found


def arithmetic_axes(rule: Rule, spatial: int) -> frozenset[Axis]:
    """Axes along which elements change their place; `spatial` of them are those of convolutions."""
    grouped = any(isinstance(n, Apply) and n.name == "conv" and dict(n.attributes).get("groups") != 1 for n in rule_expressions(rule))
    # in groups, channels are computed from one another
    found: set[Axis] = set(range(-spatial - 2 * grouped, 0))
    if order_captures(rule):
        found.add(ALL)
    for node in rule_expressions(rule):
        if isinstance(node, Apply):
            attributes = dict(node.attributes)
            if node.name == "attention" and attributes.get("causal"):
                found |= {-1, -2}
            if node.name in INDICES:
                found |= set(attributes["axes"])
            found |= {attributes["axis"]} if "axis" in attributes else set(attributes["axes"]) if node.name == "reverse" else set()
    return frozenset(found)
