"""Tree → text: parse ∘ print is the identity, printing is idempotent, no comment is lost."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hnfc.dsl import syntax
from hnfc.dsl.diagnostics import Span
from hnfc.dsl.parser import parse
from hnfc.dsl.printer import expression, print_file

RULES = sorted((Path(__file__).parent.parent.parent / "rules").glob("*.hnf"))
NOWHERE = Span(0, 0, 0, 0)


def bare(node):
    """The tree without its spans."""
    if isinstance(node, Span):
        return NOWHERE
    if dataclasses.is_dataclass(node):
        return dataclasses.replace(node, **{f.name: bare(getattr(node, f.name)) for f in dataclasses.fields(node) if f.init})
    if isinstance(node, tuple | list):
        return type(node)(bare(part) for part in node)
    return node


@pytest.mark.parametrize("path", RULES, ids=lambda p: p.name)
def test_shipped_files_are_formatted_and_round_trip(path):
    source = path.read_text()
    file = parse(source, str(path))
    printed = print_file(file)
    assert printed == source, f"run `hnfc fmt {path.name}`"
    assert bare(parse(printed).declarations) == bare(file.declarations)


def test_comments_stay_where_they_were():
    source = """# head
library l "t"  # beside

# before the rule
rule r "why"  # behind the name
    # before the body
    exp(x) => x  # behind the body
    # before where
    where x > 0  # behind where

test r  # behind the test
    # before the case
    x = [1] gives [1]  # behind the case
# at the end
"""
    printed = print_file(parse(source))
    assert sorted(c.text for c in parse(printed).comments) == sorted(c.text for c in parse(source).comments)
    assert print_file(parse(printed)) == printed
    assert "exp(x) => x  # behind the body" in printed and "    # before where\n    where" in printed


def test_a_messy_rule_comes_out_in_the_standard_layout():
    source = 'rule   r"why"  :  g\n exp( x )/sum [ k ](exp(x:f16|bf16))=>softmax[k](x) where   x>0 and not y=2 let y=x'
    assert print_file(parse(source)) == (
        'rule r "why" : g\n    exp(x) / sum[k](exp(x : f16 | bf16)) => softmax[k](x)\n    let y = x\n    where x > 0 and not y = 2\n'
    )


@pytest.mark.parametrize("text", ["exp(x == y)", "exp(x == y or z)", "where(x == y and z, a, b)", "exp(x, eps=1e-5)", "exp(not x = y)"])
def test_an_equality_among_arguments_is_no_attribute(text):
    (declaration,) = parse(f"def f(x) = {text}").declarations
    assert expression(declaration.body) == text  # type: ignore[union-attr]


names = st.sampled_from(["x", "y", "zed"]).map(lambda n: syntax.Name(n, NOWHERE))
numbers = st.sampled_from(["0", "1", "2.5", "1e-3"]).map(lambda n: syntax.Number(n, NOWHERE))


def grown(inner):
    binary = st.builds(
        lambda s, a, b: syntax.Operator(s, (a, b), NOWHERE),
        st.sampled_from(["+", "-", "*", "/", "@", "**", "<", "==", "and", "or"]),
        inner,
        inner,
    )
    unary = st.builds(lambda s, a: syntax.Operator(s, (a,), NOWHERE), st.sampled_from(["-", "not"]), inner)
    call = st.builds(
        lambda f, axes, args, keys: syntax.Call(f, axes, tuple(args), keys, NOWHERE, NOWHERE),
        st.sampled_from(["exp", "sum"]), st.sampled_from([(), ("k",), (-1, "j")]), st.lists(inner, min_size=1, max_size=2),
        st.sampled_from([(), (("eps", syntax.Number("1e-5", NOWHERE)),)]),
    )  # fmt: skip
    return binary | unary | call


def comparisons_nest(tree) -> bool:
    """`(a < b) < c` cannot be written without reading as a chain; the language has no such thing."""
    if isinstance(tree, syntax.Operator):
        inner = any(isinstance(o, syntax.Operator) and o.symbol in ("<", "==") for o in tree.operands)
        return (tree.symbol in ("<", "==") and inner) or any(map(comparisons_nest, tree.operands))
    return isinstance(tree, syntax.Call) and any(map(comparisons_nest, tree.arguments))


@given(st.recursive(names | numbers, grown, max_leaves=12).filter(lambda t: not comparisons_nest(t)))
def test_any_expression_round_trips(tree):
    text = expression(tree)
    (declaration,) = parse(f"def f(x) = {text}").declarations
    assert bare(declaration.body) == tree  # type: ignore[union-attr]
    assert expression(declaration.body) == text  # type: ignore[union-attr]
