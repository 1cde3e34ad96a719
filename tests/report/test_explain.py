"""The page of a rule, and the document that holds all of them."""

from __future__ import annotations

import re

import pytest

from hnfc.core.verdicts import verdicts
from hnfc.dsl.error import ErrorReport, error_reports
from hnfc.dsl.ieee import IeeeExample, IeeeStatus, IeeeTensor, IeeeVerdict
from hnfc.dsl.rulebook import load_files, shipped
from hnfc.dsl.soundness.proof import Proof
from hnfc.report.explain import accuracy, explain, rule_text
from hnfc.report.proof_steps import proof_steps
from hnfc.report.rules_document import generated, rules_markdown

BOOK = shipped()


@pytest.fixture(scope="module")
def known():
    return verdicts(BOOK.rules), error_reports(BOOK.rules)


def page(name, known, ieee=(), width=100):
    rule = BOOK.named(name)
    assert rule is not None
    return explain(BOOK, rule, known[0][name], ieee, known[1][name], width)


@pytest.mark.parametrize("groups", [("canonical", "fusion"), pytest.param(tuple(BOOK.groups()), marks=pytest.mark.slow)])
def test_the_document_has_a_section_for_every_rule_and_no_times(groups):
    book = BOOK.only(groups)
    document = generated(book)
    headings = re.findall(r"^### (\w+)$", document, re.MULTILINE)
    assert headings == [rule.name for rules in book.groups().values() for rule in rules]
    links = re.findall(r"\]\(#(\w+)\)", document)
    assert sorted(links) == sorted([*headings, *book.groups()])
    assert not re.search(r"\bseconds\b|\d\.\d+ s\b", document)


def test_what_a_page_holds(known):
    text = page("exp_product", known)
    for part in (
        "exp_product  (stability)",
        "one factor may overflow while the product is a plain number",
        "exp(a) * exp(b) => exp(a + b)",
        "source: tensorflow/tensorflow#123169",
        "Over the reals: PROVED",
        "both become exp(a)·exp(b)",
        "left 17·exp(a)·exp(b)",
        "right (|a + b| + 8)·exp(a + b)",
        "exactly where |a + b| ≤ 9",
    ):
        assert part in " ".join(text.split()) or part in text, part


def test_proofs_by_cases_are_explained_case_by_case(known):
    steps = proof_steps(BOOK.named("sqrt_of_square"), known[0]["sqrt_of_square"])
    assert "If `x ≥ 0`: the left side and the right side both become `x`." in steps
    assert "If `x < 0`: the left side and the right side both become `-x`." in steps


def test_definitions_conditions_and_both_directions_are_explained(known):
    assert "`softmax` is e^x / Σ e^x along axes" in proof_steps(BOOK.named("softmax_fusion"), known[0]["softmax_fusion"])[0]
    assert any("has a value where `x > 0`" in step for step in proof_steps(BOOK.named("exp_of_log"), known[0]["exp_of_log"]))
    assert any("from right to left" in step for step in proof_steps(BOOK.named("matmul_chain"), known[0]["matmul_chain"]))
    assert any("multiple-angle" in step for step in proof_steps(BOOK.named("one_minus_cos"), known[0]["one_minus_cos"]))


@pytest.mark.parametrize("width", [72, 100, 160])
def test_no_line_is_longer_than_the_width(width, known):
    for name in ("softmax_fusion", "batch_norm_of_product", "softmax_widened", "distance_of_products"):
        before, rule, after = re.split(r"\nRule\n|\n  source:", page(name, known, width=width), maxsplit=2)
        assert rule
        for line in (before + after).split("\n"):
            assert len(line) <= width or " " not in line.strip(), line
        assert "`" not in page(name, known, width=width)


def test_definitions_that_a_rule_uses_are_shown():
    assert rule_text(BOOK, BOOK.named("softmax_widened")).startswith("def widened(x) = cast(x, f32)\nsoftmax[k](x : f16 | bf16) =>")
    assert rule_text(BOOK, BOOK.named("norm_scaled")).split("\n")[1] == "let m = max[k](abs(x))"


def test_verdicts_in_floating_point_are_shown(known):
    x = IeeeTensor((), ("1e3",), "f32")
    example = IeeeExample((("a", x), ("b", x)), (), (), "inf", "1", "f32")
    found = (
        IeeeVerdict("f32", IeeeStatus.MAY_LOSE, "search over 10 inputs", examples={"loses": example}, ulps=3.0),
        IeeeVerdict("f16", IeeeStatus.EXACT_UNLESS, "all inputs", ("NaNs",), True),
    )
    text = page("exp_product", known, found)
    assert "f32    may lose (search over 10 inputs); the sides are at most 3 numbers of the format apart" in text
    assert "loses: a = 1e3, b = 1e3: inf and 1" in text and "f16    exact unless NaNs, proved" in text
    markdown = rules_markdown(BOOK.only(["movement"]), known[0], {"where_same": found}, known[1])
    assert "| f32 | may lose (search over 10 inputs)" in markdown and "`loses: a = 1e3, b = 1e3: inf and 1`" in markdown


def test_rules_that_are_not_proved_have_pages(tmp_path):
    path = tmp_path / "own.hnf"
    path.write_text(
        'rule wrong "it is not"\n    sqrt(x * x) => x\nrule open "who knows"\n    floor(x * y) => floor(y * x + 0 * lgamma(y))\n'
    )
    book = load_files([path])
    found = verdicts(book.rules)
    for rule in book.rules:
        text = explain(book, rule, found[rule.name], (), error_reports([rule])[rule.name])
        assert found[rule.name].status.value in text
    assert "Counterexample: x = -1" in explain(book, book.rules[0], found["wrong"], (), ErrorReport())


def test_a_proof_that_cannot_be_carried_out_again_is_explained_as_it_was(monkeypatch, known):
    from hnfc.dsl.soundness.proof import Blocked

    def blocked(self):
        raise Blocked("out of time")

    monkeypatch.setattr(Proof, "run", blocked)
    steps = proof_steps(BOOK.named("self_quotient"), known[0]["self_quotient"])
    assert steps[1:] == [f"{step}." for step in known[0]["self_quotient"].steps]


def test_accuracy_in_words(known):
    _, errors = known
    assert accuracy(errors["log1p_fusion"]) == "The right side's bound is never the larger one. This is proved."
    assert accuracy(errors["mean_of_sum"]) == "Both sides have the same bound."
    assert "never the smaller one" in accuracy(errors["hypot_fusion"]) and "2.67 times the left one" in accuracy(errors["hypot_fusion"])
    assert accuracy(ErrorReport(notes=("no formula",))) == "Which bound is smaller is not known (no formula)."
