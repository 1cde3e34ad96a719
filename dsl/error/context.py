"""Knowledge of a rule's captures: their intervals, along which axes they vary, and in which formats they come."""

from __future__ import annotations

import math
from fractions import Fraction

from hnfc.dsl.core import Apply, Axis, Capture, Free, Rule, SameSize, conjuncts, walk
from hnfc.dsl.error.algebra import Algebra
from hnfc.dsl.error.intervals import EVERYTHING, Bounds
from hnfc.dsl.error.jets import NoErrorFormula
from hnfc.dsl.error.side import NARROW, RuleContext
from hnfc.dsl.soundness.axis_classes import Unrelated
from hnfc.dsl.soundness.scan import (
    MAX_AXES,
    boolean_captures,
    declared_bounds,
    integral_captures,
    known_ranks,
    reshaping,
    rule_expressions,
    scalar_captures,
    spatial_rank,
    universe,
)


def context_of(rule: Rule) -> RuleContext:
    """Raises Unsupported where the axes of the rule lie to each other in a way that is not known."""
    axes = _axes(rule)
    ranks = known_ranks(rule)
    free: set[tuple[str, Axis]] = {(name, axis) for name, rank in ranks.items() for axis in axes if isinstance(axis, int) and axis < -rank}
    same: dict[tuple[str, Axis], tuple[str, Axis]] = {}
    for part in conjuncts(rule.where):
        match part:
            case Free(Capture(name), over):
                free |= {(name, axis) for axis in over}
            case SameSize(Capture(x), Capture(y), over):
                for axis in over:
                    first = same.get((x, axis), (x, axis))
                    same |= {key: first for key, value in same.items() if value == same.get((y, axis), (y, axis))} | {(y, axis): first}
    known = _intervals(rule)
    whole = integral_captures(rule)
    for node in rule_expressions(rule):
        if isinstance(node, Apply) and node.name == "broadcast" and "axis" in dict(node.attributes):
            # what is repeated has size 1, and is there at least once
            free |= {(x.name, dict(node.attributes)["axis"]) for x in node.operands if isinstance(x, Capture)}
            size = dict(node.attributes)["size"]
            if isinstance(size, Capture):
                known.setdefault(size.name, (Fraction(1), math.inf))
    dtypes = {d for node in rule_expressions(rule) if isinstance(node, Capture) for d in node.dtypes} - {"i1"}
    return RuleContext(
        Algebra(known), axes, frozenset(free), same, scalar_captures(rule), boolean_captures(rule),
        whole, spatial_rank(rule), bool(dtypes) and dtypes <= NARROW,
    )  # fmt: skip


def _axes(rule: Rule) -> tuple[Axis, ...]:
    try:
        axes = universe(rule)
    except Unrelated as error:
        raise NoErrorFormula(str(error)) from None
    if not any(reshaping(node) for node in rule_expressions(rule)):
        return axes
    if any(isinstance(axis, str) for axis in axes):
        raise NoErrorFormula("an axis that is added or dropped in a rule over named axes")
    return tuple(range(-MAX_AXES, 0))


def _intervals(rule: Rule) -> dict[str, Bounds]:
    """Intervals of the captures: by comparisons with numbers, and by where the left side is defined."""
    known: dict[str, Bounds] = declared_bounds(rule)
    nodes = [node for node in walk(rule.pattern) if isinstance(node, Apply)]
    if not any(node.name == "where" for node in nodes):
        for node in nodes:
            if len(node.operands) == 1 and isinstance(node.operands[0], Capture):
                name, domain = node.operands[0].name, node.facts.domain
                least, greatest = known.get(name, EVERYTHING)
                known[name] = max(least, _exact(domain.least)), min(greatest, _exact(domain.greatest))
    return known


def _exact(end: float) -> Fraction | float:
    return end if math.isinf(end) else Fraction(end)
