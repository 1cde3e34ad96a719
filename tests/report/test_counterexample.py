"""Counterexamples step by step: the last step of each side is what the verdict says of it."""

from __future__ import annotations

import numpy as np
import pytest

from hnfc.core.verdicts import verdicts
from hnfc.dsl.rulebook import load_text
from hnfc.report.counterexample import evaluation_steps

RULES = {
    "negative scale": "relu(s * x) => s * relu(x)",
    "lost sign": "sqrt(x * x) => x",
    "reduction": "sum[k](exp(x)) => exp(sum[k](x))",
    "matrices": "a @ b => b @ a",
    "shared part": "exp(x) * x => exp(x) * exp(x)",
    "undefined right side": "abs(x) => x * abs(x) / x",
}


@pytest.mark.parametrize("text", RULES.values(), ids=RULES)
def test_the_last_step_is_the_verdicts(text: str) -> None:
    (rule,) = load_text(f"rule r\n    {text}", "r.hnf").rules
    example = verdicts([rule], jobs=1, cached=False)["r"].counterexample
    assert example is not None
    for side, expected in ((rule.pattern, example.left), (rule.replacement, example.right)):
        steps = evaluation_steps(side, example)
        assert len({step.part for step in steps}) == len(steps)
        value = np.array(steps[-1].value.replace("[", " ").replace("]", " ").replace(",", " ").split(), dtype=object)
        assert expected in value
