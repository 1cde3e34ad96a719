"""Safer is what goes from right to wrong nowhere: a swallowed NaN, an infinity that becomes NaN, and lost digits are named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hnfc.dsl.ieee import IeeeStatus, ieee_verdicts
from hnfc.dsl.rulebook import load_text
from hnfc.dsl.soundness import prove
from hnfc.report.rules import beside, ieee_summary

LOGSUMEXP = "log(sum[k](exp(x))) => m + log(sum[k](exp(x - m)))\n    let m = max[k](x)"

NAMED = [
    (LOGSUMEXP, "inf to NaN"),
    ("maximum(a, b) => where(a > b, a, b)", "swallows NaN"),
    ("minimum(a, b) => where(a < b, a, b)", "swallows NaN"),
    ("x * 0 => 0", "swallows NaN"),
    ("x - x => 0", "swallows NaN"),
    ("a * b / b => a", "swallows NaN"),
    ("relu(x) => where(x > 0, x, 0)", "swallows NaN"),
    ("expm1(x) / exp(x) => 1 - exp(-x)", "loses digits"),
    ("sqrt(x) * sqrt(x) => x", "NaN to number"),
    ("exp(log(x)) => x", "NaN to number"),
    ("x * log(y) => xlogy(x, y)", "NaN to number"),
    ("sin(asin(x)) + sum[k](y) => x + sum[k](y)", "NaN to number"),
]

SAFER = [
    "log(1 + exp(x)) => maximum(x, 0) + log1p(exp(-abs(x)))",
    # 0/0 has the limit 2
    "(1 - x * x) / (1 - x) => 1 + x",
    "where(x > 0, exp(log(x)), x) => x",
    "sqrt(x * x) => abs(x)",
    "exp(x) / (1 + exp(x)) => where(x >= 0, 1 / (1 + exp(-x)), exp(x) / (1 + exp(x)))",
]


def judged(text: str, form: str = "f32") -> list:
    (rule,) = load_text(f"rule r\n    {text}\n", "t.hnf").rules
    return beside(prove(rule), ieee_verdicts(rule, (form,)))


@pytest.mark.parametrize(("text", "what"), NAMED)
@pytest.mark.parametrize("form", ["f32", "f16"])
def test_what_goes_wrong_is_named(text: str, what: str, form: str) -> None:
    (found,) = judged(text, form)
    assert found.status is IeeeStatus.MAY_LOSE and what in found.examples and what in str(found) and what in ieee_summary([found])


@pytest.mark.parametrize("text", SAFER)
def test_what_only_gains_is_safer(text: str) -> None:
    (found,) = judged(text)
    assert found.status is IeeeStatus.SAFER


WRONG = ["sqrt(x * x) => x", "3.141592653589793 * x / 180 => 0.017453292519943295 * x", "exp(x) * exp(x) => exp(x + 1)"]


@pytest.mark.parametrize("text", WRONG)
def test_a_refuted_rule_is_safer_nowhere(text: str) -> None:
    for form in ("f32", "f16", "f8E5M2"):
        assert all(found.status is not IeeeStatus.SAFER for found in judged(text, form))


def test_no_warning_reaches_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "r.hnf"
    narrow = "cast(cast(x, f16), f32) * 1e30"
    path.write_text(f"rule r\n    exp(x) * exp(x) => exp(2 * x)\nrule s\n    {narrow} => {narrow} + 0\n")
    environment = {**os.environ, "HNFC_CACHE": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "hnfc.cli.main", "check", "--no-cache", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert "Warning" not in done.stderr and ".py" not in done.stderr and "2 rules" in done.stderr
