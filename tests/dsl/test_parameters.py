"""`for` clauses: how they read and print, and what is wrong with those that do not fit."""

from __future__ import annotations

import pytest

from hnfc.dsl.description import rule_line
from hnfc.dsl.diagnostics import HnfError
from hnfc.dsl.fingerprint import fingerprint
from hnfc.dsl.parser import parse
from hnfc.dsl.printer import print_file
from hnfc.dsl.rulebook import load_text
from hnfc.pipeline.rulesets import load_rules
from hnfc.report.text import withheld_words
from hnfc.rewrite.rule_tests import run_tests

SHIFT = "rule a exp(x) => exp(x - c) * exp(c) "


@pytest.mark.parametrize(
    "text, code",
    [
        ("rule a exp(x) => exp(x) + c - c for x", "HNF0246"),
        ("rule a exp(x) => exp(x) for c", "HNF0248"),
        ("rule a exp(x + c) => exp(x) * exp(c) for c", "HNF0246"),
        ("rule a exp(x) <=> exp(x - c) * exp(c) for c", "HNF0245"),
        ("rule a exp(x) ~> exp(x - c) * exp(c) for c within 0.1", "HNF0245"),
        (SHIFT + "for c < x", "HNF0247"),
        (SHIFT + "for 3 > 2", "HNF0247"),
        (SHIFT + "for (c : f16)", "HNF0247"),
        (SHIFT + "for pi", "HNF0247"),
        (SHIFT + "for c > d", "HNF0247"),
        (SHIFT + "for c + 1", "HNF0234"),
        (SHIFT + "for c where c < x", "HNF0249"),
        (SHIFT + "for c where not size[-1](c) = size[-1](x)", "HNF0249"),
        (SHIFT + "for c when c > 0", "HNF0249"),
        (SHIFT + "for c, c", "HNF0246"),
        (SHIFT + "for c for c > 0", "HNF0106"),
        (SHIFT + "for c > 0 where c < y", "HNF0214"),
        (SHIFT + "for orthogonal c > 0", "HNF0103"),
        (SHIFT + "for positive c", "HNF0103"),
        (SHIFT + "for", "HNF0104"),
        ("rule a exp(x) => exp(x - m) * exp(m) let m = x * 2 for m", "HNF0246"),
        ("rule a exp(x) => exp(x - f32) for f32", "HNF0246"),
        ("rule a sum[k](x) => x * c for c where size[k](c) = size[k](x) and free[k](c)", "HNF0249"),
        ("rule a x * y => x * c * y / c for c where size[-1](c) = size[-1](x) and size[-1](c) = size[-1](y)", "HNF0249"),
        ("rule a matmul(x, y) => matmul(x, y) * sum[-1](h) for orthogonal h where shape(h) = shape(x) and rank(h) = 2", "HNF0249"),
        ("rule a x * 2 => (x + c + d - c - d) * 2 for c, d where size[-1](c) = size[-1](d) and size[-1](c) = size[-1](x)",
         "HNF0249"),
    ],
)  # fmt: skip
def test_a_fault_has_a_place_and_a_way_out(text, code):
    with pytest.raises(HnfError) as caught:
        load_text(text, "a.hnf")
    fault = caught.value.diagnostics[0]
    assert fault.code == code and fault.span is not None
    assert fault.help or code == "HNF0104"


def test_it_prints_and_parses_back():
    text = "rule a matmul(x, w) => matmul(x / s, matmul(transpose(s) * w, h)) for 0 < s < 8, orthogonal h where free[-2](s)\n"
    printed = print_file(parse(text))
    assert "\n    for 0 < s and s < 8, orthogonal h\n    where free[-2](s)\n" in printed
    assert print_file(parse(printed)) == printed
    (rule,) = load_text(text, "a.hnf").rules
    assert rule.parameters == ("s", "h")
    again = load_text("rule a " + rule_line(rule), "a.hnf").rules[0]
    assert again.parameters == rule.parameters and rule_line(again) == rule_line(rule) and "for s, orthogonal h where" in rule_line(rule)


def test_a_name_may_be_orthogonal():
    (rule,) = load_text("rule a exp(orthogonal) => exp(orthogonal - c) * exp(c) for c", "a.hnf").rules
    assert rule.parameters == ("c",)


def test_its_conditions_are_part_of_the_fingerprint():
    texts = ("for s > 0", "for s < 0", "for s", "for const s")
    rules = [load_text(f"rule a relu(x) => relu(x * s) / s {text}", "a.hnf").rules[0] for text in texts]
    assert len(set(map(fingerprint, rules))) == len(rules)


def test_it_does_not_run_by_itself_and_says_so(tmp_path):
    path = tmp_path / "own.hnf"
    path.write_text("rule shifted softmax[k](x) => softmax[k](x - c) for c where free[k](c)\n")
    rules = load_rules(path)
    assert rules["shifted"].verdict.proved and rules.withheld == ["shifted"] and rules.allowed() == [[]]
    assert "nothing chooses values for its parameters" in withheld_words("shifted", rules["shifted"].verdict)
    assert load_rules(path, allow_unproved=["shifted"]).allowed() == [[]]


CASES = (
    ("x = [[1, 2]], w = [[3], [4]], h = [[0.6, -0.8], [0.8, 0.6]] gives [[11]]", ""),
    ("x = [[1, 2]], w = [[3], [4]], h = [[0.6, -0.8], [0.8, 0.6]] gives [[12]]", "is expected"),
    ("x = [[1, 2]], w = [[3], [4]], h = [[0.6, 0.8], [0.8, 0.6]] gives [[11]]", "not orthogonal"),
    ("x = [[1, 2]], w = [[3], [4]], h = [[1]] gives [[11]]", "cannot be built"),
    ("x = [[1, 2]], w = [[3], [4]] gives [[11]]", "has no value"),
    ("unchanged: exp(y)", "says nothing"),
)


@pytest.mark.parametrize("case, fault", CASES)
def test_tests_give_values(case, fault):
    rule = "rule rotated matmul(x, w) => matmul(matmul(x, h), matmul(transpose(h), w)) for orthogonal h\n"
    (result,) = run_tests(load_text(f"{rule}test rotated\n {case}\n", "a.hnf"))
    assert result.passed is (not fault)
    assert result.diagnostic is None or fault in result.diagnostic.message


def test_a_value_outside_its_condition_is_a_fault():
    rule = "rule scaled relu(x) => relu(x * s) / s for s > 0\ntest scaled\n x = [1], s = -2 gives [1]\n"
    (result,) = run_tests(load_text(rule, "a.hnf"))
    assert "do not meet a condition" in result.diagnostic.message
