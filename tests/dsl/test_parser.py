"""Text → tree: what parses, and what the reader is told where it does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hnfc.dsl import syntax
from hnfc.dsl.diagnostics import HnfError, render
from hnfc.dsl.parser import parse


def rule(text: str) -> syntax.RuleDeclaration:
    (declaration,) = parse(f"rule r {text}").declarations
    assert isinstance(declaration, syntax.RuleDeclaration)
    return declaration


def message(text: str) -> str:
    with pytest.raises(HnfError) as caught:
        parse(text, "f.hnf")
    (diagnostic,) = caught.value.diagnostics
    return render(diagnostic, text)


def test_a_rule_has_all_its_clauses():
    r = rule('"why" : group source "s" a + b => c let c = a where a > 0 when b < 1 structural')
    assert (r.reason, r.group, r.source, r.arrow, r.structural) == ("why", "group", "s", "=>", True)
    assert [let.name for let in r.lets] == ["c"] and r.where is not None and r.when is not None


def test_precedence():
    pattern = rule("-x ** 2 * y + z => z").pattern
    assert isinstance(pattern, syntax.Operator) and pattern.symbol == "+"
    product = pattern.operands[0]
    assert isinstance(product, syntax.Operator) and product.symbol == "*"
    assert isinstance(product.operands[0], syntax.Operator) and product.operands[0].symbol == "-"


def test_a_chained_comparison_means_both():
    where = rule("x + y => y where 0 < x < 1").where
    assert isinstance(where, syntax.Operator) and where.symbol == "and"


def test_where_is_a_function_and_a_clause():
    r = rule("where(p, a, b) => where(p, b, a) where a > 0")
    assert isinstance(r.pattern, syntax.Call) and r.where is not None


def test_spans_point_at_the_source():
    call = parse("rule r\n    exp(x) => x").declarations[0].pattern  # type: ignore[union-attr]
    assert (call.span.line, call.span.column, call.span.end_column) == (2, 5, 11)


def test_values_of_tests():
    (declaration,) = parse("test r x: f16 = [[1, -2.5], [inf, -inf]], k = [-1] gives nan").declarations
    assert isinstance(declaration, syntax.Test)
    (case,) = declaration.cases
    assert isinstance(case, syntax.Gives)
    assert case.assignments[0].value == [[1.0, -2.5], [float("inf"), float("-inf")]] and case.assignments[0].dtype == "f16"


def test_comments_are_kept_beside_the_tree():
    file = parse("# one\nrule r # two\n    exp(x) => x\n# three")
    assert [c.text for c in file.comments] == ["# one", "# two", "# three"]


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("rule a exp(x => x", "HNF0103", "f.hnf:1:15"),
        ("rule a x", "HNF0104", "f.hnf:1:9"),
        ("rule a x = y", "HNF0104", "f.hnf:1:13"),
        ("rule a x => y where x > 0 where y > 0", "HNF0106", "f.hnf:1:27"),
        ("rule a x => $", "HNF0105", "f.hnf:1:13"),
        ("foo", "HNF0103", "f.hnf:1:1"),
        ('rule a "abc\n x => x', "HNF0105", "f.hnf:1:8"),
        ("test a x = abc gives 2", "HNF0107", "f.hnf:1:12"),
        ("rule a sum[1.5](x) => x", "HNF0108", "f.hnf:1:12"),
    ],
)
def test_diagnostics(text, code, place):
    found = message(text)
    assert found.startswith(f"error[{code}]") and place in found and "^" in found


@pytest.mark.parametrize(
    "text", ["(" * 500 + "x" + ")" * 500, "rule a " + "-" * 5000 + "x => x", "rule a " + "x+" * 5000 + "x => x", "x" * 2_000_000]
)
def test_nesting_and_size_have_limits(text):
    with pytest.raises(HnfError):
        parse(text)


@given(st.text(alphabet="rulewhx=>()[]+-*/@,.\"'#0123456789 \n_ktesdf", max_size=60))
def test_any_text_gives_a_tree_or_a_diagnostic(text):
    try:
        parse(text)
    except HnfError as error:
        assert error.diagnostics and all(render(d, text) for d in error.diagnostics)
