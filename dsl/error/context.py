"""Knowledge of a rule's captures: their intervals, along which axes they vary, and in which formats they come."""

from __future__ import annotations

import math
from fractions import Fraction

from hnfc.dsl.core import Apply, Axis, Capture, Comparison, Condition, Free, Literal, Rule, SameSize, walk
from hnfc.dsl.error.algebra import Algebra
from hnfc.dsl.error.intervals import Bounds
from hnfc.dsl.error.jets import NoErrorFormula
from hnfc.dsl.error.side import NARROW, RuleContext
from hnfc.dsl.soundness.axis_classes import Unrelated
from hnfc.dsl.soundness.scan import (
    MAX_AXES,
    boolean_captures,
    conjuncts,
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
    known: dict[str, Bounds] = {}

    def meet(name: str, lo: Fraction | float, hi: Fraction | float) -> None:
        old = known.get(name, (-math.inf, math.inf))
        known[name] = (max(old[0], lo), min(old[1], hi))

    for part in conjuncts(rule.where):
        bound = compared(part)
        if bound is not None:
            meet(*bound)
    nodes = [node for node in walk(rule.pattern) if isinstance(node, Apply)]
    if not any(node.name == "where" for node in nodes):
        for node in nodes:
            if len(node.operands) == 1 and isinstance(node.operands[0], Capture):
                domain = node.facts.domain
                meet(node.operands[0].name, *(x if math.isinf(x) else Fraction(x) for x in (domain.least, domain.greatest)))
    return known


def compared(part: Condition) -> tuple[str, Fraction | float, Fraction | float] | None:
    """(capture, least, greatest) for a comparison of a capture with a number."""
    match part:
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
