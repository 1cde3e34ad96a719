"""Simple conditions under which the right side may be the better one: x ≥ c, |x| ≤ c, signs that agree, sizes of at least c."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from hnfc.dsl.core import Apply, Capture, Comparison, Condition, Expr, Literal, Rule, Size, walk
from hnfc.dsl.error.expression import call
from hnfc.dsl.error.side import RuleContext
from hnfc.dsl.soundness.scan import rule_expressions

NUMBERS = tuple(map(Fraction, ("0", "1/100", "1/10", "1/4", "1/2", "1", "2", "3", "4", "5", "8", "10", "16", "20", "50", "100")))
SIZES = (2, 3, 4, 5, 8, 16, 32)
MAX_CAPTURES = 3

Named = tuple[str, Condition]


def families(rule: Rule, context: RuleContext) -> Iterator[list[Named]]:
    """Lists of conditions, each list from the weakest to the strongest."""
    captures = {n.name: n for n in rule_expressions(rule) if isinstance(n, Capture)}
    names = sorted(name for name in captures if name not in context.booleans and name not in context.whole)
    if len(names) > MAX_CAPTURES:
        names = []
    symmetric = sorted({*NUMBERS, *(-c for c in NUMBERS)})
    for name in names:
        x = captures[name]
        yield [(f"{name} ≥ {c}", Comparison("ge", x, Literal(c))) for c in symmetric]
        yield [(f"{name} ≤ {c}", Comparison("le", x, Literal(c))) for c in reversed(symmetric)]
        yield [(f"|{name}| ≤ {c}", Comparison("le", call("abs", x), Literal(c))) for c in reversed(NUMBERS[1:])]
        yield [(f"|{name}| ≥ {c}", Comparison("ge", call("abs", x), Literal(c))) for c in NUMBERS[1:]]
    for name in sorted(context.whole & captures.keys()):
        yield [(f"{name} ≥ {c}", Comparison("ge", captures[name], Literal(Fraction(c)))) for c in SIZES]
    for i, first in enumerate(names):
        for second in names[i + 1 :]:
            yield from _pairs(captures[first], captures[second])
    for size, name in _sizes(rule):
        yield [(f"{name} ≥ {c}", Comparison("ge", size, Literal(Fraction(c)))) for c in SIZES]


def _pairs(x: Capture, y: Capture) -> Iterator[list[Named]]:
    a, b = x.name, y.name
    product, zero = call("mul", x, y), Literal(Fraction(0))
    yield [(f"{a}·{b} ≥ 0", Comparison("ge", product, zero))]
    yield [(f"{a}·{b} ≤ 0", Comparison("le", product, zero))]
    yield [(f"|{a}| ≤ |{b}|", Comparison("le", call("abs", x), call("abs", y)))]
    yield [(f"|{a}| ≥ |{b}|", Comparison("ge", call("abs", x), call("abs", y)))]
    yield [(f"{a} ≤ {b}", Comparison("le", x, y))]
    yield [(f"{a} ≥ {b}", Comparison("ge", x, y))]
    for sign, name in (("+", "add"), ("-", "sub")):
        together: Expr = call("abs", call(name, x, y))
        yield [(f"|{a} {sign} {b}| ≤ {c}", Comparison("le", together, Literal(c))) for c in reversed(NUMBERS[1:])]


def _sizes(rule: Rule) -> Iterator[tuple[Size, str]]:
    """The number of elements that a reduction of a captured tensor adds up."""
    seen = set()
    for node in walk(rule.pattern):
        axes = dict(node.attributes).get("axes") if isinstance(node, Apply) else None
        captured = [n for n in walk(node) if isinstance(n, Capture) and not n.const] if axes else []
        if axes and len(captured) == 1 and (captured[0].name, axes) not in seen:
            seen.add((captured[0].name, axes))
            yield Size(captured[0], axes), f"size[{', '.join(map(str, axes))}]({captured[0].name})"
