"""Every step of a proof, checked by a solver that is not Z3: cvc5 confirms what it can decide, and contradicts nothing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import cvc5
import pytest
import z3

from hnfc.dsl.core import Rule
from hnfc.dsl.description import rule_line
from hnfc.dsl.rulebook import shipped
from hnfc.dsl.soundness import axioms, smtlib, tracing
from hnfc.dsl.soundness.claims import ClaimNode
from hnfc.dsl.soundness.formulas import RESERVED
from hnfc.dsl.soundness.obligations import REASONS, STEPS, Blocked, Obligation, obligations
from hnfc.dsl.soundness.proof import Proof
from hnfc.dsl.soundness.signs import POS, Signs
from hnfc.dsl.soundness.smtlib import safe, to_smt2, variables, write_smt2
from tests.soundness.reading import corpus, rule_of

SECONDS = 2.0
PROVED = corpus("proved.hnf")
CHOSEN = (
    "softplus_stable", "log1mexp", "acosh_stable", "cosine_difference", "hypot_scaled", "xlogy", "conjugate", "where_times",
    "softmax_shift", "geometric_mean", "entropy", "max_scale", "rms_scaled", "matmul_assoc", "angle_sum", "row_sum_of_product",
    "sum_concat", "slice_slice", "gather_lse", "reshape_exp", "conv_times_number", "quadratic_root", "log_sqrt", "norm_scaled",
)  # fmt: skip
"""Rules whose proofs have every kind of step."""


def asked(text: str, seconds: float = SECONDS) -> str:
    """cvc5's answer to an SMT-LIB text; `unknown` where it runs out of time."""
    manager = cvc5.TermManager()
    solver = cvc5.Solver(manager)
    solver.setOption("tlimit-per", str(int(1000 * seconds)))
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, text, "obligation")
    said = []
    while not (command := parser.nextCommand()).isNull():
        said.append(command.invoke(solver, parser.getSymbolManager()).strip())
    return next((answer for answer in said if answer), "")


def confirm(rules: Iterable[Rule]) -> tuple[Counter[str], list[str]]:
    """How many obligations cvc5 confirms, and how many it leaves open; and those that it contradicts."""
    counts: Counter[str] = Counter()
    contradicted = []
    for rule in rules:
        for obligation in obligations(rule):
            answer = asked(to_smt2(obligation, rule_line(rule)))
            counts["confirmed" if answer == "unsat" else "open" if answer.startswith("unknown") else "contradicted"] += 1
            if answer != "unsat" and not answer.startswith("unknown"):
                contradicted.append(f"{rule.name}: {obligation.name}: {answer}")
    return counts, contradicted


@pytest.mark.slow
def test_cvc5_confirms_proofs(record_property: Callable[[str, str], None]) -> None:
    rules = [rule for rule in PROVED if rule.name in CHOSEN] + shipped().rules[::18]
    counts, contradicted = confirm(rules)
    record_property("shown", f"obligations of {len(rules)} rules, by cvc5: {dict(counts)}")
    assert not contradicted
    assert counts["confirmed"] > 0.98 * sum(counts.values())


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_cvc5_confirms_every_proof(part: int, record_property: Callable[[str, str], None]) -> None:
    rules = [*shipped().rules, *PROVED][part::8]
    counts, contradicted = confirm(rules)
    record_property("shown", f"obligations of {len(rules)} rules, by cvc5: {dict(counts)}")
    assert not contradicted
    assert counts["confirmed"] > 0.98 * sum(counts.values())


FEW = [rule for rule in PROVED if rule.name in CHOSEN[::3]]


@pytest.fixture(scope="module")
def few() -> list[Obligation]:
    return [obligation for rule in FEW for obligation in obligations(rule)]


def test_every_kind_of_step_occurs(few: list[Obligation]) -> None:
    assert {obligation.kind for obligation in few} >= {"equality", "defined", "side condition", "case split", "vacuous case"}
    assert {kind for kind, _ in STEPS.values()} == {"equality", "defined", "side condition", "case split", "vacuous case"}


def test_nothing_is_assumed_that_is_not_listed(few: list[Obligation]) -> None:
    listed = {entry.name for entry in (*axioms.AXIOMS, *axioms.PAIR_AXIOMS, *axioms.THEOREMS)} | {
        name.replace(" ", "-") for name in REASONS
    }
    assert {assumption.name for obligation in few for assumption in obligation.assumptions} <= listed


def test_what_is_assumed_is_possible(few: list[Obligation]) -> None:
    """From assumptions that exclude each other anything would follow."""
    for obligation in few:
        solver = z3.SolverFor("QF_NRA")
        solver.set("timeout", 1000)
        solver.add(*(assumption.formula for assumption in obligation.assumptions))
        if obligation.kind != "vacuous case":
            assert solver.check() != z3.unsat, (obligation.rule, obligation.name)


def test_no_formula_divides(few: list[Obligation]) -> None:
    """Division is total in SMT-LIB, and partial in mathematics."""
    for obligation in few:
        for formula in (obligation.goal, *(assumption.formula for assumption in obligation.assumptions)):
            # what is left of `/` is the notation of rational numbers
            assert not re.search(r"\(/ (?!\d+\.0 \d+\.0\))", formula.sexpr())


def test_names_of_obligations_differ(few: list[Obligation]) -> None:
    names = [(obligation.rule, obligation.name) for obligation in few]
    assert len(names) == len(set(names))


def test_variables_have_meanings_and_no_other_names(few: list[Obligation]) -> None:
    for obligation in few:
        legend = dict(obligation.legend)
        assert len(legend) == len(obligation.legend)
        used = variables([obligation.goal, *(assumption.formula for assumption in obligation.assumptions)])
        assert used.keys() <= legend.keys()
        assert not used.keys() & RESERVED
        assert all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) for name in used)


def test_files_are_read_back(tmp_path: Path) -> None:
    rule = next(rule for rule in PROVED if rule.name == "softmax_shift")
    paths = write_smt2(rule, tmp_path / "new" / "folder")
    found = obligations(rule)
    assert len(paths) == len(found) == len(list((tmp_path / "new" / "folder").iterdir()))
    for path, obligation in zip(paths, found, strict=True):
        text = path.read_text(encoding="utf-8")
        assert text == to_smt2(obligation, rule_line(rule))
        assert "(set-info :status unsat)" in text
        assert text.count("(check-sat)") == 1
        formulas = z3.parse_smt2_string(text)
        solver = z3.SolverFor("QF_NRA")
        solver.add(formulas)
        assert len(formulas) == len(obligation.assumptions) + 1
        assert solver.check() == z3.unsat
        assert obligation.solver().check() == z3.unsat
        assert asked(text) == "unsat"


def test_a_file_says_what_it_is_about(tmp_path: Path) -> None:
    rule = next(rule for rule in PROVED if rule.name == "softmax_shift")
    (path,) = (path for path in write_smt2(rule, tmp_path) if path.stem.endswith("equality"))
    text = path.read_text(encoding="utf-8")
    assert "; The two sides have the same value." in text
    assert "softmax_shift: softmax[k](x) => exp(x - max[k](x)) / sum[k](exp(x - max[k](x)))" in text
    assert re.search(r"; (\w+) = Σ_a0\(exp\(x\[a0\]\)\)\n\(declare-fun \1 \(\) Real\)", text)
    assert re.search(r"; by exp-of-sum.*\n\(assert \(! \(= t_\d+ .*\) :named exp-of-sum-1\)\)", text)


def test_a_name_is_safe_in_any_file_system() -> None:
    assert safe("left-to-right/case 2/a b") == "left-to-right-case-2-a-b"
    assert safe("../../etc/passwd") == "etc-passwd"
    assert safe("Ω|\\:*") == "rule"
    assert len(safe("x" * 500)) <= 80


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise OSError("full")

    monkeypatch.setattr(smtlib.os, "replace", fails)
    with pytest.raises(OSError, match="full"):
        write_smt2(rule_of("log(1 + x) => log1p(x)"), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_rule_that_is_not_proved_has_no_obligations() -> None:
    with pytest.raises(Blocked):
        obligations(rule_of("exp(a * b) => exp(a) * exp(b)"))
    with pytest.raises(Blocked):
        obligations(rule_of("sin(x) ~> x within 0.25\n where x > -1 and x < 1"))


def test_odd_names_of_captures() -> None:
    """Names that solvers use themselves, and names that our own variables have."""
    rule = rule_of("log(exp(div)) + log(exp(e_1)) + log(exp(t_1)) + log(exp(e)) => div + e_1 + t_1 + e")
    for obligation in obligations(rule):
        assert asked(to_smt2(obligation)) == "unsat"
        assert z3.parse_smt2_string(to_smt2(obligation))


# A fault of the prover is seen ------------------------------------------------------------------------------------------


def contradicted(rule: Rule) -> set[str]:
    """The steps that cvc5 contradicts of the proof that a prover with a fault finds."""
    found = obligations(rule)
    return {obligation.name.split("/")[-1].split(" ")[0] for obligation in found if "got sat" in asked(to_smt2(obligation))}


@pytest.mark.parametrize(
    ("op", "fault", "text"),
    [
        ("*", lambda x, y: x + y, "exp(a * b) => exp(a + b)"),
        ("+", lambda x, y: x - y, "log(a + b) => log(a - b)"),
        ("-", lambda x, y: x + y, "(a - b) / c => (a + b) / c"),
    ],
)
def test_wrong_arithmetic_of_normal_forms_is_seen(
    op: str, fault: Callable[[Any, Any], Any], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The written expression is translated without the arithmetic of normal forms."""
    right = tracing.combined
    inputs: list[Any] = []

    def wrong(given: str, left: Any, other: Any) -> Any:
        operands = tracing.node_of(left), tracing.node_of(other)
        if given != op or any(node.op != "capture" for node in operands):
            return right(given, left, other)
        inputs.append(operands)
        value = fault(tracing.plain(left), tracing.plain(other))
        return tracing.Traced(value, ClaimNode(op, operands, value))

    monkeypatch.setattr(tracing, "combined", wrong)
    assert contradicted(rule_of(text)) & {"normal", "equality"}
    assert inputs


def test_a_wrong_sign_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Signs.atom_sign
    monkeypatch.setattr(Signs, "atom_sign", lambda self, base: POS if base.kind == "cap" else right(self, base))
    assert "sign" in contradicted(rule_of("sqrt(x * x) => 1 * x"))


def test_a_case_that_is_forgotten_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Proof.case

    def one_sided(self: Proof, meaning: Any, assumptions: Any) -> None:
        if not assumptions or assumptions[-1][1]:
            right(self, meaning, assumptions)

    monkeypatch.setattr(Proof, "case", one_sided)
    assert contradicted(rule_of("abs(x) => 1 * x")) == {"cases"}
