"""Certificates of rules: statements from meanings, proofs that `coqc` accepts, and none for what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from hnfc.core.certificates import certificates
from hnfc.core.verdicts import verdicts
from hnfc.dsl.certificates import checking
from hnfc.dsl.certificates.checking import AXIOMS, Folder, axioms
from hnfc.dsl.certificates.statement import statement
from hnfc.dsl.certificates.terms import NoMeaning
from hnfc.dsl.core import Rule
from hnfc.dsl.rulebook import shipped
from hnfc.dsl.soundness.judge import FITTING, NONEMPTY
from hnfc.dsl.soundness.verdict import Status, Verdict
from hnfc.report.rules import CHECKED, rule_table
from tests.soundness.reading import corpus, rule_of, rules_of

PROVED = Verdict(Status.PROVED, "")
WEAKEST = Verdict(Status.PROVED, "", shape_conditions=(NONEMPTY, FITTING))
"""A verdict that assumes most, so that its certificate claims least."""


def text(rule: str, verdict: Verdict = PROVED) -> str:
    return statement(rule_of(rule), verdict).theorem("r")


def test_a_statement_is_written_from_the_meanings_of_operations() -> None:
    assert text("sum[k](c * x) => c * sum[k](x)\n    where free[k](c)") == (
        "Theorem r : forall (axis_k : list nat) (c_shape : sizes) (c_value : index -> R) (x_shape : sizes) (x_value : index -> R),\n"
        "  let c_ := capture c_shape c_value in\n"
        "  let x_ := capture x_shape x_value in\n"
        "  let left := (t_sum axis_k (t_mul c_ x_)) in\n"
        "  let right := (t_mul c_ (t_sum axis_k x_)) in\n"
        "  NoDup (axis_k) ->\n"
        "  free axis_k c_shape ->\n"
        "  typed left -> typed right /\\ refines left right."
    )


def test_a_statement_assumes_what_the_verdict_assumes() -> None:
    rule = "sum[k](-x) => -sum[k](x)"
    assert "nonempty x_shape ->" in text(rule, WEAKEST) and "nonempty" not in text(rule)
    assert "typed left -> typed right -> refines" in text(rule, WEAKEST)


def test_an_axis_along_which_elements_move_is_one_axis() -> None:
    moved = text("slice[k](x, 1, const n) + sum[j](y) => sum[j](y) + slice[k](x, 1, n)")
    assert "(axis_j : list nat) (axis_k_at : nat)" in moved and "let axis_k := [axis_k_at] in" in moved
    assert "(t_slice axis_k_at (number 1) n_ (number 1) x_)" in moved


@pytest.mark.parametrize(
    ("rule", "assumed"),
    [
        ("x + y => y + x", True),
        ("slice[k](slice[k](x, 1, 5), 1, 2) => slice[k](x, 2, 3)", False),
        ("slice[k](x, 0, size[k](x)) <=> x", False),
    ],
)
def test_that_a_movement_stays_within_its_operand_is_never_assumed(rule: str, assumed: bool) -> None:
    assert ("typed left -> typed right -> refines" in text(rule, WEAKEST)) == assumed


def test_a_rule_for_both_ways_claims_both() -> None:
    assert text("a + b <=> b + a").count("refines") == 2


@pytest.mark.parametrize(
    ("rule", "missing"),
    [("lgamma(-x) => lgamma(x)", "lgamma"), ("cumsum[k](-x) => -cumsum[k](x)", "cumsum"), ("a @ cast(x, f16) => cast(x, f16)", "round_to")],
)
def test_a_part_without_a_meaning_is_named(rule: str, missing: str) -> None:
    with pytest.raises(NoMeaning, match=missing):
        text(rule)


def test_axioms_are_read_from_the_output_of_coq() -> None:
    listed = "Axioms:\nClassicalDedekindReals.sig_not_dec : forall P : Prop, {~ ~ P} + {~ P}\nmine\n  : False\n"
    assert axioms(listed) == {"ClassicalDedekindReals.sig_not_dec", "mine"}
    assert axioms("Closed under the global context\n") == frozenset()
    with pytest.raises(ValueError, match="no answer"):
        axioms("")


RIGHT = """library t "test"

rule product exp(a) * exp(b) => exp(a + b)
rule shift softmax[k](x + c) => softmax[k](x)
    where free[k](c)
rule choice where(p, a, 0) * b => where(p, a * b, 0)
"""

FAULTS = """library t "test"

rule constant_loses_its_factor sum[k](x * 0 + 3) => 3
rule wrong_axis sum[-1](x) + 0 * sum[-2](x) => sum[-2](x) + 0 * sum[-1](x)
rule missed_sign sum[k](x - y) => sum[k](x) + sum[k](y)
    where size[k](x) = size[k](y)
rule factor_of_a_varying_tensor sum[k](c * x) => c * sum[k](x)
rule greatest_of_a_negative_multiple max[k](-x) => -max[k](x)
rule transposed_in_order transpose(a @ b) => transpose(a) @ transpose(b)
rule root_without_its_sign sqrt(x * x) => x
rule undefined_at_zero x + 0 => x * x / x
rule logarithms_of_negatives log(a * b) => log(a) + log(b)
rule mean_without_its_count mean[k](x) => sum[k](x)
rule larger_shape sum[k](x * 0) => x * 0
rule error_function_without_its_sign erf(-x) => erf(x)
rule bessel_function_of_another_scale i0(x) => i0e(x)
rule reversed_in_order reverse[k](x) => x
rule parts_in_another_order concat[k](x, y) => concat[k](y, x)
rule slice_of_the_other_part slice[k](concat[k](x, y), 0, size[k](x)) => y
rule slice_beyond slice[k](x, 0, const n) => slice[k](slice[k](x, 0, n + 1), 0, n)
rule slice_of_slice_from_the_start slice[k](slice[k](x, const a, const b), const c, const d) => slice[k](x, c, d)
rule pad_that_cuts pad[k](pad[k](x, const a, const b), const c, const d) => pad[k](x, a + c, b + d)
rule padding_that_counts sum[k](pad[k](x, const a, const b, value=1)) => sum[k](x)
rule repetition_without_its_count sum[k](broadcast[k](x, const n)) => x
"""


def outcome(folder: Folder, rule: Rule, verdict: Verdict) -> str:
    return folder.write(rule, verdict).reason


@pytest.mark.sampled(2)
@pytest.mark.parametrize("rule", rules_of(RIGHT), ids=lambda rule: rule.name)
def test_a_certificate_is_accepted(folder: Folder, rule: Rule) -> None:
    assert outcome(folder, rule, WEAKEST) == ""
    assert axioms(folder.output(f"{rule.name}.v")) <= AXIOMS


def test_without_coq_a_certificate_is_written_and_not_called_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "coqc", lambda: None)
    (rule, *_) = rules_of(RIGHT)
    assert Folder(tmp_path).write(rule, PROVED).reason == "not checked: coqc is not installed"
    assert (tmp_path / f"{rule.name}.v").is_file() and (tmp_path / "Hnf" / "Tensors.v").is_file()


def test_a_proof_is_ended_when_its_processor_time_is_up(folder: Folder) -> None:
    long = "Fixpoint all n := match n with 0 => true | S m => andb (all m) (all m) end.\nEval vm_compute in all 60.\n"
    (folder.directory / "long.v").write_text(long)
    assert folder.fault("long.v", limit=1.0) == checking.TOO_LONG


SHIPPED = shipped().rules


def test_the_table_of_certificates_that_ship_is_of_these_rules_and_this_theory() -> None:
    found = certificates(SHIPPED, verdicts(SHIPPED))
    assert sum(result.accepted for result in found.values()) >= 0.9 * len(SHIPPED)


def test_the_list_of_rules_shows_what_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    chosen = [rule for rule in SHIPPED if rule.name in ("log1p_fusion", "permute_twice")]
    found = verdicts(chosen)
    lines = rule_table(chosen, found, certificates(chosen, found)).splitlines()[2:]
    assert [CHECKED in line for line in lines] == [False, True, True]
    assert lines[-1] == "2 rules: 2 proved, 1 kernel-checked"


@pytest.mark.parametrize("name", ["log1p_fusion", "sum_splits", "one_plus_erf", "sum_of_concat"])
def test_coq_accepts_what_the_table_says(folder: Folder, name: str) -> None:
    (rule,) = (rule for rule in SHIPPED if rule.name == name)
    found = verdicts([rule])
    assert certificates([rule], found)[name].accepted
    assert outcome(folder, rule, found[name]) == ""


@pytest.mark.slow
@pytest.mark.parametrize("rule", rules_of(FAULTS), ids=lambda rule: rule.name)
def test_a_fault_of_the_prover_has_no_certificate(folder: Folder, rule: Rule) -> None:
    assert outcome(folder, rule, WEAKEST)
    assert not (folder.directory / f"{rule.name}.v").exists()


@pytest.mark.slow
@pytest.mark.parametrize("rule", corpus("refuted.hnf"), ids=lambda rule: rule.name)
def test_a_wrong_rule_has_no_certificate(folder: Folder, rule: Rule) -> None:
    assert outcome(folder, rule, WEAKEST)
