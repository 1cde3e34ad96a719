"""StableHLO's own test data, by `make suites`: none wrong, none that raises or ends the process; each hundredth case by `make slow`."""

from __future__ import annotations

import pytest

from hnfc.pipeline.rulesets import load_rules
from tests.suites import forked, stablehlo_data
from tests.suites.checkouts import STABLEHLO, checkout

TEXT = """func.func public @main() -> (tensor<2xf32>) {
    %0 = call @inputs() : () -> tensor<2xf32>
    %2 = stablehlo.exponential %0 : tensor<2xf32>
    stablehlo.custom_call @check.expect_close(%2, %0) {has_side_effect = true} : (tensor<2xf32>, tensor<2xf32>) -> ()
    return %2 : tensor<2xf32>
  }
  func.func private @inputs() -> tensor<2xf32> {
    %cst = stablehlo.constant dense<[1.0, -2.0]> : tensor<2xf32>
    return %cst : tensor<2xf32>
  }
"""


def outcomes(every):
    load_rules("all")
    cases = list(stablehlo_data.cases(checkout(STABLEHLO)))
    assert len(cases) > 5000
    return list(forked.run(cases[::every], seconds=180, batch=stablehlo_data.BATCH))


@pytest.mark.slow
def test_a_hundredth():
    assert forked.faults(outcomes(100)) == []


@pytest.mark.suites
def test_all():
    found = outcomes(1)
    print(forked.counts(found))
    assert forked.faults(found) == []
    assert forked.counts(found)[forked.RIGHT] >= 0.97 * len(found)


def test_what_is_given_becomes_an_argument():
    program, inputs = stablehlo_data.lifted(TEXT)
    assert "@main(%given0: tensor<2xf32>)" in program and "stablehlo.exponential %given0" in program
    assert "func.func public @main() -> tensor<2xf32>" in inputs


@pytest.mark.parametrize("check", [
    "check.expect_eq_const %0, dense<[1.0, 2.0]> : tensor<2xf32>", "check.expect_almost_eq %0, %0 : tensor<2xf32>",
    '"check.expect_eq_const"(%0) <{value = dense<[1.0, 2.0]> : tensor<2xf32>}> : (tensor<2xf32>) -> ()',
    "check.expect_close %0, %0, max_ulp_difference = 3 : tensor<2xf32>, tensor<2xf32>",
])  # fmt: skip
def test_checks_become_calls(check):
    made = stablehlo_data.with_calls(f"func.func @f() {{\n  {check}\n  func.return\n}}")
    assert "func.func @main()" in made and made.count("stablehlo.custom_call @check.expect") == 1
    assert made.count("stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>") == ("const" in check)


@pytest.mark.slow
def test_a_wrong_result_is_found(monkeypatch):
    def changed(text):
        return 0, text.replace("stablehlo.exponential", "stablehlo.sine"), ""

    given = stablehlo_data.lifted(TEXT)
    cases = [("same", lambda: stablehlo_data.judged(*given))]
    assert [outcome.kind for outcome in forked.run(cases)] == [forked.RIGHT]
    monkeypatch.setattr(stablehlo_data, "rewritten", changed)
    assert [outcome.kind for outcome in forked.run(cases)] == [forked.WRONG]
