"""What a message says of a rule, an expression or a condition parses back to what it is."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hnfc.dialects.num import OPERATIONS
from hnfc.dsl import core
from hnfc.dsl.core import AllOf, AnyOf, Apply, Capture, Comparison, Literal, Not, Property, Rule, captures
from hnfc.dsl.description import describe, rule_line
from hnfc.dsl.rulebook import load_text, shipped
from tests.soundness.reading import corpus

NAMES = ("x", "y")


def plain(part: Any) -> Any:
    """Without what a description leaves out, and with every `and` and `or` flat."""
    if isinstance(part, Capture):
        return Capture(part.name)
    if isinstance(part, AllOf | AnyOf):
        kind = type(part)
        parts = [plain(p) for p in part.parts]
        flat = tuple(q for p in parts for q in (p.parts if isinstance(p, kind) else (p,)))
        return flat[0] if len(flat) == 1 else kind(flat)
    if isinstance(part, tuple):
        return tuple(map(plain, part))
    if is_dataclass(part) and not isinstance(part, type):
        return replace(part, **{f.name: plain(getattr(part, f.name)) for f in fields(part) if f.name != "span"})
    return part


def condition_of(text: str) -> core.Condition:
    (rule,) = load_text(f"rule r {' + '.join(f'exp({n})' for n in NAMES)} => 0 where {text}", "<text>").rules
    return rule.where


numbers = st.fractions(-100, 100, max_denominator=97).map(Literal) | st.sampled_from([Literal(Fraction(1, 10**20)), Literal(float("inf"))])
operands = st.recursive(
    numbers | st.sampled_from([Capture(name) for name in NAMES]),
    lambda inner: (
        st.builds(
            lambda name, a, b: Apply(OPERATIONS[name], (a, b)),
            st.sampled_from(["add", "sub", "mul", "matmul", "pow", "maximum"]),
            inner,
            inner,
        )
        | inner.map(lambda a: Apply(OPERATIONS["exp"], (a,)))
    ),
    max_leaves=4,
).filter(lambda e: bool(captures(e)) or isinstance(e, Literal))
comparisons = st.builds(Comparison, st.sampled_from(["eq", "ne", "lt", "le", "gt", "ge"]), operands, operands)
conditions = st.recursive(
    comparisons | st.sampled_from([Property("finite", (Capture("x"),)), Property("rank", (Capture("y"),), ("ge", 2))]),
    lambda inner: (
        st.lists(inner, min_size=2, max_size=3).map(lambda p: AllOf(tuple(p)))
        | st.lists(inner, min_size=2, max_size=3).map(lambda p: AnyOf(tuple(p)))
        | inner.map(Not)
    ),
    max_leaves=6,
)


def speaks_of_constants(part: core.Condition) -> bool:
    """Arithmetic on numbers alone is done when a rule is read; squares are an operation of their own, and x - inf is x + -inf."""
    nodes = [n for e in core.condition_expressions(part) for n in core.walk(e) if isinstance(n, Apply)]
    read = (Literal(Fraction(2)), Literal(float("inf")))
    return any(all(isinstance(o, Literal) for o in n.operands) or n.operands[-1] in read for n in nodes)


@given(conditions.filter(lambda c: not speaks_of_constants(c)))
def test_a_condition_parses_back(condition: core.Condition) -> None:
    assert plain(condition_of(describe(condition))) == plain(condition)


@pytest.mark.parametrize(
    ("text", "described"),
    [
        ("x > 1 / 3", "x > 1 / 3"),
        ("x > -1 / 3", "x > -(1 / 3)"),
        ("x > 0.25", "x > 0.25"),
        ("(x > 0 or y > 0) and x < 1", "(x > 0 or y > 0) and x < 1"),
        ("not (x > 0 and y > 0)", "not (x > 0 and y > 0)"),
        ("not x > 0 and y > 0", "not x > 0 and y > 0"),
        ("x * (y + 1) > (x - y) - 1", "x * (y + 1) > x - y - 1"),
        ("x - (y - 1) = 0", "x - (y - 1) = 0"),
        ("dtype(x) != f16", "not dtype(x) = f16"),
        ("shape(x) = shape(y)", "shape(x) = shape(y)"),
        ("size[-1](x) = size[-1](y) and free[-2](x)", "size[-1](x) = size[-1](y) and free[-2](x)"),
        ("size[-1](x) > 3", "size[-1](x) > 3"),
    ],
)
def test_conditions_in_words(text: str, described: str) -> None:
    assert describe(condition_of(text)) == described
    assert plain(condition_of(described)) == plain(condition_of(text))


@pytest.mark.parametrize("rule", [*shipped().rules, *corpus("proved.hnf")], ids=lambda r: r.name)
def test_rules_parse_back(rule: Rule) -> None:
    (again,) = load_text(f"rule {rule.name} {rule_line(rule)}", "<text>").rules
    assert plain((again.pattern, again.replacement, again.where, again.within)) == plain(
        (rule.pattern, rule.replacement, rule.where, rule.within)
    )
    assert again.both_ways == rule.both_ways
