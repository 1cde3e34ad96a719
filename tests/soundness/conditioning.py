"""Conditions that may be added to any rule: ranks, element types, sizes, signs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from hnfc.dsl.core import ALL, AllOf, Apply, Capture, Comparison, Condition, Free, Literal, Property, Rule, SameSize
from hnfc.dsl.soundness.scan import conjuncts, order_captures, rule_expressions, scalar_captures, used_axes

TYPES = ("f64", "f32", "f16", "bf16", "f8E4M3FN", "f8E5M2")
NUMBERS = tuple(Literal(Fraction(value)) for value in (0, 1, Fraction(-1, 2)))
PREDICATES = ("gt", "ge", "lt", "le", "ne", "eq")


def conditions(rule: Rule) -> Iterator[Condition]:
    """The conditions, in a fixed order."""
    scalars, orders = scalar_captures(rule), order_captures(rule).keys()
    captures = {n.name: n for n in rule_expressions(rule) if isinstance(n, Capture) and n.name not in orders}
    numbers = [captures[name] for name in sorted(captures) if captures[name].dtypes != ("i1",)]
    tensors = [x for x in numbers if x.name not in scalars]
    truths = {x.name for n in rule_expressions(rule) if isinstance(n, Apply) and n.name == "where" for x in n.operands[:1] if x in tensors}
    for x in tensors:
        for rank in range(4):
            yield Property("rank", (x,), ("eq", rank))
        yield Property("rank", (x,), ("ge", 2))
        if x.name not in truths and not x.dtypes:
            for element in TYPES:
                yield Property("dtype", (x,), (element,))
    for x in (x for x in numbers if x.name not in truths):
        for predicate, number in itertools.product(PREDICATES, NUMBERS):
            yield Comparison(predicate, x, number)
        yield Property("finite", (x,))
    for x, y in itertools.combinations(tensors, 2):
        yield SameSize(x, y, (ALL,))
        for predicate in PREDICATES if not {x.name, y.name} & truths else ():
            yield Comparison(predicate, x, y)
        for axis in sorted(used_axes(rule), key=repr):
            yield SameSize(x, y, (axis,))
    for x in tensors:
        for axis in sorted(used_axes(rule), key=repr):
            yield Free(x, (axis,))


def conditioned(rule: Rule, condition: Condition) -> Rule:
    return replace(rule, where=AllOf((*conjuncts(rule.where), condition)))
