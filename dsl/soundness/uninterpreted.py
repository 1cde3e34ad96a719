"""Operations without a formula over the reals: each becomes a value of which nothing is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hnfc.dialects.facts import Access, NoFormula, RealDomain
from hnfc.dsl.core import Apply, Capture, DTypeOf, Expr, Rule, Size, map_expressions
from hnfc.dsl.core import walk as walk_expression
from hnfc.dsl.soundness.axis_classes import AxisClasses, Unrelated
from hnfc.dsl.soundness.batches import single_matrices
from hnfc.dsl.soundness.denote import math_attribute
from hnfc.dsl.soundness.formats import explicit_roundings
from hnfc.dsl.soundness.scan import all_ranks_known, of_matrices, reshaping, rule_expressions, used_axes
from hnfc.dsl.soundness.sym import Sym
from hnfc.dsl.soundness.symbolic import SymMath
from hnfc.dsl.soundness.term import ZERO


def abstracted(rule: Rule) -> tuple[Rule, bool]:
    """The rule with every operation that has no formula replaced by a new capture, the same one for equal expressions."""
    rule = single_matrices(explicit_roundings(rule))
    names: dict[Expr, Capture] = {}
    shaped = bool(used_axes(rule)) or any(map(of_matrices, rule_expressions(rule)))

    fixed = all_ranks_known(rule)

    def known(node: Apply) -> bool:
        rearranged = any(isinstance(v, Capture | Apply) for k, v in node.attributes if k in ("shape", "perm"))
        if rearranged or (fixed and reshaping(node) is not None):
            return True
        if node.name == "cast" and not real_format(dict(node.attributes).get("to"), rule):
            return False
        if node.operation.FACTS.real is None or (node.name == "broadcast" and "axis" not in dict(node.attributes) and shaped):
            return False
        if "axis" in dict(node.attributes) or node.name in ("reverse", "conv"):
            return True
        layout = AxisClasses(
            (-1, -2)
            if any(not isinstance(a, str) for a in dict(node.attributes).get("axes") or (-1,))
            else tuple(dict(node.attributes)["axes"])
        )
        blank = Sym(layout, {}, lambda n, env: ZERO)
        try:
            node.operation.FACTS.real(
                SymMath(layout), *[blank] * len(node.operands), **{k: math_attribute(v, lambda _: blank) for k, v in node.attributes}
            )
        except NoFormula:
            return False
        except Unrelated:
            return True
        return True

    def image(node: Expr) -> Expr:
        match node:
            case Size(operand, axes):
                return Size(image(operand), axes)
            case Apply():
                if not known(node):
                    return names.setdefault(node, Capture(f"{node.name}#{len(names)}"))
                return replace(node, operands=tuple(image(x) for x in node.operands))
        return node

    left = image(rule.pattern)
    of_left = set(names)
    new = replace(rule, pattern=left, replacement=image(rule.replacement), where=map_expressions(rule.where, image))
    if names:
        check_total(rule, names, of_left)
    return new, bool(names)


def real_format(element: Any, rule: Rule) -> bool:
    """A cast to this element type is the identity over the reals: a floating-point format."""
    if isinstance(element, DTypeOf):
        captures = [n for n in rule_expressions(rule) if isinstance(n, Capture) and n.name == element.capture]
        dtypes = [d for n in captures for d in n.dtypes]
        return bool(dtypes) and all(real_format(d, rule) for d in dtypes)
    return isinstance(element, str) and element.startswith(("f", "bf"))


def is_total(node: Apply) -> bool:
    """Return whether the operation is one function of its operands that is known to be defined everywhere."""
    facts = node.facts
    return facts.access is Access.ELEMENTWISE and facts.domain == RealDomain() and not facts.divisor


def check_total(rule: Rule, names: Mapping[Expr, Capture], of_left: set[Expr]) -> None:
    """An operation without a formula may stand for any value only if it has one. Raises NoFormula where that is not sure."""
    inside = {id(x) for node in names for x in walk_expression(node)}
    for node in names:
        if (
            node not in of_left
            and not (isinstance(node, Apply) and node.name == "round_to")
            and not any(node == x for x in walk_expression(rule.pattern))
        ):
            raise NoFormula("the right side has an operation without a formula that the left side lacks")
        if rule.both_ways and not any(node == x for x in walk_expression(rule.replacement)):
            raise NoFormula("the left side has an operation without a formula that the right side lacks")
        for x in walk_expression(node):
            if isinstance(x, Apply) and x not in names and not is_total(x) and x.facts.real is not None:
                raise NoFormula(f"whether {x.name} is defined below an operation without a formula is not known")
    if any(isinstance(x, Apply) and x.name == "where" and id(x) not in inside for x in rule_expressions(rule)):
        raise NoFormula("a choice beside an operation without a formula")
