"""`hnfc.dsl.check`: a rule or a text in, a verdict with its counterexample and its proof as data out."""

from __future__ import annotations

import json
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

import hnfc.dsl
from hnfc.dsl.diagnostics import HnfError
from hnfc.dsl.soundness import Status, Tensor, Verdict, prove
from hnfc.dsl.soundness.checking import check
from hnfc.dsl.soundness.obligations import Obligation
from hnfc.dsl.soundness.verdict import Counterexample
from tests.soundness.reading import rule_of


def test_a_rule_or_its_text() -> None:
    rule = rule_of("log(1 + x) => log1p(x)")
    assert hnfc.dsl.check(rule).proved
    verdict = hnfc.dsl.check("rule r log(1 + x) => log1p(x)")
    assert verdict.proved
    assert verdict.rule is not None
    assert verdict.rule.pattern == rule.pattern


def test_a_text_may_define_and_import() -> None:
    assert hnfc.dsl.check("def f(x) = 1 + exp(x)\nrule r log(f(x)) => log1p(exp(x))").proved
    verdict = hnfc.dsl.check('import "folding.hnf"\nrule r log(1 + x) => log1p(x)')
    assert verdict.rule is not None
    assert verdict.rule.name == "r"


@pytest.mark.parametrize("text", ["", "def f(x) = x", "rule a log(1 + x) => log1p(x)\nrule b exp(x) - 1 => expm1(x)"])
def test_a_text_without_one_rule_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="rules, not one"):
        hnfc.dsl.check(text)


def test_a_wrong_text_is_a_diagnostic() -> None:
    with pytest.raises(HnfError, match=r"<text>:1"):
        hnfc.dsl.check("rule r log(1 + x) => log1p(y)")


def test_the_time_is_limited() -> None:
    assert hnfc.dsl.check("rule r log(1 + x) => log1p(x)", timeout_ms=5000).proved


def test_nothing_heavy_is_loaded_before_it_is_needed() -> None:
    code = "import sys, hnfc.dsl; assert not {'z3', 'flint', 'numpy', 'xdsl'} & sys.modules.keys(); hnfc.dsl.check"
    subprocess.run([sys.executable, "-c", code], check=True)


# Obligations -----------------------------------------------------------------------------------------------------------


def test_obligations_are_made_when_asked_for() -> None:
    verdict = hnfc.dsl.check("rule r log(1 + x) => log1p(x)")
    assert "obligations" not in verdict.__dict__
    found = verdict.obligations
    assert found and all(isinstance(obligation, Obligation) for obligation in found)
    assert verdict.obligations is found


def test_what_is_not_proved_has_none() -> None:
    assert hnfc.dsl.check("rule r exp(a * b) => exp(a) * exp(b)").obligations == ()


def test_a_verdict_without_its_rule_says_so() -> None:
    verdict = prove(rule_of("log(1 + x) => log1p(x)"))
    with pytest.raises(ValueError, match="which rule"):
        _ = verdict.obligations


def test_the_rule_is_no_part_of_the_verdict_as_data() -> None:
    rule = rule_of("log(1 + x) => log1p(x)")
    verdict = hnfc.dsl.check(rule)
    assert "rule" not in verdict.to_json()
    again = Verdict.from_json(json.loads(json.dumps(verdict.to_json())))
    assert again == verdict
    assert again.rule is None
    assert "rule" not in repr(verdict)


# Arrays ----------------------------------------------------------------------------------------------------------------


def example(**inputs: Tensor) -> Counterexample:
    return Counterexample(tuple(inputs.items()), (), (), "0", "1")


def test_arrays_have_the_shapes_and_the_values() -> None:
    found = example(x=Tensor((2, 1), ("1/2", "-3")), p=Tensor((2,), ("true", "false")), c=Tensor((), ("7",)))
    arrays = found.arrays()
    assert arrays["x"].dtype == np.float64
    assert arrays["x"].tolist() == [[0.5], [-3.0]]
    assert arrays["p"].dtype == np.bool_
    assert arrays["p"].tolist() == [True, False]
    assert arrays["c"].shape == ()
    assert found.rounded == ()


def test_what_float64_cannot_hold_is_named() -> None:
    found = example(x=Tensor((2,), ("1/3", "1")), y=Tensor((1,), (str(2**53 + 1),)), z=Tensor((1,), ("1/1024",)))
    assert found.rounded == ("x", "y")
    assert found.fractions()["x"].tolist() == [Fraction(1, 3), Fraction(1)]
    assert found.fractions()["y"].tolist() == [Fraction(2**53 + 1)]
    assert float(found.arrays()["x"][0]) == 1 / 3


def test_a_counterexample_breaks_the_rule_in_numpy() -> None:
    verdict = hnfc.dsl.check("rule r sum[k](x * y) => sum[k](x) * sum[k](y)")
    assert verdict.status is Status.REFUTED
    assert verdict.counterexample is not None
    x, y = (verdict.counterexample.arrays()[name] for name in "xy")
    (axis,) = dict(verdict.counterexample.axes)["k"]

    def total(a: np.ndarray) -> np.ndarray:
        return a.sum(axis, keepdims=True) if a.ndim >= -axis else a

    left, right = np.broadcast_arrays(total(x * y), total(x) * total(y))
    assert left[verdict.counterexample.index] != right[verdict.counterexample.index]


def test_a_verdict_reads_well_and_is_html_in_notebooks():
    proved, refuted = check("rule r\n    exp(log(x)) * y => x * y"), check("rule r\n    sqrt(x * x) => x")
    assert str(proved).startswith("PROVED: ") and "\n  1. " in str(proved)
    assert str(refuted).startswith("REFUTED: ") and "counterexample over the reals: x = " in str(refuted) and "where x >= 0" in str(refuted)
    assert refuted._repr_html_().startswith("<div><strong>REFUTED") and "x &gt;= 0" in refuted._repr_html_()
    assert proved._repr_html_().count("<li>") == len(proved.steps)


def test_a_large_process_has_rules_judged():
    """Memory that the caller has mapped counts for no rule."""
    code = (
        "import mmap\nheld = mmap.mmap(-1, 6 * 2**30)\nfrom hnfc.dsl.rulebook import shipped\nfrom hnfc.dsl.soundness import prove_all\n"
        "print(prove_all([rule for rule in shipped().rules if rule.name == 'logsumexp_of_weighted'], jobs=1)[0].status.value)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "PROVED\n", done.stderr
